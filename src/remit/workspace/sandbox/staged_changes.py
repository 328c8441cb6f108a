"""Changes of a command: read from the layer that took the writes, and transferred into the real folder.

In a transfer each file is atomic and no link is followed on the way. No privilege is transferred: no set-user-ID, no
device, no FIFO. Source: Documentation/filesystems/overlayfs.rst of Linux 6.18 (whiteouts, opaque folders), read
2026-11.
"""

import errno
import filecmp
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.scope.path_patterns import is_beyond_bounds
from remit.workspace.safe_files import open_parent_folder, replaced_file

ChangeKind: TypeAlias = Literal["file", "link", "folder", "pipe", "socket", "device", "deep", "gone"]

SPECIAL_KINDS = frozenset[ChangeKind]({"pipe", "socket", "device", "deep"})
"""Kinds that are never transferred: no content, or nested too deep to examine."""

FORMATS = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK)
KIND_BY_FORMAT: dict[int, ChangeKind] = dict(zip(FORMATS, ("file", "link", "pipe", "socket"), strict=True))
PRIVILEGE_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
"""Permissions that lend the owner's rights, or protect against removal."""

OVERLAY_ATTRIBUTES = ("user.overlay.", "trusted.overlay.")  # extended attributes of the overlay itself
EXCLUDED_ATTRIBUTES = (*OVERLAY_ATTRIBUTES, "security.capability")  # not content, or lend a privilege
BLOCK_BYTES = 1 << 20


class StagedChange(Struct, frozen=True):
    """A changed path; `same_content`: only a further name (hard link), `only_time`: only a new modification time."""

    path: str
    kind: ChangeKind
    same_content: bool = False
    only_time: bool = False


