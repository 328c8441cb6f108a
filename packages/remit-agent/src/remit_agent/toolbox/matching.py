"""Places of a text in a file, and the file after a replacement at the places.

A text is looked for in four ways, the strictest first: exactly, with different line ends, with different blanks at the
ends of lines, and with a common shift of indentation. A text less alike is never replaced; the nearest text is shown.

Contents are text decoded with `surrogateescape`: bytes outside UTF-8 survive. Lines end at LF.
"""

import difflib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import LineRange, count_common_prefix, find_edit_script, make_spans
from remit.core.diff.edits import Edit, Patching, WholeFile, encode_text
from remit.core.diff.patch import FileOperation, Patch, PatchHunk, PatchMismatch, apply_hunks

MAX_DIFF_LINES = 5000
MIN_SIMILARITY = 0.6
"""Average similarity of lines from which a text counts as near."""
MAX_COMPARED_LINES = 20_000
MAX_COMPARED_CHARS = 300
MAX_CANDIDATES = 12
MAX_NEAR_PLACES = 3
MAX_SCORE_GAP = 0.3
MAX_SHOWN_LINES = 60
ANNOUNCED_CONTEXTS = (3, 12, 10**9)
"""Lines of context tried until an announced patch fits one place only."""
LINE_NUMBER = re.compile(r"^\s*\d+[ \t]?[|:\u2502\u2192\t] ?")
BLANKS = " \t"
BYTE_ORDER_MARK = "\ufeff"

Likeness: TypeAlias = Literal["exact", "line ends", "trailing blanks", "indentation"]
LOOSE_LIKENESSES: tuple[Likeness, ...] = ("trailing blanks", "indentation")


