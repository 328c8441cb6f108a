"""Files in the scope of which more is written than their name here."""

import os
import time
from pathlib import Path

import pytest

from gate.driving import Agent, allowed, body, governed, records, refusal
from remit.policy.commands import analyse
from remit.workspace.git.command import TIMEOUT_S


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


@pytest.mark.parametrize("name", ["src/.gitignore", ".gitattributes"])
def test_a_pipe_with_a_name_of_gits_holds_up_no_hook(agent: Agent, name: str) -> None:
    """A git that waits at it would take all its time in each of the nine hooks."""
    assert analyse(f"mkfifo {name}").outcome == "unknown"
    began = time.monotonic()
    agent.write("src/a.py", "x = 1\n")
    agent.shell(f"mkfifo {name}; touch src/made")
    agent.write("src/b.py", "y = 1\n")
    agent.shell('python3 -c \'open("src/c.py", "w").write("z = 1")\'')
    agent.send("Stop")
    agent.shell(f"rm {name}")
    assert time.monotonic() - began < 4 * TIMEOUT_S
    changed = {file["path"] for record in records(agent.cwd, "mutation") for file in body(record)["files"]}
    assert {"src/a.py", "src/made", "src/b.py", "src/c.py"} <= changed


@pytest.mark.parametrize("name", ["", "remit.toml", ".intentignore", "hooks", "intents", "intents/closed"])
def test_rules_behind_a_link_close_everything_for_an_agent_may_own_its_target(
    agent: Agent, tmp_path: Path, name: str
) -> None:
    assert write(agent, "src/a.py") == ""
    place = agent.cwd / ".orchestration" / name
    target = agent.cwd / "src" / "rules"
    place.rename(target) if place.exists() else (place.parent.mkdir(exist_ok=True), target.mkdir())
    place.symlink_to(target)
    answer = agent.ask("Write", file_path="src/a.py", content="x\n")
    assert refusal(answer) == "CONFIG_INVALID"
    assert "is a symbolic link" in answer["permissionDecisionReason"]
