"""Codex's rollout: a JSON object per line; `response_item` lines are the messages to and from the model.

Source: files left by 0.169.0, read 2026-11. Lines of older versions lack the kinds of contents.
"""

from collections.abc import Iterator

from remit.adapters.payload import JsonObject
from remit.adapters.transcripts.entry import (
    TranscriptEntry,
    build_tool_call_entry,
    decode_object,
    join_texts,
    read_time,
    text_at,
)
from remit.core.untrusted_input import as_array, as_object

PASSTHROUGH_KEY = "internal_chat_message_metadata_passthrough"
PERSON_KIND = "user.text"
INSERTED_TAGS = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "<skill>")
HARNESS_PREFIXES = (*INSERTED_TAGS, "# AGENTS.md instructions")
"""Prefixes of user messages that the program wrote itself, for versions that do not mark them."""


def parse_document(document: JsonObject) -> Iterator[TranscriptEntry]:
    payload, at = as_object(document.get("payload")), read_time(document)
    key, call_id, name = text_at(payload, "id"), text_at(payload, "call_id"), text_at(payload, "name")
    match text_at(document, "type"), text_at(payload, "type"):
        case "compacted", _:
            yield TranscriptEntry("summary", text_at(payload, "message"), at)
        case "response_item", "message":
            text = join_texts(payload.get("content"))
            kinds = as_array(as_object(payload.get(PASSTHROUGH_KEY)).get("content_item_kinds"))
            # The program inserts messages of its own.
            by_person = PERSON_KIND in kinds if kinds else not text.lstrip().startswith(HARNESS_PREFIXES)
            if payload.get("role") == "assistant":
                yield TranscriptEntry("assistant", text, at, key)
            elif payload.get("role") == "user" and by_person:
                yield TranscriptEntry("user", text, at, key)
        case "response_item", "reasoning":
            text = "\n".join(filter(None, (join_texts(payload.get("summary")), join_texts(payload.get("content")))))
            yield TranscriptEntry("thinking", text, at, key)
        case "response_item", "function_call":
            given = decode_object(text_at(payload, "arguments").encode("utf-8", "replace"))
            yield build_tool_call_entry(name, given, call_id, at=at, key=key)
        case "response_item", "local_shell_call":
            yield build_tool_call_entry("local_shell", as_object(payload.get("action")), call_id, at=at, key=key)
        case "response_item", "custom_tool_call":
            yield build_tool_call_entry(name, text_at(payload, "input"), call_id, at=at, key=key)
        case "response_item", "function_call_output" | "custom_tool_call_output":
            output = payload.get("output")
            text = join_texts(output) or join_texts(as_object(output).get("content"))
            yield TranscriptEntry("tool_result", text, at, key, call_id)
        case _:
            return
