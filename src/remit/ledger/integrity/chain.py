"""What verification keeps of each line of a log, in the order in which the lines stand.

Which lines of a damaged log are what was appended, and which of those stand out of their place.

A line is vouched for by the `prev` of the record after it; the last one by the head.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, json

from remit.core.formats.merkle import hash_leaf
from remit.ledger.log import HEAD_LOST, TAIL_LOST
from remit.ledger.reader import LogLine
from remit.ledger.record_views import RecordLine
from remit.ledger.segments import DECODE_ERRORS, ZERO_HASH, Head


class ChainLink(Struct, frozen=True):
    """What verification keeps of a line. `seq` is None where the line is no record at all."""

    segment: str
    line: int
    leaf: str
    seq: int | None = None
    prev: str = ""
    log: str = ""
    last_synced_seq: int | None = None
    """On a record that tells of a lost tail: records after this seq had not been synced."""
    is_pruned: bool = False
    """Whether only the leaf is left: `seq` is what the place promises, and `log` is empty."""
    pruned_ranges: tuple[tuple[int, int], ...] = ()
    """On a record that tells of pruning: the first and last seq of the parts that may have gaps."""
    reports_lost_head: bool = False
    """Whether it is a record of the head being gone when it was appended."""


def read_links(found: Iterable[LogLine]) -> Iterator[ChainLink]:
    """A link for each line."""
    return (build_link(line, number) for number, line in number_lines(found))


def number_lines(found: Iterable[LogLine]) -> Iterator[tuple[int, LogLine]]:
    """Each line with its number in its segment, from 1."""
    number, segment = 0, ""
    for line in found:
        number = number + 1 if line.segment == segment else 1
        segment = line.segment
        yield number, line


def build_link(line: LogLine, number: int) -> ChainLink:
    """The link of a line, the `number`th of its segment."""
    if line.leaf:
        return ChainLink(line.segment, number, line.leaf.hex(), line.seq, line.prev.hex(), is_pruned=True)
    leaf = hash_leaf(line.raw).hex()
    body = _decode_link_view(line.raw) if line.ended else None
    if body is None:
        return ChainLink(line.segment, number, leaf)
    chain = body.chain
    told = _decode_repair_view(line.raw) if body.event in ("recovery", "pruned") else _RepairView()
    prev = chain.prev.removeprefix("sha256:")
    spared = told.synced_seq if told.reason == TAIL_LOST else None
    lost = told.reason == HEAD_LOST
    return ChainLink(
        line.segment,
        number,
        leaf,
        chain.seq,
        prev,
        chain.log,
        spared,
        pruned_ranges=told.pruned,
        reports_lost_head=lost,
    )


def require_seq(link: ChainLink) -> int:
    """The seq of a link that has one."""
    assert link.seq is not None
    return link.seq


class _LinkChain(Struct):
    log: str
    seq: int
    prev: str


class _LinkView(Struct):
    chain: _LinkChain
    event: str = ""


class _LinkRecord(RecordLine[_LinkView]):
    id: str


class _RepairView(Struct):
    reason: str = ""
    synced_seq: int = -1
    pruned: tuple[tuple[int, int], ...] = ()


_LINK_RECORD = json.Decoder(_LinkRecord)
_REPAIR_RECORD = json.Decoder(RecordLine[_RepairView])


def _decode_link_view(raw: bytes) -> _LinkView | None:
    try:
        raw.decode()
        return _LINK_RECORD.decode(raw).metadata.body
    except DECODE_ERRORS:
        return None


def _decode_repair_view(raw: bytes) -> _RepairView:
    try:
        return _REPAIR_RECORD.decode(raw).metadata.body
    except DECODE_ERRORS:
        return _RepairView()


def find_trusted(links: Sequence[ChainLink], head: Head | None) -> set[int]:
    """Which links are what was appended: judged from the end, since each line speaks for the one before."""
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
    """Whether a line that nothing vouches for fits where it stands."""
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
    """Whether the record before is vouched for by the head, and this one names another."""
    leaves = {links[j].leaf for j in by_seq.get(require_seq(links[i]) - 1, ()) if j in good}
    return bool(leaves) and links[i].prev not in leaves


def choose_one_per_seq(links: Sequence[ChainLink], trusted: set[int]) -> tuple[list[int], list[int]]:
    """Of each seq the line that follows its predecessor, in place order; and the copies."""
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
    """Positions of lines that are out of order.

    Where no record is missing each line has one right place, so two that were swapped are both named.
    Otherwise it is the fewest lines whose removal leaves the rest in order.
    """
    if not seqs:
        return set()
    first = min(seqs)
    if max(seqs) - first + 1 == len(seqs):
        return {position for position, seq in enumerate(seqs) if seq != first + position}
    return set(range(len(seqs))) - _find_longest_rise(seqs)


def _find_longest_rise(seqs: Sequence[int]) -> set[int]:
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
