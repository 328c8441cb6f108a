"""The configuration in `remit.toml` and in the folder `hooks/` beside the file.

Reading gives typed values. Grants are added and removed as text, so that bytes outside the change stay; the result is
parsed again, and a result that differs from the request changes nothing.
"""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, get_args

import msgspec
from msgspec import Struct

from remit.core.config import Config
from remit.core.diff.contents import sha256
from remit.core.grant import ProjectGrant
from remit.core.team_hooks import Hook, HookFile, NamedHook

MAX_CONFIG_BYTES = 256 * 1024

HOOKS_FOLDER = "hooks"
"""Folder beside `remit.toml`: `*.toml` files add hooks, other files are programs for the hooks."""

MAX_HOOK_FILES = 200
MAX_HOOK_FILE_BYTES = 1 << 20

TomlType = TypeVar("TomlType", Config, HookFile)

GRANTS_KEY = "grants"
GRANT_HEADER = f"[[{GRANTS_KEY}]]"


class ConfigError(ValueError):
    """A configuration file exists and cannot be used."""


class HookFolder(Struct, frozen=True):
    """Hooks of the folder, ordered by file name. `files` is the SHA-256 of the contents."""

    hooks: tuple[NamedHook, ...] = ()
    files: str = ""


def read_config(path: Path) -> Config | None:
    """Return the configuration; None without a file. Raises ConfigError."""
    try:
        if not path.is_file():
            if path.exists():
                raise ConfigError(f"{path.name} is not a file")
            return None
        return decode_toml(read_bounded_file(path, MAX_CONFIG_BYTES), Config)
    except OSError as error:
        raise ConfigError(f"it cannot be read ({error.strerror})") from error


def read_config_text(path: Path) -> str | None:
    """Return the file's text with its line ends; None without a file. Raises ConfigError, OSError."""
    try:
        return read_bounded_file(path, MAX_CONFIG_BYTES).decode() if path.exists() else None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8 ({error.reason} at byte {error.start}); save it so") from error


def read_hooks(folder: Path) -> HookFolder:
    """Return the hooks of the folder. Raises ConfigError that names the file and the error."""
    hooks: list[NamedHook] = []
    lines: list[str] = []
    for path in list_hook_files(folder):
        name = f"{HOOKS_FOLDER}/{path.relative_to(folder).as_posix()}"
        try:
            content = read_bounded_file(path, MAX_HOOK_FILE_BYTES)
            found = decode_toml(content, HookFile).hooks if is_hook_file(folder, path) else ()
        except OSError as error:
            raise ConfigError(f"{name}: it cannot be read ({error.strerror})") from error
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error
        hooks += number_hooks(name, found)
        lines.append(f"{sha256(content)} {name}\n")
    return HookFolder(tuple(hooks), sha256(os.fsencode("".join(lines))) if lines else "")


def number_hooks(file: str, hooks: tuple[Hook, ...]) -> list[NamedHook]:
    return [NamedHook(f"{file}#{number}", hook) for number, hook in enumerate(hooks, 1)]


def is_hook_file(folder: Path, path: Path) -> bool:
    """Return whether the file adds hooks: files in sub-folders do not."""
    return path.parent == folder and path.suffix == ".toml"


def list_hook_files(folder: Path) -> list[Path]:
    """Return each file below the folder, by name. Raises ConfigError for too many files."""
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        folders.sort()
        found += (Path(here, name) for name in names)
        if len(found) > MAX_HOOK_FILES:
            raise ConfigError(f"{HOOKS_FOLDER}/: it holds more than {MAX_HOOK_FILES} files")
    return sorted(found)


