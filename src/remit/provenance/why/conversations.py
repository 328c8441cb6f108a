"""What agents and people said to each other, kept for as long as the settings say: redacted, per session, searchable.

The file lies beside the state database and not in it: it grows by megabytes, and no hook has to open it. What it holds
came from the agents' own transcripts, and is taken in from where the last reading ended.

What was said around an edit: the prompt before it, the reasoning that led to it, and who started a sub-agent.
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
from remit.workspace.agents.transcripts import (
    DATABASE_AGENT,
    MAX_READ_BYTES,
    ReadPosition,
    TranscriptLine,
    read_database_rows,
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
"""More than is kept is searched for secrets by so much: none is cut in two, and seen for none, where a text ends."""

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
    f"INSERT INTO entries({', '.join(ENTRY_COLUMNS)}) VALUES({', '.join('?' * len(ENTRY_COLUMNS))}) ON CONFLICT(transcript, key)"  # noqa: E501
    f" DO UPDATE SET {', '.join(f'{name}=excluded.{name}' for name in ENTRY_COLUMNS[2:])}"
)
EXPIRED_CONDITION = "(at <> '' AND at < ?) OR transcript IN (SELECT id FROM transcripts WHERE taken_at < ?)"


class TranscriptSource(Struct, frozen=True):
    """A transcript to take in: whose it is, and where the agent says that it lies."""

    path: str
    agent: str
    session_id: str
    agent_id: str = ""


class ConversationEntry(Struct, frozen=True):
    """An entry as it is kept. `id` grows in the order of the transcript."""

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
    """The conversations of one repository. `trouble` is why some of them may be missing; empty where none need be."""

    def __init__(self, database: sqlite3.Connection, retain_days: float, patterns: Sequence[re.Pattern[str]]) -> None:
        self.database = database
        self.retain_days = retain_days
        self.patterns = patterns
        self.problem = ""

    @classmethod
    def open(cls, folder: Path, retain_days: float, patterns: Sequence[re.Pattern[str]] = ()) -> "Conversations":
        """Those of the state folder `folder`, without secrets and without what `patterns` match.

        With `retain_days` 0 nothing is on disk: they are read anew each time. So too where the file cannot be used.
        """
        path = folder / DATABASE_FILE
        try:
            if retain_days:
                return cls(open_or_replace(path), retain_days, patterns)
            delete_database(path)
            return cls(open_in_memory(), 0, patterns)
        except (sqlite3.Error, OSError) as error:
            found = cls(open_in_memory(), 0, patterns)
            found.problem = f"the conversations kept in {str(path)!r} cannot be used: {error}"
            return found

    def __enter__(self) -> "Conversations":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()

    def catch_up(self, sources: Iterable[TranscriptSource], now: float) -> None:
        """Take in what is there; what keeps that from being done is `trouble`."""
        try:
            self.read_transcripts(sources, now)
        except (sqlite3.Error, OSError) as error:
            self.problem = f"not all of the conversation could be taken in: {error}"

    def read_transcripts(self, sources: Iterable[TranscriptSource], now: float) -> int:
        """Read what these transcripts hold that is new, and forget what is too old; how many entries came.

        Raises sqlite3.Error.
        """
        taken = sum(self.read_transcript(source, now) for source in sources)
        if self.retain_days:
            self.delete_expired(now)
        return taken

    def read_transcript(self, source: TranscriptSource, now: float) -> int:
        """Read one transcript on from where the last reading ended."""
        name, mark = self.find_transcript(source)
        if source.agent == DATABASE_AGENT:
            return self.store_chunks(source, name, mark, read_database_rows(Path(source.path), source.session_id), now)
        start, chunks = read_lines_after(Path(source.path), mark)
        taken = self.store_chunks(source, name, start, chunks, now)
        if self.find_transcript(source)[1].offset - start.offset >= MAX_READ_BYTES:
            self.problem = f"{source.path!r} is too long to be read at once: ask again for the rest of it"
        return taken

    def find_transcript(self, source: TranscriptSource) -> tuple[int | None, ReadPosition]:
        """The number of a transcript, None where it is new, and how far it was read."""
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
        """Keep what these chunks say, and how far they reach."""
        taken, offset = 0, start.offset
        while batch := list(islice(chunks, BATCH_CHUNKS)):
            said: list[TranscriptEntry] = []
            for chunk in batch:
                here = read_entries(source.agent, chunk.line)
                said += (ensure_key(entry, offset, number) for number, entry in enumerate(here))
                offset = chunk.end
            with self.begin_write() as database:
                transcript = transcript or self.create_transcript(source)
                taken += self.store_entries(transcript, said)
                values = (start.inode, offset, now, transcript)
                database.execute("UPDATE transcripts SET inode=?, offset=?, taken_at=? WHERE id=?", values)
        return taken

    def create_transcript(self, source: TranscriptSource) -> int:
        """A place for a transcript; the one that another process made meanwhile, where there is one."""
        values = (*transcript_key(source), source.agent)
        self.database.execute(
            "INSERT OR IGNORE INTO transcripts(path, session_id, agent_id, agent) VALUES(?,?,?,?)", values
        )
        transcript, _ = self.find_transcript(source)
        return transcript or 0

    def store_entries(self, transcript: int, said: Sequence[TranscriptEntry]) -> int:
        """Keep these entries, without secrets; how many."""
        private = self.find_private_calls(transcript, said)
        found = [self.entry_row(transcript, entry, entry.call_id in private) for entry in said]
        self.database.executemany(UPSERT_ENTRY, found)
        return len(found)

    def find_private_calls(self, transcript: int, said: Sequence[TranscriptEntry]) -> set[str]:
        """The calls that name a file of secrets."""
        asked = "SELECT call_id FROM entries WHERE transcript=? AND private AND call_id<>''"
        before = {row[0] for row in self.database.execute(asked, (transcript,))}
        return before | {entry.call_id for entry in said if entry.private and entry.call_id}

    def entry_row(self, transcript: int, entry: TranscriptEntry, private: bool) -> tuple[object, ...]:
        """An entry as it is written."""
        kept = (
            SECRET_PLACEHOLDER
            if private and entry.role == "tool_result"
            else self.redact_and_cut(entry.text, MAX_KEPT_CHARS[entry.role])
        )
        ids = (entry.call_id, entry.tool, entry.model)
        call_id, tool, model = (None if value is None else self.redact_and_cut(value, 200) for value in ids)
        return (
            *(transcript, escape_surrogates(entry.key[:400]), entry.role, kept, entry.at, call_id, tool, model),
            *(entry.arguments_sha256, entry.failed, entry.private, escape_surrogates(entry.child[:200])),
        )

    def redact_and_cut(self, text: str, max_chars: int) -> str:
        """A text without secrets, and no longer than that."""
        return escape_surrogates(redact(text[: max_chars + REDACTION_MARGIN_CHARS], self.patterns)[:max_chars])

    def delete_expired(self, now: float) -> None:
        """Take out what was said longer ago than the settings say; that it was read is remembered."""
        oldest = now - self.retain_days * DAY_S
        with self.begin_write() as database:
            old = (format_time(oldest), oldest)
            if database.execute(f"SELECT 1 FROM entries WHERE {EXPIRED_CONDITION} LIMIT 1", old).fetchone():
                conversation_search.drop_index(database)
                database.execute(f"DELETE FROM entries WHERE {EXPIRED_CONDITION}", old)

    @contextmanager
    def begin_write(self) -> Generator[sqlite3.Connection]:
        """One transaction."""
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            yield self.database

    def find_call(self, session: str, call_id: str, arguments_sha256: str, before: str) -> ConversationEntry | None:
        """The entry of a call: by its id, else the newest with these arguments that was asked for before a time."""
        if call_id and (
            found := self.select_first(f"{SELECT_BY_SESSION} AND e.call_id=? AND e.role='tool_call'", session, call_id)
        ):
            return found
        if not arguments_sha256:
            return None
        asked = f"{SELECT_BY_SESSION} AND e.role='tool_call' AND e.arguments_sha256=? AND e.at<=? ORDER BY e.id DESC"
        return self.select_first(asked, session, arguments_sha256, before)

    def find_result(self, call: ConversationEntry) -> ConversationEntry | None:
        """What came of a call."""
        asked = f"SELECT {ENTRY_FIELDS} FROM entries e WHERE e.transcript=? AND e.call_id=? AND e.role='tool_result'"
        return self.select_first(asked, call.transcript, call.call_id) if call.call_id else None

    def find_prompt(self, call: ConversationEntry) -> ConversationEntry | None:
        """What the person, or the agent that started a sub-agent, had said last when the call was made."""
        asked = (
            f"SELECT {ENTRY_FIELDS} FROM entries e WHERE e.transcript=? AND e.id<? AND e.role='user' ORDER BY e.id DESC"
        )
        return self.select_first(asked, call.transcript, call.id)

    def assistant_texts_between(self, first: int, call: ConversationEntry) -> tuple[ConversationEntry, ...]:
        """What the model said and thought between an entry and a call."""
        asked = (
            f"SELECT {ENTRY_FIELDS} FROM entries e WHERE e.transcript=? AND e.id>? AND e.id<?"
            " AND e.role IN ('assistant','thinking') ORDER BY e.id"
        )
        return self.select_all(asked, call.transcript, first, call.id)

    def count_entries_before(self, call: ConversationEntry) -> int:
        """How many entries of its transcript stand before a call, as far as they are kept."""
        asked = "SELECT count(*) FROM entries WHERE transcript=? AND id<?"
        [(count,)] = self.database.execute(asked, (call.transcript, call.id))
        return count

    def find_starting_call(self, session: str, agent_id: str) -> ConversationEntry | None:
        """The call, in the parent's transcript, that this sub-agent worked for."""
        child = self.select_first(f"{SELECT_BY_SESSION} AND e.child=?", session, agent_id)
        return self.find_call(session, child.call_id, "", "") if child and child.call_id else None

    def entries_of_session(self, session: str, agent_id: str = "") -> tuple[ConversationEntry, ...]:
        """All that is kept of a session, in order; sub-agents have their own."""
        return self.select_all(f"{SELECT_BY_SESSION} AND t.agent_id=? ORDER BY e.transcript, e.id", session, agent_id)

    def select_first(self, query: str, *values: object) -> ConversationEntry | None:
        """The first entry that a query finds."""
        return next(iter(self.select_all(f"{query} LIMIT 1", *values)), None)

    def select_all(self, query: str, *values: object) -> tuple[ConversationEntry, ...]:
        """The entries that a query finds."""
        return tuple(ConversationEntry(*row[:-1], failed=bool(row[-1])) for row in self.database.execute(query, values))


