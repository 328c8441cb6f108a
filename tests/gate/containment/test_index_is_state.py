"""Index, branches and names are state: what a command does to them out of the scope never reaches HEAD, in one command
or in two.
"""

from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.test_rewrite_call import run
from gate.driving import Agent, governed, overlay


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent under `src/**`, in a repository with a folder of others."""
    overlay(home)
    (repository / "docs").mkdir()
    (repository / "docs/x.md").write_text("doc\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
    run_git(repository, "branch", "other")
    (home / "tmp").mkdir(exist_ok=True)
    found = Agent(governed(repository), home)
    found.select()
    return found


def head_paths(root: Path) -> list[str]:
    return run_git(root, "ls-tree", "-r", "--name-only", "HEAD").splitlines()


def test_what_is_taken_out_of_the_index_stays_in_head(agent: Agent) -> None:
    before = head_paths(agent.cwd)
    answer, done = run(agent, "git rm -rq --cached docs")
    assert " exec --session " in answer["updatedInput"]["command"]
    assert "docs/x.md" in done.stderr
    run(agent, "git commit -q --allow-empty -m work")
    assert head_paths(agent.cwd) == before
