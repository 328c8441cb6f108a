"""Gemini CLI's chat: one JSON object a line; a message that comes again, by its id, takes the place of the first.

Source: files and the sources of 0.61.0, read 2026-11. Older versions keep one document with all `messages`, which is
read as one line.
"""

import re
from collections.abc import Iterator

from remit.adapters.reading import Object, mapping, optional, sequence
from remit.adapters.transcripts.entry import Entry, call, decoded, moment, words

CONTEXT = "<session_context>"
HOOKED = re.compile(r"\A<hook_context>.*?</hook_context>\s*", re.DOTALL)
"""What hooks told the model stands before the prompt, in the same text."""


def entries(line: bytes) -> Iterator[Entry]:
    """What one line says. Never raises."""
    document = decoded(line)
    changed = mapping(document.get("$set"))
    for message in (document, *map(mapping, sequence(document.get("messages") or changed.get("messages")))):
        yield from spoken(message)


def spoken(message: Object) -> Iterator[Entry]:
    """One message, with the calls in it."""
    at, key = moment(message), optional(message, "id") or ""
    match optional(message, "type"):
        case "user":
            said = HOOKED.sub("", words(message.get("content")))
            if said and not said.startswith(CONTEXT):
                yield Entry("user", said, at, key)
        case "gemini":
            yield from answered(message, at, key)
        case _:
            return


def answered(message: Object, at: str, key: str) -> Iterator[Entry]:
    """What the model thought, said and called."""
    model = optional(message, "model")
    thoughts = "\n".join(filter(None, map(thought, sequence(message.get("thoughts")))))
    if thoughts:
        yield Entry("thinking", thoughts, at, f"{key}/thoughts", model=model)
    said = words(message.get("content"))
    if said:
        yield Entry("assistant", said, at, key, model=model)
    for asked in map(mapping, sequence(message.get("toolCalls"))):
        call_id = optional(asked, "id") or ""
        here = f"{key}/{call_id}"
        yield call(optional(asked, "name") or "", asked.get("args"), call_id, at=at, key=here, model=model)
        failed = asked.get("status") in ("error", "cancelled")
        answers = [answer(mapping(part)) for part in sequence(asked.get("result"))]
        done = moment(asked) or at
        yield Entry("tool_result", words(list(answers)), done, f"{here}/result", call_id, failed=failed)


def thought(value: object) -> str:
    """One thought: its subject and what it says."""
    found = mapping(value)
    return ": ".join(filter(None, (optional(found, "subject"), optional(found, "description"))))


def answer(part: Object) -> str:
    """What a tool answered, or why it did not."""
    response = mapping(mapping(part.get("functionResponse")).get("response"))
    return optional(response, "output") or optional(response, "error") or words(response.get("content"))
