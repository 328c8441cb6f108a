"""What sessions begin with: the order of the bindings, what an agent may replace, and what it cannot leave."""

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.running import MAIN, run, run_on_terminal
from gate.driving import INTENTS, Agent, allowed, body, governed, machine, records, refusal
from remit.core.call import SessionKey
from remit.core.intent import make_slug
from remit.gate.gate import Gate
from remit.gate.intents.bindings import Binding, BindingKind, Bindings, find_named_intent, list_terminals
from remit.gate.intents.person_edits import PERSON
from remit.servers.hook import HookFrame, answer
from remit.tools.agent_tool import Caller
from remit.tools.catalogue import run_tool

KEY = SessionKey("session-1")
MANY = INTENTS + "".join(
    f'  - id: INT-00{number}\n    name: Part {number}\n    status: IN_PROGRESS\n    owned_scope: ["part{number}/**"]\n'
    "    constraints: [none]\n    acceptance_criteria: [it works]\n"
    for number in range(3, 8)
)


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    return Gate.open(governed(repository, intents=MANY), machine(home))


def put(gate: Gate, kind: BindingKind, name: str, intent_id: str, *, only: bool = False) -> None:
    Bindings(gate.state).put(Binding(kind, name, intent_id, only=only))


def begin(gate: Gate, session: str = KEY.session_id, pid: int = 0, **environment: str) -> tuple[str | None, str]:
    """Start a session; its intent, and what the model is told."""
    agent = Agent(gate.workspace.root, gate.environment.home, session)
    agent.environment = replace(agent.environment, **environment)
    frame = HookFrame("claude-code", str(agent.cwd), "note", pid=pid)
    told = answer(agent.payload("SessionStart", source="startup"), frame, agent.environment).stdout.decode()
    return gate.state.active_session(SessionKey(session)).intent_id, told


def checkout(gate: Gate, branch: str) -> None:
    subprocess.run(["git", "-C", gate.workspace.root, "checkout", "-qb", branch], check=True, capture_output=True)


def test_the_narrowest_place_counts_and_the_block_comes_first(gate: Gate) -> None:
    [terminal] = list_terminals(os.getpid())[:1] or [""]
    expected = [("INT-001", lambda: checkout(gate, "INT-001-names"))]
    expected += [("INT-002", lambda: put(gate, "branch", "INT-001-names", "INT-002"))]
    expected += [("INT-003", lambda: put(gate, "worktree", "", "INT-003"))]
    expected += [("INT-004", lambda: put(gate, "terminal", terminal, "INT-004"))] if terminal else []
    expected += [("INT-005", lambda: put(gate, "session", "s-4", "INT-005"))]
    for number, (intent_id, bind) in enumerate(expected):
        bind()
        session = "s-4" if intent_id == "INT-005" else f"s-{number}"
        found, told = begin(gate, session, os.getpid())
        assert found == intent_id
        assert intent_id in told
    assert begin(gate, "s-9", bound_intent="INT-006")[0] == "INT-006"
    by = [body(record)["by"] for record in records(gate.workspace.root, "intent_selected")]
    assert by[:3] == ["branch", "bound branch", "bound worktree"]
    assert by[-2:] == ["bound session", "environment"]


def test_an_explicit_selection_replaces_a_binding(gate: Gate) -> None:
    put(gate, "worktree", "", "INT-003")
    begin(gate)
    agent = Agent(gate.workspace.root, gate.environment.home)
    assert allowed(agent.select("INT-001"))
    assert allowed(agent.write("src/a.py", "x\n"))


