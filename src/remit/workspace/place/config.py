"""The configuration in `remit.toml` and in the folder `hooks/` beside the file, and a person's trust in its commands.

Reading gives typed values. Grants are added and removed as text, so that bytes outside the change stay; the result is
parsed again, and a result that differs from the request changes nothing. Trust is stored outside the repository.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec import Struct

from remit.core.config import Config, Hook, HookFile, MachineSettings, NamedHook, TrustItem
from remit.core.decision import ProjectGrant
from remit.core.diff.contents import sha256
from remit.core.machine_paths import CONFIG_PATH, STATE_FOLDER
from remit.core.python_runtime import prepare_type
from remit.workspace.safe_files import write_atomically

MAX_CONFIG_BYTES = 256 * 1024

HOOKS_FOLDER = "hooks"  # folder beside `remit.toml`: `*.toml` files add hooks, other files are programs for the hooks
MAX_HOOK_FILES = 200
MAX_HOOK_FILE_BYTES = 1 << 20

TomlType = TypeVar("TomlType", Config, HookFile, MachineSettings)

GRANT_HEADER = "[[grants]]"
TRUST_FOLDER = f"{STATE_FOLDER}/trust"


class ConfigError(ValueError):
    """A configuration file exists and cannot be used."""


class HookFolder(Struct, frozen=True):
    """Hooks of the folder, ordered by file name. `files` is the SHA-256 of the contents."""

    hooks: tuple[NamedHook, ...] = ()
    files: str = ""


def read_config(path: Path) -> Config | None:
    try:
        if not path.is_file():
            if path.exists():
                raise ConfigError(f"{path.name} is not a file")
            return None
        return decode_toml(read_bounded_file(path, MAX_CONFIG_BYTES), Config)
    except OSError as error:
        raise ConfigError(f"it cannot be read ({error.strerror})") from error


def read_personal_settings(home: Path) -> MachineSettings:
    """Return the settings of the person on this machine. Raises ConfigError that names the file."""
    path = home / CONFIG_PATH
    try:
        found = os.path.lexists(path)
        return decode_toml(read_bounded_file(path, MAX_CONFIG_BYTES), MachineSettings) if found else MachineSettings()
    except OSError as error:
        raise ConfigError(f"~/{CONFIG_PATH}: it cannot be read ({error.strerror})") from error
    except ConfigError as error:
        raise ConfigError(f"~/{CONFIG_PATH}: {error}") from error


def read_config_text(path: Path) -> str | None:
    """Return the file's text with its line ends; None without a file. Raises ConfigError, OSError."""
    try:
        return read_bounded_file(path, MAX_CONFIG_BYTES).decode() if path.exists() else None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8 ({error.reason} at byte {error.start}); save it so") from error


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
        return msgspec.toml.decode(content, type=prepare_type(kind))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        # msgspec's message on an invalid enum value lacks the allowed words.
        path = re.search(r"Invalid enum value .* at `\$((?:\.\w+)+)`", str(error))
        wanted: object = kind
        for name in path[1].split(".")[1:] if path else ():
            struct = cast("type[Struct]", wanted) if hasattr(wanted, "__struct_fields__") else Struct
            fields = msgspec.structs.fields(struct)
            wanted = next((field.type for field in fields if field.name == name), None)
        words = [word for part in (wanted, *get_args(wanted)) for word in get_args(part) if isinstance(word, str)]
        expected = f"; expected {' or '.join(dict.fromkeys(words))}" if path and words else ""
        raise ConfigError(f"{error}{expected}") from error


# -- hooks ---------------------------------------------------------------------------------------------------


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


# -- grants --------------------------------------------------------------------------------------------------


def add_grant(text: str, grant: ProjectGrant) -> str:
    """Append a grant to the text of `remit.toml`. Raises ConfigError if the text does not allow an appended table."""
    fields: dict[str, Any] = msgspec.to_builtins({**msgspec.structs.asdict(grant), "command": list(grant.command)})
    fields = {key: value for key, value in fields.items() if value}
    # JSON strings and lists of strings are valid TOML, except for DEL.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    lines = [line.replace("\x7f", "\\u007f") for line in lines]
    newline = "\r\n" if "\r\n" in text else "\n"
    before = parse_toml(text)
    led = "" if not text else newline if text.endswith("\n") else newline * 2
    after = text + led + "".join(line + newline for line in (GRANT_HEADER, *lines))
    if not _reads_as(after, {**before, "grants": [*before.get("grants", []), fields]}):
        raise ConfigError(f"a table {GRANT_HEADER} cannot be appended; add it by hand: {', '.join(lines)}")
    return after


