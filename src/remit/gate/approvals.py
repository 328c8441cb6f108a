"""Asking a person: the question waits here, inside the agent's hook, until somebody answers or the time is over.

It is put only where somebody can answer: a terminal that runs `remit approvals watch` says so every second. A question
belongs to the process that put it; where that is gone, whoever looks next closes it. An answer may still come: then it
serves the same call, once, when the agent makes it again.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from remit.core.decision import ErrorType
from remit.core.grant import Extent, Grant, ProjectGrant
from remit.gate.asker import GONE
from remit.gate.state import State
from remit.policy.grants import Subject
from remit.workspace.living import Living, is_gone, this_process

PRESENT_S = 5.0
"""A watcher that was silent for this long is not there any more."""

POLL_S = 0.05

SIGN_S = 2.0
"""How often a waiting process says that it still waits."""

SILENT_S = 15.0
"""A process that cannot be seen from here, and was silent for this long, has gone."""

LATE_S = 600.0
"""How long an answer that came too late serves the same call."""

LISTED_S = 3600.0
"""How long a question that ended without an answer is shown, and may still be answered."""

KEPT_S = 7 * 24 * 3600.0

Status: TypeAlias = Literal["open", "expired"]


class Question(Struct, frozen=True):
    """What a person is asked. `action` is the exact call; `path`, `prefix` or `tool` is what a wider yes may cover."""

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
    tool: str = ""
    is_command: bool = False
    prefix: tuple[str, ...] = ()
    call_id: str = ""
    arguments_sha256: str = ""
    diff: str = ""
    """What a file tool would change, where its arguments tell; without secrets, and cut. No record holds it."""

    @property
    def subject(self) -> Subject:
        """What a yes would be about."""
        command = self.action.removeprefix(f"{self.tool}: ") if self.is_command else ""
        return Subject(self.tool, self.risk, self.path, self.prefix, self.is_command, command)

    @property
    def card(self) -> tuple[str, ...]:
        """Equal cards ask the same about the same place: agent, intent, rule, and folder or first words."""
        place = " ".join(self.prefix) or self.action if self.path is None else self.path.rpartition("/")[0]
        return (self.agent, self.intent_id or "", self.code, self.tool if self.path is None else "", place)


class Reply(Struct, frozen=True):
    """What a person answered. `pattern` is the rule of a wider yes as they wrote it: paths, or first words."""

    allow: bool
    words: str = ""
    by: str = "person"
    extent: Extent = "once"
    pattern: str | None = None


class Asked(Struct, frozen=True):
    """A question with how it stands. `expired`: nobody waits for the answer any more."""

    question: Question
    status: Status


class Approvals:
    """The questions of one workspace."""

    def __init__(self, state: State, clock: Callable[[], float]) -> None:
        self.state = state
        self.clock = clock

    # -- the side that asks ---------------------------------------------------------------------------------

    def somebody_there(self) -> bool:
        """Whether a person can answer now."""
        return self.clock() - float(self.state.fact("watched_at") or 0) < PRESENT_S

    def ask(self, question: Question, digest: str = "") -> None:
        """Put the question. `digest` is the same for the same call made again; empty: an answer serves no other."""
        owner = msgspec.json.encode(this_process())
        now = self.clock()
        with self.state.writing() as connection:
            connection.execute("DELETE FROM approvals WHERE closed=1 AND expires_at<?", (now - KEPT_S,))
            connection.execute(
                "INSERT INTO approvals(id, workspace, question, expires_at, owner, seen_at, digest)"
                " VALUES(?,?,?,?,?,?,?)",
                (
                    *(question.id, self.state.workspace, msgspec.json.encode(question), question.expires_at),
                    *(owner, now, digest),
                ),
            )

    def wait(self, question: Question, unlocked: Callable[[], AbstractContextManager[Any]]) -> Reply | None:
        """The answer; None where the time is over, or everybody who could answer has gone, or who asked.

        The question is closed.
        """
        while self.clock() < question.expires_at and self.somebody_there() and not GONE.get()():
            with unlocked():
                answered = self.answered_within(question, SIGN_S)
            if answered:
                break
            self.sign(question)
        return self.close(question)

    def answered_within(self, question: Question, seconds: float) -> bool:
        """Whether an answer comes in the next seconds. Reads only: other calls may be writing meanwhile."""
        until = min(self.clock() + seconds, question.expires_at)
        while self.clock() < until and self.somebody_there() and not GONE.get()():
            time.sleep(POLL_S)
            if self.reply_to(question.id) is not None:
                return True
        return False

    def sign(self, question: Question) -> None:
        """Say that somebody waits for the answer."""
        with self.state.writing() as connection:
            connection.execute("UPDATE approvals SET seen_at=? WHERE id=?", (self.clock(), question.id))

    def close(self, question: Question) -> Reply | None:
        """End the question; the answer that it has, which now serves nobody else."""
        with self.state.writing() as connection:
            row = connection.execute(
                "UPDATE approvals SET closed=1, used=(reply IS NOT NULL) WHERE id=? AND closed=0 RETURNING reply",
                (question.id,),
            ).fetchone()
        if row is not None:
            return msgspec.json.decode(row[0], type=Reply) if row[0] else None
        reply = self.reply_to(question.id)  # somebody took us for dead, and closed it
        return reply if reply is not None and self.use(question.id) else None

    def reply_to(self, question_id: str) -> Reply | None:
        """What was answered."""
        row = self.state.row("SELECT reply FROM approvals WHERE id=?", question_id)
        return msgspec.json.decode(row[0], type=Reply) if row and row[0] else None

    def take_late_yes(self, digest: str) -> Reply | None:
        """The yes to this very call that came when nobody waited for it any more; it serves once."""
        since = self.clock() - LATE_S
        rows = self.state.rows(
            "SELECT id, reply FROM approvals WHERE workspace=? AND digest=? AND digest<>'' AND closed=1 AND used=0"
            " AND answered_at>? ORDER BY answered_at DESC",
            *(self.state.workspace, digest, since),
        )
        for question_id, blob in rows:
            reply = msgspec.json.decode(blob, type=Reply)
            if reply.allow and self.use(question_id):
                return reply
        return None

    def use(self, question_id: str) -> bool:
        """Use an answer up; False where somebody else did."""
        with self.state.writing() as connection:
            done = connection.execute("UPDATE approvals SET used=1 WHERE id=? AND used=0", (question_id,))
            return done.rowcount > 0

    def orphans(self) -> list[tuple[str, bytes]]:
        """The questions whose asker is gone, with their ids."""
        rows = self.state.rows(
            "SELECT id, question, owner, seen_at, expires_at FROM approvals WHERE workspace=? AND closed=0",
            self.state.workspace,
        )
        return [(row[0], row[1]) for row in rows if self.abandoned(row[2], row[3], row[4])]

    def close_orphans(self) -> list[tuple[Question, Reply | None]]:
        """The questions whose asker is gone, closed now by us, each with the answer that reached nobody."""
        return [
            (msgspec.json.decode(question, type=Question), self.reply_to(question_id))
            for question_id, question in self.orphans()
            if self.closed_here(question_id)
        ]

    def closed_here(self, question_id: str) -> bool:
        """Close a question; False where somebody else did."""
        with self.state.writing() as connection:
            done = connection.execute("UPDATE approvals SET closed=1 WHERE id=? AND closed=0", (question_id,))
            return done.rowcount > 0

    def abandoned(self, owner: bytes | None, seen_at: float, expires_at: float) -> bool:
        """Whether nobody waits for the answer. One that waits closes its question itself when the time is over."""
        now = self.clock()
        gone = is_gone(msgspec.json.decode(owner, type=Living)) if owner else None
        silent = owner is not None and gone is None and now - seen_at > SILENT_S
        return bool(gone) or silent or now - expires_at > SILENT_S

    # -- the side that answers ------------------------------------------------------------------------------

    def watch(self) -> None:
        """Say that somebody is there."""
        self.state.put_fact("watched_at", str(self.clock()))

    def leave(self) -> None:
        """Say that nobody is there any more."""
        self.state.put_fact("watched_at", "0")

    def open_questions(self) -> list[Question]:
        """What waits for an answer, the oldest first."""
        return [asked.question for asked in self.asked() if asked.status == "open"]

    def asked(self) -> list[Asked]:
        """What has no answer yet, the oldest first: what waits for one, and what lately ended without."""
        now = self.clock()
        rows = self.state.rows(
            "SELECT question, closed OR expires_at<=? FROM approvals"
            " WHERE workspace=? AND reply IS NULL AND (closed=0 AND expires_at>? OR digest<>'' AND expires_at>?)"
            " ORDER BY rowid",
            *(now, self.state.workspace, now, now - LISTED_S),
        )
        return [Asked(msgspec.json.decode(row[0], type=Question), "expired" if row[1] else "open") for row in rows]

    def answer(self, question_id: str, reply: Reply) -> Asked | None:
        """Answer a question, the first answer counts; None where it has one, or ended too long ago.

        Where it comes back `expired`, nobody waits: the answer has to be recorded by who gave it.
        """
        if not any(asked.question.id == question_id for asked in self.asked()):
            return None
        with self.state.writing() as connection:
            row = connection.execute(
                "UPDATE approvals SET reply=?, answered_at=? WHERE id=? AND reply IS NULL RETURNING question, closed",
                (msgspec.json.encode(reply), self.clock(), question_id),
            ).fetchone()
        return (
            None if row is None else Asked(msgspec.json.decode(row[0], type=Question), "expired" if row[1] else "open")
        )

    # -- what a yes leaves ----------------------------------------------------------------------------------

    def put_grant(self, grant: Grant) -> None:
        """Remember a yes."""
        with self.state.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO grants(id, workspace, body, until) VALUES(?,?,?,?)",
                (grant.id, self.state.workspace, msgspec.json.encode(grant), grant.until),
            )

    def grants(self, project: Sequence[ProjectGrant] = ()) -> tuple[Grant, ...]:
        """The grants that hold now; `project` are those of `remit.toml`. A state that is older may hold some, too."""
        rows = self.state.rows(
            "SELECT body FROM grants WHERE workspace=? AND (until IS NULL OR until>?)",
            self.state.workspace,
            self.clock(),
        )
        return (*(msgspec.json.decode(row[0], type=Grant) for row in rows), *(entry.grant for entry in project))

    def revoke(self, grant_id: str) -> bool:
        """Take a yes back."""
        with self.state.writing() as connection:
            done = connection.execute("DELETE FROM grants WHERE id=? AND workspace=?", (grant_id, self.state.workspace))
            return bool(done.rowcount)
