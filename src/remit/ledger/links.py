"""What verification keeps of each line of a log, in the order in which the lines stand."""

from collections.abc import Iterable, Iterator

from msgspec import Struct, json

from remit.core.merkle import leaf_hash
from remit.ledger.bodies import Line
from remit.ledger.log import HEAD_LOST, TAIL_LOST
from remit.ledger.reader import LogLine
from remit.ledger.segments import UNREADABLE


class Link(Struct, frozen=True):
    """What verification keeps of a line. `seq` is None where the line is no record at all."""

    segment: str
    line: int
    leaf: str
    seq: int | None = None
    prev: str = ""
    log: str = ""
    spared_after: int | None = None
    """On a record that tells of a lost tail: records after this seq had not been synced."""
    dropped: bool = False
    """Whether only the leaf is left: `seq` is what the place promises, and `log` is empty."""
    pruned: tuple[tuple[int, int], ...] = ()
    """On a record that tells of pruning: the first and last seq of the parts that may have gaps."""
    head_lost: bool = False
    """Whether it is a record of the head being gone when it was appended."""


def links_of(found: Iterable[LogLine]) -> Iterator[Link]:
    """A link for each line."""
    return (link_of(line, number) for number, line in numbered(found))


def numbered(found: Iterable[LogLine]) -> Iterator[tuple[int, LogLine]]:
    """Each line with its number in its segment, from 1."""
    number, segment = 0, ""
    for line in found:
        number = number + 1 if line.segment == segment else 1
        segment = line.segment
        yield number, line


def link_of(line: LogLine, number: int) -> Link:
    """The link of a line, the `number`th of its segment."""
    if line.leaf:
        return Link(line.segment, number, line.leaf.hex(), line.seq, line.prev.hex(), dropped=True)
    leaf = leaf_hash(line.raw).hex()
    body = _body(line.raw) if line.ended else None
    if body is None:
        return Link(line.segment, number, leaf)
    chain = body.chain
    told = _told(line.raw) if body.event in ("recovery", "pruned") else _Loss()
    prev = chain.prev.removeprefix("sha256:")
    spared = told.synced_seq if told.reason == TAIL_LOST else None
    lost = told.reason == HEAD_LOST
    return Link(line.segment, number, leaf, chain.seq, prev, chain.log, spared, pruned=told.pruned, head_lost=lost)


def seq_in(link: Link) -> int:
    """The seq of a link that has one."""
    assert link.seq is not None
    return link.seq


class _Chain(Struct):
    log: str
    seq: int
    prev: str


class _Body(Struct):
    chain: _Chain
    event: str = ""


class _Line(Line[_Body]):
    id: str


class _Loss(Struct):
    reason: str = ""
    synced_seq: int = -1
    pruned: tuple[tuple[int, int], ...] = ()


_LINE = json.Decoder(_Line)
_LOSS = json.Decoder(Line[_Loss])


def _body(raw: bytes) -> _Body | None:
    try:
        raw.decode()
        return _LINE.decode(raw).metadata.body
    except UNREADABLE:
        return None


def _told(raw: bytes) -> _Loss:
    try:
        return _LOSS.decode(raw).metadata.body
    except UNREADABLE:
        return _Loss()
