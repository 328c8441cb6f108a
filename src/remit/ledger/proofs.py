"""Proofs over a log, computed from the hashes beside its archives and from the unarchived lines."""

from bisect import bisect_right
from pathlib import Path

from msgspec import Struct

from remit.core.formats.proofs import ConsistencyProof, InclusionProof, build_consistency_path, build_inclusion_path
from remit.core.record import compute_root
from remit.core.tree_head import TreeHead
from remit.ledger.archive import HASH_BYTES, read_tile_row, split_hashes
from remit.ledger.log_files import (
    LedgerError,
    decode_header,
    first_seq,
    list_archived_segments,
    list_live_segments,
    list_segments,
)
from remit.ledger.reader import LogLine, LogPosition, find_tree_range, read_positions, read_segment_lines


class NoSuchRecord(LedgerError):
    """A record number outside the log."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"the log has no record {seq}\nhint: `remit ledger verify` says how many there are")


class TreePlace(Struct, frozen=True):
    """The place of a record in the tree. `line` has only a leaf if the record was pruned."""

    index: int
    line: LogLine


class LogTree:
    """The leaf hashes of a log: those beside its archives, then those of the unarchived lines."""

    def __init__(self, folder: Path) -> None:
        archived, live = list_archived_segments(folder), list_live_segments(folder)
        self.tile_leaves = find_tree_range(folder, archived[-1])[1] if archived else 0
        start = LogPosition(live[0], 0, first_seq(live[0])) if live else None
        if archived and live and live[0] in archived:
            self.tile_leaves = find_tree_range(folder, live[0])[0]
        kept = read_tile_row(folder, 0, 0, self.tile_leaves).ljust(self.tile_leaves * HASH_BYTES, b"\0")
        found = read_positions(folder, start) if live else ()
        self._leaves = kept + b"".join(line.leaf_digest for line in found if line.ended)

    @property
    def size(self) -> int:
        return len(self._leaves) // HASH_BYTES

    def compute_root(self, low: int, high: int) -> bytes:
        """Return the root over the leaves from `low` up to, but excluding, `high`."""
        return compute_root(split_hashes(self._leaves[low * HASH_BYTES : high * HASH_BYTES]))


def find_tree_place(folder: Path, seq: int) -> TreePlace:
    """Return the place of a record. Raises NoSuchRecord."""
    names = list_segments(folder)
    number = bisect_right([first_seq(name) for name in names], seq) - 1
    if number >= 0:
        index = find_tree_range(folder, names[number])[0]
        for line in read_segment_lines(folder, names[number]):
            header = None if line.leaf else decode_header(line.raw)
            if seq == (line.seq if line.leaf else header and header.chain.seq):
                return TreePlace(index, line)
            index += 1
    raise NoSuchRecord(seq)


def prove_inclusion(folder: Path, place: TreePlace, head: TreeHead, note: str) -> InclusionProof:
    """Prove that a record is under a head; the head must be large enough."""
    path = build_inclusion_path(place.index, head.size, LogTree(folder).compute_root)
    text = None if place.line.leaf else place.line.raw.decode("utf-8", "surrogateescape")
    leaf = place.line.leaf_digest.hex()
    return InclusionProof(head.origin, place.index, head.size, leaf, tuple(h.hex() for h in path), note, text)


def prove_consistency(folder: Path, old: tuple[TreeHead, str], new: tuple[TreeHead, str]) -> ConsistencyProof:
    """Prove that the log under the new head begins with the log under the old head."""
    path = build_consistency_path(old[0].size, new[0].size, LogTree(folder).compute_root)
    sizes = (old[0].size, new[0].size)
    return ConsistencyProof(new[0].origin, *sizes, tuple(h.hex() for h in path), old[1], new[1])
