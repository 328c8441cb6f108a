"""The hashes of the log's tree that are kept beside the archives, so that proofs outlive pruned records.

`tiles/0` has the leaf hashes, `tiles/1` the roots over 256 of them each, `tiles/2` over 256 of those: hash `n` of a
level stands at byte 32 `n`, so 256 in a row are a tile as the C2SP specification `tlog-tiles` (read 2026-11) cuts it.
While an archive has its records these files can be made again; after pruning they are the only proof.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from remit.core.formats.merkle import compute_root
from remit.ledger.segments import flush, flush_folder

FOLDER = "tiles"
TILE_WIDTH = 256
HASH_BYTES = 32


def read_tile_row(folder: Path, level: int, start: int, count: int) -> bytes:
    """The hashes from number `start` on, as far as they are there."""
    try:
        descriptor = os.open(folder / FOLDER / str(level), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        there = os.fstat(descriptor).st_size // HASH_BYTES
        found = os.pread(descriptor, max(0, min(count, there - start)) * HASH_BYTES, min(start, there) * HASH_BYTES)
    finally:
        os.close(descriptor)
    return found[: len(found) // HASH_BYTES * HASH_BYTES]


def extend_tiles(folder: Path, start: int, leaves: bytes) -> None:
    """Keep the leaves from number `start` on, and the roots over those tiles that are full now. Raises OSError.

    Doing it again after a crash writes the same.
    """
    (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
    level = 0
    while leaves:
        _write_row(folder, level, start, leaves)
        first, end = start // TILE_WIDTH, (start + len(leaves) // HASH_BYTES) // TILE_WIDTH
        leaves = b"".join(_compute_tile_roots(folder, level, first, end))
        level, start = level + 1, first
    flush_folder(folder / FOLDER)


def _compute_tile_roots(folder: Path, level: int, first: int, end: int) -> Iterator[bytes]:
    for number in range(first, end):
        yield compute_root(split_hashes(read_tile_row(folder, level, number * TILE_WIDTH, TILE_WIDTH)))


def split_hashes(row: bytes) -> Iterator[bytes]:
    """The hashes in a row, one by one."""
    return (row[at : at + HASH_BYTES] for at in range(0, len(row), HASH_BYTES))


def _write_row(folder: Path, level: int, start: int, row: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(folder / FOLDER / str(level), flags, 0o600)
    try:
        written = 0
        while written < len(row):
            written += os.pwrite(descriptor, row[written:], start * HASH_BYTES + written)
        flush(descriptor)
    finally:
        os.close(descriptor)
