"""Where the next attempt begins: with what the one before left, as far as it fits the target and the write set."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import governed
from remit.workspace.merging import Identity
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.worktrees import Worktrees
from remit_fleet.board import Attempt
from remit_fleet.workers.starting_point import find_starting_point

LAST = Attempt("r", "INT-001", 7, 3, ended_at=1_700_000_000.0, branch="remit/INT-001/7")
SRC = (("src/**",), ("**",))


@pytest.fixture
def trees(repository: Path, tmp_path: Path) -> Worktrees:
    governed(repository)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "governed")
    found = locate_workspace(repository)
    assert found is not None
    return Worktrees(found, tmp_path / "trees")


@pytest.fixture
def tree(trees: Worktrees) -> Workspace:
    return trees.prepare("INT-001", 7, "main")


def land(repository: Path, path: str, text: str) -> str:
    (repository / path).parent.mkdir(exist_ok=True)
    (repository / path).write_text(text)
    run_git(repository, "add", "--", path)
    run_git(repository, "commit", "-q", "-m", "landed")
    return run_git(repository, "rev-parse", "main").strip()


def show(trees: Worktrees, commit: str) -> dict[str, str]:
    changes = trees.store.list_changes("main", commit)
    contents = trees.store.read_files(commit, [change.path for change in changes])
    return {path: "" if text is None else text.decode() for path, text in contents.items()}


def test_a_first_attempt_begins_at_the_target(trees: Worktrees) -> None:
    base = trees.require_commit("main")
    assert find_starting_point(trees, base, SRC, None).commit == base
    assert find_starting_point(trees, base, SRC, LAST).commit == base  # it left nothing at all


def test_the_next_one_begins_with_what_was_left_on_top_of_what_has_landed(
    trees: Worktrees, tree: Workspace, repository: Path
) -> None:
    (tree.root / "src/begun.py").write_text("begun = 1\n")
    base = land(repository, "docs/landed.md", "landed\n")
    start = find_starting_point(trees, base, SRC, LAST)
    assert show(trees, start.commit) == {"src/begun.py": "begun = 1\n"}
    assert trees.store.find_commit(f"{start.commit}^") == base
    assert (start.taken, start.left, start.ref) == (("src/begun.py",), (), "refs/remit/wip/INT-001/7")
    assert start.describe() == "Your worktree begins with what it left."
    # It is made again after a crash, and is the same commit, which a worktree is made of.
    again = find_starting_point(trees, base, SRC, LAST)
    assert again == start
    made = trees.prepare("INT-001", 8, start.commit)
    assert (made.root / "src/begun.py").read_text() == "begun = 1\n"
    assert (made.root / "docs/landed.md").exists()


def test_what_lies_outside_of_the_write_set_stays_behind(trees: Worktrees, tree: Workspace) -> None:
    (tree.root / "src/begun.py").write_text("begun = 1\n")
    (tree.root / "README.md").write_text("not its own\n")
    start = find_starting_point(trees, trees.require_commit("main"), SRC, LAST)
    assert show(trees, start.commit) == {"src/begun.py": "begun = 1\n"}
    assert start.left == ("README.md",)
    assert start.describe().endswith("Not here, and kept as refs/remit/wip/INT-001/7: README.md.")
    only = find_starting_point(trees, trees.require_commit("main"), (("docs/**",),), LAST)
    assert only.commit == trees.require_commit("main")


def test_what_conflicts_with_what_has_landed_is_named_and_not_taken(
    trees: Worktrees, tree: Workspace, repository: Path
) -> None:
    (tree.root / "src/app.py").write_text("theirs = 1\n")
    (tree.root / "src/other.py").write_text("other = 1\n")
    base = land(repository, "src/app.py", "landed = 1\n")
    start = find_starting_point(trees, base, SRC, LAST)
    assert (start.commit, start.conflicts) == (base, ("src/app.py",))
    assert "conflicts with what has landed since; it is kept as refs/remit/wip/INT-001/7" in start.describe()
    assert b"other = 1\n" in trees.store.read_files(start.ref, ["src/other.py"]).values()


def test_what_was_handed_in_is_taken_from_its_branch(trees: Worktrees, tree: Workspace) -> None:
    (tree.root / "src/done.py").write_text("done = 1\n")
    assert trees.hand_in(tree, SRC, "work", Identity("An Agent", "agent@example.org", 1_700_000_000)).commit
    start = find_starting_point(trees, trees.require_commit("main"), SRC, LAST)
    assert show(trees, start.commit) == {"src/done.py": "done = 1\n"}
