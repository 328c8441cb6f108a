"""Reading a log, also while it is being appended to."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import DecodeError, Struct, json

from remit.ledger.segments import LINE_LIMIT, LedgerError, first_seq, segments

_BUFFER = 1024 * 1024


class LineNotThere(LedgerError):
    """The log has no such bytes: a segment was moved away, or cut."""

    def __init__(self, folder: Path, segment: str, offset: int, length: int) -> None:
        place = f"{length} bytes at {offset} of {segment!r} in {str(folder)!r}"
        super().__init__(f"there are no {place}\nhint: see `remit ledger verify`")


class Place(Struct, frozen=True, order=True):
    """Where a line begins. `seq` is what its position promises; the line itself may say otherwise."""

    segment: str
    offset: int
    seq: int


class LogLine(Struct, frozen=True):
    """One line. `raw` is without the newline, and cut to LINE_LIMIT bytes where the line is longer.

    `size` counts the newline. `ended` is false for the last bytes of a segment when no newline follows.
    """

    segment: str
    offset: int
    seq: int
    raw: bytes
    size: int
    ended: bool = True

    @property
    def after(self) -> Place:
        """Where the next line begins."""
        return Place(self.segment, self.offset + self.size, self.seq + 1)


def lines(folder: Path, start: Place | None = None) -> Iterator[LogLine]:
    """The lines from `start` on, oldest first, without a last one that is not finished yet."""
    return (line for line in scan(folder, start) if line.ended)


def scan(folder: Path, start: Place | None = None) -> Iterator[LogLine]:
    """As `lines`, with what stands unfinished at the end of a segment."""
    for segment in segments(folder):
        if start is None or segment > start.segment:
            yield from _segment_lines(folder, Place(segment, 0, first_seq(segment)))
        elif segment == start.segment:
            yield from _segment_lines(folder, start)


def _segment_lines(folder: Path, place: Place) -> Iterator[LogLine]:
    with (folder / place.segment).open("rb", buffering=_BUFFER) as file:
        file.seek(place.offset)
        while raw := file.readline(LINE_LIMIT):
            ended = raw.endswith(b"\n")
            size = len(raw)
            if not ended and size == LINE_LIMIT:
                ended, more = _skip_line(file)
                size += more
            line = LogLine(place.segment, place.offset, place.seq, raw.removesuffix(b"\n"), size, ended)
            yield line
            place = line.after


def _skip_line(file: BinaryIO) -> tuple[bool, int]:
    """Go past the rest of a line that is too long: whether it ended, and how many bytes that was."""
    size = 0
    while part := file.readline(_BUFFER):
        size += len(part)
        if part.endswith(b"\n"):
            return True, size
    return False, size


def read_at(folder: Path, segment: str, offset: int, length: int) -> bytes:
    """The `length` bytes at `offset` of a segment. Raises LineNotThere."""
    try:
        descriptor = os.open(folder / segment, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise LineNotThere(folder, segment, offset, length) from error
    try:
        found = os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)
    if len(found) < length:
        raise LineNotThere(folder, segment, offset, length)
    return found


class _IdOnly(Struct):
    id: str


_ID = json.Decoder(_IdOnly)


def record_id(line: bytes) -> str | None:
    """The id of the record on a line; None where it cannot be read."""
    try:
        return _ID.decode(line).id
    except (DecodeError, UnicodeDecodeError):
        return None


def union(sources: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """Each record's line once, by id, from the first source that has it; unreadable lines are left out."""
    seen: set[str] = set()
    for source in sources:
        for line in source:
            found = record_id(line)
            if found is not None and found not in seen:
                seen.add(found)
                yield line
