"""Authorship notes: the author of each line of a commit, in a text format shared by several tools.

A note holds, for each file, its path and then lines of two spaces, a key and line ranges; then `---`; then a JSON
object describing the keys. Lines count from 1 in the commit's version. Lines without an entry have an unknown origin.
Source: Git AI Standard 3.0.0 (specs/git_ai_standard_v3.0.0.md in git-ai-project/git-ai), read 2026-11.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from msgspec import DecodeError, Struct, json

from remit.core.agents import ROWS
from remit.core.diff.contents import Span, merge_spans
from remit.core.untrusted_input import as_object, as_text

VERSION = "authorship/3.0.0"
SEPARATOR = "---"
KEY_DIGITS = 14
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NEEDS_QUOTES = re.compile(r"\s|^---$|^$")
_UNSPEAKABLE = re.compile(r'["\n\r\0\x85\u2028\u2029\ud800-\udfff]')
FORMAT_TOOL_NAMES = {agent: row.note_name for agent, row in ROWS.items() if row.note_name}
"""Names of agents in the format, for agents named differently by Remit."""
UNKNOWN_NAME = "unknown"
"""Placeholder of other writers for an unknown model or tool."""
REMIT_TOOL_NAMES = {theirs: ours for ours, theirs in FORMAT_TOOL_NAMES.items()}
GRADE_ATTRIBUTE = "remit.grade"
"""Attribute with Remit's confidence in an edit; absent for certain edits."""
LIKELY_ATTRIBUTE = "remit.likely"
"""Attribute with the lines that an edit likely wrote: a JSON object of ranges by path.

Likely lines are no attestations, so readers that ignore the attribute leave them unattributed.
"""

LEDGER_ATTRIBUTE = "remit.ledger"
"""Attribute with the newest signed head of the ledger that the note was written from."""
DERIVED_ATTRIBUTE = "remit.derived_from"
"""Attribute with the commits whose notes a note repeats, separated by spaces."""


class InvalidNote(ValueError):
    """Error for text that is not an authorship note."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this is not an authorship note: {why}\nhint: expected attestations, a line `---`, and JSON")
        self.why = why


class Attestation(Struct, frozen=True):
    """Lines of a file with their author's key, spans in the order of the note."""

    key: str
    spans: tuple[Span, ...]


class FileAttestation(Struct, frozen=True):
    """The attestations of a file."""

    path: str
    entries: tuple[Attestation, ...]


class Note(Struct, frozen=True):
    """An authorship note. `metadata` is the whole JSON object; `ending` is text after it, such as a final newline."""

    files: tuple[FileAttestation, ...]
    metadata: dict[str, Any]
    ending: str = ""


class Author(Struct, frozen=True):
    """The author behind a key: a person (`name`), or an agent (`session`, `tool` by Remit's name, `model`).

    `attributes` are free text pairs from the writer of the note.
    """

    kind: Literal["ai", "human"]
    name: str | None = None
    session: str | None = None
    tool: str | None = None
    model: str | None = None
    attributes: Mapping[str, str] = {}


