"""Who wrote what a version added: a pure function of contents and of what was recorded of that path.

git says which version of a file first had a line. Here that version is rebuilt from the versions that were recorded
on the way to it, and each line keeps the label of the step that added it. Commit ids play no part, so that a rebase,
a squash or a filter that leaves contents as they were needs no work at all.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.contents import Hunk
from remit.provenance.evidence import Kept, is_evidence
from remit.provenance.reformatted import respaced, same_but_for_layout
from remit.provenance.shifted import shifted, span

Grade: TypeAlias = Literal["exact", "payload", "preserved", "ledger", "moved", "normalised", "note"]
GRADES: tuple[Grade, ...] = ("exact", "payload", "preserved", "ledger", "moved", "normalised", "note")
"""Strongest first: the same blob; the position that the tool's own call told; what git's diff keeps; a recorded
version that still stands; a block found elsewhere; the same but for layout; a note that came with the repository."""

MOST_CANDIDATES = 12
"""Recorded versions that are compared with a version that nobody recorded, the newest first."""

MOST_RELAID = 2_000
"""Lines of the part that differs, within which layout is looked through as a whole."""


class Label(Struct, frozen=True):
    """The record that put a line there, and how sure that is."""

    record: str
    grade: Grade


Labels: TypeAlias = list[Label | None]


class Recorded(Struct, frozen=True):
    """One recorded change of a path. `seq` orders them.

    `hunks` are the differences, where the record holds them. `by_git` says that git brought the content from
    elsewhere: it is an observation, and puts nobody's lines anywhere. `observed` says that the change was found by
    comparing, and not by a call that told what it did.
    """

    seq: int
    record: str
    before: str | None
    after: str | None
    before_lines: int | None = None
    hunks: tuple[Hunk, ...] | None = None
    told: bool = False
    by_git: bool = False
    observed: bool = False


class Step(Struct, frozen=True):
    """One step from a content to the next, by git names. `record` is None where nobody recorded it.

    A step is `loose` where nothing tells that the next content came from this one, but that they are alike;
    `strict` where something even speaks against it: later contents were seen without those lines.
    """

    before: str | None
    after: str
    record: str | None
    before_lines: int | None = None
    hunks: tuple[Hunk, ...] | None = None
    told: bool = False
    loose: bool = False
    strict: bool = False


class Pairs(Struct, frozen=True):
    """What a walk over steps has to know about contents: their lines, and the differences of pairs. None for a
    content that is lost.
    """

    lines: Callable[[str | None], Sequence[bytes] | None]
    hunks: Callable[[str | None, str], Sequence[Hunk] | None]


def chains(
    version: str, parent: str | None, recorded: Sequence[Recorded], settled: frozenset[str] = frozenset()
) -> tuple[tuple[Step, ...], ...]:
    """The ways in which `version` may have come about, best first; several only where none is certain.

    `settled` are contents that history had before the parent: what they held and the parent has not, was taken out.
    """
    exact = back_from(version, parent, recorded)
    if exact and exact[-1].record is not None:
        return (exact,)
    newest = max((r.seq for r in recorded), default=0)
    found: list[tuple[Step, ...]] = []
    seen: set[str | None] = {parent, version}
    for last in sorted(recorded, key=lambda r: r.seq, reverse=True):
        if last.after is None or last.after in seen or last.by_git:
            continue
        seen.add(last.after)
        earlier = [r for r in recorded if r.seq <= last.seq]
        gap = Step(last.after, version, None, loose=True, strict=last.seq < newest or last.after in settled)
        found.append((*back_from(last.after, parent, earlier), gap))
        if len(found) == MOST_CANDIDATES:
            break
    return tuple(found)


def back_from(version: str, parent: str | None, recorded: Sequence[Recorded]) -> tuple[Step, ...]:
    """The chain that ends in `version`, followed backwards while records tell how it came about."""
    steps: list[Step] = []
    wanted: str | None = version
    bound = len(recorded)
    while wanted is not None and (wanted != parent or not steps):
        at = where_written(wanted, recorded[:bound], () if steps else (parent,))
        if at is None:
            gap = gap_before(wanted, recorded[:bound]) if steps else None
            if gap is None:
                break
            steps.append(gap)
            wanted = gap.before
            continue
        found = recorded[at]
        steps.append(recorded_step(found, wanted))
        wanted, bound = found.before, at
    return tuple(reversed(steps))


def where_written(wanted: str, recorded: Sequence[Recorded], before: Collection[str | None] = ()) -> int | None:
    """The newest record that left that content: a call's own, else one that was found by comparing; one that made it
    out of a content in `before` comes first. Git writes nothing, and who comes back to a content that a call left did
    not write it either.
    """
    found = [i for i, r in enumerate(recorded) if r.after == wanted and not r.by_git]
    own = [i for i in found if not recorded[i].observed] or found
    straight = [i for i in own if recorded[i].before in before]
    return (straight or own or [None])[-1]


def recorded_step(found: Recorded, after: str) -> Step:
    """The step that a record tells of."""
    return Step(
        before=found.before,
        after=after,
        record=found.record,
        before_lines=found.before_lines,
        hunks=found.hunks,
        told=found.told,
        loose=found.observed,
    )


def gap_before(wanted: str, recorded: Sequence[Recorded]) -> Step | None:
    """The step that nobody recorded, from what was seen last to `wanted`; None where git brought it, or none was."""
    last = recorded[-1] if recorded else None
    if last is None or last.after is None or last.by_git:
        return None
    return Step(last.after, wanted, None, loose=True)


def wanted_pairs(steps: Sequence[Step]) -> tuple[tuple[str | None, str], ...]:
    """The pairs of contents whose differences a walk over the steps asks for."""
    first = steps[:1] if steps and steps[0].before_lines is None and steps[0].before else ()
    return tuple((s.before, s.after) for s in (*first, *steps) if s.hunks is None or s.loose or s in first)


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
    return [None for _ in range(count)]


def stepped(labels: Labels | None, step: Step, pairs: Pairs) -> Labels | None:
    """The labels after one step."""
    hunks = step.hunks if step.hunks is not None else pairs.hunks(step.before, step.after)
    if labels is None or hunks is None:
        return None
    own = Label(step.record, "payload" if step.told else "exact") if step.record else None
    old, new = pairs.lines(step.before), pairs.lines(step.after)
    if not step.loose:
        return carried(labels, hunks, own)
    if old is None or new is None or len(old) != len(labels):
        return carried(unlabelled(len(labels)), hunks, own)
    same_words = relaid(old, new, hunks)
    came_from = {**shifted(old, new, hunks), **same_words}
    kept = honestly(labels, old, staying(len(old), hunks) | set(came_from.values()), step, hunks)
    after = carried(kept, hunks, own)
    for to, origin in came_from.items():
        known = kept[origin]
        if known is not None:
            after[to] = weaker(known, "normalised" if to in same_words else "moved")
    return after


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
    found = unlabelled(len(labels))
    for block in blocks(labels):
        kept = Kept(tuple(old[i] for i in block), tuple(old[i] for i in block if i in stays))
        if is_evidence(kept, strict=step.strict, part=nothing_new):
            for i in block:
                known = labels[i]
                found[i] = weaker(known, grade) if known is not None else None
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


def merged(several: Sequence[Labels]) -> Labels:
    """For each line the first label that one of them has."""
    if len(several) == 1:
        return several[0]
    length = max(map(len, several), default=0)
    return [next((labels[i] for labels in several if i < len(labels) and labels[i]), None) for i in range(length)]
