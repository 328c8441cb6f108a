"""Which lines of two contents are the same: what `difflib` says of them, sooner; and whether it is worth asking."""

import re
from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cached_property

from msgspec import Struct

from remit.core.contents import Hunk
from remit.core.own_words import is_strong, says_something
from remit.provenance.origins.evidence import TELLING_LINES, unspaced
from remit.provenance.origins.shifted import span

Block = tuple[int, int, int]
"""Where equal runs stand in both, and how long they are."""

WORD = re.compile(rb"\w")
LAYOUT = b" \t\n\r\x0b\x0c,'\"\\"
"""What may differ between two layouts of one text."""


def equal_blocks(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Block]:
    """The blocks of `SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()`, less the empty one at the end,
    in any order. Each text stands for one sign, so that two contents are strings, of which C finds the parts.
    """
    signs: dict[Hashable, str] = {}
    one = "".join([signs.setdefault(text, chr(len(signs))) for text in a])
    other = "".join([signs.setdefault(text, chr(len(signs))) for text in b])
    found: list[Block] = []
    waiting = [(0, len(a), 0, len(b))]
    while waiting:
        low, high, first, last = waiting.pop()
        i, j, size = longest(one[low:high], other[first:last])
        i, j = i + low, j + first
        if size:
            found.append((i, j, size))
            waiting += [(low, i, first, j)] * (low < i and first < j)
            waiting += [(i + size, high, j + size, last)] * (i + size < high and j + size < last)
    return found


def longest(a: str, b: str) -> Block:
    """The longest string that is part of both: the first in `a` of several, where it stands first in `b`."""
    best, size = 0, 0
    for i in range(len(a)):
        if i + size >= len(a):
            break
        j = b.find(a[i : i + size + 1])
        while j >= 0:
            best, size = i, size + 1
            while a[i + size : i + size + 1] and a[i + size] == b[j + size : j + size + 1]:
                size += 1
            j = b.find(a[i : i + size + 1], j + 1) if i + size < len(a) else -1
    return best, b.find(a[best : best + size]), size


def may_come_from(
    own: Iterable[int],
    old: Sequence[bytes],
    new: Sequence[bytes],
    hunks: Sequence[Hunk],
    wanted: Collection[int] | None = None,
) -> bool:
    """Whether a line that the hunks put in, one of `wanted` where that is given, may be one of those lines of `old` in
    another layout, or at another place. All numbers are indices from 0.

    Lines are compared without white space; one without a word counts only beside another that is equal, too.
    """
    numbers = [i for h in hunks for i in range(h.new - 1, h.new - 1 + h.new_lines)] if wanted is None else wanted
    starts = [hunk.came.start for hunk in hunks]
    into = {i: hunk for i in numbers if (hunk := hunk_at(hunks, starts, i))}
    if not into:
        return False
    was, _ = span(hunks)
    ours = {i for i in own if was.start <= i < was.stop}
    arrived = {unspaced(new[i]) for i in into}
    equal = [i for text in arrived for i in where(old).get(text, ()) if i in ours]
    if any(WORD.search(old[i]) for i in equal) or (equal and not beside(into, new).isdisjoint(beside(equal, old))):
        return True
    both = (h for h in {*into.values()} if not ours.isdisjoint(range(h.old - 1, h.old - 1 + h.old_lines)))
    return any(is_layout(h, old, new) for h in both)


def hunk_at(hunks: Sequence[Hunk], starts: Sequence[int], to: int) -> Hunk | None:
    """The hunk that put a line in; `starts` are the numbers of the first lines that each put in."""
    at = bisect_right(starts, to + 1)
    return hunks[at - 1] if at and to + 1 in hunks[at - 1].came else None


def put_in(new: Sequence[bytes], hunk: Hunk) -> Sequence[bytes]:
    """The lines that a hunk puts in."""
    return new[hunk.new - 1 : hunk.new - 1 + hunk.new_lines]


