"""Attributions of lines, carried through the steps from one content of a file to the next.

The functions are pure: they depend on contents and on the records of one path. git says with which version a line came;
here that version is rebuilt from the recorded contents before, and each line keeps the attribution of the step that
added the line. Commit ids play no part, hence a rebase, a squash or a filter that keeps contents needs no extra work.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise, zip_longest
from typing import TypeAlias, overload

from msgspec import Struct, field
from msgspec.structs import replace

from remit.core.diff.contents import Hunk
from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.diff.line_spans import Span, expand_spans, subtract_spans
from remit.provenance.origins.evidence import (
    Attribution,
    AttributionList,
    Attributions,
    Grade,
    InferredStep,
    is_distinctive,
    limit_grade,
    strip_whitespace,
)
from remit.provenance.origins.recorded_steps import HistoryStep, line_before
from remit.provenance.origins.similarity import (
    LineMatcher,
    carry_through_hunks,
    find_moved_blocks,
    find_reformatted_lines,
    is_layout_change,
    lines_left_in_place,
    lines_put_in,
    may_be_moved_lines,
)

LineMoves: TypeAlias = dict[int, int]
"""Line of the old content by line of the new content, from 0."""

NO_MOVES: tuple[LineMoves, LineMoves] = ({}, {})

CarriedCache: TypeAlias = dict[tuple[object, ...], tuple[int, Attributions | None]]
"""Attributions after the first steps of routes, by the number of the state before and the step."""

KeptBounds: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""Lines that keep their attribution for certain, and lines that may keep it."""

NO_KEPT_LINES: KeptBounds = (frozenset(), frozenset())


def find_ambiguous_kept_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], unproved: Sequence[Span]
) -> Iterator[int]:
    """Yield the lines (indices from 0) kept between two hunks that are common and stand beside lines not proved to be
    the call's.

    A call that replaces the `None` of a `return None` while a person writes a block with such a line below leaves the
    same contents as a call that kept the line. Hunks that only change the layout do not count.
    """
    spans = [
        (*new_line_range(hunk), has_unproved_lines(hunk, unproved) and not is_layout_change(hunk, old, new))
        for hunk in hunks
    ]
    for (_, start, before), (end, _, after) in pairwise(spans):
        if (before or after) and not is_distinctive(new[start:end]):
            yield from range(start, end)


