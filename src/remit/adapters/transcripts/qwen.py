"""Qwen Code's chat: a JSON object per line; the message has Gemini's parts.

Source: files left by 0.24.4, read 2026-11.
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
from remit.adapters.transcripts.gemini import find_response_text
from remit.core.json_guards import as_array, as_object


def parse_line(line: bytes) -> Iterator[TranscriptEntry]:
    """Yield the entries of a line. Never raises."""
    document = decode_object(line)
    at, key = read_time(document), optional_text(document, "uuid") or ""
    parts = [as_object(part) for part in as_array(as_object(document.get("message")).get("parts"))]
    match optional_text(document, "type"):
        case "user":
            yield TranscriptEntry("user", join_texts(list(parts)), at, key)
        case "assistant":
            yield from parse_assistant_message(parts, at, key, optional_text(document, "model"))
        case "tool_result":
            yield from parse_tool_results(document, parts, at, key)
        case "system" if document.get("subtype") == "chat_compression":
            yield TranscriptEntry("summary", "", at, key)
        case _:
            return


def parse_assistant_message(parts: list[JsonObject], at: str, key: str, model: str | None) -> Iterator[TranscriptEntry]:
    """Yield the model's thoughts, text and tool calls."""
    for number, part in enumerate(parts):
        entry_key = f"{key}/{number}"
        requested = as_object(part.get("functionCall"))
        if requested:
            tool, call_id = optional_text(requested, "name") or "", optional_text(requested, "id") or ""
            yield build_tool_call_entry(tool, requested.get("args"), call_id, at=at, key=entry_key, model=model)
        elif text := optional_text(part, "text"):
            yield TranscriptEntry(
                "thinking" if part.get("thought") is True else "assistant", text, at, entry_key, model=model
            )


def parse_tool_results(document: JsonObject, parts: list[JsonObject], at: str, key: str) -> Iterator[TranscriptEntry]:
    failed = as_object(document.get("toolCallResult")).get("status") in ("error", "cancelled")
    for number, part in enumerate(parts):
        call_id = optional_text(as_object(part.get("functionResponse")), "id") or ""
        yield TranscriptEntry("tool_result", find_response_text(part), at, f"{key}/{number}", call_id, failed=failed)
