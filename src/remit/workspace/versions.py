"""Reading one file without surprises: no FIFO is opened, no device read, no huge file taken into memory."""

import hashlib
import os
import stat
from pathlib import Path

from msgspec import Struct

from remit.core.contents import Version, count_lines, git_blob, sha256

KEEP_BYTES = 32 * 1024 * 1024
"""Contents above this are hashed, not kept: `restore` and `blame` then know them by hash alone."""

BLOCK = 1024 * 1024

READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A link or a pipe put there meanwhile is not followed, nor waited for."""


class Seen(Struct, frozen=True):
    """One file as it was found. `content` is None where it was too large to keep."""

    version: Version
    content: bytes | None


def look(path: Path) -> Seen | None:
    """The file at `path` itself (a link is its target's name); None where there is no file to speak of.

    Raises OSError where it is there and cannot be read.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        return seen(os.fsencode(path.readlink()), "120000")
    if not stat.S_ISREG(status.st_mode):
        return None
    mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
    if status.st_size > KEEP_BYTES:
        return Seen(large(path, mode, status.st_size), None)
    return seen(read(path), mode)


def seen(content: bytes, mode: str = "100644") -> Seen:
    """This content as a version."""
    return Seen(version(content, mode), content)


def version(content: bytes, mode: str = "100644") -> Version:
    """The version that these bytes are."""
    return Version(sha256(content), git_blob(content), count_lines(content), len(content), mode)


def read(path: Path) -> bytes:
    """The bytes of a regular file."""
    descriptor = os.open(path, READING)
    try:
        parts = list(iter(lambda: os.read(descriptor, BLOCK), b""))
    finally:
        os.close(descriptor)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def large(path: Path, mode: str, size: int) -> Version:
    """A file too large to hold, hashed in blocks."""
    plain, named, newlines, last = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False), 0, b"\n"
    with open(os.open(path, READING), "rb") as file:  # noqa: PTH123 - there is no Path for an open descriptor
        while block := file.read(BLOCK):
            plain.update(block)
            named.update(block)
            newlines += block.count(b"\n")
            last = block[-1:]
    return Version(plain.hexdigest(), named.hexdigest(), newlines + (last != b"\n"), size, mode)


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


def read_tail(path: Path | str, most: int) -> bytes:
    """The last `most` bytes of a regular file; nothing where there is none, or it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # an agent names the path: it may hold a NUL
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(descriptor, most, max(0, status.st_size - most))
    except OSError:
        return b""
    finally:
        os.close(descriptor)