def format_time(seconds: float) -> str:
    """A time as transcripts write it; the first one there is for a time before."""
    return f"{datetime.fromtimestamp(max(0.0, seconds), UTC):%Y-%m-%dT%H:%M:%S}Z"


def ensure_key(entry: TranscriptEntry, offset: int, number: int) -> TranscriptEntry:
    """The entry with a key: where the agent names no message, the place in the file."""
    return entry if entry.key and entry.key[0] != "/" else replace(entry, key=f"@{offset}/{number}")


def transcript_key(source: TranscriptSource) -> tuple[str, str, str]:
    """What a transcript is known by."""
    return quote_path(source.path), escape_surrogates(source.session_id), escape_surrogates(source.agent_id)


class AgentSession(Struct, frozen=True):
    """Whose conversation is wanted."""

    agent: str
    id: str


class Utterance(Struct, frozen=True):
    """Something the model said (`assistant`) or thought (`thinking`)."""

    role: str
    text: str
    at: str = ""


class Talk(Struct, frozen=True):
    """The conversation around one call.

    `prompt` is what a person had written last. A sub-agent's `task` is what its parent gave it, and `prompt` then
    is what the person had written to the parent. `said` is oldest first; `answer` is what the tool answered.
    `message_index` counts what was said and called in the transcript before the call, as far as it is kept.
    """

    prompt: str = ""
    prompt_at: str = ""
    task: str = ""
    said: tuple[Utterance, ...] = ()
    answer: str = ""
    failed: bool = False
    model: str | None = None
    message_index: int | None = None


