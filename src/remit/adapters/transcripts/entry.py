"""Transcript entries, the common form of all agents' transcripts, and tolerant readers of JSON values."""

import re
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from remit.adapters.payload import JsonObject, optional_text
from remit.core.call import hash_arguments
from remit.core.json_guards import as_array, as_object
from remit.core.secrets.secret_files import is_secret_file

Role: TypeAlias = Literal["user", "assistant", "thinking", "tool_call", "tool_result", "summary"]

ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
COMMAND_KEYS = ("command", "cmd")
PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "dir_path")
PATCH_KEYS = ("patchText", "input", "patch", "command")
PATCHED_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,1000})$", re.MULTILINE)
BEGIN_PATCH = "*** Begin Patch"
WORD_PATTERN = re.compile(r"[^\s'\"=:;|<>(){}\[\],]+")
MAX_WORDS_CHARS = 16_384
MAX_TIME_MS = 253_402_300_799_000
"""The last millisecond of the year 9999; later times cannot be formatted."""


class TranscriptEntry(Struct, frozen=True):
    """A message, tool call or tool result. `at` is ISO 8601 in UTC as the agent wrote it, empty if unknown.

    `key` identifies the entry in the transcript; a later entry with the same key replaces the earlier. For a
    `tool_call`, `text` describes the operands, never written contents, and `arguments_sha256` is the hook's hash.
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
    """For a `tool_result`: the agent reports a failure."""
    private: bool = False
    """Of a `tool_call`: it names a file of secrets, so what came of it is nobody's to keep."""
    child: str = ""
    """For a `tool_result`: the id of the sub-agent that worked for the call."""


def decode_object(line: bytes) -> JsonObject:
    """Decode a line as an object, empty for other content."""
    try:
        return as_object(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def read_time(document: JsonObject, key: str = "timestamp") -> str:
    """Return a time in ISO form, or an empty text."""
    found = optional_text(document, key)
    return found if found is not None and ISO_TIME.fullmatch(found) else ""


def format_milliseconds(value: object) -> str:
    """Return milliseconds since the epoch as ISO 8601; empty if invalid."""
    if type(value) is not int or not 0 <= value <= MAX_TIME_MS:
        return ""
    seconds, rest = divmod(value, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"


def join_texts(content: object) -> str:
    """Return all text of a content: a string, or a list of strings and of parts with `text` or `content`."""
    if isinstance(content, str):
        return content
    parts = (part if isinstance(part, str) else part_text(as_object(part)) for part in as_array(content))
    return "\n".join(part for part in parts if part)


def part_text(part: JsonObject) -> str:
    return optional_text(part, "text") or optional_text(part, "content") or ""


def build_tool_call_entry(
    tool: str, arguments: object, call_id: str, *, at: str = "", key: str = "", model: str | None = None
) -> TranscriptEntry:
    """Return the entry of a tool call. `arguments` is an object, or the text of a patch."""
    text = describe_operands(arguments)
    return TranscriptEntry(
        role="tool_call",
        text=text,
        at=at,
        key=key,
        call_id=call_id,
        tool=tool,
        model=model,
        arguments_sha256=hash_call_arguments(given) if (given := as_object(arguments)) else "",
        private=any(map(is_secret_file, WORD_PATTERN.findall(text[:MAX_WORDS_CHARS]))),
    )


def hash_call_arguments(arguments: JsonObject) -> str:
    """Return the hash of the arguments; empty if the hook's encoding cannot represent them."""
    try:
        return hash_arguments(arguments)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return ""


def describe_operands(arguments: object) -> str:
    """Describe the operands of a call: the command, the paths, or each argument with a value."""
    if isinstance(arguments, str):
        return ", ".join(PATCHED_FILE.findall(arguments)) or arguments
    given = as_object(arguments)
    patch = next((p for key in PATCH_KEYS if (p := optional_text(given, key)) and p.startswith(BEGIN_PATCH)), None)
    if patch is not None:
        return ", ".join(PATCHED_FILE.findall(patch))
    named = next((value for key in (*COMMAND_KEYS, *PATH_KEYS) if (value := given.get(key))), None)
    if isinstance(named, list):
        return " ".join(str(word) for word in cast("list[object]", named) if isinstance(word, str))
    return (
        named
        if isinstance(named, str)
        else ", ".join(f"{key}: {format_argument(value)}" for key, value in given.items())
    )


def format_argument(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(cast("Any", value)).decode()
