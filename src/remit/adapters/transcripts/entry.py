"""What every agent's transcript comes down to: entries. Hostile text: only what has the expected shape is taken."""

import re
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from remit.adapters.reading import Object, mapping, optional, sequence
from remit.core.call import hash_arguments
from remit.core.secret_files import names_a_secret

Role: TypeAlias = Literal["user", "assistant", "thinking", "tool_call", "tool_result", "summary"]

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
COMMANDS = ("command", "cmd")
PATHS = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "dir_path")
PATCHES = ("patchText", "input", "patch", "command")
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,1000})$", re.MULTILINE)
BEGIN_PATCH = "*** Begin Patch"
WORD = re.compile(r"[^\s'\"=:;|<>(){}\[\],]+")
WORDS_CHARS = 16_384
LAST_MS = 253_402_300_799_000
"""The last millisecond of the year 9999: no later time can be written."""


class Entry(Struct, frozen=True):
    """One thing that was said or done. `at` is ISO 8601 in UTC as the agent wrote it, empty where it is told nowhere.

    `key` names the entry within its transcript: another one of that key takes its place. Of a `tool_call`, `text` says
    what it works on and never the contents that it writes, and `arguments_sha256` is as the hook hashes them.
    """

    role: Role
    text: str
    at: str = ""
    key: str = ""
    call_id: str = ""
    tool: str = ""
    model: str | None = None
    arguments_sha256: str = ""
    failed: bool = False
    """Of a `tool_result`: the agent says that it went wrong."""
    private: bool = False
    """Of a `tool_call`: it names a file of secrets, so what came of it is nobody's to keep."""
    child: str = ""
    """Of a `tool_result`: the sub-agent that worked for this call, by the id that its hooks tell."""


def decoded(line: bytes) -> Object:
    """The line as an object; an empty one for whatever else it is."""
    try:
        return mapping(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def moment(document: Object, key: str = "timestamp") -> str:
    """A time that has the form of one."""
    found = optional(document, key)
    return found if found is not None and ISO.fullmatch(found) else ""


def from_milliseconds(value: object) -> str:
    """Milliseconds since the epoch as ISO 8601; empty where they are none."""
    if type(value) is not int or not 0 <= value <= LAST_MS:
        return ""
    seconds, rest = divmod(value, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"


def words(content: object) -> str:
    """All text of a content: a string, or a list of strings and of parts that have a `text` or a `content`."""
    if isinstance(content, str):
        return content
    parts = (part if isinstance(part, str) else text_of(mapping(part)) for part in sequence(content))
    return "\n".join(part for part in parts if part)


def text_of(part: Object) -> str:
    """The text of one part."""
    return optional(part, "text") or optional(part, "content") or ""


def call(tool: str, arguments: object, call_id: str, *, at: str = "", key: str = "", model: str | None = None) -> Entry:
    """A tool call. `arguments` is an object, or the text of a patch."""
    said = working_on(arguments)
    return Entry(
        role="tool_call",
        text=said,
        at=at,
        key=key,
        call_id=call_id,
        tool=tool,
        model=model,
        arguments_sha256=digest(given) if (given := mapping(arguments)) else "",
        private=any(map(names_a_secret, WORD.findall(said[:WORDS_CHARS]))),
    )


def digest(arguments: Object) -> str:
    """The hash of the arguments; empty where they cannot be written as the hook writes them."""
    try:
        return hash_arguments(arguments)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return ""


def working_on(arguments: object) -> str:
    """What a call works on: the command, the paths, or else the names of its arguments with short values."""
    if isinstance(arguments, str):
        return ", ".join(PATCHED.findall(arguments)) or arguments
    given = mapping(arguments)
    patch = next((p for key in PATCHES if (p := optional(given, key)) and p.startswith(BEGIN_PATCH)), None)
    if patch is not None:
        return ", ".join(PATCHED.findall(patch))
    named = next((value for key in (*COMMANDS, *PATHS) if (value := given.get(key))), None)
    if isinstance(named, list):
        return " ".join(str(word) for word in cast("list[object]", named) if isinstance(word, str))
    return named if isinstance(named, str) else ", ".join(f"{key}: {shortly(value)}" for key, value in given.items())


def shortly(value: object) -> str:
    """A value of an argument: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(cast("Any", value)).decode()
