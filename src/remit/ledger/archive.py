"""Archives of sealed segments, compressed and readable by offset and by every gzip; and the tree hashes.

An archive is a sequence of gzip members (RFC 1952, read 2026-11), so `zcat` prints the content. The first member is
empty; the extra field holds the summary. Each further member is a block: the extra field holds the size of the member
and the runs of the segment in the block. A pruned archive has gaps between runs; offsets stay the same.

`tiles/0` holds the leaf hashes, `tiles/1` the roots over 256 leaves each, `tiles/2` the roots over 256 roots each. Hash
`n` of a level starts at byte 32 `n`; 256 consecutive hashes are a tile in the sense of the C2SP specification
`tlog-tiles` (read 2026-11). The files can be rebuilt from complete archives; after pruning they are the only proof.

The hook path does not import this module.
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

from remit.core.record import compute_root
from remit.ledger.log_files import LINE_LIMIT, LedgerError, archive_path, flush, flush_folder

BLOCK_BYTES = 64 * 1024  # bytes that one read decompresses. Twice as much saves 2 % of the space and doubles the time.
TILES_FOLDER = "tiles"
TILE_WIDTH = 256
HASH_BYTES = 32

COMPRESSION_LEVEL = 6
_MAX_RUNS = 2500  # maximum runs in a block: an extra field holds at limit 64 KiB
_MAX_BLOCK_BYTES = LINE_LIMIT + BLOCK_BYTES
_GZIP_HEADER = bytes((0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 0xFF))
_EXTRA_FIELD = struct.Struct("<H2sHII")
"""Length of all extra fields; kind and length of the only field; size of the member; CRC-32 of the data."""

_SUMMARY_FORMAT = struct.Struct("<QQQ32s")
_RUN_FORMAT = struct.Struct("<QIII")
_TRAILER_FORMAT = struct.Struct("<II")
_DATA_START = len(_GZIP_HEADER) + _EXTRA_FIELD.size


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


# -- writing -------------------------------------------------------------------------------------------------


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
        for block in _group_into_blocks(pieces):
            runs = [(run[0], b"".join(piece.content for piece in run)) for run in block]
            packed = (_RUN_FORMAT.pack(p.offset, len(run), p.line, run.count(b"\n")) for p, run in runs)
            file.write(_build_member(b"RB", b"".join(packed), b"".join(run for _, run in runs)))
        file.flush()
        flush(descriptor)


def _group_into_blocks(pieces: Iterable[SegmentPiece]) -> Iterator[list[list[SegmentPiece]]]:
    block: list[list[SegmentPiece]] = []
    size = end = 0
    for piece in pieces:
        if size >= BLOCK_BYTES or len(block) >= _MAX_RUNS:
            yield block
            block, size = [], 0
        if block and end == piece.offset:
            block[-1].append(piece)
        else:
            block.append([piece])
        size += len(piece.content)
        end = piece.offset + len(piece.content)
    if block:
        yield block


def _build_member(kind: bytes, data: bytes, content: bytes) -> bytes:
    compressor = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, -15)
    packed = compressor.compress(content) + compressor.flush()
    size = _DATA_START + len(data) + len(packed) + _TRAILER_FORMAT.size
    field = _EXTRA_FIELD.pack(len(data) + 12, kind, len(data) + 8, size, zlib.crc32(data))
    return _GZIP_HEADER + field + data + packed + _TRAILER_FORMAT.pack(zlib.crc32(content), len(content))


# -- reading -------------------------------------------------------------------------------------------------


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
        self._blocks_offset = first[2]

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def is_whole(self) -> bool:
        return sum(run.size for run in self._runs) == self.summary.size

    @cached_property
    def _runs(self) -> list[_LineRun]:
        found: list[_LineRun] = []
        at, offset = self._blocks_offset, 0
        while at < self._file_size and (member := self._read_extra_field(at)) is not None:
            kind, data, size = member
            end, start = at + size - _TRAILER_FORMAT.size, at + _DATA_START + len(data)
            crc, content_size = _TRAILER_FORMAT.unpack(os.pread(self._descriptor, _TRAILER_FORMAT.size, end))
            block = _ArchiveBlock(start, end - start, content_size, crc)
            runs = _parse_runs(data, block, offset) if kind == b"RB" else []
            if not runs:
                break
            found += runs
            at, offset = at + size, runs[-1].offset + runs[-1].size
        return found

    def _read_extra_field(self, at: int) -> tuple[bytes, bytes, int] | None:
        """Return kind, data, and size of the member at the offset; None if invalid."""
        raw = os.pread(self._descriptor, 4096, at)
        if len(raw) < _DATA_START or not raw.startswith(_GZIP_HEADER):
            return None
        _, kind, length, size, crc = _EXTRA_FIELD.unpack_from(raw, len(_GZIP_HEADER))
        data = raw[_DATA_START : _DATA_START + length - 8]
        if len(data) < length - 8:
            data = os.pread(self._descriptor, length - 8, at + _DATA_START)
        fits = _DATA_START + len(data) + _TRAILER_FORMAT.size < size <= self._file_size - at
        return (kind, data, size) if fits and zlib.crc32(data) == crc else None

    def stretches(self) -> list[LineStretch]:
        found: list[LineStretch] = []
        for run in self._runs:
            start = found.pop() if found and found[-1].end == run.offset else LineStretch(run.offset, 0, run.line, 0)
            found.append(start._replace(end=run.offset + run.size, after=run.line + run.lines))
        return found

    def gaps(self) -> list[tuple[int, int]]:
        edges = [(0, 0), *((s.line, s.after) for s in self.stretches()), (self.summary.lines, self.summary.lines)]
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
        """Return at most `limit` bytes from `offset` on; none in a gap. Damaged blocks read as lines without records,
        of equal bytes and lines: later lines keep their place.
        """
        if (run := self._find_run(offset)) is None:
            return b""
        content = self._read_block(run.block)
        if content is not None:
            found = content[run.block_offset : run.block_offset + run.size]
        elif run.lines:
            found = b"\n" * (run.lines - 1) + b"\0" * (run.size - run.lines) + b"\n"
        else:
            found = b"\0" * run.size
        return found[offset - run.offset :][:limit]

    def _find_run(self, offset: int) -> _LineRun | None:
        number = bisect_right(self._runs, offset, key=lambda run: run.offset) - 1
        run = self._runs[number] if number >= 0 else None
        return run if run and offset < run.offset + run.size else None

    def _read_block(self, block: _ArchiveBlock) -> bytes | None:
        if self._cached_block[0] != block:
            packed = os.pread(self._descriptor, block.packed_size, block.offset)
            try:
                content = zlib.decompressobj(-15).decompress(packed, block.size + 1)
            except zlib.error:
                content = None
            is_intact = content is not None and len(content) == block.size and zlib.crc32(content) == block.crc
            self._cached_block = (block, content if is_intact else None)
        return self._cached_block[1]


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
    return Archive(archive_path(folder, segment))


# -- tree hashes ---------------------------------------------------------------------------------------------


def read_tile_row(folder: Path, level: int, start: int, count: int) -> bytes:
    """Return up to `count` hashes of a level from number `start` on; fewer if the file is shorter."""
    try:
        descriptor = os.open(folder / TILES_FOLDER / str(level), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        present = os.fstat(descriptor).st_size // HASH_BYTES
        found = os.pread(descriptor, max(0, min(count, present - start)) * HASH_BYTES, min(start, present) * HASH_BYTES)
    finally:
        os.close(descriptor)
    return found[: len(found) // HASH_BYTES * HASH_BYTES]


def extend_tiles(folder: Path, start: int, leaves: bytes) -> None:
    """Store leaf hashes from number `start` on, and the roots over all tiles that became full. Raises OSError.
    Repeating the call after a crash writes the same bytes.
    """
    (folder / TILES_FOLDER).mkdir(mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    level = 0
    while leaves:
        descriptor = os.open(folder / TILES_FOLDER / str(level), flags, 0o600)
        try:
            written = 0
            while written < len(leaves):
                written += os.pwrite(descriptor, leaves[written:], start * HASH_BYTES + written)
            flush(descriptor)
        finally:
            os.close(descriptor)
        first, end = start // TILE_WIDTH, (start + len(leaves) // HASH_BYTES) // TILE_WIDTH
        tiles = (read_tile_row(folder, level, number * TILE_WIDTH, TILE_WIDTH) for number in range(first, end))
        leaves = b"".join(compute_root(split_hashes(tile)) for tile in tiles)
        level, start = level + 1, first
    flush_folder(folder / TILES_FOLDER)


def split_hashes(row: bytes) -> Iterator[bytes]:
    return (row[at : at + HASH_BYTES] for at in range(0, len(row), HASH_BYTES))
