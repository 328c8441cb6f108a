"""Whether the log is what was appended, and if not, which records are not.

A line is vouched for by the `prev` of the record after it; the last one by the head. So a changed line is
known by what its successor says, and named by its place among lines that are vouched for, never by the
seq that it claims itself.

What cannot be told: where a line and the one before it were both altered, only the later is named, since
the line that would convict the earlier is itself not to be trusted. A line after which nothing stands and
that the head does not know yet (a crash came between) is not vouched for; `head_behind` says so. The same
user can rewrite log and head together: only a tree head kept elsewhere notices that.

Naming what is wrong with a log that is not whole: each record that is altered, gone, moved or another's.

Whether a log looks whole, without reading all of it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, json

from remit.core.formats.merkle import hash_leaf
from remit.ledger import lock
from remit.ledger.integrity.chain import (
    ChainLink,
    build_link,
    choose_one_per_seq,
    find_strays,
    find_trusted,
    number_lines,
    read_links,
    require_seq,
)
from remit.ledger.integrity.findings import ACKNOWLEDGED_REASON, FindingCode, LedgerFinding, name_records
from remit.ledger.integrity.tree_heads import INSIDE_ALTERED, has_frontier_line, read_frontier
from remit.ledger.log import HEAD_LOST, TAIL_LOST
from remit.ledger.reader import LogLine, measure_segment, read_bytes, read_positions
from remit.ledger.record_views import RecordLine
from remit.ledger.segments import DECODE_ERRORS, ZERO_HASH, Head, list_segments, read_head


class LogLinks(Struct, frozen=True):
    """A whole log, as its links. `torn` is where bytes without a newline end it, with their number."""

    links: tuple[ChainLink, ...]
    head: Head | None = None
    torn_line: LogLine | None = None
    torn_line_number: int = 0


def diagnose(log: LogLinks, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """What is wrong with these links. Memory and time grow with the log; a whole log never comes here."""
    trusted = find_trusted(log.links, log.head)
    kept, copies = choose_one_per_seq(log.links, trusted)
    strays = find_strays([require_seq(log.links[i]) for i in kept])
    in_order = [i for position, i in enumerate(kept) if position not in strays]
    findings = [
        *_find_duplicates(log.links, kept, copies),
        *(_moved_finding(log.links[kept[position]]) for position in sorted(strays)),
        *_find_gaps(log, kept, in_order, trusted),
        *_find_other_logs(log.links, kept, name),
        *_find_tail_faults(log, kept),
    ]
    return tuple(findings)


def _find_duplicates(links: Sequence[ChainLink], kept: list[int], copies: list[int]) -> Iterator[LedgerFinding]:
    leaves = {links[i].seq: links[i].leaf for i in kept}
    for link in (links[i] for i in copies):
        same = leaves[link.seq] == link.leaf
        text = f"record {link.seq} stands here again" if same else f"another record claims seq {link.seq}"
        yield _finding_at(link, "duplicated", text, require_seq(link), require_seq(link))


def _moved_finding(link: ChainLink) -> LedgerFinding:
    return _finding_at(link, "moved", f"record {link.seq} is out of its place", require_seq(link), require_seq(link))


def _finding_at(link: ChainLink, code: FindingCode, message: str, seq: int | None, last: int | None) -> LedgerFinding:
    place = f"{link.segment}:{link.line}"
    return LedgerFinding(code, "error", f"{place}: {message}", seq, last, link.segment, link.line)


def _find_gaps(log: LogLinks, kept: list[int], in_order: list[int], trusted: set[int]) -> Iterator[LedgerFinding]:
    """Records that are not there, each gap with the broken lines that stand in its place."""
    broken = _group_broken_lines(log.links, in_order, trusted)
    position = {require_seq(log.links[i]): i for i in kept}
    bounds = [-1, *sorted(position)]
    for before, after in pairwise(bounds):
        if after > before + 1:
            spared = log.links[position[after]].last_synced_seq
            yield _gap_finding(log, position.get(before), before, after, broken.pop(before, []), spared)
    last = bounds[-1]
    head = log.head
    if head is not None and head.seq > last:
        yield _gap_finding(log, position.get(last), last, head.seq + 1, broken.pop(last, []), head.synced, True)
    elif last in broken:
        first, *rest = broken.pop(last)
        yield _finding_at(first, "altered", f"record {last + 1} is no record any more", last + 1, last + 1)
        yield from map(_foreign_finding, rest)
    yield from (_foreign_finding(link) for links in broken.values() for link in links)


def _foreign_finding(link: ChainLink) -> LedgerFinding:
    return _finding_at(link, "foreign", "this line was never appended", None, None)


def _gap_finding(
    log: LogLinks,
    place: int | None,
    before: int,
    after: int,
    broken: list[ChainLink],
    spared_after: int | None,
    at_end: bool = False,
) -> LedgerFinding:
    """The finding for records `before` + 1 to `after` - 1."""
    first, last = before + 1, after - 1
    named = name_records(first, last)
    if broken:
        return _finding_at(broken[0], "altered", f"{named}: altered, not what was appended", first, last)
    segment, line = (log.links[place].segment, log.links[place].line) if place is not None else ("", 0)
    unsynced = spared_after is not None and first > spared_after
    why = "; not synced, so a power failure explains it" if unsynced else ""
    text = f"{named}: cut off the end of the log{why}" if at_end else f"{named}: missing{why}"
    severity = "warning" if unsynced else "error"
    return LedgerFinding("truncated" if at_end else "removed", severity, text, first, last, segment, line)


def _group_broken_lines(
    links: Sequence[ChainLink], in_order: list[int], trusted: set[int]
) -> dict[int, list[ChainLink]]:
    """The lines that are not to be trusted, by the seq of the record that they stand behind."""
    orderly = set(in_order)
    broken: dict[int, list[ChainLink]] = {}
    seq = -1
    for i, link in enumerate(links):
        if i in orderly:
            seq = require_seq(link)
        elif i not in trusted:
            broken.setdefault(seq, []).append(link)
    return broken


def _find_other_logs(links: Sequence[ChainLink], kept: list[int], name: str | None) -> Iterator[LedgerFinding]:
    """One finding for each run of lines that belong to another log."""
    run: list[ChainLink] = []
    for link in (links[i] for i in kept):
        name = name or link.log
        if link.log not in (name, ""):
            run.append(link)
        elif run:
            yield _other_log_finding(run, name)
            run = []
    if run and name:
        yield _other_log_finding(run, name)


def _other_log_finding(run: list[ChainLink], name: str) -> LedgerFinding:
    text = f"records {run[0].seq} to {run[-1].seq} say that their log is {run[0].log!r}, not {name!r}"
    return _finding_at(run[0], "wrong_log", text, run[0].seq, run[-1].seq)


def _find_tail_faults(log: LogLinks, kept: list[int]) -> Iterator[LedgerFinding]:
    torn, head = log.torn_line, log.head
    if torn is not None:
        text = f"{torn.segment}:{log.torn_line_number}: {torn.size} bytes without a newline: the next append moves them aside"  # noqa: E501
        yield LedgerFinding("torn_tail", "warning", text, None, None, torn.segment, log.torn_line_number)
    if not log.links:
        return
    if head is None:
        text = "there is no readable head: records may have been cut off the end, and nothing tells how many"
        yield LedgerFinding("head_missing", "error", text)
        return
    last = max((require_seq(log.links[i]) for i in kept), default=-1)
    if last > head.seq:
        text = f"records {head.seq + 1} to {last} came after the head: a crash, or they were added by hand"
        yield LedgerFinding("head_behind", "warning", text, head.seq + 1, last)


def verify_log(folder: Path, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """Everything wrong with the log in `folder`; `name` is the log that its records should belong to.

    Without a name, that of the first record. Lines appended meanwhile are left for the next time.
    """
    head, sizes = _read_log_state(folder)
    watch = _LinkWatch([], [], [])
    if _is_chain_whole(watch.watch(read_links(_read_lines_within(folder, sizes))), head, name):
        return watch.list_findings()
    found = _collect_links(_read_lines_within(folder, sizes), head)
    watch = _LinkWatch([], [], [])
    deque(watch.watch(found.links), maxlen=0)
    return (*diagnose(found, name), *watch.list_findings())


class _LinkWatch(Struct):
    """What a whole chain may tell of all the same.

    `dropped` are the runs of seqs that are gone, and `told` what records of pruning say may be. `headless` are the
    records that tell of a lost head.
    """

    pruned_runs: list[tuple[int, int]]
    told_ranges: list[tuple[int, int]]
    headless_links: list[ChainLink]

    def watch(self, links: Iterable[ChainLink]) -> Iterator[ChainLink]:
        """The same links, taken note of."""
        for link in links:
            if link.is_pruned:
                seq = require_seq(link)
                joins = self.pruned_runs and self.pruned_runs[-1][1] == seq - 1
                start = self.pruned_runs.pop()[0] if joins else seq
                self.pruned_runs.append((start, seq))
            self.told_ranges += link.pruned_ranges
            if link.reports_lost_head:
                self.headless_links.append(link)
            yield link

    def list_findings(self) -> tuple[LedgerFinding, ...]:
        """The runs that no record tells of, and the heads that were lost."""
        gone = (
            LedgerFinding("removed", "error", f"{name_records(*run)}: missing, and no record tells of pruning", *run)
            for run in self.pruned_runs
            if not any(first <= run[0] and run[1] <= last for first, last in self.told_ranges)
        )
        return (*gone, *map(_head_lost_finding, self.headless_links))


def _head_lost_finding(link: ChainLink) -> LedgerFinding:
    seq = require_seq(link)
    text = (
        f"{link.segment}:{link.line}: the head was gone when record {seq} was appended: records that stood there may "
        "have been cut off, and nothing tells how many"
    )
    return LedgerFinding("head_missing", "error", text, seq, seq, link.segment, link.line, about=f"head lost {seq}")


def _read_log_state(folder: Path) -> tuple[Head | None, dict[str, int]]:
    """The head, and how long each segment was at that moment."""
    try:
        held = lock.acquire(folder / "lock", shared=True)
    except FileNotFoundError:
        return _read_head_and_sizes(folder)
    try:
        return _read_head_and_sizes(folder)
    finally:
        lock.release(held)


def _read_head_and_sizes(folder: Path) -> tuple[Head | None, dict[str, int]]:
    return read_head(folder), {name: measure_segment(folder, name) for name in list_segments(folder)}


def _read_lines_within(folder: Path, sizes: dict[str, int]) -> Iterator[LogLine]:
    return (line for line in read_positions(folder) if line.leaf or line.offset < sizes.get(line.segment, 0))


def _is_chain_whole(links: Iterable[ChainLink], head: Head | None, name: str | None) -> bool:
    """The usual case, in constant memory: every line follows the one before it, up to the head."""
    seq, leaf = -1, ZERO_HASH
    for link in links:
        name = name or link.log
        if (link.seq, link.prev, link.log or name) != (seq + 1, leaf, name):
            return False
        seq, leaf = seq + 1, link.leaf
    return (seq, leaf) == (-1, ZERO_HASH) if head is None else (seq, leaf) == (head.seq, head.leaf)


def _collect_links(found: Iterable[LogLine], head: Head | None) -> LogLinks:
    links: list[ChainLink] = []
    last: tuple[int, LogLine] | None = None
    for number, line in number_lines(found):
        last = (number, line)
        links.append(build_link(line, number))
    if last is None or last[1].ended:
        return LogLinks(tuple(links), head)
    return LogLinks(tuple(links[:-1]), head, last[1], last[0])


HEALTH_BYTES = 1024 * 1024


class LogHealth(Struct, frozen=True):
    """Whether the log looks whole without reading all of it: its last lines, its head, and the newest tree head."""

    ok: bool
    why: str = ""
    records_checked: int = 0


class _HealthChain(Struct):
    prev: str


class _HealthView(Struct):
    chain: _HealthChain
    event: str = ""
    reason: str = ""


_HEALTH_RECORD = json.Decoder(RecordLine[_HealthView])


def check_log_health(folder: Path) -> LogHealth:
    """A cheap look for `doctor`: the newest megabyte's chain, and the last line under the newest tree head.

    `remit ledger verify` reads everything; this only notices damage that is recent, or that cut the log. Raises
    OSError.
    """
    names = list_segments(folder)
    frontier = read_frontier(folder)
    if frontier is not None and not has_frontier_line(folder, frontier):
        return LogHealth(False, f"the newest tree head covers {frontier.size} records, and its last one is not there")
    if not names:
        return LogHealth(True)
    return _check_newest_chain(_read_newest_lines(folder, names[-1]))


def _read_newest_lines(folder: Path, segment: str) -> list[bytes]:
    size = measure_segment(folder, segment)
    start = max(0, size - HEALTH_BYTES)
    found = read_bytes(folder, segment, start, size - start).split(b"\n")
    return found[1 if start else 0 : -1]


def _check_newest_chain(found: list[bytes]) -> LogHealth:
    leaf = why = ""
    for number, raw in enumerate(found):
        try:
            body = _HEALTH_RECORD.decode(raw).metadata.body
        except DECODE_ERRORS:
            return LogHealth(False, f"a line near the end is no record: {raw[:60]!r}", number)
        if body.event == "recovery" and body.reason in (INSIDE_ALTERED, TAIL_LOST, HEAD_LOST):
            why = f"a recovery record says {body.reason!r}: see `remit ledger verify`"
        elif body.event == "recovery" and body.reason == ACKNOWLEDGED_REASON:
            why = ""
        if leaf and body.chain.prev.removeprefix("sha256:") != leaf:
            return LogHealth(False, "a line near the end was altered, removed or moved", number)
        leaf = hash_leaf(raw).hex()
    return LogHealth(not why, why, len(found))
