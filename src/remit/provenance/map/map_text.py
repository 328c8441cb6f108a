"""Text of `intent_map.md`: the intents, their files, and the changed parts of each file.

The text is a function of the set of records, in any order: adding single records (`map_state`) and a rebuild give the
same bytes. Names and paths come from agents and people: characters special in Markdown become character references, and
each line stays a single line.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct

from remit.core.untrusted_input import escape_surrogates

TITLE = "# Intent Map\n"
NO_INTENT = "No intent"  # heading of changes without a selected intent. Intent ids contain no space.
MARKUP_CHARS = frozenset("\\`*[]<>&#|~!·")
MARKUP_IN_CONTEXT = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])|:(?=//)|(?<=www)\.(?=\S)", re.IGNORECASE)
"""Characters that are markup by context: a viewer shows `__init__` bold and `snake_case` plain, and links an
address.
"""
MAX_NAME_CHARS = 400  # characters of a name that are shown; longer names end in `…`. Paths and ids are shown whole.
MAX_LINE_NUMBER = 1 << 62  # upper bound of line numbers in the sort key: a foreign record may claim any number


class ChangedPart(Struct, frozen=True):
    """A change of a part of a file. `start` 0 means no lines: the file is gone, or lines were only removed. `kind` and
    `name` are of the changed definition, empty if the lines belong to none; `hash` is of the definition, else of the
    lines. `created` is a date.
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
    """Content of one record for the map. An empty `intent` means none selected; `name` is the intent's name at the
    time. `at` is the record's time. `lacking` are blobs that were unavailable: with them the entry might hold more.
    """

    intent: str
    name: str | None = None
    files: tuple[tuple[str, tuple[ChangedPart, ...]], ...] = ()
    at: str = ""
    lacking: tuple[str, ...] = ()


class IntentSection(Struct):
    """An intent: the newest name with the time, and the lines by path."""

    named_at: tuple[str, str] = ("", "")
    files: dict[str, set["RenderedPart"]] = {}


RenderedPart: TypeAlias = tuple[int, int, str]  # one rendered part, behind its sort key

SectionRow: TypeAlias = tuple[str, str, str, str]
"""Intent, intent name, path and lines, as rendered; the last two may be empty."""


def render_map(entries: Iterable[MapEntry]) -> str:
    """Return the map of these records."""
    sections: dict[str, IntentSection] = {}
    for entry in entries:
        section = sections.setdefault(escape_markup(escape_surrogates(entry.intent)), IntentSection())
        section.named_at = max(section.named_at, latest_name(entry))
        for path, lines in rendered_files(entry):
            section.files.setdefault(path, set()).update(lines)
    rows: list[SectionRow] = []
    for intent, section in sorted(sections.items(), key=itemgetter(0)):
        name, files = section.named_at[1], sorted(section.files.items(), key=itemgetter(0))
        rows += [(intent, name, path, join_lines(line for *_, line in sorted(lines))) for path, lines in files]
        rows += [] if files else [(intent, name, "", "")]
    return join_sections(rows)


def latest_name(entry: MapEntry) -> tuple[str, str]:
    """Return time and name of the intent; of two names at one time the greater counts."""
    if not entry.intent or entry.name is None:
        return ("", "")
    return escape_markup(entry.at), escape_markup(truncate(entry.name))


def rendered_files(entry: MapEntry) -> Iterator[tuple[str, list[RenderedPart]]]:
    for path, parts in entry.files:
        if path and parts:
            yield (
                escape_markup(escape_surrogates(path)),
                [(min(p.start, MAX_LINE_NUMBER), min(p.end, MAX_LINE_NUMBER), render_part(p)) for p in parts],
            )


# --- writing ---------------------------------------------------------------------------------------------------


def join_sections(rows: Iterable[SectionRow]) -> str:
    """Join the rows, which are in order; changes without intent come last."""
    sections: list[str] = []
    without_intent: list[str] = []
    for (intent, name), files in groupby(rows, itemgetter(0, 1)):
        blocks = sections if intent else without_intent
        blocks += [f"## {render_heading(intent, name)}\n", "### Files\n"]
        for *_, path, lines in files:
            blocks += [f"#### {path}\n", lines] if path else []
    return "\n".join([TITLE, *sections, *without_intent])


def join_lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def render_heading(intent: str, name: str) -> str:
    if not intent:
        return NO_INTENT
    title = intent.replace(" ", "&#32;")
    return f"{title}: {name}" if name else title


def render_part(part: ChangedPart) -> str:
    lines = f"Lines {part.start}-{part.end}" if part.start else "Deleted" if part.gone else "Changed"
    digest = f" (`{escape_word(part.hash)}`)" if part.hash else ""
    node = f" {escape_word(part.kind)} `{escape_code(part.name)}`" if part.kind and part.name else ""
    return f"- **{lines}**{digest}{node} · created {escape_word(part.created)} · trace {escape_word(part.trace)}"


def escape_markup(text: str, more: str = "") -> str:
    """Escape `text`, and the characters `more`, for a line of Markdown without markup."""
    marked = {n for match in MARKUP_IN_CONTEXT.finditer(text) for n in range(match.start(), match.end())}
    marked |= {n for n, c in enumerate(text) if c in MARKUP_CHARS or c in more or is_unprintable(c)}
    marked |= {n for n in (0, len(text) - 1) if text[n : n + 1] == " "}
    return "".join(f"&#{ord(c)};" if n in marked else c for n, c in enumerate(text))


def escape_word(text: str) -> str:
    return escape_markup(truncate(text), more=" ()") or "-"


def escape_code(text: str) -> str:
    """Escape `text` between backquotes, inside which Markdown reads no references: a backquote becomes `\\u{60}`."""
    cut = truncate(text)
    escaped: list[str] = []
    for n, c in enumerate(cut):
        is_edge = c == " " and n in (0, len(cut) - 1)
        code = f"\\u{{{ord(c):x}}}" if c == "`" or is_edge or is_unprintable(c) else c
        escaped.append("\\\\" if c == "\\" else code)
    return "".join(escaped)


def truncate(text: str) -> str:
    return escape_surrogates(text if len(text) <= MAX_NAME_CHARS else text[: MAX_NAME_CHARS - 1] + "…")


def is_unprintable(character: str) -> bool:
    category = unicodedata.category(character)[0]
    return category == "C" or (character != " " and category == "Z")
