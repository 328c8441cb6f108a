"""Files that git passes through a filter, as git-lfs and git-crypt do, in worktrees of attempts."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.driving import governed
from remit.core.assignment import Assignment
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.worktrees import FilterDisabled, Worktrees

AUTHOR = Identity("An Agent", "agent@example.org", 1_700_000_000)
TERMS = Assignment(task="p:INT-001", intent="INT-001", attempt=1, token=1, scope=("src/**",))
SECRET = "the secret\n"


@pytest.fixture
def trees(repository: Path) -> Worktrees:
    governed(repository)
    (repository / ".gitattributes").write_text("*.bin filter=masked\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "governed")
    found = locate_workspace(repository)
    assert found is not None
    return Worktrees(found, repository.parent / "trees")


def set_filter(repository: Path, *where: str) -> None:
    """Set a filter that turns letters round, as an encrypting one does."""
    for name in ("clean", "smudge"):
        run_git(repository, "config", *where, f"filter.masked.{name}", "tr a-z n-za-m")
    run_git(repository, "config", *where, "filter.masked.required", "true")


def work(trees: Worktrees) -> Workspace:
    tree = trees.prepare("INT-001", 1, "main")
    AssignmentFile(tree).write(replace(TERMS, base=trees.require_commit("main")), 600)
    (tree.root / "src/key.bin").write_text(SECRET)
    (tree.root / "src/more.py").write_text("more = 1\n")
    return tree


def read(trees: Worktrees, commit: str) -> dict[str, bytes | None]:
    return trees.store.read_files(commit, ["src/key.bin", "src/more.py"])


def test_a_persons_own_filter_runs_at_the_hand_in_and_a_checkpoint_leaves_its_files_out(
    trees: Worktrees, repository: Path
) -> None:
    set_filter(repository, "--global")
    tree = work(trees)
    kept = trees.checkpoint(tree, "INT-001", 1, "a checkpoint", 1_700_000_000)
    assert kept is not None
    assert read(trees, kept.commit) == {"src/key.bin": None, "src/more.py": b"more = 1\n"}
    assert "filter" in kept.left["src/key.bin"]
    AssignmentFile(tree).write(replace(TERMS, state="ended", base=trees.require_commit("main")), 0)
    assert trees.explain_risk(tree) == "'src/key.bin' is in no checkpoint"  # so that the worktree stays
    handed = trees.hand_in(tree, TERMS.sets, "work", AUTHOR)
    assert read(trees, handed.commit) == {"src/key.bin": b"gur frperg\n", "src/more.py": b"more = 1\n"}


def test_nothing_is_committed_without_a_filter_that_is_not_run(trees: Worktrees, repository: Path) -> None:
    set_filter(repository)
    tree = work(trees)
    kept = trees.checkpoint(tree, "INT-001", 1, "a checkpoint", 1_700_000_000)
    assert kept is not None
    assert read(trees, kept.commit)["src/key.bin"] is None
    with pytest.raises(FilterDisabled, match=r"'src/key.bin' without its filter 'masked'.*git config --global"):
        trees.hand_in(tree, TERMS.sets, "work", AUTHOR)
    assert run_git(repository, "rev-parse", "remit/INT-001/1") == run_git(repository, "rev-parse", "main")
    assert (tree.root / "src/key.bin").read_text() == SECRET
