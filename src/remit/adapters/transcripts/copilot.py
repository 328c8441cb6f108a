"""Copilot CLI's events: one JSON object a line, named by `type`, with the rest in `data`.

Source: files that 1.0.102 left behind, read 2026-11; the two events of reasoning are from its published types.
"""

from collections.abc import Iterator

from remit.adapters.reading import Object, mapping, optional, sequence
from remit.adapters.transcripts.entry import Entry, call, decoded, moment, words


def entries(line: bytes) -> Iterator[Entry]:
    """What one line says. Never raises."""
    document = decoded(line)
    data = mapping(document.get("data"))
    at, key = moment(document), optional(document, "id") or ""
    match optional(document, "type"):
        case "user.message":
            yield Entry("user", words(data.get("content")), at, key)
        case "assistant.message":
            yield from answered(data, at, key)
        case "assistant.reasoning":
            yield Entry("thinking", words(data.get("content")), at, key)
        case "tool.execution_complete":
            yield result(data, at, key)
        case "session.compaction_complete":
            yield Entry("summary", optional(data, "summaryContent") or "", at, key)
        case _:
            return


def answered(data: Object, at: str, key: str) -> Iterator[Entry]:
    """What the model thought, said and called."""
    model = optional(data, "model")
    yield Entry("thinking", optional(data, "reasoningText") or "", at, f"{key}/reasoning", model=model)
    yield Entry("assistant", words(data.get("content")), at, key, model=model)
    for asked in map(mapping, sequence(data.get("toolRequests"))):
        call_id = optional(asked, "toolCallId") or ""
        tool = optional(asked, "name") or ""
        yield call(tool, asked.get("arguments"), call_id, at=at, key=f"{key}/{call_id}", model=model)


def result(data: Object, at: str, key: str) -> Entry:
    """What a tool answered."""
    call_id = optional(data, "toolCallId") or ""
    said = words(mapping(data.get("result")).get("content")) or words(mapping(data.get("error")).get("message"))
    return Entry("tool_result", said, at, key, call_id, failed=data.get("success") is False)
