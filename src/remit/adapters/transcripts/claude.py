"""Claude Code's transcript: one JSON object a line, a message of the API's shape in those of type user and assistant.

Source: files that 2.1.330 left behind, read 2026-11.
"""

from collections.abc import Iterator

from remit.adapters.reading import Object, mapping, optional, sequence
from remit.adapters.transcripts.entry import Entry, call, decoded, moment, words

REMARK = "<system-reminder>"


def entries(line: bytes) -> Iterator[Entry]:
    """What one line says. Never raises."""
    document = decoded(line)
    match optional(document, "type"):
        case "user" if document.get("isMeta") is not True:
            yield from told(document)
        case "assistant":
            yield from answered(document)
        case "summary":
            yield Entry("summary", optional(document, "summary") or "", key=optional(document, "leafUuid") or "")
        case _:
            return


def told(document: Object) -> Iterator[Entry]:
    """What the user said, and what tools answered."""
    at, key = moment(document), optional(document, "uuid") or ""
    content = mapping(document.get("message")).get("content")
    said = "\n".join(part for part in map(text, parts(content)) if part and not part.startswith(REMARK))
    if said:
        yield Entry("summary" if document.get("isCompactSummary") is True else "user", said, at, key)
    child = optional(mapping(document.get("toolUseResult")), "agentId") or ""
    for part in parts(content):
        if part.get("type") == "tool_result":
            call_id = optional(part, "tool_use_id") or ""
            failed = part.get("is_error") is True
            answer = words(part.get("content"))
            yield Entry("tool_result", answer, at, f"{key}/{call_id}", call_id, failed=failed, child=child)


def answered(document: Object) -> Iterator[Entry]:
    """What the model said, thought and called."""
    message = mapping(document.get("message"))
    at, key, model = moment(document), optional(document, "uuid") or "", optional(message, "model")
    for number, part in enumerate(parts(message.get("content"))):
        here = f"{key}/{number}"
        match optional(part, "type"):
            case "text":
                yield Entry("assistant", text(part), at, here, model=model)
            case "thinking":
                yield Entry("thinking", optional(part, "thinking") or "", at, here, model=model)
            case "tool_use":
                tool, call_id = optional(part, "name") or "", optional(part, "id") or ""
                yield call(tool, part.get("input"), call_id, at=at, key=here, model=model)
            case _:
                continue


def parts(content: object) -> list[Object]:
    """The parts of a content, which may be one text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(map(mapping, sequence(content)))


def text(part: Object) -> str:
    """The text of a part of that type."""
    return (optional(part, "text") or "") if part.get("type") == "text" else ""
