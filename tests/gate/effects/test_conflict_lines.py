"""An agent that settles a merge's conflict writes what is new in it, and nobody's line that it only puts elsewhere."""

from pathlib import Path
from subprocess import CalledProcessError

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_blame import ME, sessions

BASE = "def main():\n    return base_value(1)\n"
PERSONS = ["    one = value_by_a_person(1, person)\n", "    two = another_value_by_a_person(2, person)\n"]
OWN = ["    three = value_by_an_agent(1, agent)\n", "    four = another_value_by_an_agent(2, agent)\n"]


def with_lines(*lines: str) -> str:
    return BASE.replace("    return", "".join(lines) + "    return")


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent whose commit stands against a person's on `side`."""
    found = Agent(governed(repository), home)
    found.select()
    file = repository / "src" / "app.py"
    file.write_text(BASE)
    run_git(repository, "commit", "-qam", "base")
    run_git(repository, "switch", "-qc", "side")
    file.write_text(with_lines(*PERSONS))
    run_git(repository, "commit", "-qam", "a person's")
    run_git(repository, "switch", "-q", "-")
    found.read("src/app.py")
    found.write("src/app.py", with_lines(*OWN))
    run_git(repository, "commit", "-qam", "the agent's")
    return found


@pytest.mark.parametrize(
    ("settled", "whose"),
    [
        ([*PERSONS, *OWN], [None, None, ME, ME]),
        ([*OWN, *PERSONS], [ME, ME, None, None]),
        ([PERSONS[1], *OWN, PERSONS[0]], [None, ME, ME, None]),
        ([PERSONS[0].replace("person", "agent"), *OWN, PERSONS[1]], [ME, ME, ME, None]),
    ],
    ids=["theirs first", "ours first", "around", "one of them changed"],
)
@pytest.mark.parametrize("way", ["merge", "rebase", "cherry-pick"])
def test_what_stood_in_the_conflict_stays_whose_it_was(
    agent: Agent, settled: list[str], whose: list[str | None], way: str
) -> None:
    at = run_git(agent.cwd, "branch", "--show-current").strip()
    if way == "rebase":
        run_git(agent.cwd, "switch", "-q", "side")
    with pytest.raises(CalledProcessError):
        run_git(agent.cwd, way, at if way == "rebase" else "side")
    assert b"<<<<<<< " in (agent.cwd / "src" / "app.py").read_bytes()
    agent.read("src/app.py")
    agent.write("src/app.py", with_lines(*settled))
    assert sessions(agent.cwd, "src/app.py")[1:-1] == whose
    run_git(agent.cwd, "add", "src")
    run_git(agent.cwd, "-c", "core.editor=true", way, "--continue")
    assert sessions(agent.cwd, "src/app.py")[1:-1] == whose
    assert sessions(agent.cwd, "src/app.py", "side" if way != "rebase" else "ORIG_HEAD")[1:-1] == [None, None]
