"""Conversations of agents and people: redacted, per session, kept for the configured time, searchable.

The database lies beside the state database: it grows by megabytes, and no hook opens it. The entries come from the
agents' own transcripts, each read on from the position of the last reading.
"""

import re
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters.transcripts import Role, TranscriptEntry, read_entries
from remit.core.display_text import escape_surrogates, quote_path
from remit.core.secrets.redaction import redact
from remit.provenance.why import conversation_search
from remit.provenance.why.conversation_database import delete_database, open_in_memory, open_or_replace
from remit.provenance.why.explanation import Talk, Utterance
from remit.workspace.agents.transcripts import (
    MAX_READ_BYTES,
    ReadPosition,
    TranscriptLine,
    read_lines_after,
)

DATABASE_FILE = "transcripts.db"
BATCH_CHUNKS = 500
DAY_S = 86_400.0

MAX_KEPT_CHARS: dict[Role, int] = {
    "user": 8000,
    "assistant": 8000,
    "thinking": 8000,
    "summary": 4000,
    "tool_call": 1000,
    "tool_result": 1000,
}
REDACTION_MARGIN_CHARS = 4096
"""Characters behind the kept part that are searched for secrets too, because a cut could hide the secret's form."""

SECRET_PLACEHOLDER = "[not kept: the call names a file of secrets]"  # noqa: S105  no password

ENTRY_FIELDS = "e.id, e.transcript, e.role, e.text, e.at, e.call_id, e.tool, e.model, e.arguments_sha256, e.failed"
SELECT_BY_SESSION = (
    f"SELECT {ENTRY_FIELDS} FROM entries e JOIN transcripts t ON t.id = e.transcript WHERE t.session_id = ?"
)
ENTRY_COLUMNS = (
    *("transcript", "key", "role", "text", "at", "call_id", "tool", "model"),
    *("arguments_sha256", "failed", "private", "child"),
)
UPSERT_ENTRY = (
    f"INSERT INTO entries({', '.join(ENTRY_COLUMNS)}) VALUES({', '.join('?' * len(ENTRY_COLUMNS))})"
    f" ON CONFLICT(transcript, key) DO UPDATE SET {', '.join(f'{name}=excluded.{name}' for name in ENTRY_COLUMNS[2:])}"
)
EXPIRED_CONDITION = "(at <> '' AND at < ?) OR transcript IN (SELECT id FROM transcripts WHERE taken_at < ?)"


class TranscriptSource(Struct, frozen=True):
    """A transcript to read: its session, and the path given by the agent."""

    path: str
    agent: str
    session_id: str
    agent_id: str = ""


class ConversationEntry(Struct, frozen=True):
    """A kept entry. `id` grows in transcript order."""

    id: int
    transcript: int
    role: str
    text: str
    at: str
    call_id: str = ""
    tool: str = ""
    model: str | None = None
    arguments_sha256: str = ""
    failed: bool = False