def remove_grant(text: str, grant_id: str) -> str:
    """Remove the grant of the given id. Raises ConfigError if its lines cannot be identified."""
    wanted = parse_toml(text)
    wanted["grants"] = [entry for entry in wanted.get("grants", []) if entry.get("id") != grant_id]
    if not wanted["grants"]:
        del wanted["grants"]
    lines = text.splitlines(keepends=True)
    for start in (number for number, line in enumerate(lines) if line.split("#")[0].strip() == GRANT_HEADER):
        end = next((n for n in range(start + 1, len(lines)) if lines[n].lstrip().startswith("[")), len(lines))
        while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        before = start - 1 if start and not lines[start - 1].strip() else start
        if _reads_as(left := "".join((*lines[:before], *lines[end:])), wanted):
            return left
    raise ConfigError(f"the table {GRANT_HEADER} with `id = {json.dumps(grant_id)}` cannot be taken out; do it by hand")


TOML_STRING = r"""(?:"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*')"""
TOML_VALUE = rf"""(?:{TOML_STRING}|\[(?:{TOML_STRING}|\#[^\n]*|[^\[\]"'\#])*\]|[^\s\#\[\]"']+)"""
"""A value on one line, or a list without lists."""


def set_value(text: str, name: str, value: bool | float | str | list[str] | None) -> str:
    """Return the text of `remit.toml` with a setting such as `approvals.timeout_s`; None takes the setting out. All
    other bytes stay. Raises ConfigError if the lines of the setting cannot be identified.
    """
    table, _, key = name.rpartition(".")
    newline = "\r\n" if "\r\n" in text else "\n"
    # 1. Where the table's lines begin and end, and the setting in them.
    start = 0
    header = re.compile(rf"^[ \t]*\[[ \t]*{re.escape(table)}[ \t]*\][^\n]*(?:\n|\Z)", re.MULTILINE).search(text)
    if table:
        start = header.end() if header else len(text)
    following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, start)
    end = following.start() if following else len(text)
    pattern = rf"^([ \t]*{re.escape(key)}[ \t]*=[ \t]*){TOML_VALUE}([^\n]*(?:\n|\Z))"
    line = re.compile(pattern, re.MULTILINE).search(text, start, end)
    # 2. The text with the line changed, inserted or taken out.
    written = f"{key} = {json.dumps(value, ensure_ascii=False)}{newline}".replace("\x7f", "\\u007f")
    if line and value is None:
        after = text[: line.start()] + text[line.end() :]
    elif line:
        after = text[: line.start()] + line[1] + written[len(key) + 3 : -len(newline)] + line[2] + text[line.end() :]
    elif value is None:
        after = text
    else:
        gap = newline if start and not text[:start].endswith("\n") else ""
        opening = "" if header or not table else f"{newline if text else ''}[{table}]{newline}"
        after = text[:start] + gap + opening + written + text[start:]
    # 3. It must read as wanted.
    wanted = parse_toml(text)
    inner: dict[str, Any] = wanted.setdefault(table, {}) if table and (value is not None or table in wanted) else wanted
    inner.pop(key, None)
    inner |= {} if value is None else {key: value}
    if not _reads_as(after, wanted):
        raise ConfigError(f"the setting {name} cannot be changed safely; write it by hand")
    return after


def parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"it is no TOML ({error}); mend it first") from error


def _reads_as(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return parse_toml(text) == wanted
    except ConfigError:
        return False


# -- trust ---------------------------------------------------------------------------------------------------


class Trust(Struct, frozen=True):
    """A person's consent for a repository. `root` is where the consent was given, `at` the time: UTC, ISO 8601."""

    repository: str
    root: str
    at: str
    commands: tuple[TrustItem, ...]

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(command.digest for command in self.commands)


def trust_file_path(home: Path, repository: str) -> Path:
    return home / TRUST_FOLDER / f"{sha256(repository.encode())[:32]}.json"


def read_trust(home: Path, repository: str) -> Trust | None:
    """Return the trust for a repository; None if absent. An unreadable file grants no trust."""
    found = _read_trust_file(trust_file_path(home, repository))
    return found if found is not None and found.repository == repository else None


def _read_trust_file(path: Path) -> Trust | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=prepare_type(Trust))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def write_trust(home: Path, trust: Trust) -> None:
    path = trust_file_path(home, trust.repository)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, msgspec.json.encode(trust) + b"\n")


def forget_trust(home: Path, repository: str) -> bool:
    """Remove the trust for a repository; return whether any existed. Raises OSError."""
    path = trust_file_path(home, repository)
    known = path.exists()
    path.unlink(missing_ok=True)
    return known


def list_trusts(home: Path) -> Iterator[Trust]:
    found = (_read_trust_file(path) for path in sorted((home / TRUST_FOLDER).glob("*.json")))
    return (trust for trust in found if trust is not None)
