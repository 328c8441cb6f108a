"""Making proofs over a log: from the hashes beside its archives, and the lines that are not archived yet."""

from bisect import bisect_right
from pathlib import Path

from msgspec import Struct

from remit.core.merkle import node_hash, root
from remit.core.proofs import ConsistencyProof, InclusionProof, consistency_path, inclusion_path
from remit.core.treehead import TreeHead
from remit.ledger.newest import seq_of
from remit.ledger.reader import LogLine, Place, positions, segment_index, segment_lines
from remit.ledger.segments import LedgerError, archived_segments, first_seq, live_segments, segments
from remit.ledger.tiles import HASH_BYTES, WIDTH, hashes, tile_row


class NoSuchRecord(LedgerError):
    """The log has no record with that number."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"the log has no record {seq}\nhint: `remit ledger verify` says how many there are")


class Standing(Struct, frozen=True):
    """A record's place in the tree. `line` has only a leaf where the record was pruned."""

    index: int
    line: LogLine


class Tree:
    """The hash tree of a log as it is now. Opening reads the lines that are not archived."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        archived, live = archived_segments(folder), live_segments(folder)
        self.kept = segment_index(folder, archived[-1])[1] if archived else 0
        """How many leaves are kept beside the archives."""
        start = Place(live[0], 0, first_seq(live[0])) if live else None
        if archived and live and live[0] in archived:
            self.kept = segment_index(folder, live[0])[0]
        found = positions(folder, start) if live else ()
        self._tail = b"".join(line.hashed for line in found if line.ended)

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self.kept + len(self._tail) // HASH_BYTES

    def hash(self, low: int, high: int) -> bytes:
        """The root over the leaves from `low` to before `high`."""
        count = high - low
        if count & (count - 1) or low % count:
            middle = low + (1 << (count - 1).bit_length() - 1)
            return node_hash(self.hash(low, middle), self.hash(middle, high))
        level, width = self._widest(high, count)
        if level or high <= self.kept:
            return root(hashes(self._row(level, low // width, count // width)))
        if low >= self.kept:
            start = (low - self.kept) * HASH_BYTES
            return root(hashes(self._tail[start : start + count * HASH_BYTES]))
        middle = low + count // 2
        return node_hash(self.hash(low, middle), self.hash(middle, high))

    def _widest(self, high: int, count: int) -> tuple[int, int]:
        """The level of hashes over the most leaves that fit, and over how many those are."""
        level, width = 0, 1
        while width * WIDTH <= count and high <= self.kept:
            level, width = level + 1, width * WIDTH
        return level, width

    def _row(self, level: int, start: int, count: int) -> bytes:
        return tile_row(self.folder, level, start, count).ljust(count * HASH_BYTES, b"\0")


def standing(folder: Path, seq: int) -> Standing:
    """Where the record with that number stands. Raises NoSuchRecord."""
    names = segments(folder)
    number = bisect_right([first_seq(name) for name in names], seq) - 1
    if number >= 0:
        index = segment_index(folder, names[number])[0]
        for line in segment_lines(folder, names[number]):
            if (line.seq if line.leaf else seq_of(line.raw)) == seq:
                return Standing(index, line)
            index += 1
    raise NoSuchRecord(seq)


def inclusion(folder: Path, place: Standing, head: TreeHead, note: str) -> InclusionProof:
    """The proof that a record is under a head, which has to be large enough."""
    path = inclusion_path(place.index, head.size, Tree(folder).hash)
    told = None if place.line.leaf else place.line.raw.decode("utf-8", "surrogateescape")
    leaf = place.line.hashed.hex()
    return InclusionProof(head.origin, place.index, head.size, leaf, tuple(h.hex() for h in path), note, told)


def consistency(folder: Path, old: tuple[TreeHead, str], new: tuple[TreeHead, str]) -> ConsistencyProof:
    """The proof that the log under one head begins with the log under an older one."""
    path = consistency_path(old[0].size, new[0].size, Tree(folder).hash)
    sizes = (old[0].size, new[0].size)
    return ConsistencyProof(new[0].origin, *sizes, tuple(h.hex() for h in path), old[1], new[1])
