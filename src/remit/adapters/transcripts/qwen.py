"""Qwen Code's chat: a JSON object per line; the message has Gemini's parts.

Source: files left by 0.24.4, read 2026-11.
"""

from collections.abc import Iterator

from remit.adapters.payload import JsonObject, optional_text
from remit.adapters.transcripts.entry import TranscriptEntry, build_tool_call_entry, join_texts, read_time, text_at
from remit.adapters.transcripts.gemini import find_response_text
from remit.core.untrusted_input import as_array, as_object


def parse_document(document: JsonObject) -> Iterator[TranscriptEntry]:
    at, key, model = read_time(document), text_at(document, "uuid"), optional_text(document, "model")
    parts = [as_object(part) for part in as_array(as_object(document.get("message")).get("parts"))]
    match text_at(document, "type"):
        case "user":
            yield TranscriptEntry("user", join_texts(parts), at, key)
        case "assistant":
            for number, part in enumerate(parts):
                entry_key = f"{key}/{number}"
                if requested := as_object(part.get("functionCall")):
                    tool, call_id = text_at(requested, "name"), text_at(requested, "id")
                    yield build_tool_call_entry(tool, requested.get("args"), call_id, at=at, key=entry_key, model=model)
                elif text := text_at(part, "text"):
                    role = "thinking" if part.get("thought") is True else "assistant"
                    yield TranscriptEntry(role, text, at, entry_key, model=model)
        case "tool_result":
            failed = as_object(document.get("toolCallResult")).get("status") in ("error", "cancelled")
            for number, part in enumerate(parts):
                call_id, text = text_at(as_object(part.get("functionResponse")), "id"), find_response_text(part)
                yield TranscriptEntry("tool_result", text, at, f"{key}/{number}", call_id, failed=failed)
        case "system" if document.get("subtype") == "chat_compression":
            yield TranscriptEntry("summary", "", at, key)
        case _:
            return
