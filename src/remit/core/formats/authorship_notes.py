"""Authorship notes: who wrote which lines of a commit, in the form that other tools read too.

A note is text: for each file its path, then lines of two spaces, a key and line ranges; `---`; a JSON object that tells
who the keys are. Lines count from 1 in that commit's version. A line without an entry is of unknown origin.
Source: Git AI Standard 3.0.0 (specs/git_ai_standard_v3.0.0.md in git-ai-project/git-ai), read 2026-11.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import DecodeError, Struct, json

from remit.core.diff.line_spans import Span, merge_spans
from remit.core.json_guards import as_object, as_text

VERSION = "authorship/3.0.0"
SEPARATOR = "---"
KEY_DIGITS = 14

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NEEDS_QUOTES = re.compile(r"\s|^---$|^$")
_UNSPEAKABLE = re.compile(r'["\n\r\0\x85\u2028\u2029\ud800-\udfff]')

FORMAT_TOOL_NAMES = {"claude-code": "claude"}
"""Agents that the format calls otherwise than Remit does; all others have one name."""

UNKNOWN_NAME = "unknown"
"""What writers of the form put for a model, or a tool, that they do not know."""

REMIT_TOOL_NAMES = {theirs: ours for ours, theirs in FORMAT_TOOL_NAMES.items()}


GRADE_ATTRIBUTE = "remit.grade"
"""The attribute that says how sure Remit is of an edit; without it the edit is certain."""

LIKELY_ATTRIBUTE = "remit.likely"
"""The attribute of an edit that holds, as a JSON object of ranges by path, the lines that are likely its own. They are
no attestations: a reader that does not know the attribute takes them for nobody's.
"""


class InvalidNote(ValueError):
    """A text is no authorship note."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this is no authorship note: {why}\nhint: expected attestations, a line `---`, and JSON")
        self.why = why


class Attestation(Struct, frozen=True):
    """Lines of a file, and the key of who wrote them. The spans stand in the order of the note."""

    key: str
    spans: tuple[Span, ...]


class FileAttestation(Struct, frozen=True):
    """What a note says of one file."""

    path: str
    entries: tuple[Attestation, ...]


class Note(Struct, frozen=True):
    """A note. `about` is the JSON object, whole; `ending` is what follows it, as a few writers leave a newline."""

    files: tuple[FileAttestation, ...]
    metadata: dict[str, Any]
    ending: str = ""


class Author(Struct, frozen=True):
    """Who a key stands for. `name` is a person's; `session`, `tool` (by Remit's name) and `model` are an agent's.

    `attributes` are the writer's own: text by text.
    """

    kind: Literal["ai", "human"]
    name: str | None = None
    session: str | None = None
    tool: str | None = None
    model: str | None = None
    attributes: Mapping[str, str] = {}


def parse_note(text: str) -> Note:
    """The note that `text` is. Raises NotANote.

    Keys of unknown form are kept, and so is everything in the JSON.
    """
    lines = text.split("\n")
    files: list[FileAttestation] = []
    entries: list[Attestation] = []
    at = 0
    while at < len(lines) and lines[at] != SEPARATOR:
        if lines[at].startswith("  "):
            if not files:
                raise InvalidNote(f"line {at + 1} comes before any file: {lines[at][:80]!r}")
            entries.append(_parse_attestation(lines[at], at + 1))
        else:
            _close_file(files, entries)
            path, at = _parse_path(lines, at)
            files.append(FileAttestation(path, ()))
        at += 1
    _close_file(files, entries)
    if at == len(lines):
        raise InvalidNote("no line is `---`")
    return Note(tuple(files), *_parse_metadata("\n".join(lines[at + 1 :])))


def _close_file(files: list[FileAttestation], entries: list[Attestation]) -> None:
    if files:
        files[-1] = FileAttestation(files[-1].path, tuple(entries))
    entries.clear()


def _parse_attestation(line: str, number: int) -> Attestation:
    key, _, ranges = line[2:].partition(" ")
    found = [_RANGE.fullmatch(item) for item in ranges.split(",")]
    if not key or None in found:
        raise InvalidNote(f"line {number} is no entry: {line[:80]!r}; expected a key, and ranges such as 1-4,9")
    return Attestation(key, tuple((int(r[1]), int(r[2] or r[1])) for r in found if r))


