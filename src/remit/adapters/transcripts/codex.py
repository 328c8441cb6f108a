"""Codex's rollout: a JSON object per line; `response_item` lines are the messages to and from the model.

Source: files left by 0.169.0, read 2026-11. Lines of older versions lack the kinds of contents.
"""

from collections.abc import Iterator

from remit.adapters.payload import JsonObject
from remit.adapters.transcripts import entry
from remit.core.untrusted_input import as_array, as_object

PASSTHROUGH_KEY = "internal_chat_message_metadata_passthrough"
PERSON_KIND = "user.text"
INSERTED_TAGS = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "<skill>")
HARNESS_PREFIXES = (*INSERTED_TAGS, "# AGENTS.md instructions")
"""Prefixes of user messages that the program wrote itself, for versions that do not mark them."""


def parse_document(document: JsonObject) -> Iterator[entry.TranscriptEntry]:
    payload, at = as_object(document.get("payload")), entry.read_time(document)
    key, call_id, name = entry.text_at(payload, "id"), entry.text_at(payload, "call_id"), entry.text_at(payload, "name")
    match entry.text_at(document, "type"), entry.text_at(payload, "type"):
        case "compacted", _:
            yield entry.TranscriptEntry("summary", entry.text_at(payload, "message"), at)
        case "response_item", "message":
            text = entry.join_texts(payload.get("content"))
            kinds = as_array(as_object(payload.get(PASSTHROUGH_KEY)).get("content_item_kinds"))
            # The program inserts messages of its own.
            by_person = PERSON_KIND in kinds if kinds else not text.lstrip().startswith(HARNESS_PREFIXES)
            if payload.get("role") == "assistant":
                yield entry.TranscriptEntry("assistant", text, at, key)
            elif payload.get("role") == "user" and by_person:
                yield entry.TranscriptEntry("user", text, at, key)
        case "response_item", "reasoning":
            text = "\n".join(
                filter(None, (entry.join_texts(payload.get("summary")), entry.join_texts(payload.get("content"))))
            )
            yield entry.TranscriptEntry("thinking", text, at, key)
        case "response_item", "function_call":
            given = entry.decode_object(entry.text_at(payload, "arguments").encode("utf-8", "replace"))
            yield entry.build_tool_call_entry(name, given, call_id, at=at, key=key)
        case "response_item", "local_shell_call":
            yield entry.build_tool_call_entry("local_shell", as_object(payload.get("action")), call_id, at=at, key=key)
        case "response_item", "custom_tool_call":
            yield entry.build_tool_call_entry(name, entry.text_at(payload, "input"), call_id, at=at, key=key)
        case "response_item", "function_call_output" | "custom_tool_call_output":
            output = payload.get("output")
            text = entry.join_texts(output) or entry.join_texts(as_object(output).get("content"))
            yield entry.TranscriptEntry("tool_result", text, at, key, call_id)
        case _:
            return
