"""Conversations of agents and people: redacted, per session, kept for the configured time, searchable.

The database lies beside the state database: it grows by megabytes, and no hook opens the file. The entries come from
the agents' own transcripts, read on from the last position. The index for full-text search is created by the first
search and follows new entries; deleting entries drops the index, because the index would keep their words.
"""

import re
import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters.transcripts import Role, TranscriptEntry, read_entries
from remit.core.redaction import redact
from remit.core.untrusted_input import escape_surrogates, quote_path
from remit.ledger.index.search import build_query
from remit.ledger.sqlite_file import enable_write_ahead
from remit.provenance.why.explanation import Talk, Utterance
from remit.workspace.agents.transcripts import MAX_READ_BYTES, ReadPosition, read_lines_after

VERSION = 1
BUSY_TIMEOUT_S = 5.0

TABLES = """
CREATE TABLE IF NOT EXISTS transcripts(
  id INTEGER PRIMARY KEY, path TEXT, agent TEXT, session_id TEXT, agent_id TEXT, inode INTEGER, offset INTEGER,
  taken_at REAL, UNIQUE(path, session_id, agent_id));
CREATE TABLE IF NOT EXISTS entries(
  id INTEGER PRIMARY KEY, transcript INTEGER, key TEXT, role TEXT, text TEXT, at TEXT, call_id TEXT, tool TEXT,
  model TEXT, arguments_sha256 TEXT, failed INTEGER, private INTEGER, child TEXT, UNIQUE(transcript, key));
CREATE INDEX IF NOT EXISTS entries_by_call ON entries(call_id) WHERE call_id <> '';
CREATE INDEX IF NOT EXISTS entries_by_arguments ON entries(arguments_sha256) WHERE arguments_sha256 <> '';
CREATE INDEX IF NOT EXISTS entries_by_child ON entries(child) WHERE child <> '';
"""


