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


@pytest.mark.parametrize(
    "command", ["echo 'a = 1' > src/x.py", "mkdir -p src/z && cp src/app.py src/z/", "rm -f src/x.py"]
)
def test_a_command_that_writes_what_its_text_says_leaves_nothing_running(agent: Agent, command: str) -> None:
    agent.shell(command)
    (agent.cwd / "src" / "own.py").write_text("mine = 1\n")
    agent.send("Stop")
    assert ("person", ["src/own.py"]) in edits(agent.cwd)


@pytest.mark.parametrize(
    "command",
    [
        "echo 'a = 1' > src/x.py &",
        "(sleep 9; echo 'a = 1' > src/x.py) &",
        "nohup cp src/app.py src/x.py",
        "setsid echo 'a = 1' > src/x.py",
        "git commit -q --allow-empty -m x",
    ],
)
def test_a_command_that_may_leave_something_running_makes_the_next_change_nobodys(agent: Agent, command: str) -> None:
    agent.shell(command)
    (agent.cwd / "src" / "own.py").write_text("mine = 1\n")
    agent.send("Stop")
    assert {origin for origin, paths in edits(agent.cwd) if "src/own.py" in paths} == {"unknown"}


def test_a_command_in_the_background_makes_the_next_change_nobodys(agent: Agent) -> None:
    command = "echo 'a = 1' > src/x.py"
    asked = agent.ask("Bash", command=command, run_in_background=True)
    agent.tell("Bash", asked["call_id"], {"stdout": ""}, command=command, run_in_background=True)
    (agent.cwd / "src" / "own.py").write_text("mine = 1\n")
    agent.send("Stop")
    assert {origin for origin, paths in edits(agent.cwd) if "src/own.py" in paths} == {"unknown"}


def test_what_a_call_under_way_may_have_written_is_nobodys(agent: Agent, home: Path) -> None:
    other = Agent(agent.cwd, home, session="session-2")
    other.select()
    agent.write("src/app.py", "a = 1\n")
    command = "echo 'b = 2' >> src/app.py"
    asked = other.ask("Bash", command=command)
    (agent.cwd / "src" / "app.py").write_text("a = 1\nb = 2\n")
    agent.read("src/app.py")
    agent.ask("Write", file_path=str(agent.cwd / "src/app.py"), content="c = 3\n")
    assert ("person", ["src/app.py"]) not in edits(agent.cwd)
    other.tell("Bash", asked["call_id"], {"stdout": ""}, command=command)


def test_a_file_that_git_changed_before_an_edit_is_nobodys(agent: Agent) -> None:
    agent.write("src/app.py", "a = 1\n")
    run_git(agent.cwd, "add", "src")
    run_git(agent.cwd, "commit", "-q", "-m", "one")
    run_git(agent.cwd, "checkout", "-q", "-b", "other")
    (agent.cwd / "src" / "app.py").write_text("a = 1\nteammate = 2\n")
    run_git(agent.cwd, "commit", "-q", "-a", "-m", "two")
    run_git(agent.cwd, "checkout", "-q", "-")
    agent.read("src/app.py")
    agent.write("src/app.py", "a = 1\nagent = 2\n")
    run_git(agent.cwd, "commit", "-q", "-a", "-m", "three")
    run_git(agent.cwd, "checkout", "-q", "other")
    agent.read("src/app.py")
    agent.write("src/app.py", "a = 1\nteammate = 2\nagent = 2\n")
    assert {origin for origin, _ in edits(agent.cwd)} == {"git"}
