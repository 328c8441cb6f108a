"""Places of a text in a file.

A text is looked for in four ways, the strictest first: exactly, with different line ends, with different blanks at the
ends of lines, and with a common shift of indentation. Lines of a patch that Codex applies are looked for as Codex does:
exactly, without trailing white space, without any surrounding white space.

Contents are text decoded with `surrogateescape`: bytes outside UTF-8 survive. Lines end at LF.
Source: openai/codex, codex-rs/apply-patch/src/seek_sequence.rs, read 2026-11.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import (
    count_common_prefix,
    encode_content,
    find_edit_script,
    make_hunk,
    split_with_ends,
    trace_hunks,
)

MAX_DIFF_LINES = 5000
BLANKS = " \t"
BYTE_ORDER_MARK = "\ufeff"
LINE_NORMALISERS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)

Likeness: TypeAlias = Literal["exact", "line ends", "trailing blanks", "indentation"]
LOOSE_LIKENESSES: tuple[Likeness, ...] = ("trailing blanks", "indentation")


def line_body(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def find_line_end(text: str) -> str:
    """Return the line end that most lines of the text have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


class TextPlace(Struct, frozen=True):
    """A place of the text to replace: characters `start` to `end`, and the text to put there."""

    start: int
    end: int
    text: str
    likeness: Likeness = "exact"


def find_places(content: str, old: str, new: str, *, whole_lines: bool = False) -> list[TextPlace]:
    """Return the places of `old`, by the strictest likeness that has any; overlapping places count each.

    With `whole_lines`, a text inside a line counts only where no whole lines are alike.
    """
    if content.startswith(BYTE_ORDER_MARK):
        old, new = old.removeprefix(BYTE_ORDER_MARK), new.removeprefix(BYTE_ORDER_MARK)
        places = find_places(content[1:], old, new, whole_lines=whole_lines)
        return [replace(place, start=place.start + 1, end=place.end + 1) for place in places]
    if not old:
        return []
    if whole_lines:
        if lines := find_line_places(content, old, new, ("line ends", *LOOSE_LIKENESSES)):
            return lines
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    if "\n" not in old and "\r" not in new and find_line_end(content) == "\r\n":
        new = new.replace("\n", "\r\n")
    if exact := [TextPlace(at, at + len(old), new) for at in find_occurrences(content, old)]:
        return exact
    inside, lines = find_plain_places(content, old, new), find_line_places(content, old, new, ("line ends",))
    if inside:  # a last line without its end counts only where there is no other place
        return lines if [each.start for each in lines] == [each.start for each in inside] else inside
    if lines:
        return lines
    return find_line_places(content, old, new, LOOSE_LIKENESSES)


def find_occurrences(content: str, text: str) -> Iterator[int]:
    """Yield where a text stands; never from the middle of a CRLF on."""
    at = content.find(text)
    while at >= 0:
        if text[0] != "\n" or content[at - 1 : at] != "\r":
            yield at
        at = content.find(text, at + 1)


def find_plain_places(content: str, old: str, new: str) -> list[TextPlace]:
    plain, sought = content.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    if plain == content and sought == old:
        return []
    # Offsets in the plain text of line ends that lost their CR.
    shortened = [match.start() - n for n, match in enumerate(re.finditer("\r\n", content))]
    added = new.replace("\r\n", "\n").replace("\n", find_line_end(content))

    def original(at: int) -> int:
        return at + bisect_left(shortened, at)

    places = find_occurrences(plain, sought)
    return [TextPlace(original(at), original(at + len(sought)), added, "line ends") for at in places]


