"""Merging whole tables into a TOML settings file, and taking them out: pure, text to text.

A table is appended at the end, which TOML allows almost anywhere, and taken out by its lines. What came of it is read
again each time: where it does not say exactly what it should, nothing is changed. So no line of a person's is ever
written anew, and no rule of TOML is known twice.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TypeAlias

from remit.wiring.insertions import (
    InsertedEntry,
    Insertions,
    JsonObject,
    SettingsConflict,
    TextEdit,
    apply_edit,
    as_list,
    as_object,
    contains_settings,
    digest,
    undo_exactly,
)

TableName: TypeAlias = tuple[str, ...]
Tables: TypeAlias = Mapping[TableName, Mapping[str, object]]

TOML_BOM = "\ufeff"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class NotToml(ValueError):
    """The text is no TOML."""


def merge_toml(text: str, tables: Tables) -> tuple[str, Insertions]:
    """The text with these tables in it, and what was added. A table that says otherwise is replaced.

    Raises NotToml, and SettingsConflict where a table cannot stand there (an inline table above it, say).
    """
    document = parse_toml(text)
    for name in tables:
        if find_value(document, name) is not None and not contains_settings(find_value(document, name), tables[name]):
            text = remove_table(text, name)
            document = parse_toml(text)
    wanted = {name: table for name, table in tables.items() if find_value(document, name) is None}
    source = text.encode()
    if not wanted:
        return text, Insertions(digest(source), digest(source))
    edit = TextEdit(len(source), format_tables(text, wanted))
    after = apply_edit(source, edit)
    check_result(after.decode(), build_expected(document, wanted), next(iter(wanted)))
    entries = tuple(InsertedEntry("table", name, dict(table)) for name, table in wanted.items())
    return after.decode(), Insertions(digest(source), digest(after), (edit,), entries)


def unmerge_toml(text: str, insertions: Insertions) -> str:
    """The text without the tables that were inserted, and without what others put below them. Raises NotToml,
    SettingsConflict.
    """
    exact = undo_exactly(text.encode(), insertions)
    if exact is not None:
        return exact.decode()
    for entry in reversed(insertions.entries):
        if find_value(parse_toml(text), entry.path) is not None:
            text = remove_table(text, entry.path)
    return text


def parse_toml(text: str) -> JsonObject:
    """The document. Raises NotToml."""
    try:
        return tomllib.loads(text.removeprefix(TOML_BOM))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotToml(f"it is no TOML: {error}") from error


def find_value(document: JsonObject, name: TableName) -> object:
    """What stands under this name; None where nothing does."""
    value: object = document
    for part in name:
        members = as_object(value)
        if members is None or part not in members:
            return None
        value = members[part]
    return value


def build_expected(document: JsonObject, tables: Tables) -> JsonObject:
    """The document with these tables in it."""
    wanted = deepcopy(document)
    for name, table in tables.items():
        place = wanted
        for part in name[:-1]:
            below = as_object(place.setdefault(part, {}))
            if below is None:
                raise SettingsConflict(f"[{format_header(name)}] cannot stand below {part!r}, which is no table")
            place = below
        place[name[-1]] = dict(table)
    return wanted


def check_result(text: str, wanted: JsonObject, name: TableName) -> None:
    """Raise SettingsConflict where the text does not say what it should."""
    if parse_changed(text, name) != wanted:
        raise SettingsConflict(f"[{format_header(name)}] cannot be added")


def parse_changed(text: str, name: TableName) -> JsonObject:
    """The document after a change of this table. Raises SettingsConflict where it is none any more."""
    try:
        return parse_toml(text)
    except NotToml as error:
        raise SettingsConflict(f"[{format_header(name)}] cannot be changed here ({error})") from error


# --- text --------------------------------------------------------------------------------------------------


def find_newline(text: str) -> str:
    """How its lines end."""
    return "\r\n" if "\r\n" in text else "\n"


def format_tables(text: str, tables: Tables) -> str:
    """The tables as they are to be appended to `text`."""
    newline = find_newline(text)
    body = text.removeprefix(TOML_BOM)
    led = "" if not body else newline if body.endswith("\n") else newline * 2
    return led + newline.join(newline.join(format_table(name, table)) + newline for name, table in tables.items())


def format_table(name: TableName, table: Mapping[str, object]) -> list[str]:
    """The lines of one table."""
    return [f"[{format_header(name)}]", *(f"{format_key(key)} = {format_value(value)}" for key, value in table.items())]


def format_header(name: TableName) -> str:
    """The name as a header has it."""
    return ".".join(map(format_key, name))


def format_key(key: str) -> str:
    """One part of a name, quoted where it has to be."""
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


def format_value(value: object) -> str:
    """A string, a number, a boolean or a list of those. JSON's escapes are TOML's, but for DEL."""
    items = as_list(value)
    if items is not None:
        return f"[{', '.join(map(format_value, items))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def remove_table(text: str, name: TableName) -> str:
    """The text without this table and those below it. Raises SettingsConflict where it is not written as a table."""
    wanted = remove_value(parse_toml(text), name)
    kept = text.removeprefix(TOML_BOM).splitlines(keepends=True)
    for start, end in reversed(find_table_spans(kept, name)):
        del kept[start:end]
    left = (TOML_BOM if text.startswith(TOML_BOM) else "") + "".join(kept)
    if trim_empty_tables(parse_changed(left, name), name) != wanted:
        raise SettingsConflict(f"[{format_header(name)}] cannot be taken out")
    return left


def remove_value(document: JsonObject, name: TableName) -> JsonObject:
    """The document without what stands under this name, nor the tables above it that it leaves empty."""
    wanted = deepcopy(document)
    above = as_object(find_value(wanted, name[:-1]))
    if above is not None:
        above.pop(name[-1], None)
    return trim_empty_tables(wanted, name)


def trim_empty_tables(document: JsonObject, name: TableName) -> JsonObject:
    """The document without empty tables above this name: whether they were written out is all the same."""
    for depth in range(len(name) - 1, 0, -1):
        above = as_object(find_value(document, name[: depth - 1]))
        if above is not None and above.get(name[depth - 1]) == {}:
            del above[name[depth - 1]]
    return document


def find_table_spans(text: Sequence[str], name: TableName) -> list[tuple[int, int]]:
    """From which line to which the table and those below it reach; the comments before the next one are that one's."""
    headers = [(number, parse_table_header(line)) for number, line in enumerate(text)]
    starts = [(number, head) for number, head in headers if head is not None and is_complete_toml(text[:number])]
    ends = [number for number, _ in starts[1:]] + [len(text)]
    return [
        find_table_end(text, n, end) for (n, head), end in zip(starts, ends, strict=True) if head[: len(name)] == name
    ]


def is_complete_toml(lines_above: Sequence[str]) -> bool:
    """Whether these lines are TOML by themselves: what looks like a header below them is then no part of a string."""
    try:
        tomllib.loads("".join(lines_above))
    except tomllib.TOMLDecodeError:
        return False
    return True


def find_table_end(text: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """The lines of one table, and the empty line that leads it."""
    while end > start + 1 and (not text[end - 1].strip() or text[end - 1].lstrip().startswith("#")):
        end -= 1
    led = start > 0 and not text[start - 1].strip()
    return (start - 1 if led else start), end


def parse_table_header(line: str) -> TableName | None:
    """The name that a line announces as a table's; None for any other line."""
    if not line.lstrip().startswith("["):
        return None
    try:
        value: object = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    parts: list[str] = []
    while value:
        members, listed = as_object(value), as_list(value)
        parts += list(members or ())[:1]
        value = next(iter(members.values() if members else listed or ()), None)
    return tuple(parts) or None
