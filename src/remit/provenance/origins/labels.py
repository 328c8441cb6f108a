"""Who wrote what a version added: a pure function of contents and of what was recorded of that path.

git says which version of a file first had a line. Here that version is rebuilt from the versions that were recorded
on the way to it, and each line keeps the label of the step that added it. Commit ids play no part, so that a rebase,
a squash or a filter that leaves contents as they were needs no work at all.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from remit.core.contents import Hunk
from remit.core.own_words import is_strong
from remit.core.spans import numbers_of, outside
from remit.provenance.origins.adrift import adrift, stranded
from remit.provenance.origins.alike import may_come_from
from remit.provenance.origins.evidence import Grade, Label, Labels, Passage, Told, weaker
from remit.provenance.origins.reformatted import relaid
from remit.provenance.origins.shifted import carried, shifted, staying
from remit.provenance.origins.ways import Step

Moves: TypeAlias = dict[int, int]
"""For lines of the next content, the line that they were; indices from 0."""

NO_MOVES: tuple[Moves, Moves] = ({}, {})


class Pairs(Struct, frozen=True):
    """What a walk over steps has to know about contents: their lines, and the differences of pairs. None for a
    content that is lost.
    """

    lines: Callable[[str | None], Sequence[bytes] | None]
    hunks: Callable[[str | None, str], Sequence[Hunk] | None]
    moves: dict[tuple[str | None, str, tuple[Hunk, ...]], tuple[Moves, Moves]] = field(
        default_factory=dict[tuple[str | None, str, tuple[Hunk, ...]], tuple[Moves, Moves]]
    )
    """What `moved_lines` found, for the many ways that have a step in common."""


Walked: TypeAlias = dict[tuple[object, ...], tuple[int, Labels | None]]
"""Labels after the steps that several ways begin with: by the number of what came before, and the step."""


def walk(steps: Sequence[Step], pairs: Pairs, walked: Walked | None = None) -> Labels:
    """The label of each line of the last step's content; None where nothing recorded put it there.

    Where a content on the way is lost, nothing that stood before it is claimed of what came then. `walked` keeps what
    was found, for other ways that begin alike.
    """
    return walked_on(steps, pairs, {} if walked is None else walked, (0, None))[1] or []


def walked_on(
    steps: Sequence[Step], pairs: Pairs, known: Walked, begun: tuple[int, Labels | None]
) -> tuple[int, Labels | None]:
    """What `known` has for the steps after those that led to `begun`; what it lacks is added."""
    at, labels = begun
    for step in steps:
        key = (at, step.before, step.after, step.record, step.loose, step.strict)
        if key not in known:
            found = stepped(labels if labels is not None else blank(step, pairs), step, pairs)
            known[key] = (len(known) + 1, found)
        at, labels = known[key]
    return at, labels


def blank(step: Step, pairs: Pairs) -> Labels | None:
    """The labels before a step of which nothing is known; None where not even the lines can be counted."""
    if step.before_lines is not None:
        return unlabelled(step.before_lines)
    lines = pairs.lines(step.before)
    return None if lines is None else unlabelled(len(lines))


def unlabelled(count: int) -> Told:
    """So many lines of which nothing is known."""
    found: Told = [None]
    return found * count


def stepped(labels: Labels | None, step: Step, pairs: Pairs) -> Labels | None:
    """The labels after one step."""
    hunks = step.hunks if step.hunks is not None else pairs.hunks(step.before, step.after)
    if labels is None or hunks is None:
        return None
    own = Label(step.record, "payload" if step.told else "exact") if step.record else None
    if not (step.loose or step.unproved) or not (any(labels) or step.likely):
        return opened(carried(labels, hunks, own), hunks, step)
    old, new = pairs.lines(step.before), pairs.lines(step.after)
    if old is None or new is None or len(old) != len(labels):
        return opened(carried(unlabelled(len(labels)) if step.loose else labels, hunks, own), hunks, step)
    if step.loose and step.record is None and not step.unproved:
        from remit.provenance.origins.after_gap import AfterGap  # for start-up speed: most steps were recorded

        passing, whole = passage(step, old, new, hunks), partial(compared, labels, step, old, new, hunks, pairs)
        return AfterGap(labels, passing, new, grade_of(step), whole)
    return compared(labels, step, old, new, hunks, pairs)


def compared(
    labels: Labels, step: Step, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], pairs: Pairs
) -> Told:
    """The labels after one step, of which it matters what the lines say."""
    known = [i for i, label in enumerate(labels) if label]
    own = Label(step.record, "payload" if step.told else "exact") if step.record else None
    moved = bool(step.likely) or may_come_from(known, old, new, hunks)
    same_words, came_from = moved_lines(step, old, new, hunks, pairs) if moved else NO_MOVES
    stays = staying(len(old), hunks) | set(came_from.values())
    passing = passage(step, old, new, hunks)
    kept = honestly(labels, stays, step, passing) if step.loose else labels
    stands = [None if i in passing.stranded else label for i, label in enumerate(kept)] if step.loose else kept
    after = opened(carried(stands, hunks, own), hunks, step)
    for to in () if step.trusted else adrift(old, new, hunks, step.unproved):
        after[to] = Label(step.record, "exact", proved=False) if step.record and after[to] else after[to]
    if step.likely:
        after = without_copies(after, old, new)
    for to, origin in came_from.items():
        label, own = kept[origin], after[to]
        if label is not None and (step.loose or may_stay(own, new[to])):
            after[to] = weaker(label, "normalised" if to in same_words else "moved")
        elif label is None and own is not None and own.likely:
            after[to] = replace(own, likely=False)  # somebody unknown wrote it; the call moved it, or laid it out
    return after


def without_copies(labels: Told, old: Sequence[bytes], new: Sequence[bytes]) -> Told:
    """The labels, of which none is likely for a line that stood elsewhere in the file: the call may have copied it."""
    there = {line.strip() for line in old if is_strong(line)}
    return [
        replace(label, likely=False) if label and label.likely and line.strip() in there else label
        for label, line in zip(labels, new, strict=True)
    ]


def may_stay(own: Label | None, line: bytes) -> bool:
    """Whether a line that a call moved, or laid out anew, keeps its label, where the call's own would be `own`."""
    return (own is not None and own.likely) or (not (own and own.proved) and is_strong(line))


