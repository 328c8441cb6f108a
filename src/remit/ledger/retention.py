"""The fate of old segments: compaction archives sealed segments, pruning deletes old records of archives permanently.

An archive is read back before the original is removed. Each segment exists completely in at least one form at any time,
hence a crash loses no record and readers never wait. Appends wait only while a file is removed.

Only archived records under a tree head are deleted, after a `pruned` record announced them. Their leaf hashes stay: the
chain, tree heads and proofs still hold, and a copy of a record kept elsewhere can still be proved.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from msgspec import Struct

from remit.ledger import log_files
from remit.ledger.archive import (
    HASH_BYTES,
    Archive,
    DamagedArchive,
    SegmentPiece,
    SegmentSummary,
    extend_tiles,
    open_archive,
    read_segment_pieces,
    read_tile_row,
    split_hashes,
    write_archive,
)
from remit.ledger.file_changes import read_changes
from remit.ledger.findings import LedgerFinding
from remit.ledger.reader import find_tree_range, read_lines, read_segment_lines

CHANGE_EVENTS = frozenset({"mutation", "human_edit", "replay"})
"""Events that attribution reads: kept while a file of theirs exists, unless all records are to go."""

PRUNABLE_EVENTS = CHANGE_EVENTS | {
    *("tool_use", "tool_result", "denied", "verification", "check_failed", "snapshot", "restore"),
    *("generated", "data_snapshot", "data_changed"),
    *("approval_requested", "approval_answered", "intent_selected", "intent_cleared", "session_start", "session_end"),
}
"""Events that may be pruned. Tree heads, repairs and the history of intents and lessons stay: few, and needed later."""

KeepRule = Callable[[bytes, str], bool]  # rule that decides by line and event whether a record is kept
_BUFFER_BYTES = 1024 * 1024


class CompactionResult(Struct, frozen=True):
    """Result of a compaction: the archived segments and records, and their bytes before and after."""

    segments: int = 0
    records: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


class SegmentOutOfOrder(log_files.LedgerError):
    """A segment after a predecessor without a place in the tree: archiving is impossible."""

    def __init__(self, segment: str, why: str) -> None:
        super().__init__(f"segment {segment!r} cannot be archived: {why}\nhint: see `remit ledger verify`")


# -- compaction ----------------------------------------------------------------------------------------------


def sealed_segments(folder: Path) -> list[str]:
    names = log_files.list_live_segments(folder)
    while names:
        with (folder / names.pop()).open("rb") as file:
            if b"\n" in file.read(log_files.LINE_LIMIT):
                break
    return names


def compact(folder: Path, *, max_segments: int | None = None) -> CompactionResult:
    """Archive at most `max_segments` sealed segments, the oldest first. Raises OSError, LedgerError. A lock lets one
    process work at a time; work interrupted by a crash is repeated.
    """
    names = sealed_segments(folder)[:max_segments]
    if not names:
        return CompactionResult()
    (folder / log_files.ARCHIVE_FOLDER).mkdir(mode=0o700, exist_ok=True)
    with log_files.hold_lock(folder / log_files.ARCHIVE_FOLDER / "lock"):
        for left in (folder / log_files.ARCHIVE_FOLDER).glob("*.new"):
            left.unlink()
        completed = [_archive_segment(folder, name) for name in names if (folder / name).exists()]
    sums = map(sum, zip(*completed, strict=True)) if completed else ()
    return CompactionResult(len(completed), *sums)


def _archive_segment(folder: Path, segment: str) -> tuple[int, int, int]:
    live, path = folder / segment, log_files.archive_path(folder, segment)
    digest = hashlib.sha256()
    with live.open("rb") as file:
        while block := file.read(_BUFFER_BYTES):
            digest.update(block)
        size = file.tell()
    leaves = [line.leaf_digest for line in read_segment_lines(folder, segment) if line.ended]
    summary = SegmentSummary(_find_tree_index(folder, segment), len(leaves), size, digest.digest())
    extend_tiles(folder, summary.index, b"".join(leaves))
    if not _is_same_content(live, path):
        fresh = path.with_name(f"{path.name}.new")
        write_archive(fresh, summary, read_segment_pieces(live))
        if not _is_same_content(live, fresh):
            raise DamagedArchive(fresh, f"it does not give back {segment!r}, which was left as it is")
        fresh.replace(path)
    log_files.flush_folder(path.parent)
    with log_files.hold_lock(folder / "lock"):  # a process may have appended to the segment in the meantime
        if segment in sealed_segments(folder) and live.stat().st_size == size:
            live.unlink()
            log_files.flush_folder(folder)
    return summary.lines, size, path.stat().st_size


def _find_tree_index(folder: Path, segment: str) -> int:
    """Return the tree index of a segment's first line. Raises SegmentOutOfOrder if an earlier one is not archived."""
    earlier = [name for name in log_files.list_archived_segments(folder) if name < segment]
    if any(name < segment for name in log_files.list_live_segments(folder)):
        raise SegmentOutOfOrder(segment, "one before it is not archived")
    if not earlier:
        return 0
    index = find_tree_range(folder, earlier[-1])[1]
    if len(read_tile_row(folder, 0, 0, index)) < index * HASH_BYTES:
        # Rebuilt from the records of complete archives; pruned archives keep the stored hashes.
        for name in earlier:
            with open_archive(folder, name) as archive:
                start, gaps = archive.summary.index, archive.gaps()
            if not gaps:
                leaves = (line.leaf_digest for line in read_segment_lines(folder, name) if line.ended)
                extend_tiles(folder, start, b"".join(leaves))
    return index