def _parse_path(lines: Sequence[str], at: int) -> tuple[str, int]:
    """The path that begins on that line, and the line that it ends on: a quoted one may hold newlines."""
    if not lines[at].startswith('"'):
        if not lines[at] or lines[at][0].isspace():
            raise InvalidNote(f"line {at + 1} is neither a path nor an entry: {lines[at][:80]!r}")
        return lines[at], at
    end = next((n for n in range(at, len(lines)) if lines[n].endswith('"') and (n > at or len(lines[n]) > 1)), None)
    if end is None:
        raise InvalidNote(f"line {at + 1} opens a quote that nothing closes: {lines[at][:80]!r}")
    return "\n".join(lines[at : end + 1])[1:-1], end


def _parse_metadata(text: str) -> tuple[dict[str, Any], str]:
    body = text.rstrip("\n")
    try:
        about = json.decode(body, type=dict[str, Any])
    except (DecodeError, RecursionError) as error:
        raise InvalidNote(f"after `---`: {error}") from error
    if not str(about.get("schema_version")).startswith("authorship/3."):
        raise InvalidNote(f"its schema_version is {about.get('schema_version')!r}, not {VERSION!r}")
    return about, text[len(body) :]


def write_note(note: Note) -> str:
    """The text of a note. What `parse_note` read comes out byte for byte where its writer followed the form."""
    lines: list[str] = []
    for file in note.files:
        lines.append(f'"{file.path}"' if _NEEDS_QUOTES.search(file.path) else file.path)
        lines += [f"  {entry.key} {','.join(map(_format_span, entry.spans))}" for entry in file.entries]
    about = json.format(json.encode(note.metadata), indent=2).decode()
    return "\n".join([*lines, SEPARATOR, about]) + note.ending


def _format_span(span: Span) -> str:
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"


def is_attestable_path(path: str) -> bool:
    """Whether every reader takes that path as it is: the form has no escape for quotes and line ends."""
    return bool(path) and _UNSPEAKABLE.search(path) is None


def make_session_key(tool: str, conversation: str) -> str:
    """The key of an agent's session; `tool` by the format's name."""
    return f"s_{_hash_digits(f'{tool}:{conversation}')}"


def make_trace_key(record: str) -> str:
    """The key of one edit. The form asks for 14 digits that no other edit has; ours come from the record's name."""
    return f"t_{_hash_digits(record)}"


def make_human_key(person: str) -> str:
    """The key of a person: `Name <address>`."""
    return f"h_{_hash_digits(person)}"


def _hash_digits(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:KEY_DIGITS]


def find_author(note: Note, key: str) -> Author | None:
    """Who that key stands for; None where the note does not tell, and the entry means nothing."""
    if key.startswith("h_"):
        name = as_object(as_object(note.metadata.get("humans")).get(key)).get("author")
        return Author("human", name=name) if isinstance(name, str) else None
    session, _, trace = key.partition("::")
    kind = "sessions" if key.startswith("s_") else "prompts"
    known = as_object(as_object(note.metadata.get(kind)).get(session))
    agent = as_object(known.get("agent_id"))
    if not agent:
        return None
    tool = as_text(agent.get("tool"))
    given = {name: value for name, value in as_object(known.get("custom_attributes")).items() if isinstance(value, str)}
    attributes = select_attributes(given, trace)
    return Author(
        "ai",
        None,
        as_text(agent.get("id")),
        REMIT_TOOL_NAMES.get(tool or "", tool),
        as_text(agent.get("model")),
        attributes,
    )


def encode_likely_lines(trace: str, lines: Mapping[str, Sequence[Span]]) -> dict[str, str]:
    """The attribute by which an edit names its likely lines."""
    ranges = {path: ",".join(map(_format_span, spans)) for path, spans in sorted(lines.items())}
    return {f"{LIKELY_ATTRIBUTE}.{trace}": json.encode(ranges).decode()}


