"""Dropping old records for good, so that what is left still proves itself.

Only archived records under a tree head go, and only after a `pruned` record says so. Their leaf hashes stay: the
chain, the heads and proofs go on holding, and a record that somebody kept elsewhere can still be proved.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from remit.ledger import lock
from remit.ledger.archive import Archive, DamagedArchive, SegmentPiece, open_archive, write_archive
from remit.ledger.file_changes import read_changes
from remit.ledger.integrity.findings import LedgerFinding
from remit.ledger.reader import LogLine, read_lines, read_segment_lines
from remit.ledger.record_views import RecordLine
from remit.ledger.segments import (
    ARCHIVE_FOLDER,
    DECODE_ERRORS,
    archive_path,
    first_seq,
    flush_folder,
    list_archived_segments,
)
from remit.ledger.tiles import HASH_BYTES, read_tile_row, split_hashes

CHANGE_EVENTS = frozenset({"mutation", "human_edit"})
"""Attribution is read from these: they stay while a file of theirs exists, unless all are to go."""

PRUNABLE_EVENTS = CHANGE_EVENTS | {
    *("tool_use", "tool_result", "denied", "verification", "check_failed", "snapshot", "restore"),
    "generated",
    *("approval_requested", "approval_answered", "intent_selected", "intent_cleared", "session_start", "session_end"),
}
"""What may be pruned. Heads, repairs, and the history of intents and lessons stay: few, and needed later."""

KeepRule = Callable[[bytes, str], bool]
"""Whether a line of an event is kept."""


class SegmentPruning(Struct, frozen=True):
    """What pruning would drop of one segment. `kept` are numbers of its lines."""

    segment: str
    first: int
    last: int
    kept_lines: frozenset[int]
    dropped_events: dict[str, int]
    bytes: int


class PruningPlan(Struct, frozen=True):
    """What pruning would do. `left` says why segments that are old enough stay as they are."""

    segments: tuple[SegmentPruning, ...]
    skipped: tuple[str, ...] = ()

    @property
    def dropped_counts(self) -> Counter[str]:
        """How many records would go, by event."""
        return sum((Counter(one.dropped_events) for one in self.segments), Counter[str]())

    @property
    def bytes(self) -> int:
        """How long their lines are together."""
        return sum(one.bytes for one in self.segments)

    @property
    def kept_records(self) -> int:
        """How many records of these segments would stay."""
        return sum(len(one.kept_lines) for one in self.segments)


class _PruneChain(Struct):
    seq: int


class _PruneView(Struct):
    chain: _PruneChain
    event: str = ""
    pruned: tuple[tuple[int, int], ...] = ()


class _PruneRecord(RecordLine[_PruneView]):
    timestamp: str


_PRUNE_RECORD = json.Decoder(_PruneRecord)


def build_keep_rule(folder: Path, standing: AbstractSet[str] | None) -> KeepRule:
    """What stays: all that is not passing, and what was done to the paths that stand today, by their earlier names too.

    With None nothing is kept for the sake of attribution.
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
    """What may be dropped of the records older than `before`, which is written as records write times.

    Whole segments only: all their records are older, a tree head covers them, nothing of them is in `findings`, and
    the hashes beside the archive are those of the lines. Raises OSError, LedgerError.
    """
    doomed: list[SegmentPruning] = []
    left: list[str] = []
    for segment in list_archived_segments(folder):
        if (folder / segment).exists():
            continue
        try:
            found = _plan_segment(folder, segment, before, witnessed, findings, keep)
        except DamagedArchive:
            found = "its archive is damaged: see `remit ledger verify`"
        if isinstance(found, SegmentPruning):
            doomed.append(found)
        elif found:
            left.append(f"{segment}: {found}")
        else:
            break
    return PruningPlan(tuple(one for one in doomed if one.dropped_events), tuple(left))


