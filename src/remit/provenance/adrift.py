"""Lines that a diff keeps by nothing but themselves, while somebody unknown may have written around them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from remit.core.contents import Hunk
from remit.core.spans import Span
from remit.provenance.alike import put_in, say_the_same
from remit.provenance.evidence import is_telling


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


def placed(hunk: Hunk) -> tuple[int, int]:
    """Where the hunk's new lines begin and end, from 0."""
    start = hunk.new - 1 if hunk.new_lines else hunk.new
    return start, start + hunk.new_lines


def is_open(hunk: Hunk, unproved: Sequence[Span]) -> bool:
    """Whether some of the hunk's new lines are not proved."""
    start, end = placed(hunk)
    return any(first <= end and last > start for first, last in unproved)


def is_layout(hunk: Hunk, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Whether the hunk says what stood there."""
    return say_the_same(old[hunk.old - 1 : hunk.old - 1 + hunk.old_lines], put_in(new, hunk))
