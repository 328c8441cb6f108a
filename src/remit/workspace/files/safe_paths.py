"""Folders below a root, opened so that no link leads out of the root.

Between a look at a path and a write to it, an agent can put a link in place of a folder. A check before the write is
therefore useless: the kernel opens the folder under the condition that the folder lies below the root (`openat2`), and
each later step is relative to the open descriptor. If the kernel lacks the call, folders are opened step by step with
links refused.

Not covered: mounts, and a folder that is moved out of the root while open.

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
"""For folders on the way: a process may pass through folders that it may not list."""

NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

OPENAT2_NUMBER = 437
OPENAT2_MACHINES = frozenset({"x86_64", "aarch64"})
AT_FDCWD = -100
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
MAX_RACE_RETRIES = 64
"""Attempts while the kernel reports that names moved during the lookup."""

FolderOpener: TypeAlias = Callable[[int, str, int], int]
"""Opens a folder: descriptor to start from, path, RESOLVE_* flags. Raises OSError."""


@cache
def load_openat2() -> FolderOpener | None:
    """Return the system call; None on other systems, kernels before 5.6, and in containers that forbid the call."""
    if not sys.platform.startswith("linux") or os.uname().machine not in OPENAT2_MACHINES:
        return None
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def open_folder(start: int, path: str, resolve: int) -> int:
        how = struct.pack("=QQQ", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, resolve)
        name = os.fsencode(path)
        for _ in range(MAX_RACE_RETRIES):
            result = syscall(ctypes.c_long(OPENAT2_NUMBER), ctypes.c_long(start), name, how, ctypes.c_size_t(len(how)))
            if result >= 0:
                return int(result)
            if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    try:
        os.close(open_folder(AT_FDCWD, "/", 0))
    except OSError:
        return None
    return open_folder


@contextmanager
def open_parent_folder(root: Path, path: str, *, create: bool, follow_links: bool = False) -> Generator[int]:
    """Yield a descriptor of the folder that holds `path`, relative to `root`; `root` contains no link.

    Links are refused, or with `follow_links` followed as long as they stay below `root`. `create` makes missing
    folders. Raises OSError: NotADirectoryError for a link in the way, EXDEV for a link that leads out.
    """
    parts = path.split("/")
    if "\0" in path or ".." in parts or path.startswith("/"):
        raise OSError(errno.EINVAL, f"{path!r} is no clean path below {str(root)!r}")
    folder = "/".join(parts[:-1])
    descriptor = open_below_root(root, folder, create=create, follow_links=follow_links, kernel=load_openat2())
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_below_root(root: Path, folder: str, *, create: bool, follow_links: bool, kernel: FolderOpener | None) -> int:
    """Return a descriptor of a folder below the root; "" is the root. Raises OSError."""
    top = -1
    try:
        if kernel is None:
            top = os.open(root, PASS_THROUGH_FLAGS)
            inside = resolve_links_below(root, folder) if follow_links else folder
            return walk_without_links(top, inside, create=create)
        top = kernel(AT_FDCWD, str(root), RESOLVE_NO_SYMLINKS)
        return resolve_with_kernel(kernel, top, folder, create=create, follow_links=follow_links)
    except OSError as error:
        if kernel is None:
            raise
        raise explain_link_error(error, root, folder) from error
    finally:
        if top >= 0:
            os.close(top)


def resolve_with_kernel(kernel: FolderOpener, top: int, folder: str, *, create: bool, follow_links: bool) -> int:
    """Open the folder by `openat2`. Raises OSError."""
    flags = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (0 if follow_links else RESOLVE_NO_SYMLINKS)
    try:
        return kernel(top, folder or ".", flags)
    except OSError as error:
        is_missing = create and error.errno == errno.ENOENT
        if not is_missing and error.errno != errno.ENAMETOOLONG:
            raise
    if not follow_links:
        return walk_without_links(top, folder, create=create)
    above, _, name = folder.rpartition("/")
    parent = resolve_with_kernel(kernel, top, above, create=create, follow_links=follow_links)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    finally:
        os.close(parent)
    return kernel(top, folder, flags)


def walk_without_links(top: int, folder: str, *, create: bool) -> int:
    """Open the folder step by step, refusing links. Raises OSError."""
    current = os.dup(top)
    try:
        for part in folder.split("/") if folder else ():
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
            below = os.open(part, PASS_THROUGH_FLAGS, dir_fd=current)
            os.close(current)
            current = below
        return os.open(".", FOLDER_FLAGS, dir_fd=current)
    finally:
        os.close(current)


def resolve_links_below(root: Path, folder: str) -> str:
    """Return the folder relative to the root, with links followed. Raises OSError if they lead out.

    A link that appears later is refused by the walk.
    """
    top = os.path.realpath(root)
    real = os.path.realpath(os.path.join(top, folder))  # noqa: PTH118
    if real != top and not real.startswith(f"{top.rstrip('/')}/"):
        raise explain_link_error(OSError(errno.EXDEV, ""), root, folder)
    return "" if real == top else real[len(top.rstrip("/")) + 1 :]


def explain_link_error(error: OSError, root: Path, folder: str) -> OSError:
    """Return the error with a readable message if a link is at fault."""
    if error.errno == errno.EXDEV:
        return OSError(errno.EXDEV, f"a link in {folder!r} leads out of {str(root)!r}; put a folder there")
    if error.errno == errno.ELOOP:
        return NotADirectoryError(errno.ENOTDIR, f"a link stands in the way to {folder!r} in {str(root)!r}")
    return error


def path_below_root(root: Path, path: Path) -> str:
    """Return the path relative to the root. Raises OSError for a path elsewhere."""
    if not path.is_relative_to(root):
        raise OSError(errno.EXDEV, f"{str(path)!r} lies outside of {str(root)!r}; Remit writes nothing there")
    return str(path.relative_to(root))
