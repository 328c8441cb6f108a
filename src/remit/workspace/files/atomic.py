"""One file, taken in or put down whole: never through a link, never without end.

Writing files back: each whole or not at all, and never through a link that somebody put in the way.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from remit.workspace.files.safe_paths import FOLDER_FLAGS, NEW_FILE_FLAGS, open_parent_folder, write_into_folder


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file. Raises OSError for anything else: a link, a folder, a FIFO, too large.

    A link is refused because its target may lie where an agent can write.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link; put the file itself there", str(path)) from error
        raise
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with open(handle, "rb") as file:  # noqa: PTH123 - there is no Path for an open descriptor
        content = b"" if state.st_size > max_bytes else file.read(max_bytes + 1)
    if state.st_size > max_bytes or len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes} bytes ({max_bytes >> 20} MiB), which is the limit")
    return content


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Put `content` at `path` whole or not at all, durably. `mode` is for a new file, less the umask.

    For Remit's own folders. What lies in a workspace is written by `write_below`: an agent may put links there.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_into_folder(folder, path.name, content, mode)
    finally:
        os.close(folder)


TEMPORARY_PREFIX = ".remit-restore-"
MAX_SINGLE_SYNCS = 16
"""More files than this are brought to disk together, before any of them takes its place."""


class FileToWrite(NamedTuple):
    """What is to be written: git's mode, the bytes, and permissions where they are told."""

    mode: str
    content: bytes
    permissions: int | None = None


def write_files(root: Path, files: Mapping[str, FileToWrite], name: str) -> dict[str, str]:
    """Put these at their paths; what could not be, with the reason.

    `name` marks the temporary files beside them, for who comes after a crash.
    """
    failed: dict[str, str] = {}
    waiting: list[tuple[str, str]] = []
    together = len(files) > MAX_SINGLE_SYNCS
    for number, (path, file) in enumerate(files.items()):
        fresh = f"{TEMPORARY_PREFIX}{name}-{number}"
        try:
            with open_parent_folder(root, path, make=True) as folder, remove_on_failure(fresh, folder):
                write_temporary_file(folder, fresh, file, read_permissions(folder, path), sync=not together)
            waiting.append((path, fresh))
        except OSError as error:
            failed[path] = error.strerror or str(error)
    if together:
        os.sync()
    for path, fresh in waiting:
        try:
            move_into_place(root, path, fresh)
        except OSError as error:
            failed[path] = error.strerror or str(error)
    return failed


@contextmanager
def remove_on_failure(name: str, folder: int) -> Generator[None]:
    """Half a file is no use, and takes the room that others need."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def read_permissions(folder: int, path: str) -> int | None:
    """The permissions of the file that stands there; None where none does."""
    try:
        found = os.stat(path.rpartition("/")[2], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None


def write_temporary_file(folder: int, name: str, file: FileToWrite, known: int | None, *, sync: bool) -> None:
    """Write one file, or link, under a fresh name in that folder. Raises OSError.

    `known` are the permissions of the file whose place it takes; they stay where none are told.
    """
    if file.mode == "120000":
        os.symlink(file.content, name, dir_fd=folder)
        return
    runs = file.mode == "100755"
    descriptor = os.open(name, NEW_FILE_FLAGS, 0o777 if runs else 0o666, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as out:
        if file.permissions is not None:
            os.fchmod(descriptor, file.permissions)
        elif known is not None:
            os.fchmod(descriptor, known | ((known & 0o444) >> 2) if runs else known & ~0o111)
        out.write(file.content)
        out.flush()
        if sync:
            os.fsync(descriptor)


def move_into_place(root: Path, path: str, fresh: str) -> None:
    """Let the fresh file take its place. Raises OSError, and the fresh one is gone."""
    name = path.rpartition("/")[2]
    with open_parent_folder(root, path, make=False) as folder:
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                remove_empty_folders(name, folder)
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)
            raise


def remove_empty_folders(name: str, folder: int) -> None:
    """Remove a folder that holds only folders. Raises OSError where there is none, or a file lies in it."""
    here = os.open(name, FOLDER_FLAGS, dir_fd=folder)
    try:
        for below in os.listdir(here):  # noqa: PTH208
            remove_empty_folders(below, here)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=folder)


def delete_file(root: Path, path: str) -> str | None:
    """Delete a file, and the folders that it leaves empty; the reason where it cannot be."""
    try:
        with open_parent_folder(root, path, make=False) as folder:
            os.unlink(path.rpartition("/")[2], dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error.strerror or str(error)
    above = path.rpartition("/")[0]
    while above:
        try:
            with open_parent_folder(root, above, make=False) as folder:
                os.rmdir(above.rpartition("/")[2], dir_fd=folder)
        except OSError:
            return None
        above = above.rpartition("/")[0]
    return None


def remove_temporary_files(root: Path, folders: Iterable[str], name: str) -> None:
    """Take away the temporary files that a restore of that name left in these folders when it was killed."""
    for path in folders:
        inside = f"{path}/x" if path else "x"
        with suppress(FileNotFoundError, NotADirectoryError), open_parent_folder(root, inside, make=False) as here:
            for found in os.listdir(here):  # noqa: PTH208
                if found.startswith(f"{TEMPORARY_PREFIX}{name}-"):
                    os.unlink(found, dir_fd=here)
