"""Now: sessions with their tasks, sessions waiting for a person, and recent denials."""

from typing import Any, Literal

from msgspec import Struct

from remit.core.formats.record_summary import summarize_record
from remit.core.record import KEY
from remit.gate.gate import Gate
from remit.ledger.index.index import Index, IndexedSession
from remit.servers.web.pages.page import PageRequest
from remit.servers.web.render import parse_seconds
from remit.servers.web.repositories import GovernedRepository

WORKING_S = 60.0  # silence after which a session without an open call counts as idle
RECENT_S = 24 * 3600.0
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
                questions = gate.questions.list_open_questions()
                waiting = {question.session_id for question in questions}
                sessions += list_active_sessions(repository, gate, index, waiting)
                denied += list_lately_denied(repository, index)
                rules = gate.rules
                document = rules.offered
                is_open = [i for i in (document.intents if document else ()) if i.status in ("DRAFT", "IN_PROGRESS")]
            found = RepositoryNow(repository.name, repository.root, rules.mode, len(questions), len(is_open))
            repositories.append(found)
        except Exception as error:  # noqa: BLE001  a repository that is broken hides no other
            problem = f"{type(error).__name__}: {error}".partition("\n")[0]
            repositories.append(RepositoryNow(repository.name, repository.root, "", 0, 0, problem))
    sessions.sort(key=lambda s: (STATUS_ORDER.index(s.status), -parse_seconds(s.last_at)))
    denied.sort(key=lambda d: d.at, reverse=True)
    return Now(repositories, sessions[:MAX_SESSIONS], denied[:MAX_DENIED])


def list_active_sessions(
    repository: GovernedRepository, gate: Gate, index: Index, waiting: set[str]
) -> list[ActiveSession]:
    now = gate.environment.clock.now()
    document = gate.rules.document
    names = {intent.id: intent.title for intent in (document.intents if document else ())}
    open_calls = {call.session.session_id for call in gate.state.list_open_calls() if now - call.at < 600}
    found: list[ActiveSession] = []
    for session in index.list_sessions(MAX_SESSIONS):
        silence = now - parse_seconds(session.last_at)
        if silence > RECENT_S and session.session_id not in waiting:
            continue
        newest = next(iter(index.find(session_id=session.session_id, limit=1)), None)
        is_waiting, has_call = session.session_id in waiting, session.session_id in open_calls
        status = name_status(newest, silence, is_waiting=is_waiting, has_call=has_call)
        found.append(describe_session(repository, newest, session, status, names))
    return found


def name_status(newest: dict[str, Any] | None, silence: float, *, is_waiting: bool, has_call: bool) -> SessionStatus:
    """Return the status of a session by its newest record, and the seconds since then."""
    if is_waiting:
        return "needs you"
    if newest is not None and newest["metadata"][KEY].get("event") == "session_end":
        return "ended"
    return "working" if has_call or silence < WORKING_S else "idle"


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
