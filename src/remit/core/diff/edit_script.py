"""How two contents differ, for small changes. Larger ones are git's to tell.

How one text becomes another with the fewest lines: where several ways are as short, the one that people mean.

The table of longest common subsequences is kept a row at a time, as the bits of one number: 0 where the row grows
(Hyyrö, "Bit-parallel LCS-length computation revisited", 2004). Then runs of lines that came, or went, are slid to where
such a run begins, as git's diff does.
"""

import re
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

from remit.core.diff.contents import Hunk, LineRange

DiffPart: TypeAlias = tuple[int, int, int, int]
"""Where two texts differ: first and end in the old one, first and end in the new one; from 0, half-open."""

CLOSING_LINE = re.compile(rb"[\])}]|</|(?:end|fi|done|esac|else|elif|except|catch|finally|rescue|then|do)\b")
"""How a line begins that goes on with what stands above it."""

MAX_SLIDE = 100
"""Places that one run may begin at, of those that are compared."""

MAX_EMPTY_LINES = 20
"""Empty lines below which a run's first line is looked for."""


def find_edit_script(old: Sequence[bytes], new: Sequence[bytes], max_lines: int = sys.maxsize) -> list[DiffPart] | None:
    """The parts that differ; None where more than `most` lines of both lie from the first to the last difference."""
    start = count_common_prefix(old, new)
    end = count_common_prefix(old[start:][::-1], new[start:][::-1])
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if a and b and max(len(a), len(b)) > max_lines:
        return None
    came, gone = (bytearray(start) + flags + bytes(end) for flags in mark_changes(a, b))
    slide_runs(gone, old, find_run_positions(came))
    slide_runs(came, new, find_run_positions(gone))
    return list(list_parts(gone, came))


def count_common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    """How many lines, or bytes, both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def mark_changes(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[bytearray, bytearray]:
    """For each line of `new` whether it came, and of `old` whether it went: so that the rest is as much as can be."""
    came, gone = bytearray(b"\1") * len(new), bytearray(b"\1") * len(old)
    rows = list(build_lcs_rows(old, new)) if {*old}.intersection(new) else []
    i, j = len(old), len(new)
    while rows and i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1
            continue
        i -= 1
        if rows[i] >> (j - 1) & 1:
            j -= 1
            came[j] = gone[i] = 0
    return came, gone


def build_lcs_rows(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[int]:
    """A row for each beginning of `old`: bit j is 0 where `new[:j + 1]` has one line more in common than `new[:j]`."""
    whole = (1 << len(new)) - 1
    masks: dict[Hashable, int] = {}
    for j, line in enumerate(new):
        masks[line] = masks.get(line, 0) | 1 << j
    row = whole
    yield row
    for line in old:
        both = row & masks.get(line, 0)
        row = (row + both | row - both) & whole
        yield row


def find_run_positions(flags: bytearray) -> frozenset[int]:
    """Where runs of changed lines stand: by how many lines before them stay."""
    found: set[int] = set()
    stay = end = 0
    while (start := flags.find(1, end)) >= 0:
        stay += start - end
        found.add(stay)
        end = find_flag(0, flags, start)
    return frozenset(found)


def slide_runs(flags: bytearray, lines: Sequence[bytes], others: frozenset[int]) -> None:
    """Slide each run of changed lines to where one begins, joined with those that it meets; beside one of the other
    text, where it can be.
    """
    end = 0
    while (start := flags.find(1, end)) >= 0:
        start, end, least = widen_run(flags, lines, start)
        size, before = end - start, start - flags.count(1, 0, start)
        places = range(max(least, start - MAX_SLIDE), start + 1)
        best = max(places, key=lambda at: (before - (start - at) in others, *rate_start(lines, at, size)))
        flags[start:end] = bytes(size)
        flags[best : best + size] = b"\1" * size


def widen_run(flags: bytearray, lines: Sequence[bytes], start: int) -> tuple[int, int, int]:
    """The run at `start`, slid down as far as it goes, with all that it meets there and above: its first line, its end,
    and the first line that it may begin with.
    """
    size, least, end = 0, start, find_flag(0, flags, start)
    while size < end - start:
        size = end - start
        while start and (flags[start - 1] or lines[start - 1] == lines[end - 1]):
            start -= 1
            if not flags[start]:
                end -= 1
                flags[start], flags[end] = 1, 0
        least = start
        while end < len(lines) and lines[start] == lines[end]:
            flags[start], flags[end] = 0, 1
            start, end = start + 1, find_flag(0, flags, end)
    return start, end, least


def find_flag(flag: int, flags: bytearray, start: int) -> int:
    """The next place of that flag from `start` on, or the end."""
    found = flags.find(flag, start)
    return len(flags) if found < 0 else found


def rate_start(lines: Sequence[bytes], at: int, size: int) -> tuple[int, bool, bool, int]:
    """How likely so many lines begin at `at`: least indented, with none that closes something, below an empty line; on
    top of all where they end with one. The last of several places that are alike.
    """
    first = next((line for line in lines[at : at + MAX_EMPTY_LINES] if line.strip()), b"")
    text = first.lstrip()
    return len(text) - len(first), CLOSING_LINE.match(text) is None, not lines[(at or size) - 1].strip(), at


def list_parts(gone: bytearray, came: bytearray) -> Iterator[DiffPart]:
    """The parts of both texts that changed."""
    i = j = 0
    while (steps := min(find_flag(1, gone, i) - i, find_flag(1, came, j) - j)) >= 0:
        i, j = i + steps, j + steps
        i_end, j_end = find_flag(0, gone, i), find_flag(0, came, j)
        if (i, j) == (i_end, j_end):
            return
        yield i, i_end, j, j_end
        i, j = i_end, j_end


MAX_DIFF_LINES = 1000
"""Lines of the part that differs, on the longer side. Beyond that git is both quicker and better."""


def split_lines(content: bytes) -> list[bytes]:
    """The lines without their newlines. A last line that gets its newline is the same line: nobody wrote it anew."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def diff_small(old: bytes, new: bytes) -> tuple[Hunk, ...] | None:
    """The differences, as a diff without context tells them; None where they are too large to tell cheaply."""
    found = find_edit_script(split_lines(old), split_lines(new), MAX_DIFF_LINES)
    return None if found is None else tuple(make_hunk(*part) for part in found)


