"""One session's changes: as a diff, and taken out of the files again."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from forked_commands import run_command
from gate.driving import Agent, governed

TEN_LINES = "".join(f"line_{number} = {number}\n" for number in range(10))


def remit(folder: Path, *words: str, code: int = 0) -> Any:
    done = run_command([*words, "--json"], folder)
    assert done.returncode == code, done
    return json.loads(done.stdout)["data"]


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    (repository / "src/ten.py").write_text(TEN_LINES)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "ten lines")
    found = Agent(governed(repository), home)
    found.select()
    return found


def replace_line(text: str, number: int, by: str) -> str:
    return text.replace(f"line_{number} = {number}\n", by)


def test_a_sessions_diff_joins_its_changes_and_leaves_out_those_of_others(agent: Agent) -> None:
    path = agent.cwd / "src/ten.py"
    agent.write("src/ten.py", replace_line(TEN_LINES, 2, "two = 'first try'\n"))
    agent.write("src/ten.py", replace_line(TEN_LINES, 2, "two = 2\n"))
    path.write_text(replace_line(path.read_text(), 8, "by_a_person = 8\n"))
    agent.write("src/new.py", "NEW = 1\n")
    changes = remit(agent.cwd, "session", "session-1", "--diff")["changes"]
    assert [change["path"] for change in changes] == ["src/ten.py", "src/new.py"]
    assert "+two = 2" in changes[0]["diff"]
    assert "first try" not in changes[0]["diff"]
    assert "by_a_person" not in changes[0]["diff"]
    assert changes[1]["before"] is None


def test_an_undo_takes_out_one_sessions_lines_and_keeps_those_of_others(agent: Agent, home: Path) -> None:
    path = agent.cwd / "src/ten.py"
    agent.write("src/ten.py", replace_line(TEN_LINES, 2, "two = 2\n"))
    agent.write("src/new.py", "NEW = 1\n")
    other = Agent(agent.cwd, home, session="session-2")
    other.select()
    other.read("src/ten.py")
    other.write("src/ten.py", replace_line(path.read_text(), 8, "eight_by_another = 8\n"))
    assert remit(agent.cwd, "restore", "--session", "session-1", "--preview")["write"] == ["src/ten.py"]
    assert "two = 2" in path.read_text(), "a preview changes nothing"
    done = remit(agent.cwd, "restore", "--session", "session-1", "--yes")
    assert (done["write"], done["delete"], done["left"]) == (["src/ten.py"], ["src/new.py"], {})
    assert path.read_text() == replace_line(TEN_LINES, 8, "eight_by_another = 8\n")
    assert not (agent.cwd / "src/new.py").exists()
    again = remit(agent.cwd, "restore", "--session", "session-1", "--yes")
    assert (again["write"], again["delete"], again["left"]) == ([], [], {})
    remit(agent.cwd, "restore", "undo", "--yes")
    assert "two = 2" in path.read_text()
    assert (agent.cwd / "src/new.py").read_text() == "NEW = 1\n"
    [*_, first] = remit(agent.cwd, "log", "--event", "restore")
    assert first["metadata"]["dev.remit"]["session"] == "session-1"


def test_a_deleted_file_comes_back_with_its_content(agent: Agent) -> None:
    agent.shell("rm src/ten.py")
    assert not (agent.cwd / "src/ten.py").exists()
    assert remit(agent.cwd, "restore", "--session", "session-1", "--yes")["write"] == ["src/ten.py"]
    assert (agent.cwd / "src/ten.py").read_text() == TEN_LINES


@pytest.mark.parametrize(
    ("since", "reason"),
    [
        (replace_line(TEN_LINES, 2, "two = 'by a person'\n"), "somebody changed the same lines since"),
        (None, "somebody deleted it since"),
    ],
)
def test_a_file_that_somebody_changed_in_the_same_place_is_left_and_named(
    agent: Agent, since: str | None, reason: str
) -> None:
    path = agent.cwd / "src/ten.py"
    agent.write("src/ten.py", replace_line(TEN_LINES, 2, "two = 2\n"))
    agent.write("src/new.py", "NEW = 1\n")
    path.unlink() if since is None else path.write_text(since)
    done = remit(agent.cwd, "restore", "--session", "session-1", "--yes", code=1)
    assert done["left"] == {"src/ten.py": reason}
    assert (path.read_text() if path.exists() else None) == since
    assert not (agent.cwd / "src/new.py").exists()


def test_an_agent_may_not_undo_a_session(agent: Agent) -> None:
    agent.write("src/new.py", "NEW = 1\n")
    assert "restore" in json.dumps(agent.ask("Bash", command="remit restore --session session-1 --yes"))
