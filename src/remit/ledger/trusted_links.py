"""Which lines of a damaged log are what was appended, and which of those stand out of their place.

A line is vouched for by the `prev` of the record after it; the last one by the head.
"""

from bisect import bisect_left
from collections.abc import Sequence

from remit.ledger.links import Link, seq_in
from remit.ledger.segments import ZEROS, Head


def trusted_among(links: Sequence[Link], head: Head | None) -> set[int]:
    """Which links are what was appended: judged from the end, since each line speaks for the one before."""
    by_seq = _by_seq(links)
    good: set[int] = set()
    for seq in sorted(by_seq, reverse=True):
        if head is not None and head.seq == seq:
            claims = {head.leaf}
        else:
            claims = {links[i].prev for i in by_seq.get(seq + 1, ()) if i in good}
        good.update(i for i in by_seq[seq] if (links[i].leaf in claims if claims else _joins(links, i, by_seq)))
    return {i for i in good if not _contradicted(links, i, by_seq, good)}


def _by_seq(links: Sequence[Link]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for i, link in enumerate(links):
        if link.seq is not None:
            found.setdefault(link.seq, []).append(i)
    return found


def _joins(links: Sequence[Link], i: int, by_seq: dict[int, list[int]]) -> bool:
    """Whether a line that nothing vouches for fits where it stands."""
    link = links[i]
    seq = seq_in(link)
    if seq == 0:
        return link.prev == ZEROS
    if any(links[j].leaf == link.prev for j in by_seq.get(seq - 1, ())):
        return True
    before = links[i - 1].seq if i else None
    after = links[i + 1].seq if i + 1 < len(links) else None
    if before is None:
        return False
    return before == seq - 1 or (after is not None and before < seq < after)


def _contradicted(links: Sequence[Link], i: int, by_seq: dict[int, list[int]], good: set[int]) -> bool:
    """Whether the record before is vouched for by the head, and this one names another."""
    leaves = {links[j].leaf for j in by_seq.get(seq_in(links[i]) - 1, ()) if j in good}
    return bool(leaves) and links[i].prev not in leaves


def each_once(links: Sequence[Link], trusted: set[int]) -> tuple[list[int], list[int]]:
    """Of each seq the line that follows its predecessor, in place order; and the copies."""
    chosen: dict[int, int] = {}
    for i in sorted(trusted):
        seq = seq_in(links[i])
        follows = i > 0 and links[i - 1].seq == seq - 1
        if seq not in chosen or (follows and not _follows(links, chosen[seq])):
            chosen[seq] = i
    kept = sorted(chosen.values())
    return kept, sorted(trusted - set(kept))


def _follows(links: Sequence[Link], i: int) -> bool:
    return links[i - 1].seq == seq_in(links[i]) - 1 if i else links[i].seq == 0


def strays_among(seqs: Sequence[int]) -> set[int]:
    """Positions of lines that are out of order.

    Where no record is missing each line has one right place, so two that were swapped are both named.
    Otherwise it is the fewest lines whose removal leaves the rest in order.
    """
    if not seqs:
        return set()
    first = min(seqs)
    if max(seqs) - first + 1 == len(seqs):
        return {position for position, seq in enumerate(seqs) if seq != first + position}
    return set(range(len(seqs))) - _longest_rise(seqs)


def _longest_rise(seqs: Sequence[int]) -> set[int]:
    """Positions of a longest increasing subsequence."""
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
