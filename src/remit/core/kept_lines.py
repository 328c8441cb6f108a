"""Which lines of a file an edit leaves where they are, as far as its own arguments tell.

A diff of the two contents may take a copy for the original, or one `pass` for another; what an edit does not touch, it
leaves.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from remit.core.contents import Hunk
from remit.core.edits import Edit, Patching, Replacement, Replacements, encoded
from remit.core.patching import DoesNotApply, origins
from remit.core.shortest import common
from remit.core.textdiff import lines_of

Kept: TypeAlias = Mapping[int, int]
"""For lines after the edit, the line that they were; indices from 0."""

MOST_PLACES = 50
"""Places of one insertion that are compared."""


def kept_lines(edit: Edit, path: str, before: bytes, *, guess: bool = True) -> Kept | None:
    """The lines of the file at `path` that the edit leaves; None where its arguments do not tell.

    Of a text that is replaced, those that it and the new one begin and end with are a guess, though a good one; and no
    guess where the one has them as often as the other.
    """
    match edit:
        case Patching(patch):
            try:
                found = origins(patch, path, before)
            except DoesNotApply:
                return None
            return None if found is None else {to: origin for to, origin in enumerate(found) if origin is not None}
        case Replacements(steps):
            return kept_by(steps, before, guess=guess)
        case _:
            return None


def kept_by(steps: Sequence[Replacement], before: bytes, *, guess: bool) -> Kept | None:
    """The lines that stay through all replacements."""
    content = before
    known: dict[int, int] = {n: n for n in range(len(lines_of(before)))}
    for step in steps:
        old, new = encoded(step.old), encoded(step.new)
        if not old or content.count(old) != 1:
            return None
        after = content.replace(old, new)
        stay = beside(content, after, content.index(old), (len(old), len(new)), guess=guess)
        known = {to: known[origin] for to, origin in stay.items() if origin in known}
        content = after
    return known


def beside(content: bytes, after: bytes, at: int, sizes: tuple[int, int], *, guess: bool) -> dict[int, int]:
    """The lines before and after the place where one text became another, by their sizes in bytes; and those that both
    begin or end with, where they are no guess, or may be one.
    """
    (gone, came), a, b = sizes, lines_of(content), lines_of(after)
    head = content.count(b"\n", 0, at)
    rest = content[at + gone :]
    if not (starts_line(content, at + gone) and starts_line(after, at + came)):
        rest = rest.partition(b"\n")[2]
    tail = len(lines_of(rest)) if rest else 0
    gone_there, came_there = a[head : len(a) - tail], b[head : len(b) - tail]
    start, end = both_ends(gone_there, came_there)
    found = {n: n for n in range(head + start)} | {len(b) - n: len(a) - n for n in range(1, tail + end + 1)}
    if guess or start == end == 0:
        return found
    were, are = Counter(gone_there), Counter(came_there)
    outside = {*range(head), *range(len(b) - tail, len(b))}
    return {to: origin for to, origin in found.items() if to in outside or were[b[to]] == are[b[to]]}


def together(sure: Kept, hunks: Iterable[Hunk], count: int) -> Kept:
    """What stays for sure, and of what the hunks leave of a content of `count` lines that which fits between."""
    numbers = sorted(sure)
    found = dict(sure)
    for to, origin in left_by(hunks, count):
        at = bisect_left(numbers, to)
        after, before = numbers[at : at + 1], numbers[max(0, at - 1) : at]
        if all(to < n and origin < sure[n] for n in after) and all(origin > sure[n] for n in before):
            found[to] = origin
    return found


def left_by(hunks: Iterable[Hunk], count: int) -> Iterator[tuple[int, int]]:
    """The lines that the hunks leave, with the lines that they were; indices from 0."""
    at = shift = 0
    for hunk in hunks:
        yield from ((to, to - shift) for to in range(at, hunk.came.start - 1))
        at, shift = hunk.came.stop - 1, shift + hunk.new_lines - hunk.old_lines
    yield from ((to, to - shift) for to in range(at, count))


def starts_line(content: bytes, at: int) -> bool:
    """Whether a line begins there."""
    return at == 0 or content[at - 1 : at] == b"\n"


def both_ends(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """How many lines both begin with, and how many more they end with.

    Of a text that its replacement both begins and ends with, the lines stay that leave what came between them least
    indented: who puts a function above another names the next one's head to find the place.
    """
    start, end = common(old, new), common(old[::-1], new[::-1])
    shorter = min(len(old), len(new))
    if start + end <= shorter:
        return start, end
    choices = range(max(shorter - end, start - MOST_PLACES), start + 1)
    best = min(choices, key=lambda n: (indent(new[n : n + len(new) - shorter]), -n))
    return best, shorter - best


def indent(lines: Iterable[bytes]) -> int:
    """How far the first of those lines that is not empty is indented."""
    return next((len(line) - len(line.lstrip()) for line in lines if line.strip()), 0)