class Conversations:
    """Conversations of one repository. `problem` explains missing entries; empty if complete."""

    def __init__(self, database: sqlite3.Connection, retain_days: float, patterns: Sequence[re.Pattern[str]]) -> None:
        self.database = database
        self.retain_days = retain_days
        self.patterns = patterns
        self.problem = ""

    @classmethod
    def open(cls, folder: Path, retain_days: float, patterns: Sequence[re.Pattern[str]] = ()) -> "Conversations":
        """Open the conversations in the state folder, with secrets and matches of `patterns` redacted.

        With `retain_days` 0 no file is kept and transcripts are read anew each time, as for an unusable file.
        """
        path = folder / DATABASE_FILE
        try:
            if retain_days:
                return cls(open_or_replace(path), retain_days, patterns)
            delete_database(path)
            return cls(open_in_memory(), 0, patterns)
        except (sqlite3.Error, OSError) as error:
            conversations = cls(open_in_memory(), 0, patterns)
            conversations.problem = f"the conversations kept in {str(path)!r} cannot be used: {error}"
            return conversations

    def __enter__(self) -> "Conversations":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.database.close()

    def catch_up(self, sources: Iterable[TranscriptSource], now: float) -> None:
        """Read the transcripts; failures are stored in `problem`."""
        try:
            self.read_transcripts(sources, now)
        except (sqlite3.Error, OSError) as error:
            self.problem = f"not all of the conversation could be taken in: {error}"

    def read_transcripts(self, sources: Iterable[TranscriptSource], now: float) -> int:
        """Read new entries of the transcripts and delete expired ones; return the number of entries. Raises
        sqlite3.Error.
        """
        count = sum(self.read_transcript(source, now) for source in sources)
        if self.retain_days:
            self.delete_expired(now)
        return count

    def read_transcript(self, source: TranscriptSource, now: float) -> int:
        """Read one transcript on from the last position."""
        transcript, position = self.find_transcript(source)
        start, chunks = read_lines_after(Path(source.path), position)
        count = self.store_chunks(source, transcript, start, chunks, now)
        if self.find_transcript(source)[1].offset - start.offset >= MAX_READ_BYTES:
            self.problem = f"{source.path!r} is too long to be read at once: ask again for the rest of it"
        return count

    def find_transcript(self, source: TranscriptSource) -> tuple[int | None, ReadPosition]:
        """Return the transcript's id, None if new, and the position reached."""
        row = self.database.execute(
            "SELECT id, inode, offset FROM transcripts WHERE path=? AND session_id=? AND agent_id=?",
            transcript_key(source),
        ).fetchone()
        return (row[0], ReadPosition(row[1], row[2])) if row else (None, ReadPosition())

    def store_chunks(
        self,
        source: TranscriptSource,
        transcript: int | None,
        start: ReadPosition,
        chunks: Iterator[TranscriptLine],
        now: float,
    ) -> int:
        """Store the entries of the chunks with the position reached."""
        count, offset = 0, start.offset
        while batch := list(islice(chunks, BATCH_CHUNKS)):
            batch_entries: list[TranscriptEntry] = []
            for chunk in batch:
                chunk_entries = read_entries(source.agent, chunk.line)
                batch_entries += (ensure_key(entry, offset, number) for number, entry in enumerate(chunk_entries))
                offset = chunk.end
            with self.begin_write() as database:
                transcript = transcript or self.create_transcript(source)
                count += self.store_entries(transcript, batch_entries)
                values = (start.inode, offset, now, transcript)
                database.execute("UPDATE transcripts SET inode=?, offset=?, taken_at=? WHERE id=?", values)
        return count

    def create_transcript(self, source: TranscriptSource) -> int:
        """Create a transcript row, or return the row of a concurrent process."""
        values = (*transcript_key(source), source.agent)
        self.database.execute(
            "INSERT OR IGNORE INTO transcripts(path, session_id, agent_id, agent) VALUES(?,?,?,?)", values
        )
        transcript, _ = self.find_transcript(source)
        return transcript or 0

    def store_entries(self, transcript: int, entries: Sequence[TranscriptEntry]) -> int:
        """Store the redacted entries; return their number."""
        private = self.find_private_calls(transcript, entries)
        rows = [self.entry_row(transcript, entry, entry.call_id in private) for entry in entries]
        self.database.executemany(UPSERT_ENTRY, rows)
        return len(rows)

    def find_private_calls(self, transcript: int, entries: Sequence[TranscriptEntry]) -> set[str]:
        """Return the calls that name a file of secrets."""
        query = "SELECT call_id FROM entries WHERE transcript=? AND private AND call_id<>''"
        known = {row[0] for row in self.database.execute(query, (transcript,))}
        return known | {entry.call_id for entry in entries if entry.private and entry.call_id}

    def entry_row(self, transcript: int, entry: TranscriptEntry, private: bool) -> tuple[object, ...]:
        text = (
            SECRET_PLACEHOLDER
            if private and entry.role == "tool_result"
            else self.redact_and_cut(entry.text, MAX_KEPT_CHARS[entry.role])
        )
        ids = (entry.call_id, entry.tool, entry.model)
        call_id, tool, model = (None if value is None else self.redact_and_cut(value, 200) for value in ids)
        return (
            *(transcript, escape_surrogates(entry.key[:400]), entry.role, text, entry.at, call_id, tool, model),
            *(entry.arguments_sha256, entry.failed, entry.private, escape_surrogates(entry.child[:200])),
        )

    def redact_and_cut(self, text: str, max_chars: int) -> str:
        """Redact a text and cut it to `max_chars`."""
        return escape_surrogates(redact(text[: max_chars + REDACTION_MARGIN_CHARS], self.patterns)[:max_chars])

    def delete_expired(self, now: float) -> None:
        """Delete entries older than the configured time; the transcript position stays."""
        oldest = now - self.retain_days * DAY_S
        with self.begin_write() as database:
            bounds = (format_time(oldest), oldest)
            if database.execute(f"SELECT 1 FROM entries WHERE {EXPIRED_CONDITION} LIMIT 1", bounds).fetchone():
                conversation_search.drop_index(database)
                database.execute(f"DELETE FROM entries WHERE {EXPIRED_CONDITION}", bounds)

    @contextmanager
    def begin_write(self) -> Generator[sqlite3.Connection]:
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            yield self.database

    def find_call(self, session: str, call_id: str, arguments_sha256: str, before: str) -> ConversationEntry | None:
        """Return the entry of a call: by id, else the newest with these arguments before a time."""
        if call_id and (
            entry := self.select_first(f"{SELECT_BY_SESSION} AND e.call_id=? AND e.role='tool_call'", session, call_id)
        ):
            return entry
        if not arguments_sha256:
            return None
        query = f"{SELECT_BY_SESSION} AND e.role='tool_call' AND e.arguments_sha256=? AND e.at<=? ORDER BY e.id DESC"
        return self.select_first(query, session, arguments_sha256, before)

    def find_result(self, call: ConversationEntry) -> ConversationEntry | None:
        query = f"SELECT {ENTRY_FIELDS} FROM entries e WHERE e.transcript=? AND e.call_id=? AND e.role='tool_result'"
        return self.select_first(query, call.transcript, call.call_id) if call.call_id else None

    def find_prompt(self, call: ConversationEntry) -> ConversationEntry | None:
        """Return the last user text before the call, by a person or a parent agent."""
        query = (
            f"SELECT {ENTRY_FIELDS} FROM entries e WHERE e.transcript=? AND e.id<? AND e.role='user' ORDER BY e.id DESC"
        )
        return self.select_first(query, call.transcript, call.id)

    def assistant_texts_between(self, first: int, call: ConversationEntry) -> tuple[ConversationEntry, ...]:
        """Return the model's texts and thoughts between an entry and a call."""
        query = (
            f"SELECT {ENTRY_FIELDS} FROM entries e WHERE e.transcript=? AND e.id>? AND e.id<?"
            " AND e.role IN ('assistant','thinking') ORDER BY e.id"
        )
        return self.select_all(query, call.transcript, first, call.id)

    def count_entries_before(self, call: ConversationEntry) -> int:
        query = "SELECT count(*) FROM entries WHERE transcript=? AND id<?"
        [(count,)] = self.database.execute(query, (call.transcript, call.id))
        return count

    def find_starting_call(self, session: str, agent_id: str) -> ConversationEntry | None:
        """Return the call in the parent's transcript that started a sub-agent."""
        child = self.select_first(f"{SELECT_BY_SESSION} AND e.child=?", session, agent_id)
        return self.find_call(session, child.call_id, "", "") if child and child.call_id else None

    def entries_of_session(self, session: str, agent_id: str = "") -> tuple[ConversationEntry, ...]:
        """Return the kept entries of a session in order; sub-agents have their own."""
        return self.select_all(f"{SELECT_BY_SESSION} AND t.agent_id=? ORDER BY e.transcript, e.id", session, agent_id)

    def select_first(self, query: str, *values: object) -> ConversationEntry | None:
        return next(iter(self.select_all(f"{query} LIMIT 1", *values)), None)

    def select_all(self, query: str, *values: object) -> tuple[ConversationEntry, ...]:
        return tuple(ConversationEntry(*row[:-1], failed=bool(row[-1])) for row in self.database.execute(query, values))


