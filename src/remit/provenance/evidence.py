"""When lines that look like a recorded version's are evidence that they came from it.

A false claim costs more than a gap: lines that anybody would write (`}`, `try:`, `return None`) prove nothing, and of
a block enough has to be left.
"""

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from remit.core.own_words import MOST_KNOWN, is_strong, says_something

ENOUGH = 0.75
"""Of a block that stands: a person who changes a line or two of it leaves more, one who writes anew leaves less."""

STRONG_LINES = 3
MANY_LINES = 8
TELLING_LINES = 3


@lru_cache(MOST_KNOWN)
def unspaced(line: bytes) -> bytes:
    """A line without its white space: what it is compared by where its layout does not matter."""
    return b"".join(line.split())


class Kept(Struct, frozen=True):
    """The lines of one recorded block, and those of them that stand in the version asked about."""

    block: tuple[bytes, ...]
    kept: tuple[bytes, ...]


def is_telling(lines: Iterable[bytes]) -> bool:
    """Whether a block tells itself from another's."""
    texts = list(lines)
    return any(map(is_strong, texts)) or sum(map(says_something, texts)) >= TELLING_LINES


def is_evidence(found: Kept, *, strict: bool, part: bool = False, seen: bool = True) -> bool:
    """Whether what is left of a block came from it. `strict` where later contents were seen without it; `part` where
    nothing else came: a commit of some of the lines, or a person who only takes lines out. `seen` where both contents
    followed each other under our eyes; else what is left has to hold one of the lines that nobody else would write, if
    the block had any.
    """
    telling = [line for line in found.block if line.strip()]
    kept = [line for line in found.kept if line.strip()]
    if not kept or not any(map(says_something, kept)):
        return False
    if not seen and any(map(is_strong, telling)) and not any(map(is_strong, kept)):
        return False
    enough = len(kept) >= ENOUGH * len(telling)
    if enough and not strict:
        return True
    strong = len({line.strip() for line in kept if is_strong(line)})
    if strict:
        return enough and (strong >= STRONG_LINES or (strong > 0 and len(kept) == len(telling)))
    many = len({line.strip() for line in kept if says_something(line)}) >= MANY_LINES
    return strong >= STRONG_LINES or many or (part and strong > 0)
