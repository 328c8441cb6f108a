"""`intent_map.md`: which intent changed which parts of which files. Derived from the ledger, and rebuilt from it.

The text is a function of the set of records, whatever their order: a map to which each was added as it came
(`state`) equals one that is made anew, byte for byte. Names and paths are other people's words: what could be read
as markup is written as a character reference, and each line stays one line.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct

from remit.core.text import encodable

TITLE = "# Intent Map\n"
NO_INTENT = "No intent"
"""The heading of what changed while no intent was selected. Ids of intents hold no space."""

MARKUP = frozenset("\\`*[]<>&#|~!·")
MARKING = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])|:(?=//)|(?<=www)\.(?=\S)", re.IGNORECASE)
"""Signs that mark up where they stand: `__init__` is bold to a viewer and `snake_case` is not; an address is a link."""
LONGEST = 400
"""Characters of a name that are shown; what is longer ends in `…`. Paths and ids are shown whole."""

MOST = 1 << 62
"""Line numbers are sorted up to there: a record of others may claim any."""


class Part(Struct, frozen=True):
    """One change of one part of a file. With `start` 0 there are no lines: the file is gone, or lines only went.

    `kind` and `name` are those of the definition that was changed, empty where the lines belong to none; `hash` is the
    definition's, else that of the lines. `created` is a date.
    """

    start: int
    end: int
    hash: str = ""
    kind: str = ""
    name: str = ""
    created: str = ""
    trace: str = ""
    gone: bool = False


class Told(Struct, frozen=True):
    """What one record tells the map. An empty `intent` means that none was selected; `name` is what it was called.

    `at` is the record's time, as records write it. `lacking` are the git names of contents that were not at hand: with
    them more might be told.
    """

    intent: str
    name: str | None = None
    files: tuple[tuple[str, tuple[Part, ...]], ...] = ()
    at: str = ""
    lacking: tuple[str, ...] = ()


class Section(Struct):
    """One intent: what it was called last and when, and its lines by path."""

    called: tuple[str, str] = ("", "")
    files: dict[str, set["Line"]] = {}


Line: TypeAlias = tuple[int, int, str]
"""One part as it is written, after what it is sorted by."""

Row: TypeAlias = tuple[str, str, str, str]
"""Intent, its name, a path, and the lines below that, all as they are written; the last two may be empty."""


def rebuilt(told: Iterable[Told]) -> str:
    """The map of these records."""
    sections: dict[str, Section] = {}
    for one in told:
        section = sections.setdefault(plain(encodable(one.intent)), Section())
        section.called = max(section.called, called(one))
        for path, lines in files_of(one):
            section.files.setdefault(path, set()).update(lines)
    return assembled(row for intent in sorted(sections) for row in rows_of(intent, sections[intent]))


def called(told: Told) -> tuple[str, str]:
    """When the intent was called what; of two names at one time the later in the order of characters counts."""
    return (plain(told.at), plain(cut_short(told.name))) if told.intent and told.name is not None else ("", "")


def files_of(told: Told) -> Iterator[tuple[str, list[Line]]]:
    """The paths and lines that a record adds."""
    for path, parts in told.files:
        if path and parts:
            yield plain(encodable(path)), [(min(p.start, MOST), min(p.end, MOST), part_line(p)) for p in parts]


def rows_of(intent: str, section: Section) -> Iterator[Row]:
    """The files of one intent, in their order."""
    name = section.called[1]
    if not section.files:
        yield intent, name, "", ""
    for path in sorted(section.files):
        yield intent, name, path, together(line for *_, line in sorted(section.files[path]))


# --- writing ---------------------------------------------------------------------------------------------------


def assembled(rows: Iterable[Row]) -> str:
    """The text of rows that are in their order; what changed under no intent comes last."""
    found: list[str] = []
    last: list[str] = []
    for (intent, name), files in groupby(rows, itemgetter(0, 1)):
        blocks = found if intent else last
        blocks += [f"## {heading(intent, name)}\n", "### Files\n"]
        for *_, path, lines in files:
            blocks += [f"#### {path}\n", lines] if path else []
    return "\n".join([TITLE, *found, *last])


def together(lines: Iterable[str]) -> str:
    """Lines as they stand below their path."""
    return "".join(f"{line}\n" for line in lines)


def heading(intent: str, name: str) -> str:
    """The heading of an intent. Its id and its name are `plain` already."""
    if not intent:
        return NO_INTENT
    title = intent.replace(" ", "&#32;")
    return f"{title}: {name}" if name else title


def part_line(part: Part) -> str:
    """One part on one line."""
    lines = f"Lines {part.start}-{part.end}" if part.start else "Deleted" if part.gone else "Changed"
    digest = f" (`{word(part.hash)}`)" if part.hash else ""
    node = f" {word(part.kind)} `{code(part.name)}`" if part.kind and part.name else ""
    return f"- **{lines}**{digest}{node} · created {word(part.created)} · trace {word(part.trace)}"


def plain(text: str, also: str = "") -> str:
    """`text` inside a line of Markdown: it reads as itself, and marks nothing up."""
    last = len(text) - 1
    marks = {n for found in MARKING.finditer(text) for n in range(found.start(), found.end())}
    return "".join(
        f"&#{ord(c)};" if c in MARKUP or c in also or n in marks or is_odd(c) or (c == " " and n in (0, last)) else c
        for n, c in enumerate(text)
    )


def word(text: str) -> str:
    """`text` as one word of a line; `-` where there is none."""
    return plain(cut_short(text), also=" ()") or "-"


def code(text: str) -> str:
    """`text` inside backquotes, where no reference is read: what would end them is written as `\\u{60}`."""
    cut = cut_short(text)
    last = len(cut) - 1
    return "".join(
        "\\\\" if c == "\\" else f"\\u{{{ord(c):x}}}" if c == "`" or is_odd(c) or (c == " " and n in (0, last)) else c
        for n, c in enumerate(cut)
    )


def cut_short(text: str) -> str:
    """`text`, cut where it is too long."""
    return encodable(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


def is_odd(character: str) -> bool:
    """Whether a character ends lines, moves the cursor or hides others."""
    return unicodedata.category(character)[0] == "C" or (character != " " and unicodedata.category(character)[0] == "Z")
