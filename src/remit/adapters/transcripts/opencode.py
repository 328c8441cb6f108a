"""OpenCode's conversation: rows of its database, which a reader hands on as lines `{id, time_created, message, part}`.

Source: the database that 1.18.33 left behind, read 2026-11.
"""

from collections.abc import Iterator

from remit.adapters.reading import Object, mapping, optional
from remit.adapters.transcripts.entry import Entry, call, decoded, from_milliseconds, words


def entries(line: bytes) -> Iterator[Entry]:
    """What one row says. Never raises."""
    row = decoded(line)
    part, message = mapping(row.get("part")), mapping(row.get("message"))
    at, key = from_milliseconds(row.get("time_created")), optional(row, "id") or ""
    model = optional(message, "modelID")
    match optional(part, "type"):
        case "text" if part.get("synthetic") is not True:
            by_person = message.get("role") == "user"
            yield Entry("user" if by_person else "assistant", words(part.get("text")), at, key, model=model)
        case "reasoning":
            yield Entry("thinking", words(part.get("text")), at, key, model=model)
        case "tool":
            yield from called(part, at, key, model)
        case _:
            return


def called(part: Object, at: str, key: str, model: str | None) -> Iterator[Entry]:
    """A call and, once it is there, what came of it."""
    state, call_id = mapping(part.get("state")), optional(part, "callID") or ""
    yield call(optional(part, "tool") or "", state.get("input"), call_id, at=at, key=key, model=model)
    if state.get("status") in ("completed", "error"):
        done = from_milliseconds(mapping(state.get("time")).get("end")) or at
        said = words(state.get("output")) or words(state.get("error"))
        yield Entry("tool_result", said, done, f"{key}/result", call_id, failed=state.get("status") == "error")
