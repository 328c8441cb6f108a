"""New layouts of a text: each line of the new layout with the old line it continues.

A formatter wraps and joins lines, and adds or drops quotes, brackets, commas and semicolons. The words stay, in their
order: a line continues the old line of its first word, and a line without words goes with the line before.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from remit.core.diff.contents import Hunk, strip_layout, trace_hunks

WORD = re.compile(rb"(?:[^\W_]|[\x80-\xff])+|[<>=!&%^~?+]")
"""A word, or an operator that no formatter adds."""

MAX_WORDS = 1500
"""Words of a changed part that are compared where they differ; equal words are matched at any number."""

PlacedWord = tuple[bytes, int]  # a word in lower case, and its line from 0


def find_layout_origins(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]) -> dict[int, int]:
    """Return by line inserted by the hunks the old line that continues there; indices from 0.

    A line with a word missing from the matching old part is left out: a new layout alone does not explain the line.
    """
    inserted = [n - 1 for hunk in hunks for n in hunk.new_range]
    if not inserted:
        return {}
    sources = find_word_sources(old, new, hunks)
    removed: dict[bytes, list[int]] = {}
    for n in (n - 1 for hunk in hunks for n in hunk.old_range):
        removed.setdefault(strip_layout(old[n]), []).append(n)
    kept = dict(trace_hunks(hunks, len(new)))
    origins: dict[int, int] = {}
    last = 0 if old else None
    for index in range(inserted[-1] + 1):
        if (origin := kept.get(index)) is not None:
            last = origin
            continue
        if words := sources.get(index):
            moved = removed.get(strip_layout(new[index]))
            known = [source for source in words if source is not None]
            last = known[0] if len(known) == len(words) else moved.pop(0) if moved else None
        if last is not None:
            origins[index] = last
    return origins


def find_word_sources(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk]
) -> Mapping[int, list[int | None]]:
    """Return for each inserted line with words the old line of each of its words; None for a word without one."""
    inserted = {n - 1 for hunk in hunks for n in hunk.new_range}
    first, last = hunks[0], hunks[-1]
    # First the changes together, since a diff may pair equal lines of different blocks; otherwise each by itself.
    whole = match_words(
        list_words(old, first.old_range.start - 1, last.old_range.stop - 1),
        list_words(new, first.new_range.start - 1, last.new_range.stop - 1),
    )
    if whole is None:
        parts = (
            (
                list_words(old, hunk.old_range.start - 1, hunk.old_range.stop - 1),
                list_words(new, hunk.new_range.start - 1, hunk.new_range.stop - 1),
            )
            for hunk in hunks
        )
        whole = [pair for a, b in parts for pair in match_words(a, b) or [(line, None) for _, line in b]]
    sources: dict[int, list[int | None]] = {}
    for line, source in whole:
        if line in inserted:
            sources.setdefault(line, []).append(source)
    return sources


def list_words(lines: Sequence[bytes], start: int, end: int) -> list[PlacedWord]:
    return [(word.lower(), n) for n in range(start, end) for word in WORD.findall(lines[n])]


def match_words(old: Sequence[PlacedWord], new: Sequence[PlacedWord]) -> list[tuple[int, int | None]] | None:
    """Return for each new word its line and the old line; None if too many words differ to compare them."""
    a, b = [word for word, _ in old], [word for word, _ in new]
    sources: list[int | None] = [None] * len(b)
    start = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rest = min(len(a), len(b)) - start
    end = next((n for n, (x, y) in enumerate(zip(a[::-1], b[::-1], strict=False)) if x != y or n == rest), rest)
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    if max(len(middle_a), len(middle_b)) > MAX_WORDS:
        return None
    sources[:start] = [line for _, line in old[:start]]
    sources[len(b) - end :] = [line for _, line in old[len(a) - end :]]
    for i, j, size in SequenceMatcher(None, middle_a, middle_b, autojunk=False).get_matching_blocks():
        sources[start + j : start + j + size] = [line for _, line in old[start + i : start + i + size]]
    return [(line, source) for (_, line), source in zip(new, sources, strict=True)]