def format_time(seconds: float) -> str:
    """Format a time as transcripts do; times before 1970 as the first second."""
    return f"{datetime.fromtimestamp(max(0.0, seconds), UTC):%Y-%m-%dT%H:%M:%S}Z"


def ensure_key(entry: TranscriptEntry, offset: int, number: int) -> TranscriptEntry:
    """Return the entry with a key: without a message id, its position in the file."""
    return entry if entry.key and entry.key[0] != "/" else replace(entry, key=f"@{offset}/{number}")


def transcript_key(source: TranscriptSource) -> tuple[str, str, str]:
    return quote_path(source.path), escape_surrogates(source.session_id), escape_surrogates(source.agent_id)


class AgentSession(Struct, frozen=True):
    """Agent and id of a session."""

    agent: str
    id: str


class CallQuery(Struct, frozen=True):
    """Facts by which a call is found in a conversation."""

    session_id: str
    agent_id: str = ""
    call_id: str = ""
    arguments_sha256: str = ""
    at: str = ""


def find_talk(conversations: Conversations, query: CallQuery) -> Talk | None:
    """Return the conversation around a call; None if no transcript has the call. Raises sqlite3.Error."""
    call = conversations.find_call(query.session_id, query.call_id, query.arguments_sha256, query.at)
    if call is None:
        return None
    prompt = conversations.find_prompt(call)
    texts = conversations.assistant_texts_between(prompt.id if prompt else 0, call)
    answer = conversations.find_result(call)
    # A sub-agent's own prompt is its task; the person wrote to the parent.
    start = conversations.find_starting_call(query.session_id, query.agent_id) if query.agent_id else None
    parent_prompt = conversations.find_prompt(start) if start else None
    from_person = parent_prompt or prompt
    return Talk(
        prompt=from_person.text if from_person else "",
        prompt_at=from_person.at if from_person else "",
        task=prompt.text if parent_prompt and prompt else "",
        said=tuple(Utterance(entry.role, entry.text, entry.at) for entry in texts),
        answer=answer.text if answer else "",
        failed=answer.failed if answer else False,
        model=call.model,
        message_index=conversations.count_entries_before(call),
    )
