"""No commit that was not looked into gets onto a branch, a tag or a remote, in one command or in two."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.containment.git_team import Team, shell
from gate.containment.test_everyday_git import team
from gate.driving import Agent
from remit.core.call import SessionKey
from remit.gate.gate import Gate

__all__ = ["team"]

STRANGER = """
export GIT_INDEX_FILE=$PWD/src/i; git read-tree HEAD
git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),docs/x.md
tree=$(git write-tree); rm src/i; unset GIT_INDEX_FILE
made=$(git commit-tree -p HEAD -m stranger $tree)
"""
NAMED = "git for-each-ref refs/heads refs/tags refs/remotes refs/stash refs/replace; git rev-parse HEAD; git status -s"


@pytest.mark.parametrize(
    "naming",
    [
        "git update-ref refs/remotes/origin/evil $made",
        "git update-ref refs/stash $made",
        "git stash store -m x $made",
        "git update-ref refs/replace/$(git rev-parse HEAD) $made",
        "echo $made > .git/MERGE_HEAD; touch .git/MERGE_MSG",
        "git reset -q --soft $made",
        "git checkout -q -b zz $made",
        "git checkout -q --detach $made",
        "git symbolic-ref refs/heads/q refs/notes/keep; git update-ref refs/notes/keep $made",
        "git pack-refs --all; echo $made refs/heads/zz >> .git/packed-refs",
        "git fetch -q . $made:refs/heads/zz",
        "git fetch -q . $made:refs/remotes/origin/zz",
        "git init -q --bare src/r; git push -q src/r $made:refs/heads/m; git config remote.origin.url src/r; git fetch",
        "mkdir -p .git/rebase-merge; echo exec touch x > .git/rebase-merge/git-rebase-todo",
        'mkdir -p .git/rebase-merge; echo "pick $made x" > .git/rebase-merge/git-rebase-todo',
        "git merge -q -s ours --allow-unrelated-histories -m x $made",
        "git update-ref refs/heads/HEAD HEAD",
        "git rev-parse HEAD > .git/shallow",
        "git update-index --skip-worktree docs/x.md",
        "git update-index --assume-unchanged docs/x.md",
        "s=$(git commit-tree -p HEAD -p HEAD -m WIP $tree); git stash store -m w $s",
        "git branch x $(git commit-tree -p HEAD -p origin/main -p origin/feature -m m $tree)",
        "git pack-refs --all; sed -i '/origin.feature/d' .git/packed-refs",
        "ln -s ../../../docs/x.md .git/refs/heads/link",
        "git config core.fsmonitor src/evil; git update-ref refs/heads/x $made",
        "git filter-branch -f --tree-filter 'echo evil > docs/x.md' HEAD",
    ],
)
def test_no_other_name_takes_it_either(team: Team, naming: str) -> None:
    before = shell(team.root, NAMED)
    result = team.run(STRANGER + naming)
    assert ".git" in result.dropped
    assert shell(team.root, NAMED).replace("?? src/r/\n", "") == before
    assert "git branch" not in result.said


@pytest.mark.parametrize(
    "second",
    [
        "git update-ref refs/heads/main refs/notes/zz",
        "git branch b refs/notes/zz",
        "git tag t refs/notes/zz",
        "git merge -q refs/notes/zz",
        "git reset -q --soft refs/notes/zz",
        "git reset -q --hard refs/notes/zz",
        "git checkout -q -B main refs/notes/zz",
        "git checkout -q refs/notes/zz -- docs && git commit -qm x",
        "git cherry-pick refs/notes/zz",
        "git rebase -q refs/notes/zz",
        "git read-tree refs/notes/zz",
        "git stash store -m x refs/notes/zz",
        "git push -q origin refs/notes/zz:refs/heads/zz; git fetch -q origin",
        "git config branch.main.merge refs/notes/zz; git config branch.main.remote .; git pull -q",
    ],
)
def test_a_name_of_the_first_command_is_no_way_for_a_second(team: Team, second: str) -> None:
    # The remote lies in a temporary folder, wherever tests lie: what a command pushes there is thrown away.
    team.gate = Gate.open(team.root, replace(team.gate.environment, temporary=team.folder))
    team.run(f"{STRANGER}git update-ref refs/notes/zz $made")
    before = shell(team.root, NAMED)
    team.run(second)
    assert shell(team.root, NAMED) == before
    assert "evil" not in (team.root / "docs/x.md").read_text()


@pytest.mark.parametrize(
    "command",
    [
        "git reset -q --soft {}",
        "git branch b {}",
        "git tag t {}",
        "git checkout -b b {}",
        "git restore --staged -s {} .",
    ],
)
def test_what_names_a_commit_does_not_run_as_it_is(team: Team, home: Path, command: str) -> None:
    team.run(f"{STRANGER}git update-ref refs/notes/zz $made")
    agent = Agent(team.root, home, "s1")
    answer = agent.ask("Bash", command=command.format(run_git(team.root, "rev-parse", "refs/notes/zz").strip()))
    assert " exec --session s1 " in answer["updatedInput"]["command"]


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("git push origin {}:refs/heads/evil", True),
        ("git push origin refs/notes/zz:refs/heads/evil", True),
        ("bash -c 'git push origin {}:refs/heads/evil'", True),
        ("git push origin $X:refs/heads/evil", True),
        ("git push origin :/stranger:refs/heads/evil", True),
        ("git worktree add src/wt {}", True),
        ("git push origin HEAD", False),
        ("git push origin $(git branch --show-current)", False),
        ("git push origin main~0:refs/heads/copy", False),
        ("git worktree add -b side src/wt origin/feature", False),
    ],
)
def test_what_leaves_the_machine_is_on_a_branch(team: Team, home: Path, command: str, refused: bool) -> None:
    team.run(f"{STRANGER}git update-ref refs/notes/zz $made")
    sha = run_git(team.root, "rev-parse", "refs/notes/zz").strip()
    answer = Agent(team.root, home, "s1").ask("Bash", command=command.format(sha))
    assert ("no branch or tag leads to" in answer.get("permissionDecisionReason", "")) is refused


@pytest.mark.parametrize("command", ["git pull && make", "make; git fetch", "git pull ../mate", "git fetch . HEAD:x"])
def test_a_fetch_beside_other_programs_is_refused_before_it_runs(team: Team, home: Path, command: str) -> None:
    answer = Agent(team.root, home, "s1").ask("Bash", command=command)
    assert "Run `git pull` by itself" in answer["permissionDecisionReason"]


@pytest.mark.parametrize(
    "command", ["git pull", "cd src && git pull 2>&1 | tail -3", "git stash; git pull; git stash pop"]
)
def test_a_plain_fetch_runs(team: Team, home: Path, command: str) -> None:
    answer = Agent(team.root, home, "s1").ask("Bash", command=command)
    assert "permissionDecisionReason" not in answer


def test_what_was_pushed_without_a_name_is_no_remotes_work(team: Team) -> None:
    team.run(f"{STRANGER}git update-ref refs/notes/zz $made")
    shell(team.root, "git push -q origin refs/notes/zz:refs/heads/evil; git update-ref -d refs/remotes/origin/evil")
    result = team.run("git fetch -q origin")
    assert ".git" in result.dropped
    assert shell(team.root, "git for-each-ref refs/remotes/origin/evil") == ""


def test_the_work_of_another_session_is_not_rewritten(team: Team) -> None:
    shell(team.root, "echo 2 > src/own.py; git add src; git commit -qm persons")
    for command in ("git commit -q --amend -m stolen", "git reset -q --soft HEAD~1", "git checkout -q -B main HEAD~1"):
        assert "did not make" in team.run(command).dropped[".git"]
        assert shell(team.root, "git log -1 --format=%s main").strip() == "persons"
    shell(team.root, "git tag theirs; git branch side")
    for command in ("git tag -d theirs", "git tag -f theirs HEAD~1", "git update-ref -d refs/heads/side"):
        assert ".git" in team.run(command).dropped


def test_a_remotes_branch_is_no_place_to_lose_a_persons_commit_from(team: Team) -> None:
    shell(team.root, "echo 2 > src/own.py; git add src; git commit -qm persons")
    assert ".git" in team.run("git update-ref refs/remotes/origin/main HEAD").dropped
    assert ".git" in team.run("git update-ref -d refs/remotes/origin/main").dropped


@pytest.mark.parametrize(
    "command",
    [
        "git rm -q docs/x.md; git commit -qm gone",
        "git checkout -q HEAD~1 -- docs; git commit -qm old",
        "git fetch -q; git reset -q --soft origin/main; git commit -qm old",
        "git fetch -q; git merge -q -s ours -m ours origin/main",
        "git fetch -q; git read-tree origin/feature; git commit -qm other",
        "git symbolic-ref HEAD refs/heads/orphan; git commit -qam all",
    ],
)
def test_what_others_wrote_is_not_undone_by_a_commit(team: Team, command: str) -> None:
    shell(team.root, "echo a person >> docs/x.md; git commit -qam person; git push -q origin main:person")
    before = shell(team.root, "git rev-parse HEAD; git status -s; git symbolic-ref HEAD")
    assert ".git" in team.run(command).dropped
    assert shell(team.root, "git rev-parse HEAD; git status -s; git symbolic-ref HEAD") == before


def test_a_teammates_half_does_not_stay_where_the_other_is_dropped(team: Team) -> None:
    before = team.state()
    for command in (
        "python3 -c 1; git pull -q",
        "git pull -q; echo x >> docs/x.md",
        "python3 -c 1; git fetch -q; git checkout -q -b feature origin/feature",
    ):
        result = team.run(command)
        assert ".git" in result.dropped, command
        assert result.kept == ()
        assert team.state() == before
    team.run("git fetch -q")
    shell(team.root, "echo person > docs/x.md; git commit -qam person")
    before = team.state()
    assert "in conflict" in team.run("git merge -q --no-edit origin/main").dropped["docs/x.md"]
    assert team.state() == before


def test_an_agents_own_work_stays_where_its_commit_is_dropped(team: Team) -> None:
    result = team.run("echo 5 > src/own.py; git add src; git rm -q --cached docs/x.md; git commit -qm own")
    assert ".git" in result.dropped
    assert result.kept == ("src/own.py",)


def test_a_file_beside_the_pull_is_dropped_alone(team: Team) -> None:
    result = team.run("git pull -q; echo x > top.txt")
    assert set(result.dropped) == {"top.txt"}
    assert shell(team.root, "git log -1 --format=%s; git status -s") == "mate\n"


def test_another_gate_of_the_same_intent_may_go_on(team: Team) -> None:
    team.run("echo 5 > src/own.py; git add src; git commit -qm own")
    other = Gate.open(team.root, team.gate.environment)
    other.intents.select(SessionKey("s2"), "test", "INT-001")
    assert team.run("git commit -q --amend -m better", session="s2").dropped == {}
    other.intents.select(SessionKey("s3"), "test", "INT-002")
    assert ".git" in team.run("git commit -q --amend -m worse", session="s3").dropped


@pytest.mark.parametrize("fetching", ["git pull -q", "git fetch -q && git merge -q origin/main"])
def test_nothing_stays_of_a_pull_that_stops_at_what_governs(team: Team, fetching: str) -> None:
    rules = "mkdir .orchestration; echo x > .orchestration/remit.toml; git add -f .orchestration; git commit -qm rules"
    shell(team.mate, f"{rules}; git push -q origin main")
    shell(team.root, "echo '# mine' > .orchestration/remit.toml")
    before = shell(team.root, "git rev-parse HEAD; git status -s")
    result = team.run(fetching)
    assert "ask the person to run this command" in result.said
    assert shell(team.root, "git rev-parse HEAD; git status -s") == before
