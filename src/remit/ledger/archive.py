"""A sealed segment, compressed: read by offset as before, line by line, and by every gzip.

An archive is a row of gzip members (RFC 1952, read 2026-11), so `zcat` gives back what it holds. The first member is
empty, and its extra field holds the Summary. Each other one is a block: its extra field tells how long the member is
and which runs of the segment stand in it. A pruned archive has runs with gaps between them; offsets stay what they
were. The hook path does not import this.
"""

import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from remit.ledger.segments import LINE_LIMIT, LedgerError, archive_path, flush

BLOCK_BYTES = 64 * 1024
"""What one read has to decompress; twice as much saves 2 % of the space and costs twice the time."""

COMPRESSION_LEVEL = 6
_MAX_RUNS = 2500
"""In one block: an extra field has at most 64 KiB."""

_MAX_BLOCK_BYTES = LINE_LIMIT + BLOCK_BYTES
_GZIP_HEADER = bytes((0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 0xFF))
_EXTRA_FIELD = struct.Struct("<H2sHII")
"""The length of all extra fields; kind and length of the only one; how long the member is; CRC-32 of what follows."""

_SUMMARY_FORMAT = struct.Struct("<QQQ32s")
_RUN_FORMAT = struct.Struct("<QIII")
_TRAILER_FORMAT = struct.Struct("<II")


class DamagedArchive(LedgerError):
    """An archive is not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"the archive {str(path)!r} is damaged: {why}\nhint: see `remit ledger verify`")


class SegmentSummary(Struct, frozen=True):
    """The segment as it was. `index` is where its first line stands in the log's tree; `sha256` is of its bytes."""

    index: int
    lines: int
    size: int
    sha256: bytes


class SegmentPiece(NamedTuple):
    """Bytes of a segment. `line` counts the lines that ended before it, from 0."""

    offset: int
    line: int
    content: bytes


class _ArchiveBlock(NamedTuple):
    offset: int
    packed_size: int
    size: int
    crc: int


class _LineRun(NamedTuple):
    offset: int
    size: int
    line: int
    lines: int
    block: _ArchiveBlock
    block_offset: int


class LineStretch(NamedTuple):
    """Bytes of a segment that are all there: the lines from number `line` to before number `after`."""

    offset: int
    end: int
    line: int
    after: int


def read_segment_pieces(path: Path) -> Iterator[SegmentPiece]:
    """A segment's lines; one that is too long comes in several pieces."""
    offset = line = 0
    with path.open("rb", buffering=1024 * 1024) as file:
        while content := file.readline(LINE_LIMIT):
            yield SegmentPiece(offset, line, content)
            offset += len(content)
            line += content.endswith(b"\n")


