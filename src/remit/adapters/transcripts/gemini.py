"""Gemini CLI's chat: a JSON object per line; a message with a known id replaces the earlier message.

Source: files and the sources of 0.61.0, read 2026-11. Older versions store a single document with all `messages`,
read as a line.
"""

import re
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

CONTEXT_PREFIX = "<session_context>"
HOOK_CONTEXT = re.compile(r"\A<hook_context>.*?</hook_context>\s*", re.DOTALL)
"""Text of hooks, which precedes the prompt in the same message."""


def parse_line(line: bytes) -> Iterator[TranscriptEntry]:
    """Yield the entries of a line. Never raises."""
    document = decode_object(line)
    changed = as_object(document.get("$set"))
    for message in (document, *map(as_object, as_array(document.get("messages") or changed.get("messages")))):
        yield from parse_message(message)


def parse_message(message: JsonObject) -> Iterator[TranscriptEntry]:
    """Yield the entries of a message, including tool calls."""
    at, key = read_time(message), optional_text(message, "id") or ""
    match optional_text(message, "type"):
        case "user":
            text = HOOK_CONTEXT.sub("", join_texts(message.get("content")))
            if text and not text.startswith(CONTEXT_PREFIX):
                yield TranscriptEntry("user", text, at, key)
        case "gemini":
            yield from parse_assistant_message(message, at, key)
        case _:
            return


def parse_assistant_message(message: JsonObject, at: str, key: str) -> Iterator[TranscriptEntry]:
    """Yield the model's thoughts, text and tool calls, with their results."""
    model = optional_text(message, "model")
    thoughts = "\n".join(filter(None, map(format_thought, as_array(message.get("thoughts")))))
    if thoughts:
        yield TranscriptEntry("thinking", thoughts, at, f"{key}/thoughts", model=model)
    text = join_texts(message.get("content"))
    if text:
        yield TranscriptEntry("assistant", text, at, key, model=model)
    for requested in map(as_object, as_array(message.get("toolCalls"))):
        call_id = optional_text(requested, "id") or ""
        entry_key = f"{key}/{call_id}"
        yield build_tool_call_entry(
            optional_text(requested, "name") or "", requested.get("args"), call_id, at=at, key=entry_key, model=model
        )
        failed = requested.get("status") in ("error", "cancelled")
        answers = [find_response_text(as_object(part)) for part in as_array(requested.get("result"))]
        completed = read_time(requested) or at
        yield TranscriptEntry(
            "tool_result", join_texts(list(answers)), completed, f"{entry_key}/result", call_id, failed=failed
        )


def format_thought(value: object) -> str:
    found = as_object(value)
    return ": ".join(filter(None, (optional_text(found, "subject"), optional_text(found, "description"))))


def find_response_text(part: JsonObject) -> str:
    response = as_object(as_object(part.get("functionResponse")).get("response"))
    return optional_text(response, "output") or optional_text(response, "error") or join_texts(response.get("content"))
