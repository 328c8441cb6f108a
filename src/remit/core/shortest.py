"""How one text becomes another with the fewest lines: where several ways are as short, the one that people mean.

The table of longest common subsequences is kept a row at a time, as the bits of one number: 0 where the row grows
(Hyyrö, "Bit-parallel LCS-length computation revisited", 2004). Then runs of lines that came, or went, are slid to where
such a run begins, as git's diff does.
"""

import re
import sys
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

Part: TypeAlias = tuple[int, int, int, int]
"""Where two texts differ: first and end in the old one, first and end in the new one; from 0, half-open."""

CLOSES = re.compile(rb"[\])}]|</|(?:end|fi|done|esac|else|elif|except|catch|finally|rescue|then|do)\b")
"""How a line begins that goes on with what stands above it."""

MOST_PLACES = 100
"""Places that one run may begin at, of those that are compared."""

MOST_EMPTY = 20
"""Empty lines below which a run's first line is looked for."""


def shortest(old: Sequence[bytes], new: Sequence[bytes], most: int = sys.maxsize) -> list[Part] | None:
    """The parts that differ; None where more than `most` lines of both lie from the first to the last difference."""
    start = common(old, new)
    end = common(old[start:][::-1], new[start:][::-1])
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if a and b and max(len(a), len(b)) > most:
        return None
    came, gone = (bytearray(start) + flags + bytes(end) for flags in changed(a, b))
    slide(gone, old, starts(came))
    slide(came, new, starts(gone))
    return list(parts(gone, came))


def common(a: Sequence[object], b: Sequence[object]) -> int:
    """How many lines, or bytes, both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def changed(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[bytearray, bytearray]:
    """For each line of `new` whether it came, and of `old` whether it went: so that the rest is as much as can be."""
    came, gone = bytearray(b"\1") * len(new), bytearray(b"\1") * len(old)
    rows = list(table(old, new)) if {*old}.intersection(new) else []
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


def table(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[int]:
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


def starts(flags: bytearray) -> frozenset[int]:
    """Where runs of changed lines stand: by how many lines before them stay."""
    found: set[int] = set()
    stay = end = 0
    while (start := flags.find(1, end)) >= 0:
        stay += start - end
        found.add(stay)
        end = until(0, flags, start)
    return frozenset(found)


def slide(flags: bytearray, lines: Sequence[bytes], others: frozenset[int]) -> None:
    """Slide each run of changed lines to where one begins, joined with those that it meets; beside one of the other
    text, where it can be.
    """
    end = 0
    while (start := flags.find(1, end)) >= 0:
        start, end, least = widest(flags, lines, start)
        size, before = end - start, start - flags.count(1, 0, start)
        places = range(max(least, start - MOST_PLACES), start + 1)
        best = max(places, key=lambda at: (before - (start - at) in others, *worth(lines, at, size)))
        flags[start:end] = bytes(size)
        flags[best : best + size] = b"\1" * size


def widest(flags: bytearray, lines: Sequence[bytes], start: int) -> tuple[int, int, int]:
    """The run at `start`, slid down as far as it goes, with all that it meets there and above: its first line, its end,
    and the first line that it may begin with.
    """
    size, least, end = 0, start, until(0, flags, start)
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
            start, end = start + 1, until(0, flags, end)
    return start, end, least


def until(flag: int, flags: bytearray, start: int) -> int:
    """The next place of that flag from `start` on, or the end."""
    found = flags.find(flag, start)
    return len(flags) if found < 0 else found


def worth(lines: Sequence[bytes], at: int, size: int) -> tuple[int, bool, bool, int]:
    """How likely so many lines begin at `at`: least indented, with none that closes something, below an empty line; on
    top of all where they end with one. The last of several places that are alike.
    """
    first = next((line for line in lines[at : at + MOST_EMPTY] if line.strip()), b"")
    text = first.lstrip()
    return len(text) - len(first), CLOSES.match(text) is None, not lines[(at or size) - 1].strip(), at


def parts(gone: bytearray, came: bytearray) -> Iterator[Part]:
    """The parts of both texts that changed."""
    i = j = 0
    while (steps := min(until(1, gone, i) - i, until(1, came, j) - j)) >= 0:
        i, j = i + steps, j + steps
        i_end, j_end = until(0, gone, i), until(0, came, j)
        if (i, j) == (i_end, j_end):
            return
        yield i, i_end, j, j_end
        i, j = i_end, j_end