def _is_same_content(live: Path, path: Path) -> bool:
    try:
        archive = Archive(path)
    except (FileNotFoundError, DamagedArchive):
        return False
    with archive, live.open("rb") as file:
        offset = 0
        while block := file.read(_BUFFER_BYTES):
            if archive.read_range(offset, len(block)) != block:
                return False
            offset += len(block)
        return archive.is_whole and archive.summary.size == offset


# -- pruning -------------------------------------------------------------------------------------------------


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
        return sum((Counter(segment.dropped_events) for segment in self.segments), Counter[str]())

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)

    @property
    def kept_records(self) -> int:
        return sum(len(segment.kept_lines) for segment in self.segments)


def build_keep_rule(folder: Path, standing: AbstractSet[str] | None) -> KeepRule:
    """Return the rule that keeps unprunable events, and changes of the paths in `standing`. Earlier names of these
    paths count too. With None no record is kept for the sake of attribution.
    """
    sources: dict[str, set[str]] = {}
    for line in read_lines(folder) if standing else ():
        for change in read_changes(line.raw) if b'"from":' in line.raw else ():
            if change.moved_from:
                sources.setdefault(change.path, set()).add(change.moved_from)
    living = set(standing or ())
    waiting = [path for path in sources if path in living]
    while waiting:
        fresh = sources.get(waiting.pop(), set()) - living
        living |= fresh
        waiting += fresh

    def keep(raw: bytes, event: str) -> bool:
        if event not in PRUNABLE_EVENTS:
            return True
        return event in CHANGE_EVENTS and any(change.path in living for change in read_changes(raw))

    return keep


def plan_pruning(
    folder: Path, before: str, witnessed: int, findings: Sequence[LedgerFinding], keep: KeepRule
) -> PruningPlan:
    """Return the deletable records older than `before`, a time in the records' format. Only whole segments qualify: all
    records are older, a tree head covers them, no finding concerns them, and the stored hashes equal the lines' hashes.
    Raises OSError, LedgerError.
    """
    planned: list[SegmentPruning] = []
    skipped: list[str] = []
    for segment in log_files.list_archived_segments(folder):
        if (folder / segment).exists():
            continue
        try:
            found = _plan_segment(folder, segment, before, witnessed, findings, keep)
        except DamagedArchive:
            found = "its archive is damaged: see `remit ledger verify`"
        if found is None:
            break  # segments are in order of time: all later ones are too young as well
        if isinstance(found, str):
            skipped.append(f"{segment}: {found}")
        elif found.dropped_events:
            planned.append(found)
    return PruningPlan(tuple(planned), tuple(skipped))


