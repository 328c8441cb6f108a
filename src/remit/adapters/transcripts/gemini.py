"""Gemini CLI's chat: a JSON object per line; a message with a known id replaces the earlier message.

Source: files and the sources of 0.61.0, read 2026-11. Older versions store a single document with all `messages`,
read as a line.
"""

import re
from collections.abc import Iterator

from remit.adapters.payload import JsonObject, optional_text
from remit.adapters.transcripts.entry import TranscriptEntry, build_tool_call_entry, join_texts, read_time, text_at
from remit.core.untrusted_input import as_array, as_object

CONTEXT_PREFIX = "<session_context>"
HOOK_CONTEXT = re.compile(r"\A<hook_context>.*?</hook_context>\s*", re.DOTALL)
"""Text of hooks, which precedes the prompt in the same message."""


def parse_document(document: JsonObject) -> Iterator[TranscriptEntry]:
    changed = as_object(document.get("$set"))
    for message in (document, *map(as_object, as_array(document.get("messages") or changed.get("messages")))):
        kind, at, key = text_at(message, "type"), read_time(message), text_at(message, "id")
        text = join_texts(message.get("content"))
        if kind == "user":
            text = HOOK_CONTEXT.sub("", text)
            if text and not text.startswith(CONTEXT_PREFIX):
                yield TranscriptEntry("user", text, at, key)
        elif kind == "gemini":
            model = optional_text(message, "model")
            if thoughts := "\n".join(filter(None, map(format_thought, as_array(message.get("thoughts"))))):
                yield TranscriptEntry("thinking", thoughts, at, f"{key}/thoughts", model=model)
            if text:
                yield TranscriptEntry("assistant", text, at, key, model=model)
            for requested in map(as_object, as_array(message.get("toolCalls"))):
                yield from parse_tool_call(requested, at, key, model)


def parse_tool_call(requested: JsonObject, at: str, key: str, model: str | None) -> Iterator[TranscriptEntry]:
    tool, call_id = text_at(requested, "name"), text_at(requested, "id")
    key = f"{key}/{call_id}"
    yield build_tool_call_entry(tool, requested.get("args"), call_id, at=at, key=key, model=model)
    failed = requested.get("status") in ("error", "cancelled")
    text = join_texts([find_response_text(as_object(part)) for part in as_array(requested.get("result"))])
    yield TranscriptEntry("tool_result", text, read_time(requested) or at, f"{key}/result", call_id, failed=failed)


def format_thought(value: object) -> str:
    found = as_object(value)
    return ": ".join(filter(None, (text_at(found, "subject"), text_at(found, "description"))))


def find_response_text(part: JsonObject) -> str:
    response = as_object(as_object(part.get("functionResponse")).get("response"))
    return text_at(response, "output") or text_at(response, "error") or join_texts(response.get("content"))