def read_bounded_file(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file. Raises ConfigError for a non-file or a file above `max_bytes`, OSError."""
    if not path.is_file():
        raise ConfigError("it is not a file")
    if path.stat().st_size > max_bytes:
        raise ConfigError(f"it is larger than {max_bytes // 1024} KiB")
    return path.read_bytes()


def decode_toml(content: bytes, kind: type[TomlType]) -> TomlType:
    """Decode TOML as `kind`. Raises ConfigError with the key at fault."""
    try:
        return msgspec.toml.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{error}{expected_words(str(error), kind)}") from error


def expected_words(said: str, kind: type[Struct]) -> str:
    """Return the allowed words for an invalid enum value: msgspec's message lacks them."""
    path = re.search(r"Invalid enum value .* at `\$((?:\.\w+)+)`", said)
    wanted: object = kind
    for name in path[1].split(".")[1:] if path else ():
        known = {field.name: field.type for field in msgspec.structs.fields(wanted)} if is_struct(wanted) else {}
        wanted = known.get(name)
    words = [word for part in (wanted, *get_args(wanted)) for word in get_args(part) if isinstance(word, str)]
    return f"; expected {' or '.join(dict.fromkeys(words))}" if path and words else ""


def is_struct(kind: object) -> TypeGuard[type[Struct]]:
    return isinstance(kind, type) and issubclass(kind, Struct)


def add_grant(text: str, grant: ProjectGrant) -> str:
    """Append a grant to the text of `remit.toml`. Raises ConfigError if the text does not allow an appended table."""
    newline = "\r\n" if "\r\n" in text else "\n"
    before = parse_toml(text)
    led = "" if not text else newline if text.endswith("\n") else newline * 2
    after = text + led + "".join(line + newline for line in grant_lines(grant))
    if parse_toml_or_none(after) != {**before, GRANTS_KEY: [*before.get(GRANTS_KEY, []), grant_fields(grant)]}:
        raise ConfigError(
            f"a table {GRANT_HEADER} cannot be appended; add it by hand: {', '.join(grant_lines(grant)[1:])}"
        )
    return after


def remove_grant(text: str, grant_id: str) -> str:
    """Remove the grant of the given id. Raises ConfigError if its lines cannot be identified."""
    before = parse_toml(text)
    left = [entry for entry in before.get(GRANTS_KEY, []) if entry.get("id") != grant_id]
    wanted = (
        {**before, GRANTS_KEY: left} if left else {key: value for key, value in before.items() if key != GRANTS_KEY}
    )
    kept = text.splitlines(keepends=True)
    for start in (number for number, line in enumerate(kept) if line.split("#")[0].strip() == GRANT_HEADER):
        found = "".join((*kept[: table_start(kept, start)], *kept[table_end(kept, start) :]))
        if parse_toml_or_none(found) == wanted:
            return found
    raise ConfigError(f"the table {GRANT_HEADER} with `id = {json.dumps(grant_id)}` cannot be taken out; do it by hand")


def table_start(kept: list[str], start: int) -> int:
    return start - 1 if start and not kept[start - 1].strip() else start


def table_end(kept: list[str], start: int) -> int:
    end = next((n for n in range(start + 1, len(kept)) if kept[n].lstrip().startswith("[")), len(kept))
    while end > start + 1 and (not kept[end - 1].strip() or kept[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def grant_lines(grant: ProjectGrant) -> list[str]:
    """Return the lines of an entry. JSON strings and lists of strings are valid TOML, except for DEL."""
    output = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in grant_fields(grant).items())
    return [GRANT_HEADER, *(line.replace("\x7f", "\\u007f") for line in output)]


def grant_fields(grant: ProjectGrant) -> dict[str, Any]:
    output: dict[str, Any] = msgspec.to_builtins({**msgspec.structs.asdict(grant), "command": list(grant.command)})
    return {key: value for key, value in output.items() if value}


def parse_toml(text: str) -> dict[str, Any]:
    """Parse the text. Raises ConfigError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"it is no TOML ({error}); mend it first") from error


def parse_toml_or_none(text: str) -> dict[str, Any] | None:
    try:
        return parse_toml(text)
    except ConfigError:
        return None
