"""Reading a log, also while it is being appended to."""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, json

from remit.core.formats.merkle import hash_leaf
from remit.ledger.segments import DECODE_ERRORS, LINE_LIMIT, LedgerError, archive_path, first_seq, list_segments
from remit.ledger.tiles import HASH_BYTES, read_tile_row

if TYPE_CHECKING:
    from remit.ledger.archive import Archive

_BUFFER_BYTES = 1024 * 1024


class LineNotThere(LedgerError):
    """The log has no such bytes: a segment was moved away, or cut."""

    def __init__(self, folder: Path, segment: str, offset: int, length: int) -> None:
        place = f"{length} bytes at {offset} of {segment!r} in {str(folder)!r}"
        super().__init__(f"there are no {place}\nhint: see `remit ledger verify`")


class LogPosition(Struct, frozen=True, order=True):
    """Where a line begins. `seq` is what its position promises; the line itself may say otherwise."""

    segment: str
    offset: int
    seq: int


class LogLine(Struct, frozen=True, gc=False):
    """One line. `raw` is without the newline, and cut to LINE_LIMIT bytes where the line is longer.

    `size` counts the newline. `ended` is false for the last bytes of a segment when no newline follows. Of a record
    that was pruned only its `leaf` is left, and the one before it; both are empty otherwise.
    """

    segment: str
    offset: int
    seq: int
    raw: bytes
    size: int
    ended: bool = True
    leaf: bytes = b""
    prev: bytes = b""

    @property
    def leaf_digest(self) -> bytes:
        """Its leaf hash."""
        return self.leaf or hash_leaf(self.raw)

    @property
    def next_position(self) -> LogPosition:
        """Where the next line begins."""
        return LogPosition(self.segment, self.offset + self.size, self.seq + 1)


def read_lines(folder: Path, start: LogPosition | None = None) -> Iterator[LogLine]:
    """The lines from `start` on, oldest first, without a last one that is not finished yet."""
    return (line for line in read_positions(folder, start) if line.ended and not line.leaf)


def read_positions(folder: Path, start: LogPosition | None = None) -> Iterator[LogLine]:
    """As `lines`, with what stands unfinished at the end of a segment, and with the leaves of pruned records."""
    for segment in list_segments(folder):
        if start is None or segment > start.segment:
            yield from _read_segment(folder, LogPosition(segment, 0, first_seq(segment)))
        elif segment == start.segment:
            yield from _read_segment(folder, start)


def read_segment_lines(folder: Path, segment: str) -> Iterator[LogLine]:
    """As `positions`, of one segment. Raises FileNotFoundError where it is not there."""
    return _read_segment(folder, LogPosition(segment, 0, first_seq(segment)))


def find_tree_range(folder: Path, segment: str) -> tuple[int, int]:
    """Where a segment's first line stands in the log's tree, and the one after its last. Raises DamagedArchive."""
    from remit.ledger.archive import open_archive  # the hook path reads no archives

    names = [name for name in list_segments(folder) if name <= segment]
    archived = max((name for name in names if archive_path(folder, name).exists()), default="")
    start = end = 0
    if archived:
        with open_archive(folder, archived) as archive:
            start, end = archive.summary.index, archive.summary.index + archive.summary.lines
    for name in names:
        if name > archived:
            start, end = end, end + sum(line.ended for line in read_segment_lines(folder, name))
    return start, end


class _LineSource(Protocol):
    """What is read line by line: a file, or an archive."""

    def seek(self, offset: int, /) -> int:
        """Go there."""
        ...

    def readline(self, size: int, /) -> bytes:
        """A line, or so many bytes of it; empty at the end."""
        ...


def _read_segment(folder: Path, place: LogPosition) -> Iterator[LogLine]:
    try:
        file = (folder / place.segment).open("rb", buffering=_BUFFER_BYTES)
    except FileNotFoundError:
        # Archived meanwhile, or long ago: an archive is there before its segment goes.
        yield from _read_archived_segment(folder, place)
        return
    with file:
        yield from _read_lines(file, place)


def _read_archived_segment(folder: Path, place: LogPosition) -> Iterator[LogLine]:
    from remit.ledger.archive import ArchiveStream, DamagedArchive, open_archive  # the hook path reads no archives

    try:
        archive = open_archive(folder, place.segment)
    except DamagedArchive:
        return  # its lines are missing, which the chain tells
    with archive:
        first = first_seq(place.segment)
        dropped = _PrunedLeaves(folder, first, archive) if archive.gaps() else None
        for stretch in archive.stretches():
            if stretch.end <= place.offset:
                continue
            if place.offset <= stretch.offset:
                if dropped:
                    yield from dropped.read_leaves(place, first + stretch.line)
                place = LogPosition(place.segment, stretch.offset, first + stretch.line)
            for line in _read_lines(ArchiveStream(archive), place, stretch.end):
                yield line
                place = line.next_position
        if dropped:
            yield from dropped.read_leaves(place, first + archive.summary.lines)


