"""Questions to a person, and their answers. A question waits inside the agent's hook until a person answers or time is
up. A question is put only where a person can answer: each terminal or console that can answer is a watcher, and signs
every second or two. A question belongs to the process that put it; where that process is gone, the next one to look
closes the question. A late answer serves the same call, once, when the agent makes it again.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Literal

import msgspec
from msgspec import Struct

from remit.core.clock import Clock
from remit.core.decision import ErrorType, Extent
from remit.core.python_runtime import prepare_type
from remit.core.record import Person
from remit.gate.state.workspace_state import State
from remit.policy.grants import GrantSubject
from remit.workspace.processes.process_tracking import ProcessIdentity, has_process_ended, identify_this_process

WATCHER_TIMEOUT_S = 15.0  # silence after which a watcher counts as gone; who leaves says so, and a machine may be busy
WATCHER_RETENTION_S = 3600.0
POLL_INTERVAL_S = 0.05

HEARTBEAT_INTERVAL_S = 2.0  # interval at which a waiting process signs that it still waits
ASKER_TIMEOUT_S = 15.0  # silence after which an asking process that cannot be seen from here counts as gone
LATE_ANSWER_S = 600.0  # time that an answer which came too late can serve the same call
EXPIRED_LISTED_S = 3600.0  # time that a question without an answer is listed after its end, and can still be answered
RETENTION_S = 7 * 24 * 3600.0


CLIENT_GONE: ContextVar[Callable[[], bool]] = ContextVar("CLIENT_GONE", default=lambda: False)
"""Tells whether the hook client that asked has disconnected. The daemon sets it in the thread that serves the client;
it is no part of Environment, because gates that stay open serve many clients. In a fresh process, the asking process
and the client are the same."""

NEWS = threading.Condition()
"""Wakes the waiting threads of this process when one of its threads asks, answers, or watches no more. What other
processes do is polled."""


class ShownProposal(Struct, frozen=True):
    """A proposed intent as a person is shown it. `new` are patterns that match no file yet, `untrusted` the commands
    that a yes lets run. `hints` are files outside the scope that change with it, `folders` the scope as whole folders.
    """

    name: str
    scope: tuple[str, ...]
    new: tuple[str, ...] = ()
    files: int = 0
    total: int = 0
    criteria: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    is_wide: bool = False
    request: str = ""


class Question(Struct, frozen=True):
    """A question to a person: `action` is the exact call; `path`, `prefix` or `tool` what a wider grant may cover."""

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
    rule: str = ""  # the check or rule whose objection it is
    diff: str = ""  # diff of a file tool's change, where its arguments tell: without secrets, and in no record
    is_cut: bool = False  # whether the action or the diff was too long to be kept whole
    proposal: ShownProposal | None = None

    @property
    def subject(self) -> GrantSubject:
        command = self.action.removeprefix(f"{self.tool}: ") if self.is_command else ""
        return GrantSubject(self.tool, self.risk, self.path, self.prefix, self.is_command, command)

    @property
    def group_key(self) -> tuple[str, ...]:
        if self.proposal is not None:
            return (self.id,)
        place = " ".join(self.prefix) or self.action if self.path is None else self.path.rpartition("/")[0]
        return (self.agent, self.intent_id or "", self.code, self.tool if self.path is None else "", place)


class DialogQuestion(Struct, frozen=True):
    """A question that an agent's own dialog puts to a person, as `text`, and the agent's process that shows it. Only a
    process that this agent started after `hook_started`, in clock ticks after boot, may tell that the call ran.
    """

    question: Question
    text: str
    agent_pid: int
    agent_started: int
    hook_started: int


class ApprovalReply(Struct, frozen=True):
    """An answer of a person; `pattern` is the rule of a wider grant as they wrote it: paths, or first words.

    `through` names the face that took the answer, where it is not a terminal; `who` is a person who had to log in.
    `scope` is that of a proposed intent as they wrote it; empty as proposed.
    """

    allow: bool
    words: str = ""
    by: str = "person"
    extent: Extent = "once"
    pattern: str | None = None
    through: str = ""
    who: Person | None = None
    scope: tuple[str, ...] = ()


class ListedQuestion(Struct, frozen=True):
    """A question with its status; `expired` if no process waits for the answer any more."""

    question: Question
    status: Literal["open", "expired"]


class ClosedQuestion(Struct, frozen=True):
    """A question that takes no answer any more, with its answer and the time of it; None if nobody gave one."""

    question: Question
    reply: ApprovalReply | None
    at: float


class Watcher(Struct, frozen=True):
    """A terminal or page with a person who can answer: for a session, or for the whole workspace if that is empty."""

    watcher: str
    session_id: str
    seen_at: float


class QuestionStore:
    """The questions of a workspace. Methods raise StateError."""

    def __init__(self, state: State, clock: Clock, listener: Callable[[Question], None] | None = None) -> None:
        self.state = state
        self.clock = clock
        self.listener = listener
        """Shows a question to the person of this process, and returns at once."""

    # Asking

    def is_watcher_present(self, session_id: str = "") -> bool:
        """Return True if somebody answers for the whole workspace, for this session, or where this process runs."""
        if self.listener is not None:
            return True
        return any(each.session_id in ("", session_id) for each in self.list_watchers())

    def list_watchers(self) -> list[Watcher]:
        """Return who signed lately; a time in the future is of a clock that was set back since."""
        now = self.clock.now()
        rows = self.state.fetch_rows(
            "SELECT watcher, session_id, seen_at FROM watchers WHERE workspace=? AND seen_at>? AND seen_at<?",
            *(self.state.workspace, now - WATCHER_TIMEOUT_S, now + WATCHER_TIMEOUT_S),
        )
        return [Watcher(*row) for row in rows]

    def put_question(self, question: Question, digest: str = "") -> None:
        """Store a question; a late answer serves a later call with the same `digest`, and none if that is empty."""
        now, owner = self.clock.now(), msgspec.json.encode(identify_this_process())
        with self.state.transaction():
            self.state.execute("DELETE FROM approvals WHERE closed=1 AND expires_at<?", now - RETENTION_S)
            self.state.execute(
                "INSERT INTO approvals(id, workspace, question, expires_at, owner, seen_at, digest)"
                " VALUES(?,?,?,?,?,?,?)",
                *(question.id, self.state.workspace, msgspec.json.encode(question), question.expires_at),
                *(owner, now, digest),
            )
        tell_news()

    def wait_for_reply(
        self, question: Question, release_lock: Callable[[], AbstractContextManager[Any]]
    ) -> ApprovalReply | None:
        """Wait for the answer, then close the question and use up its answer. Returns None when time is up, no watcher
        is left, or the asking client is gone.
        """
        session_id = question.session_id
        if self.listener is not None:
            self.listener(question)
        while self.is_worth_waiting(question.expires_at, session_id):
            # Only reads, since other calls may be writing.
            until = min(self.clock.now() + HEARTBEAT_INTERVAL_S, question.expires_at)
            with release_lock(), NEWS:  # held while it looks: so no news is missed
                while (answered := self.find_reply(question.id)) is None and self.is_worth_waiting(until, session_id):
                    self.clock.wait(NEWS, POLL_INTERVAL_S)
            if answered is not None:
                break
            self.state.execute("UPDATE approvals SET seen_at=? WHERE id=?", self.clock.now(), question.id)
        with self.state.transaction() as connection:
            row = connection.execute(
                "UPDATE approvals SET closed=1, used=(reply IS NOT NULL) WHERE id=? AND closed=0 RETURNING reply",
                (question.id,),
            ).fetchone()
        if row is not None:
            return msgspec.json.decode(row[0], type=prepare_type(ApprovalReply)) if row[0] else None
        reply = self.find_reply(question.id)  # another process took this one for dead, and closed the question
        return reply if reply is not None and self.use_reply(question.id) else None

    def is_worth_waiting(self, until: float, session_id: str) -> bool:
        return self.clock.now() < until and self.is_watcher_present(session_id) and not CLIENT_GONE.get()()

    def find_reply(self, question_id: str) -> ApprovalReply | None:
        row = self.state.fetch_row("SELECT reply FROM approvals WHERE id=?", question_id)
        return msgspec.json.decode(row[0], type=prepare_type(ApprovalReply)) if row and row[0] else None

    def take_late_approval(self, digest: str) -> ApprovalReply | None:
        rows = self.state.fetch_rows(
            "SELECT id, reply FROM approvals WHERE workspace=? AND digest=? AND digest<>'' AND closed=1 AND used=0"
            " AND answered_at>? ORDER BY answered_at DESC",
            *(self.state.workspace, digest, self.clock.now() - LATE_ANSWER_S),
        )
        replies = ((row[0], msgspec.json.decode(row[1], type=prepare_type(ApprovalReply))) for row in rows)
        return next((reply for row, reply in replies if reply.allow and self.use_reply(row)), None)

    def use_reply(self, question_id: str) -> bool:
        return self.state.execute("UPDATE approvals SET used=1 WHERE id=? AND used=0", question_id) > 0

    def find_orphans(self) -> list[Question]:
        rows = self.state.fetch_rows(
            "SELECT question, owner, seen_at, expires_at FROM approvals WHERE workspace=? AND closed=0",
            self.state.workspace,
        )
        now, found = self.clock.now(), list[Question]()
        for question, owner, seen_at, expires_at in rows:
            gone = has_process_ended(msgspec.json.decode(owner, type=prepare_type(ProcessIdentity))) if owner else None
            silent = owner is not None and gone is None and now - seen_at > ASKER_TIMEOUT_S
            if gone or silent or now - expires_at > ASKER_TIMEOUT_S:
                found.append(msgspec.json.decode(question, type=prepare_type(Question)))
        return found

    def close_orphans(self) -> list[tuple[Question, ApprovalReply | None]]:
        """Close the questions whose asking process is gone, and return them with their undelivered answers."""
        close = "UPDATE approvals SET closed=1 WHERE id=? AND closed=0"
        return [
            (found, self.find_reply(found.id)) for found in self.find_orphans() if self.state.execute(close, found.id)
        ]

    # Answering

    def mark_watcher_present(self, session_id: str = "", watcher: str = "") -> None:
        """Sign that this watcher, by default this process, answers: for every agent here, or for one session only."""
        now, name = self.clock.now(), watcher or name_this_watcher()
        with self.state.transaction() as connection:
            connection.execute("DELETE FROM watchers WHERE seen_at<?", (now - WATCHER_RETENTION_S,))
            values = (self.state.workspace, name, session_id, now)
            connection.execute("INSERT OR REPLACE INTO watchers VALUES(?,?,?,?)", values)

    def mark_watcher_gone(self, session_id: str = "", watcher: str = "") -> None:
        """Take the sign of this watcher away; questions wait on while another one signs."""
        values = (self.state.workspace, watcher or name_this_watcher(), session_id)
        self.state.execute("DELETE FROM watchers WHERE workspace=? AND watcher=? AND session_id=?", *values)
        tell_news()

    def list_open_questions(self) -> list[Question]:
        return [asked.question for asked in self.list_unanswered() if asked.status == "open"]

    def list_unanswered(self) -> list[ListedQuestion]:
        """Return the unanswered questions, oldest first: open or lately expired."""
        now = self.clock.now()
        rows = self.state.fetch_rows(
            "SELECT question, closed OR expires_at<=? FROM approvals"
            " WHERE workspace=? AND reply IS NULL AND (closed=0 AND expires_at>? OR digest<>'' AND expires_at>?)"
            " ORDER BY rowid",
            *(now, self.state.workspace, now, now - EXPIRED_LISTED_S),
        )
        return [decode_listed(row) for row in rows]

    def find_closed(self, question_id: str) -> ClosedQuestion | None:
        """Return a question that has an answer, or ended without one."""
        row = self.state.fetch_row(
            "SELECT question, reply, answered_at, expires_at FROM approvals"
            " WHERE workspace=? AND id=? AND (reply IS NOT NULL OR closed=1 OR expires_at<=?)",
            *(self.state.workspace, question_id, self.clock.now()),
        )
        if row is None:
            return None
        reply = msgspec.json.decode(row[1], type=prepare_type(ApprovalReply)) if row[1] else None
        return ClosedQuestion(
            msgspec.json.decode(row[0], type=prepare_type(Question)), reply, row[2] if reply else row[3]
        )

    def answer_question(self, question_id: str, reply: ApprovalReply) -> ListedQuestion | None:
        """Answer a question; return None if it has an answer, or ended too long ago. The first answer counts. No
        process waits for an `expired` question: the caller records the answer.
        """
        if not any(asked.question.id == question_id for asked in self.list_unanswered()):
            return None
        with self.state.transaction() as connection:
            row = connection.execute(
                "UPDATE approvals SET reply=?, answered_at=? WHERE id=? AND reply IS NULL RETURNING question, closed",
                (msgspec.json.encode(reply), self.clock.now(), question_id),
            ).fetchone()
        tell_news()
        return None if row is None else decode_listed(row)


def tell_news() -> None:
    with NEWS:
        NEWS.notify_all()


def name_this_watcher() -> str:
    return msgspec.json.encode(identify_this_process()).decode()


def decode_listed(row: Sequence[Any]) -> ListedQuestion:
    return ListedQuestion(msgspec.json.decode(row[0], type=prepare_type(Question)), "expired" if row[1] else "open")
