"""Version ranges in the manifests of Python, JavaScript, Rust and Go, and inclusion between them.

A version is a point; a range consists of pieces between cuts just before or just after a point. Sources: the Python
packaging specifications (version specifiers), node-semver's README, the Cargo book on dependencies, read 2026-11.
"""

import re
from typing import Literal, TypeAlias

from msgspec import Struct

Dialect: TypeAlias = Literal["python", "npm", "cargo", "go", "any"]
Key: TypeAlias = tuple[tuple[int, ...], int, str]
"""Release numbers without trailing zeros; 0 for a pre-release, 1 for a release; the pre-release label."""

Cut: TypeAlias = tuple[Key, int]
"""A cut before (0) or after (1) a version."""

VERSION = re.compile(
    r"[v=]?\s*(\d{1,9}(?:\.\d{1,9}){0,5})((?:[-.]?(?:a|b|c|rc|alpha|beta|pre|dev)|-)[\w.-]*)?(?:\+[\w.-]*)?\Z"
)
PIECE = re.compile(r"\s*(===|~=|==|!=|>=|<=|~>|\^|~|>|<|=)?\s*([^\s,|<>=!~^]+)\s*,?")
HYPHEN = re.compile(r"\s*([^\s,|]+)\s+-\s+([^\s,|]+)\s*\Z")
LOWEST: Cut = (((), 0, ""), 0)
HIGHEST: Cut = (((10**12,), 1, ""), 1)


class InvalidRange(ValueError):
    """Error for text that is not a version range. The message is a clause."""


class VersionRange(Struct, frozen=True):
    """Versions between cuts, in sorted disjoint pieces."""

    pieces: tuple[tuple[Cut, Cut], ...]

    def is_subset_of(self, other: "VersionRange") -> bool:
        return intersect_ranges(self, other).pieces == self.pieces


ALL_VERSIONS = VersionRange(((LOWEST, HIGHEST),))


def intersect_ranges(left: VersionRange, right: VersionRange) -> VersionRange:
    pieces = [(max(a, c), min(b, d)) for a, b in left.pieces for c, d in right.pieces]
    return VersionRange(tuple(sorted((low, high) for low, high in pieces if low < high)))


def unite_ranges(ranges: list[VersionRange]) -> VersionRange:
    joined: list[tuple[Cut, Cut]] = []
    for low, high in sorted(piece for version_range in ranges for piece in version_range.pieces):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return VersionRange(tuple(joined))


def parse_constraint_range(text: str) -> VersionRange:
    """Parse the range of a constraint: comparisons joined by commas or spaces, `^`, `~`, `1.2.*`, `||`.

    Raises InvalidRange.
    """
    return parse_range(text, "any")


def parse_range(text: str, dialect: Dialect) -> VersionRange:
    """Parse a manifest's requirement. Raises InvalidRange."""
    text_only = text.strip()
    if len(text_only) > 500:
        raise InvalidRange(f"has {len(text_only)} characters; expected at most 500")
    if text_only in ("", "*", "x"):
        return ALL_VERSIONS
    return unite_ranges([parse_alternative(part, dialect) for part in text_only.split("||")])


def parse_alternative(text: str, dialect: Dialect) -> VersionRange:
    """Parse comparisons that must hold together."""
    if hyphen := HYPHEN.match(text):
        return intersect_ranges(parse_comparison(">=", hyphen[1], dialect), parse_comparison("<=", hyphen[2], dialect))
    version_range, position = ALL_VERSIONS, 0
    while position < len(text.rstrip()):
        piece = PIECE.match(text, position)
        if piece is None:
            raise InvalidRange(f"{text.strip()[:80]!r} is not a version range; expected one like >=2.1,<3")
        version_range = intersect_ranges(version_range, parse_comparison(piece[1] or "", piece[2], dialect))
        position = piece.end()
    return version_range


def parse_comparison(sign: str, text: str, dialect: Dialect) -> VersionRange:
    """Parse a comparison."""
    wildcard = re.fullmatch(r"v?((?:\d{1,9}\.)*)[*xX](?:\.[*xX])*", text)
    if wildcard:
        numbers = parse_numbers(wildcard[1].rstrip(".")) if wildcard[1] else ()
        family = select_release_family(numbers) if numbers else ALL_VERSIONS
        return invert_range(family) if sign == "!=" else family
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
    """Return the range of a version without sign: `^` for Cargo, a prefix for short versions of npm and people."""
    if dialect == "cargo":
        return VersionRange(((at, cut_before_release(raise_number(numbers, find_first_nonzero(numbers)))),))
    if dialect in ("npm", "any") and len(numbers) < 3:
        return select_release_family(numbers)
    return VersionRange(((at, past),))


def select_release_family(numbers: tuple[int, ...]) -> VersionRange:
    """Return the release and its sub-releases, without pre-releases before the release."""
    return VersionRange(
        ((((strip_zeros(numbers), 1, ""), 0), cut_before_release(raise_number(numbers, len(numbers) - 1))),)
    )


def invert_range(version_range: VersionRange) -> VersionRange:
    ((low, high),) = version_range.pieces
    return VersionRange(tuple(piece for piece in ((LOWEST, low), (high, HIGHEST)) if piece[0] < piece[1]))


def parse_version(text: str) -> tuple[Key, tuple[int, ...]]:
    """Return the point, and the numbers as written. Raises InvalidRange."""
    match = VERSION.match(text)
    if match is None:
        raise InvalidRange(f"{text[:80]!r} is not a version; expected one like 2.1.0")
    numbers = parse_numbers(match[1])
    return (strip_zeros(numbers), 0 if match[2] else 1, match[2] or ""), numbers


def parse_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def strip_zeros(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Remove trailing zeros: 2.0 equals 2."""
    end = len(numbers)
    while end and numbers[end - 1] == 0:
        end -= 1
    return numbers[:end]


def cut_before_release(numbers: tuple[int, ...]) -> Cut:
    """Return the cut before a release and its pre-releases."""
    return ((strip_zeros(numbers), 0, ""), 0)


def raise_number(numbers: tuple[int, ...], at: int) -> tuple[int, ...]:
    """Return the next release that differs at index `at`."""
    return (*numbers[:at], numbers[at] + 1)


def find_first_nonzero(numbers: tuple[int, ...]) -> int:
    """Return the index kept by `^`: the first number that is not 0."""
    return next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
