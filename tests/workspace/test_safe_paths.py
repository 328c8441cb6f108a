"""Own writes land below the root or nowhere, whatever links are there or are put there meanwhile."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from remit.workspace.agents.read_write_settings import write_settings
from remit.workspace.safe_files import (
    OPENAT2_NUMBER,
    FileToWrite,
    FolderOpener,
    load_openat2,
    open_below_root,
    open_parent_folder,
    remove_below,
    write_below,
    write_files,
)

RACES = Path(__file__).parent.parent.parent / "benchmarks" / "races.py"
"""Sixty writes of each kind here; two thousand where it runs by itself."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a folder, links that stay, links that leave, and a neighbour."""
    root = tmp_path.resolve() / "w"
    (root / "src" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (tmp_path / "outside").mkdir()
    (root / "in").symlink_to("src")
    (root / "up").symlink_to("../outside")
    (root / "far").symlink_to(tmp_path.resolve() / "outside")
    (root / "round").symlink_to("round")
    (root / "magic").symlink_to("/proc/self/cwd")
    return root


def kernels() -> list[FolderOpener | None]:
    """The ways there are here: the system call, where it is, and the walk."""
    known = load_openat2()
    return [None] if known is None else [known, None]


ways = pytest.mark.parametrize("kernel", kernels(), ids=lambda way: "walk" if way is None else "openat2")


def lands(root: Path, folder: str, kernel: FolderOpener | None, *, links: bool, make: bool = True) -> Path | None:
    """Where a folder that was opened really is; None where it was refused."""
    try:
        here = open_below_root(root, folder, create=make, follow_links=links, kernel=kernel)
    except OSError:
        return None
    try:
        (root.parent / "probe").unlink(missing_ok=True)
        os.close(os.open("probe", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    finally:
        os.close(here)
    found = next(iter(root.parent.rglob("probe")))
    found.unlink()
    return found.parent


@ways
@pytest.mark.parametrize(
    ("folder", "strict", "loose"),
    [
        ("", "", ""),
        ("src/deep", "src/deep", "src/deep"),
        ("new/a/b", "new/a/b", "new/a/b"),
        ("in/deep", None, "src/deep"),
        ("in/new", None, "src/new"),
        ("up", None, None),
        ("far/x", None, None),
        ("round/x", None, None),
        ("magic", None, None),
    ],
)
def test_a_folder_is_below_the_root_or_is_refused(
    root: Path, kernel: FolderOpener | None, folder: str, strict: str | None, loose: str | None
) -> None:
    assert lands(root, folder, kernel, links=False) == (None if strict is None else root / strict)
    assert lands(root, folder, kernel, links=True) == (None if loose is None else root / loose)
    assert not list((root.parent / "outside").iterdir())


def test_this_machine_has_the_system_call_that_the_table_names() -> None:
    found = load_openat2()
    if found is None:
        pytest.skip("no openat2 here")
    os.close(found(-100, "/", 0))
    assert OPENAT2_NUMBER == 437


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "a\0b/x"])
def test_a_path_that_is_not_clean_opens_nothing(root: Path, path: str) -> None:
    with pytest.raises(OSError, match="no clean path"), open_parent_folder(root, path, create=True):
        pass


def test_a_path_elsewhere_is_not_written(root: Path) -> None:
    with pytest.raises(OSError, match="lies outside of"):
        write_below(root, root.parent / "outside" / "x", b"x")


def test_a_root_that_became_a_link_is_refused(root: Path) -> None:
    root.rename(root.with_name("moved"))
    root.symlink_to("outside")
    with pytest.raises(OSError, match="link stands in the way"):
        write_below(root, root / "x", b"x")


def test_a_folder_of_two_thousand_steps_is_made_and_opened(root: Path) -> None:
    path = "/".join(["d"] * 2100 + ["x"])
    try:
        assert write_files(root, {path: FileToWrite("100644", b"x")}, "m") == {}
        with open_parent_folder(root, path, create=False) as folder:
            assert os.listdir(folder) == ["x"]  # noqa: PTH208
    finally:
        subprocess.run(["rm", "-rf", root / "d"], check=True)  # too deep for pytest to tidy up


def test_a_link_inside_the_repository_is_followed_one_that_leads_out_is_named(root: Path) -> None:
    write_below(root, root / "in" / "x", b"1")
    assert (root / "src" / "x").read_bytes() == b"1"
    with pytest.raises(OSError, match=r"a link in 'up' leads out of .*; put a folder there") as told:
        write_below(root, root / "up" / "x", b"1")
    assert told.value.errno == errno.EXDEV


def test_a_file_that_is_a_link_is_replaced_and_what_it_led_to_stays(root: Path) -> None:
    victim = root.parent / "outside" / "victim"
    victim.write_bytes(b"theirs")
    (root / "x").symlink_to(victim)
    write_below(root, root / "x", b"ours")
    assert (victim.read_bytes(), (root / "x").is_symlink(), (root / "x").read_bytes()) == (b"theirs", False, b"ours")


def test_a_new_file_obeys_the_umask_and_told_permissions_are_given(root: Path) -> None:
    write_below(root, root / "a", b"", 0o666)
    write_below(root, root / "b", b"", 0o600, permissions=0o640)
    known = os.umask(0)
    os.umask(known)
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o666 & ~known
    assert stat.S_IMODE((root / "b").stat().st_mode) == 0o640


def test_what_is_not_there_is_removed_already(root: Path) -> None:
    remove_below(root, root / "none" / "x")
    remove_below(root, root / "src" / "x")
    write_below(root, root / "src" / "x", b"")
    remove_below(root, root / "in" / "x")
    assert not (root / "src" / "x").exists()


def test_nothing_is_left_where_a_write_fails(root: Path) -> None:
    (root / "src" / "taken").mkdir()
    (root / "src" / "taken" / "x").touch()
    with pytest.raises(OSError, match="directory"):
        write_below(root, root / "src" / "taken", b"x")
    assert sorted(path.name for path in (root / "src").iterdir()) == ["deep", "taken"]


def test_settings_of_a_repository_follow_links_inside_it_and_none_out_of_it(root: Path) -> None:
    write_settings(root / "in" / "settings.json", None, b"{}")
    assert (root / "src" / "settings.json").read_bytes() == b"{}"
    with pytest.raises(OSError, match="its link leads out of"):
        write_settings(root / "up" / "settings.json", None, b"{}")


def test_settings_at_home_may_lie_elsewhere(root: Path) -> None:
    home = root.parent / "home"
    (root.parent / "dotfiles").mkdir()
    home.mkdir()
    (home / ".agent").symlink_to("../dotfiles")
    write_settings(home / ".agent" / "settings.json", None, b"{}")
    assert (root.parent / "dotfiles" / "settings.json").read_bytes() == b"{}"


# A race


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one step")
def test_no_write_gets_out_while_a_folder_and_a_link_are_swapped() -> None:
    done = subprocess.run([sys.executable, RACES, "60"], capture_output=True, text=True, check=True)
    head, usual, *ours = done.stdout.splitlines()
    assert head.split()[-1] == "outside"
    assert usual.startswith("realpath")
    outside = {line[:24].strip(): int(line.split()[-1]) for line in ours}
    assert outside == dict.fromkeys(outside, 0)
    assert len(outside) > 10
