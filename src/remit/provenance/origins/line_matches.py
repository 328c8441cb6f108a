"""Matches between the lines of two contents: equal blocks, moved blocks and reformatted lines."""

import operator
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from remit.core.diff.contents import Hunk, has_distinctive_word, is_distinctive_line
from remit.provenance.origins.evidence_grades import is_distinctive, strip_whitespace

T = TypeVar("T")
EqualBlock = tuple[int, int, int]  # starts of an equal run in both contents, and its length
WORD = re.compile(rb"\w")
LAYOUT_BYTES = b" \t\n\r\x0b\x0c,'\"\\"  # bytes that may differ between two layouts of one text
TOKEN = re.compile(rb"\w+|[^\w\s]")
MAX_TOKENS = 20_000
MIN_TOKENS = 4  # tokens of a rewrapped hunk; fewer tokens are not distinctive
MIN_STEP = 8  # below, a comparison at each start is quicker
MAX_REFORMATTED_LINES = 2_000  # lines of the differing part that are compared as a whole
CLOSING_BRACKETS = (b")", b"]", b"}")


def find_moved_blocks(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """Return for inserted lines of `new` the removed line of `old`; indices from 0. A block is recognised by a
    distinctive line removed once and inserted once; equal neighbours follow. White space is ignored.
    """
    removed = {n - 1: strip_whitespace(old[n - 1]) for h in hunks for n in h.old_range}
    inserted = {n - 1: strip_whitespace(new[n - 1]) for h in hunks for n in h.new_range}
    removed_once, inserted_once = unique_positions(removed), unique_positions(inserted)
    origins: dict[int, int] = {}
    for text in removed_once.keys() & inserted_once.keys():
        origin, index = removed_once[text], inserted_once[text]
        if index in origins or not is_distinctive_line(old[origin]):
            continue
        origins[index] = origin
        for direction in (1, -1):
            offset = direction
            while origin + offset in removed and removed[origin + offset] == inserted.get(index + offset):
                origins[index + offset] = origin + offset
                offset += direction
    return origins


def unique_positions(texts: dict[int, bytes]) -> dict[bytes, int]:
    counts = Counter(texts.values())
    return {text: index for index, text in texts.items() if counts[text] == 1}


def changed_span(hunks: Iterable[Hunk]) -> tuple[range, range]:
    """Return the ranges from the first to the last difference in both contents, from 0."""
    ranges = [(h.old_range, h.new_range) for h in hunks]
    old = [i - 1 for a, _ in ranges for i in (a.start, a.stop)]
    new = [i - 1 for _, b in ranges for i in (b.start, b.stop)]
    return range(min(old, default=0), max(old, default=0)), range(min(new, default=0), max(new, default=0))


def carry_through_hunks(attributions: Sequence[T | None], hunks: Sequence[Hunk], added: T | None) -> list[T | None]:
    """Return the attributions after one step: kept lines keep theirs, added lines get `added`."""
    carried: list[T | None] = []
    position = 0
    for hunk in hunks:
        start = hunk.old_range.start - 1
        carried += attributions[position:start]
        carried += [added] * hunk.new_lines
        position = start + hunk.old_lines
    return [*carried, *attributions[position:]]


def find_equal_blocks(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[EqualBlock]:
    """Return the blocks of `SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()` without the final empty
    block, in any order. Each distinct line is mapped to one character, which lets the C code of `str.find` compare.
    """
    characters: dict[Hashable, str] = {}
    text_a, text_b = ("".join([characters.setdefault(x, chr(len(characters))) for x in texts]) for texts in (a, b))
    blocks: list[EqualBlock] = []
    pending = [(0, len(a), 0, len(b))]
    while pending:
        low, high, first, last = pending.pop()
        i, j, size = longest_common_run(text_a[low:high], text_b[first:last])
        if size:
            i, j = i + low, j + first
            blocks.append((i, j, size))
            pending += [(low, i, first, j)] * (low < i and first < j)
            pending += [(i + size, high, j + size, last)] * (i + size < high and j + size < last)
    return blocks


def longest_common_run(a: str, b: str) -> EqualBlock:
    start, size = find_long_common_run(a, b) or find_short_common_run(a, b)
    return start, b.find(a[start : start + size]), size


def find_long_common_run(a: str, b: str) -> tuple[int, int] | None:
    """Return the start in `a` and the length of the longest common substring; None if the substring is short.

    A common run of `2 * step - 1` characters holds a piece of `a` of length `step`, beginning at a multiple of `step`.
    Only such pieces are looked up, in smaller and smaller steps.
    """
    backwards_a, backwards_b = a[::-1], b[::-1]
    step = min(len(a), len(b))
    while step >= MIN_STEP:
        best, size = 0, 0
        for start in range(0, len(a) - step + 1, step):
            place = b.find(a[start : start + step])
            while place >= 0:
                before = common_prefix_size(backwards_a, len(a) - start, backwards_b, len(b) - place)
                run = before + common_prefix_size(a, start, b, place)
                best, size = max((best, size), (start - before, run), key=lambda found: (found[1], -found[0]))
                place = b.find(a[start : start + step], place + 1)
        if size >= 2 * step - 1:
            return best, size
        step //= 2
    return None


def common_prefix_size(a: str, i: int, b: str, j: int) -> int:
    size, step, most = 0, 8, min(len(a) - i, len(b) - j)
    while size < most and step:
        step = min(step, most - size)
        if a.startswith(b[j + size : j + size + step], i + size):
            size, step = size + step, step * 2
        else:
            step //= 2
    return size


def find_short_common_run(a: str, b: str) -> tuple[int, int]:
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
    return best, size


def may_be_moved_lines(own: Iterable[int], old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> bool:
    """Return whether an inserted line may be an `own` line of `old`, moved or reformatted. Indices count from 0. Lines
    are compared without white space. A line without a word counts only beside a second equal line.
    """
    inserted = {n - 1 for hunk in hunks for n in hunk.new_range}
    texts, (old_range, _) = {strip_whitespace(new[i]) for i in inserted}, changed_span(hunks)
    own_lines = {i for i in own if i in old_range}
    equal = [i for i in own_lines if strip_whitespace(old[i]) in texts]
    if any(WORD.search(old[i]) for i in equal):
        return True
    if equal and not adjacent_pairs(inserted, new).isdisjoint(adjacent_pairs(equal, old)):
        return True
    rewritten = (h for h in hunks if h.new_lines and any(n - 1 in own_lines for n in h.old_range))
    return any(is_layout_change(h, old, new) for h in rewritten)


def is_layout_change(hunk: Hunk, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    return equal_but_for_layout(*lines_of_hunk(hunk, old, new))


def lines_of_hunk(hunk: Hunk, old: Sequence[bytes], new: Sequence[bytes]) -> tuple[Sequence[bytes], Sequence[bytes]]:
    a, b = hunk.old_range, hunk.new_range
    return old[a.start - 1 : a.stop - 1], new[b.start - 1 : b.stop - 1]


def adjacent_pairs(numbers: Iterable[int], lines: Sequence[bytes]) -> set[tuple[bytes, bytes, int]]:
    neighbours = [(i, i + step, step) for i in numbers for step in (-1, 1) if 0 <= i + step < len(lines)]
    return {(strip_whitespace(lines[i]), strip_whitespace(lines[n]), step) for i, n, step in neighbours}


def equal_but_for_layout(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    return b"".join(old).translate(None, LAYOUT_BYTES) == b"".join(new).translate(None, LAYOUT_BYTES)


def find_reformatted_lines(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """Return for lines of `new` with only a changed layout the line of `old`. Each hunk is matched by itself; the hunks
    together if they match more lines than the diff kept: in a reindented block a diff pairs unrelated `return` lines.
    If the lines are equal but for white space, lines at the same place match.
    """
    if is_respaced(old, new):
        return {n - 1: n - 1 for hunk in hunks for n in hunk.new_range}
    origins: dict[int, int] = {}
    for hunk in hunks:
        if hunk.old_lines and hunk.new_lines:
            matched = match_but_for_layout(*lines_of_hunk(hunk, old, new))
            origins |= {hunk.new - 1 + index: hunk.old - 1 + origin for index, origin in matched.items()}
    old_range, new_range = changed_span(hunks)
    if len(hunks) < 2 or max(len(old_range), len(new_range)) > MAX_REFORMATTED_LINES:
        return origins
    # Together they match at most the kept lines and the removed lines that were inserted again.
    removed = Counter(strip_whitespace(old[n - 1]) for hunk in hunks for n in hunk.old_range)
    inserted = Counter(strip_whitespace(new[n - 1]) for hunk in hunks for n in hunk.new_range)
    if (removed & inserted).total() <= len(origins):
        return origins
    kept_count = len(old_range) - sum(hunk.old_lines for hunk in hunks)
    matched = match_respaced(old[old_range.start : old_range.stop], new[new_range.start : new_range.stop])
    if len(matched) <= kept_count + len(origins):
        return origins
    inserted_lines = {n - 1 for hunk in hunks for n in hunk.new_range}
    whole = {new_range.start + index: old_range.start + origin for index, origin in matched.items()}
    return {**{index: origin for index, origin in whole.items() if index in inserted_lines}, **origins}


def is_respaced(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Return whether two contents differ, and only by white space within their lines."""
    return (
        len(old) == len(new) and old != new and all(map(operator.eq, *(map(strip_whitespace, t) for t in (old, new))))
    )


def match_but_for_layout(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Return for lines of `new` the line of `old`, from 0: every line, or those that differ by white space."""
    return match_rewrapped(old, new) or match_respaced(old, new)


def match_respaced(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Match the lines that are equal but for white space, in order. If other lines changed too, common runs are left
    out: a rewrite also ends with a `return None`, indented as needed.
    """
    a, b = list(map(strip_whitespace, old)), list(map(strip_whitespace, new))
    if not any(map(WORD.search, set(a).intersection(b))):
        return {}
    blocks = find_equal_blocks(a, b)
    if a != b:
        blocks = [block for block in blocks if is_distinctive(new[block[1] : block[1] + block[2]])]
    elif not any(map(has_distinctive_word, new)):
        return {}
    return {j + offset: i + offset for i, j, size in blocks for offset in range(size)}


def match_rewrapped(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
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
    tokens: list[tuple[bytes, int]] = []
    for number, line in enumerate(lines):
        for token in tokenize(line):
            if tokens and tokens[-1][0] == b"," and token in CLOSING_BRACKETS:
                tokens.pop()
            tokens.append((token, number))
    return tokens


def tokenize(line: bytes) -> list[bytes]:
    tokens: list[bytes] = TOKEN.findall(line.rstrip().removesuffix(b"\\").replace(b"'", b'"'))
    return tokens


def tokens_without_commas(line: bytes) -> list[bytes]:
    """Return the tokens of a line without commas, which a layout may add or remove."""
    return [token for token in tokenize(line) if token != b","]
