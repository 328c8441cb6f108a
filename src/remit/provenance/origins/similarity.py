"""Matches between the lines of two contents: equal blocks, moved blocks and reformatted lines."""

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

EqualBlock = tuple[int, int, int]
"""Starts of an equal run in both contents, and its length."""

WORD = re.compile(rb"\w")
LAYOUT_BYTES = b" \t\n\r\x0b\x0c,'\"\\"
"""Bytes that may differ between two layouts of one text."""

MAX_COMPARED_LINES = 20_000
"""Limit of comparisons for single lines: repetitive contents are faster compared as a whole."""

TOKEN = re.compile(rb"\w+|[^\w\s]")
MAX_TOKENS = 20_000
MIN_TOKENS = 4
"""Tokens of a rewrapped hunk; fewer tokens are not distinctive."""

MAX_REFORMATTED_LINES = 2_000
"""Lines of the differing part that are compared as a whole."""

CLOSING_BRACKETS = frozenset(b")]}")


def find_moved_blocks(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """Return for lines of `new` that the hunks inserted the line of `old` that they removed; indices from 0.

    A block is recognised by a distinctive line that was removed once and inserted once; equal neighbours follow. White
    space is ignored.
    """
    if not any(h.old_lines for h in hunks) or not any(h.new_lines for h in hunks):
        return {}
    removed = {i: strip_whitespace(old[i]) for h in hunks for i in range(h.old - 1, h.old - 1 + h.old_lines)}
    inserted = {i: strip_whitespace(new[i]) for h in hunks for i in range(h.new - 1, h.new - 1 + h.new_lines)}
    removed_once, inserted_once = unique_positions(removed), unique_positions(inserted)
    origins: dict[int, int] = {}
    for text in removed_once.keys() & inserted_once.keys():
        if inserted_once[text] not in origins and is_distinctive_line(old[removed_once[text]]):
            origins |= extend_match(removed, inserted, removed_once[text], inserted_once[text])
    return origins


def extend_match(removed: dict[int, bytes], inserted: dict[int, bytes], origin: int, index: int) -> dict[int, int]:
    """Extend the match of two lines in both directions while the lines are equal."""
    origins = {index: origin}
    for direction in (1, -1):
        offset = direction
        while origin + offset in removed and removed[origin + offset] == inserted.get(index + offset):
            origins[index + offset] = origin + offset
            offset += direction
    return origins


def unique_positions(texts: dict[int, bytes]) -> dict[bytes, int]:
    positions: dict[bytes, int] = {}
    repeated: set[bytes] = set()
    for index, text in texts.items():
        repeated |= {text} & positions.keys()
        positions[text] = index
    return {text: index for text, index in positions.items() if text not in repeated}


def changed_span(hunks: Iterable[Hunk]) -> tuple[range, range]:
    """Return the ranges from the first to the last difference in both contents, from 0."""
    all_hunks = list(hunks)
    old = [i for h in all_hunks for i in (h.old - bool(h.old_lines), h.old - bool(h.old_lines) + h.old_lines)]
    new = [i for h in all_hunks for i in (h.new - bool(h.new_lines), h.new - bool(h.new_lines) + h.new_lines)]
    return range(min(old, default=0), max(old, default=0)), range(min(new, default=0), max(new, default=0))


def carry_through_hunks(attributions: Sequence[T | None], hunks: Sequence[Hunk], added: T | None) -> list[T | None]:
    """Return the attributions after one step: kept lines keep theirs, added lines get `added`."""
    carried: list[T | None] = []
    position = 0
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        carried += attributions[position:start]
        carried += [added] * hunk.new_lines
        position = start + hunk.old_lines
    return [*carried, *attributions[position:]]


def lines_left_in_place(count: int, hunks: Sequence[Hunk]) -> set[int]:
    kept = set(range(count))
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        kept -= set(range(start, start + hunk.old_lines))
    return kept


def find_equal_blocks(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[EqualBlock]:
    """Return the blocks of `SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()` without the final empty
    block, in any order.

    Each distinct line is mapped to one character, which lets the C code of `str.find` compare.
    """
    characters: dict[Hashable, str] = {}
    first_text = "".join([characters.setdefault(text, chr(len(characters))) for text in a])
    second_text = "".join([characters.setdefault(text, chr(len(characters))) for text in b])
    blocks: list[EqualBlock] = []
    pending = [(0, len(a), 0, len(b))]
    while pending:
        low, high, first, last = pending.pop()
        i, j, size = longest_common_run(first_text[low:high], second_text[first:last])
        i, j = i + low, j + first
        if size:
            blocks.append((i, j, size))
            pending += [(low, i, first, j)] * (low < i and first < j)
            pending += [(i + size, high, j + size, last)] * (i + size < high and j + size < last)
    return blocks


def longest_common_run(a: str, b: str) -> EqualBlock:
    """Return the longest common substring: the first in `a`, at its first place in `b`."""
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
    asked: Collection[int] | None = None,
) -> bool:
    """Return whether a line that the hunks put in (of `asked`, if given) may be one of the `own` lines of `old`, moved
    or reformatted. Indices count from 0.

    Lines are compared without white space. A line without a word counts only beside another equal line.
    """
    numbers = [i for h in hunks for i in range(h.new - 1, h.new - 1 + h.new_lines)] if asked is None else asked
    starts = [hunk.new_range.start for hunk in hunks]
    hunk_by_line = {i: hunk for i in numbers if (hunk := hunk_at(hunks, starts, i))}
    if not hunk_by_line:
        return False
    old_range, _ = changed_span(hunks)
    own_lines = {i for i in own if old_range.start <= i < old_range.stop}
    texts = {strip_whitespace(new[i]) for i in hunk_by_line}
    equal = [i for text in texts for i in positions_of_lines(old).get(text, ()) if i in own_lines]
    if any(WORD.search(old[i]) for i in equal) or (
        equal and not adjacent_pairs(hunk_by_line, new).isdisjoint(adjacent_pairs(equal, old))
    ):
        return True
    own_hunks = (
        h for h in {*hunk_by_line.values()} if not own_lines.isdisjoint(range(h.old - 1, h.old - 1 + h.old_lines))
    )
    return any(is_layout_change(h, old, new) for h in own_hunks)


def hunk_at(hunks: Sequence[Hunk], starts: Sequence[int], index: int) -> Hunk | None:
    position = bisect_right(starts, index + 1)
    return hunks[position - 1] if position and index + 1 in hunks[position - 1].new_range else None


def lines_put_in(new: Sequence[bytes], hunk: Hunk) -> Sequence[bytes]:
    return new[hunk.new - 1 : hunk.new - 1 + hunk.new_lines]


def is_layout_change(hunk: Hunk, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    return equal_but_for_layout(old[hunk.old - 1 : hunk.old - 1 + hunk.old_lines], lines_put_in(new, hunk))


def adjacent_pairs(numbers: Iterable[int], lines: Sequence[bytes]) -> set[tuple[bytes, bytes, int]]:
    pairs = {(strip_whitespace(lines[i - 1]), strip_whitespace(lines[i]), -1) for i in numbers if i}
    return pairs | {
        (strip_whitespace(lines[i]), strip_whitespace(lines[i + 1]), 1) for i in numbers if i + 1 < len(lines)
    }


def equal_but_for_layout(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    return b"".join(old).translate(None, LAYOUT_BYTES) == b"".join(new).translate(None, LAYOUT_BYTES)


class LineMatcher(Struct, dict=True):
    """Test whether single lines may have moved or changed their layout. A False is certain: `find_moved_blocks` and
    `find_reformatted_lines` find no such line. Indices count from 0.
    """

    old: Sequence[bytes]
    new: Sequence[bytes]
    hunks: Sequence[Hunk]
    compared: int = 0
    layout_changes: dict[Hunk, bool] = {}

    @cached_property
    def spans(self) -> tuple[range, range]:
        """The ranges of both contents that differ."""
        return changed_span(self.hunks)

    @cached_property
    def hunk_starts(self) -> list[int]:
        return [hunk.old_range.start for hunk in self.hunks]

    @cached_property
    def added_numbers(self) -> set[int]:
        return set[int]().union(*(range(h.new - 1, h.new - 1 + h.new_lines) for h in self.hunks))

    def removing_hunk(self, origin: int) -> Hunk | None:
        position = bisect_right(self.hunk_starts, origin + 1)
        return self.hunks[position - 1] if position and origin + 1 in self.hunks[position - 1].old_range else None

    def is_layout_hunk(self, hunk: Hunk | None) -> bool:
        if hunk is None or not hunk.old_lines or not hunk.new_lines:
            return False
        if hunk not in self.layout_changes:
            self.layout_changes[hunk] = is_layout_change(hunk, self.old, self.new)
        return self.layout_changes[hunk]

    def may_still_exist(self, origin: int) -> bool:
        if self.is_layout_hunk(self.removing_hunk(origin)):
            return True
        same = positions_of_lines(self.new).get(strip_whitespace(self.old[origin]), ())
        return any(self.is_distinctive_run(origin, to) for to in same if to in self.added_numbers)

    def is_in_layout_hunk(self, to: int) -> bool:
        return to in self.added_numbers and self.is_layout_hunk(next(h for h in self.hunks if to + 1 in h.new_range))

    def possible_origins(self, to: int) -> Iterable[int]:
        """Return the lines of `old` that an inserted line may have been, if its hunk is no layout change."""
        same = positions_of_lines(self.old).get(strip_whitespace(self.new[to]), ())
        return (i for i in same if i in self.spans[0] and self.is_distinctive_run(i, to))

    def is_distinctive_run(self, origin: int, to: int) -> bool:
        """Return whether both lines stand in equal runs that are distinctive, or may be."""
        old_range, new_range = self.spans
        words = 0
        for direction, offset in ((1, 0), (-1, -1)):
            while origin + offset in old_range and to + offset in new_range:
                old_line, new_line = self.old[origin + offset], self.new[to + offset]
                self.compared += 1
                if strip_whitespace(old_line) != strip_whitespace(new_line):
                    break
                if is_distinctive_line(old_line) or is_distinctive_line(new_line) or self.compared > MAX_COMPARED_LINES:
                    return True
                words += has_distinctive_word(old_line) or has_distinctive_word(new_line)
                offset += direction
        return words >= MIN_TELLING_LINES or (words > 0 and len(old_range) == len(new_range))


class IndexedLines(list[bytes]):
    """Lines of one content, indexed once for many comparisons."""

    @cached_property
    def positions(self) -> dict[bytes, list[int]]:
        """Positions by line text without white space."""
        positions: dict[bytes, list[int]] = {}
        for i, text in enumerate(map(strip_whitespace, self)):
            positions.setdefault(text, []).append(i)
        return positions


def positions_of_lines(lines: Sequence[bytes]) -> dict[bytes, list[int]]:
    return (lines if isinstance(lines, IndexedLines) else IndexedLines(lines)).positions


def find_reformatted_lines(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """Return for lines of `new` that only changed their layout the line of `old`.

    Each hunk is matched by itself; all hunks together if that matches more lines than the diff kept: in a reindented
    block a diff pairs one `return` with another.
    """
    origins: dict[int, int] = {}
    for hunk in hunks:
        if hunk.old_lines and hunk.new_lines:
            a, b = hunk.old - 1, hunk.new - 1
            matched = match_but_for_layout(old[a : a + hunk.old_lines], new[b : b + hunk.new_lines])
            origins |= {b + index: a + origin for index, origin in matched.items()}
    old_range, new_range = changed_span(hunks)
    kept_count = len(old_range) - sum(hunk.old_lines for hunk in hunks)
    if len(hunks) < 2 or max(len(old_range), len(new_range)) > MAX_REFORMATTED_LINES:
        return origins
    matched = match_respaced(old[old_range.start : old_range.stop], new[new_range.start : new_range.stop])
    if len(matched) <= kept_count + len(origins):
        return origins
    inserted = {i for hunk in hunks for i in range(hunk.new - 1, hunk.new - 1 + hunk.new_lines)}
    return {
        **{
            new_range.start + index: old_range.start + a
            for index, a in matched.items()
            if new_range.start + index in inserted
        },
        **origins,
    }


def match_but_for_layout(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Return for lines of `new` the line of `old` (from 0): every line if the whole texts agree, else lines that
    differ by white space.
    """
    return match_rewrapped(old, new) or match_respaced(old, new)


def match_respaced(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Match the lines that are equal but for white space, in order. If other lines changed too, common runs are left
    out: a rewrite also ends with a `return None`, indented as needed.
    """
    a, b = list(map(strip_whitespace, old)), list(map(strip_whitespace, new))
    if not any(map(WORD.search, set(a).intersection(b))):
        return {}
    is_convincing = has_worded_line if a == b else is_distinctive
    blocks = (block for block in find_equal_blocks(a, b) if is_convincing(new[block[1] : block[1] + block[2]]))
    return {j + offset: i + offset for i, j, size in blocks for offset in range(size)}


def has_worded_line(lines: Iterable[bytes]) -> bool:
    return any(map(has_distinctive_word, lines))


def match_rewrapped(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Match each line of `new` to the line of its first token if both texts have the same tokens."""
    if not equal_but_for_layout(old, new):
        return {}
    a, b = tokens_with_lines(old), tokens_with_lines(new)
    if not MIN_TOKENS <= len(a) <= MAX_TOKENS or [t for t, _ in a] != [t for t, _ in b]:
        return {}
    origins: dict[int, int] = {}
    for (_, origin), (_, index) in zip(a, b, strict=True):
        origins.setdefault(index, origin)
    return origins


def tokens_with_lines(lines: Sequence[bytes]) -> list[tuple[bytes, int]]:
    """Return the tokens with their line numbers. Quotes are one character; a comma before a closing bracket and a
    backslash at a line's end are layout.
    """
    tokens: list[tuple[bytes, int]] = []
    for number, line in enumerate(lines):
        for token in tokenize(line):
            if tokens and tokens[-1][0] == b"," and token[0] in CLOSING_BRACKETS:
                tokens.pop()
            tokens.append((token, number))
    return tokens


def tokenize(line: bytes) -> list[bytes]:
    tokens: list[bytes] = TOKEN.findall(line.rstrip().removesuffix(b"\\").replace(b"'", b'"'))
    return tokens


def tokens_without_commas(line: bytes) -> list[bytes]:
    """Return the tokens of a line without commas, which a layout may add or remove."""
    return [token for token in tokenize(line) if token != b","]
