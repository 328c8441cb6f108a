"""Reading the transcripts that agents keep: lines in, entries out. No I/O; nothing here ever raises."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from remit.adapters.transcripts import claude, codex, copilot, gemini, opencode, qwen
from remit.adapters.transcripts.entry import Entry, Role

__all__ = ["FORMATS", "Entry", "Role", "entries"]

Format: TypeAlias = Callable[[bytes], Iterator[Entry]]

FORMATS: dict[str, Format] = {
    "claude-code": claude.entries,
    "codex": codex.entries,
    "copilot": copilot.entries,
    "gemini": gemini.entries,
    "opencode": opencode.entries,
    "qwen": qwen.entries,
}
"""How each agent writes down a conversation."""


def entries(agent: str, line: bytes) -> list[Entry]:
    """What one line of that agent's transcript says; nothing for an agent whose form is not known.

    An entry without a word is left out, unless it is a call or tells of one.
    """
    reader = FORMATS.get(agent)
    return [entry for entry in reader(line) if entry.text.strip() or entry.call_id] if reader else []
