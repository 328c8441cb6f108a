"""Lines of a submodule are attributed by the records of the workspace around, asked about from either side."""

import time
from pathlib import Path

import pytest

from cli.running import data, remit, run
from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_blame import ME, commit
from provenance.test_moved_lines import BLOCK, HUMAN

LONG_AGO = 1_600_000_000  # before any call

PATH = "src/sm/lib.py"
AGENTS = BLOCK.count("\n")
PERSONS = HUMAN.count("\n")


@pytest.fixture
def agent(repository: Path, home: Path, tmp_path: Path) -> Agent:
    library = tmp_path / "library"
    library.mkdir()
    run_git(library, "init", "-q")
    (library / "lib.py").write_text(HUMAN)
    commit_all(library)
    run_git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "src/sm")
    run_git(repository, "commit", "-qm", "submodule")
    found = Agent(governed(repository), home)
    found.select()
    found.read(PATH)
    found.write(PATH, HUMAN + BLOCK)
    return found


def wait_for_next_second() -> None:
    """Git dates commits in whole seconds: a commit in the second of a call may be older than the call."""
    time.sleep(1 - time.time() % 1)


def commit_all(root: Path) -> None:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "work")


def sessions(agent: Agent, path: str = "lib.py") -> list[str | None]:
    """The sessions that the lines come from, the same from each side."""
    inside = data(agent.cwd / "src/sm", "blame", path)["lines"]
    assert data(agent.cwd, "blame", f"src/sm/{path}")["lines"] == inside
    assert data(agent.cwd.parent, "blame", "--repo", str(agent.cwd / "src/sm"), path)["lines"] == inside
    return [line["session_id"] for line in inside]


def test_a_line_has_its_agent_before_and_after_the_submodules_commit(agent: Agent) -> None:
    assert sessions(agent) == [None] * PERSONS + [ME] * AGENTS
    commit_all(agent.cwd / "src/sm")
    assert sessions(agent) == [None] * PERSONS + [ME] * AGENTS
    told = remit(agent.cwd, "blame", PATH).splitlines()
    assert [" ✦ claude-code INT-001 exact " in line for line in told] == [False] * PERSONS + [True] * AGENTS


def test_a_new_file_of_the_submodule_needs_no_commit(agent: Agent) -> None:
    agent.write("src/sm/new.py", BLOCK)
    assert sessions(agent, "new.py") == [ME] * AGENTS


def test_why_tells_the_edit_from_either_side(agent: Agent) -> None:
    commit_all(agent.cwd / "src/sm")
    told = data(agent.cwd, "why", f"{PATH}:{PERSONS + 1}")
    assert data(agent.cwd / "src/sm", "why", f"lib.py:{PERSONS + 1}") == told
    assert [cause["session_id"] for cause in told["causes"]] == [ME]
    summary = data(agent.cwd / "src/sm", "why", "HEAD")
    assert (summary["lines"], summary["files"][0]["path"]) == ({"ai": AGENTS}, "lib.py")


def test_what_a_person_writes_there_is_not_the_agents(agent: Agent) -> None:
    path = agent.cwd / PATH
    commit_all(agent.cwd / "src/sm")
    path.write_text(path.read_text().replace("FAREWELL", "GOOD_BYE") + "persons_own_line = 1\n")
    assert sessions(agent) == [None] * PERSONS + [ME] * AGENTS + [None]
    commit_all(agent.cwd / "src/sm")
    assert sessions(agent) == [None] * PERSONS + [ME] * AGENTS + [None]


def test_what_a_person_committed_before_the_call_is_not(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records name HEAD of the outer repository only, so the date of a commit tells which calls came later."""
    inner = agent.cwd / "src/sm"
    run_git(inner, "checkout", "-q", "--", ".")
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{LONG_AGO} +0000")
    (inner / "old.py").write_text(BLOCK)
    commit_all(inner)
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    run_git(inner, "rm", "-q", "old.py")
    run_git(inner, "commit", "-qm", "gone")
    agent.write("src/sm/old.py", BLOCK)
    commit_all(inner)
    assert sessions(agent, "old.py") == [ME] * AGENTS
    lines = data(inner, "blame", "HEAD~2", "old.py")["lines"]
    assert [line["session_id"] for line in lines] == [None] * AGENTS


def test_lines_survive_a_squash_and_a_reindent(agent: Agent) -> None:
    inner = agent.cwd / "src/sm"
    wait_for_next_second()
    commit_all(inner)
    (inner / "lib.py").write_text(HUMAN + "class Till:\n" + "".join(f"    {line}\n" for line in BLOCK.splitlines()))
    commit_all(inner)
    assert sessions(agent) == [None] * PERSONS + [None] + [ME] * AGENTS
    run_git(inner, "reset", "-q", "--soft", "HEAD~2")
    commit_all(inner)
    assert sessions(agent) == [None] * PERSONS + [None] + [ME] * AGENTS


def test_lines_that_moved_within_the_submodule_are_found(agent: Agent) -> None:
    inner = agent.cwd / "src/sm"
    wait_for_next_second()
    commit_all(inner)
    (inner / "lib.py").write_text(HUMAN)
    (inner / "other.py").write_text(BLOCK + "persons = 1\n")
    commit_all(inner)
    assert sessions(agent, "other.py") == [ME] * AGENTS + [None]


def test_another_repository_inside_that_git_ignores_is_told_too(agent: Agent) -> None:
    commit(agent.cwd)
    (agent.cwd / ".gitignore").write_text("/src/clone/\n")
    run_git(agent.cwd, "init", "-q", "src/clone")
    agent.write("src/clone/lib.py", BLOCK)
    commit_all(agent.cwd / "src/clone")
    assert {line["session_id"] for line in data(agent.cwd / "src/clone", "blame", "lib.py")["lines"]} == {ME}


def test_a_file_that_is_not_there_is_said_in_gits_words(agent: Agent) -> None:
    for folder, path in ((agent.cwd, "src/sm/none.py"), (agent.cwd / "src/sm", "none.py")):
        done = run(folder, "blame", path)
        assert (done.returncode, done.stderr) == (2, "error: fatal: no such path 'none.py' in HEAD\n")