def find_staged_changes(upper: Path, lower: Path, *, with_times: bool = False) -> list[StagedChange]:
    """Return the changes, each folder before its content; `with_times` adds files with only a new time.

    Folders beyond the bounds of paths are not entered: the folder is a single change of kind `deep`. Raises OSError.
    """
    found: list[StagedChange] = []
    waiting = [("", False)]
    while waiting:
        folder, is_replaced = waiting.pop()
        with os.scandir(upper / folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
        before = try_lstat(lower / folder) if is_replaced else None
        if before is not None and stat.S_ISDIR(before.st_mode):
            removed = sorted(set(os.listdir(lower / folder)) - {entry.name for entry in entries})  # noqa: PTH208
            found += [change for name in removed for change in list_removed(lower, f"{folder}/{name}")]
        inner: list[tuple[str, bool]] = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            changes, enters = compare_path(upper, lower, path, entry.stat(follow_symlinks=False))
            found += (change for change in changes if with_times or not change.only_time)
            if enters:
                marks = (read_attribute(upper / path, f"{mark}opaque") for mark in OVERLAY_ATTRIBUTES)
                inner.append((path, is_replaced or b"y" in marks))
        waiting += reversed(inner)
    return found


def compare_path(upper: Path, lower: Path, path: str, now: os.stat_result) -> tuple[list[StagedChange], bool]:
    """Return the changes at a path, and whether to enter the path as a folder. Raises OSError."""
    before = try_lstat(lower / path)
    was_folder = before is not None and stat.S_ISDIR(before.st_mode)
    if stat.S_ISCHR(now.st_mode) and now.st_rdev == 0:  # a whiteout
        return list_removed(lower, path), False
    if not stat.S_ISDIR(now.st_mode):
        found = list_removed(lower, path) if was_folder else []
        new = before is None or file_differs(upper / path, lower / path, now, before)
        if new or now.st_nlink > 1:
            found.append(StagedChange(path, file_kind(now), same_content=not new))
        elif stat.S_ISREG(now.st_mode) and before is not None and now.st_mtime_ns != before.st_mtime_ns:
            found.append(StagedChange(path, "file", only_time=True))
        return found, False
    if is_beyond_bounds(path):
        return [StagedChange(path, "deep")], False
    found = [StagedChange(path, "gone")] if before is not None and not was_folder else []
    if before is None or not was_folder or stat.S_IMODE(now.st_mode) != stat.S_IMODE(before.st_mode):
        found.append(StagedChange(path, "folder"))
    return found, True


def list_removed(lower: Path, path: str) -> list[StagedChange]:
    found: list[StagedChange] = []
    staying: set[str] = set()
    waiting = [path]
    while waiting:  # folders before their content; reversed at the end
        here = waiting.pop()
        status = try_lstat(lower / here)
        if status is None:
            continue
        if stat.S_ISDIR(status.st_mode) and is_beyond_bounds(here):
            found.append(StagedChange(here, "deep"))
            staying |= {os.fspath(above) for above in Path(here).parents}
            continue
        found.append(StagedChange(here, "gone"))
        if stat.S_ISDIR(status.st_mode):
            waiting += (f"{here}/{name}" for name in sorted(os.listdir(lower / here)))  # noqa: PTH208
    return [change for change in reversed(found) if change.path not in staying]


def try_lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def has_origin_mark(path: Path) -> bool:
    return any(read_attribute(path, f"{mark}origin") is not None for mark in OVERLAY_ATTRIBUTES)


def read_attribute(path: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return None


def read_attributes(path: Path) -> dict[str, bytes]:
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    found = {name: read_attribute(path, name) for name in names if not name.startswith(EXCLUDED_ATTRIBUTES)}
    return {name: value for name, value in found.items() if value is not None}


def file_kind(found: os.stat_result) -> ChangeKind:
    return KIND_BY_FORMAT.get(stat.S_IFMT(found.st_mode), "device")


def file_differs(new: Path, old: Path, now: os.stat_result, before: os.stat_result) -> bool:
    if stat.S_IFMT(now.st_mode) != stat.S_IFMT(before.st_mode):
        return True
    if stat.S_ISLNK(now.st_mode):
        return new.readlink() != old.readlink()
    if stat.S_IMODE(now.st_mode) != stat.S_IMODE(before.st_mode) or read_attributes(new) != read_attributes(old):
        return True
    return stat.S_ISREG(now.st_mode) and not filecmp.cmp(new, old, shallow=False)


def is_changed_since(lower: Path, change: StagedChange, began_ns: int) -> bool:
    found = try_lstat(lower / change.path)
    return found is not None and not stat.S_ISDIR(found.st_mode) and found.st_ctime_ns > began_ns


def could_be_removed_meanwhile(lower: Path, change: StagedChange, began_ns: int) -> bool:
    """Return whether the absent real file may have been removed during the command: its nearest folder changed."""
    if change.kind in ("gone", "folder") or try_lstat(lower / change.path) is not None:
        return False
    above = (try_lstat(path) for path in (lower / change.path).parents)
    return next(status.st_ctime_ns for status in above if status is not None) > began_ns


def has_privilege_bits(upper: Path, change: StagedChange) -> bool:
    found = try_lstat(upper / change.path) if change.kind == "file" else None
    return found is not None and bool(found.st_mode & PRIVILEGE_BITS)


# -- transfer ------------------------------------------------------------------------------------------------


class ChangeApplier:
    """A transfer from `upper` into `root`. `token` is part of the names of temporary files: a transfer that goes on
    after a crash removes those of the one before.
    """

    def __init__(self, upper: Path, root: Path, token: str = "") -> None:
        self.upper = upper
        self.root = root
        self.token = token
        self.first_paths: dict[tuple[int, int], str] = {}
        """By inode, the path already transferred: further names become hard links."""

    def apply_changes(self, changes: Sequence[StagedChange]) -> dict[str, str]:
        """Transfer the changes; return failures with reasons."""
        failed: dict[str, str] = {}
        removed = [c for c in changes if c.kind == "gone"]
        placed = [c for c in changes if c.kind not in ("gone", "folder") and not c.only_time]
        folders = [c for c in changes if c.kind == "folder"]
        for step, some in ((self.remove_path, removed), (self.make_folder, folders), (self.place_file, placed)):
            for change in some:
                try:
                    step(change.path)
                except OSError as error:
                    failed[change.path] = error.strerror or str(error)
        for change in changes:
            if change.only_time:
                with suppress(OSError), open_parent_folder(self.root, change.path, create=False) as folder:
                    times = read_times((self.upper / change.path).lstat())
                    os.utime(base_name(change.path), ns=times, dir_fd=folder, follow_symlinks=False)
        for change in reversed(folders):
            with suppress(OSError), open_parent_folder(self.root, f"{change.path}/x", create=False) as folder:
                # Inherited privilege bits stay as in the real folder.
                now = (self.upper / change.path).lstat()
                os.fchmod(folder, unprivileged_mode(now.st_mode) | (os.fstat(folder).st_mode & PRIVILEGE_BITS))
                os.utime(folder, ns=read_times(now))
        return failed

    def apply_in_order(self, changes: Sequence[StagedChange]) -> dict[str, str]:
        """Transfer the changes in order, stopping at the first failure; return the failure."""
        for change in changes:
            if failed := self.apply_changes([change]):
                return failed
        return {}

    def remove_path(self, path: str) -> None:
        missing = (FileNotFoundError, NotADirectoryError)
        with suppress(*missing), open_parent_folder(self.root, path, create=False) as folder:
            status = os.stat(base_name(path), dir_fd=folder, follow_symlinks=False)
            (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(base_name(path), dir_fd=folder)

    def make_folder(self, path: str) -> None:
        with open_parent_folder(self.root, path, create=True) as folder, suppress(FileExistsError):
            os.mkdir(base_name(path), dir_fd=folder)

    def place_file(self, path: str) -> None:
        """Write a file or link under a temporary name, and rename it. Raises OSError."""
        source = self.upper / path
        now = source.lstat()
        with (
            open_parent_folder(self.root, path, create=True) as folder,
            replaced_file(folder, base_name(path), self.token) as fresh,
        ):
            if stat.S_ISLNK(now.st_mode):
                os.symlink(os.fsencode(source.readlink()), fresh, dir_fd=folder)
            elif not stat.S_ISREG(now.st_mode):
                raise AssertionError(f"a {file_kind(now)} is never brought over")
            elif (known := self.first_paths.get((now.st_dev, now.st_ino))) is not None:
                with open_parent_folder(self.root, known, create=False) as other:
                    os.link(base_name(known), fresh, src_dir_fd=other, dst_dir_fd=folder, follow_symlinks=False)
            else:
                copy_file(source, fresh, folder, now)
                if now.st_nlink > 1:
                    self.first_paths[(now.st_dev, now.st_ino)] = path


def base_name(path: str) -> str:
    return path.rpartition("/")[2]


def read_times(status: os.stat_result) -> tuple[int, int]:
    return status.st_atime_ns, status.st_mtime_ns


def unprivileged_mode(mode: int) -> int:
    return stat.S_IMODE(mode) & ~PRIVILEGE_BITS


def copy_file(source: Path, fresh: str, folder: int, now: os.stat_result) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with source.open("rb", 0) as old, os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder), "wb", 0) as new:
        copy_data(old.fileno(), new.fileno())
        for name, value in read_attributes(source).items():
            with suppress(OSError):
                os.setxattr(new.fileno(), name, value)
        os.fchmod(new.fileno(), unprivileged_mode(now.st_mode))
        os.utime(new.fileno(), ns=read_times(now))


def copy_data(old: int, new: int) -> None:
    """Copy the content of an open file into an empty file, keeping holes. Raises OSError."""
    size = os.fstat(old).st_size
    start = 0
    while start < size:
        try:
            start = os.lseek(old, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # a hole up to the end
        end = os.lseek(old, start, os.SEEK_HOLE)
        while start < end:
            block = os.pread(old, min(BLOCK_BYTES, end - start), start)
            if not block:
                return
            start += os.pwrite(new, block, start)
    os.ftruncate(new, size)


def save_aside(upper: Path, paths: Sequence[str], place: Path) -> None:
    for path in paths:
        source = upper / path
        if source.is_file() and not source.is_symlink():
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb", 0) as old, target.open("wb", 0) as new:
                copy_data(old.fileno(), new.fileno())
