"""Claude Code's transcript: a JSON object per line; `user` and `assistant` lines hold messages in the API's form.

Source: files left by 2.1.330, read 2026-11.
"""

from collections.abc import Iterator

from remit.adapters.payload import JsonObject, optional_text
from remit.adapters.transcripts.entry import TranscriptEntry, build_tool_call_entry, join_texts, read_time, text_at
from remit.core.untrusted_input import as_array, as_object

SYSTEM_REMINDER = "<system-reminder>"


def parse_document(document: JsonObject) -> Iterator[TranscriptEntry]:
    message, at, key = as_object(document.get("message")), read_time(document), text_at(document, "uuid")
    content, model = message.get("content"), optional_text(message, "model")
    # A content may also be a single text.
    parts = list(map(as_object, [{"type": "text", "text": content}] if isinstance(content, str) else as_array(content)))
    match text_at(document, "type"):
        case "user" if document.get("isMeta") is not True:
            texts = (text_at(part, "text") for part in parts if part.get("type") == "text")
            if text := "\n".join(text for text in texts if text and not text.startswith(SYSTEM_REMINDER)):
                yield TranscriptEntry("summary" if document.get("isCompactSummary") is True else "user", text, at, key)
            child = text_at(as_object(document.get("toolUseResult")), "agentId")
            for part in parts:
                if part.get("type") == "tool_result":
                    call_id, failed = text_at(part, "tool_use_id"), part.get("is_error") is True
                    text, entry_key = join_texts(part.get("content")), f"{key}/{call_id}"
                    yield TranscriptEntry("tool_result", text, at, entry_key, call_id, failed=failed, child=child)
        case "assistant":
            for number, part in enumerate(parts):
                kind, entry_key = part.get("type"), f"{key}/{number}"
                if kind in ("text", "thinking"):
                    role = "assistant" if kind == "text" else "thinking"
                    yield TranscriptEntry(role, text_at(part, str(kind)), at, entry_key, model=model)
                elif kind == "tool_use":
                    tool, call_id = text_at(part, "name"), text_at(part, "id")
                    yield build_tool_call_entry(tool, part.get("input"), call_id, at=at, key=entry_key, model=model)
        case "summary":
            yield TranscriptEntry("summary", text_at(document, "summary"), key=text_at(document, "leafUuid"))
        case _:
            return
