"""Who wrote what a version added: a pure function of contents and of what was recorded of that path.

git says which version of a file first had a line. Here that version is rebuilt from the versions that were recorded
on the way to it, and each line keeps the label of the step that added it. Commit ids play no part, so that a rebase,
a squash or a filter that leaves contents as they were needs no work at all.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from remit.core.contents import Hunk
from remit.core.own_words import is_strong
from remit.core.spans import numbers_of, outside, spans_of
from remit.provenance.adrift import adrift
from remit.provenance.alike import may_come_from
from remit.provenance.evidence import Kept, is_evidence
from remit.provenance.reformatted import respaced, same_but_for_layout
from remit.provenance.shifted import shifted, span
from remit.provenance.ways import Step

Grade: TypeAlias = Literal["exact", "payload", "preserved", "ledger", "moved", "normalised", "note"]
GRADES: tuple[Grade, ...] = ("exact", "payload", "preserved", "ledger", "moved", "normalised", "note")
"""Strongest first: the same blob; the position that the tool's own call told; what git's diff keeps; a recorded
version that still stands; a block found elsewhere; the same but for layout; a note that came with the repository."""

MOST_RELAID = 2_000
"""Lines of the part that differs, within which layout is looked through as a whole."""


class Label(Struct, frozen=True):
    """The record that put a line there, and how sure that is."""

    record: str
    grade: Grade
    proved: bool = True
    """Whether it was that record's call; else it was under way then, and nothing tells who wrote the line."""


Labels: TypeAlias = list[Label | None]


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
    known: Walked = {} if walked is None else walked
    at, labels = 0, None
    for step in steps:
        key = (at, step.before, step.after, step.record, step.loose, step.strict)
        if key not in known:
            found = stepped(labels if labels is not None else blank(step, pairs), step, pairs)
            known[key] = (len(known) + 1, found)
        at, labels = known[key]
    return labels or []


def blank(step: Step, pairs: Pairs) -> Labels | None:
    """The labels before a step of which nothing is known; None where not even the lines can be counted."""
    if step.before_lines is not None:
        return unlabelled(step.before_lines)
    lines = pairs.lines(step.before)
    return None if lines is None else unlabelled(len(lines))


def unlabelled(count: int) -> Labels:
    """So many lines of which nothing is known."""
    found: Labels = [None]
    return found * count


def stepped(labels: Labels | None, step: Step, pairs: Pairs) -> Labels | None:
    """The labels after one step."""
    hunks = step.hunks if step.hunks is not None else pairs.hunks(step.before, step.after)
    if labels is None or hunks is None:
        return None
    own = Label(step.record, "payload" if step.told else "exact") if step.record else None
    known = [i for i, label in enumerate(labels) if label] if step.loose or step.unproved else ()
    if not known:
        return opened(carried(labels, hunks, own), hunks, step)
    old, new = pairs.lines(step.before), pairs.lines(step.after)
    if old is None or new is None or len(old) != len(labels):
        return opened(carried(unlabelled(len(labels)) if step.loose else labels, hunks, own), hunks, step)
    moved = may_come_from(known, old, new, hunks)
    same_words, came_from = moved_lines(step, old, new, hunks, pairs) if moved else NO_MOVES
    stays = staying(len(old), hunks) | set(came_from.values())
    kept = honestly(labels, old, stays, step, hunks) if step.loose else labels
    after = opened(carried(kept, hunks, own), hunks, step)
    for to in () if step.trusted else adrift(old, new, hunks, step.unproved):
        after[to] = Label(step.record, "exact", proved=False) if step.record and after[to] else after[to]
    for to, origin in came_from.items():
        label, own = kept[origin], after[to]
        if label is not None and (step.loose or (not (own and own.proved) and is_strong(new[to]))):
            after[to] = weaker(label, "normalised" if to in same_words else "moved")
    return after


def moved_lines(
    step: Step, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], pairs: Pairs
) -> tuple[Moves, Moves]:
    """The lines that only changed their layout; and with them those that went to another place."""
    key = (step.before, step.after, tuple(hunks))
    if key not in pairs.moves:
        same_words = relaid(old, new, hunks)
        pairs.moves[key] = (same_words, {**shifted(old, new, hunks), **same_words})
    return pairs.moves[key]


def opened(labels: Labels, hunks: Sequence[Hunk], step: Step) -> Labels:
    """The labels, where of those that the step put there the unproved ones are open."""
    if not step.unproved:
        return labels
    fresh = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks]
    open_ = {n - 1 for n in numbers_of(outside(fresh, outside(fresh, step.unproved)))}
    return [replace(label, proved=False) if label and n in open_ else label for n, label in enumerate(labels)]