def diff_at_lines(old: bytes, new: bytes, added_ranges: Sequence[LineRange]) -> tuple[Hunk, ...] | None:
    """The differences, where it is known which lines of `new` are new: a diff alone may take a copy for the original.

    None where `old` cannot have become `new` by putting just these lines there, or where that is too large to tell.
    """
    a, b = split_lines(old), split_lines(new)
    fresh = {number - 1 for span in added_ranges for number in range(span.start, span.end + 1)}
    kept = [index for index in range(len(b)) if index not in fresh]
    if len(kept) > len(a) or len(kept) + len(fresh) != len(b):
        return None
    rest = [b[index] for index in kept]
    start = count_common_prefix(a, rest)
    end = count_common_prefix(a[start:][::-1], rest[start:][::-1])
    origins = [*range(start), *range(len(a) - end, len(a))] if start + end == len(rest) else None
    if origins is None:
        origins = find_subsequence(a, rest)
    return None if origins is None else make_hunks(len(a), len(b), dict(zip(kept, origins, strict=True)))


def diff_by_origins(old: bytes, new: bytes, origins: Mapping[int, int]) -> tuple[Hunk, ...] | None:
    """The differences, where it is known which lines stay: `origins` maps an index in `new` to its index in `old`. What
    was taken out and put in again in its place stays, too. None where that is too large to tell cheaply.
    """
    a, b = split_lines(old), split_lines(new)
    same = {to: origin for to, origin in origins.items() if to < len(b) and origin < len(a) and a[origin] == b[to]}
    found: list[Hunk] = []
    for rough in make_hunks(len(a), len(b), same):
        gone, came = rough.old_range, rough.new_range
        parts = find_edit_script(a[gone.start - 1 : gone.stop - 1], b[came.start - 1 : came.stop - 1], MAX_DIFF_LINES)
        if parts is None:
            return None
        at, to = gone.start - 1, came.start - 1
        found += (make_hunk(at + i, at + i_end, to + j, to + j_end) for i, i_end, j, j_end in parts)
    return tuple(found)


def find_subsequence(a: Sequence[bytes], rest: Sequence[bytes]) -> list[int] | None:
    """The places in `a` of the lines of `rest`, in order; None where they do not all stand there."""
    found: list[int] = []
    at = 0
    for line in rest:
        while at < len(a) and a[at] != line:
            at += 1
        if at == len(a):
            return None
        found.append(at)
        at += 1
    return found


def make_hunks(old_lines: int, new_lines: int, origins: dict[int, int]) -> tuple[Hunk, ...]:
    """The hunks that leave just these lines: `origins` maps an index in the new content to its index in the old."""
    found: list[Hunk] = []
    a = b = 0
    for to, origin in [*sorted(origins.items()), (new_lines, old_lines)]:
        if to > b or origin > a:
            found.append(make_hunk(a, origin, b, to))
        a, b = origin + 1, to + 1
    return tuple(found)


def make_hunk(a: int, a_end: int, b: int, b_end: int) -> Hunk:
    """A hunk of half-open index ranges; where nothing was, or is, the line before is named."""
    old, new = a_end - a, b_end - b
    return Hunk(a + bool(old), old, b + bool(new), new)
