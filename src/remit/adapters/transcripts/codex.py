"""Codex's rollout: one JSON object a line; those of type `response_item` are what went to the model and came from it.

Source: files that 0.169.0 left behind, read 2026-11. Lines of older versions lack the kinds of contents.
"""

from collections.abc import Iterator

from remit.adapters.reading import Object, mapping, optional, sequence
from remit.adapters.transcripts.entry import Entry, call, decoded, moment, words

PASSTHROUGH = "internal_chat_message_metadata_passthrough"
BY_PERSON = "user.text"
HARNESS = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "<skill>", "# AGENTS.md instructions")
"""How a user message begins that the program wrote itself, in versions that do not tell."""


def entries(line: bytes) -> Iterator[Entry]:
    """What one line says. Never raises."""
    document = decoded(line)
    payload = mapping(document.get("payload"))
    at = moment(document)
    match optional(document, "type"):
        case "response_item":
            yield from item(payload, at)
        case "compacted":
            yield Entry("summary", optional(payload, "message") or "", at)
        case _:
            return


def item(payload: Object, at: str) -> Iterator[Entry]:
    """One item of the conversation."""
    key, call_id = optional(payload, "id") or "", optional(payload, "call_id") or ""
    match optional(payload, "type"):
        case "message":
            yield from message(payload, at, key)
        case "reasoning":
            said = "\n".join(filter(None, (words(payload.get("summary")), words(payload.get("content")))))
            yield Entry("thinking", said, at, key)
        case "function_call":
            given = decoded((optional(payload, "arguments") or "").encode("utf-8", "replace"))
            yield call(optional(payload, "name") or "", given, call_id, at=at, key=key)
        case "local_shell_call":
            yield call("local_shell", mapping(payload.get("action")), call_id, at=at, key=key)
        case "custom_tool_call":
            name = optional(payload, "name") or ""
            yield call(name, optional(payload, "input") or "", call_id, at=at, key=key)
        case "function_call_output" | "custom_tool_call_output":
            yield Entry("tool_result", output(payload.get("output")), at, key, call_id)
        case _:
            return


def message(payload: Object, at: str, key: str) -> Iterator[Entry]:
    """What the model or a person said; what the program put in between is left out."""
    said = words(payload.get("content"))
    if payload.get("role") == "assistant":
        yield Entry("assistant", said, at, key)
    elif payload.get("role") == "user" and by_person(payload, said):
        yield Entry("user", said, at, key)


def by_person(payload: Object, said: str) -> bool:
    """Whether a person wrote the message."""
    kinds = sequence(mapping(payload.get(PASSTHROUGH)).get("content_item_kinds"))
    return BY_PERSON in kinds if kinds else not said.lstrip().startswith(HARNESS)


def output(value: object) -> str:
    """What a tool answered: text, parts, or an object with its `content`."""
    return words(value) or words(mapping(value).get("content"))
