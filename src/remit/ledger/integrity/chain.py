"""The chain of a log as links: which lines are confirmed, and which are out of place.

The `prev` of a record confirms the line before; the head confirms the last line.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remit.core.formats.merkle import hash_leaf
from remit.ledger.log import HEAD_LOST, TAIL_LOST
from remit.ledger.reader import LogLine
from remit.ledger.record_views import RepairView, decode_header, decode_repair
from remit.ledger.segments import ZERO_HASH, Head


class ChainLink(Struct, frozen=True):
    """The facts of a line for verification. `seq` is None if the line is not a record."""

    segment: str
    line: int
    leaf: str
    seq: int | None = None
    prev: str = ""
    log: str = ""
    last_synced_seq: int | None = None
    """In a record of a lost tail: records after this seq had not been synced."""
    is_pruned: bool = False
    """True if only the leaf hash is left: `seq` then follows from the place, and `log` is empty."""
    pruned_ranges: tuple[tuple[int, int], ...] = ()
    """In a `pruned` record: first and last seq of the parts with possible gaps."""
    reports_lost_head: bool = False
    """True in a record that reports a missing head."""


def read_links(found: Iterable[LogLine]) -> Iterator[ChainLink]:
    return (build_link(line, number) for number, line in number_lines(found))


def number_lines(found: Iterable[LogLine]) -> Iterator[tuple[int, LogLine]]:
    """Yield each line with the 1-based number in the segment."""
    number, segment = 0, ""
    for line in found:
        number = number + 1 if line.segment == segment else 1
        segment = line.segment
        yield number, line


def build_link(line: LogLine, number: int) -> ChainLink:
    if line.leaf:
        return ChainLink(line.segment, number, line.leaf.hex(), line.seq, line.prev.hex(), is_pruned=True)
    leaf = hash_leaf(line.raw).hex()
    header = decode_header(line.raw) if line.ended else None
    if header is None:
        return ChainLink(line.segment, number, leaf)
    chain = header.chain
    repair = decode_repair(line.raw) if header.event in ("recovery", "pruned") else RepairView()
    return ChainLink(
        line.segment,
        number,
        leaf,
        chain.seq,
        chain.prev.removeprefix("sha256:"),
        chain.log,
        last_synced_seq=repair.synced_seq if repair.reason == TAIL_LOST else None,
        pruned_ranges=repair.pruned,
        reports_lost_head=repair.reason == HEAD_LOST,
    )


def require_seq(link: ChainLink) -> int:
    assert link.seq is not None
    return link.seq


def find_trusted(links: Sequence[ChainLink], head: Head | None) -> set[int]:
    """Return the indexes of confirmed links. Works backwards, as each line confirms its predecessor."""
    by_seq = _group_by_seq(links)
    good: set[int] = set()
    for seq in sorted(by_seq, reverse=True):
        if head is not None and head.seq == seq:
            claims = {head.leaf}
        else:
            claims = {links[i].prev for i in by_seq.get(seq + 1, ()) if i in good}
        good.update(i for i in by_seq[seq] if (links[i].leaf in claims if claims else _fits_in_place(links, i, by_seq)))
    return {i for i in good if not _contradicts_predecessor(links, i, by_seq, good)}


def _group_by_seq(links: Sequence[ChainLink]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for i, link in enumerate(links):
        if link.seq is not None:
            found.setdefault(link.seq, []).append(i)
    return found


def _fits_in_place(links: Sequence[ChainLink], i: int, by_seq: dict[int, list[int]]) -> bool:
    """Return True if an unconfirmed line fits at its place."""
    link = links[i]
    seq = require_seq(link)
    if seq == 0:
        return link.prev == ZERO_HASH
    if any(links[j].leaf == link.prev for j in by_seq.get(seq - 1, ())):
        return True
    before = links[i - 1].seq if i else None
    after = links[i + 1].seq if i + 1 < len(links) else None
    if before is None:
        return False
    return before == seq - 1 or (after is not None and before < seq < after)


def _contradicts_predecessor(links: Sequence[ChainLink], i: int, by_seq: dict[int, list[int]], good: set[int]) -> bool:
    """Return True if the predecessor is confirmed and contradicts the link's `prev`."""
    leaves = {links[j].leaf for j in by_seq.get(require_seq(links[i]) - 1, ()) if j in good}
    return bool(leaves) and links[i].prev not in leaves


def choose_one_per_seq(links: Sequence[ChainLink], trusted: set[int]) -> tuple[list[int], list[int]]:
    """Return the index of a line per seq, preferably right after its predecessor, and the indexes of copies."""
    chosen: dict[int, int] = {}
    for i in sorted(trusted):
        seq = require_seq(links[i])
        follows = i > 0 and links[i - 1].seq == seq - 1
        if seq not in chosen or (follows and not _follows_predecessor(links, chosen[seq])):
            chosen[seq] = i
    kept = sorted(chosen.values())
    return kept, sorted(trusted - set(kept))


def _follows_predecessor(links: Sequence[ChainLink], i: int) -> bool:
    return links[i - 1].seq == require_seq(links[i]) - 1 if i else links[i].seq == 0


def find_strays(seqs: Sequence[int]) -> set[int]:
    """Return the positions of lines that are out of order.

    Without missing records each line has exactly a single right place, so both swapped lines are named. With missing
    records: the smallest set of lines whose removal leaves the rest in order.
    """
    if not seqs:
        return set()
    first = min(seqs)
    if max(seqs) - first + 1 == len(seqs):
        return {position for position, seq in enumerate(seqs) if seq != first + position}
    return set(range(len(seqs))) - _find_longest_rise(seqs)


def _find_longest_rise(seqs: Sequence[int]) -> set[int]:
    """Return the positions of a longest increasing subsequence."""
    ends: list[int] = []
    positions: list[int] = []
    before: list[int] = []
    for position, seq in enumerate(seqs):
        at = bisect_left(ends, seq)
        before.append(positions[at - 1] if at else -1)
        ends[at : at + 1] = [seq]
        positions[at : at + 1] = [position]
    rise: set[int] = set()
    position = positions[-1]
    while position >= 0:
        rise.add(position)
        position = before[position]
    return rise
