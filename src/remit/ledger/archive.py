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

LEVEL = 6
_RUNS = 2500
"""In one block: an extra field has at most 64 KiB."""

_MOST = LINE_LIMIT + BLOCK_BYTES
_GZIP = bytes((0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 0xFF))
_FIELD = struct.Struct("<H2sHII")
"""The length of all extra fields; kind and length of the only one; how long the member is; CRC-32 of what follows."""

_SUMMARY = struct.Struct("<QQQ32s")
_RUN = struct.Struct("<QIII")
_END = struct.Struct("<II")


class DamagedArchive(LedgerError):
    """An archive is not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"the archive {str(path)!r} is damaged: {why}\nhint: see `remit ledger verify`")


class Summary(Struct, frozen=True):
    """The segment as it was. `index` is where its first line stands in the log's tree; `sha256` is of its bytes."""

    index: int
    lines: int
    size: int
    sha256: bytes


class Piece(NamedTuple):
    """Bytes of a segment. `line` counts the lines that ended before it, from 0."""

    offset: int
    line: int
    content: bytes


class _Block(NamedTuple):
    at: int
    packed: int
    size: int
    crc: int


class _Run(NamedTuple):
    offset: int
    size: int
    line: int
    lines: int
    block: _Block
    inside: int


class Stretch(NamedTuple):
    """Bytes of a segment that are all there: the lines from number `line` to before number `after`."""

    offset: int
    end: int
    line: int
    after: int


def pieces_of(path: Path) -> Iterator[Piece]:
    """A segment's lines; one that is too long comes in several pieces."""
    offset = line = 0
    with path.open("rb", buffering=1024 * 1024) as file:
        while content := file.readline(LINE_LIMIT):
            yield Piece(offset, line, content)
            offset += len(content)
            line += content.endswith(b"\n")


def write_archive(path: Path, summary: Summary, pieces: Iterable[Piece]) -> None:
    """Write an archive, on the disk when this returns; its name is not. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        told = _SUMMARY.pack(summary.index, summary.lines, summary.size, summary.sha256)
        file.write(_member(b"RS", told, b""))
        for runs, content in _grouped(pieces):
            file.write(_member(b"RB", b"".join(runs), content))
        file.flush()
        flush(descriptor)


def _grouped(pieces: Iterable[Piece]) -> Iterator[tuple[list[bytes], bytes]]:
    """The runs of each block, and its content."""
    block: list[list[Piece]] = []
    held = 0
    for piece in pieces:
        if held >= BLOCK_BYTES or len(block) >= _RUNS:
            yield _packed(block)
            block, held = [], 0
        if block and block[-1][-1].offset + len(block[-1][-1].content) == piece.offset:
            block[-1].append(piece)
        else:
            block.append([piece])
        held += len(piece.content)
    if block:
        yield _packed(block)


def _packed(block: list[list[Piece]]) -> tuple[list[bytes], bytes]:
    contents = [b"".join(piece.content for piece in run) for run in block]
    runs = [
        _RUN.pack(run[0].offset, len(content), run[0].line, content.count(b"\n"))
        for run, content in zip(block, contents, strict=True)
    ]
    return runs, b"".join(contents)


def _member(kind: bytes, told: bytes, content: bytes) -> bytes:
    squeeze = zlib.compressobj(LEVEL, zlib.DEFLATED, -15)
    packed = squeeze.compress(content) + squeeze.flush()
    size = len(_GZIP) + _FIELD.size + len(told) + len(packed) + _END.size
    field = _FIELD.pack(len(told) + 12, kind, len(told) + 8, size, zlib.crc32(told))
    return _GZIP + field + told + packed + _END.pack(zlib.crc32(content), len(content))


class Archive:
    """An open archive. Raises OSError, DamagedArchive where not even its beginning can be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._held: tuple[_Block | None, bytes | None] = (None, None)
        self._end = os.fstat(self._descriptor).st_size
        first = self._told(0)
        if first is None or first[0] != b"RS" or len(first[1]) != _SUMMARY.size:
            self.close()
            raise DamagedArchive(path, "it does not begin with a summary")
        self.summary = Summary(*_SUMMARY.unpack(first[1]))
        self._first = first[3]

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
    def _runs(self) -> list[_Run]:
        """What the extra fields tell. Blocks after a damaged one are not found: their lines are missing."""
        found: list[_Run] = []
        at, offset = self._first, 0
        while at < self._end and (member := self._told(at)) is not None:
            _, told, content, size = member
            block = self._block(at + content, at + size)
            runs = _sound(told, block, offset) if member[0] == b"RB" else []
            if not runs:
                break
            found += runs
            at, offset = at + size, runs[-1].offset + runs[-1].size
        return found

    @cached_property
    def _starts(self) -> list[int]:
        return [run.offset for run in self._runs]

    def _told(self, at: int) -> tuple[bytes, bytes, int, int] | None:
        """Kind, told bytes, where the content begins in the member, and the member's size."""
        start = len(_GZIP) + _FIELD.size
        raw = os.pread(self._descriptor, 4096, at)
        if len(raw) < start or not raw.startswith(_GZIP):
            return None
        _, kind, length, size, crc = _FIELD.unpack_from(raw, len(_GZIP))
        told = raw[start : start + length - 8]
        if len(told) < length - 8:
            told = os.pread(self._descriptor, length - 8, at + start)
        if zlib.crc32(told) != crc or not start + len(told) + _END.size < size <= self._end - at:
            return None
        return kind, told, start + len(told), size

    def _block(self, content: int, after: int) -> _Block:
        crc, size = _END.unpack(os.pread(self._descriptor, _END.size, after - _END.size))
        return _Block(content, after - _END.size - content, size, crc)

    def stretches(self) -> list[Stretch]:
        """What is there, in order."""
        found: list[Stretch] = []
        for run in self._runs:
            if found and found[-1].end == run.offset:
                found[-1] = found[-1]._replace(end=run.offset + run.size, after=run.line + run.lines)
            else:
                found.append(Stretch(run.offset, run.offset + run.size, run.line, run.line + run.lines))
        return found

    def gaps(self) -> list[tuple[int, int]]:
        """The first line number of each gap, and the one after it."""
        found = self.stretches()
        edges = [(0, 0), *((s.line, s.after) for s in found), (self.summary.lines, self.summary.lines)]
        return [(before[1], after[0]) for before, after in pairwise(edges) if before[1] < after[0]]

    def read(self, offset: int, length: int) -> bytes | None:
        """The bytes at `offset` of the segment; None where some of them were dropped, or are damaged."""
        parts: list[bytes] = []
        while length > 0:
            run = self._run_at(offset)
            content = self._content(run.block) if run else None
            if run is None or content is None:
                return None
            start = run.inside + offset - run.offset
            part = content[start : min(run.inside + run.size, start + length)]
            if not part:
                return None
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)

    def some(self, offset: int, most: int) -> bytes:
        """At most so many bytes from `offset` on; none in a gap. What is damaged reads as lines that are no records."""
        run = self._run_at(offset)
        if run is None:
            return b""
        content = self._content(run.block)
        found = _unreadable(run) if content is None else content[run.inside : run.inside + run.size]
        return found[offset - run.offset :][:most]

    def _run_at(self, offset: int) -> _Run | None:
        number = bisect_right(self._starts, offset) - 1
        if number < 0 or offset >= self._runs[number].offset + self._runs[number].size:
            return None
        return self._runs[number]

    def _content(self, block: _Block) -> bytes | None:
        """A block's content, the newest one remembered; None where it is damaged."""
        if self._held[0] != block:
            self._held = (block, self._unpacked(block))
        return self._held[1]

    def _unpacked(self, block: _Block) -> bytes | None:
        packed = os.pread(self._descriptor, block.packed, block.at)
        try:
            content = zlib.decompressobj(-15).decompress(packed, block.size + 1)
        except zlib.error:
            return None
        return content if len(content) == block.size and zlib.crc32(content) == block.crc else None


