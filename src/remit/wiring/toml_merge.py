"""Merging tables into a TOML settings file and removing them again: pure, text to text.

New tables are appended at the end, which TOML allows almost everywhere, and removed by their position; all other text
stays as it is. After each change the text is parsed again, and a result other than the expected document raises
SettingsConflict.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from typing import TypeAlias

from remit.core.diff.contents import sha256
from remit.wiring import manifest

TableName: TypeAlias = tuple[str, ...]
Tables: TypeAlias = Mapping[TableName, Mapping[str, object]]
TOML_BOM = "\ufeff"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEADER_LINE = re.compile(r"^[ \t]*\[.*\]", re.MULTILINE)
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""+|"(?:\\.|[^"\\\n])*"' + r"|'''.*?'''+|'[^'\n]*'|#[^\n]*", re.DOTALL
)


class NotToml(ValueError):
    """A text that is not TOML."""


def merge_toml(text: str, tables: Tables) -> tuple[str, manifest.Insertions]:
    """Return the text with these tables, and the additions. A table with other content is replaced. Raises NotToml, and
    SettingsConflict if a table cannot be added (e.g. below an inline table).
    """
    document = parse_toml(text)
    for name, table in tables.items():
        present = find_value(document, name)
        if present is not None and not manifest.contains_settings(present, table):
            text = remove_table(text, name)
            document = parse_toml(text)
    wanted = {name: table for name, table in tables.items() if find_value(document, name) is None}
    before = text.encode()
    if not wanted:
        return text, manifest.Insertions(sha256(before), sha256(before))
    expected = deepcopy(document)
    for name, table in wanted.items():
        parent = expected
        for part in name[:-1]:
            child = manifest.object_or_none(parent.setdefault(part, {}))
            if child is None:
                raise manifest.SettingsConflict(
                    f"[{format_header(name)}] cannot stand below {part!r}, which is no table"
                )
            parent = child
        parent[name[-1]] = dict(table)
    newline, body = "\r\n" if "\r\n" in text else "\n", text.removeprefix(TOML_BOM)
    lines: list[str] = []
    for name, table in wanted.items():
        lines += [f"[{format_header(name)}]", *(f"{format_key(k)} = {format_value(v)}" for k, v in table.items()), ""]
    lead = "" if not body else newline if body.endswith("\n") else newline * 2  # an empty line before
    edit = manifest.TextEdit(len(before), lead + newline.join(lines))
    after = manifest.apply_edit(before, edit)
    require_document(after.decode(), next(iter(wanted)), expected, "added")
    entries = tuple(manifest.InsertedEntry("table", name, dict(table)) for name, table in wanted.items())
    return after.decode(), manifest.Insertions(sha256(before), sha256(after), (edit,), entries)


def unmerge_toml(text: str, insertions: manifest.Insertions) -> str:
    """Return the text without the inserted tables and their subtables. Raises NotToml, SettingsConflict."""
    exact = manifest.undo_exactly(text.encode(), insertions)
    if exact is not None:
        return exact.decode()
    for entry in reversed(insertions.entries):
        if find_value(parse_toml(text), entry.path) is not None:
            text = remove_table(text, entry.path)
    return text


def remove_table(text: str, name: TableName) -> str:
    """Return the text without this table and its subtables. Raises SettingsConflict if it has no header of its own."""
    expected = parse_toml(text)
    if (parent := manifest.object_or_none(find_value(expected, name[:-1]))) is not None:
        parent.pop(name[-1], None)
    for start, end in reversed(find_table_spans(text, name)):
        text = text[:start] + text[end:]
    require_document(text, name, trim_empty_tables(expected, name), "taken out")
    return text


# --- documents ---------------------------------------------------------------------------------------------


def parse_toml(text: str) -> manifest.JsonObject:
    try:
        return tomllib.loads(text.removeprefix(TOML_BOM))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotToml(f"it is no TOML: {error}") from error


def require_document(text: str, name: TableName, expected: manifest.JsonObject, change: str) -> None:
    """Raise SettingsConflict unless the text, after a change of this table, is the expected document."""
    try:
        document = parse_toml(text)
    except NotToml as error:
        raise manifest.SettingsConflict(f"[{format_header(name)}] cannot be changed here ({error})") from error
    if trim_empty_tables(document, name) != expected:
        raise manifest.SettingsConflict(f"[{format_header(name)}] cannot be {change}")


def find_value(document: manifest.JsonObject, name: TableName) -> object:
    value: object = document
    for part in name:
        members = manifest.object_or_none(value)
        if members is None or part not in members:
            return None
        value = members[part]
    return value


def trim_empty_tables(document: manifest.JsonObject, name: TableName) -> manifest.JsonObject:
    for depth in range(len(name) - 1, 0, -1):
        parent = manifest.object_or_none(find_value(document, name[: depth - 1]))
        if parent is not None and parent.get(name[depth - 1]) == {}:
            del parent[name[depth - 1]]
    return document


# --- text --------------------------------------------------------------------------------------------------


def format_header(name: TableName) -> str:
    return ".".join(map(format_key, name))


def format_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else format_value(key)


def format_value(value: object) -> str:
    """Return a string, a number, a boolean or a list as TOML, which has JSON's escapes except for a literal DEL."""
    if (items := manifest.list_or_none(value)) is not None:
        return f"[{', '.join(map(format_value, items))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def find_table_spans(text: str, name: TableName) -> list[tuple[int, int]]:
    first = len(TOML_BOM) if text.startswith(TOML_BOM) else 0
    shown = text.replace(TOML_BOM, " ", 1) if first else text
    # Lines of a string may look like headers or comments.
    shown = _STRING_OR_COMMENT.sub(lambda m: re.sub(r"[\[#]", "x", m[0]) if "\n" in m[0] else m[0], shown)
    headers = [(m.start(), parse_header(m[0])) for m in _HEADER_LINE.finditer(shown)]
    starts = [max(start, first) for start, _ in headers]
    spans: list[tuple[int, int]] = []
    for start, end, (_, header) in zip(starts, [*starts[1:], len(text)], headers, strict=True):
        if header[: len(name)] != name:
            continue
        lines = shown[start:end].split("\n")
        while lines[-1].strip()[:1] in ("", "#"):
            lines.pop()
        previous = text.rfind("\n", 0, max(start - 1, 0)) + 1
        is_led = start > first and not text[max(previous, first) : start].strip()
        spans.append((max(previous, first) if is_led else start, min(start + len("\n".join(lines)) + 1, len(text))))
    return spans


def parse_header(line: str) -> TableName:
    """Return the parts of a table's name; none if the line is no header."""
    try:
        value: object = tomllib.loads(line.strip())
    except tomllib.TOMLDecodeError:
        return ()
    parts: list[str] = []
    while members := manifest.object_or_none(value):
        part, value = next(iter(members.items()))
        parts.append(part)
    return tuple(parts)
