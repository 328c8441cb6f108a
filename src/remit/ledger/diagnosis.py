"""Naming what is wrong with a log that is not whole: each record that is altered, gone, moved or another's."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from remit.ledger.findings import FindingCode, LedgerFinding, records_named
from remit.ledger.links import Link, seq_in
from remit.ledger.reader import LogLine
from remit.ledger.segments import Head
from remit.ledger.trusted_links import each_once, strays_among, trusted_among


class Chained(Struct, frozen=True):
    """A whole log, as its links. `torn` is where bytes without a newline end it, with their number."""

    links: tuple[Link, ...]
    head: Head | None = None
    torn: LogLine | None = None
    torn_line: int = 0


def diagnose(log: Chained, name: str | None = None) -> tuple[LedgerFinding, ...]:
    """What is wrong with these links. Memory and time grow with the log; a whole log never comes here."""
    trusted = trusted_among(log.links, log.head)
    kept, copies = each_once(log.links, trusted)
    strays = strays_among([seq_in(log.links[i]) for i in kept])
    in_order = [i for position, i in enumerate(kept) if position not in strays]
    findings = [
        *_duplicates(log.links, kept, copies),
        *(_moved(log.links[kept[position]]) for position in sorted(strays)),
        *_gaps(log, kept, in_order, trusted),
        *_other_logs(log.links, kept, name),
        *_tail(log, kept),
    ]
    return tuple(findings)


def _duplicates(links: Sequence[Link], kept: list[int], copies: list[int]) -> Iterator[LedgerFinding]:
    leaves = {links[i].seq: links[i].leaf for i in kept}
    for link in (links[i] for i in copies):
        same = leaves[link.seq] == link.leaf
        text = f"record {link.seq} stands here again" if same else f"another record claims seq {link.seq}"
        yield _at(link, "duplicated", text, seq_in(link), seq_in(link))


def _moved(link: Link) -> LedgerFinding:
    return _at(link, "moved", f"record {link.seq} is out of its place", seq_in(link), seq_in(link))


def _at(link: Link, code: FindingCode, message: str, seq: int | None, last: int | None) -> LedgerFinding:
    place = f"{link.segment}:{link.line}"
    return LedgerFinding(code, "error", f"{place}: {message}", seq, last, link.segment, link.line)


def _gaps(log: Chained, kept: list[int], in_order: list[int], trusted: set[int]) -> Iterator[LedgerFinding]:
    """Records that are not there, each gap with the broken lines that stand in its place."""
    broken = _broken_after(log.links, in_order, trusted)
    position = {seq_in(log.links[i]): i for i in kept}
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
    named = records_named(first, last)
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
            seq = seq_in(link)
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
        text = "there is no readable head: records may have been cut off the end, and nothing tells how many"
        yield LedgerFinding("head_missing", "error", text)
        return
    last = max((seq_in(log.links[i]) for i in kept), default=-1)
    if last > head.seq:
        text = f"records {head.seq + 1} to {last} came after the head: a crash, or they were added by hand"
        yield LedgerFinding("head_behind", "warning", text, head.seq + 1, last)
