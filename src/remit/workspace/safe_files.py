"""Safe reading, writing and locking of single files.

Writes are atomic: a file appears at its path complete or not at all, and is on disk when the call returns. No link
leads a write out of its root. Between a look at a path and a write, an agent can put a link in place of a folder, and a
check before the write is useless: the kernel opens the folder on condition of lying below the root (`openat2`), and
each later step is relative to the open descriptor. If the kernel lacks the call, folders are opened step by step with
links refused. Not covered: mounts, and a folder moved out of the root while open.

Reads take files with unknown content: FIFOs are not opened, devices not read, huge files not loaded. Locks have a time
limit, since any process of the same user may hold a lock for any time.

Source: openat2(2) and include/uapi/linux/openat2.h of Linux 6.18, read 2026-11.
"""

import errno
import fcntl
import hashlib
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from remit.core.diff.contents import ContentVersion, count_lines, hash_git_blob, sha256

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PASS_THROUGH_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""For folders on the way: a process may pass through folders that it may not list."""

NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

TEMPORARY_PREFIX = ".remit-restore-"

MAX_SINGLE_SYNCS = 16  # above this count, one `sync` brings the temporary files to disk before the first rename
LOCK_TIMEOUT_S = 10.0

MAX_KEPT_BYTES = 32 * 1024 * 1024  # larger contents are hashed only: `restore` and `blame` know them by hash
BLOCK_BYTES = 1024 * 1024

READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A link or a FIFO that appeared meanwhile is neither followed nor waited for."""

OPENAT2_NUMBER = 437  # on x86_64 and aarch64
AT_FDCWD = -100
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
MAX_RACE_RETRIES = 64  # attempts while the kernel reports that names moved during the lookup
FolderOpener: TypeAlias = Callable[[int, str, int], int]
"""Opens a folder: descriptor to start from, path, RESOLVE_* flags. Raises OSError."""


@cache
def load_openat2() -> FolderOpener | None:
    """Return the system call; None on other systems, kernels before 5.6, and in containers that forbid the call."""
    if not sys.platform.startswith("linux") or os.uname().machine not in ("x86_64", "aarch64"):
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
    """Yield a descriptor of the folder that holds `path`, relative to `root`; `root` contains no link. Links are
    refused, or with `follow_links` followed as long as they stay below `root`. `create` makes missing folders. Raises
    OSError: NotADirectoryError for a link in the way, EXDEV for a link that leads out.
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
    """Return the folder relative to the root, with links followed. Raises OSError if they lead out. A link that appears
    later is refused by the walk.
    """
    top = os.path.realpath(root)
    real = os.path.realpath(os.path.join(top, folder))  # noqa: PTH118
    if real != top and not real.startswith(f"{top.rstrip('/')}/"):
        raise explain_link_error(OSError(errno.EXDEV, ""), root, folder)
    return "" if real == top else real[len(top.rstrip("/")) + 1 :]


def explain_link_error(error: OSError, root: Path, folder: str) -> OSError:
    if error.errno == errno.EXDEV:
        return OSError(errno.EXDEV, f"a link in {folder!r} leads out of {str(root)!r}; put a folder there")
    if error.errno == errno.ELOOP:
        return NotADirectoryError(errno.ENOTDIR, f"a link stands in the way to {folder!r} in {str(root)!r}")
    return error


# -- atomic writes -------------------------------------------------------------------------------------------


def write_atomically(path: Path, content: bytes, mode: int = 0o666, *, durable: bool = True) -> None:
    """Write `content` to `path` atomically. `mode` applies to a new file, less the umask. Raises OSError. For Remit's
    own folders. Files in a workspace are written by `write_below`, since agents may put links there. Without `durable`,
    the content may be lost in a power failure, but is never incomplete after a crash of the process.
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
    token: str = "",
) -> None:
    """Write `content` to `path` below `root` atomically and durably, creating folders on the way. A link at `path` is
    replaced. A link on the way may lead anywhere below `root`, unless `follow_links` is off. `mode` applies to a new
    file, less the umask; `permissions` are set exactly. `token` names the temporary file, so that the writer's next
    attempt finds what a killed one left. Raises OSError.
    """
    inside = _path_below_root(root, path)
    with open_parent_folder(root, inside, create=True, follow_links=follow_links) as folder:
        write_into_folder(folder, path.name, content, mode, permissions, token=token)


