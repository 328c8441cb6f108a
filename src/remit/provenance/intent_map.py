"""`intent_map.md`: which intent changed which parts of which files. Derived from the ledger, and rebuilt from it.

The text is a function of the set of changes and of the last name of each intent: whoever makes it anew gets the same,
byte for byte. Names and paths are other people's words: what could
be read as markup is written as a character reference, and each line stays one line.
"""

import unicodedata
from collections.abc import Iterable, Iterator

from msgspec import Struct

from remit.core.text import encodable

TITLE = "# Intent Map\n"
NO_INTENT = "No intent"
"""The heading of what changed while no intent was selected. Ids of intents hold no space."""

MARKUP = frozenset("\\`*[]<>&#|~!·")
LONGEST = 400
"""Characters of a name that are shown; what is longer ends in `…`. Paths and ids are shown whole."""


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
    """What one record tells the map. An empty `intent` means that none was selected; `name` is its newest."""

    intent: str
    name: str | None = None
    files: tuple[tuple[str, tuple[Part, ...]], ...] = ()


class Section(Struct, frozen=True):
    """One intent: its name, and what it changed, by path."""

    name: str
    files: dict[str, set[Part]]


Sections = dict[str, Section]


def rebuilt(told: Iterable[Told]) -> str:
    """The map of these records, oldest first."""
    return written(added({}, told))


def added(sections: Sections, told: Iterable[Told]) -> Sections:
    """The sections with what the records tell."""
    for one in told:
        intent = encodable(one.intent)
        section = sections.setdefault(intent, Section("", {}))
        for path, parts in one.files:
            section.files.setdefault(encodable(path), set()).update(parts)
        if intent and one.name is not None:
            sections[intent] = Section(one.name, section.files)
    return sections


# --- writing ---------------------------------------------------------------------------------------------------


def written(sections: Sections) -> str:
    """The text: intents by id, files by path, parts by line."""
    order = sorted(sections, key=lambda intent: (intent == "", plain(intent)))
    return "\n".join([TITLE, *(line for intent in order for line in section_lines(intent, sections[intent]))])


def section_lines(intent: str, section: Section) -> Iterator[str]:
    """One intent."""
    name = plain(cut_short(section.name))
    heading = plain(intent, also=" ") if intent else NO_INTENT
    yield f"## {heading}: {name}\n" if name else f"## {heading}\n"
    yield "### Files\n"
    for path in sorted(section.files, key=plain):
        yield f"#### {plain(path)}\n"
        yield "".join(f"{line}\n" for line in sorted_lines(section.files[path]))


def sorted_lines(parts: Iterable[Part]) -> list[str]:
    """The lines of one file; two parts that read the same are one."""
    return [line for _, _, line in sorted({(part.start, part.end, part_line(part)) for part in parts})]


def part_line(part: Part) -> str:
    """One part on one line."""
    lines = f"Lines {part.start}-{part.end}" if part.start else "Deleted" if part.gone else "Changed"
    digest = f" (`{word(part.hash)}`)" if part.hash else ""
    node = f" {word(part.kind)} `{code(part.name)}`" if part.kind and part.name else ""
    return f"- **{lines}**{digest}{node} · created {word(part.created)} · trace {word(part.trace)}"


def plain(text: str, also: str = "") -> str:
    """`text` inside a line of Markdown: it reads as itself, and marks nothing up."""
    last = len(text) - 1
    return "".join(
        f"&#{ord(c)};" if c in MARKUP or c in also or is_odd(c) or (c == " " and n in (0, last)) else c
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
