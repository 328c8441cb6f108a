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


class InvalidRange(ValueError):
    """The text is no range of versions. The message is a clause about it."""


class VersionRange(Struct, frozen=True):
    """Versions between cuts, the pieces in order and apart."""

    pieces: tuple[tuple[Cut, Cut], ...]

    def is_subset_of(self, other: "VersionRange") -> bool:
        """Whether every version of this one is one of the other."""
        return intersect_ranges(self, other).pieces == self.pieces


ALL_VERSIONS = VersionRange(((LOWEST, HIGHEST),))


def intersect_ranges(one: VersionRange, other: VersionRange) -> VersionRange:
    """The versions that are in both."""
    found = [(max(a, c), min(b, d)) for a, b in one.pieces for c, d in other.pieces]
    return VersionRange(tuple(sorted((low, high) for low, high in found if low < high)))


def unite_ranges(ranges: list[VersionRange]) -> VersionRange:
    """The versions that are in any."""
    joined: list[tuple[Cut, Cut]] = []
    for low, high in sorted(piece for one in ranges for piece in one.pieces):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return VersionRange(tuple(joined))


def parse_constraint_range(text: str) -> VersionRange:
    """The range of a constraint: comparisons joined by commas or spaces, `^`, `~`, `1.2.*`, `||`. Raises BadRange."""
    return parse_range(text, "any")


def parse_range(text: str, dialect: Dialect) -> VersionRange:
    """The versions that a manifest's requirement takes. Raises BadRange."""
    clean = text.strip()
    if len(clean) > 500:
        raise InvalidRange(f"has {len(clean)} characters; expected at most 500")
    if clean in ("", "*", "x"):
        return ALL_VERSIONS
    return unite_ranges([parse_alternative(part, dialect) for part in clean.split("||")])


def parse_alternative(text: str, dialect: Dialect) -> VersionRange:
    """Comparisons that all have to hold."""
    if between := HYPHEN.match(text):
        return intersect_ranges(
            parse_comparison(">=", between[1], dialect), parse_comparison("<=", between[2], dialect)
        )
    found, at = ALL_VERSIONS, 0
    while at < len(text.rstrip()):
        piece = PIECE.match(text, at)
        if piece is None:
            raise InvalidRange(f"{text.strip()[:80]!r} is no range of versions; expected one like >=2.1,<3")
        found = intersect_ranges(found, parse_comparison(piece[1] or "", piece[2], dialect))
        at = piece.end()
    return found


def parse_comparison(sign: str, text: str, dialect: Dialect) -> VersionRange:
    """The versions that one comparison takes."""
    wild = re.fullmatch(r"v?((?:\d{1,9}\.)*)[*xX](?:\.[*xX])*", text)
    if wild:
        numbers = parse_numbers(wild[1].rstrip(".")) if wild[1] else ()
        taken = select_release_family(numbers) if numbers else ALL_VERSIONS
        return invert_range(taken) if sign == "!=" else taken
    key, numbers = parse_version(text)
    at, past = (key, 0), (key, 1)
    match sign:
        case ">=":
            return VersionRange(((at, HIGHEST),))
        case ">":
            return VersionRange(((past, HIGHEST),))
        case "<=":
            return VersionRange(((LOWEST, past),))
        case "<":
            return VersionRange(((LOWEST, cut_before_release(numbers) if key[1] else at),))
        case "!=":
            return invert_range(VersionRange(((at, past),)))
        case "^":
            return VersionRange(((at, cut_before_release(raise_number(numbers, find_first_nonzero(numbers)))),))
        case "~=":
            return VersionRange(((at, cut_before_release(raise_number(numbers, max(0, len(numbers) - 2)))),))
        case "~" | "~>":
            return VersionRange(((at, cut_before_release(raise_number(numbers, min(1, len(numbers) - 1)))),))
        case "":
            return parse_bare_version(at, past, numbers, dialect)
        case _:
            return VersionRange(((at, past),))


def parse_bare_version(at: Cut, past: Cut, numbers: tuple[int, ...], dialect: Dialect) -> VersionRange:
    """A version without a sign: Cargo reads it as `^`, npm and people a short one as all that begin so."""
    if dialect == "cargo":
        return VersionRange(((at, cut_before_release(raise_number(numbers, find_first_nonzero(numbers)))),))
    if dialect in ("npm", "any") and len(numbers) < 3:
        return select_release_family(numbers)
    return VersionRange(((at, past),))


def select_release_family(numbers: tuple[int, ...]) -> VersionRange:
    """The release and all that begin with its numbers; what leads up to it is taken by nobody who does not ask."""
    return VersionRange(
        ((((strip_zeros(numbers), 1, ""), 0), cut_before_release(raise_number(numbers, len(numbers) - 1))),)
    )


def invert_range(taken: VersionRange) -> VersionRange:
    """All but one piece."""
    ((low, high),) = taken.pieces
    return VersionRange(tuple(piece for piece in ((LOWEST, low), (high, HIGHEST)) if piece[0] < piece[1]))


def parse_version(text: str) -> tuple[Key, tuple[int, ...]]:
    """The point, and the numbers as written. Raises BadRange."""
    found = VERSION.match(text)
    if found is None:
        raise InvalidRange(f"{text[:80]!r} is no version; expected one like 2.1.0")
    numbers = parse_numbers(found[1])
    return (strip_zeros(numbers), 0 if found[2] else 1, found[2] or ""), numbers


def parse_numbers(text: str) -> tuple[int, ...]:
    """The numbers of a release."""
    return tuple(map(int, text.split(".")))


def strip_zeros(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers without zeros at the end: 2.0 is 2."""
    end = len(numbers)
    while end and numbers[end - 1] == 0:
        end -= 1
    return numbers[:end]


def cut_before_release(numbers: tuple[int, ...]) -> Cut:
    """The cut before a release and all that leads up to it."""
    return ((strip_zeros(numbers), 0, ""), 0)


def raise_number(numbers: tuple[int, ...], at: int) -> tuple[int, ...]:
    """The next release that differs at that place."""
    return (*numbers[:at], numbers[at] + 1)


def find_first_nonzero(numbers: tuple[int, ...]) -> int:
    """The place that `^` keeps: the first that is not 0."""
    return next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
