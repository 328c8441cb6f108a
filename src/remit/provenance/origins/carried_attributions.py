"""Who wrote what a version added: a pure function of contents and of what was recorded of that path.

git says which version of a file first had a line. Here that version is rebuilt from the versions that were recorded
on the way to it, and each line keeps the label of the step that added it. Commit ids play no part, so that a rebase,
a squash or a filter that leaves contents as they were needs no work at all.

Lines that a diff keeps by nothing but themselves, while somebody unknown may have written around them.

Labels of which each is worked out when it is asked for: of the lines of old versions few are asked about.
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


def find_ambiguous_kept_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], unproved: Sequence[Span]
) -> Iterator[int]:
    """The lines that stay between two hunks, are anybody's, and have beside them lines that are not proved to be the
    call's; indices from 0. Where only the layout changed, nobody wrote anything.

    A call that puts another word for the `None` of a `return None`, while a person writes a block with such a line
    below it, leaves the same contents as a call that kept it.
    """
    spans = [
        (*new_line_range(hunk), has_unproved_lines(hunk, unproved) and not is_layout_change(hunk, old, new))
        for hunk in hunks
    ]
    for (_, start, before), (end, _, after) in pairwise(spans):
        if (before or after) and not is_distinctive(new[start:end]):
            yield from range(start, end)


def find_isolated_lines(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> frozenset[int]:
    """The lines of `old`, from 0, that stayed amid others which were written anew, and are anybody's: where more went
    around them than stayed, a diff only found them alike. Who changes a line or two leaves more of what is around it.
    """
    found: set[int] = set()
    stayed: list[int] = []
    around: list[Hunk] = []
    for hunk, after in zip_longest(hunks, hunks[1:]):
        around.append(hunk)
        between = range(hunk.old_range.stop - 1, after.old_range.start - 1) if after else range(0)
        written = after and (hunk.new_lines or after.new_lines) and not is_layout_change(hunk, old, new)
        if written and not is_distinctive(old[between.start : between.stop]):
            stayed += between
            continue
        if 0 < sum(bool(old[i].strip()) for i in stayed) < count_removed_lines(old, new, around):
            found.update(stayed)
        stayed, around = [], []
    return frozenset(found)


def count_removed_lines(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> int:
    """How many lines those hunks take out and do not put in again, in whatever layout."""
    came = {strip_whitespace(line) for hunk in hunks for line in lines_put_in(new, hunk)}
    return sum(strip_whitespace(old[number - 1]) not in came for hunk in hunks for number in hunk.old_range)


def new_line_range(hunk: Hunk) -> tuple[int, int]:
    """Where the hunk's new lines begin and end, from 0."""
    start = hunk.new - 1 if hunk.new_lines else hunk.new
    return start, start + hunk.new_lines


def has_unproved_lines(hunk: Hunk, unproved: Sequence[Span]) -> bool:
    """Whether some of the hunk's new lines are not proved."""
    start, end = new_line_range(hunk)
    return any(first <= end and last > start for first, last in unproved)


LineMoves: TypeAlias = dict[int, int]
"""For lines of the next content, the line that they were; indices from 0."""

NO_MOVES: tuple[LineMoves, LineMoves] = ({}, {})


class ContentPairs(Struct, frozen=True):
    """What a walk over steps has to know about contents: their lines, and the differences of pairs. None for a
    content that is lost.
    """

    lines_of: Callable[[str | None], Sequence[bytes] | None]
    hunks_between: Callable[[str | None, str], Sequence[Hunk] | None]
    moves: dict[tuple[str | None, str, tuple[Hunk, ...]], tuple[LineMoves, LineMoves]] = field(
        default_factory=dict[tuple[str | None, str, tuple[Hunk, ...]], tuple[LineMoves, LineMoves]]
    )
    """What `moved_lines` found, for the many ways that have a step in common."""


CarriedCache: TypeAlias = dict[tuple[object, ...], tuple[int, Attributions | None]]
"""Labels after the steps that several ways begin with: by the number of what came before, and the step."""


def carry_attributions(
    steps: Sequence[HistoryStep], pairs: ContentPairs, walked: CarriedCache | None = None
) -> Attributions:
    """The label of each line of the last step's content; None where nothing recorded put it there.

    Where a content on the way is lost, nothing that stood before it is claimed of what came then. `walked` keeps what
    was found, for other ways that begin alike.
    """
    return carry_from(steps, pairs, {} if walked is None else walked, (0, None))[1] or []


def carry_from(
    steps: Sequence[HistoryStep], pairs: ContentPairs, known: CarriedCache, begun: tuple[int, Attributions | None]
) -> tuple[int, Attributions | None]:
    """What `known` has for the steps after those that led to `begun`; what it lacks is added."""
    at, attributions = begun
    for step in steps:
        key = (at, step.before, step.after, step.record, step.inferred, step.strict)
        if key not in known:
            found = carry_through_step(
                attributions if attributions is not None else empty_attributions(step, pairs), step, pairs
            )
            known[key] = (len(known) + 1, found)
        at, attributions = known[key]
    return at, attributions