def parse_note(text: str) -> Note:
    """Parse a note, keeping keys of unknown form and the whole JSON object. Raises InvalidNote."""
    lines = text.split("\n")
    files: list[tuple[str, list[Attestation]]] = []
    at = 0
    while at < len(lines) and (line := lines[at]) != SEPARATOR:
        if line.startswith("  "):
            if not files:
                raise InvalidNote(f"line {at + 1} comes before any file: {line[:80]!r}")
            key, _, ranges = line[2:].partition(" ")
            spans = tuple(_parse_spans(ranges))
            if not key or len(spans) <= ranges.count(","):
                fault = f"line {at + 1} is not an entry: {line[:80]!r}"
                raise InvalidNote(f"{fault}; expected a key, and ranges such as 1-4,9")
            files[-1][1].append(Attestation(key, spans))
        elif not line.startswith('"'):
            if not line or line[0].isspace():
                raise InvalidNote(f"line {at + 1} is neither a path nor an entry: {line[:80]!r}")
            files.append((line, []))
        else:  # a quoted path may hold newlines
            ends = (n for n in range(at, len(lines)) if lines[n].endswith('"') and (n > at or len(lines[n]) > 1))
            end = next(ends, None)
            if end is None:
                raise InvalidNote(f"line {at + 1} opens a quote that nothing closes: {line[:80]!r}")
            files.append(("\n".join(lines[at : end + 1])[1:-1], []))
            at = end
        at += 1
    if at == len(lines):
        raise InvalidNote("no line is `---`")
    tail = "\n".join(lines[at + 1 :])
    body = tail.rstrip("\n")
    try:
        about = json.decode(body, type=dict[str, Any])
    except (DecodeError, RecursionError) as error:
        raise InvalidNote(f"after `---`: {error}") from error
    if not str(about.get("schema_version")).startswith("authorship/3."):
        raise InvalidNote(f"its schema_version is {about.get('schema_version')!r}, not {VERSION!r}")
    return Note(tuple(FileAttestation(path, tuple(entries)) for path, entries in files), about, tail[len(body) :])


def _parse_spans(text: str) -> Iterator[Span]:
    for item in text.split(","):
        if match := _RANGE.fullmatch(item):
            yield int(match[1]), int(match[2] or match[1])


def write_note(note: Note) -> str:
    """Return a note as text, byte for byte as parsed if its writer followed the format."""
    lines: list[str] = []
    for file in note.files:
        lines.append(f'"{file.path}"' if _NEEDS_QUOTES.search(file.path) else file.path)
        lines += [f"  {entry.key} {','.join(map(_format_span, entry.spans))}" for entry in file.entries]
    about = json.format(json.encode(note.metadata), indent=2).decode()
    return "\n".join([*lines, SEPARATOR, about]) + note.ending


def _format_span(span: Span) -> str:
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"


def is_attestable_path(path: str) -> bool:
    """Return whether the format can express a path: quotes and line ends have no escape."""
    return bool(path) and _UNSPEAKABLE.search(path) is None


def make_session_key(tool: str, conversation: str) -> str:
    return f"s_{_hash_digits(f'{tool}:{conversation}')}"


def make_trace_key(record: str) -> str:
    return f"t_{_hash_digits(record)}"


def make_human_key(person: str) -> str:
    return f"h_{_hash_digits(person)}"


def _hash_digits(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:KEY_DIGITS]


def find_author(note: Note, key: str) -> Author | None:
    """Return the author behind a key, or None if the note's metadata does not describe the key."""
    if key.startswith("h_"):
        name = as_object(as_object(note.metadata.get("humans")).get(key)).get("author")
        return Author("human", name=name) if isinstance(name, str) else None
    session, _, trace = key.partition("::")
    entry = as_object(as_object(note.metadata.get("sessions" if key.startswith("s_") else "prompts")).get(session))
    agent = as_object(entry.get("agent_id"))
    if not agent:
        return None
    tool, model = as_text(agent.get("tool")), as_text(agent.get("model"))
    given = {name: value for name, value in as_object(entry.get("custom_attributes")).items() if isinstance(value, str)}
    attributes = select_attributes(given, trace)
    return Author("ai", None, as_text(agent.get("id")), REMIT_TOOL_NAMES.get(tool or "", tool), model, attributes)


def encode_likely_lines(trace: str, lines: Mapping[str, Sequence[Span]]) -> dict[str, str]:
    ranges = {path: ",".join(map(_format_span, spans)) for path, spans in sorted(lines.items())}
    return {f"{LIKELY_ATTRIBUTE}.{trace}": json.encode(ranges).decode()}


