"""Text of the shared brain: marked blocks in a Markdown file; other text stays as people wrote it.

Agents' text is reduced to a line and cannot end its block or begin a new one. Forms of older tools are read, too,
outside the marks.
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
MAX_BRAIN_BYTES = 4 * 1024 * 1024

CLOSE_MARK = "<!-- /remit -->"
OPEN_MARK = re.compile(r"<!-- remit:(?P<kind>[a-z]+) (?P<id>[^\s<>]{1,200}) -->")
PART_LINE = re.compile(r"\*\*(?P<name>[A-Za-z]+)(?::\*\*|\*\*:)[ \t]*(?P<value>.*)")
OLD_HEADING = re.compile(r"## (?:Lesson Learned \((?P<date>[^)\n]{1,40})\)|(?P<time>\d{4}-\d{2}-\d{2}T[^\s]{1,30}))\s*")
RULE_LINE = re.compile(r"-{3,}\s*")
PARTS = ("Lesson", "Problem", "Resolution", "Pattern", "Context")
OTHER_PARTS = {"Intent": "intent_id", "Problems": "problem", "Issue": "problem"}
FIELD_BY_PART = {name: name.lower() for name in PARTS} | OTHER_PARTS


class BrainEntry(Struct, frozen=True):
    """An entry to remember. `date` is `YYYY-MM-DD`; `id` is empty for entries of older tools."""

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
        named = (("Problem", self.problem), ("Resolution", self.resolution), ("Pattern", self.pattern))
        parts = [self.lesson, *(f"{name}: {value}" for name, value in named if value)]
        where = f"({', '.join(self.paths)})" if self.paths else ""
        return " ".join(filter(None, (*parts, where)))


def to_plain_line(text: str) -> str:
    """Return `text` on a single line, bounded, without invisible characters."""
    return " ".join(remove_invisible(text[: MAX_PART_CHARS * 4]).split())[:MAX_PART_CHARS].rstrip()


def escape_one_line(text: str) -> str:
    return to_plain_line(text).replace("<!--", "&lt;!--").replace("-->", "--&gt;")


def format_block(entry: BrainEntry) -> str:
    parts = [("Intent", entry.intent_id or ""), *(("File", path) for path in entry.paths), ("Lesson", entry.lesson)]
    parts += [("Problem", entry.problem), ("Resolution", entry.resolution), ("Pattern", entry.pattern)]
    lines = [f"**{name}:** {value}" for name, text in parts if (value := escape_one_line(text))]
    head = (f"<!-- remit:{entry.kind} {entry.id} -->", f"## {TITLES[entry.kind]} ({entry.date})")
    return "\n".join((*head, *lines, CLOSE_MARK, ""))


def append_block(text: str, added: str) -> str:
    if not text or text.endswith(("\n\n", "\n\r\n")):
        return text + added
    return text + ("\n" if text.endswith("\n") else "\n\n") + added


def replace_block(text: str, kind: str, name: str, added: str) -> str:
    lines = text.splitlines(keepends=True)
    plain = [line.strip() for line in lines]
    try:
        start = plain.index(f"<!-- remit:{kind} {name} -->")
        end = plain.index(CLOSE_MARK, start + 1)
    except ValueError:
        return append_block(text, added) if added else text
    return "".join((*lines[:start], added, *lines[end + 1 :]))


def split_blocks(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (kind, name, lines) of each closed block; ("", "", lines) for text between, in order."""
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
    """Return the entries in file order, oldest first: marked blocks and older forms."""
    found: list[BrainEntry] = []
    for name, entry_id, lines in split_blocks(text):
        kind = KIND_BY_NAME.get(name)
        if kind is not None:
            heading = next((line for line in lines if line.startswith("## ")), "")
            found.append(build_entry(kind, entry_id, heading.rpartition("(")[2].rstrip(") "), lines))
        elif not name:
            found += parse_older_entries(lines)
    return tuple(entry for entry in found if entry.summary)


def parse_older_entries(lines: list[str]) -> Iterator[BrainEntry]:
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
    parts: dict[str, list[str]] = {}
    paths: list[str] = []
    at = "lesson"
    for line in lines:
        if line.startswith("#"):
            continue
        part = PART_LINE.match(line)
        at = FIELD_BY_PART.get(part["name"], part["name"]) if part else at
        value = (part["value"] if part else line).replace("&lt;!--", "<!--").replace("--&gt;", "-->").strip()
        if at == "File" and part and value:
            paths.append(value)
        elif value:
            parts.setdefault(at, []).append(value)
    output = {name: " ".join(" ".join(values).split())[:MAX_PART_CHARS] for name, values in parts.items()}
    return BrainEntry(
        kind=kind,
        lesson=" ".join(filter(None, (output.get("lesson"), output.get("context")))),
        id=entry_id,
        date=date,
        intent_id=output.get("intent_id"),
        paths=tuple(paths),
        **{name: output.get(name, "") for name in ("problem", "resolution", "pattern")},
    )
