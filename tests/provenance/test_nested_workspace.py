"""A workspace in a folder of its repository: git counts paths from the root, records count from the workspace."""

from pathlib import Path

import pytest

from cli.running import data, run
from cli.test_notes import settings
from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_blame import blame, commit
from provenance.test_moved_lines import BLOCK, HUMAN


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    inner = repository / "parts" / "inner"
    (inner / "src").mkdir(parents=True)
    found = Agent(governed(inner), home)
    found.select()
    (inner / "src/human.py").write_text(HUMAN)
    (repository / "src/agent.py").write_text(HUMAN)
    commit(repository)
    found.write("src/agent.py", BLOCK)
    return found


def origins(agent: Agent, path: str) -> set[str]:
    return {line.origin for line in blame(agent.cwd, path)}


def test_lines_keep_their_origin_when_they_are_committed(agent: Agent, repository: Path) -> None:
    assert origins(agent, "src/agent.py") == {"ai"}
    commit(repository)
    assert (origins(agent, "src/agent.py"), origins(agent, "src/human.py")) == ({"ai"}, {"unknown"})
    told = data(agent.cwd, "blame", "src/agent.py")["lines"]
    assert {line["origin"] for line in told} == {"ai"}
    assert "INT-001" in run(agent.cwd, "why", "src/agent.py:1").stdout


def test_lines_that_moved_to_another_file_are_found(agent: Agent, repository: Path) -> None:
    commit(repository)
    agent.cwd.joinpath("src/human.py").write_text(HUMAN + BLOCK)
    agent.cwd.joinpath("src/agent.py").write_text("")
    commit(repository)
    found = [line.origin for line in blame(agent.cwd, "src/human.py")]
    assert found == ["unknown"] * HUMAN.count("\n") + ["ai"] * BLOCK.count("\n")


def test_lines_that_a_command_copies_from_a_persons_file_are_not_the_agents(agent: Agent, repository: Path) -> None:
    agent.shell("cp src/human.py src/made.py")
    commit(repository)
    assert "ai" not in origins(agent, "src/made.py")


def test_the_file_of_that_name_at_the_root_is_another_one(agent: Agent, repository: Path) -> None:
    commit(repository)
    (repository / "src/agent.py").write_text(BLOCK)
    agent.cwd.joinpath("src/agent.py").unlink()
    commit(repository)
    assert {line["origin"] for line in data(agent.cwd, "stats")["files"] or [{"origin": "none"}]} == {"none"}


def test_notes_name_paths_from_the_root_and_are_read_in_a_clone(agent: Agent, repository: Path, tmp_path: Path) -> None:
    settings(agent.cwd, "[share]\nnotes = true")
    commit(repository)
    run_git(repository, "notes", "--ref=ai", "add", "-m", "a stranger's", "HEAD~1")
    data(agent.cwd, "notes", "write", "HEAD")
    assert run_git(repository, "notes", "--ref=ai", "show", "HEAD").startswith("parts/inner/src/agent.py\n")
    assert run_git(repository, "notes", "--ref=ai", "show", "HEAD~1") == "a stranger's\n"
    assert not [f for f in data(agent.cwd, "verify", "HEAD")["findings"] if f["rule"] == "RMT017"]
    run_git(tmp_path, "clone", "-q", str(repository), "clone")
    run_git(tmp_path / "clone", "fetch", "-q", "origin", "refs/notes/ai:refs/notes/ai")
    for folder, path in (("clone/parts/inner", "src/agent.py"), ("clone", "parts/inner/src/agent.py")):
        assert {line["grade"] for line in data(tmp_path / folder, "blame", path)["lines"]} == {"note"}


def test_a_range_of_commits_is_judged_by_paths_in_the_workspace(agent: Agent, repository: Path) -> None:
    settings(agent.cwd, "")
    (agent.cwd / ".orchestration/remit.toml").write_text('mode = "observe"\n')
    agent.write("docs/x.md", "outside\n")
    agent.shell("cp src/agent.py docs/agent.py")
    commit(repository)
    done = run(agent.cwd, "verify", "HEAD")
    assert [line.partition(": ")[0] for line in done.stdout.splitlines() if "RMT001" in line] == [
        "docs/agent.py",
        "docs/x.md:1",
    ]
    assert data(agent.cwd, "stats")["ai"] == BLOCK.count("\n") * 2 + 1


def test_a_sync_keeps_the_notes_of_others(agent: Agent, repository: Path, tmp_path: Path) -> None:
    settings(agent.cwd, "[share]\nnotes = true")
    commit(repository)
    run_git(repository, "notes", "--ref=ai", "add", "-m", "a stranger's", "HEAD~1")
    run_git(tmp_path, "clone", "-q", "--bare", str(repository), "origin.git")
    run_git(tmp_path / "origin.git", "fetch", "-q", str(repository), "refs/notes/ai:refs/notes/ai")
    run_git(repository, "update-ref", "-d", "refs/notes/ai")
    run_git(repository, "remote", "add", "origin", str(tmp_path / "origin.git"))
    data(agent.cwd, "notes", "write", "HEAD")
    data(agent.cwd, "notes", "sync")
    assert run_git(tmp_path / "origin.git", "notes", "--ref=ai", "show", "HEAD~1") == "a stranger's\n"
    assert "parts/inner/src/agent.py" in run_git(tmp_path / "origin.git", "notes", "--ref=ai", "show", "HEAD")
