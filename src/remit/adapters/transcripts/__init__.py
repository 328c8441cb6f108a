"""Parsers of agents' transcripts, a module per agent: lines in, entries out. No I/O, no exceptions."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from remit.adapters.transcripts import claude, codex, gemini, qwen
from remit.adapters.transcripts.entry import Role, TranscriptEntry

__all__ = ["TRANSCRIPT_READERS", "Role", "TranscriptEntry", "read_entries"]

Format: TypeAlias = Callable[[bytes], Iterator[TranscriptEntry]]

TRANSCRIPT_READERS: dict[str, Format] = {
    "claude-code": claude.parse_line,
    "codex": codex.parse_line,
    "gemini": gemini.parse_line,
    "qwen": qwen.parse_line,
}
"""Parser of a transcript line, by agent."""


def read_entries(agent: str, line: bytes) -> list[TranscriptEntry]:
    """Return the entries of one transcript line; none for an agent without a parser.

    Entries without text are dropped unless they belong to a tool call.
    """
    reader = TRANSCRIPT_READERS.get(agent)
    return [entry for entry in reader(line) if entry.text.strip() or entry.call_id] if reader else []