def split_with_ends(text: str) -> list[str]:
    """Split text into lines that keep their LF; a last line may have none."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def line_body(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def find_line_end(text: str) -> str:
    """Return the line end that most lines of the text have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def encode_content(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def decode_content(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


# --- places -----------------------------------------------------------------------------------------------


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
    """Return the places of a text that differs in line ends only, and need not begin or end with a line."""
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
    """Yield the indices at which `wanted` stands in `lines`."""
    longest = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    wanted = list(wanted)
    for at, line in enumerate(lines):
        first = at - longest
        if line == wanted[longest] and first >= 0 and lines[first : first + len(wanted)] == wanted:
            yield first


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
    kept: dict[int, int] = {}
    i = j = 0
    for old_start, old_end, new_start, new_end in [*script, (len(old), len(old), len(new), len(new))]:
        kept |= zip(range(j, new_start), range(i, old_start), strict=True)
        i, j = old_end, new_end
    return kept


def compose_lines(
    sought: Sequence[str],
    added: Sequence[str],
    shifted: Sequence[str],
    found: Sequence[str],
    line_end: str,
    ends: tuple[bool, bool],
) -> str:
    """Return the text that replaces whole found lines; `ends` tell whether old and new text end with a line end."""
    kept = find_kept_pairs(sought, added)
    lines: list[str] = []
    for n, line in enumerate(shifted):
        there = found[kept[n]] if n in kept else line + line_end
        lines.append(there if there.endswith("\n") else there + line_end)
    if lines and (not ends[1] or (ends[0] and not found[-1].endswith("\n"))):
        lines[-1] = line_body(lines[-1])
    return "".join(lines)


# --- the file after an edit -------------------------------------------------------------------------------


class EditedText(Struct, frozen=True):
    """A file after an edit: the lines, each with the index of its old line, or None for a written line."""

    before: str
    lines: tuple[tuple[str, int | None], ...]

    @property
    def content(self) -> str:
        return "".join(line for line, _ in self.lines)

    @property
    def positions(self) -> tuple[LineRange, ...]:
        written = (n for n, (_, origin) in enumerate(self.lines, 1) if origin is None)
        return tuple(LineRange(*span) for span in make_spans(written))

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many lines were added and removed."""
        added = sum(origin is None for _, origin in self.lines)
        return added, len(split_with_ends(self.before)) - len(self.lines) + added


def replace_places(content: str, places: Sequence[TextPlace]) -> EditedText:
    """Return the file after the exchange at places that do not overlap."""
    lines = split_with_ends(content)
    starts = [0, *accumulate(map(len, lines))]
    result: list[tuple[str, int | None]] = []
    todo = sorted(places, key=lambda place: (place.start, place.end))[::-1]
    done = 0
    while todo:
        # The lines touched by a place, and by further places in the same lines.
        first = bisect_right(starts, todo[-1].start) - 1
        first -= first == len(lines) and content[-1:] not in ("", "\n")
        at, stop, text = starts[first], first, ""
        while todo and (stop == first or todo[-1].start < starts[stop]):
            place = todo.pop()
            text += content[at : place.start] + place.text
            at = place.end
            stop = bisect_left(starts, at)
            if starts[stop] == at and text and not text.endswith("\n"):
                stop = min(stop + 1, len(lines))
            if stop == first and not text:
                break
        text += content[at : starts[stop]]
        result += ((lines[n], n) for n in range(done, first))
        added = split_with_ends(text)
        kept = find_kept_pairs(*([line.removesuffix("\n") for line in side] for side in (lines[first:stop], added)))
        result += ((line, first + kept[n] if n in kept else None) for n, line in enumerate(added))
        done = stop
    return EditedText(content, (*result, *((lines[n], n) for n in range(done, len(lines)))))


def announce_edit(path: str, edited: EditedText) -> Edit | None:
    """Return the edit for the gate, making exactly the new content; None if no edit can express the content.

    A patch tells the kept lines; the whole content is for files without a possible patch (the last line has no end).
    """
    before, after = encode_content(edited.before), encode_content(edited.content)
    wanted = [(line.removesuffix("\n"), origin) for line, origin in edited.lines]
    for context in ANNOUNCED_CONTEXTS if after.endswith(b"\n") else ():
        hunks = make_hunks(edited, context)
        try:
            if apply_hunks(before, hunks) == wanted:
                return Patching(Patch((FileOperation("update", path, hunks=hunks),)))
        except (PatchMismatch, IndexError):
            continue
    return WholeFile(edited.content) if encode_text(edited.content) == after else None


def make_hunks(edited: EditedText, context: int) -> tuple[PatchHunk, ...]:
    """Return the hunks of an edit, with so many unchanged lines around each change."""
    old, signed = [line.removesuffix("\n") for line in split_with_ends(edited.before)], list[tuple[str, str]]()
    at = 0
    for line, origin in edited.lines:
        if origin is not None:
            signed += (("-", gone) for gone in old[at:origin])
            at = origin + 1
        signed.append((" " if origin is not None else "+", line.removesuffix("\n")))
    signed += (("-", gone) for gone in old[at:])
    changed = [n for n, (sign, _) in enumerate(signed) if sign != " "]
    hunks: list[list[int]] = []
    for n in changed:
        if hunks and n - hunks[-1][1] <= 2 * context:
            hunks[-1][1] = n
        else:
            hunks.append([n, n])
    spans = [(max(0, first - context), last + context + 1) for first, last in hunks]
    return tuple(PatchHunk(tuple(sign + line for sign, line in signed[a:b])) for a, b in spans)


# --- the nearest text -------------------------------------------------------------------------------------


def describe_nearest(content: str, old: str) -> str:
    """Return the texts of the file that are most like `old`, their lines and a diff; a way out if nothing is near."""
    lines, sought = [line_body(line) for line in split_with_ends(content)], list(map(line_body, split_with_ends(old)))
    hint = ""
    if sought and all(LINE_NUMBER.match(line) for line in sought if line.strip()):
        sought = [LINE_NUMBER.sub("", line, count=1) for line in sought]
        hint = " It holds the line numbers of read_file: leave them out."
    places = find_nearest_lines(lines, sought)
    if not places:
        return f"{hint} Nothing in the file is like it: read the file again."
    shown: list[str] = []
    for first in places:
        found = lines[first : first + len(sought)]
        name = "Also near are" if shown else "The nearest text is"
        text = "\n".join(found[:MAX_SHOWN_LINES])
        diff = list(difflib.unified_diff(sought, found, "old text", "file", lineterm="", n=1))[2 : MAX_SHOWN_LINES + 2]
        difference = "" if shown else "\nDifference:\n" + "\n".join(diff)
        shown.append(f"{name} lines {first + 1}-{first + len(found)}:\n{text}{difference}")
    return "\n".join([f"{hint} {shown[0]}", *shown[1:], "If none of them is meant, read the file again."])


def find_nearest_lines(lines: Sequence[str], sought: Sequence[str]) -> list[int]:
    """Return the first index of the lines most like `sought`, and of lines about as near.

    Long lines weigh more than short ones, and equal lines more than similar ones.
    """
    seen = [line.strip()[:MAX_COMPARED_CHARS] for line in lines[:MAX_COMPARED_LINES]]
    wanted = [line.strip()[:MAX_COMPARED_CHARS] for line in sought]
    if not any(wanted):
        return []
    places: dict[str, list[int]] = {}
    for at, line in enumerate(seen):
        places.setdefault(line, []).append(at)
    votes: Counter[int] = Counter()
    longest = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    near = [] if wanted[longest] in places else difflib.get_close_matches(wanted[longest], places, 4, MIN_SIMILARITY)
    for n, line in [*enumerate(wanted), *((longest, line) for line in near)]:
        found = places.get(line, ()) if line else ()
        votes.update(dict.fromkeys((max(0, at - n) for at in found[:MAX_CANDIDATES]), len(line)))
    weights = [len(line) + 1 for line in wanted]
    scores: dict[int, float] = {}
    for first, _ in votes.most_common(MAX_CANDIDATES):
        window = [*seen[first : first + len(wanted)], *[""] * len(wanted)]
        alike = [line_similarity(a, b) for a, b in zip(wanted, window, strict=False)]
        if (
            max(sum(alike) / len(wanted), sum(w * a for w, a in zip(weights, alike, strict=True)) / sum(weights))
            >= MIN_SIMILARITY
        ):
            scores[first] = sum(w * a**3 for w, a in zip(weights, alike, strict=True)) / sum(weights)
    best = sorted(scores, key=lambda first: -scores[first])[:MAX_NEAR_PLACES]
    return [first for first in best if scores[first] >= scores[best[0]] - MAX_SCORE_GAP]


def line_similarity(a: str, b: str) -> float:
    return 1.0 if a == b else difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()
