"""When lines that look like a recorded version's are evidence that they came from it.

A false claim costs more than a gap: lines that anybody would write (`}`, `try:`, `return None`) prove nothing, and of
a block enough has to be left.
"""

import re
from functools import lru_cache

from msgspec import Struct

WORD = re.compile(r"[^\W\d_]\w*|\d+")
ENOUGH = 0.75
"""Of a block that stands: a person who changes a line or two of it leaves more, one who writes anew leaves less."""

MOST_KNOWN = 65_536
"""Lines whose strength is remembered: a long history asks about the same ones again and again."""

STRONG_CHARS = 12
STRONG_LINES = 3
MANY_LINES = 8

COMMON = frozenset(
    """
    abstract and any args array as assert async await begin bool boolean break byte case catch char class cls cmd const
    continue data debug def default del delete do done double elif else elseif end enum err error except exception exit
    export extends extern false final finally float fmt for foreach from fn func function get global go goto id if impl
    implements import in include index info init instanceof int integer interface is item items key kwargs lambda len
    let list log logger logging long main map match mod module msg mut name namespace new next nil none not null number
    object of ok or os out package pass path print private protected pub public raise range rc re ref request require
    response result ret return self set short should size static std str string struct super switch sys test then this
    throw throws to trait true try tuple type typedef typeof undefined union unless unsigned until use using val value
    values var vec virtual void volatile when where while with yield
    """.split()  # noqa: SIM905  ninety quoted words are harder to read
)
"""Words of many languages that tell nobody's line from another's."""


def unspaced(line: bytes) -> bytes:
    """A line without its white space: what it is compared by where its layout does not matter."""
    return b"".join(line.split())


class Kept(Struct, frozen=True):
    """The lines of one recorded block, and those of them that stand in the version asked about."""

    block: tuple[bytes, ...]
    kept: tuple[bytes, ...]


@lru_cache(MOST_KNOWN)
def own_words(line: bytes) -> tuple[str, ...]:
    """The words of a line that are not everybody's."""
    return tuple(word for word in WORD.findall(line.decode("utf-8", "replace")) if word.lower() not in COMMON)


def says_something(line: bytes) -> bool:
    """Whether a line has a word of its own."""
    return bool(own_words(line))


@lru_cache(MOST_KNOWN)
def is_strong(line: bytes) -> bool:
    """Whether nobody else would have written just this line: it has enough of its own words.

    A sign outside ASCII counts three, as in its UTF-8.
    """
    return sum(len(word.encode("utf-8", "replace")) for word in own_words(line)) >= STRONG_CHARS


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
