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

from remit.core.display_text import escape_surrogates

TITLE = "# Intent Map\n"
NO_INTENT = "No intent"
"""The heading of what changed while no intent was selected. Ids of intents hold no space."""

MARKUP_CHARS = frozenset("\\`*[]<>&#|~!·")
MARKUP_IN_CONTEXT = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])|:(?=//)|(?<=www)\.(?=\S)", re.IGNORECASE)
"""Signs that mark up where they stand: `__init__` is bold to a viewer and `snake_case` is not; an address is a link."""
MAX_NAME_CHARS = 400
"""Characters of a name that are shown; what is longer ends in `…`. Paths and ids are shown whole."""

MAX_LINE_NUMBER = 1 << 62
"""Line numbers are sorted up to there: a record of others may claim any."""


class ChangedPart(Struct, frozen=True):
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


class MapEntry(Struct, frozen=True):
    """What one record tells the map. An empty `intent` means that none was selected; `name` is what it was called.

    `at` is the record's time, as records write it. `lacking` are the git names of contents that were not at hand: with
    them more might be told.
    """

    intent: str
    name: str | None = None
    files: tuple[tuple[str, tuple[ChangedPart, ...]], ...] = ()
    at: str = ""
    lacking: tuple[str, ...] = ()


class IntentSection(Struct):
    """One intent: what it was called last and when, and its lines by path."""

    named_at: tuple[str, str] = ("", "")
    files: dict[str, set["RenderedPart"]] = {}


RenderedPart: TypeAlias = tuple[int, int, str]
"""One part as it is written, after what it is sorted by."""

SectionRow: TypeAlias = tuple[str, str, str, str]
"""Intent, its name, a path, and the lines below that, all as they are written; the last two may be empty."""


def render_map(entries: Iterable[MapEntry]) -> str:
    """The map of these records."""
    sections: dict[str, IntentSection] = {}
    for one in entries:
        section = sections.setdefault(escape_markup(escape_surrogates(one.intent)), IntentSection())
        section.named_at = max(section.named_at, latest_name(one))
        for path, lines in rendered_files(one):
            section.files.setdefault(path, set()).update(lines)
    return join_sections(row for intent in sorted(sections) for row in section_rows(intent, sections[intent]))


def latest_name(entry: MapEntry) -> tuple[str, str]:
    """When the intent was called what; of two names at one time the later in the order of characters counts."""
    return (
        (escape_markup(entry.at), escape_markup(truncate(entry.name)))
        if entry.intent and entry.name is not None
        else ("", "")
    )


def rendered_files(entry: MapEntry) -> Iterator[tuple[str, list[RenderedPart]]]:
    """The paths and lines that a record adds."""
    for path, parts in entry.files:
        if path and parts:
            yield (
                escape_markup(escape_surrogates(path)),
                [(min(p.start, MAX_LINE_NUMBER), min(p.end, MAX_LINE_NUMBER), render_part(p)) for p in parts],
            )


def section_rows(intent: str, section: IntentSection) -> Iterator[SectionRow]:
    """The files of one intent, in their order."""
    name = section.named_at[1]
    if not section.files:
        yield intent, name, "", ""
    for path in sorted(section.files):
        yield intent, name, path, join_lines(line for *_, line in sorted(section.files[path]))


# --- writing ---------------------------------------------------------------------------------------------------


def join_sections(rows: Iterable[SectionRow]) -> str:
    """The text of rows that are in their order; what changed under no intent comes last."""
    found: list[str] = []
    last: list[str] = []
    for (intent, name), files in groupby(rows, itemgetter(0, 1)):
        blocks = found if intent else last
        blocks += [f"## {render_heading(intent, name)}\n", "### Files\n"]
        for *_, path, lines in files:
            blocks += [f"#### {path}\n", lines] if path else []
    return "\n".join([TITLE, *found, *last])


def join_lines(lines: Iterable[str]) -> str:
    """Lines as they stand below their path."""
    return "".join(f"{line}\n" for line in lines)


def render_heading(intent: str, name: str) -> str:
    """The heading of an intent. Its id and its name are `plain` already."""
    if not intent:
        return NO_INTENT
    title = intent.replace(" ", "&#32;")
    return f"{title}: {name}" if name else title


def render_part(part: ChangedPart) -> str:
    """One part on one line."""
    lines = f"Lines {part.start}-{part.end}" if part.start else "Deleted" if part.gone else "Changed"
    digest = f" (`{escape_word(part.hash)}`)" if part.hash else ""
    node = f" {escape_word(part.kind)} `{escape_code(part.name)}`" if part.kind and part.name else ""
    return f"- **{lines}**{digest}{node} · created {escape_word(part.created)} · trace {escape_word(part.trace)}"


def escape_markup(text: str, also: str = "") -> str:
    """`text` inside a line of Markdown: it reads as itself, and marks nothing up."""
    last = len(text) - 1
    marks = {n for found in MARKUP_IN_CONTEXT.finditer(text) for n in range(found.start(), found.end())}
    return "".join(
        f"&#{ord(c)};"
        if c in MARKUP_CHARS or c in also or n in marks or is_unprintable(c) or (c == " " and n in (0, last))
        else c
        for n, c in enumerate(text)
    )


def escape_word(text: str) -> str:
    """`text` as one word of a line; `-` where there is none."""
    return escape_markup(truncate(text), also=" ()") or "-"


def escape_code(text: str) -> str:
    """`text` inside backquotes, where no reference is read: what would end them is written as `\\u{60}`."""
    cut = truncate(text)
    last = len(cut) - 1
    return "".join(
        "\\\\"
        if c == "\\"
        else f"\\u{{{ord(c):x}}}"
        if c == "`" or is_unprintable(c) or (c == " " and n in (0, last))
        else c
        for n, c in enumerate(cut)
    )


def truncate(text: str) -> str:
    """`text`, cut where it is too long."""
    return escape_surrogates(text if len(text) <= MAX_NAME_CHARS else text[: MAX_NAME_CHARS - 1] + "…")


def is_unprintable(character: str) -> bool:
    """Whether a character ends lines, moves the cursor or hides others."""
    return unicodedata.category(character)[0] == "C" or (character != " " and unicodedata.category(character)[0] == "Z")
