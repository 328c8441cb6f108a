"""Asking a person: the question waits here, inside the agent's hook, until somebody answers or the time is over.

It is put only where somebody can answer: a terminal that runs `remit approvals watch` says so every second. A question
belongs to the process that put it; where that is gone, whoever looks next closes it. An answer may still come: then it
serves the same call, once, when the agent makes it again.

Whether whoever asked still waits for the answer.

A fresh process is itself the one that waits. The daemon waits for a client that may be killed meanwhile: its thread
says how to tell. Not in Environment, by which gates are kept open: it is another one for each call.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from remit.core.decision import ErrorType
from remit.core.grant import Extent, Grant, ProjectGrant
from remit.gate.state.workspace_state import State
from remit.policy.approval.grants import GrantSubject
from remit.workspace.processes.process_info import ProcessIdentity, has_process_ended, identify_this_process


def client_never_leaves() -> bool:
    """The one that waits is this process."""
    return False


CLIENT_GONE: ContextVar[Callable[[], bool]] = ContextVar("GONE", default=client_never_leaves)
"""Set by who serves a client, for its own thread."""


WATCHER_TIMEOUT_S = 5.0
"""A watcher that was silent for this long is not there any more."""

POLL_INTERVAL_S = 0.05

HEARTBEAT_INTERVAL_S = 2.0
"""How often a waiting process says that it still waits."""

ASKER_TIMEOUT_S = 15.0
"""A process that cannot be seen from here, and was silent for this long, has gone."""

LATE_ANSWER_S = 600.0
"""How long an answer that came too late serves the same call."""

EXPIRED_LISTED_S = 3600.0
"""How long a question that ended without an answer is shown, and may still be answered."""

RETENTION_S = 7 * 24 * 3600.0

QuestionStatus: TypeAlias = Literal["open", "expired"]


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
    def subject(self) -> GrantSubject:
        """What a yes would be about."""
        command = self.action.removeprefix(f"{self.tool}: ") if self.is_command else ""
        return GrantSubject(self.tool, self.risk, self.path, self.prefix, self.is_command, command)

    @property
    def group_key(self) -> tuple[str, ...]:
        """Equal cards ask the same about the same place: agent, intent, rule, and folder or first words."""
        place = " ".join(self.prefix) or self.action if self.path is None else self.path.rpartition("/")[0]
        return (self.agent, self.intent_id or "", self.code, self.tool if self.path is None else "", place)


class ApprovalReply(Struct, frozen=True):
    """What a person answered. `pattern` is the rule of a wider yes as they wrote it: paths, or first words."""

    allow: bool
    words: str = ""
    by: str = "person"
    extent: Extent = "once"
    pattern: str | None = None


class ListedQuestion(Struct, frozen=True):
    """A question with how it stands. `expired`: nobody waits for the answer any more."""

    question: Question
    status: QuestionStatus


class QuestionStore:
    """The questions of one workspace."""

    def __init__(self, state: State, clock: Callable[[], float]) -> None:
        self.state = state
        self.clock = clock

    # -- the side that asks ---------------------------------------------------------------------------------

    def is_watcher_present(self) -> bool:
        """Whether a person can answer now."""
        return self.clock() - float(self.state.read_fact("watched_at") or 0) < WATCHER_TIMEOUT_S

    def put_question(self, question: Question, digest: str = "") -> None:
        """Put the question. `digest` is the same for the same call made again; empty: an answer serves no other."""
        owner = msgspec.json.encode(identify_this_process())
        now = self.clock()
        with self.state.transaction() as connection:
            connection.execute("DELETE FROM approvals WHERE closed=1 AND expires_at<?", (now - RETENTION_S,))
            connection.execute(
                "INSERT INTO approvals(id, workspace, question, expires_at, owner, seen_at, digest)"
                " VALUES(?,?,?,?,?,?,?)",
                (
                    *(question.id, self.state.workspace, msgspec.json.encode(question), question.expires_at),
                    *(owner, now, digest),
                ),
            )

    def wait_for_reply(
        self, question: Question, release_lock: Callable[[], AbstractContextManager[Any]]
    ) -> ApprovalReply | None:
        """The answer; None where the time is over, or everybody who could answer has gone, or who asked.

        The question is closed.
        """
        while self.clock() < question.expires_at and self.is_watcher_present() and not CLIENT_GONE.get()():
            with release_lock():
                answered = self.has_reply_within(question, HEARTBEAT_INTERVAL_S)
            if answered:
                break
            self.send_heartbeat(question)
        return self.close_question(question)

    def has_reply_within(self, question: Question, seconds: float) -> bool:
        """Whether an answer comes in the next seconds. Reads only: other calls may be writing meanwhile."""
        until = min(self.clock() + seconds, question.expires_at)
        while self.clock() < until and self.is_watcher_present() and not CLIENT_GONE.get()():
            time.sleep(POLL_INTERVAL_S)
            if self.find_reply(question.id) is not None:
                return True
        return False

    def send_heartbeat(self, question: Question) -> None:
        """Say that somebody waits for the answer."""
        with self.state.transaction() as connection:
            connection.execute("UPDATE approvals SET seen_at=? WHERE id=?", (self.clock(), question.id))

    def close_question(self, question: Question) -> ApprovalReply | None:
        """End the question; the answer that it has, which now serves nobody else."""
        with self.state.transaction() as connection:
            row = connection.execute(
                "UPDATE approvals SET closed=1, used=(reply IS NOT NULL) WHERE id=? AND closed=0 RETURNING reply",
                (question.id,),
            ).fetchone()
        if row is not None:
            return msgspec.json.decode(row[0], type=ApprovalReply) if row[0] else None
        reply = self.find_reply(question.id)  # somebody took us for dead, and closed it
        return reply if reply is not None and self.use_reply(question.id) else None

    def find_reply(self, question_id: str) -> ApprovalReply | None:
        """What was answered."""
        row = self.state.fetch_row("SELECT reply FROM approvals WHERE id=?", question_id)
        return msgspec.json.decode(row[0], type=ApprovalReply) if row and row[0] else None

    def take_late_approval(self, digest: str) -> ApprovalReply | None:
        """The yes to this very call that came when nobody waited for it any more; it serves once."""
        since = self.clock() - LATE_ANSWER_S
        rows = self.state.fetch_rows(
            "SELECT id, reply FROM approvals WHERE workspace=? AND digest=? AND digest<>'' AND closed=1 AND used=0"
            " AND answered_at>? ORDER BY answered_at DESC",
            *(self.state.workspace, digest, since),
        )
        for question_id, blob in rows:
            reply = msgspec.json.decode(blob, type=ApprovalReply)
            if reply.allow and self.use_reply(question_id):
                return reply
        return None

    def use_reply(self, question_id: str) -> bool:
        """Use an answer up; False where somebody else did."""
        with self.state.transaction() as connection:
            done = connection.execute("UPDATE approvals SET used=1 WHERE id=? AND used=0", (question_id,))
            return done.rowcount > 0

    def find_orphans(self) -> list[tuple[str, bytes]]:
        """The questions whose asker is gone, with their ids."""
        rows = self.state.fetch_rows(
            "SELECT id, question, owner, seen_at, expires_at FROM approvals WHERE workspace=? AND closed=0",
            self.state.workspace,
        )
        return [(row[0], row[1]) for row in rows if self.has_no_asker(row[2], row[3], row[4])]

    def close_orphans(self) -> list[tuple[Question, ApprovalReply | None]]:
        """The questions whose asker is gone, closed now by us, each with the answer that reached nobody."""
        return [
            (msgspec.json.decode(question, type=Question), self.find_reply(question_id))
            for question_id, question in self.find_orphans()
            if self.try_close(question_id)
        ]

    def try_close(self, question_id: str) -> bool:
        """Close a question; False where somebody else did."""
        with self.state.transaction() as connection:
            done = connection.execute("UPDATE approvals SET closed=1 WHERE id=? AND closed=0", (question_id,))
            return done.rowcount > 0

    def has_no_asker(self, owner: bytes | None, seen_at: float, expires_at: float) -> bool:
        """Whether nobody waits for the answer. One that waits closes its question itself when the time is over."""
        now = self.clock()
        gone = has_process_ended(msgspec.json.decode(owner, type=ProcessIdentity)) if owner else None
        silent = owner is not None and gone is None and now - seen_at > ASKER_TIMEOUT_S
        return bool(gone) or silent or now - expires_at > ASKER_TIMEOUT_S

    # -- the side that answers ------------------------------------------------------------------------------

    def mark_watcher_present(self) -> None:
        """Say that somebody is there."""
        self.state.put_fact("watched_at", str(self.clock()))

    def mark_watcher_gone(self) -> None:
        """Say that nobody is there any more."""
        self.state.put_fact("watched_at", "0")

    def list_open_questions(self) -> list[Question]:
        """What waits for an answer, the oldest first."""
        return [asked.question for asked in self.list_unanswered() if asked.status == "open"]

    def list_unanswered(self) -> list[ListedQuestion]:
        """What has no answer yet, the oldest first: what waits for one, and what lately ended without."""
        now = self.clock()
        rows = self.state.fetch_rows(
            "SELECT question, closed OR expires_at<=? FROM approvals"
            " WHERE workspace=? AND reply IS NULL AND (closed=0 AND expires_at>? OR digest<>'' AND expires_at>?)"
            " ORDER BY rowid",
            *(now, self.state.workspace, now, now - EXPIRED_LISTED_S),
        )
        return [
            ListedQuestion(msgspec.json.decode(row[0], type=Question), "expired" if row[1] else "open") for row in rows
        ]

    def answer_question(self, question_id: str, reply: ApprovalReply) -> ListedQuestion | None:
        """Answer a question, the first answer counts; None where it has one, or ended too long ago.

        Where it comes back `expired`, nobody waits: the answer has to be recorded by who gave it.
        """
        if not any(asked.question.id == question_id for asked in self.list_unanswered()):
            return None
        with self.state.transaction() as connection:
            row = connection.execute(
                "UPDATE approvals SET reply=?, answered_at=? WHERE id=? AND reply IS NULL RETURNING question, closed",
                (msgspec.json.encode(reply), self.clock(), question_id),
            ).fetchone()
        return (
            None
            if row is None
            else ListedQuestion(msgspec.json.decode(row[0], type=Question), "expired" if row[1] else "open")
        )

    # -- what a yes leaves ----------------------------------------------------------------------------------

    def put_grant(self, grant: Grant) -> None:
        """Remember a yes."""
        with self.state.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO grants(id, workspace, body, until) VALUES(?,?,?,?)",
                (grant.id, self.state.workspace, msgspec.json.encode(grant), grant.until),
            )

    def active_grants(self, project: Sequence[ProjectGrant] = ()) -> tuple[Grant, ...]:
        """The grants that hold now; `project` are those of `remit.toml`. A state that is older may hold some, too."""
        rows = self.state.fetch_rows(
            "SELECT body FROM grants WHERE workspace=? AND (until IS NULL OR until>?)",
            self.state.workspace,
            self.clock(),
        )
        return (*(msgspec.json.decode(row[0], type=Grant) for row in rows), *(entry.grant for entry in project))

    def revoke_grant(self, grant_id: str) -> bool:
        """Take a yes back."""
        with self.state.transaction() as connection:
            done = connection.execute("DELETE FROM grants WHERE id=? AND workspace=?", (grant_id, self.state.workspace))
            return bool(done.rowcount)
