"""A work tree that an agent's call makes is a workspace of its own from then on, and the call had its verdict."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, body, governed, records, refusal


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    return found


def test_one_in_the_scope_is_made_and_told(agent: Agent) -> None:
    told = agent.shell("git worktree add -q src/wt -b side")["after"]["additionalContext"]
    assert "a work tree of its own now" in told
    assert "without a verdict" not in told
    assert len(records(agent.cwd, "tool_result")) == 1
    assert all(body(r)["covered"] for r in records(agent.cwd, "mutation"))


def test_work_in_it_needs_an_intent_selected_there(agent: Agent, home: Path) -> None:
    agent.shell("git worktree add -q src/wt -b side")
    assert refusal(agent.write("src/wt/src/new", "x")) == "MISSING_OR_INVALID_INTENT"
    there = Agent(agent.cwd / "src/wt", home)
    there.select()
    assert not refusal(there.write("src/new", "x"))


def test_one_outside_is_for_a_person(agent: Agent) -> None:
    assert refusal(agent.ask("Bash", command="git worktree add ../wt -b side")) == "OUTSIDE_WORKSPACE"
    assert "wt" not in run_git(agent.cwd, "worktree", "list")


def test_a_call_that_nobody_asked_about_is_still_told(agent: Agent) -> None:
    told = agent.tell("Bash", "toolu_unasked", {"stdout": ""}, command="make all")
    assert "without a verdict" in told["additionalContext"]
