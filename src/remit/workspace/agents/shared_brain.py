"""The text of the shared brain: marked blocks in a Markdown file, all else in it left as people wrote it.

What agents say is put on one line and cannot end its block or begin another. The forms that older tools wrote
are read too, wherever they stand outside our marks.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from remit.core.intents.context_block import remove_invisible

Kind: TypeAlias = Literal["lesson", "decision", "constraint"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KIND_BY_NAME: dict[str, Kind] = {kind: kind for kind in KINDS}

TITLES: dict[Kind, str] = {"lesson": "Lesson Learned", "decision": "Decision", "constraint": "Constraint"}
MAX_PART_CHARS = 2_000
"""Characters of one part."""

MAX_BRAIN_BYTES = 4 * 1024 * 1024
"""Bytes of the file."""

CLOSE_MARK = "<!-- /remit -->"
OPEN_MARK = re.compile(r"<!-- remit:(?P<kind>[a-z]+) (?P<id>[^\s<>]{1,200}) -->")
PART_LINE = re.compile(r"\*\*(?P<name>[A-Za-z]+)(?::\*\*|\*\*:)[ \t]*(?P<value>.*)")
OLD_HEADING = re.compile(r"## (?:Lesson Learned \((?P<date>[^)\n]{1,40})\)|(?P<time>\d{4}-\d{2}-\d{2}T[^\s]{1,30}))\s*")
RULE_LINE = re.compile(r"-{3,}\s*")
FIELD_BY_PART = {
    "Intent": "intent_id",
    "Lesson": "lesson",
    "Problem": "problem",
    "Problems": "problem",
    "Issue": "problem",
    "Resolution": "resolution",
    "Pattern": "pattern",
    "Context": "context",
}


class BrainEntry(Struct, frozen=True):
    """One thing to remember. `date` is `YYYY-MM-DD`; `id` is empty where an older tool wrote it."""

    kind: Kind
    lesson: str = ""
    id: str = ""
    date: str = ""
    intent_id: str | None = None
    paths: tuple[str, ...] = ()
    problem: str = ""
    resolution: str = ""
    pattern: str = ""

    @property
    def summary(self) -> str:
        """The entry in one paragraph."""
        named = (("Problem", self.problem), ("Resolution", self.resolution), ("Pattern", self.pattern))
        parts = [self.lesson, *(f"{name}: {value}" for name, value in named if value)]
        where = f"({', '.join(self.paths)})" if self.paths else ""
        return " ".join(filter(None, (*parts, where)))


def to_plain_line(text: str) -> str:
    """`text` on one line, bounded, without a character that hides."""
    return " ".join(remove_invisible(text[: MAX_PART_CHARS * 4]).split())[:MAX_PART_CHARS].rstrip()


def escape_one_line(text: str) -> str:
    """`plain`, without a mark: nothing that opens or closes a comment is left."""
    return to_plain_line(text).replace("<!--", "&lt;!--").replace("-->", "--&gt;")


def unescape_marks(text: str) -> str:
    """What `one_line` was given, as far as it kept it."""
    return text.replace("&lt;!--", "<!--").replace("--&gt;", "-->")


def format_block(entry: BrainEntry) -> str:
    """The marked block of an entry, with its last newline."""
    parts = [
        ("Intent", entry.intent_id or ""),
        *(("File", path) for path in entry.paths),
        ("Lesson", entry.lesson),
        ("Problem", entry.problem),
        ("Resolution", entry.resolution),
        ("Pattern", entry.pattern),
    ]
    lines = [f"**{name}:** {value}" for name, text in parts if (value := escape_one_line(text))]
    return "\n".join(
        (f"<!-- remit:{entry.kind} {entry.id} -->", f"## {TITLES[entry.kind]} ({entry.date})", *lines, CLOSE_MARK, "")
    )


def append_block(text: str, added: str) -> str:
    """`text`, byte for byte, with a block after it: a blank line apart."""
    if not text:
        return added
    if text.endswith(("\n\n", "\n\r\n")):
        return text + added
    return text + ("\n" if text.endswith("\n") else "\n\n") + added


def replace_block(text: str, kind: str, name: str, added: str) -> str:
    """`text` with the block of that kind and name replaced by `added`; appended where there is none."""
    mark = f"<!-- remit:{kind} {name} -->"
    lines = text.splitlines(keepends=True)
    start = next((n for n, line in enumerate(lines) if line.strip() == mark), None)
    if start is None:
        return append_block(text, added) if added else text
    end = next((n for n in range(start + 1, len(lines)) if lines[n].strip() == CLOSE_MARK), None)
    if end is None:
        return append_block(text, added) if added else text
    return "".join((*lines[:start], added, *lines[end + 1 :]))


def split_blocks(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """(kind, name, lines) of each closed block; ("", "", lines) of what stands between them, in order."""
    outside: list[str] = []
    inside: list[str] = []
    opened: re.Match[str] | None = None
    for line in text.splitlines():
        mark = OPEN_MARK.fullmatch(line.strip())
        if mark is not None:
            outside += inside
            inside, opened = [], mark
        elif opened is not None and line.strip() == CLOSE_MARK:
            yield "", "", outside
            yield opened["kind"], opened["id"], inside
            outside, inside, opened = [], [], None
        else:
            (outside if opened is None else inside).append(line)
    yield "", "", [*outside, *inside]


def read_entries(text: str) -> tuple[BrainEntry, ...]:
    """All entries, oldest first as they stand: those in our marks, and the older forms outside them."""
    found: list[BrainEntry] = []
    for name, entry_id, lines in split_blocks(text):
        kind = KIND_BY_NAME.get(name)
        if kind is not None:
            found += parse_marked_entry(kind, entry_id, lines)
        elif not name:
            found += parse_older_entries(lines)
    return tuple(entry for entry in found if entry.summary)


def parse_marked_entry(kind: Kind, entry_id: str, lines: list[str]) -> Iterator[BrainEntry]:
    """The entry of one block."""
    heading = next((line for line in lines if line.startswith("## ")), "")
    yield build_entry(kind, entry_id, heading.rpartition("(")[2].rstrip(") "), lines)


def parse_older_entries(lines: list[str]) -> Iterator[BrainEntry]:
    """The entries that older tools wrote: a heading with a date or a time, then parts, up to a rule."""
    date, body = "", list[str]()
    for line in [*lines, "## "]:
        heading = OLD_HEADING.fullmatch(line)
        if line.startswith("#") or RULE_LINE.fullmatch(line):
            if date:
                yield build_entry("lesson", "", date[:10], body)
            date, body = (heading["date"] or heading["time"] if heading else ""), []
        else:
            body.append(line)


def build_entry(kind: Kind, entry_id: str, date: str, lines: Iterable[str]) -> BrainEntry:
    """The parts of an entry. A line that names no part goes on with the one before; at first it is the lesson."""
    parts: dict[str, list[str]] = {}
    paths: list[str] = []
    at = "lesson"
    for line in lines:
        if line.startswith("#"):
            continue
        part = PART_LINE.match(line)
        at = FIELD_BY_PART.get(part["name"], part["name"]) if part else at
        value = unescape_marks(part["value"] if part else line).strip()
        if at == "File" and part and value:
            paths.append(value)
        elif value:
            parts.setdefault(at, []).append(value)
    told = {name: " ".join(" ".join(values).split())[:MAX_PART_CHARS] for name, values in parts.items()}
    return BrainEntry(
        kind=kind,
        lesson=" ".join(filter(None, (told.get("lesson"), told.get("context")))),
        id=entry_id,
        date=date,
        intent_id=told.get("intent_id"),
        paths=tuple(paths),
        problem=told.get("problem", ""),
        resolution=told.get("resolution", ""),
        pattern=told.get("pattern", ""),
    )
