"""Now: sessions with their tasks, sessions waiting for a person, and recent denials."""

from typing import Any, Literal

from msgspec import Struct

from remit.console.pages.page import PageRequest
from remit.console.render import parse_seconds
from remit.console.repositories import GovernedRepository
from remit.core.formats.record_summary import summarize_record
from remit.core.record import KEY
from remit.gate.gate import Gate
from remit.ledger.index.index import Index, IndexedSession

WORKING_S = 60.0  # silence after which a session without an open call counts as idle
RECENT_S = 24 * 3600.0
OPEN_CALL_S = 600.0  # a call without an end that is older has been abandoned
MAX_SESSIONS, MAX_DENIED = 40, 5

SessionStatus = Literal["needs you", "working", "idle", "ended"]
STATUS_ORDER: tuple[SessionStatus, ...] = ("needs you", "working", "idle", "ended")


class ActiveSession(Struct, frozen=True):
    """A session with records of the last day, and its last action."""

    repository: str
    session_id: str
    agent: str
    intent_id: str | None
    intent_name: str
    status: SessionStatus
    verb: str
    about: str
    last_at: str
    records: int
    denied: int


class LatelyDenied(Struct, frozen=True):
    """A call that was denied lately."""

    repository: str
    record: str
    session_id: str
    agent: str
    about: str
    at: str


class RepositoryNow(Struct, frozen=True):
    """A repository with its mode and pending questions."""

    name: str
    root: str
    mode: str
    waiting: int
    intents_open: int
    problem: str = ""


class Now(Struct, frozen=True):
    """Current work in the governed repositories."""

    repositories: list[RepositoryNow]
    sessions: list[ActiveSession]
    denied: list[LatelyDenied]


def read_now(request: PageRequest) -> Now:
    repositories: list[RepositoryNow] = []
    sessions: list[ActiveSession] = []
    denied: list[LatelyDenied] = []
    for repository in request.repositories.list_all():
        try:
            with request.repositories.open_gate(repository) as gate, gate.index() as index:
                activity = SessionActivity(gate)
                sessions += list_active_sessions(repository, gate, index, activity)
                denied += list_lately_denied(repository, index)
                mode, intents = gate.rules.mode, gate.rules.open_intents
            repositories.append(
                RepositoryNow(repository.name, repository.root, mode, len(activity.questions), len(intents))
            )
        except Exception as error:  # noqa: BLE001  a repository that is broken hides no other
            problem = f"{type(error).__name__}: {error}".partition("\n")[0]
            repositories.append(RepositoryNow(repository.name, repository.root, "", 0, 0, problem))
    sessions.sort(key=lambda s: (STATUS_ORDER.index(s.status), -parse_seconds(s.last_at)))
    denied.sort(key=lambda d: d.at, reverse=True)
    return Now(repositories, sessions[:MAX_SESSIONS], denied[:MAX_DENIED])


class SessionActivity:
    """What tells the status of a repository's sessions: open questions, open calls, and the time."""

    def __init__(self, gate: Gate) -> None:
        self.now = gate.environment.clock.now()
        self.questions = gate.questions.list_open_questions()
        self.waiting = {question.session_id for question in self.questions}
        calls = gate.state.list_open_calls()
        self.calling = {call.session.session_id for call in calls if self.now - call.at < OPEN_CALL_S}

    def is_recent(self, session: IndexedSession) -> bool:
        return session.session_id in self.waiting or self.now - parse_seconds(session.last_at) <= RECENT_S

    def name_status(self, session: IndexedSession, newest: dict[str, Any] | None) -> SessionStatus:
        """Return the status of a session, by its newest record or by any that is no end."""
        if session.session_id in self.waiting:
            return "needs you"
        if newest is not None and newest["metadata"][KEY].get("event") == "session_end":
            return "ended"
        is_silent = self.now - parse_seconds(session.last_at) >= WORKING_S
        return "idle" if is_silent and session.session_id not in self.calling else "working"


def list_active_sessions(
    repository: GovernedRepository, gate: Gate, index: Index, activity: SessionActivity
) -> list[ActiveSession]:
    titles = gate.rules.titles
    found: list[ActiveSession] = []
    for session in filter(activity.is_recent, index.list_sessions(MAX_SESSIONS)):
        newest = next(iter(index.find(session_id=session.session_id, limit=1)), None)
        status = activity.name_status(session, newest)
        found.append(describe_session(repository, newest, session, status, titles))
    return found


def describe_session(
    repository: GovernedRepository,
    newest: dict[str, Any] | None,
    session: IndexedSession,
    status: SessionStatus,
    names: dict[str, str],
) -> ActiveSession:
    summary = summarize_record(newest["metadata"][KEY]) if newest else None
    return ActiveSession(
        repository.name,
        session.session_id,
        session.agent or "",
        session.intent_id,
        names.get(session.intent_id or "", ""),
        status,
        summary.verb if summary else "",
        summary.about if summary else "",
        session.last_at,
        session.records,
        session.denied,
    )


def list_lately_denied(repository: GovernedRepository, index: Index) -> list[LatelyDenied]:
    return [
        LatelyDenied(
            repository.name,
            str(document["id"]),
            str(document["metadata"][KEY].get("session_id") or ""),
            str(document.get("tool", {}).get("name") or ""),
            summarize_record(document["metadata"][KEY]).about,
            str(document["timestamp"]),
        )
        for document in index.find(event="denied", limit=MAX_DENIED)
    ]
