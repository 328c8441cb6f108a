"""Which lines of two contents are the same: what `difflib` says of them, sooner; and whether it is worth asking.

What a diff leaves where it was, and blocks that went from one place of a file to another.

Lines that say the same in another layout: indented anew, wrapped, quoted the other way.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from remit.core.diff.contents import Hunk
from remit.core.diff.distinctive_lines import has_distinctive_word, is_distinctive_line
from remit.provenance.origins.evidence import MIN_TELLING_LINES, is_distinctive, strip_whitespace

T = TypeVar("T")


def find_moved_blocks(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """For lines of `new` that the hunks put in, the line of `old` that they took out; indices from 0.

    A block is told by a line that nobody else would write, that went once and came once; its neighbours go with it as
    far as both read alike. White space does not count.
    """
    if not any(h.old_lines for h in hunks) or not any(h.new_lines for h in hunks):
        return {}
    gone = {i: strip_whitespace(old[i]) for h in hunks for i in range(h.old - 1, h.old - 1 + h.old_lines)}
    came = {i: strip_whitespace(new[i]) for h in hunks for i in range(h.new - 1, h.new - 1 + h.new_lines)}
    left, arrived = unique_positions(gone), unique_positions(came)
    found: dict[int, int] = {}
    for text in left.keys() & arrived.keys():
        if arrived[text] not in found and is_distinctive_line(old[left[text]]):
            found |= extend_match(gone, came, left[text], arrived[text])
    return found


def extend_match(gone: dict[int, bytes], came: dict[int, bytes], origin: int, to: int) -> dict[int, int]:
    """How far both go on alike around these two lines, in both directions."""
    found = {to: origin}
    for way in (1, -1):
        offset = way
        while origin + offset in gone and gone[origin + offset] == came.get(to + offset):
            found[to + offset] = origin + offset
            offset += way
    return found


def unique_positions(texts: dict[int, bytes]) -> dict[bytes, int]:
    """Where those texts stand that stand in one place only."""
    found: dict[bytes, int] = {}
    twice: set[bytes] = set()
    for index, text in texts.items():
        twice |= {text} & found.keys()
        found[text] = index
    return {text: index for text, index in found.items() if text not in twice}


def changed_span(hunks: Iterable[Hunk]) -> tuple[range, range]:
    """From the first line that differs to the last, in both contents; indices from 0."""
    found = list(hunks)
    old = [i for h in found for i in (h.old - bool(h.old_lines), h.old - bool(h.old_lines) + h.old_lines)]
    new = [i for h in found for i in (h.new - bool(h.new_lines), h.new - bool(h.new_lines) + h.new_lines)]
    return range(min(old, default=0), max(old, default=0)), range(min(new, default=0), max(new, default=0))


def carry_through_hunks(attributions: Sequence[T | None], hunks: Sequence[Hunk], added: T | None) -> list[T | None]:
    """The labels after one step: what git's diff keeps, keeps its label; what it adds gets the step's."""
    out: list[T | None] = []
    at = 0
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        out += attributions[at:start]
        out += [added] * hunk.new_lines
        at = start + hunk.old_lines
    return [*out, *attributions[at:]]


def lines_left_in_place(count: int, hunks: Sequence[Hunk]) -> set[int]:
    """Which of so many lines no hunk takes out."""
    found = set(range(count))
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        found -= set(range(start, start + hunk.old_lines))
    return found


EqualBlock = tuple[int, int, int]
"""Where equal runs stand in both, and how long they are."""

WORD = re.compile(rb"\w")
LAYOUT_BYTES = b" \t\n\r\x0b\x0c,'\"\\"
"""What may differ between two layouts of one text."""


def find_equal_blocks(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[EqualBlock]:
    """The blocks of `SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()`, less the empty one at the end,
    in any order. Each text stands for one sign, so that two contents are strings, of which C finds the parts.
    """
    signs: dict[Hashable, str] = {}
    one = "".join([signs.setdefault(text, chr(len(signs))) for text in a])
    other = "".join([signs.setdefault(text, chr(len(signs))) for text in b])
    found: list[EqualBlock] = []
    waiting = [(0, len(a), 0, len(b))]
    while waiting:
        low, high, first, last = waiting.pop()
        i, j, size = longest_common_run(one[low:high], other[first:last])
        i, j = i + low, j + first
        if size:
            found.append((i, j, size))
            waiting += [(low, i, first, j)] * (low < i and first < j)
            waiting += [(i + size, high, j + size, last)] * (i + size < high and j + size < last)
    return found


def longest_common_run(a: str, b: str) -> EqualBlock:
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


def may_be_moved_lines(
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
    starts = [hunk.new_range.start for hunk in hunks]
    into = {i: hunk for i in numbers if (hunk := hunk_at(hunks, starts, i))}
    if not into:
        return False
    was, _ = changed_span(hunks)
    ours = {i for i in own if was.start <= i < was.stop}
    arrived = {strip_whitespace(new[i]) for i in into}
    equal = [i for text in arrived for i in positions_of_lines(old).get(text, ()) if i in ours]
    if any(WORD.search(old[i]) for i in equal) or (
        equal and not adjacent_pairs(into, new).isdisjoint(adjacent_pairs(equal, old))
    ):
        return True
    both = (h for h in {*into.values()} if not ours.isdisjoint(range(h.old - 1, h.old - 1 + h.old_lines)))
    return any(is_layout_change(h, old, new) for h in both)


def hunk_at(hunks: Sequence[Hunk], starts: Sequence[int], to: int) -> Hunk | None:
    """The hunk that put a line in; `starts` are the numbers of the first lines that each put in."""
    at = bisect_right(starts, to + 1)
    return hunks[at - 1] if at and to + 1 in hunks[at - 1].new_range else None


def lines_put_in(new: Sequence[bytes], hunk: Hunk) -> Sequence[bytes]:
    """The lines that a hunk puts in."""
    return new[hunk.new - 1 : hunk.new - 1 + hunk.new_lines]


def is_layout_change(hunk: Hunk, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Whether the hunk says what stood there."""
    return equal_but_for_layout(old[hunk.old - 1 : hunk.old - 1 + hunk.old_lines], lines_put_in(new, hunk))


