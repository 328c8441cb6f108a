"""What a command left is removed, whatever it made of it; and one leftover stands in nobody's way."""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.staging import (
    SCRATCH_FOLDER,
    UNMEASURABLE_BYTES,
    find_leftovers,
    measure_bytes,
    open_staging,
    remove_leftovers,
    remove_tree,
)

DIG = "import os, sys; [(os.mkdir(sys.argv[2]), os.chdir(sys.argv[2])) for _ in range(int(sys.argv[1]))]"


@pytest.fixture(autouse=True)
def tidy(tmp_path: Path, home: Path) -> Generator[None]:
    """Nothing is left that the removal of a test's own folders breaks on."""
    yield
    for place in (tmp_path, home):
        remove_tree(place)


def dig(folder: Path, depth: int, name: str = "d") -> Path:
    """Make folders in one another, so deep that no path reaches the last one."""
    folder.mkdir(parents=True)
    subprocess.run([sys.executable, "-c", DIG, str(depth), name], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(("depth", "name"), [(3000, "d"), (40, "n" * 250)])
def test_a_folder_of_any_depth_is_removed(tmp_path: Path, depth: int, name: str) -> None:
    assert remove_tree(dig(tmp_path / "deep", depth, name))
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_a_folder_without_permissions_is_removed_and_what_a_link_names_stays(tmp_path: Path) -> None:
    shut, other = tmp_path / "top/shut", tmp_path / "other"
    (shut / "in").mkdir(parents=True)
    other.mkdir()
    (other / "file").touch()
    (shut / "in/file").touch()
    (shut / "link").symlink_to(other)
    os.mkfifo(shut / "pipe")
    (shut / "in").chmod(0)
    shut.chmod(0o500)
    assert remove_tree(tmp_path / "top")
    assert (other / "file").exists()


def test_nothing_is_left_of_nothing(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "missing")


def test_what_a_killed_process_left_stands_in_no_commands_way(tmp_path: Path, home: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    dig(home / SCRATCH_FOLDER / f"{gone.pid}-deep/upper", 1500)
    (tmp_path / "repo").mkdir()
    with open_staging(Workspace(tmp_path / "repo", None, None), home, tmp_path):
        pass
    assert find_leftovers(home / SCRATCH_FOLDER) == []
    assert remove_leftovers(home / SCRATCH_FOLDER / "missing") == []


def test_what_lies_where_no_path_reaches_cannot_be_measured(tmp_path: Path) -> None:
    assert measure_bytes(dig(tmp_path / "deep", 3000)) == UNMEASURABLE_BYTES


def test_a_hole_counts_as_if_it_were_full(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 30)
    assert measure_bytes(tmp_path) == 1 << 30
