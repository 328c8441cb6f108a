"""Edit scripts between two contents, for small changes; git compares larger contents.

Among equally short scripts the most natural is chosen: runs of changed lines slide to where a block begins, as in git's
diff.
"""

import re
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

from remit.core.diff.contents import Hunk, LineRange

DiffPart: TypeAlias = tuple[int, int, int, int]
"""A difference: first and end index in the old text, first and end index in the new text; from 0, half-open."""

CLOSING_LINE = re.compile(rb"[\])}]|</|(?:end|fi|done|esac|else|elif|except|catch|finally|rescue|then|do)\b")
"""Start of a line that closes or continues the block above."""

MAX_SLIDE = 100
"""Start positions compared when sliding a run."""

MAX_EMPTY_LINES = 20
"""Empty lines skipped when looking for a run's first text."""


def find_edit_script(old: Sequence[bytes], new: Sequence[bytes], max_lines: int = sys.maxsize) -> list[DiffPart] | None:
    """Return the differing parts of two texts; None if their differing middle exceeds `max_lines`."""
    start = count_common_prefix(old, new)
    end = count_common_prefix(old[start:][::-1], new[start:][::-1])
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if a and b and max(len(a), len(b)) > max_lines:
        return None
    added, removed = (bytearray(start) + flags + bytes(end) for flags in mark_changes(a, b))
    slide_runs(removed, old, find_run_positions(added))
    slide_runs(added, new, find_run_positions(removed))
    return list(list_parts(removed, added))