class CallQuery(Struct, frozen=True):
    """The call that is asked about, by what its record knows of it."""

    session_id: str
    agent_id: str = ""
    call_id: str = ""
    arguments_sha256: str = ""
    at: str = ""


def find_talk(conversations: Conversations, asked: CallQuery) -> Talk | None:
    """What was said around that call; None where no transcript has it. Raises sqlite3.Error."""
    call = conversations.find_call(asked.session_id, asked.call_id, asked.arguments_sha256, asked.at)
    if call is None:
        return None
    prompt = conversations.find_prompt(call)
    said = conversations.assistant_texts_between(prompt.id if prompt else 0, call)
    answer = conversations.find_result(call)
    asked_of = find_parent_prompt(conversations, asked) if asked.agent_id else None
    person = asked_of or prompt
    return Talk(
        prompt=person.text if person else "",
        prompt_at=person.at if person else "",
        task=prompt.text if asked_of and prompt else "",
        said=tuple(Utterance(one.role, one.text, one.at) for one in said),
        answer=answer.text if answer else "",
        failed=answer.failed if answer else False,
        model=call.model,
        message_index=conversations.count_entries_before(call),
    )


def find_parent_prompt(conversations: Conversations, asked: CallQuery) -> ConversationEntry | None:
    """What the person had written last to the agent that started this sub-agent."""
    start = conversations.find_starting_call(asked.session_id, asked.agent_id)
    return conversations.find_prompt(start) if start else None
