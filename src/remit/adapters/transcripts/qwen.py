"""Qwen Code's chat: one JSON object a line, the message in Gemini's parts.

Source: files that 0.24.4 left behind, read 2026-11.
"""

from collections.abc import Iterator

from remit.adapters.payload import JsonObject, as_list, as_mapping, optional_text
from remit.adapters.transcripts.entry import (
    TranscriptEntry,
    build_tool_call_entry,
    decode_object,
    join_texts,
    read_time,
)
from remit.adapters.transcripts.gemini import find_response_text


def parse_line(line: bytes) -> Iterator[TranscriptEntry]:
    """What one line says. Never raises."""
    document = decode_object(line)
    at, key = read_time(document), optional_text(document, "uuid") or ""
    parts = [as_mapping(part) for part in as_list(as_mapping(document.get("message")).get("parts"))]
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
    """What the model thought, said and called."""
    for number, part in enumerate(parts):
        here = f"{key}/{number}"
        asked = as_mapping(part.get("functionCall"))
        if asked:
            tool, call_id = optional_text(asked, "name") or "", optional_text(asked, "id") or ""
            yield build_tool_call_entry(tool, asked.get("args"), call_id, at=at, key=here, model=model)
        elif said := optional_text(part, "text"):
            yield TranscriptEntry(
                "thinking" if part.get("thought") is True else "assistant", said, at, here, model=model
            )


def parse_tool_results(document: JsonObject, parts: list[JsonObject], at: str, key: str) -> Iterator[TranscriptEntry]:
    """What tools answered."""
    failed = as_mapping(document.get("toolCallResult")).get("status") in ("error", "cancelled")
    for number, part in enumerate(parts):
        call_id = optional_text(as_mapping(part.get("functionResponse")), "id") or ""
        yield TranscriptEntry("tool_result", find_response_text(part), at, f"{key}/{number}", call_id, failed=failed)
