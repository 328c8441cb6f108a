"""Transcript entries, the common form of all agents' transcripts, and tolerant readers of JSON values."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from remit.adapters.payload import JsonObject
from remit.core.call import hash_arguments
from remit.core.redaction import is_secret_file
from remit.core.untrusted_input import as_array, as_object

Role: TypeAlias = Literal["user", "assistant", "thinking", "tool_call", "tool_result", "summary"]

ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
COMMAND_KEYS = ("command", "cmd")
PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "dir_path")
PATCH_KEYS = ("patchText", "input", "patch", "command")
PATCHED_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,1000})$", re.MULTILINE)
BEGIN_PATCH = "*** Begin Patch"
WORD_PATTERN = re.compile(r"[^\s'\"=:;|<>(){}\[\],]+")
MAX_WORDS_CHARS = 16_384


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
    failed: bool = False  # For a `tool_result`: the agent reports a failure
    private: bool = False  # Of a `tool_call`: it names a file of secrets, so what came of it is nobody's to keep
    child: str = ""  # For a `tool_result`: the id of the sub-agent that worked for the call


def decode_object(line: bytes) -> JsonObject:
    try:
        return as_object(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def text_at(document: Mapping[str, object], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def read_time(document: JsonObject) -> str:
    found = text_at(document, "timestamp")
    return found if ISO_TIME.fullmatch(found) else ""


def join_texts(content: object) -> str:
    """Return all text of a content: a string, or a list of strings and of parts with `text` or `content`."""
    if isinstance(content, str):
        return content
    parts = ({"text": part} if isinstance(part, str) else as_object(part) for part in as_array(content))
    return "\n".join(filter(None, (text_at(part, "text") or text_at(part, "content") for part in parts)))


def build_tool_call_entry(
    tool: str, arguments: object, call_id: str, *, at: str = "", key: str = "", model: str | None = None
) -> TranscriptEntry:
    """Return the entry of a tool call. `arguments` is an object, or the text of a patch."""
    text, given = describe_operands(arguments), as_object(arguments)
    private = any(map(is_secret_file, WORD_PATTERN.findall(text[:MAX_WORDS_CHARS])))
    digest = ""
    with suppress(ValueError, TypeError, OverflowError, RecursionError):  # what the hook's encoding cannot represent
        digest = hash_arguments(given) if given else ""
    return TranscriptEntry("tool_call", text, at, key, call_id, tool, model, digest, private=private)


def describe_operands(arguments: object) -> str:
    if isinstance(arguments, str):
        return ", ".join(PATCHED_FILE.findall(arguments)) or arguments
    given = as_object(arguments)
    patch = next((p for key in PATCH_KEYS if (p := text_at(given, key)).startswith(BEGIN_PATCH)), None)
    if patch is not None:
        return ", ".join(PATCHED_FILE.findall(patch))
    named = next((value for key in (*COMMAND_KEYS, *PATH_KEYS) if (value := given.get(key))), None)
    if isinstance(named, list):
        return " ".join(word for word in cast("list[object]", named) if isinstance(word, str))
    if isinstance(named, str):
        return named
    texts = {key: v if isinstance(v, str) else msgspec.json.encode(v).decode() for key, v in given.items()}
    return ", ".join(f"{key}: {text}" for key, text in texts.items())