def empty_attributions(step: HistoryStep, pairs: ContentPairs) -> Attributions | None:
    """The labels before a step of which nothing is known; None where not even the lines can be counted."""
    if step.before_lines is not None:
        return no_attributions(step.before_lines)
    lines = pairs.lines_of(step.before)
    return None if lines is None else no_attributions(len(lines))


def no_attributions(count: int) -> AttributionList:
    """So many lines of which nothing is known."""
    found: AttributionList = [None]
    return found * count


def carry_through_step(
    attributions: Attributions | None, step: HistoryStep, pairs: ContentPairs
) -> Attributions | None:
    """The labels after one step."""
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
        passing, whole = (
            make_inferred_step(step, old, new, hunks),
            partial(carry_by_comparing, attributions, step, old, new, hunks, pairs),
        )
        return LazyAttributions(attributions, passing, new, grade_after_step(step), whole)
    return carry_by_comparing(attributions, step, old, new, hunks, pairs)


def carry_by_comparing(
    attributions: Attributions,
    step: HistoryStep,
    old: Sequence[bytes],
    new: Sequence[bytes],
    hunks: Sequence[Hunk],
    pairs: ContentPairs,
) -> AttributionList:
    """The labels after one step, of which it matters what the lines say."""
    known = [i for i, label in enumerate(attributions) if label]
    own = Attribution(step.record, "payload" if step.positions_known else "exact") if step.record else None
    moved = bool(step.likely) or may_be_moved_lines(known, old, new, hunks)
    same_words, came_from = find_moved_lines(step, old, new, hunks, pairs) if moved else NO_MOVES
    kept_lines = lines_left_in_place(len(old), hunks) | set(came_from.values())
    passing = make_inferred_step(step, old, new, hunks)
    kept = keep_convincing_blocks(attributions, kept_lines, step, passing) if step.inferred else attributions
    stands = [None if i in passing.isolated_lines else label for i, label in enumerate(kept)] if step.inferred else kept
    after = mark_unproved(carry_through_hunks(stands, hunks, own), hunks, step)
    for to in () if step.trusted else find_ambiguous_kept_lines(old, new, hunks, step.unproved):
        after[to] = Attribution(step.record, "exact", proved=False) if step.record and after[to] else after[to]
    if step.likely:
        after = drop_likely_copies(after, old, new)
    for to, origin in came_from.items():
        attribution, own = kept[origin], after[to]
        if attribution is not None and (step.inferred or may_keep_attribution(own, new[to])):
            after[to] = limit_grade(attribution, "normalised" if to in same_words else "moved")
        elif attribution is None and own is not None and own.likely:
            after[to] = replace(own, likely=False)  # somebody unknown wrote it; the call moved it, or laid it out
    return after


def drop_likely_copies(attributions: AttributionList, old: Sequence[bytes], new: Sequence[bytes]) -> AttributionList:
    """The labels, of which none is likely for a line that stood elsewhere in the file: the call may have copied it."""
    there = {line.strip() for line in old if is_distinctive_line(line)}
    return [
        replace(label, likely=False) if label and label.likely and line.strip() in there else label
        for label, line in zip(attributions, new, strict=True)
    ]


def may_keep_attribution(own: Attribution | None, line: bytes) -> bool:
    """Whether a line that a call moved, or laid out anew, keeps its label, where the call's own would be `own`."""
    return (own is not None and own.likely) or (not (own and own.proved) and is_distinctive_line(line))


def find_moved_lines(
    step: HistoryStep, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], pairs: ContentPairs
) -> tuple[LineMoves, LineMoves]:
    """The lines that only changed their layout; and with them those that went to another place."""
    key = (step.before, step.after, tuple(hunks))
    if key not in pairs.moves:
        same_words = find_reformatted_lines(old, new, hunks)
        pairs.moves[key] = (same_words, {**find_moved_blocks(old, new, hunks), **same_words})
    return pairs.moves[key]


def mark_unproved(attributions: AttributionList, hunks: Sequence[Hunk], step: HistoryStep) -> AttributionList:
    """The labels, where of those that the step put there the unproved ones are open."""
    if not step.unproved:
        return attributions
    fresh = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks]
    open_ = {n - 1 for n in expand_spans(subtract_spans(fresh, subtract_spans(fresh, step.unproved)))}
    likely = {n - 1 for n in expand_spans(step.likely)} & open_
    return [
        replace(label, proved=False, likely=n in likely) if label and n in open_ else label
        for n, label in enumerate(attributions)
    ]


def keep_convincing_blocks(
    attributions: Attributions, kept_lines: set[int], step: HistoryStep, passing: InferredStep
) -> AttributionList:
    """The labels that may pass a loose step, graded for it: a block of which enough stayed, and that tells itself from
    another's. A proposal that was thrown away leaves its `try:` and `return None` in what a person writes then; where
    nobody wrote anything, what stays is a part of it.
    """
    grade = grade_after_step(step)
    found = no_attributions(len(attributions))
    for block in attributed_blocks(attributions):
        for i in passing.lines_keeping_attribution(block, kept_lines):
            known = attributions[i]
            found[i] = limit_grade(known, grade) if known is not None else None
    return found