def adjacent_pairs(numbers: Iterable[int], lines: Sequence[bytes]) -> set[tuple[bytes, bytes, int]]:
    """Those lines with the one before, and with the one after."""
    found = {(strip_whitespace(lines[i - 1]), strip_whitespace(lines[i]), -1) for i in numbers if i}
    return found | {
        (strip_whitespace(lines[i]), strip_whitespace(lines[i + 1]), 1) for i in numbers if i + 1 < len(lines)
    }


def equal_but_for_layout(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Whether both are one text but for layout, or nearly."""
    return b"".join(old).translate(None, LAYOUT_BYTES) == b"".join(new).translate(None, LAYOUT_BYTES)


MAX_COMPARED_LINES = 20_000
"""Lines of runs that are compared for single lines: of contents that repeat themselves all is soon looked through."""


class LineMatcher(Struct, dict=True):
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
        return changed_span(self.hunks)

    @cached_property
    def hunk_starts(self) -> list[int]:
        """Where the hunks begin in `old`."""
        return [hunk.old_range.start for hunk in self.hunks]

    @cached_property
    def added_numbers(self) -> set[int]:
        """The lines that the hunks put in."""
        return set[int]().union(*(range(h.new - 1, h.new - 1 + h.new_lines) for h in self.hunks))

    @cached_property
    def layout_changes(self) -> dict[Hunk, bool]:
        """Of those hunks that were asked about, whether they say what stood there."""
        return {}

    def removing_hunk(self, origin: int) -> Hunk | None:
        """The hunk that took a line out."""
        at = bisect_right(self.hunk_starts, origin + 1)
        return self.hunks[at - 1] if at and origin + 1 in self.hunks[at - 1].old_range else None

    def is_layout_hunk(self, hunk: Hunk | None) -> bool:
        """Whether a hunk says what stood there."""
        if hunk is None or not hunk.old_lines or not hunk.new_lines:
            return False
        if hunk not in self.layout_changes:
            self.layout_changes[hunk] = is_layout_change(hunk, self.old, self.new)
        return self.layout_changes[hunk]

    def may_still_exist(self, origin: int) -> bool:
        """Whether a line that a hunk took out may be there still."""
        if self.is_layout_hunk(self.removing_hunk(origin)):
            return True
        same = positions_of_lines(self.new).get(strip_whitespace(self.old[origin]), ())
        return any(self.is_distinctive_run(origin, to) for to in same if to in self.added_numbers)

    def is_in_layout_hunk(self, to: int) -> bool:
        """Whether a line stands in a hunk that says what stood there."""
        return to in self.added_numbers and self.is_layout_hunk(next(h for h in self.hunks if to + 1 in h.new_range))

    def possible_origins(self, to: int) -> Iterable[int]:
        """The lines that one may have been that a hunk put in, where the hunk says something else."""
        same = positions_of_lines(self.old).get(strip_whitespace(self.new[to]), ())
        return (i for i in same if i in self.spans[0] and self.is_distinctive_run(i, to))

    def is_distinctive_run(self, origin: int, to: int) -> bool:
        """Whether these two stand in runs that are equal and that tell themselves from others, or may."""
        was, now = self.spans
        words = 0
        for way, offset in ((1, 0), (-1, -1)):
            while origin + offset in was and to + offset in now:
                one, other = self.old[origin + offset], self.new[to + offset]
                self.compared += 1
                if strip_whitespace(one) != strip_whitespace(other):
                    break
                if is_distinctive_line(one) or is_distinctive_line(other) or self.compared > MAX_COMPARED_LINES:
                    return True
                words += has_distinctive_word(one) or has_distinctive_word(other)
                offset += way
        return words >= MIN_TELLING_LINES or (words > 0 and len(was) == len(now))


class IndexedLines(list[bytes]):
    """The lines of one content, which many others are compared with."""

    @cached_property
    def positions(self) -> dict[bytes, list[int]]:
        """Where they stand, by what they say without white space."""
        found: dict[bytes, list[int]] = {}
        for i, text in enumerate(map(strip_whitespace, self)):
            found.setdefault(text, []).append(i)
        return found


def positions_of_lines(lines: Sequence[bytes]) -> dict[bytes, list[int]]:
    """Where those lines stand, by what they say without white space."""
    return (lines if isinstance(lines, IndexedLines) else IndexedLines(lines)).positions


TOKEN = re.compile(rb"\w+|[^\w\s]")
MAX_TOKENS = 20_000
MIN_TOKENS = 4
"""Of a hunk that was wrapped: fewer could be anybody's."""

MAX_REFORMATTED_LINES = 2_000
"""Lines of the part that differs, within which layout is looked through as a whole."""

CLOSING_BRACKETS = frozenset(b")]}")


def find_reformatted_lines(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """For lines of `new` that only changed their layout, the line of `old` that they were.

    Hunk by hunk; and over all of them where that finds more than a diff kept: in a block that was indented anew, a diff
    takes one `return` for another.
    """
    found: dict[int, int] = {}
    for hunk in hunks:
        if hunk.old_lines and hunk.new_lines:
            a, b = hunk.old - 1, hunk.new - 1
            matched = match_but_for_layout(old[a : a + hunk.old_lines], new[b : b + hunk.new_lines])
            found |= {b + to: a + origin for to, origin in matched.items()}
    was, now = changed_span(hunks)
    kept = len(was) - sum(hunk.old_lines for hunk in hunks)
    if len(hunks) < 2 or max(len(was), len(now)) > MAX_REFORMATTED_LINES:
        return found
    matched = match_respaced(old[was.start : was.stop], new[now.start : now.stop])
    if len(matched) <= kept + len(found):
        return found
    came = {i for hunk in hunks for i in range(hunk.new - 1, hunk.new - 1 + hunk.new_lines)}
    return {**{now.start + to: was.start + a for to, a in matched.items() if now.start + to in came}, **found}


def match_but_for_layout(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """For lines of `new` the line of `old` that they come from: all of them where the whole says the same, else those
    that differ from one by white space alone. Indices from 0.
    """
    return match_rewrapped(old, new) or match_respaced(old, new)


def match_respaced(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """The lines that are equal but for white space, in order. Where other lines changed with them, runs that could be
    anybody's are left out: who writes anew ends with a `return None`, too, and indents it as it has to be.
    """
    a, b = list(map(strip_whitespace, old)), list(map(strip_whitespace, new))
    if not any(map(WORD.search, set(a).intersection(b))):
        return {}
    tells = has_worded_line if a == b else is_distinctive
    told = (block for block in find_equal_blocks(a, b) if tells(new[block[1] : block[1] + block[2]]))
    return {j + offset: i + offset for i, j, size in told for offset in range(size)}


def has_worded_line(lines: Iterable[bytes]) -> bool:
    """Whether one of those lines has a word of its own."""
    return any(map(has_distinctive_word, lines))


def match_rewrapped(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Where both say the same, token by token: for each line of `new` the line of its first token."""
    if not equal_but_for_layout(old, new):
        return {}
    a, b = tokens_with_lines(old), tokens_with_lines(new)
    if not MIN_TOKENS <= len(a) <= MAX_TOKENS or [t for t, _ in a] != [t for t, _ in b]:
        return {}
    found: dict[int, int] = {}
    for (_, origin), (_, to) in zip(a, b, strict=True):
        found.setdefault(to, origin)
    return found


def tokens_with_lines(lines: Sequence[bytes]) -> list[tuple[bytes, int]]:
    """The tokens with the line of each. Quotes are one sign; a comma before a closing bracket is layout, and so is a
    backslash at a line's end.
    """
    found: list[tuple[bytes, int]] = []
    for number, line in enumerate(lines):
        for token in tokenize(line):
            if found and found[-1][0] == b"," and token[0] in CLOSING_BRACKETS:
                found.pop()
            found.append((token, number))
    return found


def tokenize(line: bytes) -> list[bytes]:
    """The tokens of one line, with one sign for all quotes, and without a backslash at its end."""
    found: list[bytes] = TOKEN.findall(line.rstrip().removesuffix(b"\\").replace(b"'", b'"'))
    return found


def tokens_without_commas(line: bytes) -> list[bytes]:
    """The tokens of a line but for its commas, of which layout may add one or take one away."""
    return [token for token in tokenize(line) if token != b","]
