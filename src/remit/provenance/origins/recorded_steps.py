"""How a version came about: the recorded steps that lead to it, or the recorded versions that come nearest."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from heapq import nlargest

from msgspec import Struct

from remit.core.diff.contents import Hunk
from remit.core.diff.line_spans import Span

MAX_CANDIDATES = 12
"""Recorded versions that are compared with a version that nobody recorded, the newest first."""

MAX_OLDER_CANDIDATES = 4
"""Older ones that are candidates too, of which people took out most: whoever goes from a branch back to main takes out
all that it brought, and a squash brings it back when main has long gone on.
"""


class HistoryEntry(Struct, frozen=True):
    """One recorded change of a path. `seq` orders them.

    `hunks` are the differences, where the record holds them. `by_git` says that git brought the content from
    elsewhere: it is an observation, and puts nobody's lines anywhere. `observed` says that the change was found by
    comparing, and not by a call that told what it did. `unproved` are the new lines, first and last, of which nothing
    tells that the call wrote them; `trusted`, that it was a command that a person trusts to lay out what was written.
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
    """Those of the unproved lines that nothing but the call can be seen to have written."""


class HistoryStep(Struct, frozen=True):
    """One step from a content to the next, by git names. `record` is None where nobody recorded it.

    A step is `loose` where nothing tells that the next content came from this one, but that they are alike;
    `strict` where something even speaks against it: later contents were seen without those lines.
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


class FileHistory:
    """All that was recorded of one path, oldest first, and where each content comes in it."""

    def __init__(self, recorded: Sequence[HistoryEntry]) -> None:
        self.recorded = sorted(recorded, key=lambda r: r.seq)
        self.positions_by_content: dict[str, list[int]] = {}
        """By content, the places of the records that left it; not those of git."""
        self.first_seen: dict[str, int] = {}
        """By content, the place of the record before which it was there first; git's own tell of what was there."""
        self.routes_back: dict[tuple[str, str | None, int], tuple[HistoryStep, ...]] = {}
        """What `route_back` found: it tells the same of all the versions that no record knows what was before."""
        self.steps_by_content: dict[tuple[str, int], tuple[HistoryStep, int] | None] = {}
        """What `step_leading_to` found, by content and bound: the ways back from many versions meet soon."""
        self.removed_lines: dict[str, int] = {}
        """By content, how many lines of it went when it was left without any call."""
        self.last_position: dict[str, int] = {}
        """By record, the last of its places."""
        for at, found in enumerate(self.recorded):
            self.last_position[found.record] = at
            if found.before is not None and found.observed and found.hunks:
                self.removed_lines[found.before] = sum(hunk.old_lines for hunk in found.hunks)
            if found.before is not None:
                self.first_seen.setdefault(found.before, at)
            if found.after is not None and found.by_git:
                self.first_seen.setdefault(found.after, at)
            elif found.after is not None:
                self.positions_by_content.setdefault(found.after, []).append(at)

    def records_before_seen(self, blob: str) -> int:
        """How many records there are up to where that content was seen first: all where it never was."""
        return self.first_seen.get(blob, len(self.recorded))

    def existed_before_records(self, blob: str) -> bool:
        """Whether that content had been there before the first record that left it."""
        return self.records_before_seen(blob) <= self.positions_by_content.get(blob, (-1,))[0]

    def records_after_seen(self, blob: str) -> frozenset[str]:
        """The records of what happened when that content had been seen already; none where it never was."""
        return frozenset(found.record for found in self.recorded[self.records_before_seen(blob) :])

    def follows_sighting(self, blob: str, record: str) -> bool:
        """Whether that record tells of what happened when that content had been seen already."""
        return self.last_position.get(record, -1) >= self.records_before_seen(blob)

    def records_until(self, seq: int) -> int:
        """How many records there are up to that one."""
        return bisect_right(self.recorded, seq, key=lambda r: r.seq)


def certain_route(blob: str, parent: str | None, history: FileHistory) -> tuple[HistoryStep, ...]:
    """The recorded steps that lead to that version; none where no record left it."""
    return route_back(blob, parent, history, len(history.recorded)) if blob in history.positions_by_content else ()


def possible_routes(
    blob: str, parent: str | None, history: FileHistory, earlier_contents: frozenset[str] = frozenset()
) -> tuple[tuple[HistoryStep, ...], ...]:
    """The ways in which `version` may have come about, best first; several only where none is certain.

    `settled` are contents that history had before the parent: what they held and the parent has not, was taken out.
    What was recorded when the version had been seen says nothing against the last content before it.
    """
    if exact := certain_route(blob, parent, history):
        return (exact,)
    newest = max((r.seq for r in history.recorded), default=0)
    then = max((r.seq for r in history.recorded[: history.records_before_seen(blob)]), default=0)
    found: list[tuple[HistoryStep, ...]] = []
    for last, after in candidate_contents({None, parent, blob}, history):
        strict = last.seq < (then if last.seq <= then else newest) or after in earlier_contents
        gap = HistoryStep(after, blob, None, inferred=True, strict=strict)
        found.append((*route_back(after, parent, history, history.records_until(last.seq)), gap))
    return tuple(found)