def moved_lines(
    step: Step, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], pairs: Pairs
) -> tuple[Moves, Moves]:
    """The lines that only changed their layout; and with them those that went to another place."""
    key = (step.before, step.after, tuple(hunks))
    if key not in pairs.moves:
        same_words = relaid(old, new, hunks)
        pairs.moves[key] = (same_words, {**shifted(old, new, hunks), **same_words})
    return pairs.moves[key]


def opened(labels: Told, hunks: Sequence[Hunk], step: Step) -> Told:
    """The labels, where of those that the step put there the unproved ones are open."""
    if not step.unproved:
        return labels
    fresh = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks]
    open_ = {n - 1 for n in numbers_of(outside(fresh, outside(fresh, step.unproved)))}
    likely = {n - 1 for n in numbers_of(step.likely)} & open_
    return [
        replace(label, proved=False, likely=n in likely) if label and n in open_ else label
        for n, label in enumerate(labels)
    ]


def honestly(labels: Labels, stays: set[int], step: Step, passing: Passage) -> Told:
    """The labels that may pass a loose step, graded for it: a block of which enough stayed, and that tells itself from
    another's. A proposal that was thrown away leaves its `try:` and `return None` in what a person writes then; where
    nobody wrote anything, what stays is a part of it.
    """
    grade = grade_of(step)
    found = unlabelled(len(labels))
    for block in blocks(labels):
        for i in passing.kept(block, stays):
            known = labels[i]
            found[i] = weaker(known, grade) if known is not None else None
    return found


def passage(step: Step, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> Passage:
    """What blocks have to pass in a loose step."""
    return Passage(old, hunks, step.strict, step.record is not None, partial(stranded, old, new, hunks))


def grade_of(step: Step) -> Grade:
    """How sure labels are after a loose step."""
    return "ledger" if step.strict else "preserved"


def blocks(labels: Sequence[Label | None]) -> list[list[int]]:
    """The places of neighbouring lines that one record put there, for each such block."""
    found: list[list[int]] = []
    last = None
    for i, label in enumerate(labels):
        if label is None:
            last = None
        elif label.record == last:
            found[-1].append(i)
        else:
            found.append([i])
            last = label.record
    return found


def merged(several: Sequence[Labels]) -> Labels:
    """For each line the first label that one of them has."""
    if len(several) == 1:
        return several[0]
    from remit.provenance.origins.after_gap import FirstOf  # for start-up speed: most versions came about in one way

    return FirstOf(several)
