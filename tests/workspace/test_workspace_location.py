"""Where a workspace is."""

import os
from pathlib import Path

import pytest

from conftest import run_git
from remit.workspace.place.workspace import find_main_worktree, locate_workspace, resolve_git_folder


def test_the_nearest_folder_with_orchestration_wins_over_git(repository: Path) -> None:
    (repository / "src" / ".orchestration").mkdir()
    found = locate_workspace(repository / "src" / "deep" / "not" / "there")
    assert found is not None
    assert (found.root, found.common_dir) == (repository / "src", repository / ".git")
    assert found.state == repository / ".git" / "remit"


def test_there_is_none_outside_any(tmp_path: Path) -> None:
    assert locate_workspace(tmp_path) is None


def test_without_git_the_state_lies_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / ".orchestration").mkdir()
    found = locate_workspace(tmp_path)
    assert found is not None
    assert found.state == tmp_path / ".orchestration" / ".state"


def test_a_linked_worktree_shares_the_state(repository: Path, tmp_path: Path) -> None:
    run_git(repository, "worktree", "add", "-q", str(tmp_path / "linked"))
    found = locate_workspace(tmp_path / "linked")
    assert found is not None
    assert (found.root, found.common_dir) == (tmp_path / "linked", repository / ".git")
    assert find_main_worktree(found) == repository
    here = locate_workspace(repository)
    assert here is not None
    assert find_main_worktree(here) is None


def test_a_repository_inside_a_workspace_is_not_its_git(repository: Path) -> None:
    (repository / ".orchestration").mkdir()
    (repository / "inner").mkdir()
    run_git(repository / "inner", "init", "-q")
    found = locate_workspace(repository / "inner")
    assert found is not None
    assert (found.root, found.common_dir) == (repository, repository / ".git")


def test_a_submodule_has_a_git_of_its_own(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    run_git(tmp_path / "other", "init", "-q")
    run_git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "x")
    run_git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "other"), "sub")
    found = locate_workspace(repository / "sub")
    assert found is not None
    assert (found.root, found.common_dir) == (repository / "sub", repository / ".git" / "modules" / "sub")


@pytest.mark.parametrize("content", [b"", b"junk", b"gitdir: /nowhere", b"gitdir: \0", b"\xff" * 100_000])
def test_a_dot_git_that_names_nothing_is_no_git(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert resolve_git_folder(str(tmp_path)) is None
    found = locate_workspace(tmp_path)
    assert found is not None
    assert found.common_dir is None


def test_a_fifo_as_dot_git_does_not_stop_us(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert resolve_git_folder(str(tmp_path)) is None


def test_names_too_long_and_loops_are_no_failure(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert locate_workspace(tmp_path / ("x" * 300) / "y") is None
    assert locate_workspace(tmp_path / "x" / "y" / ("z/" * 2000)) is None