def write_archive(path: Path, summary: SegmentSummary, pieces: Iterable[SegmentPiece]) -> None:
    """Write an archive, on the disk when this returns; its name is not. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        told = _SUMMARY_FORMAT.pack(summary.index, summary.lines, summary.size, summary.sha256)
        file.write(_build_member(b"RS", told, b""))
        for runs, content in _group_into_blocks(pieces):
            file.write(_build_member(b"RB", b"".join(runs), content))
        file.flush()
        flush(descriptor)


def _group_into_blocks(pieces: Iterable[SegmentPiece]) -> Iterator[tuple[list[bytes], bytes]]:
    """The runs of each block, and its content."""
    block: list[list[SegmentPiece]] = []
    held = 0
    for piece in pieces:
        if held >= BLOCK_BYTES or len(block) >= _MAX_RUNS:
            yield _pack_block(block)
            block, held = [], 0
        if block and block[-1][-1].offset + len(block[-1][-1].content) == piece.offset:
            block[-1].append(piece)
        else:
            block.append([piece])
        held += len(piece.content)
    if block:
        yield _pack_block(block)


def _pack_block(block: list[list[SegmentPiece]]) -> tuple[list[bytes], bytes]:
    contents = [b"".join(piece.content for piece in run) for run in block]
    runs = [
        _RUN_FORMAT.pack(run[0].offset, len(content), run[0].line, content.count(b"\n"))
        for run, content in zip(block, contents, strict=True)
    ]
    return runs, b"".join(contents)


def _build_member(kind: bytes, told: bytes, content: bytes) -> bytes:
    squeeze = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, -15)
    packed = squeeze.compress(content) + squeeze.flush()
    size = len(_GZIP_HEADER) + _EXTRA_FIELD.size + len(told) + len(packed) + _TRAILER_FORMAT.size
    field = _EXTRA_FIELD.pack(len(told) + 12, kind, len(told) + 8, size, zlib.crc32(told))
    return _GZIP_HEADER + field + told + packed + _TRAILER_FORMAT.pack(zlib.crc32(content), len(content))


class Archive:
    """An open archive. Raises OSError, DamagedArchive where not even its beginning can be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._cached_block: tuple[_ArchiveBlock | None, bytes | None] = (None, None)
        self._file_size = os.fstat(self._descriptor).st_size
        first = self._read_extra_field(0)
        if first is None or first[0] != b"RS" or len(first[1]) != _SUMMARY_FORMAT.size:
            self.close()
            raise DamagedArchive(path, "it does not begin with a summary")
        self.summary = SegmentSummary(*_SUMMARY_FORMAT.unpack(first[1]))
        self._blocks_offset = first[3]

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    @property
    def is_whole(self) -> bool:
        """Whether no line was dropped."""
        return sum(run.size for run in self._runs) == self.summary.size

    @cached_property
    def _runs(self) -> list[_LineRun]:
        """What the extra fields tell. Blocks after a damaged one are not found: their lines are missing."""
        found: list[_LineRun] = []
        at, offset = self._blocks_offset, 0
        while at < self._file_size and (member := self._read_extra_field(at)) is not None:
            _, told, content, size = member
            block = self._read_block_place(at + content, at + size)
            runs = _parse_runs(told, block, offset) if member[0] == b"RB" else []
            if not runs:
                break
            found += runs
            at, offset = at + size, runs[-1].offset + runs[-1].size
        return found

    @cached_property
    def _run_offsets(self) -> list[int]:
        return [run.offset for run in self._runs]

    def _read_extra_field(self, at: int) -> tuple[bytes, bytes, int, int] | None:
        """Kind, told bytes, where the content begins in the member, and the member's size."""
        start = len(_GZIP_HEADER) + _EXTRA_FIELD.size
        raw = os.pread(self._descriptor, 4096, at)
        if len(raw) < start or not raw.startswith(_GZIP_HEADER):
            return None
        _, kind, length, size, crc = _EXTRA_FIELD.unpack_from(raw, len(_GZIP_HEADER))
        told = raw[start : start + length - 8]
        if len(told) < length - 8:
            told = os.pread(self._descriptor, length - 8, at + start)
        if zlib.crc32(told) != crc or not start + len(told) + _TRAILER_FORMAT.size < size <= self._file_size - at:
            return None
        return kind, told, start + len(told), size

    def _read_block_place(self, content: int, after: int) -> _ArchiveBlock:
        crc, size = _TRAILER_FORMAT.unpack(
            os.pread(self._descriptor, _TRAILER_FORMAT.size, after - _TRAILER_FORMAT.size)
        )
        return _ArchiveBlock(content, after - _TRAILER_FORMAT.size - content, size, crc)

    def stretches(self) -> list[LineStretch]:
        """What is there, in order."""
        found: list[LineStretch] = []
        for run in self._runs:
            if found and found[-1].end == run.offset:
                found[-1] = found[-1]._replace(end=run.offset + run.size, after=run.line + run.lines)
            else:
                found.append(LineStretch(run.offset, run.offset + run.size, run.line, run.line + run.lines))
        return found

    def gaps(self) -> list[tuple[int, int]]:
        """The first line number of each gap, and the one after it."""
        found = self.stretches()
        edges = [(0, 0), *((s.line, s.after) for s in found), (self.summary.lines, self.summary.lines)]
        return [(before[1], after[0]) for before, after in pairwise(edges) if before[1] < after[0]]

    def read_range(self, offset: int, length: int) -> bytes | None:
        """The bytes at `offset` of the segment; None where some of them were dropped, or are damaged."""
        parts: list[bytes] = []
        while length > 0:
            run = self._find_run(offset)
            content = self._read_block(run.block) if run else None
            if run is None or content is None:
                return None
            start = run.block_offset + offset - run.offset
            part = content[start : min(run.block_offset + run.size, start + length)]
            if not part:
                return None
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)

    def read_prefix(self, offset: int, most: int) -> bytes:
        """At most so many bytes from `offset` on; none in a gap. What is damaged reads as lines that are no records."""
        run = self._find_run(offset)
        if run is None:
            return b""
        content = self._read_block(run.block)
        found = _fill_damaged_run(run) if content is None else content[run.block_offset : run.block_offset + run.size]
        return found[offset - run.offset :][:most]

    def _find_run(self, offset: int) -> _LineRun | None:
        number = bisect_right(self._run_offsets, offset) - 1
        if number < 0 or offset >= self._runs[number].offset + self._runs[number].size:
            return None
        return self._runs[number]

    def _read_block(self, block: _ArchiveBlock) -> bytes | None:
        """A block's content, the newest one remembered; None where it is damaged."""
        if self._cached_block[0] != block:
            self._cached_block = (block, self._decompress_block(block))
        return self._cached_block[1]

    def _decompress_block(self, block: _ArchiveBlock) -> bytes | None:
        packed = os.pread(self._descriptor, block.packed_size, block.offset)
        try:
            content = zlib.decompressobj(-15).decompress(packed, block.size + 1)
        except zlib.error:
            return None
        return content if len(content) == block.size and zlib.crc32(content) == block.crc else None


