"""Everyday git in a contained command: what it brings is somebody's work, and comes out as without Remit."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from gate.containment.git_team import Team, shell
from gate.containment.test_concurrent_changes import meanwhile, pause
from gate.driving import records
from remit.cli.blame.blame import blame

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

CONFLICT = "echo 'a = 7' > src/f.py; git add src; git commit -qm f"
SIDE = (
    "git checkout -qb side; echo 1 > src/f.py; git add src; git commit -qm one; echo 2 > src/g.py; git add src; "
    "git commit -qm two; git checkout -q main; echo 7 > src/f.py; git add src; git commit -qm seven"
)
SOLVED = "echo both > src/f.py; git add src"
PATCHES = "git format-patch -q -o src/out main~1..side 2>&1; git format-patch -q --stdout main..side > src/side.mbox"

OPERATIONS: dict[str, list[str]] = {
    "rebase --continue": [
        SIDE,
        "git checkout -q side; git rebase main",
        f"{SOLVED}; GIT_EDITOR=true git rebase --continue",
    ],
    "rebase --abort": [SIDE, "git checkout -q side; git rebase main", "git rebase --abort"],
    "rebase --skip": [SIDE, "git checkout -q side; git rebase main", "git rebase --skip"],
    "rebase --quit": [SIDE, "git checkout -q side; git rebase main", "git rebase --quit"],
    "rebase by patches": [SIDE, "git checkout -q side; git rebase --apply main", f"{SOLVED}; git rebase --continue"],
    "rebase by patches, given up": [SIDE, "git checkout -q side; git rebase --apply main", "git rebase --abort"],
    "rebase with merges": [
        SIDE,
        "git checkout -q side; git merge -q -s ours --no-edit origin/main; git rebase -r main",
        f"{SOLVED}; GIT_EDITOR=true git rebase --continue",
    ],
    "am": [SIDE, PATCHES, "git checkout -q -b t main~1; git am -q src/side.mbox"],
    "am --continue": [SIDE, PATCHES, "git am -3 src/side.mbox", f"{SOLVED}; git am --continue"],
    "am --skip": [SIDE, PATCHES, "git am -3 src/side.mbox", "git am --skip"],
    "am --abort": [SIDE, PATCHES, "git am src/side.mbox", "git am --abort"],
    "cherry-pick of two": [SIDE, "git cherry-pick side~1 side", f"{SOLVED}; git cherry-pick --continue --no-edit"],
    "cherry-pick --abort": [SIDE, "git cherry-pick side~1 side", "git cherry-pick --abort"],
    "cherry-pick --skip": [SIDE, "git cherry-pick side~1 side", "git cherry-pick --skip"],
    "cherry-pick --quit": [SIDE, "git cherry-pick side~1 side", "git cherry-pick --quit"],
    "revert of two": [
        SIDE,
        "git checkout -q side; echo 3 > src/f.py; git commit -qam three; git revert --no-edit HEAD~2 HEAD~1",
        f"{SOLVED}; GIT_EDITOR=true git revert --continue",
    ],
    "revert --abort": [
        SIDE,
        "git checkout -q side; echo 3 > src/f.py; git commit -qam 3; git revert HEAD~2 HEAD~1",
        "git revert --abort",
    ],
    "bisect": [SIDE, "git bisect start side side~2", "git bisect good; git bisect log", "git bisect reset"],
    "bisect run": [SIDE, "git bisect start side side~2; git bisect run false", "git bisect reset"],
    "merge --continue": [SIDE, "git merge -q side", f"{SOLVED}; GIT_EDITOR=true git merge --continue"],
    "merge --abort": [SIDE, "git merge -q side", "git merge --abort"],
    "merge --quit": [SIDE, "git merge -q side", "git merge --quit"],
    "known resolutions": [
        SIDE,
        "git -c rerere.enabled=true merge -q side",
        f"{SOLVED}; git -c rerere.enabled=true commit -qm merged",
    ],
    "stash pop in conflict": [
        "echo 1 > src/a.py; git stash -q; echo 2 > src/a.py; git commit -qam 2",
        "git stash pop -q",
        "git checkout -q --ours src/a.py; git add src/a.py; git stash drop -q",
    ],
    "a branch in a folder of names": ["git branch x/y/z; git branch -d x/y/z", "git branch x"],
}
"""Operations that stop or end, and leave git's folder as git does."""

LEFT = r"""
cd "$(git rev-parse --absolute-git-dir)"; find . -printf '%y %p\n' | sort |
  grep -vE '\./(objects|remit|info|hooks|rr-cache)|refs/remit|\.lock$|MERGE_RR'
"""


@pytest.mark.live
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_of_gits_leaves_and_removes_what_it_does_without_remit(team: Team, name: str) -> None:
    for command in OPERATIONS[name]:
        result = team.run_twice(command)
        assert result.dropped == {}, (command, result.said)
        assert shell(team.root, "git status") == shell(team.twin, "git status"), command
        assert shell(team.root, LEFT) == shell(team.twin, LEFT), command
    assert team.state() == team.state(team.twin)


