"""Lines that say the same in another layout: indented anew, wrapped, quoted the other way."""

import re
from collections.abc import Iterable, Sequence

from remit.core.contents import Hunk
from remit.core.own_words import says_something
from remit.provenance.origins.alike import WORD, equal_blocks, say_the_same
from remit.provenance.origins.evidence import is_telling, unspaced
from remit.provenance.origins.shifted import span

TOKEN = re.compile(rb"\w+|[^\w\s]")
MOST_TOKENS = 20_000
FEWEST_TOKENS = 4
"""Of a hunk that was wrapped: fewer could be anybody's."""

MOST_RELAID = 2_000
"""Lines of the part that differs, within which layout is looked through as a whole."""

CLOSING = frozenset(b")]}")


def relaid(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """For lines of `new` that only changed their layout, the line of `old` that they were.

    Hunk by hunk; and over all of them where that finds more than a diff kept: in a block that was indented anew, a diff
    takes one `return` for another.
    """
    found: dict[int, int] = {}
    for hunk in hunks:
        if hunk.old_lines and hunk.new_lines:
            a, b = hunk.old - 1, hunk.new - 1
            matched = same_but_for_layout(old[a : a + hunk.old_lines], new[b : b + hunk.new_lines])
            found |= {b + to: a + origin for to, origin in matched.items()}
    was, now = span(hunks)
    kept = len(was) - sum(hunk.old_lines for hunk in hunks)
    if len(hunks) < 2 or max(len(was), len(now)) > MOST_RELAID:
        return found
    matched = respaced(old[was.start : was.stop], new[now.start : now.stop])
    if len(matched) <= kept + len(found):
        return found
    came = {i for hunk in hunks for i in range(hunk.new - 1, hunk.new - 1 + hunk.new_lines)}
    return {**{now.start + to: was.start + a for to, a in matched.items() if now.start + to in came}, **found}


def same_but_for_layout(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """For lines of `new` the line of `old` that they come from: all of them where the whole says the same, else those
    that differ from one by white space alone. Indices from 0.
    """
    return rewrapped(old, new) or respaced(old, new)


def respaced(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """The lines that are equal but for white space, in order. Where other lines changed with them, runs that could be
    anybody's are left out: who writes anew ends with a `return None`, too, and indents it as it has to be.
    """
    a, b = list(map(unspaced, old)), list(map(unspaced, new))
    if not any(map(WORD.search, set(a).intersection(b))):
        return {}
    tells = is_own if a == b else is_telling
    told = (block for block in equal_blocks(a, b) if tells(new[block[1] : block[1] + block[2]]))
    return {j + offset: i + offset for i, j, size in told for offset in range(size)}


def is_own(lines: Iterable[bytes]) -> bool:
    """Whether one of those lines has a word of its own."""
    return any(map(says_something, lines))


def rewrapped(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Where both say the same, token by token: for each line of `new` the line of its first token."""
    if not say_the_same(old, new):
        return {}
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
        for token in tokens_of(line):
            if found and found[-1][0] == b"," and token[0] in CLOSING:
                found.pop()
            found.append((token, number))
    return found


def tokens_of(line: bytes) -> list[bytes]:
    """The tokens of one line, with one sign for all quotes, and without a backslash at its end."""
    found: list[bytes] = TOKEN.findall(line.rstrip().removesuffix(b"\\").replace(b"'", b'"'))
    return found


def signs(line: bytes) -> list[bytes]:
    """The tokens of a line but for its commas, of which layout may add one or take one away."""
    return [token for token in tokens_of(line) if token != b","]