def _parse_runs(told: bytes, block: _ArchiveBlock, offset: int) -> list[_LineRun]:
    """The runs in a block, which come in order from `offset` on and fill it; none where they do not."""
    found: list[_LineRun] = []
    inside = 0
    if block.size > _MAX_BLOCK_BYTES or len(told) % _RUN_FORMAT.size:
        return []
    for start, size, line, lines in _RUN_FORMAT.iter_unpack(told):
        if start < offset or size < max(1, lines):
            return []
        found.append(_LineRun(start, size, line, lines, block, inside))
        inside, offset = inside + size, start + size
    return found if inside == block.size else []


def _fill_damaged_run(run: _LineRun) -> bytes:
    """As many bytes and lines as a damaged run had, so that what comes after keeps its place."""
    if not run.lines:
        return b"\0" * run.size
    return b"\n" * (run.lines - 1) + b"\0" * (run.size - run.lines) + b"\n"


class ArchiveStream:
    """An archive as a file whose lines are read; it ends where a gap begins."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._next_offset: int = 0
        self._buffer: bytes = b""
        self._buffer_at: int = 0

    def seek(self, offset: int, /) -> int:
        """Go to an offset of the segment."""
        self._next_offset, self._buffer, self._buffer_at = offset, b"", 0
        return offset

    def readline(self, most: int, /) -> bytes:
        """As a file's: up to a newline, or so many bytes, or the end."""
        line = self._read_part(most)
        while line and not line.endswith(b"\n") and len(line) < most and (more := self._read_part(most - len(line))):
            line += more
        return line

    def _read_part(self, most: int) -> bytes:
        if self._buffer_at == len(self._buffer):
            self._buffer, self._buffer_at = self._archive.read_prefix(self._next_offset, BLOCK_BYTES), 0
            self._next_offset += len(self._buffer)
        end = self._buffer.find(b"\n", self._buffer_at, self._buffer_at + most) + 1
        start, self._buffer_at = self._buffer_at, end or min(len(self._buffer), self._buffer_at + most)
        return self._buffer[start : self._buffer_at]


def open_archive(folder: Path, segment: str) -> Archive:
    """The archive of a segment. Raises FileNotFoundError, DamagedArchive."""
    return Archive(archive_path(folder, segment))
