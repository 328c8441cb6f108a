"""What people do between an agent's calls is recorded as theirs; what git brings, and what cannot be told, is not."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed, records
from remit.core.record import KEY


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    found.send("SessionStart", source="startup")
    return found


def edits(root: Path) -> list[tuple[str, list[str]]]:
    bodies = [record["metadata"][KEY] for record in records(root, "human_edit")]
    return [(body["origin"], [file["path"] for file in body["files"]]) for body in bodies]


def test_an_edit_between_two_writes_is_the_persons(agent: Agent) -> None:
    path = agent.cwd / "src" / "app.py"
    agent.write("src/app.py", "a = 1\n")
    path.write_text("a = 1\nperson = 2\n")
    agent.read("src/app.py")
    agent.write("src/app.py", "a = 1\nperson = 2\nb = 3\n")
    assert edits(agent.cwd) == [("person", ["src/app.py"])]


def test_an_edit_between_two_turns_is_the_persons(agent: Agent) -> None:
    agent.write("src/app.py", "a = 1\n")
    agent.send("Stop")
    (agent.cwd / "src" / "own.py").write_text("mine = 1\n")
    agent.send("UserPromptSubmit", prompt="go on")
    assert edits(agent.cwd) == [("person", ["src/own.py"])]


def test_after_a_command_it_may_have_been_what_the_command_left_running(agent: Agent) -> None:
    agent.shell("python3 -c 'pass'")
    (agent.cwd / "src" / "own.py").write_text("mine = 1\n")
    agent.send("Stop")
    assert edits(agent.cwd) == [("unknown", ["src/own.py"])]


def test_when_that_session_is_over_it_is_the_persons_again(agent: Agent) -> None:
    agent.shell("python3 -c 'pass'")
    agent.send("SessionEnd", reason="exit")
    agent.send("SessionStart", source="startup")
    (agent.cwd / "src" / "own.py").write_text("mine = 1\n")
    agent.send("UserPromptSubmit", prompt="go on")
    assert edits(agent.cwd) == [("person", ["src/own.py"])]


def test_what_git_puts_there_is_nobodys_edit(agent: Agent) -> None:
    agent.write("src/app.py", "a = 1\n")
    agent.send("Stop")
    run_git(agent.cwd, "checkout", "--", "src/app.py")
    agent.send("UserPromptSubmit", prompt="again")
    assert edits(agent.cwd) == [("git", ["src/app.py"])]
