"""Whether the log is what was appended, and if not, which records are not.

A line is vouched for by the `prev` of the record after it; the last one by the head. So a changed line is
known by what its successor says, and named by its place among lines that are vouched for, never by the
seq that it claims itself.

What cannot be told: where a line and the one before it were both altered, only the later is named, since
the line that would convict the earlier is itself not to be trusted. A line after which nothing stands and
that the head does not know yet (a crash came between) is not vouched for; `head_behind` says so. The same
user can rewrite log and head together: only a tree head kept elsewhere notices that.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from remit.ledger import lock
from remit.ledger.diagnosis import Chained, diagnose
from remit.ledger.findings import LedgerFinding, records_named
from remit.ledger.links import Link, link_of, links_of, numbered, seq_in
from remit.ledger.reader import LogLine, positions, segment_size
from remit.ledger.segments import ZEROS, Head, read_head, segments


def verify_log(folder: Path, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """Everything wrong with the log in `folder`; `name` is the log that its records should belong to.

    Without a name, that of the first record. Lines appended meanwhile are left for the next time.
    """
    head, sizes = _snapshot(folder)
    watch = _Watch([], [], [])
    if _is_whole(watch.watched(links_of(_within(folder, sizes))), head, name):
        return watch.findings()
    found = _gather(_within(folder, sizes), head)
    watch = _Watch([], [], [])
    deque(watch.watched(found.links), maxlen=0)
    return (*diagnose(found, name), *watch.findings())


class _Watch(Struct):
    """What a whole chain may tell of all the same.

    `dropped` are the runs of seqs that are gone, and `told` what records of pruning say may be. `headless` are the
    records that tell of a lost head.
    """

    dropped: list[tuple[int, int]]
    told: list[tuple[int, int]]
    headless: list[Link]

    def watched(self, links: Iterable[Link]) -> Iterator[Link]:
        """The same links, taken note of."""
        for link in links:
            if link.dropped:
                seq = seq_in(link)
                joins = self.dropped and self.dropped[-1][1] == seq - 1
                start = self.dropped.pop()[0] if joins else seq
                self.dropped.append((start, seq))
            self.told += link.pruned
            if link.head_lost:
                self.headless.append(link)
            yield link

    def findings(self) -> tuple[LedgerFinding, ...]:
        """The runs that no record tells of, and the heads that were lost."""
        gone = (
            LedgerFinding("removed", "error", f"{records_named(*run)}: missing, and no record tells of pruning", *run)
            for run in self.dropped
            if not any(first <= run[0] and run[1] <= last for first, last in self.told)
        )
        return (*gone, *map(_headless, self.headless))


def _headless(link: Link) -> LedgerFinding:
    seq = seq_in(link)
    text = (
        f"{link.segment}:{link.line}: the head was gone when record {seq} was appended: records that stood there may "
        "have been cut off, and nothing tells how many"
    )
    return LedgerFinding("head_missing", "error", text, seq, seq, link.segment, link.line, about=f"head lost {seq}")


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
    for number, line in numbered(found):
        last = (number, line)
        links.append(link_of(line, number))
    if last is None or last[1].ended:
        return Chained(tuple(links), head)
    return Chained(tuple(links[:-1]), head, last[1], last[0])
