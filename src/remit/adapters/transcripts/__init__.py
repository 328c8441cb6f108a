"""Parsers of agents' transcripts, a module per form of transcript: lines in, entries out. No I/O, no exceptions."""

from collections.abc import Callable, Iterator, Mapping

from remit.adapters.payload import JsonObject
from remit.adapters.transcripts import claude, codex, gemini, qwen, remit
from remit.adapters.transcripts.entry import Role, TranscriptEntry, decode_object
from remit.core.agents import AGENTS

__all__ = ["TRANSCRIPT_READERS", "Role", "TranscriptEntry", "read_entries"]

MODULES = {module.__name__.rpartition(".")[2]: module for module in (claude, codex, gemini, qwen, remit)}
TRANSCRIPT_READERS: Mapping[str, Callable[[JsonObject], Iterator[TranscriptEntry]]] = {
    agent: MODULES[row.transcripts].parse_document for agent, row in AGENTS.items() if row.transcripts
}
"""Parser of a transcript line, by agent."""


def read_entries(agent: str, line: bytes) -> list[TranscriptEntry]:
    """Return the entries of one transcript line; none for an agent without a parser.

    Entries without text are dropped unless they belong to a tool call.
    """
    reader = TRANSCRIPT_READERS.get(agent)
    found = reader(decode_object(line)) if reader else ()
    return [entry for entry in found if entry.text.strip() or entry.call_id]
