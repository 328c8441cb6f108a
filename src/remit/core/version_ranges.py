"""Ranges of versions, as the manifests of Python, JavaScript, Rust and Go write them, and whether one lies in another.

A version is a point; a range is made of pieces between cuts just before or just after a point. Sources: the Python
packaging specifications (version specifiers), node-semver's README, the Cargo book on dependencies, read 2026-11.
"""

import re
from typing import Literal, TypeAlias

from msgspec import Struct

Dialect: TypeAlias = Literal["python", "npm", "cargo", "go", "any"]
Key: TypeAlias = tuple[tuple[int, ...], int, str]
"""Release numbers without zeros at the end; 0 for a pre-release and 1 for none, and the pre-release's own words."""

Cut: TypeAlias = tuple[Key, int]
"""Before (0) or after (1) that version."""

VERSION = re.compile(
    r"[v=]?\s*(\d{1,9}(?:\.\d{1,9}){0,5})((?:[-.]?(?:a|b|c|rc|alpha|beta|pre|dev)|-)[\w.-]*)?(?:\+[\w.-]*)?\Z"
)
PIECE = re.compile(r"\s*(===|~=|==|!=|>=|<=|~>|\^|~|>|<|=)?\s*([^\s,|<>=!~^]+)\s*,?")
HYPHEN = re.compile(r"\s*([^\s,|]+)\s+-\s+([^\s,|]+)\s*\Z")
LOWEST: Cut = (((), 0, ""), 0)
HIGHEST: Cut = (((10**12,), 1, ""), 1)


class BadRange(ValueError):
    """The text is no range of versions. The message is a clause about it."""


class Range(Struct, frozen=True):
    """Versions between cuts, the pieces in order and apart."""

    pieces: tuple[tuple[Cut, Cut], ...]

    def within(self, other: "Range") -> bool:
        """Whether every version of this one is one of the other."""
        return intersection(self, other).pieces == self.pieces


ALL = Range(((LOWEST, HIGHEST),))


def intersection(one: Range, other: Range) -> Range:
    """The versions that are in both."""
    found = [(max(a, c), min(b, d)) for a, b in one.pieces for c, d in other.pieces]
    return Range(tuple(sorted((low, high) for low, high in found if low < high)))


def union(ranges: list[Range]) -> Range:
    """The versions that are in any."""
    joined: list[tuple[Cut, Cut]] = []
    for low, high in sorted(piece for one in ranges for piece in one.pieces):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return Range(tuple(joined))


def wanted_range(text: str) -> Range:
    """The range of a constraint: comparisons joined by commas or spaces, `^`, `~`, `1.2.*`, `||`. Raises BadRange."""
    return range_of(text, "any")


def range_of(text: str, dialect: Dialect) -> Range:
    """The versions that a manifest's requirement takes. Raises BadRange."""
    clean = text.strip()
    if len(clean) > 500:
        raise BadRange(f"has {len(clean)} characters; expected at most 500")
    if clean in ("", "*", "x"):
        return ALL
    return union([alternative(part, dialect) for part in clean.split("||")])


def alternative(text: str, dialect: Dialect) -> Range:
    """Comparisons that all have to hold."""
    if between := HYPHEN.match(text):
        return intersection(compared(">=", between[1], dialect), compared("<=", between[2], dialect))
    found, at = ALL, 0
    while at < len(text.rstrip()):
        piece = PIECE.match(text, at)
        if piece is None:
            raise BadRange(f"{text.strip()[:80]!r} is no range of versions; expected one like >=2.1,<3")
        found = intersection(found, compared(piece[1] or "", piece[2], dialect))
        at = piece.end()
    return found


def compared(sign: str, text: str, dialect: Dialect) -> Range:
    """The versions that one comparison takes."""
    wild = re.fullmatch(r"v?((?:\d{1,9}\.)*)[*xX](?:\.[*xX])*", text)
    if wild:
        numbers = numbers_of(wild[1].rstrip(".")) if wild[1] else ()
        taken = release_and_below(numbers) if numbers else ALL
        return complement(taken) if sign == "!=" else taken
    key, numbers = version(text)
    at, past = (key, 0), (key, 1)
    match sign:
        case ">=":
            return Range(((at, HIGHEST),))
        case ">":
            return Range(((past, HIGHEST),))
        case "<=":
            return Range(((LOWEST, past),))
        case "<":
            return Range(((LOWEST, before(numbers) if key[1] else at),))
        case "!=":
            return complement(Range(((at, past),)))
        case "^":
            return Range(((at, before(raised(numbers, first_number(numbers)))),))
        case "~=":
            return Range(((at, before(raised(numbers, max(0, len(numbers) - 2)))),))
        case "~" | "~>":
            return Range(((at, before(raised(numbers, min(1, len(numbers) - 1)))),))
        case "":
            return plain(at, past, numbers, dialect)
        case _:
            return Range(((at, past),))


def plain(at: Cut, past: Cut, numbers: tuple[int, ...], dialect: Dialect) -> Range:
    """A version without a sign: Cargo reads it as `^`, npm and people a short one as all that begin so."""
    if dialect == "cargo":
        return Range(((at, before(raised(numbers, first_number(numbers)))),))
    if dialect in ("npm", "any") and len(numbers) < 3:
        return release_and_below(numbers)
    return Range(((at, past),))


def release_and_below(numbers: tuple[int, ...]) -> Range:
    """The release and all that begin with its numbers; what leads up to it is taken by nobody who does not ask."""
    return Range(((((stripped(numbers), 1, ""), 0), before(raised(numbers, len(numbers) - 1))),))


def complement(taken: Range) -> Range:
    """All but one piece."""
    ((low, high),) = taken.pieces
    return Range(tuple(piece for piece in ((LOWEST, low), (high, HIGHEST)) if piece[0] < piece[1]))


def version(text: str) -> tuple[Key, tuple[int, ...]]:
    """The point, and the numbers as written. Raises BadRange."""
    found = VERSION.match(text)
    if found is None:
        raise BadRange(f"{text[:80]!r} is no version; expected one like 2.1.0")
    numbers = numbers_of(found[1])
    return (stripped(numbers), 0 if found[2] else 1, found[2] or ""), numbers


def numbers_of(text: str) -> tuple[int, ...]:
    """The numbers of a release."""
    return tuple(map(int, text.split(".")))


def stripped(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers without zeros at the end: 2.0 is 2."""
    end = len(numbers)
    while end and numbers[end - 1] == 0:
        end -= 1
    return numbers[:end]


def before(numbers: tuple[int, ...]) -> Cut:
    """The cut before a release and all that leads up to it."""
    return ((stripped(numbers), 0, ""), 0)


def raised(numbers: tuple[int, ...], at: int) -> tuple[int, ...]:
    """The next release that differs at that place."""
    return (*numbers[:at], numbers[at] + 1)


def first_number(numbers: tuple[int, ...]) -> int:
    """The place that `^` keeps: the first that is not 0."""
    return next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
