"""Database file of the conversations: its tables and how to open it."""

import sqlite3
from contextlib import suppress
from pathlib import Path

from remit.ledger.sqlite_file import enable_write_ahead

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


def open_or_replace(path: Path) -> sqlite3.Connection:
    """Open the database, readable by the user only. A damaged file is renamed and replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return open_database(path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        path.replace(path.with_name(f"{path.name}.damaged"))
        return open_database(path)


def open_in_memory() -> sqlite3.Connection:
    return create_tables(sqlite3.connect(":memory:", isolation_level=None))


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
    """Create the tables. Deleted content is overwritten on disk."""
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("PRAGMA secure_delete=ON")
    if database.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        database.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version={VERSION}; COMMIT;")
    return database


def delete_database(path: Path) -> None:
    """Delete the database with SQLite's side files."""
    for suffix in ("", "-wal", "-shm", ".damaged"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
