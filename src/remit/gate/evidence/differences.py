"""Differences between the contents of a changed file before and after a call."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from remit.core.diff.contents import Hunk, LineRange
from remit.core.diff.edit_script import diff_at_lines, diff_small
from remit.core.diff.line_spans import subtract_spans
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.observe.observation import Change


class Difference(Struct, frozen=True):
    """The hunks of one changed file; `from_tool` if the tool's own answer named the lines."""

    hunks: tuple[Hunk, ...]
    from_tool: bool = False

    @property
    def added_ranges(self) -> tuple[LineRange, ...]:
        return tuple(lines for hunk in self.hunks if (lines := hunk.added_lines))


def find_differences(
    changes: Iterable[Change], positions: Mapping[str, tuple[LineRange, ...]], contents: ContentStore
) -> dict[str, Difference]:
    """Return the differences of changes with available contents, by path.

    `positions` are lines from the tool's own answer. Git is asked once, for the large files.
    """
    found: dict[str, Difference] = {}
    large: dict[str, tuple[bytes, bytes]] = {}
    for change in changes:
        if change.after is None or change.after.content is None or (change.before and change.before.content is None):
            continue
        old = change.before.content if change.before and change.before.content is not None else b""
        difference = find_difference(old, change.after.content, positions.get(change.path, ()))
        if difference is None:
            large[change.path] = (old, change.after.content)
        else:
            found[change.path] = difference
    return {**found, **{path: Difference(hunks) for path, hunks in contents.compute_hunks(large).items()}}


def find_difference(old: bytes, new: bytes, positions: tuple[LineRange, ...]) -> Difference | None:
    """Return the difference of two contents where the tool named the lines or they are few; else None."""
    named = diff_at_lines(old, new, positions) if positions else None
    if named is not None:
        return Difference(named, from_tool=True)
    small = diff_small(old, new)
    return None if small is None else Difference(small)


def whole_file(change: Change) -> tuple[LineRange]:
    return (LineRange(1, max(1, change.after.version.lines if change.after else 1)),)


def exclude_lines(lines: Sequence[LineRange], excluded: Sequence[LineRange]) -> tuple[LineRange, ...]:
    spans = subtract_spans([(one.start, one.end) for one in lines], [(one.start, one.end) for one in excluded])
    return tuple(LineRange(*span) for span in spans)
