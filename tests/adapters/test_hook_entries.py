"""The few words of shell that decide where the hook client does not answer."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import run_git
from remit.adapters.hook_entries import FALLBACK_SHELL

GIT_FREE = "/nowhere"
"""A PATH on which there is no git: the words use nothing but the shell then."""


def decide(folder: Path, shell: str = "/bin/sh", path: str | None = None) -> int:
    """The exit code in that folder. An agent may hold variables of the names that shell scripts like."""
    environment = {**os.environ, "d": "/", "g": "/", **({"PATH": path} if path else {})}
    done = subprocess.run([shell, "-c", FALLBACK_SHELL], cwd=folder, env=environment, capture_output=True, check=False)
    assert (b"remit" in done.stderr) == (done.returncode == 2), done
    return done.returncode


def mark(state: Path, *, enforcing: bool) -> None:
    state.mkdir(parents=True)
    (state / "governed").touch()
    if enforcing:
        (state / "enforce").touch()


def repository_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q")
    return folder


def enforcing(base: Path) -> Path:
    mark(repository_in(base / "r") / ".git" / "remit", enforcing=True)
    return base / "r"


def below_it(base: Path) -> Path:
    folder = enforcing(base) / "a folder" / "deep"
    folder.mkdir(parents=True)
    return folder


def through_a_link(base: Path) -> Path:
    (base / "link").symlink_to(below_it(base))
    return base / "link"


def without_git(base: Path) -> Path:
    mark(base / "plain" / ".orchestration" / ".state", enforcing=True)
    (base / "plain" / "src").mkdir()
    return base / "plain" / "src"


def ungoverned_repository_inside(base: Path) -> Path:
    return repository_in(without_git(base) / "vendored")


def ungoverned(base: Path) -> Path:
    return repository_in(base / "r")


def observing(base: Path) -> Path:
    mark(repository_in(base / "r") / ".git" / "remit", enforcing=False)
    return base / "r"


def observing_inside_an_enforcing_one(base: Path) -> Path:
    mark(repository_in(enforcing(base) / "inner") / ".git" / "remit", enforcing=False)
    return base / "r" / "inner"


def no_repository(base: Path) -> Path:
    return base


REFUSED = [enforcing, below_it, through_a_link, without_git, ungoverned_repository_inside]
PASSED = [ungoverned, observing, observing_inside_an_enforcing_one, no_repository]


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize("path", [None, GIT_FREE], ids=["git", "no git"])
@pytest.mark.parametrize("place", [*REFUSED, *PASSED])
def test_it_refuses_where_the_nearest_governed_workspace_enforces(
    place: Callable[[Path], Path], path: str | None, shell: str, tmp_path: Path
) -> None:
    if not Path(shell).exists():
        pytest.skip(f"NOT TESTED: there is no {shell}")
    assert decide(place(tmp_path), shell, path) == (2 if place in REFUSED else 0)


def test_a_worktree_is_as_its_repository(repository: Path, tmp_path: Path) -> None:
    run_git(repository, "worktree", "add", "-q", str(tmp_path / "worktree"))
    assert decide(tmp_path / "worktree") == 0
    mark(repository / ".git" / "remit", enforcing=True)
    assert decide(tmp_path / "worktree") == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give a repository to somebody else")
def test_a_worktree_of_somebody_else_is_no_way_out(repository: Path, tmp_path: Path) -> None:
    run_git(repository, "worktree", "add", "-q", str(tmp_path / "worktree"))
    mark(repository / ".git" / "remit", enforcing=True)
    for path in (repository, *repository.rglob("*"), tmp_path / "worktree", tmp_path / "worktree" / ".git"):
        os.chown(path, 12345, 12345)
    assert decide(tmp_path / "worktree") == 2


def test_the_next_step_works_where_remit_is_gone(tmp_path: Path) -> None:
    folder = enforcing(tmp_path)
    done = subprocess.run(["/bin/sh", "-c", FALLBACK_SHELL], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    command = done.stderr.rpartition("ends this by: ")[2].strip()
    subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=True)
    assert decide(folder) == 0
