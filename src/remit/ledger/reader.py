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

from remit.core.merkle import leaf_hash
from remit.ledger.segments import LINE_LIMIT, UNREADABLE, LedgerError, archive_path, first_seq, segments
from remit.ledger.tiles import HASH_BYTES, tile_row

if TYPE_CHECKING:
    from remit.ledger.archive import Archive

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
    def hashed(self) -> bytes:
        """Its leaf hash."""
        return self.leaf or leaf_hash(self.raw)

    @property
    def after(self) -> Place:
        """Where the next line begins."""
        return Place(self.segment, self.offset + self.size, self.seq + 1)


def lines(folder: Path, start: Place | None = None) -> Iterator[LogLine]:
    """The lines from `start` on, oldest first, without a last one that is not finished yet."""
    return (line for line in positions(folder, start) if line.ended and not line.leaf)


def positions(folder: Path, start: Place | None = None) -> Iterator[LogLine]:
    """As `lines`, with what stands unfinished at the end of a segment, and with the leaves of pruned records."""
    for segment in segments(folder):
        if start is None or segment > start.segment:
            yield from _segment_lines(folder, Place(segment, 0, first_seq(segment)))
        elif segment == start.segment:
            yield from _segment_lines(folder, start)


def segment_lines(folder: Path, segment: str) -> Iterator[LogLine]:
    """As `positions`, of one segment. Raises FileNotFoundError where it is not there."""
    return _segment_lines(folder, Place(segment, 0, first_seq(segment)))


def segment_index(folder: Path, segment: str) -> tuple[int, int]:
    """Where a segment's first line stands in the log's tree, and the one after its last. Raises DamagedArchive."""
    from remit.ledger.archive import opened  # the hook path reads no archives

    names = [name for name in segments(folder) if name <= segment]
    archived = max((name for name in names if archive_path(folder, name).exists()), default="")
    start = end = 0
    if archived:
        with opened(folder, archived) as archive:
            start, end = archive.summary.index, archive.summary.index + archive.summary.lines
    for name in names:
        if name > archived:
            start, end = end, end + sum(line.ended for line in segment_lines(folder, name))
    return start, end


class _Lines(Protocol):
    """What is read line by line: a file, or an archive."""

    def seek(self, offset: int, /) -> int:
        """Go there."""
        ...

    def readline(self, size: int, /) -> bytes:
        """A line, or so many bytes of it; empty at the end."""
        ...


def _segment_lines(folder: Path, place: Place) -> Iterator[LogLine]:
    try:
        file = (folder / place.segment).open("rb", buffering=_BUFFER)
    except FileNotFoundError:
        # Archived meanwhile, or long ago: an archive is there before its segment goes.
        yield from _archived_lines(folder, place)
        return
    with file:
        yield from _read_lines(file, place)


def _archived_lines(folder: Path, place: Place) -> Iterator[LogLine]:
    from remit.ledger.archive import DamagedArchive, Stream, opened  # the hook path reads no archives

    try:
        archive = opened(folder, place.segment)
    except DamagedArchive:
        return  # its lines are missing, which the chain tells
    with archive:
        first = first_seq(place.segment)
        dropped = _Dropped(folder, first, archive) if archive.gaps() else None
        for stretch in archive.stretches():
            if stretch.end <= place.offset:
                continue
            if place.offset <= stretch.offset:
                if dropped:
                    yield from dropped.between(place, first + stretch.line)
                place = Place(place.segment, stretch.offset, first + stretch.line)
            for line in _read_lines(Stream(archive), place, stretch.end):
                yield line
                place = line.after
        if dropped:
            yield from dropped.between(place, first + archive.summary.lines)


class _Dropped:
    """What is left of the records that an archive has no more: their leaves. Without those they are missing."""

    def __init__(self, folder: Path, first: int, archive: "Archive") -> None:
        self.first = first
        index, lines = archive.summary.index, archive.summary.lines
        before = tile_row(folder, 0, index - 1, 1) if index else bytes(HASH_BYTES)
        self.row = before + tile_row(folder, 0, index, lines)

    def between(self, place: Place, end: int) -> Iterator[LogLine]:
        """The records from `place` to before the one with seq `end`."""
        for seq in range(place.seq, min(end, self.first + len(self.row) // HASH_BYTES - 1)):
            prev, leaf = self.hash(seq - self.first), self.hash(seq - self.first + 1)
            yield LogLine(place.segment, place.offset, seq, b"", 0, leaf=leaf, prev=prev)

    def hash(self, number: int) -> bytes:
        """One of the hashes."""
        return self.row[number * HASH_BYTES : (number + 1) * HASH_BYTES]


def _read_lines(file: _Lines, place: Place, end: int = sys.maxsize) -> Iterator[LogLine]:
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


def _skip_line(file: _Lines) -> tuple[bool, int]:
    """Go past the rest of a line that is too long: whether it ended, and how many bytes that was."""
    size = 0
    while part := file.readline(_BUFFER):
        size += len(part)
        if part.endswith(b"\n"):
            return True, size
    return False, size


def read_at(folder: Path, segment: str, offset: int, length: int) -> bytes:
    """The `length` bytes at `offset` of a segment. Raises LineNotThere."""
    (found,) = read_each(folder, [(segment, offset, length)])
    if found is None:
        raise LineNotThere(folder, segment, offset, length)
    return found


def read_each(folder: Path, places: Iterable[tuple[str, int, int]]) -> Iterator[bytes | None]:
    """The bytes at each segment, offset and length, as `read_at`, with None where they are not."""
    for segment, spans in groupby(places, itemgetter(0)):
        with _spans(folder, segment) as read:
            for _, offset, length in spans:
                yield read(offset, length)


@contextmanager
def _spans(folder: Path, segment: str) -> Generator[Callable[[int, int], bytes | None]]:
    """How bytes of a segment are read by offset and length."""
    try:
        file = (folder / segment).open("rb", buffering=0)
    except FileNotFoundError:
        with _archived_spans(folder, segment) as read:
            yield read
        return
    with file:
        yield partial(_pread, file.fileno())


def _pread(descriptor: int, offset: int, length: int) -> bytes | None:
    found = os.pread(descriptor, length, offset)
    return found if len(found) == length else None


@contextmanager
def _archived_spans(folder: Path, segment: str) -> Generator[Callable[[int, int], bytes | None]]:
    from remit.ledger.archive import DamagedArchive, opened  # the hook path reads no archives

    try:
        archive = opened(folder, segment)
    except (FileNotFoundError, DamagedArchive):
        yield _nothing
        return
    with archive:
        yield archive.read


def _nothing(_offset: int, _length: int) -> None:
    """What an archive gives that is not there."""


def segment_size(folder: Path, segment: str) -> int:
    """How many bytes a segment has, or had before it was archived. Raises FileNotFoundError."""
    try:
        return (folder / segment).stat().st_size
    except FileNotFoundError:
        from remit.ledger.archive import DamagedArchive, opened  # the hook path reads no archives

        try:
            with opened(folder, segment) as archive:
                return archive.summary.size
        except DamagedArchive:
            return 0


class _IdOnly(Struct):
    id: str


_ID = json.Decoder(_IdOnly)


def record_id(line: bytes) -> str | None:
    """The id of the record on a line; None where it cannot be read."""
    try:
        return _ID.decode(line).id
    except UNREADABLE:
        return None
