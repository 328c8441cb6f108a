"""Atomic writes: a file appears at its path complete or not at all, and is on disk when the call returns."""

import os
import stat
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from remit.workspace.files.safe_paths import FOLDER_FLAGS, NEW_FILE_FLAGS, open_parent_folder, path_below_root

TEMPORARY_PREFIX = ".remit-restore-"
MAX_SINGLE_SYNCS = 16
"""Above this count, one `sync` brings the temporary files to disk before the first rename."""


# -- a single file -------------------------------------------------------------------------------------------


def write_atomically(path: Path, content: bytes, mode: int = 0o666, *, durable: bool = True) -> None:
    """Write `content` to `path` atomically. `mode` applies to a new file, less the umask. Raises OSError.

    For Remit's own folders. Files in a workspace are written by `write_below`, since agents may put links there.
    Without `durable`, the content may be lost in a power failure, but is never incomplete after a crash of the process.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_into_folder(folder, path.name, content, mode, durable=durable)
    finally:
        os.close(folder)


def create_once(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Create a file unless it exists: of concurrent callers, the first wins. Raises OSError."""
    fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        with os.fdopen(os.open(fresh, NEW_FILE_FLAGS, mode), "wb") as file:
            file.write(content)
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def write_below(
    root: Path,
    path: Path,
    content: bytes,
    mode: int = 0o666,
    *,
    permissions: int | None = None,
    follow_links: bool = True,
) -> None:
    """Write `content` to `path` below `root` atomically and durably, creating folders on the way.

    A link at `path` is replaced. A link on the way may lead anywhere below `root`, unless `follow_links` is off. `mode`
    applies to a new file, less the umask; `permissions` are set exactly. Raises OSError.
    """
    inside = path_below_root(root, path)
    with open_parent_folder(root, inside, create=True, follow_links=follow_links) as folder:
        write_into_folder(folder, path.name, content, mode, permissions)


def remove_below(root: Path, path: Path, *, follow_links: bool = True) -> None:
    """Remove a file below `root` if present. `follow_links` as for `write_below`. Raises OSError."""
    inside = path_below_root(root, path)
    with (
        suppress(FileNotFoundError),
        open_parent_folder(root, inside, create=False, follow_links=follow_links) as folder,
    ):
        os.unlink(path.name, dir_fd=folder)


def write_into_folder(
    folder: int, name: str, content: bytes, mode: int, permissions: int | None = None, *, durable: bool = True
) -> None:
    """Write a file into an open folder atomically. Raises OSError."""
    with (
        replaced_file(folder, name) as fresh,
        os.fdopen(os.open(fresh, NEW_FILE_FLAGS, mode, dir_fd=folder), "wb") as file,
    ):
        if permissions is not None:
            os.fchmod(file.fileno(), permissions)
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def replaced_file(folder: int, name: str) -> Generator[str]:
    """Yield a temporary name in the open folder; rename the new file to `name` afterwards, or remove it on failure."""
    fresh = f".{name[:40]}.{os.urandom(6).hex()}.tmp"  # shortened: a name has at most 255 bytes
    try:
        yield fresh
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise


# -- the files of a restore ----------------------------------------------------------------------------------


class FileToWrite(NamedTuple):
    """A file to write: git's mode, the bytes, and exact permissions if known."""

    mode: str
    content: bytes
    permissions: int | None = None


def write_files(root: Path, files: Mapping[str, FileToWrite], name: str) -> dict[str, str]:
    """Write several files atomically; return the reason by path for each failure.

    `name` marks the temporary files, so that a later run can remove them after a crash.
    """
    failed: dict[str, str] = {}
    written: list[tuple[str, str]] = []
    sync_each = len(files) <= MAX_SINGLE_SYNCS
    for number, (path, file) in enumerate(files.items()):
        fresh = f"{TEMPORARY_PREFIX}{name}-{number}"
        try:
            with open_parent_folder(root, path, create=True) as folder:
                write_temporary_file(folder, fresh, file, read_permissions(folder, path), sync=sync_each)
            written.append((path, fresh))
        except OSError as error:
            failed[path] = error.strerror or str(error)
    if not sync_each:
        os.sync()
    for path, fresh in written:
        try:
            move_into_place(root, path, fresh)
        except OSError as error:
            failed[path] = error.strerror or str(error)
    return failed


def read_permissions(folder: int, path: str) -> int | None:
    """Return the permissions of the regular file at the path; None without a file."""
    try:
        status = os.stat(path.rpartition("/")[2], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def write_temporary_file(folder: int, name: str, file: FileToWrite, known: int | None, *, sync: bool) -> None:
    """Write a file or a link under a temporary name, or nothing on failure. Raises OSError.

    `known` are the permissions of the file to be replaced; they are kept unless the new file states its own.
    """
    try:
        if file.mode == "120000":
            os.symlink(file.content, name, dir_fd=folder)
            return
        is_program = file.mode == "100755"
        descriptor = os.open(name, NEW_FILE_FLAGS, 0o777 if is_program else 0o666, dir_fd=folder)
        with os.fdopen(descriptor, "wb") as out:
            if file.permissions is not None:
                os.fchmod(descriptor, file.permissions)
            elif known is not None:
                os.fchmod(descriptor, known | ((known & 0o444) >> 2) if is_program else known & ~0o111)
            out.write(file.content)
            out.flush()
            if sync:
                os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def move_into_place(root: Path, path: str, fresh: str) -> None:
    """Rename the temporary file to its path. Raises OSError after removing the temporary file."""
    name = path.rpartition("/")[2]
    with open_parent_folder(root, path, create=False) as folder:
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                remove_empty_folders(name, folder)
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)
            raise


def remove_empty_folders(name: str, folder: int) -> None:
    """Remove a folder that holds only folders. Raises OSError if the folder is missing or holds a file."""
    opened = os.open(name, FOLDER_FLAGS, dir_fd=folder)
    try:
        for below in os.listdir(opened):  # noqa: PTH208
            remove_empty_folders(below, opened)
    finally:
        os.close(opened)
    os.rmdir(name, dir_fd=folder)


def delete_file(root: Path, path: str) -> str | None:
    """Delete a file and the folders left empty; return the reason for a failure."""
    try:
        with open_parent_folder(root, path, create=False) as folder:
            os.unlink(path.rpartition("/")[2], dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error.strerror or str(error)
    above = path.rpartition("/")[0]
    while above:
        try:
            with open_parent_folder(root, above, create=False) as folder:
                os.rmdir(above.rpartition("/")[2], dir_fd=folder)
        except OSError:
            return None
        above = above.rpartition("/")[0]
    return None


def remove_temporary_files(root: Path, folders: Iterable[str], name: str) -> None:
    """Remove temporary files that a killed restore of the given name left in these folders."""
    for path in folders:
        inside = f"{path}/x" if path else "x"
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            open_parent_folder(root, inside, create=False) as folder,
        ):
            for entry in os.listdir(folder):  # noqa: PTH208
                if entry.startswith(f"{TEMPORARY_PREFIX}{name}-"):
                    os.unlink(entry, dir_fd=folder)
