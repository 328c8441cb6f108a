"""Agents: the active sessions, their open calls, and pairs of intents with a common path."""

import time
from itertools import combinations

from msgspec import Struct

from remit.core.scope.apart import Shared, decide_apart
from remit.core.scope.path_patterns import Scope
from remit.gate.state.workspace_state import OpenCall
from remit.servers.web.pages.now import ActiveSession, list_active_sessions
from remit.servers.web.pages.page import PageRequest

LEASE_S = 60.0  # contracts §5: a running call holds its paths for this long
MAX_PATHS = 12


class RunningCall(Struct, frozen=True):
    """An allowed call without an end. Its paths are leased while `is_stale` is False."""

    session_id: str
    agent: str
    tool: str
    intent_id: str | None
    paths: list[str]
    seconds: int
    is_stale: bool


class AgentLane(Struct, frozen=True):
    """A session with the files owned by its intent."""

    session: ActiveSession
    owned_scope: list[str]


class Meeting(Struct, frozen=True):
    """Two intents in progress whose scopes share a path."""

    first: str
    second: str
    path: str


class Agents(Struct, frozen=True):
    """The agents of a repository."""

    lanes: list[AgentLane]
    running: list[RunningCall]
    meetings: list[Meeting]


def read_agents(request: PageRequest) -> Agents:
    repository = request.one_repository
    with request.repositories.open_gate(repository) as gate, gate.index() as index:
        waiting = {question.session_id for question in gate.questions.list_open_questions()}
        sessions = list_active_sessions(repository, gate, index, waiting)
        document = gate.rules.document
        calls = gate.state.list_open_calls()
    intents = {intent.id: intent for intent in (document.intents if document else ())}
    lanes = [
        AgentLane(session, list(intents[session.intent_id].owned_scope) if session.intent_id in intents else [])
        for session in sessions
    ]
    working = [intent for intent in intents.values() if intent.status == "IN_PROGRESS"]
    meetings = [
        Meeting(a.id, b.id, answer.path)
        for a, b in combinations(working[:40], 2)
        if isinstance(answer := decide_apart(Scope(a.owned_scope), Scope(b.owned_scope)), Shared)
    ]
    return Agents(lanes, [describe_call(call) for call in calls], meetings)


def describe_call(call: OpenCall) -> RunningCall:
    pending = call.pending
    seconds = max(0, int(time.time() - call.at))
    return RunningCall(
        call.session.session_id,
        pending.agent if pending else "",
        call.tool,
        pending.intent_id if pending else None,
        list(pending.judged[:MAX_PATHS]) if pending else [],
        seconds,
        seconds > LEASE_S,
    )
