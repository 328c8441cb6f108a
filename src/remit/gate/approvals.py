"""Asking a person: the question waits here, inside the agent's hook, until somebody answers or the time is over.

It is put only where somebody can answer: a terminal that runs `remit approvals watch` says so every second.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from msgspec import Struct

from remit.core.decision import ErrorType
from remit.core.grant import Extent, Grant
from remit.gate.state import State

PRESENT_S = 5.0
"""A watcher that was silent for this long is not there any more."""

POLL_S = 0.05


class Question(Struct, frozen=True):
    """What a person is asked. `action` is the exact call; `pattern` what a wider yes would cover."""

    id: str
    session_id: str
    agent: str
    intent_id: str | None
    code: ErrorType
    action: str
    message: str
    path: str | None = None
    risk: int = 0
    reasons: tuple[str, ...] = ()
    asked_at: float = 0.0
    expires_at: float = 0.0


class Reply(Struct, frozen=True):
    """What a person answered."""

    allow: bool
    words: str = ""
    by: str = "person"
    extent: Extent = "once"
    pattern: str | None = None


class Approvals:
    """The questions of one workspace."""

    def __init__(self, state: State, clock: Callable[[], float]) -> None:
        self.state = state
        self.clock = clock

    # -- the side that asks ---------------------------------------------------------------------------------

    def somebody_there(self) -> bool:
        """Whether a person can answer now."""
        return self.clock() - float(self.state.fact("watched_at") or 0) < PRESENT_S

    def ask(self, question: Question) -> None:
        """Put the question."""
        with self.state.writing() as connection:
            connection.execute(
                "INSERT INTO approvals(id, workspace, question, expires_at) VALUES(?,?,?,?)",
                (question.id, self.state.workspace, msgspec.json.encode(question), question.expires_at),
            )

    def wait(self, question: Question, unlocked: Callable[[], AbstractContextManager[Any]]) -> Reply | None:
        """The answer; None where the time is over, or everybody who could answer has gone. The question is closed."""
        reply: Reply | None = None
        with unlocked():
            while reply is None and self.clock() < question.expires_at and self.somebody_there():
                time.sleep(POLL_S)
                reply = self.reply_to(question.id)
        with self.state.writing() as connection:
            connection.execute("UPDATE approvals SET closed=1 WHERE id=?", (question.id,))
        return reply or self.reply_to(question.id)

    def reply_to(self, question_id: str) -> Reply | None:
        """What was answered."""
        row = self.state.row("SELECT reply FROM approvals WHERE id=?", question_id)
        return msgspec.json.decode(row[0], type=Reply) if row and row[0] else None

    # -- the side that answers ------------------------------------------------------------------------------

    def watch(self) -> None:
        """Say that somebody is there."""
        self.state.put_fact("watched_at", str(self.clock()))

    def leave(self) -> None:
        """Say that nobody is there any more."""
        self.state.put_fact("watched_at", "0")

    def open_questions(self) -> list[Question]:
        """What waits for an answer, the oldest first."""
        rows = self.state.rows(
            "SELECT question FROM approvals"
            " WHERE workspace=? AND closed=0 AND reply IS NULL AND expires_at>? ORDER BY rowid",
            *(self.state.workspace, self.clock()),
        )
        return [msgspec.json.decode(row[0], type=Question) for row in rows]

    def answer(self, question_id: str, reply: Reply) -> Question | None:
        """Answer a question, the first answer counts; None where it is not open any more."""
        question = next((q for q in self.open_questions() if q.id == question_id), None)
        if question is None:
            return None
        with self.state.writing() as connection:
            done = connection.execute(
                "UPDATE approvals SET reply=? WHERE id=? AND reply IS NULL AND closed=0",
                (msgspec.json.encode(reply), question_id),
            )
            return question if done.rowcount else None

    # -- what a yes leaves ----------------------------------------------------------------------------------

    def put_grant(self, grant: Grant) -> None:
        """Remember a yes."""
        with self.state.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO grants(id, workspace, body, until) VALUES(?,?,?,?)",
                (grant.id, self.state.workspace, msgspec.json.encode(grant), grant.until),
            )

    def grants(self) -> tuple[Grant, ...]:
        """The grants that hold now."""
        rows = self.state.rows(
            "SELECT body FROM grants WHERE workspace=? AND (until IS NULL OR until>?)",
            self.state.workspace,
            self.clock(),
        )
        return tuple(msgspec.json.decode(row[0], type=Grant) for row in rows)

    def revoke(self, grant_id: str) -> bool:
        """Take a yes back."""
        with self.state.writing() as connection:
            done = connection.execute("DELETE FROM grants WHERE id=? AND workspace=?", (grant_id, self.state.workspace))
            return bool(done.rowcount)