def remove_below(root: Path, path: Path, *, follow_links: bool = True) -> None:
    """Remove a file below `root` if present. `follow_links` as for `write_below`. Raises OSError."""
    opened = open_parent_folder(root, _path_below_root(root, path), create=False, follow_links=follow_links)
    with suppress(FileNotFoundError), opened as folder:
        os.unlink(path.name, dir_fd=folder)


def _path_below_root(root: Path, path: Path) -> str:
    if not path.is_relative_to(root):
        raise OSError(errno.EXDEV, f"{str(path)!r} lies outside of {str(root)!r}; Remit writes nothing there")
    return str(path.relative_to(root))


def write_into_folder(
    folder: int,
    name: str,
    content: bytes,
    mode: int,
    permissions: int | None = None,
    *,
    durable: bool = True,
    token: str = "",
) -> None:
    """Write a file into an open folder atomically. Raises OSError."""
    with replaced_file(folder, name, token) as fresh:
        _write_new_file(folder, fresh, content, mode, permissions, sync=durable)


def _write_new_file(folder: int, name: str, content: bytes, mode: int, permissions: int | None, *, sync: bool) -> None:
    with os.fdopen(os.open(name, NEW_FILE_FLAGS, mode, dir_fd=folder), "wb") as file:
        if permissions is not None:
            os.fchmod(file.fileno(), permissions)
        file.write(content)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def temporary_name(name: str, token: str) -> str:
    return f".{name[:40]}.{token}.tmp"  # shortened: a name has at most 255 bytes


@contextmanager
def replaced_file(folder: int, name: str, token: str = "") -> Generator[str]:
    """Yield a temporary name in the open folder; rename the new file to `name` afterwards, or remove it on failure.
    With a `token`, a file that a killed writer left under the same name is removed first.
    """
    fresh = temporary_name(name, token or os.urandom(6).hex())
    if token:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
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
    """Write several files atomically; return the reason by path for each failure. `name` marks the temporary files, so
    that a later run can remove them after a crash.
    """
    failed: dict[str, str] = {}
    written: list[tuple[str, str]] = []
    sync_each = len(files) <= MAX_SINGLE_SYNCS
    for number, (path, file) in enumerate(files.items()):
        fresh = f"{TEMPORARY_PREFIX}{name}-{number}"
        try:
            with open_parent_folder(root, path, create=True) as folder:
                _write_temporary_file(folder, fresh, path.rpartition("/")[2], file, sync=sync_each)
            written.append((path, fresh))
        except OSError as error:
            failed[path] = error.strerror or str(error)
    if not sync_each:
        os.sync()
    for path, fresh in written:
        try:
            with open_parent_folder(root, path, create=False) as folder:
                _move_into_place(folder, fresh, path.rpartition("/")[2])
        except OSError as error:
            failed[path] = error.strerror or str(error)
    return failed


def _write_temporary_file(folder: int, fresh: str, name: str, file: FileToWrite, *, sync: bool) -> None:
    """Write a file or a link under a temporary name, or nothing on failure. Raises OSError. The permissions of the file
    to be replaced, `name`, are kept unless the new file states its own.
    """
    if file.mode == "120000":
        return os.symlink(file.content, fresh, dir_fd=folder)
    known: int | None = None
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        known = stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None
    is_program, permissions = file.mode == "100755", file.permissions
    if permissions is None and known is not None:
        permissions = known | ((known & 0o444) >> 2) if is_program else known & ~0o111
    try:
        _write_new_file(folder, fresh, file.content, 0o777 if is_program else 0o666, permissions, sync=sync)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=folder)
        raise
    return None


def _move_into_place(folder: int, fresh: str, name: str) -> None:
    """Rename the temporary file. Raises OSError after removing the temporary file."""
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            _remove_empty_folders(name, folder)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise


def _remove_empty_folders(name: str, folder: int) -> None:
    opened = os.open(name, FOLDER_FLAGS, dir_fd=folder)
    try:
        for below in os.listdir(opened):  # noqa: PTH208
            _remove_empty_folders(below, opened)
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
    with suppress(OSError):
        while path := path.rpartition("/")[0]:
            with open_parent_folder(root, path, create=False) as folder:
                os.rmdir(path.rpartition("/")[2], dir_fd=folder)
    return None


