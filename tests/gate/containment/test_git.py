"""What a contained command does to git's folder, where no file of the working tree tells it."""

import subprocess
from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.test_run_command import gate, how, run
from gate.driving import body, governed, records
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.workspace.sandbox.containment import Containment

__all__ = ["gate", "how"]

PLUMBING = """
export GIT_INDEX_FILE=$PWD/src/i; git read-tree HEAD
git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),docs/readme.md
tree=$(git write-tree); rm src/i; unset GIT_INDEX_FILE
made=$(git commit-tree -p HEAD -m stranger $tree)
"""


def git(gate: Gate, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=gate.workspace.root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "naming",
    [
        "git update-ref refs/heads/main $made",
        "git update-ref HEAD $made",
        "git branch side $made",
        "git tag v1 $made",
        "git tag -a -m v v1 $made",
        "git update-ref --no-deref HEAD $made",
        "git update-ref HEAD $(git commit-tree -p $made -m hidden HEAD^{tree})",
    ],
)
def test_a_commit_of_what_no_working_tree_held_gets_no_name(gate: Gate, how: Containment, naming: str) -> None:
    before = git(gate, "for-each-ref"), git(gate, "rev-parse", "HEAD"), git(gate, "symbolic-ref", "HEAD")
    result = run(gate, how, PLUMBING + naming)
    assert result.code == 0
    assert (git(gate, "for-each-ref"), git(gate, "rev-parse", "HEAD"), git(gate, "symbolic-ref", "HEAD")) == before
    assert set(result.dropped) == {"docs/readme.md", ".git"}
    assert "not the one in the working tree" in result.said
    name = result.said.split("prunes them: ")[1].split(".")[0]
    git(gate, "cat-file", "-e", f"{name}^{{commit}}")
    git(gate, "fsck", "--strict")
    [denied] = [body(r) for r in records(gate.workspace.root, "denied")]
    assert denied["violation"]["error_type"] == "SCOPE_VIOLATION"
    assert denied["violation"]["path"] == "docs/readme.md"


@pytest.mark.parametrize(
    "staging",
    [
        "git update-index --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),docs/readme.md",
        "git rm -q --cached docs/readme.md",
    ],
)
def test_nothing_is_staged_that_no_working_tree_held(gate: Gate, how: Containment, staging: str) -> None:
    result = run(gate, how, staging)
    assert set(result.dropped) == {"docs/readme.md", ".git"}
    assert git(gate, "diff", "--cached", "--name-only") == ""


def test_what_a_person_left_there_may_be_committed(gate: Gate, how: Containment) -> None:
    root = gate.workspace.root
    (root / "docs/readme.md").write_text("a person's\n")
    (root / "staged").write_text("as staged\n")
    git(gate, "add", "staged")
    (root / "staged").write_text("and changed since\n")
    result = run(gate, how, "echo 2 > src/a.py; git add docs src; git commit -qm both")
    assert result.dropped == {}
    assert git(gate, "show", "HEAD:docs/readme.md") == "a person's"
    assert git(gate, "show", "HEAD:staged") == "as staged"


@pytest.mark.parametrize(
    "command",
    [
        "git tag v1 && git branch side && git checkout -q side",
        "echo 2 > src/a.py && git commit -qam two && git tag -a v1 -m v1",
        "echo 2 > src/a.py && git stash -q && echo 3 > src/a.py && git stash -q",
        "git checkout -qb side && echo 2 > src/a.py && git commit -qam two && git checkout -q main && "
        "echo 3 > src/b.py && git commit -qam three && git merge -q --no-edit side",
    ],
)
def test_the_usual_work_stays(gate: Gate, how: Containment, command: str) -> None:
    assert run(gate, how, command).dropped == {}
    git(gate, "fsck", "--strict")


def test_an_orphan_branch_of_what_it_owns_stays_and_of_more_does_not(gate: Gate, how: Containment) -> None:
    entry = "$(printf '100644 blob %s\\t{}\\n' $(git hash-object -w src/a.py) | git mktree)"
    made = f"git branch one $(git commit-tree -m alone {entry})"
    assert run(gate, how, made.format("x")).dropped.keys() == {"x", ".git"}
    inner = entry.replace("blob", "tree").replace("100644", "040000").replace("$(git hash-object -w src/a.py)", entry)
    made = f"git branch two $(git commit-tree -m alone {inner.replace('{}', 'src', 1).replace('{}', 'y')})"
    assert run(gate, how, made, call_id="call-2").dropped == {}


