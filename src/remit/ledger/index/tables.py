"""The database file of the index: tables, opening, building, and the detection of damage."""

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from remit.ledger.index.search import SEARCH_TABLE
from remit.ledger.segments import flush
from remit.ledger.sqlite_file import copy_to_memory, enable_write_ahead, result_code

SCHEMA_VERSION = 6
BUSY_TIMEOUT_S = 30.0

TABLES = f"""
create table records (
  number integer primary key, id text not null unique, seq integer not null, log text not null,
  segment integer not null, offset integer not null, length integer not null, at text not null, event text,
  agent text, session_id text, intent_id text);
create table files (
  record integer not null, path text not null, operation text, before_blob text, after_blob text,
  before_sha text, after_sha text, start_line integer, end_line integer);
create table ranges (
  record integer not null, path text not null, start_line integer, end_line integer, content_hash text);
create table paths (path text not null, record integer not null);
create table position (
  log text primary key, segment text, offset integer, seq integer,
  last_segment text, last_offset integer, last_length integer, last_leaf text);
create table put_words (
  id text not null, path text not null, words blob, lines blob, primary key (id, path)) without rowid;
create table sought (only integer primary key check (only = 0), number integer not null);
{SEARCH_TABLE}
"""
"""`log` is the log's path relative to the log folder; `segment` is the first seq of the segment.

The first search fills `words`, up to the record in `sought`. Blame fills `put_words`: marks of the words and lines that
a record put into a file, null if unknown.
"""

INDEXES = """
create index records_by_event on records (event);
create index records_by_session on records (session_id);
create index records_by_intent on records (intent_id);
create index records_by_agent on records (agent);
create index records_by_time on records (at);
create index files_by_path on files (path, record);
create index files_by_after on files (after_sha);
create index files_by_before on files (before_sha);
create index ranges_by_hash on ranges (content_hash);
create index ranges_by_line on ranges (path, record, start_line, end_line);
create index paths_by_path on paths (path, record)
"""
"""Created after the rows of a large log: half the time of updating them row by row."""

BULK_PRAGMAS = ("journal_mode = off", "synchronous = off", "locking_mode = exclusive", "cache_size = -65536")
"""Settings for a file that no other process uses yet, and that is discarded unless completed."""

# What a damaged file answers, by SQLite's primary result codes: ERROR (a table is gone), IOERR (cut short),
# CORRUPT, MISMATCH, NOTADB. Not BUSY, FULL, READONLY or CANTOPEN: a new file would fare no better.
_DAMAGE_CODES = frozenset({1, 10, 11, 20, 26})


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return True if a new file would not have the error."""
    return result_code(error) in _DAMAGE_CODES


def remove_database(path: Path) -> None:
    """Remove a database file, the write-ahead log and the shared memory file."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def open_database(path: Path) -> sqlite3.Connection:
    """Open or create the database at `path`. Raises sqlite3.DatabaseError."""
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        os.chmod(path, 0o600)  # noqa: PTH101
        enable_write_ahead(database, BUSY_TIMEOUT_S)
        database.execute("pragma synchronous = normal")
        database.execute("pragma cache_size = -16384")
        _create_tables(database)
    except BaseException:
        database.close()
        raise
    return database


def open_in_memory(path: Path) -> sqlite3.Connection:
    """Open an in-memory copy of the file at `path` for a user without write permission; empty if unreadable."""
    database = copy_to_memory(path)
    try:
        _create_tables(database)
    except sqlite3.DatabaseError:
        database.close()
        database = sqlite3.connect(":memory:", isolation_level=None)
        _create_tables(database)
    return database


def _create_tables(database: sqlite3.Connection) -> None:
    """Create missing tables; replace tables of a different schema version."""
    with transaction(database):
        if database.execute("pragma user_version").fetchone()[0] == SCHEMA_VERSION:
            return
        for name in _list_tables(database):
            quoted = name.replace('"', '""')
            database.execute(f'drop table if exists "{quoted}"')
        run_statements(database, TABLES)
        run_statements(database, INDEXES)
        database.execute(f"pragma user_version = {SCHEMA_VERSION}")


def _list_tables(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables, virtual tables first: shadow tables are dropped with them, never alone."""
    found = database.execute(
        "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
        " order by sql not like 'create virtual%'"
    )
    return [str(name) for (name,) in found]


@contextmanager
def transaction(database: sqlite3.Connection) -> Generator[None]:
    """Run the block in a write transaction; roll back on an exception."""
    database.execute("begin immediate")
    try:
        yield
    except BaseException:
        if database.in_transaction:
            database.execute("rollback")
        raise
    database.execute("commit")


def run_statements(database: sqlite3.Connection, statements: str) -> None:
    """Execute statements separated by a semicolon and a newline."""
    for statement in statements.split(";\n"):
        database.execute(statement)


@contextmanager
def build_database(path: Path) -> Generator[sqlite3.Connection]:
    """Create a database at `path` for bulk inserts; lookup indexes are created at the end.

    On exit the file is complete and on the disk; after an exception the file is removed.
    """
    remove_database(path)
    database = sqlite3.connect(path, isolation_level=None)
    try:
        os.chmod(path, 0o600)  # noqa: PTH101
        for pragma in BULK_PRAGMAS:
            database.execute(f"pragma {pragma}")
        run_statements(database, TABLES)
        with transaction(database):
            yield database
            run_statements(database, INDEXES)
            database.execute(f"pragma user_version = {SCHEMA_VERSION}")
    except BaseException:
        database.close()
        remove_database(path)
        raise
    database.close()
    flush_file(path)


def flush_file(path: Path) -> None:
    """Wait until the file is on the disk: a partly written file might be taken for a complete one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def insert_statement(table: str, columns: int) -> str:
    return f"insert into {table} values ({', '.join('?' * columns)})"
