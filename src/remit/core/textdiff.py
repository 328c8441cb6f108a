"""Which lines of a content are new, for small changes. Larger ones are git's to tell."""

from difflib import SequenceMatcher

from remit.core.contents import LineRange

MOST_LINES = 200
"""Lines of the part that differs, on the longer side. Beyond that git is both quicker and better."""


def added_lines(old: bytes, new: bytes) -> tuple[LineRange, ...] | None:
    """The lines of `new` that `old` has not; None where the change is too large to tell cheaply."""
    a, b = old.split(b"\n"), new.split(b"\n")
    start = common(a, b)
    end = common(a[start:][::-1], b[start:][::-1])
    a, b = a[start : len(a) - end], b[start : len(b) - end]
    if max(len(a), len(b)) > MOST_LINES and a and b:
        return None
    last = new.count(b"\n") + (not new.endswith(b"\n"))
    blocks = [(0, len(b))] if not a else changed(a, b)
    ranges = (LineRange(start + low + 1, min(start + high, last)) for low, high in blocks if high > low)
    return tuple(r for r in ranges if r.start <= r.end)


def changed(a: list[bytes], b: list[bytes]) -> list[tuple[int, int]]:
    """The parts of `b` that do not stand in `a`, as half-open index ranges."""
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return [(low, high) for tag, _, _, low, high in matcher.get_opcodes() if tag in ("insert", "replace")]


def common(a: list[bytes], b: list[bytes]) -> int:
    """How many lines both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
