"""Insertions into a settings file, recorded for removal byte for byte or by structure."""

import hashlib
from typing import Literal, TypeAlias, cast

from msgspec import Struct

JsonObject: TypeAlias = dict[str, object]
EntryKind: TypeAlias = Literal["member", "item", "switch", "table"]


class SettingsConflict(ValueError):
    """Settings in conflict with a person's own settings. `why` is a clause."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; change it by hand, then run `remit init` again")
        self.why = why


class TextEdit(Struct, frozen=True):
    """A replacement of text: at byte `at`, `put` replaced `took`, usually an empty text."""

    at: int
    put: str
    took: str = ""


class InsertedEntry(Struct, frozen=True):
    """An added element, by structure.

    `path` is the element's path. A `member` is a key with a value, an `item` an element of the list at `path`, a
    `table` a TOML table, and a `switch` a number, boolean or null that replaced `before`.
    """

    kind: EntryKind
    path: tuple[str, ...]
    value: object
    before: object = None


class Insertions(Struct, frozen=True):
    """The additions of a merge. `edits` are in order of application.

    `before` and `after` are the SHA-256 of the text before and after the merge: if the text still has the hash `after`,
    undoing the edits restores the original byte for byte. `root` is True if the text held no document at all.
    """

    before: str
    after: str
    edits: tuple[TextEdit, ...] = ()
    entries: tuple[InsertedEntry, ...] = ()
    root: bool = False


def digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


def apply_edit(source: bytes, edit: TextEdit) -> bytes:
    return source[: edit.at] + edit.put.encode() + source[edit.at + len(edit.took.encode()) :]


def undo_exactly(source: bytes, insertions: Insertions) -> bytes | None:
    """Return the text without the edits; None if the text changed since the merge."""
    if digest(source) != insertions.after:
        return None
    for edit in reversed(insertions.edits):
        end = edit.at + len(edit.put.encode())
        source = source[: edit.at] + edit.took.encode() + source[end:]
    return source if digest(source) == insertions.before else None


def object_or_none(value: object) -> JsonObject | None:
    """Return an object unchanged, None for other values."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def list_or_none(value: object) -> list[object] | None:
    """Return a list unchanged, None for other values."""
    return cast("list[object]", value) if isinstance(value, list) else None


def is_same_value(left: object, right: object) -> bool:
    """Compare values; unlike `==`, True differs from 1."""
    return type(left) is type(right) and left == right


def contains_settings(have: object, wanted: object) -> bool:
    """Return True if `have` contains everything in `wanted`, possibly among more."""
    present, requested = object_or_none(have), object_or_none(wanted)
    if present is not None and requested is not None:
        return all(key in present and contains_settings(present[key], value) for key, value in requested.items())
    current, listed = list_or_none(have), list_or_none(wanted)
    if current is not None and listed is not None:
        return all(any(contains_settings(item, value) for item in current) for value in listed)
    return is_same_value(have, wanted)
