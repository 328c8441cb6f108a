"""Submodules in worktrees of attempts: what an agent leaves in one runs nothing, and is named instead of lost."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.driving import governed
from remit.core.assignment import Assignment
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.worktrees import Worktrees

AUTHOR = Identity("An Agent", "agent@example.org", 1_700_000_000)
TERMS = Assignment(task="p:INT-001", intent="INT-001", attempt=1, token=1, scope=("src/**",))


@pytest.fixture
def trees(repository: Path, tmp_path: Path) -> Worktrees:
    """A repository with the submodule `src/library`."""
    library = tmp_path / "library"
    library.mkdir()
    run_git(library, "init", "-q")
    (library / "a.py").write_text("a = 1\n")
    run_git(library, "add", "-A")
    run_git(library, "commit", "-qm", "library")
    governed(repository)
    run_git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "src/library")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "governed")
    found = locate_workspace(repository)
    assert found is not None
    return Worktrees(found, tmp_path / "trees")


@pytest.fixture
def tree(trees: Worktrees) -> Workspace:
    made = trees.prepare("INT-001", 1, "main")
    AssignmentFile(made).write(replace(TERMS, base=trees.require_commit("main")), 600)
    return made


def plant(folder: Path, mark: Path) -> None:
    """Make a repository whose settings run a program as soon as git looks for changes in it."""
    folder.mkdir(exist_ok=True)
    run_git(folder, "init", "-q")
    (folder / "a.py").write_text("a = 1\n")
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-qm", "planted")
    (folder / ".gitattributes").write_text("* filter=planted\n")
    run_git(folder, "config", "filter.planted.clean", f"touch {mark}; cat")
    (folder / "a.py").write_text("a = 2\n")


@pytest.mark.parametrize(("place", "is_added"), [("src/library", False), ("src/new", True)])
def test_no_program_of_a_submodule_that_an_agent_filled_is_run(
    trees: Worktrees, tree: Workspace, tmp_path: Path, place: str, is_added: bool
) -> None:
    mark = tmp_path / "planted-program-ran"
    plant(tree.root / place, mark)
    if is_added:
        run_git(tree.root, "add", "--", place)
        mark.unlink(missing_ok=True)
    trees.hand_in(tree, TERMS.sets, "work", AUTHOR)
    trees.hand_in(tree, TERMS.sets, "work", AUTHOR)  # a step that is repeated
    trees.list_changed_files(tree)
    trees.checkpoint(tree, "INT-001", 1, "a checkpoint", 1_700_000_000)
    assert "nested repository" in trees.explain_risk(tree) or "no ref leads" in trees.explain_risk(tree)
    assert not mark.exists()


def test_files_in_an_empty_submodule_are_named_and_kept(trees: Worktrees, tree: Workspace) -> None:
    (tree.root / "src/library/mine.py").write_text("mine = 1\n")
    (tree.root / "src/more.py").write_text("more = 1\n")
    handed = trees.hand_in(tree, TERMS.sets, "work", AUTHOR)
    assert handed.outside == ("src/library/mine.py (in a submodule)",)
    AssignmentFile(tree).write(replace(TERMS, state="ended"), 0)
    assert trees.explain_risk(tree) == "'src/library/mine.py' lies in the folder of a submodule"
    assert not trees.is_idle(tree)


def test_a_submodule_that_nobody_touched_is_no_obstacle(trees: Worktrees, tree: Workspace) -> None:
    (tree.root / "src/more.py").write_text("more = 1\n")
    handed = trees.hand_in(tree, TERMS.sets, "work", AUTHOR)
    assert handed.outside == ()
    changes = trees.store.list_changes("main", handed.commit)
    assert [(change.path, change.new_mode) for change in changes] == [("src/more.py", "100644")]
    assert trees.explain_risk(tree) == ""