def remove_temporary_files(root: Path, folders: Iterable[str], name: str) -> None:
    for path in folders:
        opened = open_parent_folder(root, f"{path}/x" if path else "x", create=False)
        with suppress(FileNotFoundError, NotADirectoryError), opened as folder:
            for entry in os.listdir(folder):  # noqa: PTH208
                if entry.startswith(f"{TEMPORARY_PREFIX}{name}-"):
                    os.unlink(entry, dir_fd=folder)


# -- locks ---------------------------------------------------------------------------------------------------


class FileLocked(OSError):
    """Another process held the lock for the whole time limit."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__(f"{str(path)!r} was locked for {timeout_s:g} s: `lslocks` shows by which process")


def lock_file(descriptor: int, path: Path, *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> None:
    """Lock the open file `descriptor`; `path` names the file in the error. Raises FileLocked, OSError."""
    kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    deadline, pause_s = time.monotonic() + timeout_s, 0.0002
    while True:
        try:
            return fcntl.flock(descriptor, kind)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise FileLocked(path, timeout_s) from None
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.01)


@contextmanager
def hold_lock(path: Path, *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> Generator[None]:
    """Hold the lock of a file, created if missing, during the block. Raises FileLocked, OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock_file(descriptor, path, shared=shared, timeout_s=timeout_s)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def try_lock(path: Path) -> Generator[bool]:
    """Yield whether the lock was free; if so, hold it during the block. Raises OSError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(path, timeout_s=0))
            is_free = True
        except FileLocked:
            is_free = False
        yield is_free


# -- reading -------------------------------------------------------------------------------------------------


class ObservedFile(Struct, frozen=True):
    """A file as found on disk. `content` is None for a file above MAX_KEPT_BYTES."""

    version: ContentVersion
    content: bytes | None


def observe_file(path: Path) -> ObservedFile | None:
    """Return the file at `path`; for a link, the target's name as content. None without a file. Raises OSError for a
    file that cannot be read.
    """
    status = _lstat_file(path)
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        return observed_content(os.fsencode(path.readlink()), "120000")
    mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
    if status.st_size > MAX_KEPT_BYTES:
        return ObservedFile(hash_large_file(path, mode, status.st_size), None)
    return observed_content(read_bytes(path), mode)


def _lstat_file(path: Path) -> os.stat_result | None:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None


def observed_content(content: bytes, mode: str = "100644") -> ObservedFile:
    return ObservedFile(compute_version(content, mode), content)


def compute_version(content: bytes, mode: str = "100644") -> ContentVersion:
    return ContentVersion(sha256(content), hash_git_blob(content), count_lines(content), len(content), mode)


def read_bytes(path: Path) -> bytes:
    descriptor = os.open(path, READ_FLAGS)
    try:
        parts = list(iter(lambda: os.read(descriptor, BLOCK_BYTES), b""))
    finally:
        os.close(descriptor)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def hash_large_file(path: Path, mode: str, size: int) -> ContentVersion:
    plain, named, newlines, last = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False), 0, b"\n"
    with open(os.open(path, READ_FLAGS), "rb") as file:  # noqa: PTH123 - there is no Path for an open descriptor
        while block := file.read(BLOCK_BYTES):
            plain.update(block)
            named.update(block)
            newlines += block.count(b"\n")
            last = block[-1:]
    return ContentVersion(plain.hexdigest(), named.hexdigest(), newlines + (last != b"\n"), size, mode)


def hash_file(path: Path) -> tuple[str, int] | None:
    """Return SHA-256 and size of a regular file, or of a link's target; None for any other kind. Raises OSError."""
    status = _lstat_file(path)
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(path.readlink())
        return sha256(target), len(target)
    with open(os.open(path, READ_FLAGS), "rb") as file:  # noqa: PTH123 - there is no Path for an open descriptor
        return hashlib.file_digest(file, "sha256").hexdigest(), status.st_size


def read_tail(path: Path | str, max_bytes: int) -> bytes:
    """Return the last `max_bytes` of a regular file; empty for a missing or unreadable file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # an agent names the path: it may hold a NUL
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(descriptor, max_bytes, max(0, status.st_size - max_bytes))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a regular file. Raises OSError for a link, a folder, a FIFO, or a file that is too large.
    Links are refused because an agent may be able to write their target.
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