def open_database(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        enable_write_ahead(database, BUSY_TIMEOUT_S)
        return create_tables(database)
    except sqlite3.Error:
        database.close()
        raise


def create_tables(database: sqlite3.Connection) -> sqlite3.Connection:
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("PRAGMA secure_delete=ON")
    if database.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        database.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version={VERSION}; COMMIT;")
    return database


SPOKEN_ROLES = "('user','assistant','thinking','summary')"

CREATE_INDEX = f"""
CREATE VIRTUAL TABLE heard USING fts5(
  text, content='entries', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
INSERT INTO heard(rowid, text) SELECT id, text FROM entries WHERE role IN {SPOKEN_ROLES};
CREATE TRIGGER heard_new AFTER INSERT ON entries WHEN new.role IN {SPOKEN_ROLES} BEGIN
  INSERT INTO heard(rowid, text) VALUES(new.id, new.text); END;
CREATE TRIGGER heard_changed AFTER UPDATE ON entries WHEN old.role IN {SPOKEN_ROLES} BEGIN
  INSERT INTO heard(heard, rowid, text) VALUES('delete', old.id, old.text);
  INSERT INTO heard(rowid, text) VALUES(new.id, new.text); END;
"""
DROP_INDEX = "DROP TRIGGER IF EXISTS heard_new; DROP TRIGGER IF EXISTS heard_changed; DROP TABLE IF EXISTS heard;"

SEARCH_QUERY = """SELECT t.session_id, t.agent_id, t.agent, e.role, e.at, e.text, snippet(heard, 0, '', '', '…', 24)
  FROM heard JOIN entries e ON e.id = heard.rowid JOIN transcripts t ON t.id = e.transcript
  WHERE heard MATCH ? AND (? = '' OR t.session_id = ?) AND (? = '' OR e.at >= ?) ORDER BY """
ORDER_BY_RANK, ORDER_BY_TIME = "bm25(heard), e.at DESC", "e.at DESC, e.id DESC"


class ConversationMatch(Struct, frozen=True):
    """A matching entry. `around` is the excerpt of `text` with the words."""

    session_id: str
    agent_id: str
    agent: str
    role: str
    at: str
    text: str
    around: str


def search_conversations(
    database: sqlite3.Connection,
    words: Sequence[str],
    limit: int,
    *,
    session: str = "",
    since: str = "",
    newest: bool = False,
) -> tuple[ConversationMatch, ...]:
    """Return the entries with all words, best first or newest first. Raises NoWords, sqlite3.Error."""
    query = build_query(words)
    if database.execute("SELECT 1 FROM sqlite_master WHERE name='heard'").fetchone() is None:
        database.executescript(f"BEGIN IMMEDIATE; {DROP_INDEX} {CREATE_INDEX} COMMIT;")
    order = ORDER_BY_TIME if newest else ORDER_BY_RANK
    rows = database.execute(f"{SEARCH_QUERY} {order} LIMIT ?", (query, session, session, since, since, limit))
    return tuple(ConversationMatch(*row) for row in rows)


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
SELECT_BY_TRANSCRIPT = f"SELECT {ENTRY_FIELDS} FROM entries e WHERE e.transcript=?"
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
        self.database, self.retain_days, self.patterns, self.problem = database, retain_days, patterns, ""

    @classmethod
    def open(cls, folder: Path, retain_days: float, patterns: Sequence[re.Pattern[str]] = ()) -> "Conversations":
        """Open the conversations in the state folder, with secrets and matches of `patterns` redacted. With
        `retain_days` 0 no file is kept and transcripts are read anew each time, as for an unusable file. A damaged file
        is renamed and replaced.
        """
        path, problem = folder / DATABASE_FILE, ""
        try:
            if retain_days:
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    return cls(open_database(path), retain_days, patterns)
                except sqlite3.OperationalError:
                    raise
                except sqlite3.DatabaseError:
                    path.replace(path.with_name(f"{path.name}.damaged"))
                    return cls(open_database(path), retain_days, patterns)
            for suffix in ("", "-wal", "-shm", ".damaged"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        except (sqlite3.Error, OSError) as error:
            problem = f"the conversations kept in {str(path)!r} cannot be used: {error}"
        in_memory = create_tables(sqlite3.connect(":memory:", isolation_level=None))
        conversations = cls(in_memory, 0, patterns)
        conversations.problem = problem
        return conversations

    def __enter__(self) -> "Conversations":
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def catch_up(self, sources: Iterable[TranscriptSource], now: float) -> None:
        """Read the transcripts; failures are stored in `problem`."""
        try:
            self.read_transcripts(sources, now)
        except (sqlite3.Error, OSError) as error:
            self.problem = f"not all of the conversation could be taken in: {error}"

    def read_transcripts(self, sources: Iterable[TranscriptSource], now: float) -> int:
        """Read new entries and delete expired ones; return the number of entries. Raises sqlite3.Error."""
        count = sum(self.read_transcript(source, now) for source in sources)
        if self.retain_days:
            self.delete_expired(now)
        return count

    def read_transcript(self, source: TranscriptSource, now: float) -> int:
        transcript, position = self.find_transcript(source)
        start, chunks = read_lines_after(Path(source.path), position)
        count, offset = 0, start.offset
        while batch := list(islice(chunks, BATCH_CHUNKS)):
            entries: list[TranscriptEntry] = []
            for chunk in batch:
                for number, entry in enumerate(read_entries(source.agent, chunk.line)):
                    # Without a message id, an entry's key is its position in the file.
                    has_key = entry.key and entry.key[0] != "/"
                    entries.append(entry if has_key else replace(entry, key=f"@{offset}/{number}"))
                offset = chunk.end
            with self.begin_write() as database:
                if not transcript:  # unless a concurrent process just created the row
                    insert = "INSERT OR IGNORE INTO transcripts(path, session_id, agent_id, agent) VALUES(?,?,?,?)"
                    database.execute(insert, (*transcript_key(source), source.agent))
                    transcript = self.find_transcript(source)[0] or 0
                count += self.store_entries(transcript, entries)
                values = (start.inode, offset, now, transcript)
                database.execute("UPDATE transcripts SET inode=?, offset=?, taken_at=? WHERE id=?", values)
        if offset - start.offset >= MAX_READ_BYTES:
            self.problem = f"{source.path!r} is too long to be read at once: ask again for the rest of it"
        return count

    def find_transcript(self, source: TranscriptSource) -> tuple[int | None, ReadPosition]:
        """Return the transcript's id, None if new, and the position reached."""
        row = self.database.execute(
            "SELECT id, inode, offset FROM transcripts WHERE path=? AND session_id=? AND agent_id=?",
            transcript_key(source),
        ).fetchone()
        return (row[0], ReadPosition(row[1], row[2])) if row else (None, ReadPosition())

    def store_entries(self, transcript: int, entries: Sequence[TranscriptEntry]) -> int:
        query = "SELECT call_id FROM entries WHERE transcript=? AND private AND call_id<>''"
        private = {row[0] for row in self.database.execute(query, (transcript,))}
        private |= {entry.call_id for entry in entries if entry.private and entry.call_id}
        rows: list[tuple[object, ...]] = []
        for entry in entries:
            is_secret = entry.role == "tool_result" and entry.call_id in private
            text = SECRET_PLACEHOLDER if is_secret else self.redact_and_cut(entry.text, MAX_KEPT_CHARS[entry.role])
            call_id, tool = self.redact_and_cut(entry.call_id, 200), self.redact_and_cut(entry.tool, 200)
            model = None if entry.model is None else self.redact_and_cut(entry.model, 200)
            key, child = escape_surrogates(entry.key[:400]), escape_surrogates(entry.child[:200])
            own = (transcript, key, entry.role, text, entry.at, call_id, tool, model)
            rows.append((*own, entry.arguments_sha256, entry.failed, entry.private, child))
        self.database.executemany(UPSERT_ENTRY, rows)
        return len(rows)

    def redact_and_cut(self, text: str, max_chars: int) -> str:
        return escape_surrogates(redact(text[: max_chars + REDACTION_MARGIN_CHARS], self.patterns)[:max_chars])

    def delete_expired(self, now: float) -> None:
        oldest = now - self.retain_days * DAY_S
        bounds = (f"{datetime.fromtimestamp(max(0.0, oldest), UTC):%Y-%m-%dT%H:%M:%S}Z", oldest)
        with self.begin_write() as database:
            if database.execute(f"SELECT 1 FROM entries WHERE {EXPIRED_CONDITION} LIMIT 1", bounds).fetchone():
                for statement in DROP_INDEX.split("; "):
                    database.execute(statement)
                database.execute(f"DELETE FROM entries WHERE {EXPIRED_CONDITION}", bounds)

    @contextmanager
    def begin_write(self) -> Generator[sqlite3.Connection]:
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            yield self.database

    def find_call(self, session: str, call_id: str, arguments_sha256: str, before: str) -> ConversationEntry | None:
        """Return the entry of a call: by id, else the newest with these arguments before a time."""
        select = f"{SELECT_BY_SESSION} AND e.role='tool_call'"
        if call_id and (entry := self.select_first(f"{select} AND e.call_id=?", session, call_id)):
            return entry
        query = f"{select} AND e.arguments_sha256=? AND e.at<=? ORDER BY e.id DESC"
        return self.select_first(query, session, arguments_sha256, before) if arguments_sha256 else None

    def find_prompt(self, call: ConversationEntry) -> ConversationEntry | None:
        query = f"{SELECT_BY_TRANSCRIPT} AND e.id<? AND e.role='user' ORDER BY e.id DESC"
        return self.select_first(query, call.transcript, call.id)

    def entries_of_session(self, session: str, agent_id: str = "") -> tuple[ConversationEntry, ...]:
        """Return the kept entries of a session in order; sub-agents have their own."""
        return self.select_all(f"{SELECT_BY_SESSION} AND t.agent_id=? ORDER BY e.transcript, e.id", session, agent_id)

    def select_first(self, query: str, *values: object) -> ConversationEntry | None:
        return next(iter(self.select_all(f"{query} LIMIT 1", *values)), None)

    def select_all(self, query: str, *values: object) -> tuple[ConversationEntry, ...]:
        return tuple(ConversationEntry(*row[:-1], failed=bool(row[-1])) for row in self.database.execute(query, values))


def transcript_key(source: TranscriptSource) -> tuple[str, str, str]:
    return quote_path(source.path), escape_surrogates(source.session_id), escape_surrogates(source.agent_id)


class AgentSession(Struct, frozen=True):
    """Agent and id of a session."""

    agent: str
    id: str


def find_talk(
    conversations: Conversations, session: str, agent_id: str, call_id: str, arguments_sha256: str, at: str
) -> Talk | None:
    """Return the conversation around a call; None if no transcript has the call. Raises sqlite3.Error."""
    find, select = conversations.select_first, SELECT_BY_TRANSCRIPT
    call = conversations.find_call(session, call_id, arguments_sha256, at)
    if call is None:
        return None
    prompt, answer = conversations.find_prompt(call), None
    if call.call_id:
        answer = find(f"{select} AND e.call_id=? AND e.role='tool_result'", call.transcript, call.call_id)
    between = f"{select} AND e.id>? AND e.id<? AND e.role IN ('assistant','thinking') ORDER BY e.id"
    texts = conversations.select_all(between, call.transcript, prompt.id if prompt else 0, call.id)
    # A sub-agent's own prompt is its task; the person wrote to the parent, in which a call started it.
    parent_prompt = None
    if agent_id:
        child = find(f"{SELECT_BY_SESSION} AND e.child=?", session, agent_id)
        start = conversations.find_call(session, child.call_id, "", "") if child and child.call_id else None
        parent_prompt = conversations.find_prompt(start) if start else None
    from_person = parent_prompt or prompt
    count_before = "SELECT count(*) FROM entries WHERE transcript=? AND id<?"
    return Talk(
        prompt=from_person.text if from_person else "",
        prompt_at=from_person.at if from_person else "",
        task=prompt.text if parent_prompt and prompt else "",
        said=tuple(Utterance(entry.role, entry.text, entry.at) for entry in texts),
        answer=answer.text if answer else "",
        failed=answer.failed if answer else False,
        model=call.model,
        message_index=conversations.database.execute(count_before, (call.transcript, call.id)).fetchone()[0],
    )


OpenConversations: TypeAlias = Callable[[Sequence[AgentSession]], Conversations]
"""Open the conversations of these sessions."""
