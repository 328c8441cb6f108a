"""Lines that say the same in another layout: indented anew, wrapped, quoted the other way."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from remit.provenance.evidence import unspaced

TOKEN = re.compile(rb"\w+|[^\w\s]")
MOST_TOKENS = 20_000
FEWEST_TOKENS = 4
"""Of a hunk that was wrapped: fewer could be anybody's."""

CLOSING = frozenset(b")]}")


def same_but_for_layout(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """For lines of `new` the line of `old` that they come from: all of them where the whole says the same, else those
    that differ from one by white space alone. Indices from 0.
    """
    return rewrapped(old, new) or respaced(old, new)


def respaced(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """The lines that are equal but for white space, in order. Runs of them without a word are left out."""
    a, b = list(map(unspaced, old)), list(map(unspaced, new))
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    found: dict[int, int] = {}
    for m in matcher.get_matching_blocks():
        if any(re.search(rb"\w", b[m.b + k]) for k in range(m.size)):
            found |= {m.b + k: m.a + k for k in range(m.size)}
    return found


def rewrapped(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Where both say the same, token by token: for each line of `new` the line of its first token."""
    a, b = tokens(old), tokens(new)
    if not FEWEST_TOKENS <= len(a) <= MOST_TOKENS or [t for t, _ in a] != [t for t, _ in b]:
        return {}
    found: dict[int, int] = {}
    for (_, origin), (_, to) in zip(a, b, strict=True):
        found.setdefault(to, origin)
    return found


def tokens(lines: Sequence[bytes]) -> list[tuple[bytes, int]]:
    """The tokens with the line of each. Quotes are one sign; a comma before a closing bracket is layout, and so is a
    backslash at a line's end.
    """
    found: list[tuple[bytes, int]] = []
    for number, line in enumerate(lines):
        text = line.rstrip().removesuffix(b"\\").replace(b"'", b'"')
        for token in TOKEN.findall(text):
            if found and found[-1][0] == b"," and token[0] in CLOSING:
                found.pop()
            found.append((token, number))
    return found