@pytest.mark.parametrize("kind", ["session", "worktree", "environment"])
def test_what_a_person_holds_a_session_to_it_cannot_leave(gate: Gate, kind: BindingKind | str) -> None:
    if kind == "environment":
        begin(gate, bound_intent="INT-003")
    else:
        name = KEY.session_id if kind == "session" else ""
        Bindings(gate.state).put(Binding(kind, name, "INT-003", only=True))  # pyright: ignore[reportArgumentType]
        begin(gate)
    root, home = gate.workspace.root, gate.environment.home
    agent, child = Agent(root, home), Agent(root, home, KEY.session_id, "child-1")
    for one in (agent, child):
        caller = Caller(SessionKey(KEY.session_id, one.agent_id), "claude-code")
        for _ in range(2):
            assert refusal(one.select("INT-001")) == "INTENT_ALREADY_ACTIVE"
            assert not run_tool(gate, caller, "select_active_intent", {"intent_id": "INT-001"}).ok
            assert refusal(one.ask("Bash", command="remit intent clear")) == "INTENT_ALREADY_ACTIVE"
            assert not run_tool(gate, caller, "clear_active_intent", {}).ok
            agent.send("UserPromptSubmit", prompt="go on")
        assert not allowed(one.write("src/a.py", "x\n"))
        assert allowed(one.write("part3/a.py", f"{one.agent_id}\n"))
    assert run_tool(
        gate, Caller(KEY, "claude-code"), "complete_intent", {"intent_id": "INT-003", "verification_notes": "x"}
    ).ok
    assert refusal(agent.select("INT-001")) == "INTENT_ALREADY_ACTIVE"
    gate.intents.select(KEY, PERSON, "INT-001", said_by=PERSON)
    assert allowed(agent.write("src/a.py", "x\n"))


@pytest.mark.parametrize("setting", ["bound", "single"])
def test_the_one_open_intent_is_selected_where_a_person_says_so(repository: Path, home: Path, setting: str) -> None:
    root = governed(repository, intents=INTENTS[: INTENTS.index("  - id: INT-002")])
    config = root / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + f'\n[intents]\nauto_select = "{setting}"\n')
    gate = Gate.open(root, machine(home))
    found, _ = begin(gate)
    assert found == ("INT-001" if setting == "single" else None)
    told = Agent(root, home, "other").write("src/a.py", "x\n")
    if setting == "bound":
        assert "INT-001" in told["permissionDecisionReason"]


@pytest.mark.parametrize(
    ("branch", "intent_id"),
    [
        ("feature/part-3", "INT-003"),
        ("part-3", "INT-003"),
        ("feature/part", None),
        ("names", "INT-001"),
        ("main2", None),
    ],
)
def test_a_branch_names_its_intent_by_id_or_by_name(gate: Gate, branch: str, intent_id: str | None) -> None:
    checkout(gate, branch)
    assert begin(gate)[0] == intent_id
    assert find_named_intent("x/part-3", [*gate.intents.document.intents] * 2) is None
    assert make_slug("  Rate limits, at LOGIN!  ") == "rate-limits-at-login"


def test_people_bind_and_unbind_and_agents_do_neither(gate: Gate) -> None:
    root = gate.workspace.root
    assert run(root, "intent", "bind", "INT-003", "--worktree", "--only").returncode == 0
    for words in (("bind", "INT-001", "--worktree"), ("unbind", "--worktree"), ("bind", "INT-001", "--branch", "x")):
        refused = run(root, "intent", *words, CLAUDECODE="1")
        assert (refused.returncode, "is for a person" in refused.stderr) == (3, True), refused
    assert "cannot leave it" in run(root, "intent", "bind").stdout
    begin(gate)
    agent = Agent(root, gate.environment.home)
    assert refusal(agent.select("INT-001")) == "INTENT_ALREADY_ACTIVE"
    assert run(root, "intent", "unbind").returncode == 0
    agent.ask("Bash", command="remit intent clear")
    assert allowed(agent.select("INT-001"))
    assert run(root, "intent", "unbind").returncode == 2
    assert run(root, "intent", "bind", "INT-003", "--session", "session-1", "--only").returncode == 0
    assert refusal(agent.select("INT-001")) == "INTENT_ALREADY_ACTIVE"


BELOW_A_TERMINAL = """
import os, subprocess, sys
from pathlib import Path
subprocess.run([sys.executable, "-c", sys.argv[1], "intent", "bind", "INT-003", "--terminal"], check=True)
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.intents.bindings import find_binding
from remit.gate.machine import HOOK_PID
from remit.servers.environment import read_environment
HOOK_PID.set(os.getpid())
print("begins with", find_binding(Gate.open(Path.cwd(), read_environment()), SessionKey("s")))
"""


def test_a_terminal_is_bound_with_its_first_process(gate: Gate) -> None:
    root = gate.workspace.root
    code, seen = run_on_terminal(root, ["-c", BELOW_A_TERMINAL, MAIN], b"never asked", b"")
    assert (code, "IntentBinding(intent_id='INT-003', source='bound terminal')" in seen) == (0, True), seen
    assert begin(gate, pid=os.getpid())[0] is None
