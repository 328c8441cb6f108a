"""Files in the scope of which more is written than their name here."""

import os
from pathlib import Path

import pytest

from gate.driving import Agent, allowed, governed, refusal


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent with an intent that owns `src/**`, in a repository that enforces."""
    found = Agent(governed(repository), home)
    (repository / "src").mkdir(exist_ok=True)
    found.select()
    return found


def write(agent: Agent, path: str) -> str:
    """What a write by the file tool is refused for."""
    return refusal(agent.ask("Write", file_path=path, content="x\n"))


def test_a_file_with_another_name_elsewhere_is_asked_about(agent: Agent, tmp_path: Path) -> None:
    outside = tmp_path / "victim"
    outside.write_text("theirs\n")
    (agent.cwd / "src" / "twin").hardlink_to(outside)
    assert write(agent, "src/twin") == "OUTSIDE_WORKSPACE"
    (agent.cwd / "src" / "twin").unlink()
    assert allowed(agent.ask("Write", file_path="src/twin", content="x\n"))


def test_a_pipe_is_asked_about(agent: Agent) -> None:
    os.mkfifo(agent.cwd / "src" / "pipe")
    assert write(agent, "src/pipe") == "OUTSIDE_WORKSPACE"


def test_what_is_behind_proc_is_no_file_of_anybody_s(agent: Agent) -> None:
    assert write(agent, f"/proc/self/root{agent.cwd}/src/x") == "INVALID_ARGUMENTS"
    assert write(agent, "/proc/self/cwd/src/x") == "INVALID_ARGUMENTS"
