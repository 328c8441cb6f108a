"""The SQLite database behind the state: its tables, transactions, and the repair of an old or damaged file."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from remit.core.untrusted_input import quote_path
from remit.ledger.log_files import is_unwritable
from remit.ledger.sqlite_file import copy_to_memory, enable_write_ahead

SCHEMA_VERSION = 10

BUSY_TIMEOUT_S = 5.0
"""Time that one statement waits for another process: an agent goes on without a hook that waits too long."""

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
  id INTEGER PRIMARY KEY, session_id TEXT, agent_id TEXT, agent TEXT, call_id TEXT, digest TEXT, at REAL,
  asked BLOB);
CREATE TABLE IF NOT EXISTS kept(git_blob TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS approvals(
  id TEXT PRIMARY KEY, workspace TEXT, question BLOB, reply BLOB, expires_at REAL, closed INTEGER DEFAULT 0,
  owner BLOB, seen_at REAL DEFAULT 0, digest TEXT DEFAULT '', used INTEGER DEFAULT 0, answered_at REAL DEFAULT 0);
CREATE TABLE IF NOT EXISTS watchers(
  workspace TEXT, watcher TEXT, session_id TEXT, seen_at REAL,
  PRIMARY KEY(workspace, watcher, session_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS grants(id TEXT PRIMARY KEY, workspace TEXT, body BLOB, until REAL);
CREATE TABLE IF NOT EXISTS setbacks(
  workspace TEXT, session_id TEXT, agent_id TEXT, denial TEXT, denials INTEGER, failures INTEGER, at REAL,
  PRIMARY KEY(workspace, session_id, agent_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS denied(
  workspace TEXT, session_id TEXT, path TEXT, code TEXT, tool TEXT, at REAL,
  PRIMARY KEY(workspace, session_id, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS baseline(
  workspace TEXT, path TEXT, version BLOB, PRIMARY KEY(workspace, path)) WITHOUT ROWID;
DROP TABLE IF EXISTS told;
CREATE TABLE IF NOT EXISTS transcripts(
  workspace TEXT, session_id TEXT, agent_id TEXT, agent TEXT, path TEXT,
  PRIMARY KEY(workspace, session_id, agent_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS logins(cookie TEXT PRIMARY KEY, id TEXT, body BLOB, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agent_roots(
  pid INTEGER, started INTEGER, agent TEXT, session TEXT, UNIQUE(pid, started));
CREATE TABLE IF NOT EXISTS bindings(
  workspace TEXT, kind TEXT, name TEXT, body BLOB, PRIMARY KEY(workspace, kind, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts(workspace TEXT, name TEXT, value TEXT, PRIMARY KEY(workspace, name)) WITHOUT ROWID;
"""

ADDED_COLUMNS = {
    "approvals": {
        "owner": "BLOB",
        "seen_at": "REAL DEFAULT 0",
        "digest": "TEXT DEFAULT ''",
        "used": "INTEGER DEFAULT 0",
        "answered_at": "REAL DEFAULT 0",
    },
    "remit_calls": {"asked": "BLOB"},
}
"""Columns that were added to tables later: a file of an older version gets them when it is opened."""


class StateError(RuntimeError):
    """An error of the state database, which cannot be used."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"Remit's state {str(path)!r} cannot be used: {why}")
        self.path = path


class StateDatabase:
    """The open database of a workspace; `damaged_copy` is the path of a damaged predecessor. Raises StateError."""

    def __init__(self, path: Path, workspace: Path) -> None:
        self.path = path
        self.workspace = quote_path(str(workspace))
        self.connection, self.damaged_copy = open_database(path)
        status = path.stat() if path.exists() else None
        self.identity = (status.st_dev, status.st_ino) if status else None

    def is_current(self) -> bool:
        try:
            status = self.path.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Run changes as one transaction, or as a part of the one that is open: a commit costs more than a change."""
        try:
            if self.connection.in_transaction:
                yield self.connection
                return
            with self.connection:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
        except sqlite3.Error as error:
            raise StateError(self.path, explain_error(error)) from error

    def execute(self, change: str, *values: object) -> int:
        with self.transaction() as connection:
            return connection.execute(change, values).rowcount

    def fetch_rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StateError(self.path, explain_error(error)) from error

    def fetch_row(self, query: str, *values: object) -> sqlite3.Row | None:
        return next(iter(self.fetch_rows(query, *values)), None)

    def read_fact(self, name: str) -> str | None:
        row = self.fetch_row("SELECT value FROM facts WHERE workspace=? AND name=?", self.workspace, name)
        return None if row is None else row[0]

    def put_fact(self, name: str, value: str) -> None:
        self.execute("INSERT OR REPLACE INTO facts VALUES(?,?,?)", self.workspace, name, value)


def open_database(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    """Open or make the database; return the connection, and the path of a damaged file moved aside. Without write
    permission, the connection is to a copy in memory, and every change fails. Raises StateError.
    """
    try:
        if path.parent.is_dir() and is_unwritable(path):
            connection = copy_to_memory(path)
            update_schema(connection)
            connection.execute("PRAGMA query_only=ON")
            return connection, None
        path.parent.mkdir(parents=True, exist_ok=True)
        return open_writable(path), None
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise StateError(path, explain_error(error)) from error
        return replace_damaged(path)
    except OSError as error:
        raise StateError(path, error.strerror or str(error)) from error


def open_writable(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
        enable_write_ahead(connection, BUSY_TIMEOUT_S)
        update_schema(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def update_schema(connection: sqlite3.Connection) -> None:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in filter(str.strip, TABLES.split(";")):
            connection.execute(statement)
        for table, columns in ADDED_COLUMNS.items():
            there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for name in columns.keys() - there:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {columns[name]}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def replace_damaged(path: Path) -> tuple[sqlite3.Connection, Path]:
    names = chain([f"{path.name}.damaged"], (f"{path.name}.damaged.{number}" for number in count(1)))
    damaged_copy = next(copy for name in names if not (copy := path.with_name(name)).exists())
    try:
        path.replace(damaged_copy)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return open_writable(path), damaged_copy
    except (OSError, sqlite3.Error) as error:
        raise StateError(path, explain_error(error)) from error


def explain_error(error: Exception) -> str:
    message = str(error)
    if "malformed" in message or "not a database" in message:
        return f"{message}. Move the file away: sessions then select their intent again, and no record is lost"
    if "locked" in message:
        return f"{message}: another process has held it for more than {BUSY_TIMEOUT_S:.0f} s; try again when it is done"
    is_write_error = any(part in message for part in ("full", "readonly", "unable to open", "disk I/O"))
    return f"{message}: make room and give yourself write permission there" if is_write_error else message
