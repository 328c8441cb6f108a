"""When lines that look like a recorded version's are evidence that they came from it.

A false claim costs more than a gap: lines that anybody would write (`}`, `try:`, `return None`) prove nothing, and of
a block enough has to be left.
"""

from functools import lru_cache

from msgspec import Struct

from remit.core.own_words import MOST_KNOWN, is_strong, says_something

ENOUGH = 0.75
"""Of a block that stands: a person who changes a line or two of it leaves more, one who writes anew leaves less."""

STRONG_LINES = 3
MANY_LINES = 8


@lru_cache(MOST_KNOWN)
def unspaced(line: bytes) -> bytes:
    """A line without its white space: what it is compared by where its layout does not matter."""
    return b"".join(line.split())


class Kept(Struct, frozen=True):
    """The lines of one recorded block, and those of them that stand in the version asked about."""

    block: tuple[bytes, ...]
    kept: tuple[bytes, ...]


def is_evidence(found: Kept, *, strict: bool, part: bool = False) -> bool:
    """Whether what is left of a block came from it. `strict` where later contents were seen without it; `part` where
    nothing else came: a commit of some of the lines, or a person who only takes lines out.
    """
    telling = [line for line in found.block if line.strip()]
    kept = [line for line in found.kept if line.strip()]
    if not kept or not any(map(says_something, kept)):
        return False
    enough = len(kept) >= ENOUGH * len(telling)
    if enough and not strict:
        return True
    strong = len({line.strip() for line in kept if is_strong(line)})
    if strict:
        return enough and (strong >= STRONG_LINES or (strong > 0 and len(kept) == len(telling)))
    many = len({line.strip() for line in kept if says_something(line)}) >= MANY_LINES
    return strong >= STRONG_LINES or many or (part and strong > 0)
