"""Verification of a log: does the log equal the appended records, and if not, where does it differ?

The `prev` of a record confirms the line before; the head confirms the last line. The successor's statement exposes an
altered line, named by its place among confirmed lines, never by the seq stated in the line.

Limits: if a line and its predecessor are both altered, only the later line is named, as the witness of the earlier line
is not trusted. A last line unknown to the head (after a crash) is unconfirmed; `head_behind` reports the line. Only a
tree head stored elsewhere exposes a user rewriting log and head together.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.record import hash_leaf
from remit.ledger import log_files
from remit.ledger.findings import ACKNOWLEDGED_REASON, FindingCode, LedgerFinding, name_records
from remit.ledger.log import HEAD_LOST, TAIL_LOST
from remit.ledger.reader import LogLine, measure_segment, read_bytes, read_positions
from remit.ledger.tree_heads import INSIDE_ALTERED, has_frontier_line, read_frontier

HEALTH_BYTES = 1024 * 1024  # size of the log's end that the quick check reads


class ChainLink(Struct, frozen=True):
    """The facts of a line for verification. `seq` is -1 if the line is not a record."""

    segment: str
    line: int
    leaf: str
    seq: int = -1
    prev: str = ""
    log: str = ""
    last_synced_seq: int | None = None  # in a record of a lost tail: records after this seq had not been synced
    is_pruned: bool = False  # true if only the leaf hash is left: `seq` then follows from the place, and `log` is empty
    pruned_ranges: tuple[tuple[int, int], ...] = ()
    """In a `pruned` record: first and last seq of the parts with possible gaps."""
    reports_lost_head: bool = False  # true in a record that reports a missing head


def verify_log(folder: Path, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """Return all faults of the log in `folder`; `name` is the expected log name of the records. Without a name, the
    first record's log counts. Lines appended in the meantime wait for the next call.
    """
    with ExitStack() as stack:
        with suppress(FileNotFoundError):
            stack.enter_context(log_files.hold_lock(folder / "lock", shared=True))
        head, sizes = (
            log_files.read_head(folder),
            {name: measure_segment(folder, name) for name in log_files.list_segments(folder)},
        )

    def read_within() -> Iterator[LogLine]:
        return (line for line in read_positions(folder) if line.leaf or line.offset < sizes.get(line.segment, 0))

    watch = _LinkWatch([], [], [])
    links = (build_link(line, number) for number, line in _number_lines(read_within()))
    if _is_chain_whole(watch.watch(links), head, name):
        return watch.list_findings()
    found: list[ChainLink] = []
    torn = None
    for number, line in _number_lines(read_within()):
        found.append(build_link(line, number))
        torn = None if line.ended else (line, number)
    if torn:
        found.pop()
    watch = _LinkWatch([], [], [])
    deque(watch.watch(found), maxlen=0)
    return (*_diagnose(found, head, name, torn), *watch.list_findings())


def _number_lines(found: Iterable[LogLine]) -> Iterator[tuple[int, LogLine]]:
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
    header = log_files.decode_header(line.raw) if line.ended else None
    if header is None:
        return ChainLink(line.segment, number, leaf)
    chain = header.chain
    repair = log_files.decode_detail(line.raw) if header.event in ("recovery", "pruned") else log_files.RecordDetail()
    return ChainLink(
        *(line.segment, number, leaf, chain.seq, chain.prev.removeprefix("sha256:"), chain.log),
        last_synced_seq=repair.synced_seq if repair.reason == TAIL_LOST else None,
        pruned_ranges=repair.pruned,
        reports_lost_head=repair.reason == HEAD_LOST,
    )


class _LinkWatch(Struct):
    """Facts of an unbroken chain with findings of their own. `pruned_runs` are the seq runs of pruned records,
    `told_ranges` the ranges that `pruned` records announced, and `headless_links` the records that report a lost head.
    """

    pruned_runs: list[tuple[int, int]]
    told_ranges: list[tuple[int, int]]
    headless_links: list[ChainLink]

    def watch(self, links: Iterable[ChainLink]) -> Iterator[ChainLink]:
        for link in links:
            if link.is_pruned:
                joins = self.pruned_runs and self.pruned_runs[-1][1] == link.seq - 1
                self.pruned_runs.append((self.pruned_runs.pop()[0] if joins else link.seq, link.seq))
            self.told_ranges += link.pruned_ranges
            if link.reports_lost_head:
                self.headless_links.append(link)
            yield link

    def list_findings(self) -> tuple[LedgerFinding, ...]:
        gone = (
            LedgerFinding("removed", "error", f"{name_records(*run)}: missing, and no record announces a pruning", *run)
            for run in self.pruned_runs
            if not any(first <= run[0] and run[1] <= last for first, last in self.told_ranges)
        )
        why = "an unknown number of records before it may have been cut off"
        lost = (
            _finding_at(link, "head_missing", f"the head was missing when record {link.seq} was appended: {why}")
            for link in self.headless_links
        )
        return (*gone, *(replace(finding, about=f"head lost {finding.seq}") for finding in lost))


def _is_chain_whole(links: Iterable[ChainLink], head: log_files.Head | None, name: str | None) -> bool:
    seq, leaf = -1, log_files.ZERO_HASH
    for link in links:
        name = name or link.log
        if (link.seq, link.prev, link.log or name) != (seq + 1, leaf, name):
            return False
        seq, leaf = seq + 1, link.leaf
    return (seq, leaf) == (-1, log_files.ZERO_HASH) if head is None else (seq, leaf) == (head.seq, head.leaf)


# -- diagnosis of a broken chain -----------------------------------------------------------------------------


def _diagnose(
    links: Sequence[ChainLink], head: log_files.Head | None, name: str | None, torn: tuple[LogLine, int] | None
) -> Iterator[LedgerFinding]:
    """Yield the faults of a broken chain; `torn` is trailing data without a newline, and its line number. Time and
    memory grow with the log; unbroken logs never get here.
    """
    trusted = _find_trusted(links, head)
    kept = _choose_one_per_seq(links, trusted)
    leaves = {links[i].seq: links[i].leaf for i in kept}
    for link in (links[i] for i in sorted(trusted.difference(kept))):
        is_copy = leaves[link.seq] == link.leaf
        text = f"record {link.seq} is repeated here" if is_copy else f"a second record states seq {link.seq}"
        yield _finding_at(link, "duplicated", text)
    strays = _find_strays([links[i].seq for i in kept])
    for link in (links[kept[position]] for position in sorted(strays)):
        yield _finding_at(link, "moved", f"record {link.seq} is out of its place")
    in_order = {i for position, i in enumerate(kept) if position not in strays}
    yield from _find_gaps(links, head, kept, in_order, trusted)
    run: list[ChainLink] = []  # lines of another log
    for link in [*(links[i] for i in kept), None]:
        name = name or (link.log if link else "")
        if link and link.log not in (name, ""):
            run.append(link)
        elif run and name:
            text = f"records {run[0].seq} to {run[-1].seq} state the log {run[0].log!r}, not {name!r}"
            yield _finding_at(run[0], "wrong_log", text, run[0].seq, run[-1].seq)
            run = []
    if torn is not None:
        line, number = torn
        text = f"{line.segment}:{number}: {line.size} bytes without a newline: the next append moves them aside"
        yield LedgerFinding("torn_tail", "warning", text, None, None, line.segment, number)
    last = max(leaves, default=-1)
    if links and head is None:
        text = "there is no readable head: an unknown number of records may have been cut off the end"
        yield LedgerFinding("head_missing", "error", text)
    elif head is not None and last > head.seq:
        text = f"records {head.seq + 1} to {last} follow the head: after a crash, or added by hand"
        yield LedgerFinding("head_behind", "warning", text, head.seq + 1, last)


def _finding_at(
    link: ChainLink, code: FindingCode, message: str, seq: int | None = None, last: int | None = None
) -> LedgerFinding:
    seq = link.seq if seq is None else seq
    text = f"{link.segment}:{link.line}: {message}"
    return LedgerFinding(code, "error", text, seq, seq if last is None else last, link.segment, link.line)


def _find_trusted(links: Sequence[ChainLink], head: log_files.Head | None) -> set[int]:
    by_seq: dict[int, list[int]] = {}
    for i, link in enumerate(links):
        if link.seq >= 0:
            by_seq.setdefault(link.seq, []).append(i)
    good: set[int] = set()
    for seq in sorted(by_seq, reverse=True):
        if head is not None and head.seq == seq:
            claims = {head.leaf}
        else:
            claims = {links[i].prev for i in by_seq.get(seq + 1, ()) if i in good}
        good.update(i for i in by_seq[seq] if (links[i].leaf in claims if claims else _fits_in_place(links, i, by_seq)))

    def contradicts_predecessor(i: int) -> bool:
        leaves = {links[j].leaf for j in by_seq.get(links[i].seq - 1, ()) if j in good}
        return bool(leaves) and links[i].prev not in leaves

    return {i for i in good if not contradicts_predecessor(i)}


def _fits_in_place(links: Sequence[ChainLink], i: int, by_seq: dict[int, list[int]]) -> bool:
    seq, prev = links[i].seq, links[i].prev
    if seq == 0:
        return prev == log_files.ZERO_HASH
    if any(links[j].leaf == prev for j in by_seq.get(seq - 1, ())):
        return True
    before = links[i - 1].seq if i else -1
    after = links[i + 1].seq if i + 1 < len(links) else -1
    return before >= 0 and (before == seq - 1 or before < seq < after)


def _choose_one_per_seq(links: Sequence[ChainLink], trusted: set[int]) -> list[int]:
    def follows_predecessor(i: int) -> bool:
        return links[i].seq == (links[i - 1].seq + 1 if i else 0)

    chosen: dict[int, int] = {}
    for i in sorted(trusted):
        seq = links[i].seq
        if seq not in chosen or (i and follows_predecessor(i) and not follows_predecessor(chosen[seq])):
            chosen[seq] = i
    return sorted(chosen.values())


def _find_strays(seqs: Sequence[int]) -> set[int]:
    if not seqs:
        return set()
    first = min(seqs)
    if max(seqs) - first + 1 == len(seqs):
        return {position for position, seq in enumerate(seqs) if seq != first + position}
    ends: list[int] = []
    positions: list[int] = []
    before: list[int] = []
    for position, seq in enumerate(seqs):
        at = bisect_left(ends, seq)
        before.append(positions[at - 1] if at else -1)
        ends[at : at + 1] = [seq]
        positions[at : at + 1] = [position]
    strays, position = set(range(len(seqs))), positions[-1]
    while position >= 0:
        strays.remove(position)
        position = before[position]
    return strays


def _find_gaps(
    links: Sequence[ChainLink], head: log_files.Head | None, kept: list[int], in_order: set[int], trusted: set[int]
) -> Iterator[LedgerFinding]:
    broken: dict[int, list[ChainLink]] = {}  # untrusted lines by the seq of the record before them
    seq = -1
    for i, link in enumerate(links):
        if i in in_order:
            seq = link.seq
        elif i not in trusted:
            broken.setdefault(seq, []).append(link)
    by_seq = {links[i].seq: links[i] for i in kept}
    bounds = [-1, *sorted(by_seq)]
    for before, after in pairwise(bounds):
        if after > before + 1:
            synced = by_seq[after].last_synced_seq
            yield _gap_finding(by_seq.get(before), before + 1, after - 1, broken.pop(before, []), synced)
    last = bounds[-1]
    if head is not None and head.seq > last:
        yield _gap_finding(by_seq.get(last), last + 1, head.seq, broken.pop(last, []), head.synced, at_end=True)
    elif last in broken:
        altered = broken[last].pop(0)
        yield _finding_at(altered, "altered", f"record {last + 1} is not a record any more", last + 1)
    for link in (link for group in broken.values() for link in group):
        text = f"{link.segment}:{link.line}: this line was never appended"
        yield LedgerFinding("foreign", "error", text, None, None, link.segment, link.line)


def _gap_finding(
    place: ChainLink | None, first: int, last: int, broken: list[ChainLink], synced: int | None, *, at_end: bool = False
) -> LedgerFinding:
    named = name_records(first, last)
    if broken:
        return _finding_at(broken[0], "altered", f"{named}: altered, not what was appended", first, last)
    is_unsynced = synced is not None and first > synced
    text = f"{named}: {'cut off the end of the log' if at_end else 'missing'}"
    text += "; not synced, so a power failure explains it" if is_unsynced else ""
    code, severity = "truncated" if at_end else "removed", "warning" if is_unsynced else "error"
    segment, line = (place.segment, place.line) if place else ("", 0)
    return LedgerFinding(code, severity, text, first, last, segment, line)


# -- quick check ---------------------------------------------------------------------------------------------


class LogHealth(Struct, frozen=True):
    """Result of the quick check of a log: its last lines, its head, and the newest tree head."""

    ok: bool
    why: str = ""
    records_checked: int = 0


def check_log_health(folder: Path) -> LogHealth:
    """Check the chain of the newest megabyte, and the last line under the newest tree head. Raises OSError. Detects
    recent damage and cut logs only; `remit ledger verify` reads everything.
    """
    names = log_files.list_segments(folder)
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
        header = log_files.decode_header(line)
        if header is None:
            return LogHealth(False, f"a line near the end is not a record: {line[:60]!r}", number)
        if header.event == "recovery":
            reason = log_files.decode_detail(line).reason
            if reason in (INSIDE_ALTERED, TAIL_LOST, HEAD_LOST):
                why = f"a recovery record states {reason!r}: see `remit ledger verify`"
            elif reason == ACKNOWLEDGED_REASON:
                why = ""
        if leaf and header.chain.prev.removeprefix("sha256:") != leaf:
            return LogHealth(False, "a line near the end was altered, removed or moved", number)
        leaf = hash_leaf(line).hex()
    return LogHealth(not why, why, len(lines))
