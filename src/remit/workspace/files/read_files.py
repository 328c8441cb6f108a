"""Reading of files with unknown content: FIFOs are not opened, devices not read, huge files not loaded."""

import errno
import hashlib
import os
import stat
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import ContentVersion, count_lines, hash_git_blob, sha256

MAX_KEPT_BYTES = 32 * 1024 * 1024
"""Larger contents are hashed only: `restore` and `blame` know them by hash."""

BLOCK_BYTES = 1024 * 1024

READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A link or a FIFO that appeared meanwhile is neither followed nor waited for."""


class ObservedFile(Struct, frozen=True):
    """A file as found on disk. `content` is None for a file above MAX_KEPT_BYTES."""

    version: ContentVersion
    content: bytes | None


def observe_file(path: Path) -> ObservedFile | None:
    """Return the file at `path`; for a link, the target's name as content. None without a file.

    Raises OSError for a file that cannot be read.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        return observed_content(os.fsencode(path.readlink()), "120000")
    if not stat.S_ISREG(status.st_mode):
        return None
    mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
    if status.st_size > MAX_KEPT_BYTES:
        return ObservedFile(hash_large_file(path, mode, status.st_size), None)
    return observed_content(read_bytes(path), mode)


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
    """Return the version of a file above the limit, hashed in blocks."""
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
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(path.readlink())
        return sha256(target), len(target)
    if not stat.S_ISREG(status.st_mode):
        return None
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
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
