"""Archives of sealed segments: compressed, and readable by offset, line by line, and by every gzip.

An archive is a sequence of gzip members (RFC 1952, read 2026-11), so `zcat` prints the content. The first member is
empty; its extra field holds the summary. Each other member is a block: its extra field holds the size of the member and
the runs of the segment in the block. A pruned archive has gaps between its runs; offsets stay the same. The hook path
does not import this module.
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
"""Bytes that one read decompresses. Twice as much saves 2 % of the space and doubles the time."""

COMPRESSION_LEVEL = 6
_MAX_RUNS = 2500
"""Maximum runs in a block: an extra field holds at limit 64 KiB."""

_MAX_BLOCK_BYTES = LINE_LIMIT + BLOCK_BYTES
_GZIP_HEADER = bytes((0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 0xFF))
_EXTRA_FIELD = struct.Struct("<H2sHII")
"""Length of all extra fields; kind and length of the only field; size of the member; CRC-32 of the data."""

_SUMMARY_FORMAT = struct.Struct("<QQQ32s")
_RUN_FORMAT = struct.Struct("<QIII")
_TRAILER_FORMAT = struct.Struct("<II")


class DamagedArchive(LedgerError):
    """An archive with unexpected content."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"the archive {str(path)!r} is damaged: {why}\nhint: see `remit ledger verify`")


class SegmentSummary(Struct, frozen=True):
    """The original segment. `index` is the tree index of the first line; `sha256` covers all bytes."""

    index: int
    lines: int
    size: int
    sha256: bytes


class SegmentPiece(NamedTuple):
    """Consecutive bytes of a segment. `line` is the number of lines before them, from 0."""

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
    """A complete part of a segment: the lines from number `line` up to, but excluding, `after`."""

    offset: int
    end: int
    line: int
    after: int


def read_segment_pieces(path: Path) -> Iterator[SegmentPiece]:
    """Yield a segment's lines; an oversized line comes in several pieces."""
    offset = line = 0
    with path.open("rb", buffering=1024 * 1024) as file:
        while content := file.readline(LINE_LIMIT):
            yield SegmentPiece(offset, line, content)
            offset += len(content)
            line += content.endswith(b"\n")


def write_archive(path: Path, summary: SegmentSummary, pieces: Iterable[SegmentPiece]) -> None:
    """Write an archive and flush the content, but not the folder entry, to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        data = _SUMMARY_FORMAT.pack(summary.index, summary.lines, summary.size, summary.sha256)
        file.write(_build_member(b"RS", data, b""))
        for runs, content in _group_into_blocks(pieces):
            file.write(_build_member(b"RB", b"".join(runs), content))
        file.flush()
        flush(descriptor)


def _group_into_blocks(pieces: Iterable[SegmentPiece]) -> Iterator[tuple[list[bytes], bytes]]:
    """Yield the packed runs and the content of each block."""
    block: list[list[SegmentPiece]] = []
    block_size = 0
    for piece in pieces:
        if block_size >= BLOCK_BYTES or len(block) >= _MAX_RUNS:
            yield _pack_block(block)
            block, block_size = [], 0
        if block and block[-1][-1].offset + len(block[-1][-1].content) == piece.offset:
            block[-1].append(piece)
        else:
            block.append([piece])
        block_size += len(piece.content)
    if block:
        yield _pack_block(block)


def _pack_block(block: list[list[SegmentPiece]]) -> tuple[list[bytes], bytes]:
    contents = [b"".join(piece.content for piece in run) for run in block]
    runs = [
        _RUN_FORMAT.pack(run[0].offset, len(content), run[0].line, content.count(b"\n"))
        for run, content in zip(block, contents, strict=True)
    ]
    return runs, b"".join(contents)


def _build_member(kind: bytes, data: bytes, content: bytes) -> bytes:
    compressor = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, -15)
    packed = compressor.compress(content) + compressor.flush()
    size = len(_GZIP_HEADER) + _EXTRA_FIELD.size + len(data) + len(packed) + _TRAILER_FORMAT.size
    field = _EXTRA_FIELD.pack(len(data) + 12, kind, len(data) + 8, size, zlib.crc32(data))
    return _GZIP_HEADER + field + data + packed + _TRAILER_FORMAT.pack(zlib.crc32(content), len(content))


class Archive:
    """An open archive. Raises OSError, and DamagedArchive if the beginning cannot be read."""

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
        os.close(self._descriptor)

    @property
    def is_whole(self) -> bool:
        """True if no line was pruned."""
        return sum(run.size for run in self._runs) == self.summary.size

    @cached_property
    def _runs(self) -> list[_LineRun]:
        """The runs listed in the extra fields. A damaged block ends the list: the lines after it are missing."""
        found: list[_LineRun] = []
        at, offset = self._blocks_offset, 0
        while at < self._file_size and (member := self._read_extra_field(at)) is not None:
            _, data, content, size = member
            block = self._read_block_place(at + content, at + size)
            runs = _parse_runs(data, block, offset) if member[0] == b"RB" else []
            if not runs:
                break
            found += runs
            at, offset = at + size, runs[-1].offset + runs[-1].size
        return found

    @cached_property
    def _run_offsets(self) -> list[int]:
        return [run.offset for run in self._runs]

    def _read_extra_field(self, at: int) -> tuple[bytes, bytes, int, int] | None:
        """Return kind, data, offset of the content in the member, and size of the member; None if invalid."""
        start = len(_GZIP_HEADER) + _EXTRA_FIELD.size
        raw = os.pread(self._descriptor, 4096, at)
        if len(raw) < start or not raw.startswith(_GZIP_HEADER):
            return None
        _, kind, length, size, crc = _EXTRA_FIELD.unpack_from(raw, len(_GZIP_HEADER))
        data = raw[start : start + length - 8]
        if len(data) < length - 8:
            data = os.pread(self._descriptor, length - 8, at + start)
        if zlib.crc32(data) != crc or not start + len(data) + _TRAILER_FORMAT.size < size <= self._file_size - at:
            return None
        return kind, data, start + len(data), size

    def _read_block_place(self, content: int, after: int) -> _ArchiveBlock:
        crc, size = _TRAILER_FORMAT.unpack(
            os.pread(self._descriptor, _TRAILER_FORMAT.size, after - _TRAILER_FORMAT.size)
        )
        return _ArchiveBlock(content, after - _TRAILER_FORMAT.size - content, size, crc)

    def stretches(self) -> list[LineStretch]:
        """Return the complete parts of the segment, in order."""
        found: list[LineStretch] = []
        for run in self._runs:
            if found and found[-1].end == run.offset:
                found[-1] = found[-1]._replace(end=run.offset + run.size, after=run.line + run.lines)
            else:
                found.append(LineStretch(run.offset, run.offset + run.size, run.line, run.line + run.lines))
        return found

    def gaps(self) -> list[tuple[int, int]]:
        """Return the first line number of each gap, and the number after its last."""
        found = self.stretches()
        edges = [(0, 0), *((s.line, s.after) for s in found), (self.summary.lines, self.summary.lines)]
        return [(before[1], after[0]) for before, after in pairwise(edges) if before[1] < after[0]]

    def read_range(self, offset: int, length: int) -> bytes | None:
        """Return the bytes at `offset` of the segment; None if a part was pruned or is damaged."""
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

    def read_prefix(self, offset: int, limit: int) -> bytes:
        """Return at limit `limit` bytes from `offset` on; none in a gap. Damaged blocks read as lines that are not
        records.
        """
        run = self._find_run(offset)
        if run is None:
            return b""
        content = self._read_block(run.block)
        found = _fill_damaged_run(run) if content is None else content[run.block_offset : run.block_offset + run.size]
        return found[offset - run.offset :][:limit]

    def _find_run(self, offset: int) -> _LineRun | None:
        number = bisect_right(self._run_offsets, offset) - 1
        if number < 0 or offset >= self._runs[number].offset + self._runs[number].size:
            return None
        return self._runs[number]

    def _read_block(self, block: _ArchiveBlock) -> bytes | None:
        """Return a block's content, or None if damaged. The last block is cached."""
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


