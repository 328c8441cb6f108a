"""Reading one file without surprises: no FIFO is opened, no device read, no huge file taken into memory."""

import hashlib
import os
import stat
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import ContentVersion, count_lines, hash_git_blob, sha256

MAX_KEPT_BYTES = 32 * 1024 * 1024
"""Contents above this are hashed, not kept: `restore` and `blame` then know them by hash alone."""

BLOCK_BYTES = 1024 * 1024

READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A link or a pipe put there meanwhile is not followed, nor waited for."""


class ObservedFile(Struct, frozen=True):
    """One file as it was found. `content` is None where it was too large to keep."""

    version: ContentVersion
    content: bytes | None


def observe_file(path: Path) -> ObservedFile | None:
    """The file at `path` itself (a link is its target's name); None where there is no file to speak of.

    Raises OSError where it is there and cannot be read.
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
    """This content as a version."""
    return ObservedFile(compute_version(content, mode), content)


def compute_version(content: bytes, mode: str = "100644") -> ContentVersion:
    """The version that these bytes are."""
    return ContentVersion(sha256(content), hash_git_blob(content), count_lines(content), len(content), mode)


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file."""
    descriptor = os.open(path, READ_FLAGS)
    try:
        parts = list(iter(lambda: os.read(descriptor, BLOCK_BYTES), b""))
    finally:
        os.close(descriptor)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def hash_large_file(path: Path, mode: str, size: int) -> ContentVersion:
    """A file too large to hold, hashed in blocks."""
    plain, named, newlines, last = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False), 0, b"\n"
    with open(os.open(path, READ_FLAGS), "rb") as file:  # noqa: PTH123 - there is no Path for an open descriptor
        while block := file.read(BLOCK_BYTES):
            plain.update(block)
            named.update(block)
            newlines += block.count(b"\n")
            last = block[-1:]
    return ContentVersion(plain.hexdigest(), named.hexdigest(), newlines + (last != b"\n"), size, mode)


def hash_file(path: Path) -> tuple[str, int] | None:
    """The SHA-256 and the size of a regular file, or of a link's target; None for anything else. Raises OSError."""
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
    """The last `most` bytes of a regular file; nothing where there is none, or it cannot be read."""
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
