"""Index, branches and names are state: what a command does to them out of the scope never reaches HEAD, in one command
or in two.
"""

from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.git_team import shell
from gate.containment.test_rewrite_call import run
from gate.driving import Agent, governed, overlay
from remit.gate.governing import set_mode
from remit.workspace.place.workspace import workspace_at


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


def staged(root: Path) -> str:
    return run_git(root, "ls-files", "-s", "--", "docs")


PERSONS = {
    "a removal": "git rm -q --cached docs/x.md",
    "a content": "echo 2 > docs/x.md; git add docs; echo 3 > docs/x.md",
    "a new file": "echo new > docs/new.md; git add docs",
    "an executable": "git update-index --chmod=+x docs/x.md",
}


@pytest.mark.parametrize("staging", PERSONS.values(), ids=PERSONS)
def test_what_a_person_staged_is_committed(agent: Agent, staging: str) -> None:
    shell(agent.cwd, staging)
    wanted = staged(agent.cwd)
    _, done = run(agent, "mkdir -p src; echo 1 > src/a.py; git add src; git commit -qm work")
    assert done.stderr == ""
    assert staged(agent.cwd) == wanted
    assert run_git(agent.cwd, "diff", "--cached", "--stat") == ""


UNSTAGING = {
    "reset": "git reset -q",
    "restore": "git restore --staged .",
    "add of a later version": "git add -A",
    "commit of a later version": "git commit -qam work",
    "stash": "git stash -q",
    "read-tree": "git read-tree HEAD",
    "a new index": "rm .git/index; git reset -q",
    "a script": "python3 -c 'import os; os.system(\"git reset -q\")'",
}


@pytest.mark.parametrize("command", UNSTAGING.values(), ids=UNSTAGING)
@pytest.mark.parametrize(
    "staging", [*PERSONS.values(), "echo n > docs/n; git add -N docs/n"], ids=[*PERSONS, "an intent"]
)
def test_what_a_person_staged_stays_staged(agent: Agent, staging: str, command: str) -> None:
    shell(agent.cwd, staging)
    before, head = staged(agent.cwd), run_git(agent.cwd, "rev-parse", "HEAD")
    run(agent, command)
    is_committed = run_git(agent.cwd, "rev-parse", "HEAD") != head
    assert staged(agent.cwd) == before
    assert not is_committed or "docs" not in run_git(agent.cwd, "diff", "--cached", "--name-only")


def test_no_agents_staging_counts_as_a_persons(agent: Agent) -> None:
    # A call that ran as it was, in a mode that contains nothing.
    set_mode(workspace_at(agent.cwd, agent.cwd), "observe")
    agent.shell("git rm -rq --cached docs")
    set_mode(workspace_at(agent.cwd, agent.cwd), "enforce")
    _, done = run(agent, "git commit -qm work")
    assert "takes it away" in done.stderr
    assert "docs/x.md" in head_paths(agent.cwd)


def test_what_a_sparse_checkout_leaves_out_is_not_taken_away(agent: Agent) -> None:
    shell(agent.cwd, "mkdir -p src; echo 1 > src/a.py; git add src; git commit -qm a; git sparse-checkout set src")
    before = head_paths(agent.cwd)
    run(agent, "git rm -rq --cached --sparse docs")
    run(agent, "git rm -rq --cached --sparse docs; git commit -qm work")
    assert head_paths(agent.cwd) == before
