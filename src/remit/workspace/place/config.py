"""Reading `remit.toml`, and the folder of hooks beside it.

The `[[grants]]` of `remit.toml`: text in, text out, and every byte outside the change as it was.

A grant is appended as a table of its own, which TOML allows almost anywhere, and taken out by its lines. What came of
it is read again: where it does not say exactly what it should, nothing is changed.
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
"""The folder, beside `remit.toml`, whose `*.toml` files add hooks; the other files are what these may run."""

MAX_HOOK_FILES = 200
MAX_HOOK_FILE_BYTES = 1 << 20

TomlType = TypeVar("TomlType", Config, HookFile)


class ConfigError(ValueError):
    """A file of the configuration is there and cannot be used."""


class HookFolder(Struct, frozen=True):
    """The hooks of the folder, its files in the order of their names. `files` is the SHA-256 of all its contents."""

    hooks: tuple[NamedHook, ...] = ()
    files: str = ""


def read_config(path: Path) -> Config | None:
    """The configuration; None where there is no file. Raises ConfigError naming what is wrong."""
    try:
        if not path.is_file():
            if path.exists():
                raise ConfigError(f"{path.name} is not a file")
            return None
        return decode_toml(read_bounded_file(path, MAX_CONFIG_BYTES), Config)
    except OSError as error:
        raise ConfigError(f"it cannot be read ({error.strerror})") from error


def read_config_text(path: Path) -> str | None:
    """The file as it is, line ends included; None where there is none. Raises ConfigError, OSError."""
    try:
        return read_bounded_file(path, MAX_CONFIG_BYTES).decode() if path.exists() else None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8 ({error.reason} at byte {error.start}); save it so") from error


def read_hooks(folder: Path) -> HookFolder:
    """The hooks of the folder at `folder`. Raises ConfigError naming the file and what is wrong in it."""
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
    """The hooks of one file, numbered as they stand there."""
    return [NamedHook(f"{file}#{number}", hook) for number, hook in enumerate(hooks, 1)]


def is_hook_file(folder: Path, path: Path) -> bool:
    """Whether the file adds hooks: it lies in the folder itself, not further down."""
    return path.parent == folder and path.suffix == ".toml"


def list_hook_files(folder: Path) -> list[Path]:
    """Every file below the folder, by name. Raises ConfigError where there are too many to look at for each call."""
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        folders.sort()
        found += (Path(here, name) for name in names)
        if len(found) > MAX_HOOK_FILES:
            raise ConfigError(f"{HOOKS_FOLDER}/: it holds more than {MAX_HOOK_FILES} files")
    return sorted(found)


def read_bounded_file(path: Path, max_bytes: int) -> bytes:
    """The bytes of a file. Raises ConfigError for what is none, or is too large; OSError."""
    if not path.is_file():
        raise ConfigError("it is not a file")
    if path.stat().st_size > max_bytes:
        raise ConfigError(f"it is larger than {max_bytes // 1024} KiB")
    return path.read_bytes()


def decode_toml(content: bytes, kind: type[TomlType]) -> TomlType:
    """The TOML as `kind`. Raises ConfigError naming what is wrong, and under which key."""
    try:
        return msgspec.toml.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{error}{expected_words(str(error), kind)}") from error


def expected_words(said: str, kind: type[Struct]) -> str:
    """What may stand where a word was none of those that are known: the library's error does not tell."""
    place = re.search(r"Invalid enum value .* at `\$((?:\.\w+)+)`", said)
    wanted: object = kind
    for name in place[1].split(".")[1:] if place else ():
        known = {field.name: field.type for field in msgspec.structs.fields(wanted)} if is_struct(wanted) else {}
        wanted = known.get(name)
    words = [word for part in (wanted, *get_args(wanted)) for word in get_args(part) if isinstance(word, str)]
    return f"; expected {' or '.join(dict.fromkeys(words))}" if place and words else ""


def is_struct(kind: object) -> TypeGuard[type[Struct]]:
    """Whether it is a table of the configuration."""
    return isinstance(kind, type) and issubclass(kind, Struct)


GRANTS_KEY = "grants"
GRANT_HEADER = f"[[{GRANTS_KEY}]]"


def add_grant(text: str, grant: ProjectGrant) -> str:
    """The text of `remit.toml` with this grant as its last. Raises ConfigError where it cannot be put there."""
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
    """The text without the grant of that id. Raises ConfigError where its lines cannot be told from others."""
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
    """Where the table begins, with the empty line before it."""
    return start - 1 if start and not kept[start - 1].strip() else start


def table_end(kept: list[str], start: int) -> int:
    """The line after the table: comments and empty lines before the next one are that one's."""
    end = next((n for n in range(start + 1, len(kept)) if kept[n].lstrip().startswith("[")), len(kept))
    while end > start + 1 and (not kept[end - 1].strip() or kept[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def grant_lines(grant: ProjectGrant) -> list[str]:
    """The lines of one entry. JSON's strings and lists of strings are TOML's, but for DEL."""
    told = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in grant_fields(grant).items())
    return [GRANT_HEADER, *(line.replace("\x7f", "\\u007f") for line in told)]


def grant_fields(grant: ProjectGrant) -> dict[str, Any]:
    """What an entry says, without what it leaves open."""
    told: dict[str, Any] = msgspec.to_builtins({**msgspec.structs.asdict(grant), "command": list(grant.command)})
    return {key: value for key, value in told.items() if value}


def parse_toml(text: str) -> dict[str, Any]:
    """The file as it is read. Raises ConfigError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"it is no TOML ({error}); mend it first") from error


def parse_toml_or_none(text: str) -> dict[str, Any] | None:
    """The file as it would be read; None where it could not be."""
    try:
        return parse_toml(text)
    except ConfigError:
        return None
