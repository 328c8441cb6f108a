"""Reading `remit.toml`, and the folder of hooks beside it."""

import os
import re
from pathlib import Path
from typing import TypeGuard, TypeVar, get_args

import msgspec
from msgspec import Struct

from remit.core.config import Config
from remit.core.contents import sha256
from remit.core.hooks import Hook, HookFile, NamedHook

LIMIT = 256 * 1024

HOOKS = "hooks"
"""The folder, beside `remit.toml`, whose `*.toml` files add hooks; the other files are what these may run."""

HOOK_FILES_MOST = 200
HOOK_FILE_BYTES = 1 << 20

Decoded = TypeVar("Decoded", Config, HookFile)


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
        return decoded(contents(path, LIMIT), Config)
    except OSError as error:
        raise ConfigError(f"it cannot be read ({error.strerror})") from error


def config_text(path: Path) -> str | None:
    """The file as it is, line ends included; None where there is none. Raises ConfigError, OSError."""
    try:
        return contents(path, LIMIT).decode() if path.exists() else None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8 ({error.reason} at byte {error.start}); save it so") from error


def read_hooks(folder: Path) -> HookFolder:
    """The hooks of the folder at `folder`. Raises ConfigError naming the file and what is wrong in it."""
    hooks: list[NamedHook] = []
    lines: list[str] = []
    for path in hook_files(folder):
        name = f"{HOOKS}/{path.relative_to(folder).as_posix()}"
        try:
            content = contents(path, HOOK_FILE_BYTES)
            found = decoded(content, HookFile).hooks if is_hook_file(folder, path) else ()
        except OSError as error:
            raise ConfigError(f"{name}: it cannot be read ({error.strerror})") from error
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error
        hooks += named(name, found)
        lines.append(f"{sha256(content)} {name}\n")
    return HookFolder(tuple(hooks), sha256(os.fsencode("".join(lines))) if lines else "")


def named(file: str, hooks: tuple[Hook, ...]) -> list[NamedHook]:
    """The hooks of one file, numbered as they stand there."""
    return [NamedHook(f"{file}#{number}", hook) for number, hook in enumerate(hooks, 1)]


def is_hook_file(folder: Path, path: Path) -> bool:
    """Whether the file adds hooks: it lies in the folder itself, not further down."""
    return path.parent == folder and path.suffix == ".toml"


def hook_files(folder: Path) -> list[Path]:
    """Every file below the folder, by name. Raises ConfigError where there are too many to look at for each call."""
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        folders.sort()
        found += (Path(here, name) for name in names)
        if len(found) > HOOK_FILES_MOST:
            raise ConfigError(f"{HOOKS}/: it holds more than {HOOK_FILES_MOST} files")
    return sorted(found)


def contents(path: Path, most: int) -> bytes:
    """The bytes of a file. Raises ConfigError for what is none, or is too large; OSError."""
    if not path.is_file():
        raise ConfigError("it is not a file")
    if path.stat().st_size > most:
        raise ConfigError(f"it is larger than {most // 1024} KiB")
    return path.read_bytes()


def decoded(content: bytes, kind: type[Decoded]) -> Decoded:
    """The TOML as `kind`. Raises ConfigError naming what is wrong, and under which key."""
    try:
        return msgspec.toml.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{error}{expected_at(str(error), kind)}") from error


def expected_at(said: str, kind: type[Struct]) -> str:
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