def find_isolated_lines(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> frozenset[int]:
    """Return the lines of `old` (from 0) that are common and were kept amid rewritten lines.

    If more lines went around them than stayed, the diff only found equal lines. A person who changes a line or two
    leaves more of the surroundings.
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
        if 0 < sum(bool(old[i].strip()) for i in kept) < count_removed_lines(old, new, nearby):
            isolated.update(kept)
        kept, nearby = [], []
    return frozenset(isolated)


def count_removed_lines(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> int:
    """Count the lines that the hunks remove and do not insert again in another layout."""
    inserted = {strip_whitespace(line) for hunk in hunks for line in lines_put_in(new, hunk)}
    return sum(strip_whitespace(old[number - 1]) not in inserted for hunk in hunks for number in hunk.old_range)


def new_line_range(hunk: Hunk) -> tuple[int, int]:
    start = hunk.new - 1 if hunk.new_lines else hunk.new
    return start, start + hunk.new_lines


def has_unproved_lines(hunk: Hunk, unproved: Sequence[Span]) -> bool:
    start, end = new_line_range(hunk)
    return any(first <= end and last > start for first, last in unproved)


class ContentPairs(Struct, frozen=True):
    """Access to the lines of contents and to the differences of pairs; None for a lost content."""

    lines_of: Callable[[str | None], Sequence[bytes] | None]
    hunks_between: Callable[[str | None, str], Sequence[Hunk] | None]
    moves: dict[tuple[str | None, str, tuple[Hunk, ...]], tuple[LineMoves, LineMoves]] = field(
        default_factory=dict[tuple[str | None, str, tuple[Hunk, ...]], tuple[LineMoves, LineMoves]]
    )
    """Results of `find_moved_lines`, shared by routes with a common step."""


def carry_attributions(
    steps: Sequence[HistoryStep], pairs: ContentPairs, carried: CarriedCache | None = None
) -> Attributions:
    """Return the attribution of each line of the last content; None for lines that no record put there.

    Behind a lost content no older attribution is claimed. `carried` keeps results for routes with the same beginning.
    """
    return carry_from(steps, pairs, {} if carried is None else carried, (0, None))[1] or []


def carry_from(
    steps: Sequence[HistoryStep], pairs: ContentPairs, carried: CarriedCache, start: tuple[int, Attributions | None]
) -> tuple[int, Attributions | None]:
    """Carry attributions on from the state `start`, reusing and filling `carried`."""
    state, attributions = start
    for step in steps:
        key = (state, step.before, step.after, step.record, step.inferred, step.strict)
        if key not in carried:
            result = carry_through_step(
                attributions if attributions is not None else empty_attributions(step, pairs), step, pairs
            )
            carried[key] = (len(carried) + 1, result)
        state, attributions = carried[key]
    return state, attributions


def empty_attributions(step: HistoryStep, pairs: ContentPairs) -> Attributions | None:
    """Return empty attributions for the content before a step; None if its lines cannot be counted."""
    if step.before_lines is not None:
        return no_attributions(step.before_lines)
    lines = pairs.lines_of(step.before)
    return None if lines is None else no_attributions(len(lines))


def no_attributions(count: int) -> AttributionList:
    empty: AttributionList = [None]
    return empty * count


def carry_through_step(
    attributions: Attributions | None, step: HistoryStep, pairs: ContentPairs
) -> Attributions | None:
    """Carry attributions through one step."""
    hunks = step.hunks if step.hunks is not None else pairs.hunks_between(step.before, step.after)
    if attributions is None or hunks is None:
        return None
    own = Attribution(step.record, "payload" if step.positions_known else "exact") if step.record else None
    if not (step.inferred or step.unproved) or not (any(attributions) or step.likely):
        return mark_unproved(carry_through_hunks(attributions, hunks, own), hunks, step)
    old, new = pairs.lines_of(step.before), pairs.lines_of(step.after)
    if old is None or new is None or len(old) != len(attributions):
        return mark_unproved(
            carry_through_hunks(no_attributions(len(attributions)) if step.inferred else attributions, hunks, own),
            hunks,
            step,
        )
    if step.inferred and step.record is None and not step.unproved:
        inferred, compute_all = (
            make_inferred_step(step, old, new, hunks),
            partial(carry_by_comparing, attributions, step, old, new, hunks, pairs),
        )
        return LazyAttributions(attributions, inferred, new, grade_after_step(step), compute_all)
    return carry_by_comparing(attributions, step, old, new, hunks, pairs)


def carry_by_comparing(
    attributions: Attributions,
    step: HistoryStep,
    old: Sequence[bytes],
    new: Sequence[bytes],
    hunks: Sequence[Hunk],
    pairs: ContentPairs,
) -> AttributionList:
    """Carry attributions through one step whose lines have to be compared."""
    attributed = [i for i, attribution in enumerate(attributions) if attribution]
    own = Attribution(step.record, "payload" if step.positions_known else "exact") if step.record else None
    may_have_moved = bool(step.likely) or may_be_moved_lines(attributed, old, new, hunks)
    reformatted, origins = find_moved_lines(step, old, new, hunks, pairs) if may_have_moved else NO_MOVES
    kept_lines = lines_left_in_place(len(old), hunks) | set(origins.values())
    inferred = make_inferred_step(step, old, new, hunks)
    kept = keep_convincing_blocks(attributions, kept_lines, step, inferred) if step.inferred else attributions
    carried = (
        [None if i in inferred.isolated_lines else attribution for i, attribution in enumerate(kept)]
        if step.inferred
        else kept
    )
    after = mark_unproved(carry_through_hunks(carried, hunks, own), hunks, step)
    for index in () if step.trusted else find_ambiguous_kept_lines(old, new, hunks, step.unproved):
        after[index] = Attribution(step.record, "exact", proved=False) if step.record and after[index] else after[index]
    if step.likely:
        after = drop_likely_copies(after, old, new)
    for index, origin in origins.items():
        attribution, own = kept[origin], after[index]
        if attribution is not None and (step.inferred or may_keep_attribution(own, new[index])):
            after[index] = limit_grade(attribution, "normalised" if index in reformatted else "moved")
        elif attribution is None and own is not None and own.likely:
            after[index] = replace(
                own, likely=False
            )  # the author is unknown; the call only moved or reformatted the line
    return after


def drop_likely_copies(attributions: AttributionList, old: Sequence[bytes], new: Sequence[bytes]) -> AttributionList:
    """Drop the likely mark from lines that stood elsewhere in the file: the call may have copied them."""
    lines_before = {line.strip() for line in old if is_distinctive_line(line)}
    return [
        replace(attribution, likely=False)
        if attribution and attribution.likely and line.strip() in lines_before
        else attribution
        for attribution, line in zip(attributions, new, strict=True)
    ]


def may_keep_attribution(by_call: Attribution | None, line: bytes) -> bool:
    """Return whether a moved or reformatted line keeps its attribution against `by_call`, the attribution by the
    call.
    """
    return (by_call is not None and by_call.likely) or (not (by_call and by_call.proved) and is_distinctive_line(line))


def find_moved_lines(
    step: HistoryStep, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], pairs: ContentPairs
) -> tuple[LineMoves, LineMoves]:
    """Return the reformatted lines, and the reformatted together with the moved lines."""
    key = (step.before, step.after, tuple(hunks))
    if key not in pairs.moves:
        reformatted = find_reformatted_lines(old, new, hunks)
        pairs.moves[key] = (reformatted, {**find_moved_blocks(old, new, hunks), **reformatted})
    return pairs.moves[key]


def mark_unproved(attributions: AttributionList, hunks: Sequence[Hunk], step: HistoryStep) -> AttributionList:
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


def keep_convincing_blocks(
    attributions: Attributions, kept_lines: set[int], step: HistoryStep, inferred: InferredStep
) -> AttributionList:
    """Keep the attributions, limited in grade, of blocks of which enough remains and that are distinctive.

    A discarded proposal leaves `try:` and `return None` in a person's next text. If no line was added, the remainder is
    a part of the block.
    """
    grade = grade_after_step(step)
    kept = no_attributions(len(attributions))
    for block in attributed_blocks(attributions):
        for i in inferred.lines_keeping_attribution(block, kept_lines):
            attribution = attributions[i]
            kept[i] = limit_grade(attribution, grade) if attribution is not None else None
    return kept


def make_inferred_step(
    step: HistoryStep, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]
) -> InferredStep:
    return InferredStep(old, hunks, step.strict, step.record is not None, partial(find_isolated_lines, old, new, hunks))


def grade_after_step(step: HistoryStep) -> Grade:
    return "ledger" if step.strict else "preserved"


def attributed_blocks(attributions: Sequence[Attribution | None]) -> list[list[int]]:
    """Return the indices of each run of neighbouring lines with the same record."""
    blocks: list[list[int]] = []
    last_record = None
    for i, attribution in enumerate(attributions):
        if attribution is None:
            last_record = None
        elif attribution.record == last_record:
            blocks[-1].append(i)
        else:
            blocks.append([i])
            last_record = attribution.record
    return blocks


def first_attributions(sequences: Sequence[Attributions]) -> Attributions:
    """Return for each line the first attribution among several sequences."""
    if len(sequences) == 1:
        return sequences[0]

    return FirstAttributions(sequences)


class LazyAttributions(Sequence[Attribution | None]):
    """Attributions after an unrecorded step, computed on demand, because few lines of old versions are asked about.
    A line that the diff kept is decided alone; `compute_all` compares the whole contents.
    """

    def __init__(
        self,
        attributions: Attributions,
        step: InferredStep,
        new: Sequence[bytes],
        grade: Grade,
        compute_all: Callable[[], AttributionList],
    ):
        self.attributions, self.step, self.compute_all = attributions, step, compute_all
        self.grade: Grade = grade
        self.matcher = LineMatcher(step.old, new, step.hunks)
        self.length = len(attributions) + sum(hunk.new_lines - hunk.old_lines for hunk in step.hunks)
        self.found_by_index: dict[int, Attribution | None] = {}
        self.bounds_by_line: dict[int, KeptBounds] = {}

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Attribution | None: ...
    @overload
    def __getitem__(self, index: slice) -> AttributionList: ...
    def __getitem__(self, index: int | slice) -> Attribution | None | AttributionList:
        if isinstance(index, slice) or "all_attributions" in self.__dict__:
            return self.all_attributions[index]
        if index not in self.found_by_index:
            self.found_by_index[index] = self.attribute_line(index)
        return self.found_by_index[index]

    def __iter__(self) -> Iterator[Attribution | None]:
        return iter(self.all_attributions)

    @cached_property
    def kept_lines(self) -> set[int]:
        return lines_left_in_place(len(self.attributions), self.step.hunks)

    @cached_property
    def all_attributions(self) -> AttributionList:
        return self.compute_all()

    def attribute_line(self, index: int) -> Attribution | None:
        """Return the attribution of one line; compute all of them if the answer depends on moved lines."""
        number = line_before(self.step.hunks, index + 1)
        origin = None if number is None else number - 1
        if origin is None or origin in self.step.isolated_lines:
            return self.all_attributions[index] if self.may_be_moved_line(index) else None
        attribution = self.attributions[origin]
        if attribution is None:
            return None
        certain, possible = self.kept_bounds(origin)
        if origin not in possible:
            return None
        return limit_grade(attribution, self.grade) if origin in certain else self.all_attributions[index]

    def may_be_moved_line(self, index: int) -> bool:
        if self.matcher.is_in_layout_hunk(index):
            return True
        return any(self.attributions[i] and self.kept_bounds(i)[1] for i in self.matcher.possible_origins(index))

    def kept_bounds(self, origin: int) -> KeptBounds:
        """Return the bounds of the block that holds `origin`, whatever moved elsewhere."""
        if origin not in self.bounds_by_line:
            block = block_around(self.attributions, origin)
            self.bounds_by_line |= dict.fromkeys(block, self.compute_bounds(block))
        return self.bounds_by_line[origin]

    def compute_bounds(self, block: range) -> KeptBounds:
        """Compute the bounds of one block. A kept part may keep a blank line that the whole block would not."""
        if not self.step.lines_keeping_attribution(block, block):
            return NO_KEPT_LINES
        certain = frozenset(self.step.lines_keeping_attribution(block, self.kept_lines))
        returning = [i for i in block if i not in self.kept_lines and self.matcher.may_still_exist(i)]
        if not returning:
            return certain, certain
        possible = self.step.lines_keeping_attribution(block, {*returning, *self.kept_lines.intersection(block)})
        blank = frozenset(i for i in block if possible and not self.step.old[i].strip())
        return certain - blank, blank.union(possible)


def block_around(attributions: Attributions, number: int) -> range:
    """Return the block of lines (from 0) around `number` with the same record."""
    attribution = attributions[number]
    record = attribution.record if attribution else ""
    start, end = number, number + 1
    while start and (other := attributions[start - 1]) and other.record == record:
        start -= 1
    while end < len(attributions) and (other := attributions[end]) and other.record == record:
        end += 1
    return range(start, end)


class FirstAttributions(Sequence[Attribution | None]):
    """The first attribution of each line among several sequences."""

    def __init__(self, several: Sequence[Attributions]) -> None:
        self.several = several
        self.length = max(map(len, several), default=0)

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Attribution | None: ...
    @overload
    def __getitem__(self, index: slice) -> AttributionList: ...
    def __getitem__(self, index: int | slice) -> Attribution | None | AttributionList:
        if isinstance(index, slice):
            return [*self][index]
        if index >= self.length:
            raise IndexError(index)
        return next((found for one in self.several if index < len(one) and (found := one[index])), None)

    def __iter__(self) -> Iterator[Attribution | None]:
        several = [list(one) for one in self.several]
        return (next((one[i] for one in several if i < len(one) and one[i]), None) for i in range(len(self)))
