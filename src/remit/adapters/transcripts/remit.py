"""The journal of Remit's own agent: a JSON object per line, whose `t` names its kind."""

from collections.abc import Iterator

from remit.adapters.payload import JsonObject, optional_text
from remit.adapters.transcripts.entry import TranscriptEntry, build_tool_call_entry, text_at
from remit.core.untrusted_input import as_array, as_object


def parse_document(document: JsonObject) -> Iterator[TranscriptEntry]:
    at, key = text_at(document, "at"), str(document.get("n", ""))
    match text_at(document, "t"):
        case "user":
            # Remarks of the gate are no person's words.
            if text_at(document, "by") in ("", "person", "flag"):
                yield TranscriptEntry("user", text_at(document, "text"), at, key)
        case "turn":
            model = optional_text(document, "model")
            for number, part in enumerate(map(as_object, as_array(document.get("parts")))):
                call, entry_key = as_object(part.get("call")), f"{key}/{number}"
                if call:
                    name, given, call_id = text_at(call, "tool"), call.get("arguments"), text_at(call, "id")
                    yield build_tool_call_entry(name, given, call_id, at=at, key=entry_key, model=model)
                elif "thinking" in part:
                    yield TranscriptEntry("thinking", text_at(part, "thinking"), at, entry_key, model=model)
                else:
                    yield TranscriptEntry("assistant", text_at(part, "text"), at, entry_key, model=model)
        case "result":
            call_id, failed = text_at(document, "id"), text_at(document, "kind") not in ("", "done")
            yield TranscriptEntry("tool_result", text_at(document, "text"), at, key, call_id, failed=failed)
        case "condensed":
            yield TranscriptEntry("summary", text_at(document, "summary"), at, key)
        case _:
            return
