"""Tree hashes stored beside the archives, so that proofs outlive pruned records.

`tiles/0` holds the leaf hashes, `tiles/1` the roots over 256 leaves each, `tiles/2` the roots over 256 of those. Hash
`n` of a level starts at byte 32 `n`; 256 consecutive hashes are a tile in the sense of the C2SP specification
`tlog-tiles` (read 2026-11). The files can be rebuilt from complete archives; after pruning they are the only proof.
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
    """Return up to `count` hashes of a level from number `start` on; fewer if the file is shorter."""
    try:
        descriptor = os.open(folder / FOLDER / str(level), os.O_RDONLY | os.O_CLOEXEC)
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
