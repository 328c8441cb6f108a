"""Gemini CLI's chat: one JSON object a line; a message that comes again, by its id, takes the place of the first.

Source: files and the sources of 0.61.0, read 2026-11. Older versions keep one document with all `messages`, which is
read as one line.
"""

import re
from collections.abc import Iterator

from remit.adapters.payload import JsonObject, as_list, as_mapping, optional_text
from remit.adapters.transcripts.entry import (
    TranscriptEntry,
    build_tool_call_entry,
    decode_object,
    join_texts,
    read_time,
)

CONTEXT_PREFIX = "<session_context>"
HOOK_CONTEXT = re.compile(r"\A<hook_context>.*?</hook_context>\s*", re.DOTALL)
"""What hooks told the model stands before the prompt, in the same text."""


def parse_line(line: bytes) -> Iterator[TranscriptEntry]:
    """What one line says. Never raises."""
    document = decode_object(line)
    changed = as_mapping(document.get("$set"))
    for message in (document, *map(as_mapping, as_list(document.get("messages") or changed.get("messages")))):
        yield from parse_message(message)


def parse_message(message: JsonObject) -> Iterator[TranscriptEntry]:
    """One message, with the calls in it."""
    at, key = read_time(message), optional_text(message, "id") or ""
    match optional_text(message, "type"):
        case "user":
            said = HOOK_CONTEXT.sub("", join_texts(message.get("content")))
            if said and not said.startswith(CONTEXT_PREFIX):
                yield TranscriptEntry("user", said, at, key)
        case "gemini":
            yield from parse_assistant_message(message, at, key)
        case _:
            return


def parse_assistant_message(message: JsonObject, at: str, key: str) -> Iterator[TranscriptEntry]:
    """What the model thought, said and called."""
    model = optional_text(message, "model")
    thoughts = "\n".join(filter(None, map(format_thought, as_list(message.get("thoughts")))))
    if thoughts:
        yield TranscriptEntry("thinking", thoughts, at, f"{key}/thoughts", model=model)
    said = join_texts(message.get("content"))
    if said:
        yield TranscriptEntry("assistant", said, at, key, model=model)
    for asked in map(as_mapping, as_list(message.get("toolCalls"))):
        call_id = optional_text(asked, "id") or ""
        here = f"{key}/{call_id}"
        yield build_tool_call_entry(
            optional_text(asked, "name") or "", asked.get("args"), call_id, at=at, key=here, model=model
        )
        failed = asked.get("status") in ("error", "cancelled")
        answers = [find_response_text(as_mapping(part)) for part in as_list(asked.get("result"))]
        done = read_time(asked) or at
        yield TranscriptEntry("tool_result", join_texts(list(answers)), done, f"{here}/result", call_id, failed=failed)


def format_thought(value: object) -> str:
    """One thought: its subject and what it says."""
    found = as_mapping(value)
    return ": ".join(filter(None, (optional_text(found, "subject"), optional_text(found, "description"))))


def find_response_text(part: JsonObject) -> str:
    """What a tool answered, or why it did not."""
    response = as_mapping(as_mapping(part.get("functionResponse")).get("response"))
    return optional_text(response, "output") or optional_text(response, "error") or join_texts(response.get("content"))