def _sound(told: bytes, block: _Block, offset: int) -> list[_Run]:
    """The runs in a block, which come in order from `offset` on and fill it; none where they do not."""
    found: list[_Run] = []
    inside = 0
    if block.size > _MOST or len(told) % _RUN.size:
        return []
    for start, size, line, lines in _RUN.iter_unpack(told):
        if start < offset or size < max(1, lines):
            return []
        found.append(_Run(start, size, line, lines, block, inside))
        inside, offset = inside + size, start + size
    return found if inside == block.size else []


def _unreadable(run: _Run) -> bytes:
    """As many bytes and lines as a damaged run had, so that what comes after keeps its place."""
    if not run.lines:
        return b"\0" * run.size
    return b"\n" * (run.lines - 1) + b"\0" * (run.size - run.lines) + b"\n"


class Stream:
    """An archive as a file whose lines are read; it ends where a gap begins."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._next: int = 0
        self._text: bytes = b""
        self._at: int = 0

    def seek(self, offset: int, /) -> int:
        """Go to an offset of the segment."""
        self._next, self._text, self._at = offset, b"", 0
        return offset

    def readline(self, most: int, /) -> bytes:
        """As a file's: up to a newline, or so many bytes, or the end."""
        line = self._part(most)
        while line and not line.endswith(b"\n") and len(line) < most and (more := self._part(most - len(line))):
            line += more
        return line

    def _part(self, most: int) -> bytes:
        if self._at == len(self._text):
            self._text, self._at = self._archive.some(self._next, BLOCK_BYTES), 0
            self._next += len(self._text)
        end = self._text.find(b"\n", self._at, self._at + most) + 1
        start, self._at = self._at, end or min(len(self._text), self._at + most)
        return self._text[start : self._at]


def opened(folder: Path, segment: str) -> Archive:
    """The archive of a segment. Raises FileNotFoundError, DamagedArchive."""
    return Archive(archive_path(folder, segment))