def find_line_places(content: str, old: str, new: str, likenesses: Sequence[Likeness]) -> list[TextPlace]:
    """Return the places of whole lines by the first likeness with a place.

    Lines repeated in the new text keep their bytes of the file.
    """
    lines, sought = split_with_ends(content), [line_body(line) for line in split_with_ends(old)]
    added = [line_body(line) for line in split_with_ends(new)]
    bodies = [line_body(line) for line in lines]
    starts = [0, *accumulate(map(len, lines))]
    stripped = [body.rstrip(BLANKS) for body in bodies]
    ways: tuple[tuple[Likeness, list[str], list[str]], ...] = (
        ("line ends", bodies, sought),
        ("trailing blanks", stripped, [line.rstrip(BLANKS) for line in sought]),
        ("indentation", [line.lstrip(BLANKS) for line in stripped], [line.strip(BLANKS) for line in sought]),
    )
    for likeness, seen, wanted in ways:
        if likeness not in likenesses or (likeness == "indentation" and not any(wanted)):
            continue
        places: list[TextPlace] = []
        for first in find_line_runs(seen, wanted):
            found = lines[first : first + len(sought)]
            shifted = shift_lines(sought, added, found) if likeness == "indentation" else added
            if shifted is not None:
                ends = old.endswith("\n"), new.endswith("\n")
                text = compose_lines(sought, added, shifted, found, find_line_end(content), ends)
                end = starts[first + len(sought)] - (0 if ends[0] else len(found[-1]) - len(line_body(found[-1])))
                places.append(TextPlace(starts[first], end, text, likeness))
        if places:
            return places
    return []


def find_line_runs(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    longest = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    wanted = list(wanted)
    for at, line in enumerate(lines):
        first = at - longest
        if line == wanted[longest] and first >= 0 and lines[first : first + len(wanted)] == wanted:
            yield first


def find_loosely(lines: Sequence[str], wanted: Sequence[str], at: int, *, at_end: bool = False) -> int | None:
    """Return the index of `wanted` from `at` on as Codex finds it, at the end of the file first with `at_end`."""
    last = len(lines) - len(wanted)
    if not wanted:
        return last if at_end else at
    for look in LINE_NORMALISERS:
        runs = find_line_runs([look(line) for line in lines], [look(line) for line in wanted])
        if found := [start for start in runs if start >= at]:
            return last if at_end and found[-1] == last else found[0]
    return None


def shift_lines(sought: Sequence[str], added: Sequence[str], found: Sequence[str]) -> list[str] | None:
    """Return the new lines shifted by the common indentation between found lines and sought lines; None without one."""
    shifts: set[tuple[str, str]] = set()
    for line, there in zip(sought, found, strict=True):
        mine, theirs = indentation_of(line), indentation_of(there)
        if not line.strip(BLANKS):
            continue
        if theirs.endswith(mine):
            shifts.add(("", theirs[: len(theirs) - len(mine)]))
        elif mine.endswith(theirs):
            shifts.add((mine[: len(mine) - len(theirs)], ""))
        else:
            return None
    if len(shifts) != 1:
        return None
    ((less, more),) = shifts
    if any(line.strip(BLANKS) and not line.startswith(less) for line in added):
        return None
    return [more + line.removeprefix(less) if line.strip(BLANKS) else line for line in added]


def indentation_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANKS))]


def find_kept_pairs(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Return the index of the old line for each new line that stays."""
    before, after = ([encode_content(line) for line in side] for side in (old, new))
    script = find_edit_script(before, after, MAX_DIFF_LINES)
    if script is None:  # too long to compare: what both ends share stays
        start = count_common_prefix(before, after)
        end = count_common_prefix(before[start:][::-1], after[start:][::-1])
        script = [(start, len(before) - end, start, len(after) - end)]
    return dict(trace_hunks([make_hunk(*part) for part in script], len(new)))


def compose_lines(
    sought: Sequence[str],
    added: Sequence[str],
    shifted: Sequence[str],
    found: Sequence[str],
    line_end: str,
    ends: tuple[bool, bool],
) -> str:
    kept = find_kept_pairs(sought, added)
    lines: list[str] = []
    for n, line in enumerate(shifted):
        there = found[kept[n]] if n in kept else line + line_end
        lines.append(there if there.endswith("\n") else there + line_end)
    if lines and (not ends[1] or (ends[0] and not found[-1].endswith("\n"))):
        lines[-1] = line_body(lines[-1])
    return "".join(lines)
