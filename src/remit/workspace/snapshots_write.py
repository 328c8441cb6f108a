"""Writing files back: each whole or not at all, and never through a link that somebody put in the way."""

import os
import stat
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from remit.workspace.beneath import FOLDER, FRESH, folder_of

TEMPORARY = ".remit-restore-"
EACH_SYNCED = 16
"""More files than this are brought to disk together, before any of them takes its place."""


class File(NamedTuple):
    """What is to be written: git's mode, the bytes, and permissions where they are told."""

    mode: str
    content: bytes
    permissions: int | None = None


def write_files(root: Path, files: Mapping[str, File], name: str) -> dict[str, str]:
    """Put these at their paths; what could not be, with the reason.

    `name` marks the temporary files beside them, for who comes after a crash.
    """
    failed: dict[str, str] = {}
    waiting: list[tuple[str, str]] = []
    together = len(files) > EACH_SYNCED
    for number, (path, file) in enumerate(files.items()):
        fresh = f"{TEMPORARY}{name}-{number}"
        try:
            with folder_of(root, path, make=True) as folder, gone_if_it_fails(fresh, folder):
                put(folder, fresh, file, permissions(folder, path), sync=not together)
            waiting.append((path, fresh))
        except OSError as error:
            failed[path] = error.strerror or str(error)
    if together:
        os.sync()
    for path, fresh in waiting:
        try:
            move(root, path, fresh)
        except OSError as error:
            failed[path] = error.strerror or str(error)
    return failed


@contextmanager
def gone_if_it_fails(name: str, folder: int) -> Generator[None]:
    """Half a file is no use, and takes the room that others need."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def permissions(folder: int, path: str) -> int | None:
    """The permissions of the file that stands there; None where none does."""
    try:
        found = os.stat(path.rpartition("/")[2], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None


def put(folder: int, name: str, file: File, known: int | None, *, sync: bool) -> None:
    """Write one file, or link, under a fresh name in that folder. Raises OSError.

    `known` are the permissions of the file whose place it takes; they stay where none are told.
    """
    if file.mode == "120000":
        os.symlink(file.content, name, dir_fd=folder)
        return
    runs = file.mode == "100755"
    descriptor = os.open(name, FRESH, 0o777 if runs else 0o666, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as out:
        if file.permissions is not None:
            os.fchmod(descriptor, file.permissions)
        elif known is not None:
            os.fchmod(descriptor, known | ((known & 0o444) >> 2) if runs else known & ~0o111)
        out.write(file.content)
        out.flush()
        if sync:
            os.fsync(descriptor)


def move(root: Path, path: str, fresh: str) -> None:
    """Let the fresh file take its place. Raises OSError, and the fresh one is gone."""
    name = path.rpartition("/")[2]
    with folder_of(root, path, make=False) as folder:
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                remove_empty(name, folder)
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)
            raise


def remove_empty(name: str, folder: int) -> None:
    """Remove a folder that holds only folders. Raises OSError where there is none, or a file lies in it."""
    here = os.open(name, FOLDER, dir_fd=folder)
    try:
        for below in os.listdir(here):  # noqa: PTH208
            remove_empty(below, here)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=folder)


def delete_file(root: Path, path: str) -> str | None:
    """Delete a file, and the folders that it leaves empty; the reason where it cannot be."""
    try:
        with folder_of(root, path, make=False) as folder:
            os.unlink(path.rpartition("/")[2], dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error.strerror or str(error)
    above = path.rpartition("/")[0]
    while above:
        try:
            with folder_of(root, above, make=False) as folder:
                os.rmdir(above.rpartition("/")[2], dir_fd=folder)
        except OSError:
            return None
        above = above.rpartition("/")[0]
    return None


def sweep(root: Path, folders: Iterable[str], name: str) -> None:
    """Take away the temporary files that a restore of that name left in these folders when it was killed."""
    for path in folders:
        inside = f"{path}/x" if path else "x"
        with suppress(FileNotFoundError, NotADirectoryError), folder_of(root, inside, make=False) as here:
            for found in os.listdir(here):  # noqa: PTH208
                if found.startswith(f"{TEMPORARY}{name}-"):
                    os.unlink(found, dir_fd=here)
