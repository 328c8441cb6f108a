"""Lines between the marks of a conflict: who settles it keeps them, wherever they go, and wrote none of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from remit.core.contents import LineRange
from remit.core.spans import joined, spans_of
from remit.core.textdiff import lines_of
from remit.gate.effects import Difference
from remit.workspace.observe import Change

OPENS, CLOSES = b"<<<<<<< ", b">>>>>>> "
MARKS = (OPENS, b"||||||| ", b"=======", CLOSES)
"""Source: git-merge(1), read 2026-11."""

Open = dict[str, tuple[LineRange, ...]]
"""By path, lines that nothing proves to be the call's."""


def less_settled(left: Open, done: Iterable[Change], known: Mapping[str, Difference]) -> Open:
    """Those lines, and the ones that were taken out of a conflict and put in again at another place."""
    found = {c.path: spans for c in done if (spans := spans_of(settled(c, known.get(c.path))))}
    both = {path: [*((one.start, one.end) for one in left.get(path, ())), *spans] for path, spans in found.items()}
    return {**left, **{path: tuple(LineRange(*span) for span in joined(spans)) for path, spans in both.items()}}


def settled(change: Change, known: Difference | None) -> Iterator[int]:
    """The new lines, from 1, that stood in a conflict of the content before."""
    before, after = change.before.content if change.before else None, change.after.content if change.after else None
    if not before or after is None or known is None or not (before.startswith(OPENS) or b"\n" + OPENS in before):
        return
    old, new = lines_of(before), lines_of(after)
    held = set(in_conflict(old))
    gone = Counter(old[n - 1].strip() for hunk in known.hunks for n in hunk.gone if n in held and old[n - 1])
    for hunk in known.hunks:
        for number in hunk.came:
            if number <= len(new) and gone[text := new[number - 1].strip()] > 0:
                gone[text] -= 1
                yield number


def in_conflict(lines: Iterable[bytes]) -> Iterator[int]:
    """The lines, from 1, between the marks of conflicts, less the marks."""
    within = False
    for number, line in enumerate(lines, 1):
        if line.startswith(MARKS):
            within = not line.startswith(CLOSES) if line.startswith((OPENS, CLOSES)) else within
        elif within:
            yield number