def read_likely_lines(note: Note) -> dict[str, dict[str, tuple[Span, ...]]]:
    """By the key of an edit and by path, the lines that the note says are likely its own. What is malformed is none."""
    found: dict[str, dict[str, tuple[Span, ...]]] = {}
    for session, about in as_object(note.metadata.get("sessions")).items():
        for name, value in as_object(as_object(about).get("custom_attributes")).items():
            if not name.startswith(f"{LIKELY_ATTRIBUTE}.t_") or not isinstance(value, str):
                continue
            try:
                ranges = json.decode(value, type=dict[str, str])
            except (DecodeError, RecursionError):
                continue
            spans = {path: tuple(_parse_spans(text)) for path, text in ranges.items()}
            found[f"{session}::{name.removeprefix(LIKELY_ATTRIBUTE)[1:]}"] = spans
    return found


def _parse_spans(text: str) -> Iterator[Span]:
    for item in text.split(","):
        if found := _RANGE.fullmatch(item):
            yield int(found[1]), int(found[2] or found[1])


def select_attributes(given: Mapping[str, str], trace: str) -> dict[str, str]:
    """The attributes of one edit: those named `<name>.<t_…>` stand before those of the whole session."""
    ending = f".{trace}"
    own = {name.removesuffix(ending): value for name, value in given.items() if trace and name.endswith(ending)}
    return {**{name: value for name, value in given.items() if ".t_" not in name}, **own}


def merge_attributes(traces: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """One set of attributes for a session out of those of its edits: what most have, and where an edit differs."""
    names = sorted({name for attributes in traces.values() for name in attributes})
    found: dict[str, str] = {}
    for name in names:
        values = [attributes.get(name, "") for attributes in traces.values()]
        most = max(values, key=values.count)
        found |= {name: most} if most else {}
        found |= {f"{name}.{trace}": own for trace, a in sorted(traces.items()) if (own := a.get(name, "")) != most}
    return found


def find_line_keys(note: Note, path: str, line_numbers: Sequence[int]) -> dict[int, str]:
    """The key that each of those lines of a file has, for keys that stand for somebody; the last entry wins.

    The work grows with the note and the lines asked about, never with what a range pretends to span.
    """
    numbers = sorted(set(line_numbers))
    after = list(range(len(numbers) + 1))
    found: dict[int, str] = {}
    entries = [entry for file in note.files if file.path == path for entry in file.entries]
    known = {key for key in {entry.key for entry in entries} if find_author(note, key)}
    for entry in reversed(entries):
        for start, end in entry.spans if entry.key in known else ():
            at = _find_unclaimed(after, bisect_left(numbers, start))
            while at < len(numbers) and numbers[at] <= end:
                found[numbers[at]] = entry.key
                after[at] = at + 1
                at = _find_unclaimed(after, at + 1)
    return found


def _find_unclaimed(after: list[int], at: int) -> int:
    """The first place from `at` on that nothing has claimed yet."""
    end = at
    while after[end] != end:
        end = after[end]
    while after[at] != at:
        after[at], at = end, after[at]
    return end


def merge_notes(first: Note, second: Note) -> Note:
    """Both notes in one: the union of lines for each path and key. Where lines overlap, and where both tell of one
    name, `first` holds. Ranges that hold no line are dropped: an entry without any makes a note that nobody reads.
    """
    files: dict[str, dict[str, list[Span]]] = {}
    for file in (*second.files, *first.files):
        of_path = files.setdefault(file.path, {})
        for entry in file.entries:
            before = of_path.pop(entry.key, [])
            of_path[entry.key] = [*before, *(span for span in entry.spans if 0 < span[0] <= span[1])]
    attested = (
        FileAttestation(path, tuple(Attestation(key, merge_spans(spans)) for key, spans in keys.items() if spans))
        for path, keys in files.items()
    )
    return Note(tuple(file for file in attested if file.entries), _merge_metadata(first.metadata, second.metadata))


def _merge_metadata(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The maps of names, united; of everything else, the first's."""
    found: dict[str, Any] = {**second, **first}
    for name in ("prompts", "humans", "sessions"):
        mine, theirs = as_object(first.get(name)), as_object(second.get(name))
        if mine or theirs:
            found[name] = {key: mine.get(key, theirs.get(key)) for key in sorted({*mine, *theirs})}
        elif name in found:
            found[name] = {}  # whatever stood there was no map
    return found
