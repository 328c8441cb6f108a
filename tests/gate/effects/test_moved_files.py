"""Who moves a file, or has git bring one, did not write its lines."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, records, uncontained
from gate.effects.test_command_lines import ran, unproved
from provenance.test_blame import ME, sessions

OWN = "def measured_widths(rows):\n    return sum(rows)\n"
PERSONS = "def persons_own_function(arguments):\n    return arguments.count('person')\n"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent whose commands run as they are."""
    return uncontained(repository, home)


def moved(agent: Agent, command: str = "mv src/a.py src/b.py") -> list[list[int]] | None:
    """What is open of the file that the command left as `src/b.py`."""
    return unproved(ran(agent, command))["src/b.py"]


def test_a_persons_file_that_is_moved_stays_nobodys(agent: Agent) -> None:
    (agent.cwd / "src" / "a.py").write_text(PERSONS)
    assert moved(agent) == [[1, 2]]
    assert sessions(agent.cwd, "src/b.py") == [None, None]


def test_the_sessions_own_stays_its_own(agent: Agent) -> None:
    agent.write("src/a.py", OWN)
    agent.write("src/a.py", OWN.replace("sum", "max"))
    assert moved(agent) is None
    assert sessions(agent.cwd, "src/b.py") == [ME, ME]


def test_one_that_a_person_had_a_hand_in_does_not(agent: Agent) -> None:
    (agent.cwd / "src" / "a.py").write_text(PERSONS)
    agent.read("src/a.py")
    agent.write("src/a.py", PERSONS + OWN)
    assert moved(agent) == [[1, 4]]


def test_nor_does_another_sessions(agent: Agent, home: Path) -> None:
    second = Agent(agent.cwd, home, "session-2")
    second.select()
    second.write("src/a.py", OWN)
    assert moved(agent) == [[1, 2]]


def test_what_the_command_then_puts_in_is_its_own(agent: Agent) -> None:
    (agent.cwd / "src" / "a.py").write_text(PERSONS + OWN)
    assert moved(agent, "mv src/a.py src/b.py && sed -i 's/count/agents_count/' src/b.py") == [[1, 1], [3, 4]]


@pytest.mark.parametrize(
    "command", ["git checkout other -- src/b.py", "git restore --source=other src/b.py", "git show other:src/b.py"]
)
def test_what_git_brings_from_another_branch_is_not_the_agents(agent: Agent, command: str) -> None:
    run_git(agent.cwd, "checkout", "-qb", "other")
    (agent.cwd / "src" / "b.py").write_text(PERSONS)
    run_git(agent.cwd, "add", "src/b.py")
    run_git(agent.cwd, "commit", "-qm", "theirs")
    run_git(agent.cwd, "checkout", "-q", "-")
    agent.shell(command)
    found = [unproved(record) for record in records(agent.cwd, "mutation")]
    assert found in ([], [{"src/b.py": [[1, 2]]}])
