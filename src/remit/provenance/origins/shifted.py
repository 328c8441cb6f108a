"""What a diff leaves where it was, and blocks that went from one place of a file to another."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from remit.core.contents import Hunk
from remit.core.own_words import is_strong
from remit.provenance.origins.evidence import unspaced

T = TypeVar("T")


def shifted(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """For lines of `new` that the hunks put in, the line of `old` that they took out; indices from 0.

    A block is told by a line that nobody else would write, that went once and came once; its neighbours go with it as
    far as both read alike. White space does not count.
    """
    if not any(h.old_lines for h in hunks) or not any(h.new_lines for h in hunks):
        return {}
    gone = {i: unspaced(old[i]) for h in hunks for i in range(h.old - 1, h.old - 1 + h.old_lines)}
    came = {i: unspaced(new[i]) for h in hunks for i in range(h.new - 1, h.new - 1 + h.new_lines)}
    left, arrived = once(gone), once(came)
    found: dict[int, int] = {}
    for text in left.keys() & arrived.keys():
        if arrived[text] not in found and is_strong(old[left[text]]):
            found |= alike(gone, came, left[text], arrived[text])
    return found


def alike(gone: dict[int, bytes], came: dict[int, bytes], origin: int, to: int) -> dict[int, int]:
    """How far both go on alike around these two lines, in both directions."""
    found = {to: origin}
    for way in (1, -1):
        offset = way
        while origin + offset in gone and gone[origin + offset] == came.get(to + offset):
            found[to + offset] = origin + offset
            offset += way
    return found


def once(texts: dict[int, bytes]) -> dict[bytes, int]:
    """Where those texts stand that stand in one place only."""
    found: dict[bytes, int] = {}
    twice: set[bytes] = set()
    for index, text in texts.items():
        twice |= {text} & found.keys()
        found[text] = index
    return {text: index for text, index in found.items() if text not in twice}


def span(hunks: Iterable[Hunk]) -> tuple[range, range]:
    """From the first line that differs to the last, in both contents; indices from 0."""
    found = list(hunks)
    old = [i for h in found for i in (h.old - bool(h.old_lines), h.old - bool(h.old_lines) + h.old_lines)]
    new = [i for h in found for i in (h.new - bool(h.new_lines), h.new - bool(h.new_lines) + h.new_lines)]
    return range(min(old, default=0), max(old, default=0)), range(min(new, default=0), max(new, default=0))


def carried(labels: Sequence[T | None], hunks: Sequence[Hunk], added: T | None) -> list[T | None]:
    """The labels after one step: what git's diff keeps, keeps its label; what it adds gets the step's."""
    out: list[T | None] = []
    at = 0
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        out += labels[at:start]
        out += [added] * hunk.new_lines
        at = start + hunk.old_lines
    return [*out, *labels[at:]]


def staying(count: int, hunks: Sequence[Hunk]) -> set[int]:
    """Which of so many lines no hunk takes out."""
    found = set(range(count))
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        found -= set(range(start, start + hunk.old_lines))
    return found