def is_layout(hunk: Hunk, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Whether the hunk says what stood there."""
    return say_the_same(old[hunk.old - 1 : hunk.old - 1 + hunk.old_lines], put_in(new, hunk))


def beside(numbers: Iterable[int], lines: Sequence[bytes]) -> set[tuple[bytes, bytes, int]]:
    """Those lines with the one before, and with the one after."""
    found = {(unspaced(lines[i - 1]), unspaced(lines[i]), -1) for i in numbers if i}
    return found | {(unspaced(lines[i]), unspaced(lines[i + 1]), 1) for i in numbers if i + 1 < len(lines)}


def say_the_same(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Whether both are one text but for layout, or nearly."""
    return b"".join(old).translate(None, LAYOUT) == b"".join(new).translate(None, LAYOUT)


MOST_COMPARED = 20_000
"""Lines of runs that are compared for single lines: of contents that repeat themselves all is soon looked through."""


class Runs(Struct, dict=True):
    """Whether single lines may have changed their place or their layout: never a no where `shifted` or `relaid` find
    that they did. All numbers are indices from 0.
    """

    old: Sequence[bytes]
    new: Sequence[bytes]
    hunks: Sequence[Hunk]
    compared: int = 0

    @cached_property
    def spans(self) -> tuple[range, range]:
        """The parts that differ."""
        return span(self.hunks)

    @cached_property
    def starts(self) -> list[int]:
        """Where the hunks begin in `old`."""
        return [hunk.gone.start for hunk in self.hunks]

    @cached_property
    def fresh(self) -> set[int]:
        """The lines that the hunks put in."""
        return set[int]().union(*(range(h.new - 1, h.new - 1 + h.new_lines) for h in self.hunks))

    @cached_property
    def layouts(self) -> dict[Hunk, bool]:
        """Of those hunks that were asked about, whether they say what stood there."""
        return {}

    def out_of(self, origin: int) -> Hunk | None:
        """The hunk that took a line out."""
        at = bisect_right(self.starts, origin + 1)
        return self.hunks[at - 1] if at and origin + 1 in self.hunks[at - 1].gone else None

    def is_relaid(self, hunk: Hunk | None) -> bool:
        """Whether a hunk says what stood there."""
        if hunk is None or not hunk.old_lines or not hunk.new_lines:
            return False
        if hunk not in self.layouts:
            self.layouts[hunk] = is_layout(hunk, self.old, self.new)
        return self.layouts[hunk]

    def may_return(self, origin: int) -> bool:
        """Whether a line that a hunk took out may be there still."""
        if self.is_relaid(self.out_of(origin)):
            return True
        same = where(self.new).get(unspaced(self.old[origin]), ())
        return any(self.tells(origin, to) for to in same if to in self.fresh)

    def in_layout(self, to: int) -> bool:
        """Whether a line stands in a hunk that says what stood there."""
        return to in self.fresh and self.is_relaid(next(h for h in self.hunks if to + 1 in h.came))

    def origins(self, to: int) -> Iterable[int]:
        """The lines that one may have been that a hunk put in, where the hunk says something else."""
        same = where(self.old).get(unspaced(self.new[to]), ())
        return (i for i in same if i in self.spans[0] and self.tells(i, to))

    def tells(self, origin: int, to: int) -> bool:
        """Whether these two stand in runs that are equal and that tell themselves from others, or may."""
        was, now = self.spans
        words = 0
        for way, offset in ((1, 0), (-1, -1)):
            while origin + offset in was and to + offset in now:
                one, other = self.old[origin + offset], self.new[to + offset]
                self.compared += 1
                if unspaced(one) != unspaced(other):
                    break
                if is_strong(one) or is_strong(other) or self.compared > MOST_COMPARED:
                    return True
                words += says_something(one) or says_something(other)
                offset += way
        return words >= TELLING_LINES or (words > 0 and len(was) == len(now))


class Lines(list[bytes]):
    """The lines of one content, which many others are compared with."""

    @cached_property
    def places(self) -> dict[bytes, list[int]]:
        """Where they stand, by what they say without white space."""
        found: dict[bytes, list[int]] = {}
        for i, text in enumerate(map(unspaced, self)):
            found.setdefault(text, []).append(i)
        return found


def where(lines: Sequence[bytes]) -> dict[bytes, list[int]]:
    """Where those lines stand, by what they say without white space."""
    return (lines if isinstance(lines, Lines) else Lines(lines)).places
