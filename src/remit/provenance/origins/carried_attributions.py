"""Attributions of lines, carried through the steps between contents of a file.

The functions are pure: they depend on contents and on the records of one path. git names the version that brought a
line; these functions rebuild the version from the recorded contents before, and each line keeps the attribution of the
step that added the line. Commit ids play no part, hence a rebase, a squash or a content-preserving filter needs no
extra work.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from remit.core.diff.contents import Hunk, Span, expand_spans, is_distinctive_line, subtract_spans
from remit.core.diff.layout import find_layout_origins
from remit.provenance.origins.evidence_grades import (
    Attribution,
    Attributions,
    SurvivalTest,
    is_distinctive,
    limit_grade,
    strip_whitespace,
)
from remit.provenance.origins.line_matches import (
    carry_through_hunks,
    find_moved_blocks,
    find_reformatted_lines,
    is_layout_change,
    may_be_moved_lines,
)
from remit.provenance.origins.recorded_steps import HistoryStep

LineMoves: TypeAlias = dict[int, int]  # line of the old content by line of the new content, from 0

CarriedCache: TypeAlias = dict[tuple[object, ...], tuple[int, Attributions | None]]
"""Attributions after the first steps of routes, by the number of the state before and the step."""


class ContentPairs(Struct, frozen=True):
    """Access to the lines of contents and to the differences of pairs; None for a lost content."""

    lines_of: Callable[[str | None], Sequence[bytes] | None]
    hunks_between: Callable[[str | None, str], Sequence[Hunk] | None]
    moves: dict[tuple[str | None, str, tuple[Hunk, ...]], tuple[LineMoves, LineMoves]] = field(
        default_factory=dict[tuple[str | None, str, tuple[Hunk, ...]], tuple[LineMoves, LineMoves]]
    )
    """Reformatted lines, and reformatted and moved lines, shared by routes with a common step."""


def carry_attributions(steps: Sequence[HistoryStep], pairs: ContentPairs) -> Attributions:
    """Return the attribution of each line of the last content; None for lines that no record put there. Behind a lost
    content no older attribution is claimed.
    """
    return carry_from(steps, pairs, {}, (0, None))[1] or []


def carry_from(
    steps: Sequence[HistoryStep], pairs: ContentPairs, results: CarriedCache, start: tuple[int, Attributions | None]
) -> tuple[int, Attributions | None]:
    """Carry attributions on from the state `start`, reusing and filling `results`, for routes with one beginning."""
    state, attributions = start
    for step in steps:
        key = (state, step.before, step.after, step.record, step.inferred, step.strict)
        if key not in results:
            if attributions is None:
                count = step.before_lines
                if count is None and (lines := pairs.lines_of(step.before)) is not None:
                    count = len(lines)
                attributions = None if count is None else no_attributions(count)
            results[key] = (len(results) + 1, carry_through_step(attributions, step, pairs))
        state, attributions = results[key]
    return state, attributions


def no_attributions(count: int) -> Attributions:
    empty: Attributions = [None]
    return empty * count


def carry_through_step(
    attributions: Attributions | None, step: HistoryStep, pairs: ContentPairs
) -> Attributions | None:
    hunks = step.hunks if step.hunks is not None else pairs.hunks_between(step.before, step.after)
    if attributions is None or hunks is None:
        return None
    own = Attribution(step.record, "payload" if step.positions_known else "exact") if step.record else None
    if not (step.inferred or step.unproved) or not (any(attributions) or step.likely):
        return mark_unproved(carry_through_hunks(attributions, hunks, own), hunks, step)
    old, new = pairs.lines_of(step.before), pairs.lines_of(step.after)
    if old is None or new is None or len(old) != len(attributions):
        kept = no_attributions(len(attributions)) if step.inferred else attributions
        return mark_unproved(carry_through_hunks(kept, hunks, own), hunks, step)

    if step.is_layout:
        after = mark_unproved(carry_through_hunks(attributions, hunks, own), hunks, step)
        for index, origin in find_layout_origins(old, new, hunks).items():
            by_call, attribution = after[index], attributions[origin]
            if by_call is not None and not by_call.proved and attribution is not None:
                after[index] = limit_grade(attribution, "normalised")
        return after

    # 1. The lines that moved or changed their layout, and of an inferred step the blocks of which enough remains.
    reformatted, origins = find_moved_lines(attributions, step, old, new, hunks, pairs)
    kept = carried = attributions
    if step.inferred:
        kept = keep_convincing_blocks(attributions, {*origins.values()}, step, old, hunks)
        only_removes = not any(hunk.new_lines for hunk in hunks)
        isolated = frozenset[int]() if step.strict or only_removes else find_isolated_lines(old, new, hunks)
        carried = [None if i in isolated else attribution for i, attribution in enumerate(kept)]

    # 2. Through the hunks.
    after = mark_unproved(carry_through_hunks(carried, hunks, own), hunks, step)
    for index in () if step.trusted else find_ambiguous_kept_lines(old, new, hunks, step.unproved):
        after[index] = Attribution(step.record, "exact", proved=False) if step.record and after[index] else after[index]
    if step.likely:
        # A line that stood elsewhere in the file is not likely the call's: the call may have copied the line.
        lines_before = {line.strip() for line in old if is_distinctive_line(line)}
        after = [
            replace(found, likely=False) if found and found.likely and line.strip() in lines_before else found
            for found, line in zip(after, new, strict=True)
        ]

    # 3. The moved and reformatted lines.
    for index, origin in origins.items():
        attribution, by_call = kept[origin], after[index]
        if attribution is not None:
            is_open = by_call is None or not by_call.proved
            keeps = (by_call is not None and by_call.likely) or (is_open and is_distinctive_line(new[index]))
            if step.inferred or keeps:
                after[index] = limit_grade(attribution, "normalised" if index in reformatted else "moved")
        elif by_call is not None and by_call.likely:
            after[index] = replace(by_call, likely=False)  # the author is unknown; the call only moved the line
    return after


def find_moved_lines(
    attributions: Attributions,
    step: HistoryStep,
    old: Sequence[bytes],
    new: Sequence[bytes],
    hunks: Sequence[Hunk],
    pairs: ContentPairs,
) -> tuple[LineMoves, LineMoves]:
    """Return the reformatted lines, and the reformatted together with the moved lines."""
    attributed = [i for i, attribution in enumerate(attributions) if attribution]
    if not step.likely and not may_be_moved_lines(attributed, old, new, hunks):
        return {}, {}
    key = (step.before, step.after, tuple(hunks))
    if key not in pairs.moves:
        reformatted = find_reformatted_lines(old, new, hunks)
        pairs.moves[key] = (reformatted, {**find_moved_blocks(old, new, hunks), **reformatted})
    return pairs.moves[key]


def keep_convincing_blocks(
    attributions: Attributions, moved: set[int], step: HistoryStep, old: Sequence[bytes], hunks: Sequence[Hunk]
) -> Attributions:
    """Keep the attributions, limited in grade, of blocks of which enough remains and that are distinctive. A discarded
    proposal leaves `try:` and `return None` in a person's next text. If no line was added, the remainder is a part of
    the block.
    """
    removed = {i - 1 for hunk in hunks for i in hunk.old_range}
    kept_lines = moved | (set(range(len(old))) - removed)
    attributed = [i for i, attribution in enumerate(attributions) if attribution]
    test = SurvivalTest(old, hunks, attributed, step.strict, observed=step.record is not None)
    kept = no_attributions(len(attributions))
    for block in attributed_blocks(attributions):
        for i in test.lines_keeping_attribution(block, kept_lines):
            if attribution := attributions[i]:
                kept[i] = limit_grade(attribution, "ledger" if step.strict else "preserved")
    return kept


def attributed_blocks(attributions: Sequence[Attribution | None]) -> list[list[int]]:
    """Return the indices of each run of neighbouring lines with the same record."""
    blocks: list[list[int]] = []
    last_record = None
    for i, attribution in enumerate(attributions):
        if attribution is not None and attribution.record == last_record:
            blocks[-1].append(i)
        elif attribution is not None:
            blocks.append([i])
        last_record = attribution.record if attribution else None
    return blocks


def mark_unproved(attributions: Attributions, hunks: Sequence[Hunk], step: HistoryStep) -> Attributions:
    """Mark the unproved lines of the step as not proved."""
    if not step.unproved:
        return attributions
    added = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks]
    unproved = {n - 1 for n in expand_spans(subtract_spans(added, subtract_spans(added, step.unproved)))}
    likely = {n - 1 for n in expand_spans(step.likely)} & unproved
    return [
        replace(attribution, proved=False, likely=n in likely) if attribution and n in unproved else attribution
        for n, attribution in enumerate(attributions)
    ]


def find_ambiguous_kept_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], unproved: Sequence[Span]
) -> Iterator[int]:
    """Yield the common lines (indices from 0) kept between two hunks, beside lines not proved to be the call's. A call
    that replaces the `None` of a `return None` while a person writes a block with an equal line below leaves the same
    contents as a call without a change of the line. Hunks that only change the layout do not count.
    """
    spans: list[tuple[int, int, bool]] = []
    for hunk in hunks:
        start = hunk.new_range.start - 1
        end = start + hunk.new_lines
        is_unproved = any(first <= end and last > start for first, last in unproved)
        spans.append((start, end, is_unproved and not is_layout_change(hunk, old, new)))
    for (_, start, before), (end, _, after) in pairwise(spans):
        if (before or after) and not is_distinctive(new[start:end]):
            yield from range(start, end)


def find_isolated_lines(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> frozenset[int]:
    """Return the common lines of `old` (from 0) kept amid rewritten lines. If more surrounding lines went than stayed,
    the diff only found equal lines. A person changing a line or two leaves more of the surroundings. Lines inserted
    again in a different layout did not go.
    """
    isolated: set[int] = set()
    kept: list[int] = []
    nearby: list[Hunk] = []
    for hunk, after in zip_longest(hunks, hunks[1:]):
        nearby.append(hunk)
        gap = range(hunk.old_range.stop - 1, after.old_range.start - 1) if after else range(0)
        is_rewritten = after and (hunk.new_lines or after.new_lines) and not is_layout_change(hunk, old, new)
        if is_rewritten and not is_distinctive(old[gap.start : gap.stop]):
            kept += gap
            continue
        inserted = {strip_whitespace(new[n - 1]) for hunk in nearby for n in hunk.new_range}
        removed = sum(strip_whitespace(old[n - 1]) not in inserted for hunk in nearby for n in hunk.old_range)
        if 0 < sum(bool(old[i].strip()) for i in kept) < removed:
            isolated.update(kept)
        kept, nearby = [], []
    return frozenset(isolated)
