"""Transfer of approved changes into the real folder: each file atomic, no link followed on the way.

No privilege is transferred: no set-user-ID, no device, no FIFO.
"""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from remit.workspace.files.atomic import replaced_file
from remit.workspace.files.safe_paths import open_parent_folder
from remit.workspace.sandbox.layer_changes import PRIVILEGE_BITS, SPECIAL_KINDS, StagedChange, read_attributes

BLOCK_BYTES = 1 << 20


class ChangeApplier:
    """A transfer from `upper` into `root`."""

    def __init__(self, upper: Path, root: Path) -> None:
        self.upper = upper
        self.root = root
        self.first_paths: dict[tuple[int, int], str] = {}
        """By inode, the path already transferred: further names become hard links."""

    def apply_changes(self, changes: Sequence[StagedChange]) -> dict[str, str]:
        """Transfer the changes; return failures with reasons."""
        failed: dict[str, str] = {}
        removed = [c for c in changes if c.kind == "gone"]
        placed = [c for c in changes if c.kind not in ("gone", "folder") and not c.only_time]
        timed = [c for c in changes if c.only_time]
        folders = [c for c in changes if c.kind == "folder"]
        for step, some in ((self.remove_path, removed), (self.make_folder, folders), (self.place_file, placed)):
            for change in some:
                try:
                    step(change)
                except OSError as error:
                    failed[change.path] = error.strerror or str(error)
        for change in timed:
            with suppress(OSError):
                self.set_time(change)
        for change in reversed(folders):
            with suppress(OSError):
                self.copy_folder_status(change.path)
        return failed

    def apply_in_order(self, changes: Sequence[StagedChange]) -> dict[str, str]:
        """Transfer the changes in order, stopping at the first failure; return the failure."""
        for change in changes:
            failed = self.apply_changes([change])
            if failed:
                return failed
        return {}

    def remove_path(self, change: StagedChange) -> None:
        """Remove a deleted path. A folder that gained entries meanwhile stays."""
        name = change.path.rpartition("/")[2]
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            open_parent_folder(self.root, change.path, create=False) as folder,
        ):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(name, dir_fd=folder)

    def make_folder(self, change: StagedChange) -> None:
        with (
            open_parent_folder(self.root, change.path, create=True) as folder,
            suppress(FileExistsError),
        ):
            os.mkdir(change.path.rpartition("/")[2], dir_fd=folder)

    def copy_folder_status(self, path: str) -> None:
        """Copy permissions and times of a folder from the sandbox; inherited privilege bits
        stay as in the real folder.
        """
        now = (self.upper / path).lstat()
        with open_parent_folder(self.root, f"{path}/x", create=False) as folder:
            os.fchmod(folder, unprivileged_mode(now.st_mode) | (os.fstat(folder).st_mode & PRIVILEGE_BITS))
            os.utime(folder, ns=(now.st_atime_ns, now.st_mtime_ns))

    def place_file(self, change: StagedChange) -> None:
        name = change.path.rpartition("/")[2]
        with (
            open_parent_folder(self.root, change.path, create=True) as folder,
            replaced_file(folder, name) as fresh,
        ):
            self.write_new_file(change, fresh, folder)

    def set_time(self, change: StagedChange) -> None:
        now = (self.upper / change.path).lstat()
        with open_parent_folder(self.root, change.path, create=False) as folder:
            name = change.path.rpartition("/")[2]
            os.utime(name, ns=(now.st_atime_ns, now.st_mtime_ns), dir_fd=folder, follow_symlinks=False)

    def write_new_file(self, change: StagedChange, fresh: str, folder: int) -> None:
        """Write the change under a temporary name. Raises OSError."""
        if change.kind in SPECIAL_KINDS:
            raise AssertionError(f"a {change.kind} is never brought over")
        source = self.upper / change.path
        now = source.lstat()
        if change.kind == "link":
            os.symlink(os.fsencode(source.readlink()), fresh, dir_fd=folder)
        elif (known := self.first_paths.get((now.st_dev, now.st_ino))) is not None:
            with open_parent_folder(self.root, known, create=False) as other:
                os.link(known.rpartition("/")[2], fresh, src_dir_fd=other, dst_dir_fd=folder, follow_symlinks=False)
        else:
            copy_file(source, fresh, folder, now)
            if now.st_nlink > 1:
                self.first_paths[(now.st_dev, now.st_ino)] = change.path


def copy_file(source: Path, fresh: str, folder: int, now: os.stat_result) -> None:
    """Copy a file with permissions, attributes and times."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with source.open("rb", 0) as old, os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder), "wb", 0) as new:
        copy_data(old.fileno(), new.fileno())
        for name, value in read_attributes(source).items():
            with suppress(OSError):
                os.setxattr(new.fileno(), name, value)
        os.fchmod(new.fileno(), unprivileged_mode(now.st_mode))
        os.utime(new.fileno(), ns=(now.st_atime_ns, now.st_mtime_ns))


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


def unprivileged_mode(mode: int) -> int:
    return stat.S_IMODE(mode) & ~PRIVILEGE_BITS


def save_aside(upper: Path, paths: Sequence[str], place: Path) -> None:
    """Copy files of the sandbox to a folder of Remit's own. Raises OSError."""
    for path in paths:
        source = upper / path
        if not source.is_file() or source.is_symlink():
            continue
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb", 0) as old, target.open("wb", 0) as new:
            copy_data(old.fileno(), new.fileno())
