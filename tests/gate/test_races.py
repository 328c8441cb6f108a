"""What a command's text tells of its writes has to hold until it writes: links that wait, or come meanwhile."""

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, allowed, governed, overlay
from waiting import wait_until

LATER = "sleep 1; echo evil >> {}"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    overlay(home)
    governed(repository)
    (home / "tmp").mkdir(exist_ok=True)
    found = Agent(repository, home)
    found.select()
    return found


@pytest.fixture
def victim(home: Path) -> Iterator[Path]:
    place = home / "mine"
    place.write_text("mine\n")
    yield place
    assert place.read_text() == "mine\n"


class Call:
    """A shell call of the agent, let through; it runs when it is told to."""

    def __init__(self, agent: Agent, command: str, **more: Any) -> None:
        self.agent = agent
        before = agent.ask("Bash", command=command, **more)
        assert allowed(before), before
        self.call_id: str = before["call_id"]
        self.given: dict[str, Any] = before.get("updatedInput", {"command": command, **more})
        self.contained = self.given["command"] != command

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["bash", "-c", self.given["command"]],
            cwd=self.agent.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def back(self) -> None:
        self.agent.tell("Bash", self.call_id, {"stdout": ""}, **self.given)

    def run(self) -> str:
        """Run it to its end; what it says as an error."""
        said = self.start().communicate()[1]
        self.back()
        return said


def link(place: str | Path, target: Path) -> str:
    return f"python3 -c \"import os; os.symlink('{target}', '{place}')\""


def waiting(agent: Agent, name: str, target: Path) -> None:
    """A link that was there before, as in any repository."""
    place = agent.cwd / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def test_an_archive_is_not_unpacked_through_a_link(agent: Agent, victim: Path) -> None:
    waiting(agent, "src/in/l", victim.parent)
    (agent.cwd / "mine").write_text("evil")
    with tarfile.open(agent.cwd / "src/x.tar", "w") as archive:
        archive.add(agent.cwd / "mine", "l/mine")
    call = Call(agent, "tar xf src/x.tar -C src/in")
    assert call.contained
    call.run()


@pytest.mark.parametrize("command", ["cp -r src/from/. src/in", "cp -a src/from/. src/in", "cp src/from/* src/in"])
def test_a_folder_is_not_copied_through_a_link(agent: Agent, victim: Path, command: str) -> None:
    waiting(agent, "src/in/f", victim)
    agent.write("src/from/f", "evil")
    call = Call(agent, command)
    assert call.contained
    call.run()


def test_what_an_archive_brings_is_judged_name_by_name(agent: Agent) -> None:
    folder = agent.cwd / "made"
    for name in ("nest/.git/config", ".claude/settings.json", ".orchestration/remit.toml", "good.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    with tarfile.open(agent.cwd / "src/x.tar", "w") as archive:
        for name in ("nest", ".claude", ".orchestration", "good.py"):
            archive.add(folder / name, name)
    said = Call(agent, "tar xf src/x.tar -C src").run()
    assert "PROTECTED_PATH" in said
    assert sorted(p.name for p in (agent.cwd / "src").rglob("*") if p.is_file()) == ["app.py", "good.py", "x.tar"]


def test_the_second_part_of_a_split_file_goes_through_no_link(agent: Agent, victim: Path) -> None:
    waiting(agent, "src/xab", victim)
    agent.write("src/big", "evil\n" * 3000)
    call = Call(agent, "split src/big src/x")
    assert call.contained
    call.run()


def test_a_link_that_leads_away_is_not_made_under_a_command_that_writes_later(agent: Agent, victim: Path) -> None:
    first = Call(agent, LATER.format("src/f"))  # let through: it may write at any time from here on
    said = Call(agent, link("src/f", victim)).run()
    first.run()
    assert "made while another call runs" in said
    assert not (agent.cwd / "src/f").is_symlink()


def test_a_link_that_leads_away_is_made_where_nothing_else_runs(agent: Agent, victim: Path) -> None:
    assert Call(agent, link("src/f", victim)).run() == ""
    assert (agent.cwd / "src/f").is_symlink()


def test_a_command_beside_one_that_is_not_contained_is(agent: Agent) -> None:
    first = Call(agent, "sleep 1; echo x > src/a")
    second = Call(agent, "mv src/a src/b")
    assert (first.contained, second.contained) == (False, True)


def test_what_writes_in_the_background_is_contained(agent: Agent, victim: Path) -> None:
    first = Call(agent, LATER.format("src/f"), run_in_background=True)
    assert first.contained
    running = first.start()
    first.back()
    Call(agent, link("src/f", victim)).run()
    running.communicate()


def test_no_link_is_made_in_the_temporary_folder_under_a_command_that_writes_later(
    agent: Agent, home: Path, victim: Path
) -> None:
    place = home / "tmp/f"
    first = Call(agent, LATER.format(place))
    Call(agent, link(place, victim)).run()
    first.run()
    assert place.read_text() == "evil\n"


def test_beside_a_contained_command_the_temporary_folder_is_written_contained(
    agent: Agent, home: Path, victim: Path
) -> None:
    place = home / "tmp/f"
    first = Call(
        agent, f"{link(place, victim)}; until test -e {home}/tmp/go; do sleep 0.05; done", run_in_background=True
    )
    running = first.start()
    first.back()
    wait_until(place.is_symlink, has_failed=lambda: running.poll() is not None and running.communicate())
    second = Call(agent, f"echo x > {home}/tmp/other")
    (home / "tmp/go").touch()
    assert second.contained
    second.run()
    running.communicate()


def test_a_file_of_holes_is_not_brought_over(agent: Agent) -> None:
    call = Call(agent, "python3 -c \"open('src/holes', 'wb').truncate(1 << 42); open('src/good', 'w').write('1')\"")
    assert "larger than 4 GiB" in call.run()
    assert (agent.cwd / "src/good").exists()
    assert not (agent.cwd / "src/holes").exists()