@pytest.mark.parametrize("name", DAYS)
def test_everyday_git_comes_out_as_without_remit(team: Team, name: str) -> None:
    for command in DAYS[name]:
        result = team.run_twice(command)
        assert result.dropped == {}, (command, result.said)
    assert team.state() == team.state(team.twin)
    shell(team.root, "git fsck --strict")


BROUGHT = {
    "a pull": ["git pull -q --no-rebase", "src/a.py", "src/h.py"],
    "a branch": ["git checkout -q -b feature origin/feature", "src/f.py"],
    "a merge": ["git fetch -q && git merge -q --no-edit origin/feature", "src/f.py"],
    "a cherry-pick": ["git cherry-pick origin/feature", "src/f.py"],
}


@pytest.mark.parametrize("name", BROUGHT)
def test_what_git_brought_is_no_line_of_the_agents(team: Team, name: str) -> None:
    command, *paths = BROUGHT[name]
    assert team.run(command).dropped == {}
    assert records(team.root, "mutation") == []
    for path in paths:
        said = CliRunner().invoke(blame, ["--repo", str(team.root), "--json", path])
        assert said.exit_code == 0, said.output
        assert '"exact"' not in said.output
        assert "INT-001" not in said.output


COPIED = {
    "a squash": ["git merge -q --squash origin/one", "src/a.py"],
    "a patch": ["git diff HEAD...origin/one > src/one.patch; git apply src/one.patch", "src/a.py"],
    "an archive": ["git archive origin/feature src | tar x", "src/f.py"],
    "a copy": ["mkdir src/copy; cp -r docs/. src/copy", "src/copy/x.md"],
    "two files in one": ["cat docs/x.md src/a.py > src/all.txt", "src/all.txt"],
    "a script that copies": ["printf 'cat docs/x.md >> src/a.py' > src/add.sh; sh src/add.sh", "src/a.py"],
}
"""Commands that write the lines of others into files that no commit has so."""

ONE = """
git checkout -qb one feature~1; echo 'rate = load_rate(order)' >> src/a.py; git commit -qam one; git push -q origin one
"""


@pytest.mark.parametrize("name", COPIED)
def test_lines_that_a_command_copied_are_no_agents(team: Team, name: str) -> None:
    command, path = COPIED[name]
    shell(team.mate, ONE)
    shell(team.root, "git fetch -q; echo 'address = load_address(order)' >> docs/x.md; git commit -qam more")
    assert team.run(command).dropped == {}
    said = CliRunner().invoke(blame, ["--repo", str(team.root), "--json", path])
    assert said.exit_code == 0, said.output
    assert '"exact"' not in said.output


@pytest.mark.parametrize("command", ["sort -o src/new.md src/new.md", "sed -i 's/^/    /' src/new.md"])
def test_a_filter_of_lines_that_a_person_saved_makes_none_of_them_the_agents(team: Team, command: str) -> None:
    names = ("zebra_count", "order_total", "address_line", "card_number", "item_price")
    (team.root / "src/new.md").write_text("".join(f"{name} = load_{name}(order)\n" for name in names))
    assert team.run(command).dropped == {}
    said = CliRunner().invoke(blame, ["--repo", str(team.root), "--json", "src/new.md"])
    assert '"ai"' not in said.output


def test_an_agents_own_lines_stay_its_own_through_a_stash(team: Team) -> None:
    for command in ("echo 'mine = 1' > src/own.py; git add src", "git stash -q", "git stash pop -q"):
        assert team.run(command).dropped == {}
    said = CliRunner().invoke(blame, ["--repo", str(team.root), "--json", "src/own.py"])
    assert "INT-001" in said.output


def test_an_index_that_a_person_only_looked_at_is_no_conflict(team: Team) -> None:
    (team.root / "src/a.py").touch()
    look = f"GIT_INDEX_FILE={team.root}/.git/index true"
    watch = subprocess.Popen(
        ["bash", "-c", f"{look}; for i in 1 2 3 4 5 6 7 8; do touch docs/x.md; git status -s; sleep 0.2; done"],
        cwd=team.root,
        stdout=subprocess.DEVNULL,
    )
    # A status holds the index's lock for an instant, and a git command that meets it fails, with or without Remit.
    add, commit = (f"until git {words}; do sleep 0.1; done" for words in ("add src", "commit -qm two"))
    result = team.run(f"echo 2 > src/own.py; {add}; sleep 1; {commit}")
    watch.wait()
    assert result.dropped == {}
    assert shell(team.root, "git log -1 --format=%s; git status -s") == "two\n"


def test_an_index_that_a_person_changed_meanwhile_is_one(team: Team) -> None:
    stage = meanwhile(team.gate, "echo p >> docs/x.md; git add docs")
    result = team.run(f"echo 2 > src/own.py; git add src; {pause(team.gate)}; git commit -qm two")
    stage.wait()
    assert "somebody else used git meanwhile" in result.dropped[".git"]
    assert "docs/x.md" in shell(team.root, "git diff --cached --name-only")


def test_what_the_sandbox_keeps_from_a_command_is_told(team: Team) -> None:
    assert "where only its own processes are seen" in team.run("pkill -f some-server-of-mine").said
    assert "reaches the gpg-agent" in team.run("git commit --allow-empty -S -m signed").said
    assert team.run("sleep 5 & kill $!").said == ""
    assert "gpg" not in team.run("git commit -m nothing").said
