"""Where the lines of a log lie: segments named by the first seq they hold, and a head that vouches for the end.

Every hook call imports this module, so it imports only what is cheap.
"""

import os
import sys
from typing import TYPE_CHECKING

from msgspec import DecodeError, Struct

from remit.core.diff.contents import sha256

if TYPE_CHECKING:
    from pathlib import Path

LINE_LIMIT = 4 * 1024 * 1024
"""The longest line, newline included, that is written or read."""

DECODE_ERRORS = (DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a line raises that is no record; the last one where somebody nested it too deep."""

ZERO_HASH = "0" * 64
ARCHIVE_FOLDER = "archive"
"""The folder of sealed segments that were compressed."""

FOREIGN_FOLDER = "foreign"
"""The folder of what came from other logs."""

_BLOCK_BYTES = 64 * 1024
_SUFFIX = ".jsonl"
_ARCHIVE_SUFFIX = ".gz"
_NAME_DIGITS = 12


class LedgerError(Exception):
    """Something is wrong with the ledger."""


def segment_name(first: int) -> str:
    """The file name of the segment whose first record is `first`."""
    return f"{first:0{_NAME_DIGITS}d}{_SUFFIX}"


def first_seq(segment: str) -> int:
    """The seq that the name of a segment promises for its first line."""
    return int(segment.removesuffix(_SUFFIX))


def is_segment(name: str) -> bool:
    """Whether a file of that name in the log folder is a segment."""
    stem = name.removesuffix(_SUFFIX)
    return stem != name and len(stem) == _NAME_DIGITS and stem.isascii() and stem.isdigit()


def list_segments(folder: "Path") -> list[str]:
    """The names of the segments, oldest first, archived or not; none where there is no folder."""
    return sorted({*list_archived_segments(folder), *list_live_segments(folder)})


def list_live_segments(folder: "Path") -> list[str]:
    """The names of the segments that are no archives yet, oldest first: the last one is written to."""
    return sorted(filter(is_segment, _list_names(folder)))


def find_newest_segment(folder: "Path | str") -> str:
    """The name of the segment that is written to; empty where there is none."""
    return max(filter(is_segment, _list_names(folder)), default="")


def list_archived_segments(folder: "Path") -> list[str]:
    """The names of the segments that have an archive, oldest first."""
    names = _list_names(folder / ARCHIVE_FOLDER)
    found = (name.removesuffix(_ARCHIVE_SUFFIX) for name in names if name.endswith(_ARCHIVE_SUFFIX))
    return sorted(filter(is_segment, found))


def archive_path(folder: "Path", segment: str) -> "Path":
    """Where the archive of a segment lies."""
    return folder / ARCHIVE_FOLDER / f"{segment}{_ARCHIVE_SUFFIX}"


def _list_names(folder: "Path | str") -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 at every append, and pathlib takes five times as long
    except (FileNotFoundError, NotADirectoryError):
        return []


class Head(Struct, frozen=True):
    """The last line that was appended: its seq and leaf, and the offset after its newline.

    `synced` is the last seq known to have reached the disk: what comes after it may go in a power failure.
    The default stands before the first line, so its leaf is the first record's `prev`.
    """

    seq: int = -1
    leaf: str = ZERO_HASH
    segment: str = segment_name(0)
    end: int = 0
    synced: int = -1


def encode_head(head: Head) -> bytes:
    """One line of fixed width with a check sum, so that it is overwritten in place."""
    text = f"{head.seq:012d} {head.leaf} {head.segment} {head.end:012d} {head.synced:012d}"
    return f"{text} {sha256(text.encode())[:16]}\n".encode()


def decode_head(raw: bytes) -> Head | None:
    """The head in these bytes; None where its check sum does not hold."""
    text, _, check = raw.decode("latin-1").removesuffix("\n").rpartition(" ")
    if sha256(text.encode())[:16] != check:
        return None
    seq, leaf, segment, end, synced = text.split(" ")
    return Head(int(seq), leaf, segment, int(end), int(synced))


def read_head(folder: "Path") -> Head | None:
    """The head of a log; None where it is missing or damaged."""
    try:
        return decode_head((folder / "head").read_bytes())
    except FileNotFoundError:
        return None


def write_head(folder: "Path", head: Head) -> None:
    """Overwrite the head in place. It is not synced: after a crash it may be behind, which is allowed."""
    descriptor = os.open(f"{folder}/head", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, encode_head(head), 0)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """One write; more only where the system took a part, which ends in its error or in success."""
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


def find_last_line_end(descriptor: int, end: int) -> int:
    """The offset after the last newline before `end`; 0 where there is none. Reads from the end."""
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def read_line_before(descriptor: int, end: int) -> bytes:
    """The line whose newline is the last byte before `end`, without that newline."""
    start = find_last_line_end(descriptor, end - 1)
    return os.pread(descriptor, end - 1 - start, start)


if sys.platform == "darwin":
    from fcntl import F_FULLFSYNC, fcntl

    def flush(descriptor: int) -> None:
        """Wait until the content is on the disk; `fsync` alone stops at the drive's cache here."""
        fcntl(descriptor, F_FULLFSYNC)
else:

    def flush(descriptor: int) -> None:
        """Wait until the content, and the size that it needs, is on the disk."""
        os.fdatasync(descriptor)


def flush_folder(folder: "Path") -> None:
    """Wait until the names in `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