def _parse_runs(data: bytes, block: _ArchiveBlock, offset: int) -> list[_LineRun]:
    """Return the runs of a block; none unless they are in order from `offset` on and fill the block."""
    found: list[_LineRun] = []
    inside = 0
    if block.size > _MAX_BLOCK_BYTES or len(data) % _RUN_FORMAT.size:
        return []
    for start, size, line, lines in _RUN_FORMAT.iter_unpack(data):
        if start < offset or size < max(1, lines):
            return []
        found.append(_LineRun(start, size, line, lines, block, inside))
        inside, offset = inside + size, start + size
    return found if inside == block.size else []


def _fill_damaged_run(run: _LineRun) -> bytes:
    """Return filler with the bytes and lines of a damaged run, so that later lines keep their place."""
    if not run.lines:
        return b"\0" * run.size
    return b"\n" * (run.lines - 1) + b"\0" * (run.size - run.lines) + b"\n"


class ArchiveStream:
    """An archive as a file to read lines from; ends at the first gap."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._next_offset: int = 0
        self._buffer: bytes = b""
        self._buffer_at: int = 0

    def seek(self, offset: int, /) -> int:
        self._next_offset, self._buffer, self._buffer_at = offset, b"", 0
        return offset

    def readline(self, limit: int, /) -> bytes:
        """Read like a file: up to a newline, `limit` bytes, or the end."""
        line = self._read_part(limit)
        while line and not line.endswith(b"\n") and len(line) < limit and (more := self._read_part(limit - len(line))):
            line += more
        return line

    def _read_part(self, limit: int) -> bytes:
        if self._buffer_at == len(self._buffer):
            self._buffer, self._buffer_at = self._archive.read_prefix(self._next_offset, BLOCK_BYTES), 0
            self._next_offset += len(self._buffer)
        end = self._buffer.find(b"\n", self._buffer_at, self._buffer_at + limit) + 1
        start, self._buffer_at = self._buffer_at, end or min(len(self._buffer), self._buffer_at + limit)
        return self._buffer[start : self._buffer_at]


def open_archive(folder: Path, segment: str) -> Archive:
    """Open the archive of a segment. Raises FileNotFoundError, DamagedArchive."""
    return Archive(archive_path(folder, segment))
