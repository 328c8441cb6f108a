"""What was put into a text: enough to take it out byte for byte, or by structure where others wrote meanwhile."""

import hashlib
from typing import Literal, TypeAlias, cast

from msgspec import Struct

JsonObject: TypeAlias = dict[str, object]
EntryKind: TypeAlias = Literal["member", "item", "switch", "table"]


class SettingsConflict(ValueError):
    """The settings cannot hold what is wanted without changing what a person wrote. `why` is a clause."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; change it by hand, then run `remit init` again")
        self.why = why


class TextEdit(Struct, frozen=True):
    """One splice: at byte `at` of the text so far, `put` came in. Nothing was taken out but `took`."""

    at: int
    put: str
    took: str = ""


class InsertedEntry(Struct, frozen=True):
    """One thing that was added, by structure.

    `path` leads to it. A `member` is a key with its value, an `item` is an element of the list at `path`, a
    `table` is one of TOML, and a `switch` is a number, true, false or null that stood there as `before`.
    """

    kind: EntryKind
    path: tuple[str, ...]
    value: object
    before: object = None


class Insertions(Struct, frozen=True):
    """Everything that one merge added. `edits` are in the order in which they were made.

    `before` and `after` are the SHA-256 of the text around them: where it is still `after`, undoing the edits
    gives back `before`, byte for byte. `root` tells that the text held no document at all.
    """

    before: str
    after: str
    edits: tuple[TextEdit, ...] = ()
    entries: tuple[InsertedEntry, ...] = ()
    root: bool = False


def digest(source: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(source).hexdigest()


def apply_edit(source: bytes, edit: TextEdit) -> bytes:
    """The text with the edit in it."""
    return source[: edit.at] + edit.put.encode() + source[edit.at + len(edit.took.encode()) :]


def undo_exactly(source: bytes, insertions: Insertions) -> bytes | None:
    """The text as it was before; None where it is no longer what the merge left."""
    if digest(source) != insertions.after:
        return None
    for edit in reversed(insertions.edits):
        end = edit.at + len(edit.put.encode())
        source = source[: edit.at] + edit.took.encode() + source[end:]
    return source if digest(source) == insertions.before else None


def as_object(value: object) -> JsonObject | None:
    """`value` where it is an object."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[object] | None:
    """`value` where it is a list."""
    return cast("list[object]", value) if isinstance(value, list) else None


def is_same_value(left: object, right: object) -> bool:
    """Equality in which `true` is not 1."""
    return type(left) is type(right) and left == right


def contains_settings(have: object, wanted: object) -> bool:
    """Whether everything wanted stands in `have`, which may hold more."""
    there, asked = as_object(have), as_object(wanted)
    if there is not None and asked is not None:
        return all(key in there and contains_settings(there[key], value) for key, value in asked.items())
    stands, listed = as_list(have), as_list(wanted)
    if stands is not None and listed is not None:
        return all(any(contains_settings(one, value) for one in stands) for value in listed)
    return is_same_value(have, wanted)