def _plan_segment(
    folder: Path, segment: str, before: str, witnessed: int, findings: Sequence[LedgerFinding], keep: KeepRule
) -> SegmentPruning | str | None:
    """What would go of a segment; why it stays though it is old enough; None where it is too young."""
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
        record = _decode_record(line)
        if record is None or line.leaf_digest != leaf:
            return "it holds what is no record, or is not what its hashes say"
        if record.timestamp >= before:
            return None
        event = record.metadata.body.event
        if keep(line.raw, event):
            kept.add(line.seq - first)
        else:
            dropped[event] += 1
            size += line.size
    if any(f.seq is not None and f.seq <= last and first <= (f.last_seq or f.seq) for f in findings):
        return "verification finds fault with it: it is evidence"
    if summary.index + summary.lines > witnessed:
        return "no tree head covers it yet: `remit ledger head` makes one"
    return SegmentPruning(segment, first, last, frozenset(kept), dict(dropped), size)


def _decode_record(line: LogLine) -> _PruneRecord | None:
    """A record that stands where it says; None for anything else."""
    try:
        found = _PRUNE_RECORD.decode(line.raw)
    except DECODE_ERRORS:
        return None
    return found if line.ended and found.metadata.body.chain.seq == line.seq else None


def read_pruned_ranges(folder: Path) -> list[tuple[int, int]]:
    """The parts of the log that records of pruning named so far."""
    found: list[tuple[int, int]] = []
    for line in read_lines(folder):
        if b'"event":"pruned"' in line.raw and (record := _decode_record(line)) is not None:
            found += record.metadata.body.pruned
    return found


def build_pruning_detail(plan: PruningPlan, known: Iterable[tuple[int, int]], **more: Any) -> dict[str, Any]:
    """The detail of the record that says so, with all that was pruned earlier: that record may go one day too."""
    parts = _join_ranges([*known, *((one.first, one.last) for one in plan.segments)])
    return {"pruned": parts, "dropped": dict(plan.dropped_counts), "kept": plan.kept_records, **more}


def _join_ranges(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Parts that touch, as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def prune(folder: Path, plan: PruningPlan) -> int:
    """Drop what the plan says, after a record told of it; how many bytes the archives are smaller now.

    Each archive is written anew beside the old one, so a crash leaves one of both. Raises OSError, LedgerError.
    """
    held = lock.acquire(folder / ARCHIVE_FOLDER / "lock")
    try:
        return sum(_rewrite_archive(folder, one) for one in plan.segments)
    finally:
        lock.release(held)


def _rewrite_archive(folder: Path, one: SegmentPruning) -> int:
    path = archive_path(folder, one.segment)
    fresh = path.with_name(f"{path.name}.new")
    before = path.stat().st_size
    with open_archive(folder, one.segment) as archive:
        summary = archive.summary
    write_archive(fresh, summary, _read_kept_pieces(folder, one))
    with Archive(fresh) as written:
        if any(written.read_range(p.offset, len(p.content)) != p.content for p in _read_kept_pieces(folder, one)):
            raise DamagedArchive(fresh, f"it does not hold what was to stay of {one.segment!r}, which is as it was")
    fresh.replace(path)
    flush_folder(path.parent)
    return before - path.stat().st_size


def _read_kept_pieces(folder: Path, one: SegmentPruning) -> Iterator[SegmentPiece]:
    for line in read_segment_lines(folder, one.segment):
        if line.seq - one.first in one.kept_lines:
            yield SegmentPiece(line.offset, line.seq - one.first, line.raw + b"\n")


class PrunedPart(Struct, frozen=True):
    """A part of the log that has gaps: the seqs it spans, and how many of them are gone. `end` counts leaves."""

    first: int
    last: int
    gone: int
    end: int


def describe_pruned_part(part: PrunedPart) -> str:
    """Why something may be unknown."""
    return f"{part.gone} of records {part.first} to {part.last} were pruned: what they told of these lines is lost"


def list_pruned_parts(folder: Path) -> list[PrunedPart]:
    """The segments with gaps, those that touch as one. Raises OSError."""
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
    """Whether a segment has gaps, or is damaged as if it had."""
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
