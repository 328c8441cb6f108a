"""Everyday git in a contained command: what it brings is somebody's work, and comes out as without Remit."""

from pathlib import Path

import pytest

from gate.teamed import Team, shell

DATE = "2026-11-01T12:00:00Z"


@pytest.fixture
def team(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_DATE", DATE)
    return Team(tmp_path, home)


OWN = "echo 'own = 1' > src/own.py; git add src; git commit -qm own"

DAYS: dict[str, list[str]] = {
    "pull, fast-forward": ["git pull -q"],
    "pull, merging": [OWN, "git pull -q --no-rebase --no-edit origin main"],
    "pull, rebasing own work": [OWN, "git pull -q --rebase origin main"],
    "pull with work at hand": ["echo 2 > src/new.py; git pull -q"],
    "pull, merging a file of both": [
        "sed -i 's/a = 1/a = 9/' src/a.py; git commit -qam nine",
        "git pull -q --no-rebase --no-edit",
    ],
    "fetch, then merge": ["git fetch -q", "git merge -q origin/main"],
    "fetch and merge at once": ["git fetch -q && git merge -q origin/main 2>&1 | tail -3"],
    "a branch of a remote's": ["git checkout -q -b feature origin/feature"],
    "a branch by its name": ["git switch -q feature", "git switch -q main"],
    "a detached look": ["git checkout -q origin/feature", "git checkout -q main"],
    "merge of a branch": ["git merge -q --no-edit origin/feature", OWN],
    "cherry-pick": ["git cherry-pick origin/feature"],
    "cherry-pick after a pull": ["git pull -q", "git cherry-pick origin/feature"],
    "revert of a teammate's": ["git pull -q", "git revert --no-edit HEAD"],
    "revert of own": [OWN, "git revert --no-edit HEAD"],
    "stash and pop": ["echo 3 >> src/a.py; git stash -q", "git stash pop -q"],
    "stash, pull and pop": ["echo 3 > src/new.py; git add src; git stash -q && git pull -q && git stash pop -q"],
    "stash of new files": ["echo 3 > src/new.py; git stash -qu", "git stash pop -q"],
    "amend": [OWN, "echo 2 > src/own.py; git commit -qa --amend -m better"],
    "amend of the words": [OWN, "git commit -q --amend -m better"],
    "soft reset": [OWN, "git reset -q --soft HEAD~1", "git commit -qm again"],
    "mixed reset": [OWN, "git reset -q HEAD~1"],
    "hard reset": [OWN, "python3 -c 'import os; os.system(\"git reset -q --hard HEAD~1\")'"],
    "rebase": [OWN, "git fetch -q", "git rebase -q origin/main"],
    "rebase, squashing": [OWN, "echo 2 > src/own.py; git commit -qa --fixup HEAD", "git rebase -q --autosquash HEAD~2"],
    "tag and its end": ["git tag v1", "git tag -a -m v v2", "git tag -d v1"],
    "a branch and its end": ["git checkout -qb x", OWN, "git checkout -q main; git merge -q x; git branch -d x"],
    "a branch with another name": ["git checkout -qb x", OWN, "git branch -m y"],
    "bisect": [OWN, "git bisect start; git bisect bad; git bisect good HEAD~1", "git bisect reset"],
    "gc": [OWN, "git gc -q"],
    "push with an upstream": ["git checkout -qb x", OWN, "git push -q -u origin x"],
    "pull, then push": [OWN, "git pull -q --rebase && git push -q"],
    "a conflict of its own, merged": [
        "echo 'a = 7' > src/f.py; git add src; git commit -qm f",
        "git merge -q --no-edit origin/feature",
        "echo both > src/f.py; git add src; git commit -qm merged",
    ],
    "a rebase that stops, and goes on": [
        "echo 'a = 7' > src/f.py; git add src; git commit -qm f",
        "git rebase -q origin/feature",
        "echo both > src/f.py; git add src; GIT_EDITOR=true git rebase --continue",
    ],
    "a merge that is given up": [
        "echo 'a = 7' > src/f.py; git add src; git commit -qm f",
        "git merge -q --no-edit origin/feature",
        "git merge --abort",
    ],
}


@pytest.mark.parametrize("name", DAYS)
def test_everyday_git_comes_out_as_without_remit(team: Team, name: str) -> None:
    for command in DAYS[name]:
        result = team.run_twice(command)
        assert result.dropped == {}, (command, result.said)
    assert team.state() == team.state(team.twin)
    shell(team.root, "git fsck --strict")
