"""Reading the transcripts that agents keep: lines in, entries out. No I/O; nothing here ever raises."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from remit.adapters.transcripts import claude, codex, copilot, gemini, opencode, qwen
from remit.adapters.transcripts.entry import Role, TranscriptEntry

__all__ = ["TRANSCRIPT_READERS", "Role", "TranscriptEntry", "read_entries"]

Format: TypeAlias = Callable[[bytes], Iterator[TranscriptEntry]]

TRANSCRIPT_READERS: dict[str, Format] = {
    "claude-code": claude.parse_line,
    "codex": codex.parse_line,
    "copilot": copilot.parse_line,
    "gemini": gemini.parse_line,
    "opencode": opencode.parse_line,
    "qwen": qwen.parse_line,
}
"""How each agent writes down a conversation."""


def read_entries(agent: str, line: bytes) -> list[TranscriptEntry]:
    """What one line of that agent's transcript says; nothing for an agent whose form is not known.

    An entry without a word is left out, unless it is a call or tells of one.
    """
    reader = TRANSCRIPT_READERS.get(agent)
    return [entry for entry in reader(line) if entry.text.strip() or entry.call_id] if reader else []