def make_inferred_step(
    step: HistoryStep, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]
) -> InferredStep:
    """What blocks have to pass in a loose step."""
    return InferredStep(old, hunks, step.strict, step.record is not None, partial(find_isolated_lines, old, new, hunks))


def grade_after_step(step: HistoryStep) -> Grade:
    """How sure labels are after a loose step."""
    return "ledger" if step.strict else "preserved"


def attributed_blocks(attributions: Sequence[Attribution | None]) -> list[list[int]]:
    """The places of neighbouring lines that one record put there, for each such block."""
    found: list[list[int]] = []
    last = None
    for i, label in enumerate(attributions):
        if label is None:
            last = None
        elif label.record == last:
            found[-1].append(i)
        else:
            found.append([i])
            last = label.record
    return found


def first_attributions(several: Sequence[Attributions]) -> Attributions:
    """For each line the first label that one of them has."""
    if len(several) == 1:
        return several[0]

    return FirstAttributions(several)


KeptBounds: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""The lines that keep their labels for certain, and with them those that may."""

NO_KEPT_LINES: KeptBounds = (frozenset(), frozenset())


class LazyAttributions(Sequence[Attribution | None]):
    """The labels after a step that nobody recorded. Of all the lines only few are asked about: of those it is looked
    what a diff kept, and for all others' sake nothing is compared. `whole` works out all of them.
    """

    def __init__(
        self,
        attributions: Attributions,
        step: InferredStep,
        new: Sequence[bytes],
        grade: Grade,
        compute_all: Callable[[], AttributionList],
    ):
        self.labels, self.passing, self.whole = attributions, step, compute_all
        self.grade: Grade = grade
        self.runs = LineMatcher(step.old, new, step.hunks)
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
        if isinstance(index, slice) or "all" in self.__dict__:
            return self.all_attributions[index]
        if index not in self.found_by_index:
            self.found_by_index[index] = self.attribute_line(index)
        return self.found_by_index[index]

    def __iter__(self) -> Iterator[Attribution | None]:
        return iter(self.all_attributions)

    @cached_property
    def kept_lines(self) -> set[int]:
        """The lines that the hunks leave where they are."""
        return lines_left_in_place(len(self.labels), self.passing.hunks)

    @cached_property
    def all_attributions(self) -> AttributionList:
        """The labels of all lines."""
        return self.whole()

    def attribute_line(self, index: int) -> Attribution | None:
        """The label of one line; all are worked out where it hangs on which lines went to another place."""
        number = line_before(self.passing.hunks, index + 1)
        origin = None if number is None else number - 1
        if origin is None or origin in self.passing.isolated_lines:
            return self.all_attributions[index] if self.may_be_moved_line(index) else None
        attribution = self.labels[origin]
        if attribution is None:
            return None
        least, most = self.kept_bounds(origin)
        if origin not in most:
            return None
        return limit_grade(attribution, self.grade) if origin in least else self.all_attributions[index]

    def may_be_moved_line(self, index: int) -> bool:
        """Whether a line that a hunk put in may be one with a label, in another layout or from another place."""
        if self.runs.is_in_layout_hunk(index):
            return True
        return any(self.labels[i] and self.kept_bounds(i)[1] for i in self.runs.possible_origins(index))

    def kept_bounds(self, origin: int) -> KeptBounds:
        """The lines of the block of `origin` that keep their labels, whatever went elsewhere; and those that may."""
        if origin not in self.bounds_by_line:
            block = block_around(self.labels, origin)
            self.bounds_by_line |= dict.fromkeys(block, self.compute_bounds(block))
        return self.bounds_by_line[origin]

    def compute_bounds(self, block: range) -> KeptBounds:
        """The bounds of one block. What stays of it may keep a blank line that all of it would not."""
        if not self.passing.lines_keeping_attribution(block, block):
            return NO_KEPT_LINES
        least = frozenset(self.passing.lines_keeping_attribution(block, self.kept_lines))
        back = [i for i in block if i not in self.kept_lines and self.runs.may_still_exist(i)]
        if not back:
            return least, least
        most = self.passing.lines_keeping_attribution(block, {*back, *self.kept_lines.intersection(block)})
        blank = frozenset(i for i in block if most and not self.passing.old[i].strip())
        return least - blank, blank.union(most)


def block_around(attributions: Attributions, number: int) -> range:
    """The block of lines that one record put there, of which a line is one; from 0."""
    attribution = attributions[number]
    record = attribution.record if attribution else ""
    start, end = number, number + 1
    while start and (other := attributions[start - 1]) and other.record == record:
        start -= 1
    while end < len(attributions) and (other := attributions[end]) and other.record == record:
        end += 1
    return range(start, end)


class FirstAttributions(Sequence[Attribution | None]):
    """For each line the first label that one of several has."""

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
