"""What must outlive a process but is no record: sessions, what they have read, calls under way.

One SQLite file for each repository, shared by all its worktrees; rows name the workspace they belong to.
"""

import json
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.call import Effect, SessionKey
from remit.core.contents import Version
from remit.core.text import encodable, quoted_path

SCHEMA_VERSION = 5

BUSY_TIMEOUT_S = 5.0
"""How long one statement waits for another process. A hook that waits too long is passed over by its agent."""

TABLES = """
CREATE TABLE IF NOT EXISTS sessions(
  workspace TEXT, session_id TEXT, agent_id TEXT, agent TEXT, model TEXT, intent_id TEXT, source TEXT,
  told TEXT, seen_at REAL, PRIMARY KEY(workspace, session_id, agent_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reads(
  workspace TEXT, session_id TEXT, agent_id TEXT, path TEXT, sha256 TEXT, git_blob TEXT,
  PRIMARY KEY(workspace, session_id, agent_id, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls(
  id INTEGER PRIMARY KEY, workspace TEXT, session_id TEXT, agent_id TEXT, call_id TEXT, tool TEXT,
  arguments_sha256 TEXT, at REAL, before BLOB);
CREATE INDEX IF NOT EXISTS calls_by_session ON calls(workspace, session_id, agent_id);
CREATE INDEX IF NOT EXISTS calls_by_id ON calls(call_id);
CREATE TABLE IF NOT EXISTS remit_calls(
  id INTEGER PRIMARY KEY, session_id TEXT, agent_id TEXT, agent TEXT, call_id TEXT, digest TEXT, at REAL);
CREATE TABLE IF NOT EXISTS kept(git_blob TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS approvals(
  id TEXT PRIMARY KEY, workspace TEXT, question BLOB, reply BLOB, expires_at REAL, closed INTEGER DEFAULT 0,
  owner BLOB, seen_at REAL DEFAULT 0, digest TEXT DEFAULT '', used INTEGER DEFAULT 0, answered_at REAL DEFAULT 0);
CREATE TABLE IF NOT EXISTS grants(id TEXT PRIMARY KEY, workspace TEXT, body BLOB, until REAL);
CREATE TABLE IF NOT EXISTS setbacks(
  workspace TEXT, session_id TEXT, agent_id TEXT, denial TEXT, denials INTEGER, failures INTEGER, at REAL,
  PRIMARY KEY(workspace, session_id, agent_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS denied(
  workspace TEXT, session_id TEXT, path TEXT, code TEXT, tool TEXT, at REAL,
  PRIMARY KEY(workspace, session_id, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS baseline(
  workspace TEXT, path TEXT, version BLOB, PRIMARY KEY(workspace, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS told(id INTEGER PRIMARY KEY, workspace TEXT, digest TEXT, at REAL, event BLOB);
CREATE TABLE IF NOT EXISTS transcripts(
  workspace TEXT, session_id TEXT, agent_id TEXT, agent TEXT, path TEXT,
  PRIMARY KEY(workspace, session_id, agent_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts(workspace TEXT, name TEXT, value TEXT, PRIMARY KEY(workspace, name)) WITHOUT ROWID;
"""

ADDED = {
    "approvals": {
        "owner": "BLOB",
        "seen_at": "REAL DEFAULT 0",
        "digest": "TEXT DEFAULT ''",
        "used": "INTEGER DEFAULT 0",
        "answered_at": "REAL DEFAULT 0",
    }
}
"""Columns that came after a table was first made: a file of an older version gets them when it is opened."""

RETURNED = (
    "SELECT id, before FROM calls WHERE call_id=? AND workspace=? AND session_id=? AND agent_id=? ORDER BY id LIMIT 1"
)
"""The call that came back, where its agent gave it an id."""

RETURNED_ALIKE = (
    "SELECT id, before FROM calls WHERE workspace=? AND session_id=? AND agent_id=? AND tool=? AND arguments_sha256=?"
    " ORDER BY CASE WHEN call_id='' THEN -id ELSE id END LIMIT 1"
)


