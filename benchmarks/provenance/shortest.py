"""What each line of a text may have been in an older one, by any shortest diff between them.

The table of longest common subsequences is kept a row at a time, as bits of one number (a 0 where the row grows), and
read only where some shortest diff can pass.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

GROWS = bytes.maketrans(b"01", b"\1\0")

REMEMBERED = 256
"""Pairs of versions whose answer is kept: a history is gone through more than once."""


@lru_cache(REMEMBERED)
def sources(old: tuple[Hashable, ...], new: tuple[Hashable, ...]) -> list[frozenset[int | None]]:
    """For each line of `new`, the lines of `old` that it may be; None where it may be an added one."""
    behind = list(rows(old[::-1], new[::-1]))[::-1]
    best = len(new) - behind[0].bit_count()
    gone, come, size = len(old) - best, len(new) - best, len(new)
    places = by_text(new)
    found: list[set[int | None]] = [set() for _ in new]
    row: list[int] = []
    for i, bits in enumerate(rows(old, new)):
        start, above = max(0, i - 1 - gone), row
        low, high = max(0, i - gone), min(size, i + come)
        rest = lengths(behind[i], size - high, size - low)[::-1]
        if i:
            at = places.get(old[i - 1], ())
            for j in at[bisect_left(at, start) : bisect_left(at, high)]:
                if above[j - start] + 1 + rest[j + 1 - low] == best:
                    found[j].add(i - 1)
        row = lengths(bits, low, high)
        for j in range(low, high):
            if row[j - low] + rest[j + 1 - low] == best:
                found[j].add(None)
    return list(map(frozenset, found))


def rows(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[int]:
    """A row for each beginning of `old`: bit j is 0 where `new[:j + 1]` has one line more in common than `new[:j]`."""
    whole = (1 << len(new)) - 1
    masks = {text: sum(1 << j for j in at) for text, at in by_text(new).items()}
    row = whole
    yield row
    for text in old:
        both = row & masks.get(text, 0)
        row = ((row + both) | (row - both)) & whole
        yield row


def lengths(row: int, low: int, high: int) -> list[int]:
    """The lengths of the longest common subsequences with `new[:low]` to `new[:high]`."""
    first = low - (row & ((1 << low) - 1)).bit_count()
    if low == high:
        return [first]
    bits = f"{(row >> low) & ((1 << (high - low)) - 1):0{high - low}b}"
    return list(accumulate(bits.encode().translate(GROWS)[::-1], initial=first))


def by_text(lines: Iterable[Hashable]) -> dict[Hashable, list[int]]:
    """Where each text stands."""
    found: dict[Hashable, list[int]] = {}
    for n, text in enumerate(lines):
        found.setdefault(text, []).append(n)
    return found
