"""OpenCode's conversation: rows of its database, which a reader hands on as lines `{id, time_created, message, part}`.

Source: the database that 1.18.33 left behind, read 2026-11.
"""

from collections.abc import Iterator

from remit.adapters.payload import JsonObject, as_mapping, optional_text
from remit.adapters.transcripts.entry import (
    TranscriptEntry,
    build_tool_call_entry,
    decode_object,
    format_milliseconds,
    join_texts,
)


def parse_line(line: bytes) -> Iterator[TranscriptEntry]:
    """What one row says. Never raises."""
    row = decode_object(line)
    part, message = as_mapping(row.get("part")), as_mapping(row.get("message"))
    at, key = format_milliseconds(row.get("time_created")), optional_text(row, "id") or ""
    model = optional_text(message, "modelID")
    match optional_text(part, "type"):
        case "text" if part.get("synthetic") is not True:
            by_person = message.get("role") == "user"
            yield TranscriptEntry(
                "user" if by_person else "assistant", join_texts(part.get("text")), at, key, model=model
            )
        case "reasoning":
            yield TranscriptEntry("thinking", join_texts(part.get("text")), at, key, model=model)
        case "tool":
            yield from parse_tool_part(part, at, key, model)
        case _:
            return


def parse_tool_part(part: JsonObject, at: str, key: str, model: str | None) -> Iterator[TranscriptEntry]:
    """A call and, once it is there, what came of it."""
    state, call_id = as_mapping(part.get("state")), optional_text(part, "callID") or ""
    yield build_tool_call_entry(
        optional_text(part, "tool") or "", state.get("input"), call_id, at=at, key=key, model=model
    )
    if state.get("status") in ("completed", "error"):
        done = format_milliseconds(as_mapping(state.get("time")).get("end")) or at
        said = join_texts(state.get("output")) or join_texts(state.get("error"))
        yield TranscriptEntry(
            "tool_result", said, done, f"{key}/result", call_id, failed=state.get("status") == "error"
        )