class StateError(RuntimeError):
    """The state database cannot be used."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"Remit's state {str(path)!r} cannot be used: {why}")
        self.path = path


class Session(Struct, frozen=True):
    """One session as it is known. `told` is the hash of the last context block that reached it."""

    agent: str = ""
    model: str | None = None
    intent_id: str | None = None
    source: str = ""
    told: str = ""


class PendingCall(Struct, frozen=True):
    """A call that was let through and has not come back. `head` and `before` are the observation before it.

    `owned_scope` is what its intent owned then: a call that widens the scope does not judge itself by it.
    """

    intent_id: str | None
    verdict: str
    mode: str
    rules: tuple[str, ...]
    judged: tuple[str, ...]
    whole: bool
    head: str | None
    before: dict[str, Version | None]
    intent_sha256: str = ""
    agent: str = ""
    effect: Effect = "execute"
    transcript: str | None = None
    owned_scope: tuple[str, ...] = ()
    known_commits: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = None
    """All that a command writes, where its text tells; None where it does not."""
    announced: dict[str, str] = {}
    """By path, the git name of what a file tool is going to leave there, as far as its arguments tell."""
    grants: tuple[str, ...] = ()
    """The yeses that it was let through by."""
    snapshot: str = ""
    """The state of the files before it, where one was kept."""


class OpenCall(Struct, frozen=True):
    """A pending call with what it is known by. `at` is when it was let through."""

    row: int
    session: SessionKey
    call_id: str
    tool: str
    arguments_sha256: str
    at: float
    pending: PendingCall | None


class RemitCall(Struct, frozen=True):
    """A call to one of Remit's own tools, as the agent's hook announced it."""

    session: SessionKey
    agent: str


class State:
    """The state of one workspace. `aside` is where a damaged file was moved when this one was made."""

    def __init__(self, path: Path, workspace: Path) -> None:
        self.path = path
        self.workspace = quoted_path(str(workspace))
        self.connection, self.aside = connect(path)
        status = path.stat()
        self.identity = (status.st_dev, status.st_ino)

    def current(self) -> bool:
        """Whether the open database is still the one at its path."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """One transaction, or a part of the one that `together` began. Raises StateError for what cannot be written."""
        try:
            if self.connection.in_transaction:
                yield self.connection
                return
            with self.connection:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
        except sqlite3.Error as error:
            raise StateError(self.path, explained(error)) from error

    @contextmanager
    def together(self) -> Generator[None]:
        """Several changes as one: a commit costs more than any of them. Raises StateError."""
        with self.writing():
            yield

    def row(self, query: str, *values: object) -> sqlite3.Row | None:
        """The first row of a query."""
        try:
            return self.connection.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise StateError(self.path, explained(error)) from error

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """All rows of a query."""
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StateError(self.path, explained(error)) from error

    def session(self, key: SessionKey) -> Session | None:
        """What is known of this session; None where it was never heard of."""
        row = self.row(
            "SELECT agent, model, intent_id, source, told FROM sessions"
            " WHERE workspace=? AND session_id=? AND agent_id=?",
            *(self.workspace, key.session_id, key.agent_id),
        )
        return None if row is None else Session(*row)

    def active(self, key: SessionKey) -> Session:
        """The session with the intent it works under: a sub-agent inherits until it selects its own."""
        own = self.session(key)
        if key.parent is None or (own is not None and own.source not in ("", "parent")):
            return own or Session()
        own, parent = own or Session(), self.session(key.parent) or Session()
        return Session(
            agent=own.agent or parent.agent,
            model=own.model or parent.model,
            intent_id=parent.intent_id,
            source="parent",
            told=own.told,
        )

    def put_session(self, key: SessionKey, session: Session, at: float) -> None:
        """Remember this session as it now is."""
        with self.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES(?,?,?,?,?,?,?,?,?)",
                (
                    *(self.workspace, key.session_id, key.agent_id),
                    *(session.agent, session.model, session.intent_id, session.source, session.told, at),
                ),
            )

    def put_transcript(self, key: SessionKey, agent: str, path: str) -> None:
        """Where this session's conversation is written down, as its agent says; written where that is news."""
        here, said = (self.workspace, key.session_id, key.agent_id), (agent, encodable(path))
        known = self.row("SELECT agent, path FROM transcripts WHERE workspace=? AND session_id=? AND agent_id=?", *here)
        if known == said:
            return
        with self.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO transcripts VALUES(?,?,?,?,?)", (*here, *said))

    def transcripts(self, session_id: str | None = None) -> dict[SessionKey, tuple[str, str]]:
        """(agent, path) of the transcripts of a session and its sub-agents; of every session where none is named."""
        rows = self.rows(
            "SELECT session_id, agent_id, agent, path FROM transcripts WHERE workspace=? AND ifnull(session_id=?, 1)",
            *(self.workspace, session_id),
        )
        return {SessionKey(row[0], row[1]): (row[2], row[3]) for row in rows}

    def recent_sessions(self, most: int = 20) -> list[SessionKey]:
        """The sessions heard of here, the newest first; sub-agents left out."""
        rows = self.rows(
            "SELECT session_id FROM sessions WHERE workspace=? AND agent_id='' ORDER BY seen_at DESC LIMIT ?",
            *(self.workspace, most),
        )
        return [SessionKey(row[0]) for row in rows]

    def seen(self, key: SessionKey, path: str) -> tuple[str, str] | None:
        """(SHA-256, git blob) of what this session last read or wrote at `path`; a sub-agent's reads are its own."""
        row = self.row(
            "SELECT sha256, git_blob FROM reads WHERE workspace=? AND session_id=? AND agent_id=? AND path=?",
            *(self.workspace, key.session_id, key.agent_id, quoted_path(path)),
        )
        return None if row is None else (row[0], row[1])

    def put_seen(self, key: SessionKey, versions: dict[str, Version | None]) -> None:
        """This session has now seen these contents; None forgets the path."""
        named = [((self.workspace, key.session_id, key.agent_id, quoted_path(path)), v) for path, v in versions.items()]
        gone = [name for name, version in named if version is None]
        rows = [(*name, version.sha256, version.git_blob) for name, version in named if version is not None]
        if not named:
            return
        with self.writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO reads VALUES(?,?,?,?,?,?)", rows)
            connection.executemany(
                "DELETE FROM reads WHERE workspace=? AND session_id=? AND agent_id=? AND path=?", gone
            )

    def put_call(self, key: SessionKey, call_id: str, tool: str, digest: str, call: PendingCall, at: float) -> None:
        """A call is under way."""
        blob = packed(call)
        with self.writing() as connection:
            connection.execute(
                "INSERT INTO calls(workspace, session_id, agent_id, call_id, tool, arguments_sha256, at, before)"
                " VALUES(?,?,?,?,?,?,?,?)",
                (self.workspace, key.session_id, key.agent_id, call_id, tool, digest, at, blob),
            )

    def peek_call(self, key: SessionKey, call_id: str, tool: str, digest: str) -> tuple[int | None, PendingCall | None]:
        """The call that came back, with its row: by its id, else the oldest with the same tool and arguments.

        It is not forgotten here: `drop_call` does that, once its effects are recorded.
        """
        here = (self.workspace, key.session_id, key.agent_id)
        row = self.row(RETURNED, call_id, *here) if call_id else self.row(RETURNED_ALIKE, *here, tool, digest)
        return (None, None) if row is None else (row[0], unpacked(row[1]))

    def open_calls(self) -> list[OpenCall]:
        """Every call under way in this workspace, the oldest first."""
        rows = self.rows(
            "SELECT id, session_id, agent_id, call_id, tool, arguments_sha256, at, before FROM calls"
            " WHERE workspace=? ORDER BY id",
            self.workspace,
        )
        return [OpenCall(r[0], SessionKey(r[1], r[2]), r[3], r[4], r[5], r[6], unpacked(r[7])) for r in rows]

    def put_pending(self, row: int, call: PendingCall) -> None:
        """What is known of a call under way is this from now on."""
        with self.writing() as connection:
            connection.execute("UPDATE calls SET before=? WHERE id=?", (packed(call), row))

    def drop_call(self, row: int) -> bool:
        """Forget a call under way; False where somebody else did."""
        with self.writing() as connection:
            return connection.execute("DELETE FROM calls WHERE id=?", (row,)).rowcount > 0

    def holder(self, key: SessionKey, path: str, since: float) -> str | None:
        """The other session whose call, let through after `since`, may change `path`."""
        spelled = json.dumps(path).encode("ascii")
        rows = self.rows(
            "SELECT session_id, before FROM calls WHERE workspace=? AND at>? AND NOT (session_id=? AND agent_id=?)"
            " AND instr(before, ?) > 0 ORDER BY id",
            *(self.workspace, since, key.session_id, key.agent_id, spelled),
        )
        calls = ((row[0], unpacked(row[1])) for row in rows)
        return next((session for session, call in calls if call is not None and path in call.judged), None)

    def put_remit_call(self, call: RemitCall, call_id: str, digest: str, at: float) -> None:
        """A call to Remit's own tools was announced by the agent's hook."""
        key = call.session
        with self.writing() as connection:
            connection.execute("DELETE FROM remit_calls WHERE at < ?", (at - 3600,))
            connection.execute(
                "INSERT INTO remit_calls(session_id, agent_id, agent, call_id, digest, at) VALUES(?,?,?,?,?,?)",
                (key.session_id, key.agent_id, call.agent, call_id, digest, at),
            )

    def take_remit_call(self, call_id: str, digest: str, since: float) -> RemitCall | None:
        """Whose call this is: by its id (and the same arguments), else by the arguments alone, oldest first."""
        with self.writing() as connection:
            row = connection.execute(
                "SELECT id, session_id, agent_id, agent FROM remit_calls WHERE digest=? AND at>=?"
                " AND (?='' OR call_id=?) ORDER BY id LIMIT 1",
                (digest, since, call_id, call_id),
            ).fetchone()
            if row is None:
                return None
            connection.execute("DELETE FROM remit_calls WHERE id=?", (row[0],))
        return RemitCall(SessionKey(row[1], row[2]), row[3])

    def unkept(self, blobs: set[str]) -> set[str]:
        """Those of these git names whose content was not kept yet."""
        if not blobs:
            return set()
        marks = ",".join("?" * len(blobs))
        return blobs - {row[0] for row in self.rows(f"SELECT git_blob FROM kept WHERE git_blob IN ({marks})", *blobs)}

    def put_kept(self, blobs: set[str]) -> None:
        """These contents are kept."""
        with self.writing() as connection:
            connection.executemany("INSERT OR IGNORE INTO kept VALUES(?)", [(blob,) for blob in blobs])

    def fact(self, name: str) -> str | None:
        """A remembered value of this workspace."""
        row = self.row("SELECT value FROM facts WHERE workspace=? AND name=?", self.workspace, name)
        return None if row is None else row[0]

    def put_fact(self, name: str, value: str) -> None:
        """Remember a value for this workspace."""
        with self.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO facts VALUES(?,?,?)", (self.workspace, name, value))


