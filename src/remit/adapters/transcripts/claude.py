"""Claude Code's transcript: a JSON object per line; `user` and `assistant` lines hold messages in the API's form.

Source: files left by 2.1.330, read 2026-11.
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

SYSTEM_REMINDER = "<system-reminder>"


def parse_line(line: bytes) -> Iterator[TranscriptEntry]:
    """Yield the entries of a line. Never raises."""
    document = decode_object(line)
    match optional_text(document, "type"):
        case "user" if document.get("isMeta") is not True:
            yield from parse_user_message(document)
        case "assistant":
            yield from parse_assistant_message(document)
        case "summary":
            yield TranscriptEntry(
                "summary", optional_text(document, "summary") or "", key=optional_text(document, "leafUuid") or ""
            )
        case _:
            return


def parse_user_message(document: JsonObject) -> Iterator[TranscriptEntry]:
    """Yield the user's text and tool results."""
    at, key = read_time(document), optional_text(document, "uuid") or ""
    content = as_object(document.get("message")).get("content")
    text = "\n".join(
        part for part in map(part_text, content_parts(content)) if part and not part.startswith(SYSTEM_REMINDER)
    )
    if text:
        yield TranscriptEntry("summary" if document.get("isCompactSummary") is True else "user", text, at, key)
    child = optional_text(as_object(document.get("toolUseResult")), "agentId") or ""
    for part in content_parts(content):
        if part.get("type") == "tool_result":
            call_id = optional_text(part, "tool_use_id") or ""
            failed = part.get("is_error") is True
            answer = join_texts(part.get("content"))
            yield TranscriptEntry("tool_result", answer, at, f"{key}/{call_id}", call_id, failed=failed, child=child)


def parse_assistant_message(document: JsonObject) -> Iterator[TranscriptEntry]:
    """Yield the model's text, thoughts and tool calls."""
    message = as_object(document.get("message"))
    at, key, model = read_time(document), optional_text(document, "uuid") or "", optional_text(message, "model")
    for number, part in enumerate(content_parts(message.get("content"))):
        entry_key = f"{key}/{number}"
        match optional_text(part, "type"):
            case "text":
                yield TranscriptEntry("assistant", part_text(part), at, entry_key, model=model)
            case "thinking":
                yield TranscriptEntry("thinking", optional_text(part, "thinking") or "", at, entry_key, model=model)
            case "tool_use":
                tool, call_id = optional_text(part, "name") or "", optional_text(part, "id") or ""
                yield build_tool_call_entry(tool, part.get("input"), call_id, at=at, key=entry_key, model=model)
            case _:
                continue


def content_parts(content: object) -> list[JsonObject]:
    """Return the parts of a content, which may also be a single text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(map(as_object, as_array(content)))


def part_text(part: JsonObject) -> str:
    return (optional_text(part, "text") or "") if part.get("type") == "text" else ""
