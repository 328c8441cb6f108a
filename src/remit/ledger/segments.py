"""The files of a log: segments, each named after the first seq it holds, and a head that describes the last line.

Every hook call imports this module, so its own imports stay cheap.
"""

import os
import sys
from typing import TYPE_CHECKING

from msgspec import DecodeError, Struct

from remit.core.diff.contents import sha256

if TYPE_CHECKING:
    from pathlib import Path

LINE_LIMIT = 4 * 1024 * 1024
"""Maximum length of a line that is written or read, newline included."""

DECODE_ERRORS = (DecodeError, UnicodeDecodeError, RecursionError)
"""Errors that msgspec raises for a line that is not a record; RecursionError for JSON nested too deeply."""

ZERO_HASH = "0" * 64
ARCHIVE_FOLDER = "archive"
"""Subfolder for compressed, sealed segments."""

FOREIGN_FOLDER = "foreign"
"""Subfolder for copies of other machines' and tools' logs."""

_BLOCK_BYTES = 64 * 1024
_SUFFIX = ".jsonl"
_ARCHIVE_SUFFIX = ".gz"
_NAME_DIGITS = 12


class LedgerError(Exception):
    """Base class of the ledger's errors."""


def segment_name(first: int) -> str:
    return f"{first:0{_NAME_DIGITS}d}{_SUFFIX}"


def first_seq(segment: str) -> int:
    """Return the seq of a segment's first line, as stated by the segment's name."""
    return int(segment.removesuffix(_SUFFIX))


def is_segment(name: str) -> bool:
    stem = name.removesuffix(_SUFFIX)
    return stem != name and len(stem) == _NAME_DIGITS and stem.isascii() and stem.isdigit()


def list_segments(folder: "Path") -> list[str]:
    """Return the names of all segments, archived or not, oldest first. A missing folder has no segments."""
    return sorted({*list_archived_segments(folder), *list_live_segments(folder)})


def list_live_segments(folder: "Path") -> list[str]:
    """Return the names of the segments that still exist as plain files, oldest first. Appends go to the last one."""
    return sorted(filter(is_segment, _list_names(folder)))


def find_newest_segment(folder: "Path | str") -> str:
    """Return the name of the segment that appends go to; empty if the log has no segment yet."""
    return max(filter(is_segment, _list_names(folder)), default="")


def list_archived_segments(folder: "Path") -> list[str]:
    names = _list_names(folder / ARCHIVE_FOLDER)
    found = (name.removesuffix(_ARCHIVE_SUFFIX) for name in names if name.endswith(_ARCHIVE_SUFFIX))
    return sorted(filter(is_segment, found))


def archive_path(folder: "Path", segment: str) -> "Path":
    return folder / ARCHIVE_FOLDER / f"{segment}{_ARCHIVE_SUFFIX}"


def _list_names(folder: "Path | str") -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 at every append, and pathlib takes five times as long
    except (FileNotFoundError, NotADirectoryError):
        return []


class Head(Struct, frozen=True):
    """The last appended line: seq, leaf hash, segment, and the offset after the newline.

    `synced` is the last seq known to be on the disk; a power failure may lose later records.
    The default value precedes the first line: its leaf is the `prev` of the first record.
    """

    seq: int = -1
    leaf: str = ZERO_HASH
    segment: str = segment_name(0)
    end: int = 0
    synced: int = -1


def encode_head(head: Head) -> bytes:
    """Return the head as one fixed-width line with a checksum, so that it can be overwritten in place."""
    text = f"{head.seq:012d} {head.leaf} {head.segment} {head.end:012d} {head.synced:012d}"
    return f"{text} {sha256(text.encode())[:16]}\n".encode()


def decode_head(raw: bytes) -> Head | None:
    """Return the head; None if the checksum is wrong."""
    text, _, check = raw.decode("latin-1").removesuffix("\n").rpartition(" ")
    if sha256(text.encode())[:16] != check:
        return None
    seq, leaf, segment, end, synced = text.split(" ")
    return Head(int(seq), leaf, segment, int(end), int(synced))


def read_head(folder: "Path") -> Head | None:
    """Return the head of a log; None if the file is missing or damaged."""
    try:
        return decode_head((folder / "head").read_bytes())
    except FileNotFoundError:
        return None


def write_head(folder: "Path", head: Head) -> None:
    """Overwrite the head in place, without fsync: after a crash an outdated head is allowed."""
    descriptor = os.open(f"{folder}/head", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, encode_head(head), 0)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of `content`: one write(2), and more calls only after a short write. Raises OSError."""
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


def find_last_line_end(descriptor: int, end: int) -> int:
    """Return the offset after the last newline before `end`, searching backwards; 0 if there is none."""
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def read_line_before(descriptor: int, end: int) -> bytes:
    """Return the line whose newline is the last byte before `end`, without the newline."""
    start = find_last_line_end(descriptor, end - 1)
    return os.pread(descriptor, end - 1 - start, start)


if sys.platform == "darwin":
    from fcntl import F_FULLFSYNC, fcntl

    def flush(descriptor: int) -> None:
        """Wait until the content is on the disk; on macOS `fsync` only reaches the drive's cache."""
        fcntl(descriptor, F_FULLFSYNC)
else:

    def flush(descriptor: int) -> None:
        os.fdatasync(descriptor)


def flush_folder(folder: "Path") -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