def count_common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def mark_changes(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[bytearray, bytearray]:
    """Return flags for the new and for the old lines: 1 if changed, keeping as many lines as possible."""
    added, removed = bytearray(b"\1") * len(new), bytearray(b"\1") * len(old)
    rows = list(build_lcs_rows(old, new)) if {*old}.intersection(new) else []
    i, j = len(old), len(new)
    while rows and i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1
            continue
        i -= 1
        if rows[i] >> (j - 1) & 1:
            j -= 1
            added[j] = removed[i] = 0
    return added, removed


def build_lcs_rows(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[int]:
    """Yield a row per prefix of `old`: bit j is 0 if `new[:j + 1]` shares a line more than `new[:j]`.

    Each row of the longest-common-subsequence table is the bits of a number (Hyyrö, "Bit-parallel LCS-length
    computation revisited", 2004).
    """
    whole = (1 << len(new)) - 1
    masks: dict[Hashable, int] = {}
    for j, line in enumerate(new):
        masks[line] = masks.get(line, 0) | 1 << j
    row = whole
    yield row
    for line in old:
        matches = row & masks.get(line, 0)
        row = (row + matches | row - matches) & whole
        yield row


def find_run_positions(flags: bytearray) -> frozenset[int]:
    """Return the start of each run of changed lines, as the number of unchanged lines before the run."""
    positions: set[int] = set()
    unchanged = end = 0
    while (start := flags.find(1, end)) >= 0:
        unchanged += start - end
        positions.add(unchanged)
        end = find_flag(0, flags, start)
    return frozenset(positions)


def slide_runs(flags: bytearray, lines: Sequence[bytes], opposite_runs: frozenset[int]) -> None:
    """Move each run of changed lines to its most natural start, merging runs that touch.

    Positions beside a run of the opposite text (`others`) are preferred.
    """
    end = 0
    while (start := flags.find(1, end)) >= 0:
        start, end, first_start = widen_run(flags, lines, start)
        size, unchanged_before = end - start, start - flags.count(1, 0, start)
        places = range(max(first_start, start - MAX_SLIDE), start + 1)
        best = max(
            places, key=lambda at: (unchanged_before - (start - at) in opposite_runs, *rate_start(lines, at, size))
        )
        flags[start:end] = bytes(size)
        flags[best : best + size] = b"\1" * size


def widen_run(flags: bytearray, lines: Sequence[bytes], start: int) -> tuple[int, int, int]:
    """Slide the run at `start` down as far as possible, merging runs on the way; return start, end and first possible
    start.
    """
    size, first_start, end = 0, start, find_flag(0, flags, start)
    while size < end - start:
        size = end - start
        while start and (flags[start - 1] or lines[start - 1] == lines[end - 1]):
            start -= 1
            if not flags[start]:
                end -= 1
                flags[start], flags[end] = 1, 0
        first_start = start
        while end < len(lines) and lines[start] == lines[end]:
            flags[start], flags[end] = 0, 1
            start, end = start + 1, find_flag(0, flags, end)
    return start, end, first_start


def find_flag(flag: int, flags: bytearray, start: int) -> int:
    position = flags.find(flag, start)
    return len(flags) if position < 0 else position


def rate_start(lines: Sequence[bytes], at: int, size: int) -> tuple[int, bool, bool, int]:
    """Rate a run of `size` lines at `at`: least indented, not closing a block, below an empty line; later positions win
    ties.
    """
    first = next((line for line in lines[at : at + MAX_EMPTY_LINES] if line.strip()), b"")
    text = first.lstrip()
    return len(text) - len(first), CLOSING_LINE.match(text) is None, not lines[(at or size) - 1].strip(), at


def list_parts(removed: bytearray, added: bytearray) -> Iterator[DiffPart]:
    i = j = 0
    while (steps := min(find_flag(1, removed, i) - i, find_flag(1, added, j) - j)) >= 0:
        i, j = i + steps, j + steps
        i_end, j_end = find_flag(0, removed, i), find_flag(0, added, j)
        if (i, j) == (i_end, j_end):
            return
        yield i, i_end, j, j_end
        i, j = i_end, j_end


MAX_DIFF_LINES = 1000
"""Lines of the differing part, on the longer side. Beyond this size git is faster and better."""


def split_lines(content: bytes) -> list[bytes]:
    """Split lines without newlines. A last line that gains its newline is unchanged: nobody rewrote the line."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def diff_small(old: bytes, new: bytes) -> tuple[Hunk, ...] | None:
    """Return the hunks between two contents; None if too large."""
    parts = find_edit_script(split_lines(old), split_lines(new), MAX_DIFF_LINES)
    return None if parts is None else tuple(make_hunk(*part) for part in parts)


def diff_at_lines(old: bytes, new: bytes, added_ranges: Sequence[LineRange]) -> tuple[Hunk, ...] | None:
    """Return the hunks with known added lines: a plain diff may confuse a copy with its original.

    None if `old` plus these lines cannot give `new`, or if too large.
    """
    a, b = split_lines(old), split_lines(new)
    added = {number - 1 for span in added_ranges for number in range(span.start, span.end + 1)}
    kept_indices = [index for index in range(len(b)) if index not in added]
    if len(kept_indices) > len(a) or len(kept_indices) + len(added) != len(b):
        return None
    kept_lines = [b[index] for index in kept_indices]
    start = count_common_prefix(a, kept_lines)
    end = count_common_prefix(a[start:][::-1], kept_lines[start:][::-1])
    origins = [*range(start), *range(len(a) - end, len(a))] if start + end == len(kept_lines) else None
    if origins is None:
        origins = find_subsequence(a, kept_lines)
    return None if origins is None else make_hunks(len(a), len(b), dict(zip(kept_indices, origins, strict=True)))


def diff_by_origins(old: bytes, new: bytes, origins: Mapping[int, int]) -> tuple[Hunk, ...] | None:
    """Return the hunks with known kept lines: `origins` maps new to old indices. Lines re-inserted in place are kept
    too.

    None if too large.
    """
    a, b = split_lines(old), split_lines(new)
    same = {to: origin for to, origin in origins.items() if to < len(b) and origin < len(a) and a[origin] == b[to]}
    hunks: list[Hunk] = []
    for rough in make_hunks(len(a), len(b), same):
        removed, added = rough.old_range, rough.new_range
        parts = find_edit_script(
            a[removed.start - 1 : removed.stop - 1], b[added.start - 1 : added.stop - 1], MAX_DIFF_LINES
        )
        if parts is None:
            return None
        at, to = removed.start - 1, added.start - 1
        hunks += (make_hunk(at + i, at + i_end, to + j, to + j_end) for i, i_end, j, j_end in parts)
    return tuple(hunks)


def find_subsequence(a: Sequence[bytes], wanted_lines: Sequence[bytes]) -> list[int] | None:
    """Return the indices in `a` of the lines of `rest`, in order; None if missing."""
    indices: list[int] = []
    at = 0
    for line in wanted_lines:
        while at < len(a) and a[at] != line:
            at += 1
        if at == len(a):
            return None
        indices.append(at)
        at += 1
    return indices


def make_hunks(old_lines: int, new_lines: int, origins: dict[int, int]) -> tuple[Hunk, ...]:
    """Return the hunks that keep exactly these lines: `origins` maps new to old indices."""
    hunks: list[Hunk] = []
    a = b = 0
    for to, origin in [*sorted(origins.items()), (new_lines, old_lines)]:
        if to > b or origin > a:
            hunks.append(make_hunk(a, origin, b, to))
        a, b = origin + 1, to + 1
    return tuple(hunks)


def make_hunk(a: int, a_end: int, b: int, b_end: int) -> Hunk:
    """Return a hunk of half-open index ranges; an empty side names the line before."""
    old, new = a_end - a, b_end - b
    return Hunk(a + bool(old), old, b + bool(new), new)
