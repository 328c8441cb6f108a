"""The story of a session."""

from pathlib import Path

import pytest

from gate.driving import Agent, governed, machine
from provenance.speaker import Speaker
from remit.cli.records.session import session_view
from remit.cli.screen import Screen
from remit.cli.view import render
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.why.conversation_store import AgentSession
from remit.provenance.why.session_story import StoryStep, tell_session_story
from remit.tools.conversations import conversations


@pytest.fixture
def agent(repository: Path, home: Path) -> Speaker:
    return Speaker(governed(repository), home)


def steps(agent: Agent) -> tuple[StoryStep, ...]:
    gate = Gate.open(agent.cwd, machine(agent.home))
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        with conversations(gate, [AgentSession("claude-code", agent.session)]) as kept:
            return tell_session_story(index, kept, agent.session)


def test_prompts_words_calls_and_changes_come_in_order(agent: Speaker) -> None:
    agent.add("user", "please add a name")
    agent.says("I write it.")
    agent.write("src/new.py", "NAME = 1\n")
    agent.select()
    agent.write("src/new.py", "NAME = 1\n")
    found = steps(agent)
    assert [(s.kind, s.verdict, s.code, s.changed) for s in found if s.kind != "intent"] == [
        ("asked", "", "", ()),
        ("said", "", "", ()),
        ("call", "deny", "MISSING_OR_INVALID_INTENT", ()),
        ("call", "allow", "", ()),
        ("call", "allow", "", ("src/new.py",)),
    ]
    assert "INT-001 selected" in [s.text for s in found if s.kind == "intent"]
    shown = render(session_view(found, Screen(0.0)), Screen(0.0)).split("\n")
    assert any(row.endswith("✗ denied   Write src/new.py → MISSING_OR_INVALID_INTENT") for row in shown)
    written = next(n for n, row in enumerate(shown) if row.endswith("✓ allowed  Write src/new.py"))
    assert shown[written + 1].endswith("± changed  +src/new.py")
    assert shown[-1] == "3 calls: 2 allowed, 1 denied; 1 files changed"


def test_without_a_transcript_the_ledger_tells_the_calls(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "NAME = 1\n")
    assert [(s.tool, s.changed) for s in steps(agent) if s.changed] == [("Write", ("src/new.py",))]


def test_the_same_call_twice_has_two_verdicts(agent: Speaker) -> None:
    for _ in range(2):
        Agent.ask(agent, "Write", file_path="src/new.py", content="x\n")
        agent.select()
    calls = [s.verdict for s in steps(agent) if s.tool == "Write"]
    assert calls == ["deny", "allow"]


def test_a_subagents_steps_are_marked(agent: Speaker, home: Path) -> None:
    agent.select()
    child = Speaker(agent.cwd, home, agent_id="a1")
    child.add("user", "write it")
    child.write("src/new.py", "x = 1\n")
    found = [(s.agent_id, s.kind) for s in steps(agent) if s.agent_id]
    assert found == [("a1", "asked"), ("a1", "call")]


def test_no_cursor_movement_is_printed(agent: Speaker) -> None:
    agent.add("user", "\x1b[2Jplease\nand \x1b]0;more\x07")
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    for full in (False, True):
        screen = Screen(0.0, width=80)
        assert "\x1b" not in render(session_view(steps(agent), screen, full=full), screen)
