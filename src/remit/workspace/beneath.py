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

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PASSED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""For folders on the way: one may go through where one may not list."""

FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

OPENAT2 = 437
MACHINES = frozenset({"x86_64", "aarch64"})
HERE = -100
NO_MAGIC_LINKS, NO_LINKS, BENEATH = 0x02, 0x04, 0x08
TRIES = 64
"""Times that the kernel may say that names moved under it."""

Open: TypeAlias = Callable[[int, str, int], int]
"""Opens a folder: where from, its path, and how links are to be taken. Raises OSError."""


@cache
def openat2() -> Open | None:
    """The system call; None on other systems, kernels before 5.6, and in containers that forbid it."""
    if not sys.platform.startswith("linux") or os.uname().machine not in MACHINES:
        return None
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def opened(here: int, path: str, resolve: int) -> int:
        how = struct.pack("=QQQ", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, resolve)
        name = os.fsencode(path)
        for _ in range(TRIES):
            found = syscall(ctypes.c_long(OPENAT2), ctypes.c_long(here), name, how, ctypes.c_size_t(len(how)))
            if found >= 0:
                return int(found)
            if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    try:
        os.close(opened(HERE, "/", 0))
    except OSError:
        return None
    return opened


@contextmanager
def folder_of(root: Path, path: str, *, make: bool, links: bool = False) -> Generator[int]:
    """A descriptor of the folder that holds `path`, which is relative to `root`; `root` has no links in it.

    No link is followed, or with `links` those that stay below `root`. `make` makes the folders that are missing.
    Raises OSError: NotADirectoryError where a link stands in the way, EXDEV where it leads out.
    """
    parts = path.split("/")
    if "\0" in path or ".." in parts or path.startswith("/"):
        raise OSError(errno.EINVAL, f"{path!r} is no clean path below {str(root)!r}")
    descriptor = opened(root, "/".join(parts[:-1]), make=make, links=links, kernel=openat2())
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def opened(root: Path, folder: str, *, make: bool, links: bool, kernel: Open | None) -> int:
    """A descriptor of a folder below the root; "" is the root itself. Raises OSError."""
    if kernel is None:
        top = os.open(root, PASSED)
        inside = followed(root, folder) if links else folder
        return closing(top, lambda: walked(top, inside, make=make))
    try:
        top = kernel(HERE, str(root), NO_LINKS)
        return closing(top, lambda: resolved(kernel, top, folder, make=make, links=links))
    except OSError as error:
        raise explained(error, root, folder) from error


def closing(top: int, work: Callable[[], int]) -> int:
    """What the work returns; the descriptor is closed."""
    try:
        return work()
    finally:
        os.close(top)


def resolved(kernel: Open, top: int, folder: str, *, make: bool, links: bool) -> int:
    """The folder, as the kernel finds it. Raises OSError."""
    how = BENEATH | NO_MAGIC_LINKS | (0 if links else NO_LINKS)
    try:
        return kernel(top, folder or ".", how)
    except OSError as error:
        missing = make and error.errno == errno.ENOENT
        if not missing and error.errno != errno.ENAMETOOLONG:
            raise
    if not links:
        return walked(top, folder, make=make)
    above, _, name = folder.rpartition("/")
    here = resolved(kernel, top, above, make=make, links=links)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=here)
    finally:
        os.close(here)
    return kernel(top, folder, how)


def walked(top: int, folder: str, *, make: bool) -> int:
    """The folder, one step after the other, no link followed. Raises OSError."""
    here = os.dup(top)
    try:
        for part in folder.split("/") if folder else ():
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            below = os.open(part, PASSED, dir_fd=here)
            os.close(here)
            here = below
        return os.open(".", FOLDER, dir_fd=here)
    finally:
        os.close(here)


def followed(root: Path, folder: str) -> str:
    """The folder with its links followed, from the root. Raises OSError where they lead out of it.

    A link that is put there later is refused by the walk.
    """
    top = os.path.realpath(root)
    real = os.path.realpath(os.path.join(top, folder))  # noqa: PTH118
    if real != top and not real.startswith(f"{top.rstrip('/')}/"):
        raise explained(OSError(errno.EXDEV, ""), root, folder)
    return "" if real == top else real[len(top.rstrip("/")) + 1 :]


def explained(error: OSError, root: Path, folder: str) -> OSError:
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
    inside = inside_of(root, path)
    with folder_of(root, inside, make=True, links=links) as folder:
        put_whole(folder, path.name, content, mode, permissions)


def remove_below(root: Path, path: Path, *, links: bool = True) -> None:
    """Remove a file below `root`, if it is there. `links` as for `write_below`. Raises OSError."""
    inside = inside_of(root, path)
    with suppress(FileNotFoundError), folder_of(root, inside, make=False, links=links) as folder:
        os.unlink(path.name, dir_fd=folder)


def inside_of(root: Path, path: Path) -> str:
    """The path from the root. Raises OSError where it lies elsewhere."""
    if not path.is_relative_to(root):
        raise OSError(errno.EXDEV, f"{str(path)!r} lies outside of {str(root)!r}; Remit writes nothing there")
    return str(path.relative_to(root))


def put_whole(folder: int, name: str, content: bytes, mode: int, permissions: int | None = None) -> None:
    """Put a file into an open folder, whole or not at all, durably. Raises OSError."""
    beside = f".{name}.{os.urandom(6).hex()}.tmp"
    try:
        with os.fdopen(os.open(beside, FRESH, mode, dir_fd=folder), "wb") as file:
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
