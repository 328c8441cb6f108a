"""Insertions into settings files, and the manifest of wired files: `~/.local/state/remit/wired.json` (0600).

The manifest holds hashes of the settings files and Remit's own insertions, no other content. It is what takes the
wiring out again: byte for byte, or by structure where a file changed since.
"""

from pathlib import Path
from typing import Literal, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import sha256
from remit.core.machine_paths import MANIFEST_PATH
from remit.core.python_runtime import prepare_type
from remit.workspace.safe_files import write_atomically

JsonObject: TypeAlias = dict[str, object]
EntryKind: TypeAlias = Literal["member", "item", "switch", "table"]
MANIFEST_FORMAT = 1


class SettingsError(RuntimeError):
    """Settings that cannot be read, wired or unwired. `path` is the file, if the error is about one."""

    is_unavailable = False
    """Whether something is missing on the machine, rather than wrong in the settings."""

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


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
    """An added element, by structure. `path` is the element's path. A `member` is a key with a value, an `item` an
    element of the list at `path`, a `table` a TOML table, and a `switch` a number, boolean or null that replaced
    `before`.
    """

    kind: EntryKind
    path: tuple[str, ...]
    value: object
    before: object = None


class Insertions(Struct, frozen=True):
    """The additions of a merge. `edits` are in order of application. `before` and `after` are the SHA-256 of the text
    before and after the merge: if the text still has the hash `after`, undoing the edits restores the original byte for
    byte. `root` is True if the text held no document at all.
    """

    before: str
    after: str
    edits: tuple[TextEdit, ...] = ()
    entries: tuple[InsertedEntry, ...] = ()
    root: bool = False


class WiredFile(Struct, frozen=True):
    """A settings file. `folders` are folders created with the file, innermost last; `at` is ISO 8601 in UTC."""

    path: str
    agents: tuple[str, ...]
    insertions: Insertions
    created: bool = False
    folders: tuple[str, ...] = ()
    at: str = ""
    version: str = ""


class Manifest(Struct, frozen=True):
    """The wired files, and the roots of the repositories set up by `init`. `client` is the SHA-256 of the installed
    hook client, empty if unknown. `moved` are settings folders outside their usual place below HOME, as found by
    `init`.
    """

    format: int = MANIFEST_FORMAT
    files: tuple[WiredFile, ...] = ()
    repositories: tuple[str, ...] = ()
    client: str = ""
    moved: dict[str, str] = {}

    def find_file(self, path: Path) -> WiredFile | None:
        return next((f for f in self.files if f.path == str(path)), None)

    def with_file(self, file: WiredFile) -> "Manifest":
        return replace(self, files=(*self.without_file(Path(file.path)).files, file))

    def without_file(self, path: Path) -> "Manifest":
        return replace(self, files=tuple(f for f in self.files if f.path != str(path)))

    def with_repository(self, root: Path) -> "Manifest":
        return replace(self, repositories=tuple(dict.fromkeys((*self.repositories, str(root)))))

    def without_repository(self, root: Path) -> "Manifest":
        return replace(self, repositories=tuple(r for r in self.repositories if r != str(root)))


class ManifestError(SettingsError):
    """An unusable manifest."""

    def __init__(self, path: Path, why: str) -> None:
        advice = "Move it away: `remit uninstall --all-agents` then finds what is ours by its looks"
        super().__init__(f"{str(path)!r} cannot be read ({why}). {advice}", path)


def read_manifest(home: Path) -> Manifest:
    """Read the manifest; an empty one if the file is missing. Raises ManifestError."""
    path = home / MANIFEST_PATH
    try:
        found = msgspec.json.decode(path.read_bytes(), type=prepare_type(Manifest))
    except FileNotFoundError:
        return Manifest()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ManifestError(path, str(error)[:200]) from error
    if found.format != MANIFEST_FORMAT:
        raise ManifestError(path, f"its format is {found.format!r}, expected {MANIFEST_FORMAT}")
    return found


def write_manifest(home: Path, manifest: Manifest) -> None:
    path = home / MANIFEST_PATH
    if not manifest.files and not manifest.repositories:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(manifest), indent=1), 0o600)


# --- insertions --------------------------------------------------------------------------------------------


def apply_edit(source: bytes, edit: TextEdit) -> bytes:
    return source[: edit.at] + edit.put.encode() + source[edit.at + len(edit.took.encode()) :]


def undo_exactly(source: bytes, insertions: Insertions) -> bytes | None:
    """Return the text without the edits; None if the text changed since the merge."""
    if sha256(source) != insertions.after:
        return None
    for edit in reversed(insertions.edits):
        source = apply_edit(source, TextEdit(edit.at, edit.took, edit.put))
    return source if sha256(source) == insertions.before else None


def object_or_none(value: object) -> JsonObject | None:
    return cast("JsonObject", value) if isinstance(value, dict) else None


def list_or_none(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None


def is_same_value(left: object, right: object) -> bool:
    """Compare values; unlike `==`, True differs from 1."""
    return type(left) is type(right) and left == right


def contains_settings(have: object, wanted: object) -> bool:
    present, requested = object_or_none(have), object_or_none(wanted)
    if present is not None and requested is not None:
        return all(key in present and contains_settings(present[key], value) for key, value in requested.items())
    current, listed = list_or_none(have), list_or_none(wanted)
    if current is not None and listed is not None:
        return all(any(contains_settings(item, value) for item in current) for value in listed)
    return is_same_value(have, wanted)
