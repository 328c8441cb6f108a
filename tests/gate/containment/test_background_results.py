"""What a model hears of a contained command beyond its own output: a late end, and what it was kept from."""

from pathlib import Path

import pytest

from gate.driving import Agent, governed, overlay, run_shell

CHANGE = "python3 -c \"open('{path}', 'w').write('x')\""


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    overlay(home)
    governed(repository)
    (home / "tmp").mkdir(exist_ok=True)
    found = Agent(repository, home)
    found.select()
    return found


def launched(agent: Agent, words: str) -> str:
    """What the launcher says."""
    done = run_shell(words, agent.cwd)
    return done.stderr


def test_what_a_command_dropped_after_its_call_came_back_is_told_with_the_next_call_once(agent: Agent) -> None:
    given = agent.ask("Bash", command=CHANGE.format(path="side.md"), run_in_background=True)
    agent.tell("Bash", given["call_id"], {"stdout": ""}, **given["updatedInput"])
    assert "SCOPE_VIOLATION" in launched(agent, given["updatedInput"]["command"])
    told = agent.ask("Bash", command="ls").get("additionalContext", "")
    assert "side.md" in told
    assert "has ended" in told
    assert "additionalContext" not in agent.ask("Bash", command="ls")


def test_what_stands_in_the_output_is_not_told_again(agent: Agent) -> None:
    given = agent.ask("Bash", command=CHANGE.format(path="side.md"))
    assert "SCOPE_VIOLATION" in launched(agent, given["updatedInput"]["command"])
    agent.tell("Bash", given["call_id"], {"stdout": ""}, **given["updatedInput"])
    assert "additionalContext" not in agent.ask("Bash", command="ls")


def test_what_was_left_running_is_said_to_have_ended(agent: Agent) -> None:
    behind = agent.ask("Bash", command=f"(sleep 9; {CHANGE.format(path='src/a.py')}) > /dev/null 2>&1 &")
    assert "was ended with it" in launched(agent, behind["updatedInput"]["command"])
    waited = agent.ask("Bash", command=f"{CHANGE.format(path='src/b.py')} & wait")
    assert launched(agent, waited["updatedInput"]["command"]) == ""


def test_a_failing_command_hears_which_of_its_places_were_read_only(agent: Agent) -> None:
    (agent.cwd / "src" / "change.py").write_text("import sys; open(sys.argv[1], 'w')")
    rules = agent.ask("Bash", command="python3 src/change.py .orchestration/active_intents.yaml")
    assert "PROTECTED_PATH" in launched(agent, rules["updatedInput"]["command"])
    other = agent.ask("Bash", command="python3 -c 'raise SystemExit(1)'; nosuchprogram")
    assert "PROTECTED_PATH" not in launched(agent, other["updatedInput"]["command"])
