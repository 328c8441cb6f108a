"""Recorded steps that lead to a version of a file, or to the recorded contents nearest to that version."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from heapq import nlargest
from typing import TypeAlias

from msgspec import Struct

from remit.core.diff.contents import Hunk, Span

MAX_CANDIDATES = 12  # newest recorded contents that are compared with an unrecorded version

MAX_OLDER_CANDIDATES = 4
"""Older candidates: contents from which people removed most lines. A switch from a branch back to main removes the
branch's lines, and a later squash merge brings them back.
"""


class HistoryEntry(Struct, frozen=True):
    """One recorded change of a path, ordered by `seq`. `hunks` are the recorded differences, if any. `by_git`: git
    brought the content, no line is attributed. `observed`: found by comparing, without a reporting call. `unproved` are
    new lines (first, last) not proved to be the call's; `trusted`: a formatter trusted by a person.
    """

    seq: int
    record: str
    before: str | None
    after: str | None
    before_lines: int | None = None
    hunks: tuple[Hunk, ...] | None = None
    positions_known: bool = False
    by_git: bool = False
    observed: bool = False
    unproved: tuple[Span, ...] = ()
    trusted: bool = False
    likely: tuple[Span, ...] = ()
    """Unproved lines that no other writer can be seen to have written."""
    is_layout: bool = False
    """True if the unproved lines continue lines of `before` in a new layout."""


class HistoryStep(Struct, frozen=True):
    """One step from a content to the next, by blobs. `record` is None for an unrecorded step. An `inferred` step rests
    on similarity alone. `strict`: later contents were seen without the lines.
    """

    before: str | None
    after: str
    record: str | None
    before_lines: int | None = None
    hunks: tuple[Hunk, ...] | None = None
    positions_known: bool = False
    inferred: bool = False
    strict: bool = False
    unproved: tuple[Span, ...] = ()
    trusted: bool = False
    likely: tuple[Span, ...] = ()
    is_layout: bool = False


Route: TypeAlias = tuple[HistoryStep, ...]  # steps that lead from a recorded content to a version


class FileHistory:
    """Recorded changes of one path, oldest first, with the positions of each content."""

    def __init__(self, recorded: Sequence[HistoryEntry]) -> None:
        self.recorded = sorted(recorded, key=lambda r: r.seq)
        self.contents = frozenset(entry.after for entry in recorded if entry.after)
        self.positions_by_content: dict[str, list[int]] = {}
        """By content: positions of the entries that left it, without git's."""
        self.first_seen: dict[str, int] = {}
        """By content: position of the entry before which the content was first seen, git's included."""
        self.routes_back: dict[tuple[str, str | None, int], Route] = {}
        """Results of `route_back`, equal for versions with an unrecorded parent."""
        self.steps_by_content: dict[tuple[str, int], tuple[HistoryStep, int] | None] = {}
        """Results of `step_leading_to` by content and bound: routes from many versions soon meet."""
        self.removed_lines: dict[str, int] = {}
        """By content: lines removed when the content was left without a call."""
        self.last_position: dict[str, int] = {}
        """By record: its last position."""
        for position, entry in enumerate(self.recorded):
            self.last_position[entry.record] = position
            if entry.before is not None:
                if entry.observed and entry.hunks:
                    self.removed_lines[entry.before] = sum(hunk.old_lines for hunk in entry.hunks)
                self.first_seen.setdefault(entry.before, position)
            if entry.after is not None and entry.by_git:
                self.first_seen.setdefault(entry.after, position)
            elif entry.after is not None:
                self.positions_by_content.setdefault(entry.after, []).append(position)

    def records_before_seen(self, blob: str) -> int:
        """Return the number of entries before the first sighting of a content; of all entries if never seen."""
        return self.first_seen.get(blob, len(self.recorded))

    def existed_before_records(self, blob: str) -> bool:
        return self.records_before_seen(blob) <= self.positions_by_content.get(blob, (-1,))[0]

    def records_after_seen(self, blob: str) -> frozenset[str]:
        return frozenset(entry.record for entry in self.recorded[self.records_before_seen(blob) :])

    def follows_sighting(self, blob: str, record: str) -> bool:
        return self.last_position.get(record, -1) >= self.records_before_seen(blob)


def certain_route(blob: str, parent: str | None, history: FileHistory) -> Route:
    """Return the recorded steps that lead to a content; empty if no record left the content."""
    return route_back(blob, parent, history, len(history.recorded)) if blob in history.positions_by_content else ()


