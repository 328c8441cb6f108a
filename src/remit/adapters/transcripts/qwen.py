"""Qwen Code's chat: one JSON object a line, the message in Gemini's parts.

Source: files that 0.24.4 left behind, read 2026-11.
"""

from collections.abc import Iterator

from remit.adapters.reading import Object, mapping, optional, sequence
from remit.adapters.transcripts.entry import Entry, call, decoded, moment, words
from remit.adapters.transcripts.gemini import answer


def entries(line: bytes) -> Iterator[Entry]:
    """What one line says. Never raises."""
    document = decoded(line)
    at, key = moment(document), optional(document, "uuid") or ""
    parts = [mapping(part) for part in sequence(mapping(document.get("message")).get("parts"))]
    match optional(document, "type"):
        case "user":
            yield Entry("user", words(list(parts)), at, key)
        case "assistant":
            yield from answered(parts, at, key, optional(document, "model"))
        case "tool_result":
            yield from results(document, parts, at, key)
        case "system" if document.get("subtype") == "chat_compression":
            yield Entry("summary", "", at, key)
        case _:
            return


def answered(parts: list[Object], at: str, key: str, model: str | None) -> Iterator[Entry]:
    """What the model thought, said and called."""
    for number, part in enumerate(parts):
        here = f"{key}/{number}"
        asked = mapping(part.get("functionCall"))
        if asked:
            tool, call_id = optional(asked, "name") or "", optional(asked, "id") or ""
            yield call(tool, asked.get("args"), call_id, at=at, key=here, model=model)
        elif said := optional(part, "text"):
            yield Entry("thinking" if part.get("thought") is True else "assistant", said, at, here, model=model)


def results(document: Object, parts: list[Object], at: str, key: str) -> Iterator[Entry]:
    """What tools answered."""
    failed = mapping(document.get("toolCallResult")).get("status") in ("error", "cancelled")
    for number, part in enumerate(parts):
        call_id = optional(mapping(part.get("functionResponse")), "id") or ""
        yield Entry("tool_result", answer(part), at, f"{key}/{number}", call_id, failed=failed)