PENDING = msgspec.json.Decoder(PendingCall)


def packed(call: Struct) -> bytes:
    """The call as ASCII: a path in it may not be UTF-8, and has to come back as it was."""
    return json.dumps(msgspec.to_builtins(call)).encode("ascii")


def unpacked(blob: bytes) -> PendingCall | None:
    """The call that `packed` wrote; None where something else stands there."""
    try:
        return PENDING.decode(blob)
    except ValueError:
        pass  # a name in it may not be UTF-8: only Python's reader takes such escapes
    try:
        return msgspec.convert(json.loads(blob), PendingCall)
    except (ValueError, TypeError):
        return None


def explained(error: Exception) -> str:
    """What SQLite says, and what to do about it."""
    said = str(error)
    if "malformed" in said or "not a database" in said:
        return f"{said}. Move the file away: sessions then select their intent again, and no record is lost"
    if "locked" in said:
        return f"{said}: another process has held it for more than {BUSY_TIMEOUT_S:.0f} s; try again when it is done"
    return f"{said}: make room and give yourself write permission there" if is_space_or_right(said) else said


def is_space_or_right(said: str) -> bool:
    """Whether SQLite could not write."""
    return any(part in said for part in ("full", "readonly", "unable to open", "disk I/O"))


def connect(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    """The database, made where it is missing; a damaged one is moved aside, never overwritten, and where to is told.

    Raises StateError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return opened(path), None
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise StateError(path, explained(error)) from error
        return replaced(path)
    except OSError as error:
        raise StateError(path, error.strerror or str(error)) from error


def opened(path: Path) -> sqlite3.Connection:
    """The database with its tables."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
        connection.execute("PRAGMA journal_mode=WAL")
        renew(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def renew(connection: sqlite3.Connection) -> None:
    """Make what is missing: tables, and columns of tables that an older version made. Nothing is taken away."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in filter(str.strip, TABLES.split(";")):
            connection.execute(statement)
        for table, columns in ADDED.items():
            there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for name in columns.keys() - there:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {columns[name]}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    except sqlite3.Error:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def replaced(path: Path) -> tuple[sqlite3.Connection, Path]:
    """A new database in place of a damaged one, which stays beside it under another name."""
    aside = path.with_name(f"{path.name}.damaged")
    count = 1
    while aside.exists():
        aside, count = path.with_name(f"{path.name}.damaged.{count}"), count + 1
    try:
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return opened(path), aside
    except (OSError, sqlite3.Error) as error:
        raise StateError(path, explained(error)) from error
