"""Lines that a diff keeps by nothing but themselves, while somebody unknown may have written around them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from remit.core.contents import Hunk
from remit.core.spans import Span
from remit.provenance.origins.alike import is_layout, put_in
from remit.provenance.origins.evidence import is_telling, unspaced


def adrift(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], unproved: Sequence[Span]
) -> Iterator[int]:
    """The lines that stay between two hunks, are anybody's, and have beside them lines that are not proved to be the
    call's; indices from 0. Where only the layout changed, nobody wrote anything.

    A call that puts another word for the `None` of a `return None`, while a person writes a block with such a line
    below it, leaves the same contents as a call that kept it.
    """
    spans = [(*placed(hunk), is_open(hunk, unproved) and not is_layout(hunk, old, new)) for hunk in hunks]
    for (_, start, before), (end, _, after) in pairwise(spans):
        if (before or after) and not is_telling(new[start:end]):
            yield from range(start, end)


def stranded(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> frozenset[int]:
    """The lines of `old`, from 0, that stayed amid others which were written anew, and are anybody's: where more went
    around them than stayed, a diff only found them alike. Who changes a line or two leaves more of what is around it.
    """
    found: set[int] = set()
    stayed: list[int] = []
    around: list[Hunk] = []
    for hunk, after in zip_longest(hunks, hunks[1:]):
        around.append(hunk)
        between = range(hunk.gone.stop - 1, after.gone.start - 1) if after else range(0)
        written = after and (hunk.new_lines or after.new_lines) and not is_layout(hunk, old, new)
        if written and not is_telling(old[between.start : between.stop]):
            stayed += between
            continue
        if 0 < sum(bool(old[i].strip()) for i in stayed) < gone(old, new, around):
            found.update(stayed)
        stayed, around = [], []
    return frozenset(found)


def gone(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> int:
    """How many lines those hunks take out and do not put in again, in whatever layout."""
    came = {unspaced(line) for hunk in hunks for line in put_in(new, hunk)}
    return sum(unspaced(old[number - 1]) not in came for hunk in hunks for number in hunk.gone)


def placed(hunk: Hunk) -> tuple[int, int]:
    """Where the hunk's new lines begin and end, from 0."""
    start = hunk.new - 1 if hunk.new_lines else hunk.new
    return start, start + hunk.new_lines


def is_open(hunk: Hunk, unproved: Sequence[Span]) -> bool:
    """Whether some of the hunk's new lines are not proved."""
    start, end = placed(hunk)
    return any(first <= end and last > start for first, last in unproved)
