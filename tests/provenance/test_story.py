"""A session told from its beginning."""

from pathlib import Path

import pytest

from gate.driving import Agent, governed, machine
from provenance.speaking import Speaker
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.provenance.why.story import Step, in_words, story
from remit.provenance.why.talk import Session
from remit.tools.conversations import conversations


@pytest.fixture
def agent(repository: Path, home: Path) -> Speaker:
    return Speaker(governed(repository), home)


def steps(agent: Agent) -> tuple[Step, ...]:
    gate = Gate.open(agent.cwd, machine(agent.home))
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        with conversations(gate, [Session("claude-code", agent.session)]) as kept:
            return story(index, kept, agent.session)


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
    words = in_words(found)
    assert "Write src/new.py  → refused: MISSING_OR_INVALID_INTENT" in words
    assert "Write src/new.py  → allow, changed src/new.py" in words


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


def test_nothing_that_moves_the_cursor_is_printed(agent: Speaker) -> None:
    agent.add("user", "\x1b[2Jplease\nand \x1b]0;more\x07")
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    for full in (False, True):
        assert "\x1b" not in in_words(steps(agent), full=full)
