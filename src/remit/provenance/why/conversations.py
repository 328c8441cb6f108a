"""What agents and people said to each other, kept for as long as the settings say: redacted, per session, searchable.

The file lies beside the state database and not in it: it grows by megabytes, and no hook has to open it. What it holds
came from the agents' own transcripts, and is taken in from where the last reading ended.
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

from remit.adapters.transcripts import Entry, Role, entries
from remit.core.redaction import redact
from remit.core.text import encodable, quoted_path
from remit.provenance.why import heard
from remit.provenance.why.conversations_file import connected, discard, in_memory
from remit.workspace.transcripts import IN_ROWS, MOST_BYTES, Chunk, Mark, lines_after, rows

FILE = "transcripts.db"
BATCH = 500
DAY_S = 86_400.0

KEPT_CHARS: dict[Role, int] = {
    "user": 8000,
    "assistant": 8000,
    "thinking": 8000,
    "summary": 4000,
    "tool_call": 1000,
    "tool_result": 1000,
}
MARGIN = 4096
"""More than is kept is searched for secrets by so much: none is cut in two, and seen for none, where a text ends."""

NOT_KEPT = "[not kept: the call names a file of secrets]"

FIELDS = "e.id, e.transcript, e.role, e.text, e.at, e.call_id, e.tool, e.model, e.arguments_sha256, e.failed"
OF_SESSION = f"SELECT {FIELDS} FROM entries e JOIN transcripts t ON t.id = e.transcript WHERE t.session_id = ?"
COLUMNS = (
    *("transcript", "key", "role", "text", "at", "call_id", "tool", "model"),
    *("arguments_sha256", "failed", "private", "child"),
)
PUT = (
    f"INSERT INTO entries({', '.join(COLUMNS)}) VALUES({', '.join('?' * len(COLUMNS))}) ON CONFLICT(transcript, key)"
    f" DO UPDATE SET {', '.join(f'{name}=excluded.{name}' for name in COLUMNS[2:])}"
)
TOO_OLD = "(at <> '' AND at < ?) OR transcript IN (SELECT id FROM transcripts WHERE taken_at < ?)"


class Source(Struct, frozen=True):
    """A transcript to take in: whose it is, and where the agent says that it lies."""

    path: str
    agent: str
    session_id: str
    agent_id: str = ""


class Spoken(Struct, frozen=True):
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
        self.trouble = ""

    @classmethod
    def open(cls, folder: Path, retain_days: float, patterns: Sequence[re.Pattern[str]] = ()) -> "Conversations":
        """Those of the state folder `folder`, without secrets and without what `patterns` match.

        With `retain_days` 0 nothing is on disk: they are read anew each time. So too where the file cannot be used.
        """
        path = folder / FILE
        try:
            if retain_days:
                return cls(connected(path), retain_days, patterns)
            discard(path)
            return cls(in_memory(), 0, patterns)
        except (sqlite3.Error, OSError) as error:
            found = cls(in_memory(), 0, patterns)
            found.trouble = f"the conversations kept in {str(path)!r} cannot be used: {error}"
            return found

    def __enter__(self) -> "Conversations":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()

    def catch_up(self, sources: Iterable[Source], now: float) -> None:
        """Take in what is there; what keeps that from being done is `trouble`."""
        try:
            self.take_in(sources, now)
        except (sqlite3.Error, OSError) as error:
            self.trouble = f"not all of the conversation could be taken in: {error}"

    def take_in(self, sources: Iterable[Source], now: float) -> int:
        """Read what these transcripts hold that is new, and forget what is too old; how many entries came.

        Raises sqlite3.Error.
        """
        taken = sum(self.taken_from(source, now) for source in sources)
        if self.retain_days:
            self.forget(now)
        return taken

    def taken_from(self, source: Source, now: float) -> int:
        """Read one transcript on from where the last reading ended."""
        name, mark = self.known(source)
        if source.agent == IN_ROWS:
            return self.put_chunks(source, name, mark, rows(Path(source.path), source.session_id), now)
        start, chunks = lines_after(Path(source.path), mark)
        taken = self.put_chunks(source, name, start, chunks, now)
        if self.known(source)[1].offset - start.offset >= MOST_BYTES:
            self.trouble = f"{source.path!r} is too long to be read at once: ask again for the rest of it"
        return taken

    def known(self, source: Source) -> tuple[int | None, Mark]:
        """The number of a transcript, None where it is new, and how far it was read."""
        row = self.database.execute(
            "SELECT id, inode, offset FROM transcripts WHERE path=? AND session_id=? AND agent_id=?", place_of(source)
        ).fetchone()
        return (row[0], Mark(row[1], row[2])) if row else (None, Mark())

    def put_chunks(
        self, source: Source, transcript: int | None, start: Mark, chunks: Iterator[Chunk], now: float
    ) -> int:
        """Keep what these chunks say, and how far they reach."""
        taken, offset = 0, start.offset
        while batch := list(islice(chunks, BATCH)):
            said: list[Entry] = []
            for chunk in batch:
                here = entries(source.agent, chunk.line)
                said += (with_key(entry, offset, number) for number, entry in enumerate(here))
                offset = chunk.end
            with self.writing() as database:
                transcript = transcript or self.new(source)
                taken += self.put(transcript, said)
                values = (start.inode, offset, now, transcript)
                database.execute("UPDATE transcripts SET inode=?, offset=?, taken_at=? WHERE id=?", values)
        return taken

    def new(self, source: Source) -> int:
        """A place for a transcript; the one that another process made meanwhile, where there is one."""
        values = (*place_of(source), source.agent)
        self.database.execute(
            "INSERT OR IGNORE INTO transcripts(path, session_id, agent_id, agent) VALUES(?,?,?,?)", values
        )
        transcript, _ = self.known(source)
        return transcript or 0

    def put(self, transcript: int, said: Sequence[Entry]) -> int:
        """Keep these entries, without secrets; how many."""
        private = self.private_calls(transcript, said)
        found = [self.row(transcript, entry, entry.call_id in private) for entry in said]
        self.database.executemany(PUT, found)
        return len(found)

    def private_calls(self, transcript: int, said: Sequence[Entry]) -> set[str]:
        """The calls that name a file of secrets."""
        asked = "SELECT call_id FROM entries WHERE transcript=? AND private AND call_id<>''"
        before = {row[0] for row in self.database.execute(asked, (transcript,))}
        return before | {entry.call_id for entry in said if entry.private and entry.call_id}

    def row(self, transcript: int, entry: Entry, private: bool) -> tuple[object, ...]:
        """An entry as it is written."""
        kept = NOT_KEPT if private and entry.role == "tool_result" else self.clean(entry.text, KEPT_CHARS[entry.role])
        ids = (entry.call_id, entry.tool, entry.model)
        call_id, tool, model = (None if value is None else self.clean(value, 200) for value in ids)
        return (
            *(transcript, encodable(entry.key[:400]), entry.role, kept, entry.at, call_id, tool, model),
            *(entry.arguments_sha256, entry.failed, entry.private, encodable(entry.child[:200])),
        )

    def clean(self, text: str, most: int) -> str:
        """A text without secrets, and no longer than that."""
        return encodable(redact(text[: most + MARGIN], self.patterns)[:most])

    def forget(self, now: float) -> None:
        """Take out what was said longer ago than the settings say; that it was read is remembered."""
        oldest = now - self.retain_days * DAY_S
        with self.writing() as database:
            old = (written(oldest), oldest)
            if database.execute(f"SELECT 1 FROM entries WHERE {TOO_OLD} LIMIT 1", old).fetchone():
                heard.forget(database)
                database.execute(f"DELETE FROM entries WHERE {TOO_OLD}", old)

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """One transaction."""
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            yield self.database

    def call(self, session: str, call_id: str, arguments_sha256: str, before: str) -> Spoken | None:
        """The entry of a call: by its id, else the newest with these arguments that was asked for before a time."""
        if call_id and (found := self.first(f"{OF_SESSION} AND e.call_id=? AND e.role='tool_call'", session, call_id)):
            return found
        if not arguments_sha256:
            return None
        asked = f"{OF_SESSION} AND e.role='tool_call' AND e.arguments_sha256=? AND e.at<=? ORDER BY e.id DESC"
        return self.first(asked, session, arguments_sha256, before)

    def answer(self, call: Spoken) -> Spoken | None:
        """What came of a call."""
        asked = f"SELECT {FIELDS} FROM entries e WHERE e.transcript=? AND e.call_id=? AND e.role='tool_result'"
        return self.first(asked, call.transcript, call.call_id) if call.call_id else None

    def prompt(self, call: Spoken) -> Spoken | None:
        """What the person, or the agent that started a sub-agent, had said last when the call was made."""
        asked = f"SELECT {FIELDS} FROM entries e WHERE e.transcript=? AND e.id<? AND e.role='user' ORDER BY e.id DESC"
        return self.first(asked, call.transcript, call.id)

    def said_between(self, first: int, call: Spoken) -> tuple[Spoken, ...]:
        """What the model said and thought between an entry and a call."""
        asked = (
            f"SELECT {FIELDS} FROM entries e WHERE e.transcript=? AND e.id>? AND e.id<?"
            " AND e.role IN ('assistant','thinking') ORDER BY e.id"
        )
        return self.all(asked, call.transcript, first, call.id)

    def place(self, call: Spoken) -> int:
        """How many entries of its transcript stand before a call, as far as they are kept."""
        asked = "SELECT count(*) FROM entries WHERE transcript=? AND id<?"
        [(count,)] = self.database.execute(asked, (call.transcript, call.id))
        return count

    def starter(self, session: str, agent_id: str) -> Spoken | None:
        """The call, in the parent's transcript, that this sub-agent worked for."""
        child = self.first(f"{OF_SESSION} AND e.child=?", session, agent_id)
        return self.call(session, child.call_id, "", "") if child and child.call_id else None

    def of_session(self, session: str, agent_id: str = "") -> tuple[Spoken, ...]:
        """All that is kept of a session, in order; sub-agents have their own."""
        return self.all(f"{OF_SESSION} AND t.agent_id=? ORDER BY e.transcript, e.id", session, agent_id)

    def first(self, query: str, *values: object) -> Spoken | None:
        """The first entry that a query finds."""
        return next(iter(self.all(f"{query} LIMIT 1", *values)), None)

    def all(self, query: str, *values: object) -> tuple[Spoken, ...]:
        """The entries that a query finds."""
        return tuple(Spoken(*row[:-1], failed=bool(row[-1])) for row in self.database.execute(query, values))


def written(seconds: float) -> str:
    """A time as transcripts write it; the first one there is for a time before."""
    return f"{datetime.fromtimestamp(max(0.0, seconds), UTC):%Y-%m-%dT%H:%M:%S}Z"


def with_key(entry: Entry, offset: int, number: int) -> Entry:
    """The entry with a key: where the agent names no message, the place in the file."""
    return entry if entry.key and entry.key[0] != "/" else replace(entry, key=f"@{offset}/{number}")


def place_of(source: Source) -> tuple[str, str, str]:
    """What a transcript is known by."""
    return quoted_path(source.path), encodable(source.session_id), encodable(source.agent_id)