def carried(labels: Sequence[Label | None], hunks: Sequence[Hunk], added: Label | None) -> Labels:
    """The labels after one step: what git's diff keeps, keeps its label; what it adds gets the step's."""
    out: Labels = []
    at = 0
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        out += labels[at:start]
        out += [added] * hunk.new_lines
        at = start + hunk.old_lines
    return [*out, *labels[at:]]


def honestly(labels: Labels, old: Sequence[bytes], stays: set[int], step: Step, hunks: Sequence[Hunk]) -> Labels:
    """The labels that may pass a loose step, graded for it: a block of which enough stayed, and that tells itself from
    another's. A proposal that was thrown away leaves its `try:` and `return None` in what a person writes then; where
    nobody wrote anything, what stays is a part of it.
    """
    grade: Grade = "ledger" if step.strict else "preserved"
    nothing_new = not any(hunk.new_lines for hunk in hunks)
    cuts = [hunk.old for hunk in hunks if hunk.new_lines and not hunk.old_lines]
    found = unlabelled(len(labels))
    for block in blocks(labels):
        kept = Kept(tuple(old[i] for i in block), tuple(old[i] for i in block if i in stays))
        seen = step.record is not None
        alike = is_evidence(kept, strict=step.strict, part=nothing_new, seen=seen)
        if alike or (seen and not step.strict and is_untouched(block, hunks)):
            for i in telling_lines(block, old, stays, cuts) if step.strict and not nothing_new else block:
                known = labels[i]
                found[i] = weaker(known, grade) if known is not None else None
    return found


def is_untouched(block: Sequence[int], hunks: Iterable[Hunk]) -> bool:
    """Whether a block stands as it stood, between the lines that it stood between."""
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        end = start + hunk.old_lines
        if start <= block[-1] + 1 and (end >= block[0] if hunk.old_lines else start >= block[0]):
            return False
    return True


def telling_lines(block: Sequence[int], old: Sequence[bytes], stays: set[int], cuts: Iterable[int]) -> Sequence[int]:
    """The lines of a block that keep its label where something even speaks against it. Of one that something was taken
    out of, or put into (before the lines of `cuts`), those that are nobody else's and what stayed between them: who
    writes anew writes `pass` and `}`, too.
    """
    inside = [i for i in cuts if block[0] < i <= block[-1]]
    if not inside and all(i in stays or not old[i].strip() for i in block):
        return [i for i in block if old[i].strip()]
    found: list[int] = []
    for first, last in spans_of(i for i in block if i in stays):
        for start, end in pairwise([first, *(i for i in inside if first < i <= last), last + 1]):
            own = [i for i in range(start, end) if is_strong(old[i])]
            found += range(own[0], own[-1] + 1) if own else ()
    return found


def staying(count: int, hunks: Sequence[Hunk]) -> set[int]:
    """Which of so many lines no hunk takes out."""
    found = set(range(count))
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        found -= set(range(start, start + hunk.old_lines))
    return found


def relaid(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """For lines of `new` that only changed their layout, the line of `old` that they were.

    Hunk by hunk; and over all of them where that finds more than a diff kept: in a block that was indented anew, a diff
    takes one `return` for another.
    """
    found: dict[int, int] = {}
    for hunk in hunks:
        if hunk.old_lines and hunk.new_lines:
            a, b = hunk.old - 1, hunk.new - 1
            matched = same_but_for_layout(old[a : a + hunk.old_lines], new[b : b + hunk.new_lines])
            found |= {b + to: a + origin for to, origin in matched.items()}
    was, now = span(hunks)
    kept = len(was) - sum(hunk.old_lines for hunk in hunks)
    if len(hunks) < 2 or max(len(was), len(now)) > MOST_RELAID:
        return found
    matched = respaced(old[was.start : was.stop], new[now.start : now.stop])
    if len(matched) <= kept + len(found):
        return found
    came = {i for hunk in hunks for i in range(hunk.new - 1, hunk.new - 1 + hunk.new_lines)}
    return {**{now.start + to: was.start + a for to, a in matched.items() if now.start + to in came}, **found}


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


def weaker(label: Label, grade: Grade) -> Label:
    """The label, no surer than `grade`."""
    return label if GRADES.index(label.grade) >= GRADES.index(grade) else replace(label, grade=grade)


def at(labels: Sequence[Label | None], number: int) -> Label | None:
    """The label of a line, from 1."""
    return labels[number - 1] if 0 < number <= len(labels) else None


def merged(several: Sequence[Labels]) -> Labels:
    """For each line the first label that one of them has."""
    if len(several) == 1:
        return several[0]
    length = max(map(len, several), default=0)
    return [next((labels[i] for labels in several if i < len(labels) and labels[i]), None) for i in range(length)]
