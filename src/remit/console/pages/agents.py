"""Agents: lanes by worktree, what their scopes and changes share, who waits for whom, and calls that never ended."""

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.console.guard import Refused
from remit.console.pages.intent_edits import PERSON
from remit.console.pages.intents import list_tracked_files
from remit.console.pages.now import ActiveSession, SessionActivity, list_active_sessions
from remit.console.pages.page import PageRequest
from remit.console.render import parse_seconds
from remit.console.repositories import GovernedRepository
from remit.core.call import SessionKey
from remit.core.intent import Intent
from remit.core.record import KEY
from remit.core.scope.apart import Shared, decide_apart
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import quote_path
from remit.gate.context import RECORDING_ERRORS
from remit.gate.effects.unfinished_calls import UnfinishedCalls
from remit.gate.gate import Gate
from remit.gate.intents.owned_files import match_files
from remit.gate.intents.refusals import selectable_intent_ids
from remit.gate.state.workspace_state import OpenCall
from remit.ledger.index.index import Index
from remit.workspace.git.command import Git, GitError

MAX_PATHS, MAX_SAMPLE = 12, 8
MAX_LANES = 10  # in the matrix
MAX_WORKTREES = 20
MAX_MUTATIONS = 200  # of one session whose files are compared
WAITED_S = 600.0  # a refusal for a held file that is older has been forgotten


class RunningCall(Struct, frozen=True):
    """An allowed call without an end. Its paths are leased while `is_stale` is False."""

    row: int
    session_id: str
    agent: str
    tool: str
    intent_id: str | None
    paths: list[str]
    seconds: int
    is_stale: bool


class AgentLane(Struct, frozen=True):
    """A session in a worktree, with its scope, the files that it changed, and its calls under way. A person can change
    the intent of a session if it `is_known` to the worktree's state.
    """

    session: ActiveSession
    owned_scope: list[str]
    changed: list[str]
    running: list[RunningCall]
    is_known: bool = False


class Worktree(Struct, frozen=True):
    """A worktree of the repository with its lanes; `ahead` and `behind` count commits against the main worktree."""

    path: str
    name: str
    branch: str
    ahead: int
    behind: int
    is_main: bool
    lanes: list[AgentLane]
    problem: str = ""


class LaneOverlap(Struct, frozen=True):
    """What two lanes share: files changed by both, files owned by both scopes, and a path that both scopes match."""

    first: str
    second: str
    changed: list[str]
    owned: int
    sample: list[str]
    path: str
    has_same_intent: bool


class MatrixRow(Struct, frozen=True):
    """A lane of the matrix, with what it shares with each lane before it."""

    session_id: str
    label: str
    agent: str
    cells: list[LaneOverlap | None]


class WaitingAgent(Struct, frozen=True):
    """A session with a refusal for a file that another session held."""

    session_id: str
    agent: str
    path: str
    held_by: str
    holder: str
    at: str
    is_held: bool


class OpenIntent(Struct, frozen=True):
    """An intent that a session may work under."""

    id: str
    title: str


class Agents(Struct, frozen=True):
    """The agents of a repository. `lease_s` is how long a call holds its paths."""

    worktrees: list[Worktree]
    matrix: list[MatrixRow]
    waits: list[WaitingAgent]
    lease_s: int
    intents: list[OpenIntent] = []


class ClaimBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The intent that a session works under from now on, none if empty, and the one that the person saw."""

    session_id: str
    intent_id: str
    shown_intent: str


class HandOverBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An intent with the session that works under it, and the one that does from now on."""

    intent_id: str
    session_id: str
    to_session: str


class ReleaseBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A call that never ended: its number, its session, and the worktree."""

    row: int
    session_id: str
    worktree: str


def read_agents(request: PageRequest) -> Agents:
    return request.repositories.run_job(request.one_repository, describe_agents, request.one_repository.name)


def release_call(request: PageRequest, body: ReleaseBody) -> dict[str, Any]:
    return request.repositories.run_job(
        request.one_repository, settle_stale_call, body.row, body.session_id, body.worktree
    )


def claim_intent(request: PageRequest, body: ClaimBody) -> dict[str, Any]:
    return request.repositories.run_job(
        request.one_repository, change_intent, body.session_id, body.intent_id, body.shown_intent
    )


def hand_over_intent(request: PageRequest, body: HandOverBody) -> dict[str, Any]:
    return request.repositories.run_job(
        request.one_repository, hand_over, body.intent_id, body.session_id, body.to_session
    )


# In a worker


def describe_agents(gate: Gate, repository: str) -> Agents:
    own, *others = list_worktrees(gate)
    worktrees = [describe_worktree(repository, gate, tree) for tree in others]
    elsewhere = {lane.session.session_id for tree in worktrees for lane in tree.lanes}
    worktrees = [describe_worktree(repository, gate, own, elsewhere), *worktrees]
    intents = gate.rules.intents.ids
    lanes = [lane for tree in worktrees for lane in tree.lanes if lane.session.status != "ended"][:MAX_LANES]
    files = list_tracked_files(str(gate.workspace.root))
    with gate.index() as index:
        waits = list_waits(index, lanes)
    open_intents = [OpenIntent(id, intents[id].title) for id in selectable_intent_ids(gate.rules)]
    matrix = build_matrix(lanes, intents, files)
    return Agents(worktrees, matrix, waits, gate.rules.config.session.lease_s, open_intents)


class FoundWorktree(Struct, frozen=True):
    """A worktree as git lists it."""

    path: Path
    branch: str
    head: str
    is_main: bool


def list_worktrees(gate: Gate) -> list[FoundWorktree]:
    """Return the worktrees of the repository, this workspace first; only this one where git cannot tell."""
    root = gate.workspace.root
    own = FoundWorktree(root, "", "", True)
    if gate.workspace.common_dir is None:
        return [own]
    try:
        out = os.fsdecode(Git(root).run("worktree", "list", "--porcelain", "-z"))
    except GitError:
        return [own]
    found: list[FoundWorktree] = []
    for entry in out.split("\0\0"):
        parts = (line.partition(" ") for line in entry.split("\0") if line)
        fields = {key: value for key, _, value in parts}
        if "worktree" not in fields or "bare" in fields:
            continue
        path, branch = Path(fields["worktree"]), fields.get("branch", "").removeprefix("refs/heads/")
        found.append(FoundWorktree(path, branch, fields.get("HEAD", ""), is_main=not found))
    found.sort(key=lambda tree: tree.path != root)
    return found[:MAX_WORKTREES] if any(tree.path == root for tree in found) else [own, *found[:MAX_WORKTREES]]


def describe_worktree(repository: str, main: Gate, tree: FoundWorktree, elsewhere: set[str] | None = None) -> Worktree:
    is_own = tree.path == main.workspace.root
    ahead, behind = (0, 0) if is_own else count_commits(main, tree)
    lanes: list[AgentLane] = []
    problem = ""
    gate = main if is_own else Gate.open(tree.path, main.environment)
    try:
        if gate.found_workspace is None:
            problem = "its folder is gone: git worktree prune forgets it"
        elif is_own or gate.workspace.is_governed:
            lanes = list(list_lanes(repository, gate, elsewhere))
    except RECORDING_ERRORS as error:
        problem = str(error).partition("\n")[0]
    finally:
        if not is_own:
            gate.close()
    return Worktree(
        str(tree.path), tree.path.name, tree.branch or tree.head[:12], ahead, behind, tree.is_main, lanes, problem
    )


def count_commits(gate: Gate, tree: FoundWorktree) -> tuple[int, int]:
    with suppress(GitError, ValueError):
        out = Git(gate.workspace.root).text("rev-list", "--left-right", "--count", f"HEAD...{tree.head}")
        behind, ahead = map(int, out.split())
        return ahead, behind
    return 0, 0


def list_lanes(repository: str, gate: Gate, elsewhere: set[str] | None) -> Iterator[AgentLane]:
    intents = gate.rules.intents.ids
    calls = [describe_call(call, gate.rules.config.session.lease_s) for call in gate.state.list_open_calls()]
    place = GovernedRepository(repository, str(gate.workspace.root))
    with gate.index() as index:
        for session in list_active_sessions(place, gate, index, SessionActivity(gate)):
            key = SessionKey(session.session_id)
            is_known = gate.state.find_session(key) is not None
            if is_known:  # the newest record may still name an intent that was cleared since
                intent_id = gate.state.active_session(key).intent_id
                title = intents[intent_id].title if intent_id in intents else ""
                session = replace(session, intent_id=intent_id, intent_name=title)
            elif elsewhere is None or session.session_id in elsewhere:
                continue
            intent = intents.get(session.intent_id or "")
            running = [call for call in calls if call.session_id == session.session_id]
            scope = list(intent.owned_scope) if intent else []
            yield AgentLane(session, scope, list_changed_files(index, session.session_id), running, is_known)


def list_changed_files(index: Index, session_id: str) -> list[str]:
    documents = index.find(event="mutation", session_id=session_id, limit=MAX_MUTATIONS)
    paths = (str(file["path"]) for document in documents for file in document["metadata"][KEY].get("files", []))
    return list(dict.fromkeys(paths))


def describe_call(call: OpenCall, lease_s: float) -> RunningCall:
    pending = call.pending
    seconds = max(0, int(time.time() - call.at))
    return RunningCall(
        call.row,
        call.session.session_id,
        pending.agent if pending else "",
        call.tool,
        pending.intent_id if pending else None,
        list(map(quote_path, pending.judged[:MAX_PATHS])) if pending else [],
        seconds,
        seconds > lease_s,
    )


def build_matrix(lanes: Sequence[AgentLane], intents: Mapping[str, Intent], files: Sequence[str]) -> list[MatrixRow]:
    scopes = {lane.session.session_id: Scope(tuple(lane.owned_scope)) for lane in lanes}
    owned = {lane.session.session_id: set(match_files(lane.owned_scope, files)) for lane in lanes}
    shared: dict[tuple[str, str], LaneOverlap] = {}
    for first, second in combinations(lanes, 2):
        a, b = first.session.session_id, second.session.session_id
        both = sorted(owned[a] & owned[b])
        changed = sorted(set(first.changed) & set(second.changed))
        intent_a, intent_b = (intents.get(lane.session.intent_id or "") for lane in (first, second))
        met = decide_apart(scopes[a], scopes[b]) if intent_a and intent_b else None
        path = met.path if isinstance(met, Shared) else ""
        is_same = intent_a is not None and intent_a is intent_b
        shared[a, b] = LaneOverlap(a, b, changed, len(both), both[:MAX_SAMPLE], path, is_same)
    rows: list[MatrixRow] = []
    for number, lane in enumerate(lanes):
        own = lane.session.session_id
        cells = [shared.get((other.session.session_id, own)) for other in lanes[:number]]
        rows.append(MatrixRow(own, f"{lane.session.agent or 'agent'} {own[:8]}", lane.session.agent, cells))
    return rows


def list_waits(index: Index, lanes: Sequence[AgentLane]) -> list[WaitingAgent]:
    agents = {lane.session.session_id: lane.session.agent for lane in lanes}
    held = {
        (call.session_id, path) for lane in lanes for call in lane.running if not call.is_stale for path in call.paths
    }
    found: dict[tuple[str, str], WaitingAgent] = {}
    for document in index.find(event="denied", limit=MAX_MUTATIONS):
        body: dict[str, Any] = document["metadata"][KEY]
        violation: dict[str, Any] = body.get("violation") or {}
        at = str(document["timestamp"])
        if violation.get("error_type") != "FILE_LEASED" or time.time() - parse_seconds(at) > WAITED_S:
            continue
        session, path = str(body.get("session_id") or ""), str(violation.get("path") or "")
        context: dict[str, Any] = violation.get("context") or {}
        holder = str(context.get("held_by") or "")
        if (session, path) not in found:
            agent = str(document.get("tool", {}).get("name") or "")
            found[session, path] = WaitingAgent(
                session, agent, path, holder, agents.get(holder, ""), at, (holder, path) in held
            )
    return list(found.values())


def settle_stale_call(gate: Gate, row: int, session_id: str, worktree: str) -> dict[str, Any]:
    """Record what a call that never ended changed, and let go of its paths. Raises Refused."""
    tree = next((tree for tree in list_worktrees(gate) if str(tree.path) == worktree), None)
    if tree is None:
        raise Refused(404, "there is no such worktree", "load the page again")
    with open_worktree(gate, tree) as own:
        calls = own.state.list_open_calls()
        call = next((call for call in calls if (call.row, call.session.session_id) == (row, session_id)), None)
        if call is None:
            raise Refused(409, "the call has ended meanwhile", "load the page again")
        if not describe_call(call, own.rules.config.session.lease_s).is_stale:
            raise Refused(409, "the call holds its files for a while yet", "wait until its lease is over")
        UnfinishedCalls(own).settle_call(call)
        return {"released": row, "session_id": session_id}


@contextmanager
def open_worktree(gate: Gate, tree: FoundWorktree) -> Generator[Gate]:
    if tree.path == gate.workspace.root:
        yield gate
        return
    own = Gate.open(tree.path, gate.environment)
    try:
        yield own
    finally:
        own.close()


@contextmanager
def open_session_gate(gate: Gate, session_id: str) -> Generator[Gate]:
    """Open the worktree whose state knows the session. Raises Refused."""
    for tree in list_worktrees(gate):
        with open_worktree(gate, tree) as own:
            if own.found_workspace is not None and own.state.find_session(SessionKey(session_id)) is not None:
                yield own
                return
    raise Refused(404, "no session of that name is known", "load the page again")


def change_intent(gate: Gate, session_id: str, intent_id: str, shown_intent: str) -> dict[str, Any]:
    """Let a session work under an intent, or under none, as a person. Raises Refused, IntentRefused."""
    with open_session_gate(gate, session_id) as own:
        require_intent(own, session_id, shown_intent)
        put_under(own, session_id, intent_id)
    return {"session_id": session_id, "intent_id": intent_id}


def hand_over(gate: Gate, intent_id: str, session_id: str, to_session: str) -> dict[str, Any]:
    """Give an intent to another session. Calls of the first one that never ended are settled, and let go of their
    files. Raises Refused, IntentRefused.
    """
    if session_id == to_session:
        raise Refused(400, "the session has the intent already", "choose another session")
    with open_session_gate(gate, session_id) as giving, open_session_gate(gate, to_session) as taking:
        require_intent(giving, session_id, intent_id)
        lease_s = giving.rules.config.session.lease_s
        calls = [call for call in giving.state.list_open_calls() if call.session.session_id == session_id]
        if any(not describe_call(call, lease_s).is_stale for call in calls):
            raise Refused(409, "the session has a call under way", "wait until it ends, or its lease is over")
        put_under(taking, to_session, intent_id)
        for call in calls:
            UnfinishedCalls(giving).settle_call(call)
        giving.intents.clear(SessionKey(session_id), PERSON, said_by=PERSON)
    return {"intent_id": intent_id, "session_id": to_session, "released": len(calls)}


def require_intent(gate: Gate, session_id: str, shown_intent: str) -> None:
    active = gate.state.active_session(SessionKey(session_id)).intent_id or ""
    if active != shown_intent:
        raise Refused(409, f"the session works under {active or 'no intent'} by now", "load the page again")


def put_under(gate: Gate, session_id: str, intent_id: str) -> None:
    key = SessionKey(session_id)
    if intent_id and intent_id not in selectable_intent_ids(gate.rules):
        raise Refused(409, f"no session can work under {intent_id[:40]!r}", "choose an open intent")
    if gate.state.active_session(key).intent_id not in (None, intent_id):
        gate.intents.clear(key, PERSON, said_by=PERSON)
    if intent_id:
        gate.intents.select(key, PERSON, intent_id, said_by=PERSON)
