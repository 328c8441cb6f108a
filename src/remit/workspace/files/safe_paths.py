"""Folders below a root, opened so that no link leads out of it, and files written into them.

Between a look at a path and a write to it an agent can put a link where a folder was. So nothing here is looked at
first: the kernel opens the folder under the condition that it lies below the root (`openat2`), and all else happens
relative to what it opened. Where the kernel has no such call, the folders are opened one by one, links refused.

What this does not see: a folder that is moved out of the root while it is open, and mounts.

Source: openat2(2) and include/uapi/linux/openat2.h of Linux 6.18, read 2026-11.
"""

import errno
import os
import struct
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PASS_THROUGH_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""For folders on the way: one may go through where one may not list."""

NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

OPENAT2_NUMBER = 437
OPENAT2_MACHINES = frozenset({"x86_64", "aarch64"})
AT_FDCWD = -100
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
MAX_RACE_RETRIES = 64
"""Times that the kernel may say that names moved under it."""

FolderOpener: TypeAlias = Callable[[int, str, int], int]
"""Opens a folder: where from, its path, and how links are to be taken. Raises OSError."""


@cache
def load_openat2() -> FolderOpener | None:
    """The system call; None on other systems, kernels before 5.6, and in containers that forbid it."""
    if not sys.platform.startswith("linux") or os.uname().machine not in OPENAT2_MACHINES:
        return None
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def open_folder(here: int, path: str, resolve: int) -> int:
        how = struct.pack("=QQQ", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, resolve)
        name = os.fsencode(path)
        for _ in range(MAX_RACE_RETRIES):
            found = syscall(ctypes.c_long(OPENAT2_NUMBER), ctypes.c_long(here), name, how, ctypes.c_size_t(len(how)))
            if found >= 0:
                return int(found)
            if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    try:
        os.close(open_folder(AT_FDCWD, "/", 0))
    except OSError:
        return None
    return open_folder


@contextmanager
def open_parent_folder(root: Path, path: str, *, make: bool, links: bool = False) -> Generator[int]:
    """A descriptor of the folder that holds `path`, which is relative to `root`; `root` has no links in it.

    No link is followed, or with `links` those that stay below `root`. `make` makes the folders that are missing.
    Raises OSError: NotADirectoryError where a link stands in the way, EXDEV where it leads out.
    """
    parts = path.split("/")
    if "\0" in path or ".." in parts or path.startswith("/"):
        raise OSError(errno.EINVAL, f"{path!r} is no clean path below {str(root)!r}")
    descriptor = open_below_root(root, "/".join(parts[:-1]), make=make, links=links, kernel=load_openat2())
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_below_root(root: Path, folder: str, *, make: bool, links: bool, kernel: FolderOpener | None) -> int:
    """A descriptor of a folder below the root; "" is the root itself. Raises OSError."""
    if kernel is None:
        top = os.open(root, PASS_THROUGH_FLAGS)
        inside = follow_links_below(root, folder) if links else folder
        return run_and_close(top, lambda: walk_without_links(top, inside, make=make))
    try:
        top = kernel(AT_FDCWD, str(root), RESOLVE_NO_SYMLINKS)
        return run_and_close(top, lambda: resolve_with_kernel(kernel, top, folder, make=make, links=links))
    except OSError as error:
        raise explain_link_error(error, root, folder) from error


def run_and_close(top: int, work: Callable[[], int]) -> int:
    """What the work returns; the descriptor is closed."""
    try:
        return work()
    finally:
        os.close(top)


def resolve_with_kernel(kernel: FolderOpener, top: int, folder: str, *, make: bool, links: bool) -> int:
    """The folder, as the kernel finds it. Raises OSError."""
    how = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (0 if links else RESOLVE_NO_SYMLINKS)
    try:
        return kernel(top, folder or ".", how)
    except OSError as error:
        missing = make and error.errno == errno.ENOENT
        if not missing and error.errno != errno.ENAMETOOLONG:
            raise
    if not links:
        return walk_without_links(top, folder, make=make)
    above, _, name = folder.rpartition("/")
    here = resolve_with_kernel(kernel, top, above, make=make, links=links)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=here)
    finally:
        os.close(here)
    return kernel(top, folder, how)


def walk_without_links(top: int, folder: str, *, make: bool) -> int:
    """The folder, one step after the other, no link followed. Raises OSError."""
    here = os.dup(top)
    try:
        for part in folder.split("/") if folder else ():
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            below = os.open(part, PASS_THROUGH_FLAGS, dir_fd=here)
            os.close(here)
            here = below
        return os.open(".", FOLDER_FLAGS, dir_fd=here)
    finally:
        os.close(here)


def follow_links_below(root: Path, folder: str) -> str:
    """The folder with its links followed, from the root. Raises OSError where they lead out of it.

    A link that is put there later is refused by the walk.
    """
    top = os.path.realpath(root)
    real = os.path.realpath(os.path.join(top, folder))  # noqa: PTH118
    if real != top and not real.startswith(f"{top.rstrip('/')}/"):
        raise explain_link_error(OSError(errno.EXDEV, ""), root, folder)
    return "" if real == top else real[len(top.rstrip("/")) + 1 :]


def explain_link_error(error: OSError, root: Path, folder: str) -> OSError:
    """The error, in words where a link is at fault."""
    if error.errno == errno.EXDEV:
        return OSError(errno.EXDEV, f"a link in {folder!r} leads out of {str(root)!r}; put a folder there")
    if error.errno == errno.ELOOP:
        return NotADirectoryError(errno.ENOTDIR, f"a link stands in the way to {folder!r} in {str(root)!r}")
    return error


def write_below(
    root: Path, path: Path, content: bytes, mode: int = 0o666, *, permissions: int | None = None, links: bool = True
) -> None:
    """Put `content` at `path`, which lies below `root`, whole or not at all, durably; folders on the way are made.

    A link at `path` itself is replaced; one on the way may lead wherever it stays below `root`, unless `links` is off.
    `mode` is for a new file, less the umask; `permissions` are given to it as they are. Raises OSError.
    """
    inside = path_below_root(root, path)
    with open_parent_folder(root, inside, make=True, links=links) as folder:
        write_into_folder(folder, path.name, content, mode, permissions)


def remove_below(root: Path, path: Path, *, links: bool = True) -> None:
    """Remove a file below `root`, if it is there. `links` as for `write_below`. Raises OSError."""
    inside = path_below_root(root, path)
    with suppress(FileNotFoundError), open_parent_folder(root, inside, make=False, links=links) as folder:
        os.unlink(path.name, dir_fd=folder)


def path_below_root(root: Path, path: Path) -> str:
    """The path from the root. Raises OSError where it lies elsewhere."""
    if not path.is_relative_to(root):
        raise OSError(errno.EXDEV, f"{str(path)!r} lies outside of {str(root)!r}; Remit writes nothing there")
    return str(path.relative_to(root))


def write_into_folder(folder: int, name: str, content: bytes, mode: int, permissions: int | None = None) -> None:
    """Put a file into an open folder, whole or not at all, durably. Raises OSError."""
    beside = f".{name}.{os.urandom(6).hex()}.tmp"
    try:
        with os.fdopen(os.open(beside, NEW_FILE_FLAGS, mode, dir_fd=folder), "wb") as file:
            if permissions is not None:
                os.fchmod(file.fileno(), permissions)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