def candidate_contents(seen: set[str | None], history: FileHistory) -> list[tuple[HistoryEntry, str]]:
    """The newest records that left contents which were not `seen`, and these; and some older ones."""
    found: list[tuple[HistoryEntry, str]] = []
    for last in reversed(history.recorded):
        if last.after is None or last.after in seen or last.by_git:
            continue
        seen.add(last.after)
        found.append((last, last.after))
    left = [each for each in found[MAX_CANDIDATES:] if each[1] in history.removed_lines]
    return [
        *found[:MAX_CANDIDATES],
        *nlargest(MAX_OLDER_CANDIDATES, left, key=lambda each: history.removed_lines[each[1]]),
    ]


def route_back(blob: str, parent: str | None, history: FileHistory, bound: int) -> tuple[HistoryStep, ...]:
    """The chain that ends in `version`, followed backwards from record `bound` while records tell how it came about."""
    before = parent if parent is None or parent in history.positions_by_content or parent in history.first_seen else ""
    key = (blob, before, bound)
    if key not in history.routes_back:
        history.routes_back[key] = follow_back(blob, before, history, bound)
    return history.routes_back[key]


def follow_back(blob: str, parent: str | None, history: FileHistory, bound: int) -> tuple[HistoryStep, ...]:
    """The same, from the records."""
    at = position_written(blob, history, bound, (parent,))
    if at is None:
        return ()
    steps = [make_step(history.recorded[at], blob)]
    while (wanted := steps[-1].before) is not None and wanted != parent:
        if (wanted, at) not in history.steps_by_content:
            history.steps_by_content[wanted, at] = step_leading_to(wanted, history, at)
        found = history.steps_by_content[wanted, at]
        if found is None:
            break
        steps.append(found[0])
        at = found[1]
    return tuple(reversed(steps))


def step_leading_to(wanted: str, history: FileHistory, bound: int) -> tuple[HistoryStep, int] | None:
    """The step that led to a content before record `bound`, and the bound of what was before that."""
    at = position_written(wanted, history, bound)
    if at is not None:
        return make_step(history.recorded[at], wanted), at
    gap = step_over_gap(wanted, history, bound)
    return None if gap is None else (gap, bound - (history.recorded[bound - 1].after == wanted))


def position_written(wanted: str, history: FileHistory, bound: int, before: Collection[str | None] = ()) -> int | None:
    """The newest record that left that content: a call's own, else one that was found before any call, else one of a
    call that may have; one that made it out of a content in `before` comes first. Git writes nothing, and who comes
    back to a content that was there did not write it either, as an agent's `git stash pop`.
    """
    recorded, versions = history.recorded, history.positions_by_content.get(wanted, [])
    found = versions[: bisect_left(versions, bound)]
    calls = [i for i in found if not recorded[i].observed]
    back = [i for i in found if calls and i < calls[0]]
    own = [i for i in calls if not recorded[i].unproved] or back or calls or found
    straight = [i for i in own if recorded[i].before in before]
    return (straight or own or [None])[-1]


def make_step(found: HistoryEntry, after: str) -> HistoryStep:
    """The step that a record tells of."""
    return HistoryStep(
        before=found.before,
        after=after,
        record=found.record,
        before_lines=found.before_lines,
        hunks=found.hunks,
        positions_known=found.positions_known,
        inferred=found.observed,
        unproved=found.unproved,
        trusted=found.trusted,
        likely=found.likely,
    )


def step_over_gap(wanted: str, history: FileHistory, bound: int) -> HistoryStep | None:
    """The step that nobody recorded, from what was seen last to `wanted`; None where nothing was. Where git was seen to
    have `wanted`, it took the place of what the file held until then: somebody may have changed and committed that.
    """
    last = history.recorded[bound - 1] if bound else None
    before = None if last is None else last.after if last.after != wanted else last.before if last.by_git else None
    return None if before is None else HistoryStep(before, wanted, None, inferred=True)


def origins_in_parent(steps: Sequence[HistoryStep], parent: str | None, numbers: Iterable[int]) -> dict[int, int]:
    """For those lines after the steps that none of them put there, the line of `parent` that they are, from 1.

    Only calls tell so, and only from `parent` on without a gap: what a person changed is known by comparing alone.
    """
    if not steps or steps[0].before != parent or any(s.hunks is None or s.inferred or s.unproved for s in steps):
        return {}
    found: dict[int, int] = {}
    for number in numbers:
        origin: int | None = number
        for step in reversed(steps):
            origin = None if origin is None else line_before(step.hunks or (), origin)
        if origin is not None:
            found[number] = origin
    return found


def line_before(hunks: Iterable[Hunk], number: int) -> int | None:
    """The line before a change that a line after it is, both from 1; None for one that the change put there."""
    shift = 0
    for hunk in hunks:
        start = hunk.new if hunk.new_lines else hunk.new + 1
        if number < start:
            break
        if number < start + hunk.new_lines:
            return None
        shift += hunk.new_lines - hunk.old_lines
    return number - shift


def needed_pairs(steps: Sequence[HistoryStep]) -> tuple[tuple[str | None, str], ...]:
    """The pairs of contents whose differences a walk over the steps asks for: of the first, before which nothing is
    known of any line, where the record has not told all.
    """
    first = (
        steps[:1]
        if steps and (steps[0].hunks is None or steps[0].likely or (steps[0].before_lines is None and steps[0].before))
        else ()
    )
    rest = (s for s in steps[1:] if s.hunks is None or s.inferred or s.unproved)
    return tuple((s.before, s.after) for s in (*first, *rest))