class _PrunedLeaves:
    """What is left of the records that an archive has no more: their leaves. Without those they are missing."""

    def __init__(self, folder: Path, first: int, archive: "Archive") -> None:
        self.first = first
        index, lines = archive.summary.index, archive.summary.lines
        before = read_tile_row(folder, 0, index - 1, 1) if index else bytes(HASH_BYTES)
        self.row = before + read_tile_row(folder, 0, index, lines)

    def read_leaves(self, place: LogPosition, end: int) -> Iterator[LogLine]:
        """The records from `place` to before the one with seq `end`."""
        for seq in range(place.seq, min(end, self.first + len(self.row) // HASH_BYTES - 1)):
            prev, leaf = self.hash_at(seq - self.first), self.hash_at(seq - self.first + 1)
            yield LogLine(place.segment, place.offset, seq, b"", 0, leaf=leaf, prev=prev)

    def hash_at(self, number: int) -> bytes:
        """One of the hashes."""
        return self.row[number * HASH_BYTES : (number + 1) * HASH_BYTES]


def _read_lines(file: _LineSource, place: LogPosition, end: int = sys.maxsize) -> Iterator[LogLine]:
    file.seek(place.offset)
    segment, offset, seq = place.segment, place.offset, place.seq
    while offset < end and (raw := file.readline(LINE_LIMIT)):
        size = len(raw)
        if raw.endswith(b"\n"):
            yield LogLine(segment, offset, seq, raw[:-1], size)
        elif size == LINE_LIMIT:
            ended, more = _skip_line(file)
            size += more
            yield LogLine(segment, offset, seq, raw, size, ended)
        else:
            yield LogLine(segment, offset, seq, raw, size, False)
        offset += size
        seq += 1


def _skip_line(file: _LineSource) -> tuple[bool, int]:
    """Go past the rest of a line that is too long: whether it ended, and how many bytes that was."""
    size = 0
    while part := file.readline(_BUFFER_BYTES):
        size += len(part)
        if part.endswith(b"\n"):
            return True, size
    return False, size


def read_bytes(folder: Path, segment: str, offset: int, length: int) -> bytes:
    """The `length` bytes at `offset` of a segment. Raises LineNotThere."""
    (found,) = read_spans(folder, [(segment, offset, length)])
    if found is None:
        raise LineNotThere(folder, segment, offset, length)
    return found


def read_spans(folder: Path, places: Iterable[tuple[str, int, int]]) -> Iterator[bytes | None]:
    """The bytes at each segment, offset and length, as `read_bytes`, with None where they are not."""
    for segment, spans in groupby(places, itemgetter(0)):
        with _open_span_reader(folder, segment) as read:
            for _, offset, length in spans:
                yield read(offset, length)


@contextmanager
def _open_span_reader(folder: Path, segment: str) -> Generator[Callable[[int, int], bytes | None]]:
    """How bytes of a segment are read by offset and length."""
    try:
        file = (folder / segment).open("rb", buffering=0)
    except FileNotFoundError:
        with _open_archive_spans(folder, segment) as read:
            yield read
        return
    with file:
        yield partial(_read_span, file.fileno())


def _read_span(descriptor: int, offset: int, length: int) -> bytes | None:
    found = os.pread(descriptor, length, offset)
    return found if len(found) == length else None


@contextmanager
def _open_archive_spans(folder: Path, segment: str) -> Generator[Callable[[int, int], bytes | None]]:
    from remit.ledger.archive import DamagedArchive, open_archive  # the hook path reads no archives

    try:
        archive = open_archive(folder, segment)
    except (FileNotFoundError, DamagedArchive):
        yield _read_absent_span
        return
    with archive:
        yield archive.read_range


def _read_absent_span(_offset: int, _length: int) -> None:
    """What an archive gives that is not there."""


def measure_segment(folder: Path, segment: str) -> int:
    """How many bytes a segment has, or had before it was archived. Raises FileNotFoundError."""
    try:
        return (folder / segment).stat().st_size
    except FileNotFoundError:
        from remit.ledger.archive import DamagedArchive, open_archive  # the hook path reads no archives

        try:
            with open_archive(folder, segment) as archive:
                return archive.summary.size
        except DamagedArchive:
            return 0


class _IdRecord(Struct):
    id: str


_ID_RECORD = json.Decoder(_IdRecord)


def read_record_id(line: bytes) -> str | None:
    """The id of the record on a line; None where it cannot be read."""
    try:
        return _ID_RECORD.decode(line).id
    except DECODE_ERRORS:
        return None
