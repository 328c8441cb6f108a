"""Index, branches and names are state: what a command does to them out of the scope never reaches HEAD, in one command
or in two.
"""

from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.git_team import shell
from gate.containment.test_rewrite_call import python, run
from gate.driving import Agent, governed, overlay
from remit.gate.governing.settings import set_mode
from remit.workspace.place.workspace import workspace_at


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent under `src/**`, in a repository with a folder of others."""
    overlay(home)
    (repository / "docs").mkdir()
    for name in "xyz":
        (repository / f"docs/{name}.md").write_text("doc\n")
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


STAGING = PERSONS | {
    "an intent": "echo n > docs/n; git add -N docs/n",
    "all": "git rm -q --cached docs/x.md; git update-index --chmod=+x docs/z.md; "
    "echo 2 > docs/y.md; echo new > docs/new.md; git add docs/y.md docs/new.md; echo 3 > docs/y.md; "
    "echo n > docs/n; git add -N docs/n",
}


@pytest.mark.parametrize(
    ("staging", "command"),
    [*((each, "reset") for each in STAGING if each != "all"), *(("all", each) for each in UNSTAGING)],
)
def test_what_a_person_staged_stays_staged(agent: Agent, staging: str, command: str) -> None:
    shell(agent.cwd, STAGING[staging])
    before, head = staged(agent.cwd), run_git(agent.cwd, "rev-parse", "HEAD")
    run(agent, UNSTAGING[command])
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


NAMES = {
    "a log of what never was": (
        "h=$(git rev-parse HEAD); printf '%s %s Dana <d@e.org> 1700000000 +0000\\tcommit: by dana\\n' $h $h "
        ">> .git/logs/HEAD",
        "logs/HEAD",
    ),
    "a log of an older commit": (
        "h=$(git rev-parse HEAD); p=$(git rev-parse HEAD~1); printf '%s %s D <d@e> 1 +0000\\tcommit: x\\n"
        "%s %s D <d@e> 1 +0000\\treset: moving to HEAD\\n' $h $p $p $h >> .git/logs/HEAD",
        "logs/HEAD",
    ),
    "a log of another value": (
        "h=$(git rev-parse HEAD); p=$(git rev-parse HEAD~1); printf '%s %s D <d@e> 1 +0000\\treset: x\\n' $h $p "
        ">> .git/logs/refs/heads/other",
        "logs/refs/heads/other",
    ),
    "a name that git forbids": ("git rev-parse HEAD > .git/refs/heads/a$(printf '\\033')b", "no such name"),
    "objects from elsewhere": ("echo /tmp > .git/objects/info/alternates", "alternates"),
    "an older name": ("git branch -m other zz", "refs/heads/other"),
    "no name": ("git branch -d other", "refs/heads/other"),
    "another commit": ("git update-ref refs/heads/behind HEAD", "refs/heads/behind"),
    "a fetch from here": ("git fetch -q . HEAD:behind", "refs/heads/behind"),
    "a push to here": ("git push -q . HEAD:behind", "refs/heads/behind"),
}
GIT_STATE = "git for-each-ref; cat .git/HEAD .git/config .git/objects/info/alternates; git reflog; git reflog other"


@pytest.mark.parametrize(("command", "told"), NAMES.values(), ids=NAMES)
def test_names_and_logs_of_others_stay_and_that_is_told(agent: Agent, command: str, told: str) -> None:
    shell(agent.cwd, "git branch behind HEAD~1")
    before = shell(agent.cwd, GIT_STATE, check=False)
    _, done = run(agent, python(f"import os; os.system({command!r})"))
    assert told in done.stderr
    assert shell(agent.cwd, GIT_STATE, check=False) == before


def test_a_branch_that_was_checked_out_moves(agent: Agent) -> None:
    shell(agent.cwd, "git branch behind HEAD~1; git branch -q -m main trunk || git branch -m trunk")
    _, done = run(
        agent, "git checkout -q behind && git merge -q trunk && git checkout -q -b new && git branch -m newer"
    )
    assert done.stderr == ""
    assert "newer" in run_git(agent.cwd, "branch")
    _, done = run(agent, "git checkout -q trunk && git branch -d newer")
    assert done.stderr == ""