def _plan_segment(
    folder: Path, segment: str, before: str, witnessed: int, findings: Sequence[LedgerFinding], keep: KeepRule
) -> SegmentPruning | str | None:
    """Return the plan for a segment, the reason why it stays, or None if it is too young."""
    with open_archive(folder, segment) as archive:
        summary = archive.summary
    first = log_files.first_seq(segment)
    last = first + summary.lines - 1
    kept: set[int] = set()
    dropped: Counter[str] = Counter()
    size = 0
    row = read_tile_row(folder, 0, summary.index, summary.lines)
    leaves = split_hashes(row.ljust(summary.lines * HASH_BYTES, b"\0"))
    for line, leaf in zip(read_segment_lines(folder, segment), leaves, strict=False):
        if line.leaf:
            continue
        header = log_files.decode_header(line.raw) if line.ended else None
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
    found: list[tuple[int, int]] = []
    for line in read_lines(folder):
        header = log_files.decode_header(line.raw) if b'"event":"pruned"' in line.raw else None
        if header is not None and header.chain.seq == line.seq:
            found += log_files.decode_detail(line.raw).pruned
    return found


def build_pruning_detail(plan: PruningPlan, known: Iterable[tuple[int, int]], **more: Any) -> dict[str, Any]:
    """Return the detail of a `pruned` record, with earlier ranges too: earlier `pruned` records may be pruned later."""
    parts: list[tuple[int, int]] = []
    for first, last in sorted([*known, *((segment.first, segment.last) for segment in plan.segments)]):
        if parts and first <= parts[-1][1] + 1:  # adjacent ranges are joined
            parts[-1] = (parts[-1][0], max(last, parts[-1][1]))
        else:
            parts.append((first, last))
    return {"pruned": parts, "dropped": dict(plan.dropped_counts), "kept": plan.kept_records, **more}


def prune(folder: Path, plan: PruningPlan) -> int:
    """Delete the planned records and return the number of bytes saved. A `pruned` record must be in the log before.
    Each archive is rewritten beside the old archive, hence a crash leaves either version. Raises OSError, LedgerError.
    """
    with log_files.hold_lock(folder / log_files.ARCHIVE_FOLDER / "lock"):
        return sum(_rewrite_archive(folder, segment) for segment in plan.segments)


def _rewrite_archive(folder: Path, plan: SegmentPruning) -> int:
    path = log_files.archive_path(folder, plan.segment)
    fresh = path.with_name(f"{path.name}.new")
    before = path.stat().st_size
    with open_archive(folder, plan.segment) as archive:
        summary = archive.summary
    write_archive(fresh, summary, _read_kept_pieces(folder, plan))
    with Archive(fresh) as written:
        if any(written.read_range(p.offset, len(p.content)) != p.content for p in _read_kept_pieces(folder, plan)):
            raise DamagedArchive(fresh, f"it lacks records to keep of {plan.segment!r}, which stays unchanged")
    fresh.replace(path)
    log_files.flush_folder(path.parent)
    return before - path.stat().st_size


def _read_kept_pieces(folder: Path, plan: SegmentPruning) -> Iterator[SegmentPiece]:
    for line in read_segment_lines(folder, plan.segment):
        if line.seq - plan.first in plan.kept_lines:
            yield SegmentPiece(line.offset, line.seq - plan.first, line.raw + b"\n")


# -- what was pruned -----------------------------------------------------------------------------------------


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
    found: list[PrunedPart] = []
    for segment in log_files.list_archived_segments(folder):
        if part := _find_pruned_part(folder, segment):
            if found and found[-1].last + 1 == part.first:
                before = found.pop()
                part = PrunedPart(before.first, part.last, before.gone + part.gone, part.end)
            found.append(part)
    return found


def has_pruned_records(folder: Path, segment: str) -> bool:
    return _find_pruned_part(folder, segment) is not None


def _find_pruned_part(folder: Path, segment: str) -> PrunedPart | None:
    if (folder / segment).exists():
        return None
    try:
        with open_archive(folder, segment) as archive:
            gone = sum(end - start for start, end in archive.gaps())
            lines, index = archive.summary.lines, archive.summary.index
    except DamagedArchive:
        return None
    first = log_files.first_seq(segment)
    return PrunedPart(first, first + lines - 1, gone, index + lines) if gone else None
