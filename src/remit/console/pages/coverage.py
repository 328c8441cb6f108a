"""Coverage and policy: how agents are governed, what nobody judged, the grants, the mode, and a call to try."""

import os
import re
from typing import Any, get_args

from msgspec import Struct

from remit.console.guard import Refused
from remit.console.pages.page import PageRequest
from remit.console.pages.settings import record_setting_change
from remit.core.acts import Act
from remit.core.agents import ROWS, AgentRow
from remit.core.call import SessionKey
from remit.core.decision import HINTS, Grant, Mode
from remit.core.record import KEY
from remit.gate.gate import Gate
from remit.gate.governing.settings import set_mode
from remit.gate.policy_query import PolicyQuery, judge_query
from remit.ledger.index.index import Index
from remit.provenance.verify.verdict_coverage import MAX_RECORDS, measure_share
from remit.wiring.agents import DetectedAgent, find_agents, find_user_place, find_wired_place
from remit.wiring.doctor_checks import check_latency, check_wiring
from remit.wiring.hook_client import NoClient
from remit.wiring.json_merge import NotJson
from remit.wiring.manifest import SettingsError, read_manifest
from remit.wiring.wire import WiringProblem

MAX_CALLS = 2000
MODES = get_args(Mode)  # the lowest first
LATENCY_RUNS = 5
NOTEBOOKS = re.compile("notebook", re.IGNORECASE)


class GovernedAgent(Struct, frozen=True):
    """An agent that is installed, wired or known here. `level` is `ok`, `warn` or `fail`, of its wiring; the counts are
    of the newest calls. `latency` is empty unless it was measured.
    """

    agent: str
    title: str
    is_installed: bool
    is_wired: bool
    level: str
    wiring: str
    fix: str
    last_call: str
    calls: int
    denied: int
    by_subagents: int
    by_mcp: int
    on_notebooks: int
    changed: int
    judged: int
    latency: str


class GovernanceReport(Struct, frozen=True):
    """The answer of `remit status`, the agents, the grants, and the answer of `remit mode suggest` if it was asked."""

    status: dict[str, Any]
    agents: list[GovernedAgent]
    grants: list[Grant]
    suggestion: dict[str, Any] | None


class GovernanceFacts(Struct, frozen=True):
    """What a worker reads for the page."""

    agents: list[GovernedAgent]
    grants: list[Grant]


class Simulation(Struct, frozen=True):
    """A call that nobody makes, and what the rules decide; the answer is the one of `remit policy test`."""

    command: str
    write: str
    intent: str
    session: str
    intents: list[str]
    sessions: list[str]
    mode: str
    answer: dict[str, Any] | None = None
    hints: dict[str, str] = {}


class ModeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The mode to set; `shown` is the mode that the person saw."""

    mode: Mode
    shown: Mode


def read_coverage(request: PageRequest) -> GovernanceReport:
    repositories, repository = request.repositories, request.one_repository
    status = repositories.run_command(repository, "status")
    suggestion = repositories.run_command(repository, "mode", "suggest") if request.query.get("suggest") else None
    parts = repositories.run_job(repository, describe_governance, bool(request.query.get("measure")))
    return GovernanceReport(status, parts.agents, parts.grants, suggestion)


def read_simulation(request: PageRequest) -> Simulation:
    command, write, intent, session = (request.query.get(n, "") for n in ("command", "write", "intent", "session"))
    if command and write:
        raise Refused(400, "a call runs a command or writes a file", "give one of them")
    return request.repositories.run_job(request.one_repository, simulate_call, command, write, intent, session)


def choose_mode_change(body: ModeBody) -> Act:
    """Return the act; `put_mode` refuses a body whose `shown` is not the mode."""
    return Act.RAISE_MODE if MODES.index(body.mode) > MODES.index(body.shown) else Act.LOWER_MODE


def change_mode(request: PageRequest, body: ModeBody) -> dict[str, str]:
    return request.repositories.run_job(request.one_repository, put_mode, body.mode, body.shown)


# In a worker


def describe_governance(gate: Gate, measure: bool) -> GovernanceFacts:
    home = gate.environment.home
    manifest = read_manifest(home)
    try:
        user = find_user_place(home, os.environ, manifest)
        found = find_agents(home, os.environ.get("PATH", os.defpath), moved=user.moved_folders)
    except SettingsError as error:
        raise Refused(503, str(error)) from None
    with gate.index() as index:
        usage = count_usage(index)
        shares = measure_agents(index)
    installed = {agent.row.agent for agent in found}
    known = [DetectedAgent(ROWS[name], None) for name in usage if name in ROWS and name not in installed]
    agents: list[GovernedAgent] = []
    for agent in [*found, *known]:
        row = agent.row
        place = find_wired_place(agent, user, gate.workspace.root, manifest)
        try:
            checked = check_wiring(agent, place or user, manifest)
            level, wiring, fix = (*checked, "")[:3] if checked else ("ok", "", "")
        except (WiringProblem, NoClient, NotJson, OSError) as error:
            level, wiring, fix = "fail", str(error).partition("\n")[0], "remit doctor"
        latency = measure_latency(row, gate) if measure and place else ""
        counted = usage.get(row.agent, ObservedCalls())
        changed, judged = shares.get(row.agent, (0, 0))
        agents.append(
            GovernedAgent(
                row.agent,
                row.title,
                agent.binary is not None,
                place is not None and level != "fail",
                level,
                wiring,
                fix,
                counted.last_call,
                counted.calls,
                counted.denied,
                counted.by_subagents,
                counted.by_mcp,
                counted.on_notebooks,
                changed,
                judged,
                latency,
            )
        )
    return GovernanceFacts(agents, list(gate.active_grants(gate.rules)))


class ObservedCalls(Struct):
    """How an agent called tools lately."""

    last_call: str = ""
    calls: int = 0
    denied: int = 0
    by_subagents: int = 0
    by_mcp: int = 0
    on_notebooks: int = 0


def count_usage(index: Index) -> dict[str, ObservedCalls]:
    found: dict[str, ObservedCalls] = {}
    for event in ("tool_use", "denied"):
        for document in index.find(event=event, limit=MAX_CALLS):
            body: dict[str, Any] = document["metadata"][KEY]
            agent = str(document.get("tool", {}).get("name") or "")
            usage = found.setdefault(agent, ObservedCalls())
            usage.last_call = max(usage.last_call, str(document["timestamp"]))
            usage.calls += event == "tool_use"
            usage.denied += event == "denied"
            usage.by_subagents += bool(body.get("agent_id"))
            call: dict[str, Any] = body.get("call") or {}
            tool = str(call.get("name") or "")
            row = ROWS.get(agent)
            usage.by_mcp += row is not None and re.fullmatch(row.mcp_name, tool) is not None
            usage.on_notebooks += NOTEBOOKS.search(tool) is not None
    return found


def measure_agents(index: Index) -> dict[str, tuple[int, int]]:
    bodies: dict[str, list[dict[str, Any]]] = {}
    for document in index.find(event="mutation", limit=MAX_RECORDS):
        agent = str(document.get("tool", {}).get("name") or "")
        bodies.setdefault(agent, []).append(document["metadata"][KEY])
    shares = {agent: measure_share(own) for agent, own in bodies.items()}
    return {agent: (share.changed, share.covered_files) for agent, share in shares.items()}


def measure_latency(row: AgentRow, gate: Gate) -> str:
    checks = check_latency(row, gate.environment.home, os.environ, LATENCY_RUNS)
    return checks[0].message if checks else ""


def simulate_call(gate: Gate, command: str, write: str, intent: str, session: str) -> Simulation:
    intents = list(gate.rules.intents.ids)
    sessions = [key.session_id for key in gate.state.list_recent_sessions()]
    shown = Simulation(command, write, intent, session, intents, sessions, gate.rules.mode)
    if not command and not write:
        return shown
    if intent:
        gate.intents.get(intent)
    if session and session not in sessions:
        raise Refused(404, "no session of that name is known", "choose one of the list")
    query = PolicyQuery(command=command or None, write=write or None)
    answer = judge_query(gate, query, SessionKey(session), intent or None)
    codes = {str(reason).partition(":")[0] for reason in answer["reasons"]}
    hints = {code: HINTS[code] for code in sorted(codes) if code in HINTS}
    return Simulation(command, write, intent, session, intents, sessions, gate.rules.mode, answer, hints)


def put_mode(gate: Gate, mode: Mode, shown: Mode) -> dict[str, str]:
    if gate.rules.mode != shown:
        raise Refused(409, f"the mode is {gate.rules.mode} by now", "load the page again")
    set_mode(gate.workspace, mode)
    record_setting_change(gate, "mode", f'"{shown}"', f'"{mode}"')
    return {"mode": gate.rules.mode}
