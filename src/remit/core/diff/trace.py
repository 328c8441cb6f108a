"""Lines that an edit keeps: a diff of both contents may confuse a copy with its original; the edit itself does not."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from remit.core.diff.contents import Hunk, count_common_prefix, encode_text, split_lines, trace_hunks
from remit.core.diff.edits import Edit, Patching, PatchMismatch, Replacements, apply_hunks
from remit.core.diff.formats import Patch

LineOrigins: TypeAlias = Mapping[int, int]
"""Old line index by new line index; both from 0."""
MAX_SLIDE = 50
"""Positions of an insertion that are compared."""


def find_kept_lines(edit: Edit, path: str, before: bytes, *, guess: bool = True) -> LineOrigins | None:
    """Return the lines of `path` that an edit keeps, or None if its arguments do not tell.

    With `guess`, common first and last lines of a replaced text count as kept. Without `guess` only if their number of
    occurrences is equal on both sides.
    """
    match edit:
        case Patching(patch):
            return trace_patch(patch, path, before)
        case Replacements(steps):
            content = before
            kept: dict[int, int] = {n: n for n in range(len(split_lines(before)))}
            for step in steps:
                old, new = encode_text(step.old), encode_text(step.new)
                if not old or content.count(old) != 1:
                    return None
                after = content.replace(old, new)
                step_origins = trace_replacement(content, after, content.index(old), (len(old), len(new)), guess=guess)
                kept = {to: kept[origin] for to, origin in step_origins.items() if origin in kept}
                content = after
            return kept
        case _:
            return None


def trace_patch(patch: Patch, path: str, before: bytes) -> LineOrigins | None:
    """Return the lines that a patch keeps by its signs; None unless it updates `path` exactly once, in place."""
    operations = [operation for operation in patch.operations if path in operation.paths]
    if len(operations) != 1 or operations[0].kind != "update" or operations[0].moved_to is not None:
        return None
    try:
        edited = apply_hunks(before, operations[0].hunks)
    except PatchMismatch:
        return None
    return {to: origin for to, (_, origin) in enumerate(edited.lines) if origin is not None}


def trace_replacement(content: bytes, after: bytes, at: int, sizes: tuple[int, int], *, guess: bool) -> dict[int, int]:
    """Return the lines kept around a replaced text at byte `at`; `sizes` are its old and new length in bytes.

    Common first and last lines of both texts are included if certain, or with `guess`.
    """
    (old_size, new_size), a, b = sizes, split_lines(content), split_lines(after)
    head = content.count(b"\n", 0, at)
    tail_content = content[at + old_size :]
    if not (is_line_start(content, at + old_size) and is_line_start(after, at + new_size)):
        tail_content = tail_content.partition(b"\n")[2]
    tail = len(split_lines(tail_content)) if tail_content else 0
    old_middle, new_middle = a[head : len(a) - tail], b[head : len(b) - tail]
    start, end = count_common_ends(old_middle, new_middle)
    kept = {n: n for n in range(head + start)} | {len(b) - n: len(a) - n for n in range(1, tail + end + 1)}
    if guess or start == end == 0:
        return kept
    old_counts, new_counts = Counter(old_middle), Counter(new_middle)
    outside = {*range(head), *range(len(b) - tail, len(b))}
    return {to: origin for to, origin in kept.items() if to in outside or old_counts[b[to]] == new_counts[b[to]]}


def combine_origins(certain: LineOrigins, hunks: Iterable[Hunk], count: int) -> LineOrigins:
    """Add to certain line origins those from hunks that do not cross them; `count` is the new line count."""
    numbers = sorted(certain)
    combined = dict(certain)
    for to, origin in trace_hunks(hunks, count):
        at = bisect_left(numbers, to)
        following, preceding = numbers[at : at + 1], numbers[max(0, at - 1) : at]
        if all(to < n and origin < certain[n] for n in following) and all(origin > certain[n] for n in preceding):
            combined[to] = origin
    return combined


def is_line_start(content: bytes, at: int) -> bool:
    return at == 0 or content[at - 1 : at] == b"\n"


def count_common_ends(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    start, end = count_common_prefix(old, new), count_common_prefix(old[::-1], new[::-1])
    shorter = min(len(old), len(new))
    if start + end <= shorter:
        return start, end

    def measure_indent(at: int) -> int:
        inserted = new[at : at + len(new) - shorter]
        return next((len(line) - len(line.lstrip()) for line in inserted if line.strip()), 0)

    choices = range(max(shorter - end, start - MAX_SLIDE), start + 1)
    best = min(choices, key=lambda at: (measure_indent(at), -at))
    return best, shorter - best
