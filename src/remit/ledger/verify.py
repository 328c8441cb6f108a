"""Whether the log is what was appended, and if not, which records are not.

A line is vouched for by the `prev` of the record after it; the last one by the head. So a changed line is
known by what its successor says, and named by its place among lines that are vouched for, never by the
seq that it claims itself.

What cannot be told: where a line and the one before it were both altered, only the later is named, since
the line that would convict the earlier is itself not to be trusted. A line after which nothing stands and
that the head does not know yet (a crash came between) is not vouched for; `head_behind` says so. The same
user can rewrite log and head together: only a tree head kept elsewhere notices that.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, json

from remit.core.merkle import leaf_hash
from remit.core.record import KEY
from remit.ledger import lock
from remit.ledger.log import TAIL_LOST
from remit.ledger.reader import LogLine, positions, segment_size
from remit.ledger.segments import UNREADABLE, ZEROS, Head, read_head, segments

FindingCode: TypeAlias = Literal[
    "altered",
    "removed",
    "truncated",
    "duplicated",
    "moved",
    "foreign",
    "wrong_log",
    "torn_tail",
    "head_missing",
    "head_behind",
    "head_unreadable",
    "head_forged",
    "rewritten",
    "unproved",
    "tracked_damaged",
]


class LedgerFinding(Struct, frozen=True):
    """One thing wrong with a log.

    `seq` to `last_seq` are the records it is about, None where there is none. `line` is 1-based in its
    segment: where the finding shows, which for records that are gone is the line before the gap.
    """

    code: FindingCode
    severity: Literal["error", "warning"]
    message: str
    seq: int | None = None
    last_seq: int | None = None
    segment: str = ""
    line: int = 0


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


class Chained(Struct, frozen=True):
    """A whole log, as its links. `torn` is where bytes without a newline end it, with their number."""

    links: tuple[Link, ...]
    head: Head | None = None
    torn: LogLine | None = None
    torn_line: int = 0


def verify_log(folder: Path, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """Everything wrong with the log in `folder`; `name` is the log that its records should belong to.

    Without a name, that of the first record. Lines appended meanwhile are left for the next time.
    """
    head, sizes = _snapshot(folder)
    pruning = _Pruning([], [])
    if _is_whole(pruning.watched(_links(_within(folder, sizes))), head, name):
        return pruning.findings()
    found = _gather(_within(folder, sizes), head)
    pruning = _Pruning([], [])
    deque(pruning.watched(found.links), maxlen=0)
    return (*diagnose(found, name), *pruning.findings())


class _Pruning(Struct):
    """The runs of seqs that are dropped, and what records of pruning say may be."""

    dropped: list[tuple[int, int]]
    told: list[tuple[int, int]]

    def watched(self, links: Iterable[Link]) -> Iterator[Link]:
        """The same links, taken note of."""
        for link in links:
            if link.dropped:
                seq = _seq(link)
                joins = self.dropped and self.dropped[-1][1] == seq - 1
                start = self.dropped.pop()[0] if joins else seq
                self.dropped.append((start, seq))
            self.told += link.pruned
            yield link

    def findings(self) -> tuple[LedgerFinding, ...]:
        """The runs that no record tells of."""
        return tuple(
            LedgerFinding("removed", "error", f"{_named(*run)}: missing, and no record tells of pruning", *run)
            for run in self.dropped
            if not any(first <= run[0] and run[1] <= last for first, last in self.told)
        )


def _named(first: int, last: int) -> str:
    return f"record {first}" if first == last else f"records {first} to {last}"


def _snapshot(folder: Path) -> tuple[Head | None, dict[str, int]]:
    """The head, and how long each segment was at that moment."""
    try:
        held = lock.take(folder / "lock", shared=True)
    except FileNotFoundError:
        return _measure(folder)
    try:
        return _measure(folder)
    finally:
        lock.release(held)


def _measure(folder: Path) -> tuple[Head | None, dict[str, int]]:
    return read_head(folder), {name: segment_size(folder, name) for name in segments(folder)}


def _within(folder: Path, sizes: dict[str, int]) -> Iterator[LogLine]:
    return (line for line in positions(folder) if line.leaf or line.offset < sizes.get(line.segment, 0))


class _Chain(Struct):
    log: str
    seq: int
    prev: str


class _Body(Struct):
    chain: _Chain
    event: str = ""


class _Metadata(Struct, rename={"body": KEY}):
    body: _Body


class _Line(Struct):
    id: str
    metadata: _Metadata


class _Loss(Struct):
    reason: str = ""
    synced_seq: int = -1
    pruned: tuple[tuple[int, int], ...] = ()


class _LossMetadata(Struct, rename={"body": KEY}):
    body: _Loss


class _LossLine(Struct):
    metadata: _LossMetadata


_LINE = json.Decoder(_Line)
_LOSS = json.Decoder(_LossLine)


def _link(line: LogLine, number: int) -> Link:
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
    return Link(line.segment, number, leaf, chain.seq, prev, chain.log, spared, pruned=told.pruned)


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


def _numbered(found: Iterable[LogLine]) -> Iterator[tuple[int, LogLine]]:
    number, segment = 0, ""
    for line in found:
        number = number + 1 if line.segment == segment else 1
        segment = line.segment
        yield number, line


def _links(found: Iterable[LogLine]) -> Iterator[Link]:
    return (_link(line, number) for number, line in _numbered(found))


def _is_whole(links: Iterable[Link], head: Head | None, name: str | None) -> bool:
    """The usual case, in constant memory: every line follows the one before it, up to the head."""
    seq, leaf = -1, ZEROS
    for link in links:
        name = name or link.log
        if (link.seq, link.prev, link.log or name) != (seq + 1, leaf, name):
            return False
        seq, leaf = seq + 1, link.leaf
    return (seq, leaf) == (-1, ZEROS) if head is None else (seq, leaf) == (head.seq, head.leaf)


def _gather(found: Iterable[LogLine], head: Head | None) -> Chained:
    links: list[Link] = []
    last: tuple[int, LogLine] | None = None
    for number, line in _numbered(found):
        last = (number, line)
        links.append(_link(line, number))
    if last is None or last[1].ended:
        return Chained(tuple(links), head)
    return Chained(tuple(links[:-1]), head, last[1], last[0])


def diagnose(log: Chained, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """What is wrong with these links. Memory and time grow with the log; a whole log never comes here."""
    trusted = _trusted(log.links, log.head)
    kept, copies = _each_once(log.links, trusted)
    strays = _strays([_seq(log.links[i]) for i in kept])
    in_order = [i for position, i in enumerate(kept) if position not in strays]
    findings = [
        *_duplicates(log.links, kept, copies),
        *(_moved(log.links[kept[position]]) for position in sorted(strays)),
        *_gaps(log, kept, in_order, trusted),
        *_other_logs(log.links, kept, name),
        *_tail(log, kept),
    ]
    return tuple(findings)


def _seq(link: Link) -> int:
    assert link.seq is not None
    return link.seq


def _by_seq(links: Sequence[Link]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for i, link in enumerate(links):
        if link.seq is not None:
            found.setdefault(link.seq, []).append(i)
    return found


def _trusted(links: Sequence[Link], head: Head | None) -> set[int]:
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


def _joins(links: Sequence[Link], i: int, by_seq: dict[int, list[int]]) -> bool:
    """Whether a line that nothing vouches for fits where it stands."""
    link = links[i]
    seq = _seq(link)
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
    leaves = {links[j].leaf for j in by_seq.get(_seq(links[i]) - 1, ()) if j in good}
    return bool(leaves) and links[i].prev not in leaves


def _each_once(links: Sequence[Link], trusted: set[int]) -> tuple[list[int], list[int]]:
    """Of each seq the line that follows its predecessor, in place order; and the copies."""
    chosen: dict[int, int] = {}
    for i in sorted(trusted):
        seq = _seq(links[i])
        follows = i > 0 and links[i - 1].seq == seq - 1
        if seq not in chosen or (follows and not _follows(links, chosen[seq])):
            chosen[seq] = i
    kept = sorted(chosen.values())
    return kept, sorted(trusted - set(kept))


def _follows(links: Sequence[Link], i: int) -> bool:
    return links[i - 1].seq == _seq(links[i]) - 1 if i else links[i].seq == 0


def _strays(seqs: Sequence[int]) -> set[int]:
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


def _duplicates(links: Sequence[Link], kept: list[int], copies: list[int]) -> Iterator[LedgerFinding]:
    leaves = {links[i].seq: links[i].leaf for i in kept}
    for link in (links[i] for i in copies):
        same = leaves[link.seq] == link.leaf
        text = f"record {link.seq} stands here again" if same else f"another record claims seq {link.seq}"
        yield _at(link, "duplicated", text, _seq(link), _seq(link))


def _moved(link: Link) -> LedgerFinding:
    return _at(link, "moved", f"record {link.seq} is out of its place", _seq(link), _seq(link))


def _at(link: Link, code: FindingCode, message: str, seq: int | None, last: int | None) -> LedgerFinding:
    place = f"{link.segment}:{link.line}"
    return LedgerFinding(code, "error", f"{place}: {message}", seq, last, link.segment, link.line)


def _gaps(log: Chained, kept: list[int], in_order: list[int], trusted: set[int]) -> Iterator[LedgerFinding]:
    """Records that are not there, each gap with the broken lines that stand in its place."""
    broken = _broken_after(log.links, in_order, trusted)
    position = {_seq(log.links[i]): i for i in kept}
    bounds = [-1, *sorted(position)]
    for before, after in pairwise(bounds):
        if after > before + 1:
            spared = log.links[position[after]].spared_after
            yield _gap(log, position.get(before), before, after, broken.pop(before, []), spared)
    last = bounds[-1]
    head = log.head
    if head is not None and head.seq > last:
        yield _gap(log, position.get(last), last, head.seq + 1, broken.pop(last, []), head.synced, True)
    elif last in broken:
        first, *rest = broken.pop(last)
        yield _at(first, "altered", f"record {last + 1} is no record any more", last + 1, last + 1)
        yield from map(_foreign, rest)
    yield from (_foreign(link) for links in broken.values() for link in links)


def _foreign(link: Link) -> LedgerFinding:
    return _at(link, "foreign", "this line was never appended", None, None)


def _gap(
    log: Chained,
    place: int | None,
    before: int,
    after: int,
    broken: list[Link],
    spared_after: int | None,
    at_end: bool = False,
) -> LedgerFinding:
    """The finding for records `before` + 1 to `after` - 1."""
    first, last = before + 1, after - 1
    named = _named(first, last)
    if broken:
        return _at(broken[0], "altered", f"{named}: altered, not what was appended", first, last)
    segment, line = (log.links[place].segment, log.links[place].line) if place is not None else ("", 0)
    unsynced = spared_after is not None and first > spared_after
    why = "; not synced, so a power failure explains it" if unsynced else ""
    text = f"{named}: cut off the end of the log{why}" if at_end else f"{named}: missing{why}"
    severity = "warning" if unsynced else "error"
    return LedgerFinding("truncated" if at_end else "removed", severity, text, first, last, segment, line)


def _broken_after(links: Sequence[Link], in_order: list[int], trusted: set[int]) -> dict[int, list[Link]]:
    """The lines that are not to be trusted, by the seq of the record that they stand behind."""
    orderly = set(in_order)
    broken: dict[int, list[Link]] = {}
    seq = -1
    for i, link in enumerate(links):
        if i in orderly:
            seq = _seq(link)
        elif i not in trusted:
            broken.setdefault(seq, []).append(link)
    return broken


def _other_logs(links: Sequence[Link], kept: list[int], name: str | None) -> Iterator[LedgerFinding]:
    """One finding for each run of lines that belong to another log."""
    run: list[Link] = []
    for link in (links[i] for i in kept):
        name = name or link.log
        if link.log not in (name, ""):
            run.append(link)
        elif run:
            yield _other_log(run, name)
            run = []
    if run and name:
        yield _other_log(run, name)


def _other_log(run: list[Link], name: str) -> LedgerFinding:
    text = f"records {run[0].seq} to {run[-1].seq} say that their log is {run[0].log!r}, not {name!r}"
    return _at(run[0], "wrong_log", text, run[0].seq, run[-1].seq)


def _tail(log: Chained, kept: list[int]) -> Iterator[LedgerFinding]:
    torn, head = log.torn, log.head
    if torn is not None:
        text = f"{torn.segment}:{log.torn_line}: {torn.size} bytes without a newline: the next append moves them aside"
        yield LedgerFinding("torn_tail", "warning", text, None, None, torn.segment, log.torn_line)
    if not log.links:
        return
    if head is None:
        text = "there is no readable head, so a cut or altered last record cannot be noticed"
        yield LedgerFinding("head_missing", "warning", text)
        return
    last = max((_seq(log.links[i]) for i in kept), default=-1)
    if last > head.seq:
        text = f"records {head.seq + 1} to {last} came after the head: a crash, or they were added by hand"
        yield LedgerFinding("head_behind", "warning", text, head.seq + 1, last)