@pytest.mark.parametrize(
    ("name", "there"),
    [("refs/notes/ai", True), ("refs/notes/remit", False), ("refs/remit/blobs/m", True), ("refs/remit/log/m", False)],
)
def test_remits_refs_are_as_before_and_a_commit_stays(gate: Gate, how: Containment, name: str, there: bool) -> None:
    if there:
        git(gate, "update-ref", name, "HEAD")
    before = git(gate, "for-each-ref", name)
    commands = ["git update-ref {} $(git commit-tree -p HEAD -m x HEAD^{{tree}})", *["git update-ref -d {}"] * there]
    for number, command in enumerate(commands):
        text = f"{command.format(name)}; echo {number + 2} > src/a.py; git commit -qam {number}"
        result = run(gate, how, text, call_id=f"call-{number}")
        assert git(gate, "for-each-ref", name) == before
        assert set(result.dropped) == {f".git/{name}"}
        assert "only Remit writes" in result.said
        assert git(gate, "log", "-1", "--format=%s") == str(number)


def test_a_rewritten_commit_is_kept_without_a_name(gate: Gate, how: Containment) -> None:
    before = git(gate, "rev-parse", "HEAD")
    result = run(gate, how, "echo 2 > src/a.py; git commit -qa --amend -m rewritten")
    assert git(gate, "rev-parse", "HEAD") == before
    name = result.said.split("prunes them: ")[1].split(".")[0]
    assert git(gate, "log", "-1", "--format=%s", name) == "rewritten"


def test_a_work_tree_of_its_own_is_left_behind_whole_and_told(gate: Gate, how: Containment) -> None:
    result = run(gate, how, "git worktree add -q src/wt -b side && echo 2 > src/a.py && cd src/wt && echo 3 > src/new")
    assert not (gate.workspace.root / "src/wt").exists()
    assert result.kept == ("src/a.py",)
    assert set(result.dropped) == {"src/wt", ".git"}
    assert "run `git worktree add` alone" in result.said
    assert git(gate, "branch", "--list", "side") == ""


def test_another_work_trees_index_and_head_are_not_touched(gate: Gate, how: Containment) -> None:
    root = gate.workspace.root
    git(gate, "worktree", "add", "-q", "-b", "side", str(root.parent / "wt"))
    other = Gate.open(root.parent / "wt", gate.environment)
    other.intents.select(SessionKey("s1"), "test", "INT-001")
    result = run(other, how, "echo 2 > src/a.py; git commit -qam two", call_id="call-2")
    assert result.dropped == {}
    assert git(gate, "log", "-1", "--format=%s", "side") == "two"
    result = run(gate, how, "git --git-dir .git/worktrees/wt rm -q --cached src/b.py", call_id="call-3")
    assert "belongs to another work tree" in result.said
    result = run(other, how, f"git --git-dir {root}/.git rm -q --cached src/b.py", call_id="call-4")
    assert "belongs to another work tree" in result.said


def begun(root: Path, around: Environment, *words: str) -> Gate:
    """A governed repository without a commit, with a file of a person's out of the scope."""
    (root / "src").mkdir(parents=True)
    run_git(root, "init", "-q", *words)
    found = Gate.open(governed(root), around)
    found.intents.select(SessionKey("s1"), "test", "INT-001")
    (root / "top").write_text("a person's\n")
    return found


@pytest.mark.parametrize("words", [(), ("--object-format=sha256",)])
def test_the_first_commit_stays_whatever_names_objects_have(
    gate: Gate, how: Containment, tmp_path: Path, words: tuple[str, ...]
) -> None:
    fresh = begun(tmp_path / "fresh", gate.environment, *words)
    assert run(fresh, how, "echo 1 > src/a; git add -A; git commit -qm first").dropped == {}
    assert git(fresh, "show", "HEAD:top") == "a person's"
    evil = "git update-index --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),top; git commit -qm evil"
    assert set(run(fresh, how, evil, call_id="call-2").dropped) == {"top", ".git"}


def test_in_a_folder_of_a_repository_what_lies_beside_it_is_judged(
    gate: Gate, how: Containment, repository: Path
) -> None:
    (repository / "pkg/src").mkdir(parents=True)
    inner = Gate.open(governed(repository / "pkg"), gate.environment)
    inner.intents.select(SessionKey("s1"), "test", "INT-001")
    assert run(inner, how, "echo 1 > src/a; git add src; git commit -qm one").dropped == {}
    assert run_git(repository, "show", "HEAD:pkg/src/a") == "1\n"
    evil = "git update-index --cacheinfo 100644,$(echo x | git hash-object -w --stdin),README.md; git commit -qm evil"
    assert set(run(inner, how, evil, call_id="call-2").dropped) == {"../README.md", ".git"}
