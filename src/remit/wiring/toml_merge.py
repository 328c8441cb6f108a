"""Merging tables into a TOML settings file and removing them again: pure, text to text.

New tables are appended at the end, which TOML allows almost everywhere, and removed by their position; all other text
stays as it is. After each change the text is parsed again, and a result other than the expected document raises
SettingsConflict. Source for positions: tree-sitter-toml 0.7.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import TypeAlias

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

from remit.wiring.insertions import (
    InsertedEntry,
    Insertions,
    JsonObject,
    SettingsConflict,
    TextEdit,
    apply_edit,
    contains_settings,
    digest,
    list_or_none,
    object_or_none,
    undo_exactly,
)

TableName: TypeAlias = tuple[str, ...]
Tables: TypeAlias = Mapping[TableName, Mapping[str, object]]

TOML_BOM = "\ufeff"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class NotToml(ValueError):
    """A text that is not TOML."""


def merge_toml(text: str, tables: Tables) -> tuple[str, Insertions]:
    """Return the text with these tables, and the additions. A table with other content is replaced.

    Raises NotToml, and SettingsConflict if a table cannot be added (e.g. below an inline table).
    """
    document = parse_toml(text)
    for name, table in tables.items():
        present = find_value(document, name)
        if present is not None and not contains_settings(present, table):
            text = remove_table(text, name)
            document = parse_toml(text)
    wanted = {name: table for name, table in tables.items() if find_value(document, name) is None}
    before = text.encode()
    if not wanted:
        return text, Insertions(digest(before), digest(before))
    edit = TextEdit(len(before), format_tables(text, wanted))
    after = apply_edit(before, edit)
    first = format_header(next(iter(wanted)))
    if parse_changed(after.decode(), first) != build_expected(document, wanted):
        raise SettingsConflict(f"[{first}] cannot be added")
    entries = tuple(InsertedEntry("table", name, dict(table)) for name, table in wanted.items())
    return after.decode(), Insertions(digest(before), digest(after), (edit,), entries)


def unmerge_toml(text: str, insertions: Insertions) -> str:
    """Return the text without the inserted tables and their subtables. Raises NotToml, SettingsConflict."""
    exact = undo_exactly(text.encode(), insertions)
    if exact is not None:
        return exact.decode()
    for entry in reversed(insertions.entries):
        if find_value(parse_toml(text), entry.path) is not None:
            text = remove_table(text, entry.path)
    return text


def remove_table(text: str, name: TableName) -> str:
    """Return the text without this table and its subtables. Raises SettingsConflict if it has no header of its own."""
    expected = remove_value(parse_toml(text), name)
    source = text.encode()
    for start, end in reversed(find_table_spans(source, name)):
        source = source[:start] + source[end:]
    if trim_empty_tables(parse_changed(source.decode(), format_header(name)), name) != expected:
        raise SettingsConflict(f"[{format_header(name)}] cannot be taken out")
    return source.decode()


# --- documents ---------------------------------------------------------------------------------------------


def parse_toml(text: str) -> JsonObject:
    """Return the document. Raises NotToml."""
    try:
        return tomllib.loads(text.removeprefix(TOML_BOM))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotToml(f"it is no TOML: {error}") from error


def parse_changed(text: str, header: str) -> JsonObject:
    """Return the document after a change of the table `header`. Raises SettingsConflict if it is not TOML any more."""
    try:
        return parse_toml(text)
    except NotToml as error:
        raise SettingsConflict(f"[{header}] cannot be changed here ({error})") from error


def find_value(document: JsonObject, name: TableName) -> object:
    """Return the value with this name; None if there is none."""
    value: object = document
    for part in name:
        members = object_or_none(value)
        if members is None or part not in members:
            return None
        value = members[part]
    return value


def build_expected(document: JsonObject, tables: Tables) -> JsonObject:
    """Return the document with these tables in it. Raises SettingsConflict."""
    expected = deepcopy(document)
    for name, table in tables.items():
        parent = expected
        for part in name[:-1]:
            child = object_or_none(parent.setdefault(part, {}))
            if child is None:
                raise SettingsConflict(f"[{format_header(name)}] cannot stand below {part!r}, which is no table")
            parent = child
        parent[name[-1]] = dict(table)
    return expected


def remove_value(document: JsonObject, name: TableName) -> JsonObject:
    """Return the document without the named value and without tables above it that become empty."""
    left = deepcopy(document)
    parent = object_or_none(find_value(left, name[:-1]))
    if parent is not None:
        parent.pop(name[-1], None)
    return trim_empty_tables(left, name)


def trim_empty_tables(document: JsonObject, name: TableName) -> JsonObject:
    """Remove empty tables above this name from the document: a header of an empty table makes no difference."""
    for depth in range(len(name) - 1, 0, -1):
        parent = object_or_none(find_value(document, name[: depth - 1]))
        if parent is not None and parent.get(name[depth - 1]) == {}:
            del parent[name[depth - 1]]
    return document


# --- text --------------------------------------------------------------------------------------------------


def format_tables(text: str, tables: Tables) -> str:
    """Return the tables as text to append to `text`, led by an empty line."""
    newline = "\r\n" if "\r\n" in text else "\n"
    body = text.removeprefix(TOML_BOM)
    blank = "" if not body else newline if body.endswith("\n") else newline * 2
    blocks = (
        [
            f"[{format_header(name)}]",
            *(f"{format_key(key)} = {format_value(value)}" for key, value in table.items()),
            "",
        ]
        for name, table in tables.items()
    )
    return blank + newline.join(newline.join(block) for block in blocks)


def format_header(name: TableName) -> str:
    return ".".join(map(format_key, name))


def format_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else format_value(key)


def format_value(value: object) -> str:
    """Return a string, a number, a boolean or a list as TOML, which has JSON's escapes except for a literal DEL."""
    items = list_or_none(value)
    if items is not None:
        return f"[{', '.join(map(format_value, items))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@cache
def toml_parser() -> Parser:
    return Parser(Language(tree_sitter_toml.language()))


def find_table_spans(source: bytes, name: TableName) -> list[tuple[int, int]]:
    """Return start and end, in bytes, of the table and its subtables, each with the empty line before.

    Comments after the last key belong to the next table, so they stay.
    """
    spans: list[tuple[int, int]] = []
    for node in toml_parser().parse(source).root_node.named_children:
        if node.type not in ("table", "table_array_element") or parse_header(node)[: len(name)] != name:
            continue
        last = find_last_part(node)
        line_end = source.find(b"\n", (find_last_part(last) if last.type == "pair" else last).end_byte)
        start = source.rfind(b"\n", 0, node.start_byte) + 1
        if start == 0 and source.startswith(TOML_BOM.encode()):
            start = len(TOML_BOM.encode())
        previous = source.rfind(b"\n", 0, max(start - 1, 0)) + 1
        if start and not source[previous:start].strip():
            start = previous
        spans.append((start, len(source) if line_end < 0 else line_end + 1))
    return spans


def find_last_part(node: Node) -> Node:
    return next(child for child in reversed(node.children) if child.type != "comment")


def parse_header(table: Node) -> TableName:
    """Return the parts of a table's name."""
    key = table.named_children[0]
    parts: list[str] = []
    value: object = tomllib.loads(f"[{(key.text or b'').decode()}]")
    while (members := object_or_none(value)) and len(parts) < 99:
        part, value = next(iter(members.items()))
        parts.append(part)
    return tuple(parts)
