"""A formatter that an agent runs contained: each line stays with whoever wrote it."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from gate.containment.test_rewrite_call import run
from gate.driving import Agent, body, governed, overlay, records
from provenance.test_blame import blame, commit

FORMATTERS = {"ruff": "ruff format -q --no-cache src/f.py", "black": "black -q src/f.py"}

PERSONS = "value_of_person = { 'alpha':1,\n  'beta':2 }\ndef persons( first, second ):\n    return first+second\n"
AGENTS = "value_of_agent = { 'gamma':1,\n  'delta':2 }\ndef agents( first, second ):\n    return first-second\n"


@pytest.fixture(autouse=True)
def sandbox(home: Path) -> None:
    overlay(home)


@pytest.fixture
def agent(repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """Return an agent whose shell finds the formatters of this environment."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    governed(repository)
    (home / "tmp").mkdir(exist_ok=True)
    (repository / "src/f.py").write_text(PERSONS)
    commit(repository)
    found = Agent(repository, home)
    found.select()
    return found


def formatter(name: str) -> str:
    if shutil.which(name) is None:
        pytest.skip(f"{name.upper()} IS NOT INSTALLED, ITS LAYOUTS ARE NOT TESTED: pip install {name}")
    return FORMATTERS[name]


def writers(root: Path) -> set[tuple[str, str, str | None]]:
    """Return who wrote the lines that name a writer, with the grade."""
    words = ("person", "agent")
    return {
        (word, line.origin, line.grade) for line in blame(root, "src/f.py") for word in words if word in line.content
    }


@pytest.mark.parametrize("name", FORMATTERS)
@pytest.mark.parametrize("committed", [True, False])
def test_each_line_of_a_formatted_file_stays_with_its_writer(agent: Agent, name: str, committed: bool) -> None:
    command = formatter(name)
    agent.read("src/f.py")
    agent.write("src/f.py", PERSONS + AGENTS)
    if committed:
        commit(agent.cwd)
    answer, _ = run(agent, command)
    assert "updatedInput" in answer
    assert (agent.cwd / "src/f.py").read_text() != PERSONS + AGENTS
    expected = {("person", "unknown", None), ("agent", "ai", "normalised")}
    assert writers(agent.cwd) == expected
    commit(agent.cwd)
    assert writers(agent.cwd) == expected


def test_the_lines_of_a_file_that_was_formatted_twice_stay_with_their_writer(agent: Agent) -> None:
    agent.read("src/f.py")
    agent.write("src/f.py", PERSONS + AGENTS)
    commit(agent.cwd)
    for width in (88, 30):
        run(agent, f"ruff format -q --no-cache --line-length={width} src/f.py")
        commit(agent.cwd)
    assert writers(agent.cwd) == {("person", "unknown", None), ("agent", "ai", "normalised")}


def test_the_record_says_that_the_lines_are_a_new_layout(agent: Agent) -> None:
    run(agent, FORMATTERS["ruff"])
    [file] = body(records(agent.cwd, "mutation")[-1])["files"]
    assert file["layout"] is True
    assert file["unproved"]


def test_what_a_program_with_a_formatters_name_adds_is_the_calls_own(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = agent.home / "bin/black"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nsed -i 's/first+second/stolen(first, second)/; s/( /(/' src/f.py\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    run(agent, "black src/f.py")
    grades = {line.content: (line.origin, line.grade) for line in blame(agent.cwd, "src/f.py")}
    assert grades["    return stolen(first, second)"] == ("ai", "exact")
    assert grades["def persons(first, second ):"] == ("unknown", None)
