"""Compaction: sealed segments become archives, which are read back before the original is removed.

Each segment exists completely in at least one form at any time, so a crash loses nothing and readers never wait.
Appends wait only while a file is removed.
"""

import hashlib
from pathlib import Path

from msgspec import Struct

from remit.ledger import lock
from remit.ledger.archive import (
    Archive,
    DamagedArchive,
    SegmentSummary,
    open_archive,
    read_segment_pieces,
    write_archive,
)
from remit.ledger.reader import find_tree_range, read_segment_lines
from remit.ledger.segments import (
    ARCHIVE_FOLDER,
    LINE_LIMIT,
    LedgerError,
    archive_path,
    flush_folder,
    list_archived_segments,
    list_live_segments,
)
from remit.ledger.tiles import HASH_BYTES, extend_tiles, read_tile_row

_BUFFER_BYTES = 1024 * 1024


class CompactionResult(Struct, frozen=True):
    """Result of a compaction: the archived segments and records, and their bytes before and after."""

    segments: int = 0
    records: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


class SegmentOutOfOrder(LedgerError):
    """A segment whose predecessor has no place in the tree, so archiving is impossible."""

    def __init__(self, segment: str, why: str) -> None:
        super().__init__(f"segment {segment!r} cannot be archived: {why}\nhint: see `remit ledger verify`")


def sealed_segments(folder: Path) -> list[str]:
    """Return the sealed segments: those before the newest segment with a complete line."""
    names = list_live_segments(folder)
    while names and not _has_line(folder / names[-1]):
        names.pop()
    return names[:-1]


def _has_line(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\n" in file.read(LINE_LIMIT)


def compact(folder: Path, *, max_segments: int | None = None) -> CompactionResult:
    """Archive at most `max_segments` sealed segments, the oldest first. Raises OSError, LedgerError.

    A lock lets one process work at a time; work interrupted by a crash is repeated.
    """
    names = sealed_segments(folder)[:max_segments]
    if not names:
        return CompactionResult()
    (folder / ARCHIVE_FOLDER).mkdir(mode=0o700, exist_ok=True)
    locked = lock.acquire(folder / ARCHIVE_FOLDER / "lock")
    try:
        for left in (folder / ARCHIVE_FOLDER).glob("*.new"):
            left.unlink()
        completed = [_archive_segment(folder, name) for name in names if (folder / name).exists()]
    finally:
        lock.release(locked)
    return (
        CompactionResult(len(completed), *map(sum, zip(*completed, strict=True))) if completed else CompactionResult()
    )


def _archive_segment(folder: Path, segment: str) -> tuple[int, int, int]:
    """Archive a segment. Returns the number of records, the original size and the archive's size."""
    live, path = folder / segment, archive_path(folder, segment)
    fresh = path.with_name(f"{path.name}.new")
    summary, leaves = _summarize_segment(folder, segment)
    extend_tiles(folder, summary.index, leaves)
    if not is_same_content(folder, segment, path):
        write_archive(fresh, summary, read_segment_pieces(live))
        if not is_same_content(folder, segment, fresh):
            raise DamagedArchive(fresh, f"it does not give back {segment!r}, which was left as it is")
        fresh.replace(path)
    flush_folder(path.parent)
    _remove_segment(folder, segment, summary)
    return summary.lines, summary.size, path.stat().st_size


def _summarize_segment(folder: Path, segment: str) -> tuple[SegmentSummary, bytes]:
    digest = hashlib.sha256()
    with (folder / segment).open("rb") as file:
        while block := file.read(_BUFFER_BYTES):
            digest.update(block)
        size = file.tell()
    leaves = [line.leaf_digest for line in read_segment_lines(folder, segment) if line.ended]
    return SegmentSummary(_find_tree_index(folder, segment), len(leaves), size, digest.digest()), b"".join(leaves)


def _find_tree_index(folder: Path, segment: str) -> int:
    """Return the tree index of a segment's first line. All earlier segments must be archived. Raises OutOfOrder."""
    before = max((name for name in list_archived_segments(folder) if name < segment), default="")
    if any(name < segment for name in list_live_segments(folder)):
        raise SegmentOutOfOrder(segment, "one before it is not archived")
    if not before:
        return 0
    index = find_tree_range(folder, before)[1]
    if len(read_tile_row(folder, 0, 0, index)) < index * HASH_BYTES:
        _rebuild_tiles(folder, segment)
    return index


def _rebuild_tiles(folder: Path, segment: str) -> None:
    """Rebuild the tile hashes of complete archives from their records. Pruned archives keep the stored hashes."""
    for name in list_archived_segments(folder):
        with open_archive(folder, name) as archive:
            index, gaps = archive.summary.index, archive.gaps()
        if name < segment and not gaps:
            extend_tiles(
                folder, index, b"".join(line.leaf_digest for line in read_segment_lines(folder, name) if line.ended)
            )


def is_same_content(folder: Path, segment: str, path: Path) -> bool:
    """Return True if the archive at `path` reproduces every byte of a segment that still exists."""
    try:
        archive = Archive(path)
    except (FileNotFoundError, DamagedArchive):
        return False
    with archive, (folder / segment).open("rb") as file:
        offset = 0
        while block := file.read(_BUFFER_BYTES):
            if archive.read_range(offset, len(block)) != block:
                return False
            offset += len(block)
        return archive.is_whole and archive.summary.size == offset


def _remove_segment(folder: Path, segment: str, summary: SegmentSummary) -> None:
    """Remove an archived segment, unless a process appended to the segment in the meantime."""
    locked = lock.acquire(folder / "lock")
    try:
        path = folder / segment
        if segment in sealed_segments(folder) and path.stat().st_size == summary.size:
            path.unlink()
            flush_folder(folder)
    finally:
        lock.release(locked)
