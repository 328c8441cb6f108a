"""What happened to a file after an edit, and which of it changed the very lines that the edit had put there.

The lines are followed from version to version by the recorded differences; where a version in between was recorded by
nobody, by comparing its neighbours.
"""

from collections.abc import Iterable, Iterator, Sequence

from remit.core.contents import Hunk
from remit.core.spans import Span, joined, numbers_of, spans_of
from remit.ledger.changes import Change
from remit.provenance.origins.attribution import Attribution
from remit.provenance.why.explanation import Later

MOST_LATER = 20


def later(attribution: Attribution, paths: Iterable[str], asked: dict[str, str]) -> tuple[Later, ...]:
    """What changed the file after the newest record in `asked`, the newest first.

    `paths` are the names that it had. `asked` is by record the text of the line that the question is about. What
    changed lines of those edits is marked.
    """
    newest = max(asked, default=None)
    if newest is None:
        return ()
    changes = sorted((c for path in paths for c in attribution.index.changes_of(path)), key=lambda c: c.id)
    again = {
        change.id for record, text in asked.items() for change in changed_again(attribution, changes, record, text)
    }
    after = [c for c in changes if c.id > newest and not c.by_git]
    chosen = [c for c in after[:-MOST_LATER] if c.id in again] + after[-MOST_LATER:]
    return tuple(Later(c.id, c.at, c.intent_id, c.session_id, c.id in again) for c in reversed(chosen))


def changed_again(attribution: Attribution, changes: Sequence[Change], record: str, text: str) -> Iterator[Change]:
    """The later changes of lines that `record` put there around the line `text`."""
    place = next((n for n, change in enumerate(changes) if change.id == record), None)
    if place is None:
        return
    spans = put_there(attribution, changes[place], text)
    blob = changes[place].after_blob
    for change in changes[place + 1 :]:
        between = () if change.before_blob == blob else differing(attribution, blob, change.before_blob)
        own = (
            change.hunks if change.hunks is not None else differing(attribution, change.before_blob, change.after_blob)
        )
        if between is None or own is None or not spans:
            return
        spans = carried(spans, between)
        if any(touches(hunk, spans) for hunk in own) and not change.by_git:
            yield change
        spans, blob = carried(spans, own), change.after_blob


def put_there(attribution: Attribution, change: Change, text: str) -> tuple[Span, ...]:
    """The lines that a change put into the file: those around the line `text`, else all."""
    hunks = hunks_of(attribution, change)
    spans = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks or () if hunk.new_lines]
    attribution.load({change.after_blob} if change.after_blob else set())
    lines = attribution.lines(change.after_blob) or ()
    holding = [s for s in spans if any(line.decode("utf-8", "replace") == text for line in lines[s[0] - 1 : s[1]])]
    return joined(holding or spans)


def hunks_of(attribution: Attribution, change: Change) -> tuple[Hunk, ...] | None:
    """What a change did to the file."""
    if change.hunks is not None:
        return change.hunks
    return differing(attribution, change.before_blob, change.after_blob)


def differing(attribution: Attribution, before: str | None, after: str | None) -> tuple[Hunk, ...] | None:
    """How two contents differ; None where one is gone."""
    if after is None:
        return None
    attribution.compare([(before, after)])
    return attribution.diffs.get((before, after))


def touches(hunk: Hunk, spans: Iterable[Span]) -> bool:
    """Whether a difference takes some of these lines out, or puts others between them."""
    if hunk.old_lines:
        return any(first < hunk.old + hunk.old_lines and hunk.old <= last for first, last in spans)
    return any(first <= hunk.old < last for first, last in spans)


def carried(spans: Iterable[Span], hunks: Sequence[Hunk]) -> tuple[Span, ...]:
    """Where those of the lines are afterwards that stay."""
    return spans_of(moved for number in numbers_of(spans) if (moved := moved_to(number, hunks)) is not None)


def moved_to(number: int, hunks: Sequence[Hunk]) -> int | None:
    """Where a line is after those differences; None where it was taken out."""
    shift = 0
    for hunk in hunks:
        if hunk.old_lines and hunk.old <= number < hunk.old + hunk.old_lines:
            return None
        if number > hunk.old if hunk.old_lines == 0 else number >= hunk.old + hunk.old_lines:
            shift += hunk.new_lines - hunk.old_lines
    return number + shift