def possible_routes(
    blob: str, parent: str | None, history: FileHistory, earlier_contents: frozenset[str] = frozenset()
) -> tuple[Route, ...]:
    """Return the possible routes to a content, best first; several only if none is certain. `earlier_contents` existed
    before the parent: lines missing from the parent were removed. A record made after the version was seen does not
    speak against the last content before it.
    """
    if exact := certain_route(blob, parent, history):
        return (exact,)
    # 1. The newest entries that left unseen contents, and some older ones.
    candidates: dict[str, HistoryEntry] = {}
    for entry in reversed(history.recorded):
        if entry.after is not None and entry.after not in (parent, blob) and not entry.by_git:
            candidates.setdefault(entry.after, entry)
    names = list(candidates)
    older = [content for content in names[MAX_CANDIDATES:] if content in history.removed_lines]
    names = names[:MAX_CANDIDATES] + nlargest(MAX_OLDER_CANDIDATES, older, key=lambda c: history.removed_lines[c])

    # 2. The way to each, and the unrecorded step from there.
    newest = max((r.seq for r in history.recorded), default=0)
    newest_before = max((r.seq for r in history.recorded[: history.records_before_seen(blob)]), default=0)
    routes: list[Route] = []
    for content in names:
        seq = candidates[content].seq
        strict = seq < (newest_before if seq <= newest_before else newest) or content in earlier_contents
        gap = HistoryStep(content, blob, None, inferred=True, strict=strict)
        bound = bisect_right(history.recorded, seq, key=lambda r: r.seq)
        routes.append((*route_back(content, parent, history, bound), gap))
    return tuple(routes)


def route_back(blob: str, parent: str | None, history: FileHistory, bound: int) -> Route:
    before = parent if parent is None or parent in history.positions_by_content or parent in history.first_seen else ""
    key = (blob, before, bound)
    if key in history.routes_back:
        return history.routes_back[key]
    steps: list[HistoryStep] = []
    position = position_written(blob, history, bound, (before,))
    if position is not None:
        steps.append(make_step(history.recorded[position], blob))
        while (content := steps[-1].before) is not None and content != before:
            if (content, position) not in history.steps_by_content:
                history.steps_by_content[content, position] = step_leading_to(content, history, position)
            if (leading := history.steps_by_content[content, position]) is None:
                break
            steps.append(leading[0])
            position = leading[1]
    history.routes_back[key] = tuple(reversed(steps))
    return history.routes_back[key]


def step_leading_to(content: str, history: FileHistory, bound: int) -> tuple[HistoryStep, int] | None:
    """Return the step that led to a content before entry `bound`, and the new bound; None if no content was seen. An
    unrecorded step comes from the content seen last. If git brought `content`, the step starts from the content before:
    a person may have changed and committed it.
    """
    position = position_written(content, history, bound)
    if position is not None:
        return make_step(history.recorded[position], content), position
    last = history.recorded[bound - 1] if bound else None
    before = None if last is None else last.after if last.after != content else last.before if last.by_git else None
    if last is None or before is None:
        return None
    return HistoryStep(before, content, None, inferred=True), bound - (last.after == content)


def position_written(content: str, history: FileHistory, bound: int, before: Collection[str | None] = ()) -> int | None:
    recorded, positions = history.recorded, history.positions_by_content.get(content, [])
    earlier = positions[: bisect_left(positions, bound)]
    calls = [i for i in earlier if not recorded[i].observed]
    before_calls = [i for i in earlier if calls and i < calls[0]]
    chosen = [i for i in calls if not recorded[i].unproved] or before_calls or calls or earlier
    direct = [i for i in chosen if recorded[i].before in before]
    return (direct or chosen or [None])[-1]


def make_step(entry: HistoryEntry, after: str) -> HistoryStep:
    return HistoryStep(
        entry.before,
        after,
        entry.record,
        before_lines=entry.before_lines,
        hunks=entry.hunks,
        positions_known=entry.positions_known,
        inferred=entry.observed,
        unproved=entry.unproved,
        trusted=entry.trusted,
        likely=entry.likely,
        is_layout=entry.is_layout,
    )


def origins_in_parent(steps: Sequence[HistoryStep], parent: str | None, numbers: Iterable[int]) -> dict[int, int]:
    """Return for lines that no step added their line in `parent`, from 1. Only calls without a gap from `parent` on
    count: a person's change is known by comparing alone.
    """
    if not steps or steps[0].before != parent or any(s.hunks is None or s.inferred or s.unproved for s in steps):
        return {}
    origins: dict[int, int] = {}
    for number in numbers:
        origin: int | None = number
        for step in reversed(steps):
            origin = None if origin is None else line_before(step.hunks or (), origin)
        if origin is not None:
            origins[number] = origin
    return origins


def line_before(hunks: Iterable[Hunk], number: int) -> int | None:
    """Return the line before a change for a line after it, both from 1; None for an added line."""
    shift = 0
    for hunk in hunks:
        start = hunk.new_range.start
        if number < start:
            break
        if number < start + hunk.new_lines:
            return None
        shift += hunk.new_lines - hunk.old_lines
    return number - shift


def needed_pairs(steps: Sequence[HistoryStep]) -> tuple[tuple[str | None, str], ...]:
    """Return the pairs of contents whose differences are needed to carry attributions through the steps. The first
    step needs none if the record holds its hunks and the number of lines before.
    """
    if not steps:
        return ()
    first, *others = steps
    needs_first = first.hunks is None or first.likely or (first.before_lines is None and first.before)
    needed = [s for s in others if s.hunks is None or s.inferred or s.unproved]
    return tuple((s.before, s.after) for s in ([first] if needs_first else []) + needed)
