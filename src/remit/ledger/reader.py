"""Reading a log, also during appends: lines in order, bytes by offset, archived segments included."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from remit.core.record import hash_leaf
from remit.ledger.log_files import LINE_LIMIT, LedgerError, archive_path, first_seq, list_segments

_BUFFER_BYTES = 1024 * 1024


class LineNotThere(LedgerError):
    """Bytes that the log does not have: a segment was moved away or cut."""

    def __init__(self, folder: Path, segment: str, offset: int, length: int) -> None:
        place = f"{length} bytes at {offset} of {segment!r} in {str(folder)!r}"
        super().__init__(f"there are no {place}\nhint: see `remit ledger verify`")


class LogPosition(Struct, frozen=True, order=True):
    """The position where a line begins. `seq` follows from the position; the line itself may state another."""

    segment: str
    offset: int
    seq: int


class LogLine(Struct, frozen=True, gc=False):
    """One line of a log. `raw` excludes the newline and is cut to LINE_LIMIT bytes; `size` counts the newline. `ended`
    is False for trailing bytes of a segment without a newline. For a pruned record only `leaf` and the predecessor's
    leaf, `prev`, remain; otherwise both are empty.
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
        return self.leaf or hash_leaf(self.raw)

    @property
    def next_position(self) -> LogPosition:
        return LogPosition(self.segment, self.offset + self.size, self.seq + 1)


def read_lines(folder: Path, start: LogPosition | None = None) -> Iterator[LogLine]:
    """Yield the lines from `start` on, oldest first, without pruned records and without an unfinished last line."""
    return (line for line in read_positions(folder, start) if line.ended and not line.leaf)


def read_positions(folder: Path, start: LogPosition | None = None) -> Iterator[LogLine]:
    """Yield all lines from `start` on, including unfinished ends of segments and the leaves of pruned records."""
    for segment in list_segments(folder):
        if start is None or segment > start.segment:
            yield from _read_segment(folder, LogPosition(segment, 0, first_seq(segment)))
        elif segment == start.segment:
            yield from _read_segment(folder, start)


def read_segment_lines(folder: Path, segment: str) -> Iterator[LogLine]:
    return _read_segment(folder, LogPosition(segment, 0, first_seq(segment)))


def find_tree_range(folder: Path, segment: str) -> tuple[int, int]:
    """Return the tree indexes of a segment's first line and of the line after its last. Raises DamagedArchive."""
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
    """A source of lines: a file or an archive. `readline` returns a line, or `size` bytes of it; empty at the end."""

    def seek(self, offset: int, /) -> int: ...

    def readline(self, size: int, /) -> bytes: ...


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
    from remit.ledger.archive import (  # the hook path reads no archives
        HASH_BYTES,
        ArchiveStream,
        DamagedArchive,
        open_archive,
        read_tile_row,
    )

    try:
        archive = open_archive(folder, place.segment)
    except DamagedArchive:
        return  # its lines are missing, which the chain tells
    with archive:
        first, index, lines = first_seq(place.segment), archive.summary.index, archive.summary.lines
        row = b""
        if archive.gaps():  # the leaf hashes of the segment, and the one before; those without one count as missing
            before = read_tile_row(folder, 0, index - 1, 1) if index else bytes(HASH_BYTES)
            row = before + read_tile_row(folder, 0, index, lines)
        leaves = [row[at : at + HASH_BYTES] for at in range(0, len(row), HASH_BYTES)]

        def read_pruned(end: int) -> Iterator[LogLine]:
            for seq in range(place.seq, min(end, first + len(leaves) - 1)):
                prev, leaf = leaves[seq - first : seq - first + 2]
                yield LogLine(place.segment, place.offset, seq, b"", 0, leaf=leaf, prev=prev)

        for stretch in archive.stretches():
            if stretch.end <= place.offset:
                continue
            if place.offset <= stretch.offset:
                yield from read_pruned(first + stretch.line)
                place = LogPosition(place.segment, stretch.offset, first + stretch.line)
            for line in _read_lines(ArchiveStream(archive), place, stretch.end):
                yield line
                place = line.next_position
        yield from read_pruned(first + lines)


def _read_lines(file: _LineSource, place: LogPosition, end: int = sys.maxsize) -> Iterator[LogLine]:
    file.seek(place.offset)
    segment, offset, seq = place.segment, place.offset, place.seq
    while offset < end and (raw := file.readline(LINE_LIMIT)):
        size = len(raw)
        if raw.endswith(b"\n"):
            yield LogLine(segment, offset, seq, raw[:-1], size)
        else:
            ended = False
            while not ended and size >= LINE_LIMIT and (part := file.readline(_BUFFER_BYTES)):  # an oversized line
                size += len(part)
                ended = part.endswith(b"\n")
            yield LogLine(segment, offset, seq, raw, size, ended)
        offset += size
        seq += 1


def read_bytes(folder: Path, segment: str, offset: int, length: int) -> bytes:
    (found,) = read_spans(folder, [(segment, offset, length)])
    if found is None:
        raise LineNotThere(folder, segment, offset, length)
    return found


def read_spans(folder: Path, places: Iterable[tuple[str, int, int]]) -> Iterator[bytes | None]:
    """Yield the bytes at each (segment, offset, length), and None for bytes that are missing."""
    for segment, spans in groupby(places, itemgetter(0)):
        with ExitStack() as stack:
            try:
                file = stack.enter_context((folder / segment).open("rb", buffering=0))
            except FileNotFoundError:
                from remit.ledger.archive import DamagedArchive, open_archive  # the hook path reads no archives

                read = None
                with suppress(FileNotFoundError, DamagedArchive):
                    read = stack.enter_context(open_archive(folder, segment)).read_range
                for _, offset, length in spans:
                    yield read(offset, length) if read else None
                continue
            for _, offset, length in spans:
                found = os.pread(file.fileno(), length, offset)
                yield found if len(found) == length else None


def measure_segment(folder: Path, segment: str) -> int:
    """Return the size of a segment in bytes; for an archived one, the original size. Raises FileNotFoundError."""
    try:
        return (folder / segment).stat().st_size
    except FileNotFoundError:
        from remit.ledger.archive import DamagedArchive, open_archive  # the hook path reads no archives

        try:
            with open_archive(folder, segment) as archive:
                return archive.summary.size
        except DamagedArchive:
            return 0


def measure_log_bytes(folder: Path) -> int:
    return sum(measure_segment(folder, name) for name in list_segments(folder))
