"""How two contents differ, for small changes. Larger ones are git's to tell."""

from collections.abc import Mapping, Sequence

from remit.core.contents import Hunk, LineRange
from remit.core.shortest import common, shortest

MOST_LINES = 1000
"""Lines of the part that differs, on the longer side. Beyond that git is both quicker and better."""


def lines_of(content: bytes) -> list[bytes]:
    """The lines without their newlines. A last line that gets its newline is the same line: nobody wrote it anew."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def small_hunks(old: bytes, new: bytes) -> tuple[Hunk, ...] | None:
    """The differences, as a diff without context tells them; None where they are too large to tell cheaply."""
    found = shortest(lines_of(old), lines_of(new), MOST_LINES)
    return None if found is None else tuple(hunk(*part) for part in found)


def hunks_at(old: bytes, new: bytes, told: Sequence[LineRange]) -> tuple[Hunk, ...] | None:
    """The differences, where it is known which lines of `new` are new: a diff alone may take a copy for the original.

    None where `old` cannot have become `new` by putting just these lines there, or where that is too large to tell.
    """
    a, b = lines_of(old), lines_of(new)
    fresh = {number - 1 for span in told for number in range(span.start, span.end + 1)}
    kept = [index for index in range(len(b)) if index not in fresh]
    if len(kept) > len(a) or len(kept) + len(fresh) != len(b):
        return None
    rest = [b[index] for index in kept]
    start = common(a, rest)
    end = common(a[start:][::-1], rest[start:][::-1])
    origins = [*range(start), *range(len(a) - end, len(a))] if start + end == len(rest) else None
    if origins is None:
        origins = subsequence(a, rest)
    return None if origins is None else hunks_between(len(a), len(b), dict(zip(kept, origins, strict=True)))


def hunks_by(old: bytes, new: bytes, origins: Mapping[int, int]) -> tuple[Hunk, ...] | None:
    """The differences, where it is known which lines stay: `origins` maps an index in `new` to its index in `old`. What
    was taken out and put in again in its place stays, too. None where that is too large to tell cheaply.
    """
    a, b = lines_of(old), lines_of(new)
    same = {to: origin for to, origin in origins.items() if to < len(b) and origin < len(a) and a[origin] == b[to]}
    found: list[Hunk] = []
    for rough in hunks_between(len(a), len(b), same):
        gone, came = rough.gone, rough.came
        parts = shortest(a[gone.start - 1 : gone.stop - 1], b[came.start - 1 : came.stop - 1], MOST_LINES)
        if parts is None:
            return None
        at, to = gone.start - 1, came.start - 1
        found += (hunk(at + i, at + i_end, to + j, to + j_end) for i, i_end, j, j_end in parts)
    return tuple(found)


def subsequence(a: Sequence[bytes], rest: Sequence[bytes]) -> list[int] | None:
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


def hunks_between(old_lines: int, new_lines: int, origins: dict[int, int]) -> tuple[Hunk, ...]:
    """The hunks that leave just these lines: `origins` maps an index in the new content to its index in the old."""
    found: list[Hunk] = []
    a = b = 0
    for to, origin in [*sorted(origins.items()), (new_lines, old_lines)]:
        if to > b or origin > a:
            found.append(hunk(a, origin, b, to))
        a, b = origin + 1, to + 1
    return tuple(found)


def hunk(a: int, a_end: int, b: int, b_end: int) -> Hunk:
    """A hunk of half-open index ranges; where nothing was, or is, the line before is named."""
    old, new = a_end - a, b_end - b
    return Hunk(a + bool(old), old, b + bool(new), new)
