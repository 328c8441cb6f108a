"""Completion of `remit` in a shell: each kind of value, asked for as bash asks."""

from pathlib import Path

import pytest

from cli.running import run
from gate.driving import Agent, governed


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    found.write("src/new.py", "NEW = 1\n")
    found.shell("rm src/new.py")
    return found


def offered(folder: Path, *words: str) -> list[str]:
    """What bash is offered for the last of these words, without the kinds."""
    asked = {
        "_REMIT_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("remit", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = run(folder, **asked)
    assert done.returncode == 0, done.stderr
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    "words",
    [("intent", "show", "INT-"), ("intent", "edit", "I"), ("log", "--intent", ""), ("stats", "--intent", "INT")],
)
def test_ids_of_intents_are_offered(agent: Agent, words: tuple[str, ...]) -> None:
    assert "INT-001" in offered(agent.cwd, *words)


@pytest.mark.parametrize("words", [("session", "sess"), ("log", "--session", ""), ("restore", "--session", "s")])
def test_sessions_are_offered(agent: Agent, words: tuple[str, ...]) -> None:
    assert offered(agent.cwd, *words) == ["session-1"]


def test_events_records_and_snapshots_are_offered(agent: Agent) -> None:
    assert offered(agent.cwd, "log", "--event", "mut") == ["mutation"]
    assert len(offered(agent.cwd, "show", "")) > 3
    points = offered(agent.cwd, "restore", "")
    assert {"list", "latest", "undo"} < set(points)
    assert len(points) > 5, "a snapshot was taken before the deletion"


@pytest.mark.parametrize("command", ["blame", "why", "stats"])
def test_file_names_are_left_to_the_shell(agent: Agent, command: str) -> None:
    assert offered(agent.cwd, command, "sr") == ["sr"]


def test_where_nothing_is_to_be_read_nothing_is_offered_and_nothing_breaks(tmp_path: Path) -> None:
    assert offered(tmp_path, "intent", "show", "") == []
    assert offered(tmp_path, "session", "") == []
