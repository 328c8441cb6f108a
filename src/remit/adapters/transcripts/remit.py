"""The journal of Remit's own agent: a JSON object per line, whose `t` names its kind (`journal/lines.py`)."""

from collections.abc import Iterator
from datetime import UTC, datetime

from remit.adapters.payload import JsonObject, optional_text
from remit.adapters.transcripts.entry import TranscriptEntry, build_tool_call_entry, text_at
from remit.core.untrusted_input import as_array, as_object

MAX_TIME_S = 1 << 36  # the year 4147; a later time is none


def parse_document(document: JsonObject) -> Iterator[TranscriptEntry]:
    at, key = format_time(document.get("at")), str(document.get("n", ""))
    match text_at(document, "t"):
        case "user":
            # Remarks of Remit are no person's words. The journal leaves out `by` where it is a person.
            if text_at(document, "by") in ("", "person", "flag"):
                yield TranscriptEntry("user", text_at(document, "text"), at, key)
        case "turn":
            turn = as_object(document.get("turn"))
            model = optional_text(turn, "model")
            for number, part in enumerate(map(as_object, as_array(turn.get("parts")))):
                entry_key = f"{key}/{number}"
                match text_at(part, "part"):
                    case "call":
                        name, given, call_id = text_at(part, "tool"), part.get("arguments"), text_at(part, "id")
                        yield build_tool_call_entry(name, given, call_id, at=at, key=entry_key, model=model)
                    case "thought":
                        yield TranscriptEntry("thinking", text_at(part, "text"), at, entry_key, model=model)
                    case _:
                        yield TranscriptEntry("assistant", text_at(part, "text"), at, entry_key, model=model)
        case "result":
            call_id, failed = text_at(document, "id"), text_at(document, "kind") not in ("", "done")
            yield TranscriptEntry("tool_result", text_at(document, "text"), at, key, call_id, failed=failed)
        case "condensed":
            yield TranscriptEntry("summary", text_at(document, "summary"), at, key)
        case _:
            return


def format_time(seconds: object) -> str:
    """Return a time in seconds since the epoch as ISO 8601 in UTC; empty for anything else."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < MAX_TIME_S:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
