"""Verification of a log: is the log what was appended, and if not, which records differ?

The `prev` of a record confirms the line before; the head confirms the last line. So an altered line is detected by the
statement of its successor, and named by its place among confirmed lines, never by the seq that the line itself states.

Limits: if a line and its predecessor are both altered, only the later one is named, as the line that would expose the
earlier one is itself not trusted. A last line that the head does not know yet (after a crash) is unconfirmed;
`head_behind` reports it. A user who rewrites log and head together is only exposed by a tree head stored elsewhere.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

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
from remit.ledger.record_views import decode_header, decode_repair
from remit.ledger.segments import ZERO_HASH, Head, list_segments, read_head

HEALTH_BYTES = 1024 * 1024
"""Size of the log's end that the quick check reads."""


class LogLinks(Struct, frozen=True):
    """All links of a log. `torn_line` is trailing data without a newline."""

    links: tuple[ChainLink, ...]
    head: Head | None = None
    torn_line: LogLine | None = None
    torn_line_number: int = 0


def verify_log(folder: Path, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """Return all faults of the log in `folder`; `name` is the expected log name of the records.

    Without a name, the first record's log counts. Lines appended in the meantime wait for the next call.
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
    """Facts of an unbroken chain with findings of their own.

    `pruned_runs` are the seq runs of pruned records, `told_ranges` the ranges that `pruned` records announced, and
    `headless_links` the records that report a lost head.
    """

    pruned_runs: list[tuple[int, int]]
    told_ranges: list[tuple[int, int]]
    headless_links: list[ChainLink]

    def watch(self, links: Iterable[ChainLink]) -> Iterator[ChainLink]:
        """Yield the links unchanged while collecting the facts."""
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
        """Return findings for pruned runs that no record announced, and for lost heads."""
        gone = (
            LedgerFinding("removed", "error", f"{name_records(*run)}: missing, and no record announces a pruning", *run)
            for run in self.pruned_runs
            if not any(first <= run[0] and run[1] <= last for first, last in self.told_ranges)
        )
        return (*gone, *map(_head_lost_finding, self.headless_links))


def _head_lost_finding(link: ChainLink) -> LedgerFinding:
    seq = require_seq(link)
    text = (
        f"{link.segment}:{link.line}: the head was missing when record {seq} was appended: an unknown number of "
        "records before it may have been cut off"
    )
    return LedgerFinding("head_missing", "error", text, seq, seq, link.segment, link.line, about=f"head lost {seq}")


def _read_log_state(folder: Path) -> tuple[Head | None, dict[str, int]]:
    """Return the head, and the size of each segment at the same moment."""
    try:
        locked = lock.acquire(folder / "lock", shared=True)
    except FileNotFoundError:
        return _read_head_and_sizes(folder)
    try:
        return _read_head_and_sizes(folder)
    finally:
        lock.release(locked)


def _read_head_and_sizes(folder: Path) -> tuple[Head | None, dict[str, int]]:
    return read_head(folder), {name: measure_segment(folder, name) for name in list_segments(folder)}


def _read_lines_within(folder: Path, sizes: dict[str, int]) -> Iterator[LogLine]:
    return (line for line in read_positions(folder) if line.leaf or line.offset < sizes.get(line.segment, 0))


def _is_chain_whole(links: Iterable[ChainLink], head: Head | None, name: str | None) -> bool:
    """Return True if each line follows its predecessor up to the head. Uses constant memory."""
    seq, leaf = -1, ZERO_HASH
    for link in links:
        name = name or link.log
        if (link.seq, link.prev, link.log or name) != (seq + 1, leaf, name):
            return False
        seq, leaf = seq + 1, link.leaf
    return (seq, leaf) == (-1, ZERO_HASH) if head is None else (seq, leaf) == (head.seq, head.leaf)


def _collect_links(found: Iterable[LogLine], head: Head | None) -> LogLinks:
    links: list[ChainLink] = []
    line, number = None, 0
    for number, line in number_lines(found):
        links.append(build_link(line, number))
    if line is None or line.ended:
        return LogLinks(tuple(links), head)
    return LogLinks(tuple(links[:-1]), head, line, number)


# --- diagnosis of a broken chain ---------------------------------------------------------------------------


def diagnose(log: LogLinks, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """Return the faults of a broken chain. Time and memory grow with the log; unbroken logs never get here."""
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
        text = f"record {link.seq} is repeated here" if same else f"a second record states seq {link.seq}"
        yield _finding_at(link, "duplicated", text, require_seq(link), require_seq(link))


def _moved_finding(link: ChainLink) -> LedgerFinding:
    return _finding_at(link, "moved", f"record {link.seq} is out of its place", require_seq(link), require_seq(link))


def _finding_at(link: ChainLink, code: FindingCode, message: str, seq: int | None, last: int | None) -> LedgerFinding:
    place = f"{link.segment}:{link.line}"
    return LedgerFinding(code, "error", f"{place}: {message}", seq, last, link.segment, link.line)


def _find_gaps(log: LogLinks, kept: list[int], in_order: list[int], trusted: set[int]) -> Iterator[LedgerFinding]:
    """Yield a finding per gap, with the broken lines found in its place."""
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
        yield _finding_at(first, "altered", f"record {last + 1} is not a record any more", last + 1, last + 1)
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
    """Return the finding for the records `before` + 1 to `after` - 1."""
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
    """Group untrusted lines by the seq of the record before them."""
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
    """Yield a finding per run of lines of a foreign log."""
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
    text = f"records {run[0].seq} to {run[-1].seq} state the log {run[0].log!r}, not {name!r}"
    return _finding_at(run[0], "wrong_log", text, run[0].seq, run[-1].seq)


def _find_tail_faults(log: LogLinks, kept: list[int]) -> Iterator[LedgerFinding]:
    torn, head = log.torn_line, log.head
    if torn is not None:
        place = f"{torn.segment}:{log.torn_line_number}"
        text = f"{place}: {torn.size} bytes without a newline: the next append moves them aside"
        yield LedgerFinding("torn_tail", "warning", text, None, None, torn.segment, log.torn_line_number)
    if not log.links:
        return
    if head is None:
        text = "there is no readable head: an unknown number of records may have been cut off the end"
        yield LedgerFinding("head_missing", "error", text)
        return
    last = max((require_seq(log.links[i]) for i in kept), default=-1)
    if last > head.seq:
        text = f"records {head.seq + 1} to {last} follow the head: after a crash, or added by hand"
        yield LedgerFinding("head_behind", "warning", text, head.seq + 1, last)


# --- quick check -------------------------------------------------------------------------------------------


class LogHealth(Struct, frozen=True):
    """Result of the quick check of a log: its last lines, its head, and the newest tree head."""

    ok: bool
    why: str = ""
    records_checked: int = 0


def check_log_health(folder: Path) -> LogHealth:
    """Check the chain of the newest megabyte, and the last line under the newest tree head. Raises OSError.

    Detects recent damage and cut logs only; `remit ledger verify` reads everything.
    """
    names = list_segments(folder)
    frontier = read_frontier(folder)
    if frontier is not None and not has_frontier_line(folder, frontier):
        return LogHealth(False, f"the newest tree head covers {frontier.size} records, and the last of them is missing")
    if not names:
        return LogHealth(True)
    size = measure_segment(folder, names[-1])
    start = max(0, size - HEALTH_BYTES)
    lines = read_bytes(folder, names[-1], start, size - start).split(b"\n")[1 if start else 0 : -1]
    leaf = why = ""
    for number, line in enumerate(lines):
        header = decode_header(line)
        if header is None:
            return LogHealth(False, f"a line near the end is not a record: {line[:60]!r}", number)
        if header.event == "recovery":
            reason = decode_repair(line).reason
            if reason in (INSIDE_ALTERED, TAIL_LOST, HEAD_LOST):
                why = f"a recovery record states {reason!r}: see `remit ledger verify`"
            elif reason == ACKNOWLEDGED_REASON:
                why = ""
        if leaf and header.chain.prev.removeprefix("sha256:") != leaf:
            return LogHealth(False, "a line near the end was altered, removed or moved", number)
        leaf = hash_leaf(line).hex()
    return LogHealth(not why, why, len(lines))
