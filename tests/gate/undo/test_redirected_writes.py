"""A file tool that writes elsewhere than it was judged for: what it wrote is undone, or told where it cannot be."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import INTENTS, Agent, allowed, body, governed, overlay, records
from gate.test_races import Call

EVIL = "EVIL\n"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    overlay(home)
    (repository / "src/d").mkdir()
    (repository / "src/d/x.md").write_text("own\n")
    (repository / "docs").mkdir()
    (repository / "docs/x.md").write_text("doc\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
    governed(repository)
    (home / "tmp/d").mkdir(parents=True)
    found = Agent(repository, home)
    found.select()
    return found


def begin(agent: Agent, path: Path) -> str:
    """The call of a Write that was let through."""
    before = agent.ask("Write", file_path=str(path), content=EVIL)
    assert allowed(before), before
    return str(before["call_id"])


def swap(folder: Path, to: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(to)


def finish(agent: Agent, path: Path, call_id: str) -> str:
    """The tool writes, through whatever links there are by now; what the model is told."""
    path.write_text(EVIL)
    told = agent.tell("Write", call_id, file_path=str(path), content=EVIL)
    return str(told.get("additionalContext", ""))


def mutated(agent: Agent) -> list[str]:
    found: list[dict[str, Any]] = [body(r) for r in records(agent.cwd, "mutation")]
    return [file["path"] for record in found for file in record["files"]]


def test_a_contained_command_swaps_no_folder_that_a_write_is_on_its_way_to(agent: Agent) -> None:
    target = agent.cwd / "src/d/x.md"
    call_id = begin(agent, target)
    command = Call(agent, "python3 -c \"import os,shutil; shutil.rmtree('src/d'); os.symlink('../docs','src/d')\"")
    assert command.contained
    assert "lies on the way to a file that another call is writing" in command.run()
    assert not (agent.cwd / "src/d").is_symlink()
    finish(agent, target, call_id)
    assert (agent.cwd / "docs/x.md").read_text() == "doc\n"
    assert target.read_text() == EVIL
    assert not (Call(agent, "python3 -c \"import os; os.symlink('../docs','src/e')\"").run())
    assert (agent.cwd / "src/e").is_symlink()


def test_what_was_written_through_a_link_that_came_meanwhile_is_undone(agent: Agent) -> None:
    target = agent.cwd / "src/d/x.md"
    call_id = begin(agent, target)
    swap(agent.cwd / "src/d", agent.cwd / "docs")
    said = finish(agent, target, call_id)
    assert (agent.cwd / "docs/x.md").read_text() == "doc\n"
    assert "docs/x.md was undone" in said
    assert "src/d/x.md" not in mutated(agent)


def test_a_write_to_the_temporary_folder_that_came_out_in_the_workspace_is_undone(agent: Agent, home: Path) -> None:
    target = home / "tmp/d/x.md"
    call_id = begin(agent, target)
    swap(home / "tmp/d", agent.cwd / "docs")
    said = finish(agent, target, call_id)
    assert (agent.cwd / "docs/x.md").read_text() == "doc\n"
    assert "docs/x.md was undone" in said


@pytest.mark.parametrize("begun", ["repo/src/d", "tmp/d"])
def test_a_write_that_came_out_elsewhere_is_told_and_recorded(agent: Agent, home: Path, begun: str) -> None:
    place = agent.cwd / "src/d" if begun.startswith("repo") else home / "tmp/d"
    call_id = begin(agent, place / "x.md")
    (home / "mine").mkdir()
    swap(place, home / "mine")
    said = finish(agent, place / "x.md", call_id)
    assert "OUTSIDE_WORKSPACE" in said
    assert str(home / "mine/x.md") in said
    assert list(body(records(agent.cwd, "restore")[-1])["left"]) == [str(home / "mine/x.md")]


def test_a_link_that_was_there_before_is_no_other_place(agent: Agent) -> None:
    (agent.cwd / "src/link").symlink_to("d")
    target = agent.cwd / "src/link/x.md"
    assert finish(agent, target, begin(agent, target)) == ""
    assert mutated(agent) == ["src/d/x.md"]


def test_what_a_person_saves_while_a_write_is_redirected_stays(agent: Agent) -> None:
    governed(agent.cwd, intents=INTENTS.replace("[none]", "[{type: max_lines, max: 2}]", 1))
    link, judged = agent.cwd / "src/link", agent.cwd / "src/d/x.md"
    link.symlink_to("d")
    call_id = begin(agent, link / "x.md")
    link.unlink()
    link.symlink_to("../docs")
    judged.write_text("1\n2\n3\n")
    said = finish(agent, link / "x.md", call_id)
    assert "docs/x.md was undone" in said
    assert (agent.cwd / "docs/x.md").read_text() == "doc\n"
    assert judged.read_text() == "1\n2\n3\n"
