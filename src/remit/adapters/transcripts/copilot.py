"""Copilot CLI's events: one JSON object a line, named by `type`, with the rest in `data`.

Source: files that 1.0.102 left behind, read 2026-11; the two events of reasoning are from its published types.
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


def parse_line(line: bytes) -> Iterator[TranscriptEntry]:
    """What one line says. Never raises."""
    document = decode_object(line)
    data = as_mapping(document.get("data"))
    at, key = read_time(document), optional_text(document, "id") or ""
    match optional_text(document, "type"):
        case "user.message":
            yield TranscriptEntry("user", join_texts(data.get("content")), at, key)
        case "assistant.message":
            yield from parse_assistant_message(data, at, key)
        case "assistant.reasoning":
            yield TranscriptEntry("thinking", join_texts(data.get("content")), at, key)
        case "tool.execution_complete":
            yield parse_tool_result(data, at, key)
        case "session.compaction_complete":
            yield TranscriptEntry("summary", optional_text(data, "summaryContent") or "", at, key)
        case _:
            return


def parse_assistant_message(data: JsonObject, at: str, key: str) -> Iterator[TranscriptEntry]:
    """What the model thought, said and called."""
    model = optional_text(data, "model")
    yield TranscriptEntry("thinking", optional_text(data, "reasoningText") or "", at, f"{key}/reasoning", model=model)
    yield TranscriptEntry("assistant", join_texts(data.get("content")), at, key, model=model)
    for asked in map(as_mapping, as_list(data.get("toolRequests"))):
        call_id = optional_text(asked, "toolCallId") or ""
        tool = optional_text(asked, "name") or ""
        yield build_tool_call_entry(tool, asked.get("arguments"), call_id, at=at, key=f"{key}/{call_id}", model=model)


def parse_tool_result(data: JsonObject, at: str, key: str) -> TranscriptEntry:
    """What a tool answered."""
    call_id = optional_text(data, "toolCallId") or ""
    said = join_texts(as_mapping(data.get("result")).get("content")) or join_texts(
        as_mapping(data.get("error")).get("message")
    )
    return TranscriptEntry("tool_result", said, at, key, call_id, failed=data.get("success") is False)
