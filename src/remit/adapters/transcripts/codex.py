"""Codex's rollout: a JSON object per line; `response_item` lines are the messages to and from the model.

Source: files left by 0.169.0, read 2026-11. Lines of older versions lack the kinds of contents.
"""

from collections.abc import Iterator

from remit.adapters.payload import JsonObject, optional_text
from remit.adapters.transcripts.entry import (
    TranscriptEntry,
    build_tool_call_entry,
    decode_object,
    join_texts,
    read_time,
)
from remit.core.json_guards import as_array, as_object

PASSTHROUGH_KEY = "internal_chat_message_metadata_passthrough"
PERSON_KIND = "user.text"
HARNESS_PREFIXES = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<skill>",
    "# AGENTS.md instructions",
)
"""Prefixes of user messages that the program wrote itself, for versions that do not mark them."""


def parse_line(line: bytes) -> Iterator[TranscriptEntry]:
    """Yield the entries of a line. Never raises."""
    document = decode_object(line)
    payload = as_object(document.get("payload"))
    at = read_time(document)
    match optional_text(document, "type"):
        case "response_item":
            yield from parse_item(payload, at)
        case "compacted":
            yield TranscriptEntry("summary", optional_text(payload, "message") or "", at)
        case _:
            return


def parse_item(payload: JsonObject, at: str) -> Iterator[TranscriptEntry]:
    key, call_id = optional_text(payload, "id") or "", optional_text(payload, "call_id") or ""
    match optional_text(payload, "type"):
        case "message":
            yield from parse_message(payload, at, key)
        case "reasoning":
            text = "\n".join(filter(None, (join_texts(payload.get("summary")), join_texts(payload.get("content")))))
            yield TranscriptEntry("thinking", text, at, key)
        case "function_call":
            given = decode_object((optional_text(payload, "arguments") or "").encode("utf-8", "replace"))
            yield build_tool_call_entry(optional_text(payload, "name") or "", given, call_id, at=at, key=key)
        case "local_shell_call":
            yield build_tool_call_entry("local_shell", as_object(payload.get("action")), call_id, at=at, key=key)
        case "custom_tool_call":
            name = optional_text(payload, "name") or ""
            yield build_tool_call_entry(name, optional_text(payload, "input") or "", call_id, at=at, key=key)
        case "function_call_output" | "custom_tool_call_output":
            yield TranscriptEntry("tool_result", find_output_text(payload.get("output")), at, key, call_id)
        case _:
            return


def parse_message(payload: JsonObject, at: str, key: str) -> Iterator[TranscriptEntry]:
    """Yield the text of the model or of a person, without messages that the program inserted."""
    text = join_texts(payload.get("content"))
    if payload.get("role") == "assistant":
        yield TranscriptEntry("assistant", text, at, key)
    elif payload.get("role") == "user" and is_by_person(payload, text):
        yield TranscriptEntry("user", text, at, key)


def is_by_person(payload: JsonObject, said: str) -> bool:
    kinds = as_array(as_object(payload.get(PASSTHROUGH_KEY)).get("content_item_kinds"))
    return PERSON_KIND in kinds if kinds else not said.lstrip().startswith(HARNESS_PREFIXES)


def find_output_text(value: object) -> str:
    """Return a tool's output: text, parts, or an object with `content`."""
    return join_texts(value) or join_texts(as_object(value).get("content"))
