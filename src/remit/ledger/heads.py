"""Tree heads of a log: what they are made of, where they are kept, and whether their lines are still there.

The tree's leaves are the lines of the log in the order in which they stand. A head that somebody kept vouches for
every line under it: a line that was altered, taken out or cut off since makes another root.
"""

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from remit.core.merkle import Peaks, grow, leaf_hash, summit
from remit.ledger.bodies import Line
from remit.ledger.reader import LineNotThere, LogLine, Place, positions, read_at, segment_size
from remit.ledger.segments import UNREADABLE, ZEROS, archive_path, segments
from remit.ledger.tiles import tile_row

FOLDER = "heads"
EVERY = 1024
"""Records after which a head is made, though no session ended."""

WHOLE_BYTES = 64 * 1024 * 1024
"""A log up to this size is hashed as a whole for each head, so that a change inside is noticed then."""

INSIDE_ALTERED = "inside_altered"
"""The reason in the detail of a `recovery` record: an earlier head's lines are not what they were."""


class Frontier(Struct, frozen=True):
    """Where the newest head of this machine stands, and what the next one goes on from. A cache.

    `peaks` are heights and hashes; `segment`, `offset` and `length` lead to the last line under the head, `leaf` is
    its hash. `commit` is what HEAD named.
    """

    size: int
    root: str
    peaks: tuple[tuple[int, str], ...]
    segment: str
    offset: int
    length: int
    leaf: str
    seq: int
    commit: str | None = None


class Measured(Struct, frozen=True):
    """A log as one tree. `earlier` is the root at the size that was asked for, None where the log is shorter."""

    frontier: Frontier | None
    earlier: str | None = None


class FoundHead(Struct, frozen=True):
    """A signed note, and where it was found: `heads/…`, `record …`, `note of commit …` or a ref's name."""

    note: str
    where: str


def read_frontier(folder: Path) -> Frontier | None:
    """What is remembered of the newest head; None where nothing readable is."""
    at = f"{folder}/{FOLDER}/frontier.json"
    try:
        status = os.stat(at)  # noqa: PTH116  after every call
    except FileNotFoundError:
        return None
    return frontier_in(at, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(32)
def frontier_in(at: str, state: tuple[int, ...]) -> Frontier | None:
    """The frontier that this file holds in this state; it is replaced as a whole, never written into."""
    try:
        return json.decode(Path(at).read_bytes(), type=Frontier)
    except (FileNotFoundError, *UNREADABLE):
        return None


def log_bytes(folder: Path) -> int:
    """How large a log is, or was before parts of it were archived."""
    return sum(segment_size(folder, name) for name in segments(folder))


def measure(folder: Path, known: Frontier | None, *, whole: bool) -> Measured:
    """The log's tree as it is now. Unless `whole`, it goes on from `known`, where that still fits."""
    if known is not None and not whole and stands(folder, known):
        peaks = [(height, bytes.fromhex(digest)) for height, digest in known.peaks]
        after = Place(known.segment, known.offset + known.length + 1, known.seq + 1)
        grown = _measured(_ended(folder, after), peaks, known.size, None)
        return Measured(grown.frontier if grown else known, known.root)
    return _measured(_ended(folder), [], 0, known.size if known else None) or Measured(None)


def _ended(folder: Path, start: Place | None = None) -> Iterator[LogLine]:
    return (line for line in positions(folder, start) if line.ended)


def leaves(folder: Path) -> Iterator[bytes]:
    """The leaf hashes of a log, those of pruned records included: what tree heads are made of."""
    return (line.hashed for line in _ended(folder))


def _measured(found: Iterable[LogLine], peaks: Peaks, size: int, asked: int | None) -> Measured | None:
    earlier: str | None = None
    line: LogLine | None = None
    leaf = b""
    for line in found:
        leaf = line.hashed
        grow(peaks, leaf)
        size += 1
        if size == asked:
            earlier = summit(peaks).hex()
    if line is None:
        return None
    kept = tuple((height, digest.hex()) for height, digest in peaks)
    place = (line.segment, line.offset, len(line.raw), leaf.hex(), line.seq)
    return Measured(Frontier(size, summit(peaks).hex(), kept, *place), earlier)


def stands(folder: Path, known: Frontier) -> bool:
    """Whether the last line under a head is still where it was, or its hash is where it was pruned."""
    try:
        line = read_at(folder, known.segment, known.offset, known.length)
    except LineNotThere:
        pruned = archive_path(folder, known.segment).exists()
        return pruned and tile_row(folder, 0, known.size - 1, 1).hex() == known.leaf
    return leaf_hash(line).hex() == known.leaf


def keep_head(folder: Path, note: str, frontier: Frontier) -> None:
    """Keep a head beside the log. Raises OSError."""
    kept = folder / FOLDER
    kept.mkdir(mode=0o700, exist_ok=True)
    _put(kept / f"{frontier.size:012d}-{frontier.root[:12]}.note", note.encode())
    _put(kept / "frontier.json", json.encode(frontier))


def _put(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def kept_heads(folder: Path) -> Iterator[FoundHead]:
    """The heads beside the log, oldest first."""
    for path in sorted((folder / FOLDER).glob("*.note")):
        yield FoundHead(path.read_text("utf-8", "replace"), f"{FOLDER}/{path.name}")


class _Noted(Struct):
    note: str = ""


_LINE = json.Decoder(Line[_Noted])


def recorded_heads(found: Iterable[LogLine]) -> Iterator[FoundHead]:
    """The heads that `tree_head` records of a log hold."""
    for line in found:
        if b'"event":"tree_head"' in line.raw and (note := note_in(line.raw)):
            yield FoundHead(note, f"record {line.seq}")


def note_in(raw: bytes) -> str:
    """The signed note in a record; empty where there is none."""
    try:
        return _LINE.decode(raw).metadata.body.note
    except UNREADABLE:
        return ""


def altered_inside(known: Frontier, measured: Measured) -> dict[str, Any]:
    """The detail of the record that says so, naming both roots."""
    found = measured.earlier or ZEROS
    return {"reason": INSIDE_ALTERED, "size": known.size, "expected_root": known.root, "found_root": found}