def read_likely_lines(note: Note) -> dict[str, dict[str, tuple[Span, ...]]]:
    """Return likely lines by the key of the edit and by path, skipping malformed attributes."""
    lines_by_key: dict[str, dict[str, tuple[Span, ...]]] = {}
    for session, about in as_object(note.metadata.get("sessions")).items():
        for name, value in as_object(as_object(about).get("custom_attributes")).items():
            if name.startswith(f"{LIKELY_ATTRIBUTE}.t_") and isinstance(value, str):
                with suppress(DecodeError, RecursionError):
                    ranges = json.decode(value, type=dict[str, str])
                    spans = {path: tuple(_parse_spans(text)) for path, text in ranges.items()}
                    lines_by_key[f"{session}::{name.removeprefix(LIKELY_ATTRIBUTE)[1:]}"] = spans
    return lines_by_key


def select_attributes(given: Mapping[str, str], trace: str) -> dict[str, str]:
    """Return the attributes of an edit: attributes named `<name>.<t_…>` override the session's."""
    suffix = f".{trace}"
    of_session = {name: value for name, value in given.items() if ".t_" not in name}
    of_edit = {name.removesuffix(suffix): v for name, v in given.items() if trace and name.endswith(suffix)}
    return {**of_session, **of_edit}


def merge_attributes(traces: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Merge the attributes of a session's edits: the most common value, and each differing edit's own."""
    merged: dict[str, str] = {}
    for name in sorted({name for attributes in traces.values() for name in attributes}):
        values = {trace: attributes.get(name, "") for trace, attributes in traces.items()}
        common = max(values.values(), key=[*values.values()].count)
        merged |= {name: common} if common else {}
        merged |= {f"{name}.{trace}": value for trace, value in sorted(values.items()) if value != common}
    return merged


def find_line_keys(note: Note, path: str, line_numbers: Sequence[int]) -> dict[int, str]:
    """Return the key of each given line, for keys with a known author; the last entry wins.

    The cost grows with the note and the lines asked for, never with the length of a range: ranges are untrusted.
    """
    numbers = sorted(set(line_numbers))
    next_free = list(range(len(numbers) + 1))

    def find_unclaimed(at: int) -> int:
        # The first index from `at` without a key, compressing the visited path (union-find).
        end = at
        while next_free[end] != end:
            end = next_free[end]
        while next_free[at] != at:
            next_free[at], at = end, next_free[at]
        return end

    keys: dict[int, str] = {}
    entries = [entry for file in note.files if file.path == path for entry in file.entries]
    known_keys = {key for key in {entry.key for entry in entries} if find_author(note, key)}
    for entry in reversed(entries):
        for start, end in entry.spans if entry.key in known_keys else ():
            at = find_unclaimed(bisect_left(numbers, start))
            while at < len(numbers) and numbers[at] <= end:
                keys[numbers[at]] = entry.key
                next_free[at] = at + 1
                at = find_unclaimed(at + 1)
    return keys


def merge_notes(first: Note, second: Note) -> Note:
    """Merge two notes: the union of lines for each path and key, `first` winning conflicts.

    Empty ranges are dropped: readers reject a note with an entry without lines.
    """
    files: dict[str, dict[str, list[Span]]] = {}
    for file in (*second.files, *first.files):
        of_path = files.setdefault(file.path, {})
        for entry in file.entries:
            earlier = of_path.pop(entry.key, [])
            of_path[entry.key] = [*earlier, *(span for span in entry.spans if 0 < span[0] <= span[1])]
    attested = (
        FileAttestation(path, tuple(Attestation(key, merge_spans(spans)) for key, spans in keys.items() if spans))
        for path, keys in files.items()
    )
    metadata: dict[str, Any] = {**second.metadata, **first.metadata}
    for name in ("prompts", "humans", "sessions"):  # maps of keys are united
        preferred, additional = as_object(first.metadata.get(name)), as_object(second.metadata.get(name))
        if preferred or additional or name in metadata:
            metadata[name] = {key: preferred.get(key, additional.get(key)) for key in sorted({*preferred, *additional})}
    return Note(tuple(file for file in attested if file.entries), metadata)
