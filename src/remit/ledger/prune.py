"""Pruning: old records are deleted permanently, and the rest remains provable.

Only archived records under a tree head are deleted, after a `pruned` record announced them. Their leaf hashes stay: the
chain, tree heads and proofs still hold, and a copy of a record kept elsewhere can still be proved.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from msgspec import Struct

from remit.ledger import lock
from remit.ledger.archive import Archive, DamagedArchive, SegmentPiece, open_archive, write_archive
from remit.ledger.file_changes import read_changes
from remit.ledger.integrity.findings import LedgerFinding
from remit.ledger.reader import read_lines, read_segment_lines
from remit.ledger.record_views import decode_header, decode_repair
from remit.ledger.segments import (
    ARCHIVE_FOLDER,
    archive_path,
    first_seq,
    flush_folder,
    list_archived_segments,
)
from remit.ledger.tiles import HASH_BYTES, read_tile_row, split_hashes

CHANGE_EVENTS = frozenset({"mutation", "human_edit"})
"""Events that attribution reads: kept while a file of theirs exists, unless all records are to go."""

PRUNABLE_EVENTS = CHANGE_EVENTS | {
    *("tool_use", "tool_result", "denied", "verification", "check_failed", "snapshot", "restore"),
    "generated",
    *("approval_requested", "approval_answered", "intent_selected", "intent_cleared", "session_start", "session_end"),
}
"""Events that may be pruned. Tree heads, repairs and the history of intents and lessons stay: few, and needed later."""

KeepRule = Callable[[bytes, str], bool]
"""Rule that decides by line and event whether a record is kept."""


class SegmentPruning(Struct, frozen=True):
    """The plan for one segment. `kept_lines` are line numbers in the segment."""

    segment: str
    first: int
    last: int
    kept_lines: frozenset[int]
    dropped_events: dict[str, int]
    bytes: int


class PruningPlan(Struct, frozen=True):
    """The plan for a log. `skipped` gives the reasons why segments of sufficient age stay as they are."""

    segments: tuple[SegmentPruning, ...]
    skipped: tuple[str, ...] = ()

    @property
    def dropped_counts(self) -> Counter[str]:
        """Number of records to delete, by event."""
        return sum((Counter(segment.dropped_events) for segment in self.segments), Counter[str]())

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)

    @property
    def kept_records(self) -> int:
        return sum(len(segment.kept_lines) for segment in self.segments)


def build_keep_rule(folder: Path, standing: AbstractSet[str] | None) -> KeepRule:
    """Return the rule that keeps all events that may not be pruned, and changes of the paths in `standing`.

    Earlier names of these paths count too. With None no record is kept for the sake of attribution.
    """
    living = _find_earlier_names(folder, standing) if standing else frozenset[str]()

    def keep(raw: bytes, event: str) -> bool:
        if event not in PRUNABLE_EVENTS:
            return True
        return event in CHANGE_EVENTS and any(change.path in living for change in read_changes(raw))

    return keep


def _find_earlier_names(folder: Path, standing: AbstractSet[str]) -> frozenset[str]:
    sources: dict[str, set[str]] = {}
    for line in read_lines(folder):
        if b'"from":' in line.raw:
            for change in read_changes(line.raw):
                if change.moved_from:
                    sources.setdefault(change.path, set()).add(change.moved_from)
    found = set(standing)
    waiting = [path for path in sources if path in found]
    while waiting:
        fresh = sources.get(waiting.pop(), set()) - found
        found |= fresh
        waiting += fresh
    return frozenset(found)


def plan_pruning(
    folder: Path, before: str, witnessed: int, findings: Sequence[LedgerFinding], keep: KeepRule
) -> PruningPlan:
    """Return what can be deleted of the records older than `before`, a time in the records' format.

    Only whole segments qualify: all records are older, a tree head covers them, no finding concerns them, and the
    stored hashes equal those of the lines. Raises OSError, LedgerError.
    """
    planned: list[SegmentPruning] = []
    skipped: list[str] = []
    for segment in list_archived_segments(folder):
        if (folder / segment).exists():
            continue
        try:
            found = _plan_segment(folder, segment, before, witnessed, findings, keep)
        except DamagedArchive:
            found = "its archive is damaged: see `remit ledger verify`"
        if isinstance(found, SegmentPruning):
            planned.append(found)
        elif found:
            skipped.append(f"{segment}: {found}")
        else:
            break  # segments are in order of time: all later ones are too young as well
    return PruningPlan(tuple(segment for segment in planned if segment.dropped_events), tuple(skipped))


def _plan_segment(
    folder: Path, segment: str, before: str, witnessed: int, findings: Sequence[LedgerFinding], keep: KeepRule
) -> SegmentPruning | str | None:
    """Return the plan for a segment, the reason why it stays, or None if it is too young."""
    with open_archive(folder, segment) as archive:
        summary = archive.summary
    first = first_seq(segment)
    last = first + summary.lines - 1
    kept: set[int] = set()
    dropped: Counter[str] = Counter()
    size = 0
    row = read_tile_row(folder, 0, summary.index, summary.lines)
    leaves = split_hashes(row.ljust(summary.lines * HASH_BYTES, b"\0"))
    for line, leaf in zip(read_segment_lines(folder, segment), leaves, strict=False):
        if line.leaf:
            continue
        header = decode_header(line.raw) if line.ended else None
        if header is None or header.chain.seq != line.seq or line.leaf_digest != leaf:
            return "a line is not a record in its place, or differs from its stored hash"
        if header.timestamp >= before:
            return None
        if keep(line.raw, header.event):
            kept.add(line.seq - first)
        else:
            dropped[header.event] += 1
            size += line.size
    if any(f.seq is not None and f.seq <= last and first <= (f.last_seq or f.seq) for f in findings):
        return "verification reports a fault in it, so it is evidence"
    if summary.index + summary.lines > witnessed:
        return "no tree head covers it yet: `remit ledger head` makes one"
    return SegmentPruning(segment, first, last, frozenset(kept), dict(dropped), size)


def read_pruned_ranges(folder: Path) -> list[tuple[int, int]]:
    """Return the seq ranges that `pruned` records have named so far."""
    found: list[tuple[int, int]] = []
    for line in read_lines(folder):
        header = decode_header(line.raw) if b'"event":"pruned"' in line.raw else None
        if header is not None and header.chain.seq == line.seq:
            found += decode_repair(line.raw).pruned
    return found


def build_pruning_detail(plan: PruningPlan, known: Iterable[tuple[int, int]], **more: Any) -> dict[str, Any]:
    """Return the detail of a `pruned` record, with earlier ranges too: earlier `pruned` records may be pruned later."""
    parts = _join_ranges([*known, *((segment.first, segment.last) for segment in plan.segments)])
    return {"pruned": parts, "dropped": dict(plan.dropped_counts), "kept": plan.kept_records, **more}


def _join_ranges(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join adjacent ranges."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def prune(folder: Path, plan: PruningPlan) -> int:
    """Delete what the plan says and return the number of bytes saved. A `pruned` record must be in the log before.

    Each archive is rewritten beside the old one, so a crash leaves one of both. Raises OSError, LedgerError.
    """
    locked = lock.acquire(folder / ARCHIVE_FOLDER / "lock")
    try:
        return sum(_rewrite_archive(folder, segment) for segment in plan.segments)
    finally:
        lock.release(locked)


def _rewrite_archive(folder: Path, plan: SegmentPruning) -> int:
    path = archive_path(folder, plan.segment)
    fresh = path.with_name(f"{path.name}.new")
    before = path.stat().st_size
    with open_archive(folder, plan.segment) as archive:
        summary = archive.summary
    write_archive(fresh, summary, _read_kept_pieces(folder, plan))
    with Archive(fresh) as written:
        if any(written.read_range(p.offset, len(p.content)) != p.content for p in _read_kept_pieces(folder, plan)):
            raise DamagedArchive(fresh, f"it lacks records to keep of {plan.segment!r}, which stays unchanged")
    fresh.replace(path)
    flush_folder(path.parent)
    return before - path.stat().st_size


def _read_kept_pieces(folder: Path, plan: SegmentPruning) -> Iterator[SegmentPiece]:
    for line in read_segment_lines(folder, plan.segment):
        if line.seq - plan.first in plan.kept_lines:
            yield SegmentPiece(line.offset, line.seq - plan.first, line.raw + b"\n")


class PrunedPart(Struct, frozen=True):
    """A part of the log with gaps: the seqs it spans, the number of deleted records (`gone`), and the leaf count at its
    `end`.
    """

    first: int
    last: int
    gone: int
    end: int


def describe_pruned_part(part: PrunedPart) -> str:
    return (
        f"{part.gone} of records {part.first} to {part.last} were pruned, including their statements about these lines"
    )


def list_pruned_parts(folder: Path) -> list[PrunedPart]:
    """Return the segments with gaps, adjacent ones joined. Raises OSError."""
    found: list[PrunedPart] = []
    for segment in list_archived_segments(folder):
        if (folder / segment).exists() or not (part := _find_pruned_part(folder, segment)):
            continue
        if found and found[-1].last + 1 == part.first:
            before = found.pop()
            part = PrunedPart(before.first, part.last, before.gone + part.gone, part.end)
        found.append(part)
    return found


def has_pruned_records(folder: Path, segment: str) -> bool:
    return not (folder / segment).exists() and _find_pruned_part(folder, segment) is not None


def _find_pruned_part(folder: Path, segment: str) -> PrunedPart | None:
    try:
        with open_archive(folder, segment) as archive:
            gone = sum(end - start for start, end in archive.gaps())
            lines, index = archive.summary.lines, archive.summary.index
    except DamagedArchive:
        return None
    first = first_seq(segment)
    return PrunedPart(first, first + lines - 1, gone, index + lines) if gone else None
