"""State of the intent map: the rendered lines and the position reached in each source.

A SQLite file beside the log, one per work tree. The file can be deleted at any time and is rebuilt with the same
content.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import DecodeError, ValidationError, json

from remit.core.display_text import escape_surrogates
from remit.ledger.index.tables import is_damage, remove_database, run_statements, transaction
from remit.ledger.sqlite_file import enable_write_ahead
from remit.provenance.map.map_text import (
    MapEntry,
    escape_markup,
    join_lines,
    join_sections,
    latest_name,
    rendered_files,
)
from remit.provenance.map.record_sources import Archives, FileMark, LogMark

VERSION = 3
BUSY_TIMEOUT_S = 5.0
LOG_KEY = "log"
ARCHIVES_KEY = "archives"
FINGERPRINT_KEY = "form"
WRITTEN_KEY = "written"
"""Signature of the map file when it last held this text; empty if the text changed since."""


_T = TypeVar("_T")

TABLES = """
create table sections (intent text primary key, at text not null, name text not null) without rowid;
create table lines (
  intent text not null, path text not null, start integer not null, stop integer not null, line text not null,
  primary key (intent, path, start, stop, line)) without rowid;
create table blocks (intent text not null, path text not null, text text not null, primary key (intent, path));
create table files (name text primary key, mark text not null) without rowid;
create table lacking (blob text primary key) without rowid;
create table about (key text primary key, value text not null) without rowid
"""
"""Texts are stored as rendered. A block holds the lines of one file in order; the map consists of blocks.

SQLite's byte order equals Python's order of strings.
"""

UPSERT_NAME = """insert into sections values (?, ?, ?) on conflict (intent) do update
  set at = excluded.at, name = excluded.name where (excluded.at, excluded.name) > (at, name)"""

SELECT_LINES = "select line from lines where intent = ? and path = ? order by start, stop, line"

SELECT_ROWS = """select s.intent, s.name, ifnull(b.path, ''), ifnull(b.text, '')
  from sections s left join blocks b on b.intent = s.intent order by s.intent, b.path"""


class MapState:
    """Rendered lines of one work tree's map, and the position reached in each source."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        """Open or create the state; a damaged one, or one with another fingerprint, starts empty. Raises OSError,
        sqlite3.Error.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.database = open_database(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            remove_database(path)
            self.database = open_database(path)
        if self.read_value(FINGERPRINT_KEY) != fingerprint:
            self.clear()
            self.write_value(FINGERPRINT_KEY, fingerprint)

    def __enter__(self) -> "MapState":
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def clear(self) -> None:
        with transaction(self.database):
            for table in ("sections", "lines", "blocks", "files", "lacking"):
                self.database.execute(f"delete from {table}")
            self.database.execute("delete from about where key <> ?", [FINGERPRINT_KEY])

    # -- positions reached -----------------------------------------------------------------------------------

    @property
    def log_marks(self) -> dict[str, LogMark]:
        return decode_or_none(self.read_value(LOG_KEY), dict[str, LogMark]) or {}

    @property
    def archives(self) -> Archives:
        return decode_or_none(self.read_value(ARCHIVES_KEY), Archives) or {}

    @archives.setter
    def archives(self, states: Archives) -> None:
        self.write_value(ARCHIVES_KEY, json.encode(states).decode())

    @property
    def file_marks(self) -> dict[str, FileMark]:
        rows = self.database.execute("select name, mark from files").fetchall()
        return {name: decode_or_none(mark, FileMark) or FileMark() for name, mark in rows}

    @property
    def missing_contents(self) -> list[str]:
        """Blobs named by records that were unavailable when the records were read."""
        return [blob for (blob,) in self.database.execute("select blob from lacking").fetchall()]

    def forget_file(self, name: str) -> None:
        """Drop the mark of a foreign file, valid only for a file without map entries."""
        self.database.execute("delete from files where name = ?", [name])

    # -- adding entries ------------------------------------------------------------------------------------------

    def add_records(self, entries: Iterable[MapEntry], name: str | None, mark: LogMark | FileMark) -> None:
        """Add map entries and store the position reached: in a log, or in the foreign file `name`."""
        with transaction(self.database):
            before = self.database.total_changes
            for intent, path in {block for entry in entries for block in self.add_entry(entry)}:
                lines = join_lines(line for (line,) in self.database.execute(SELECT_LINES, [intent, path]))
                self.database.execute("insert or replace into blocks values (?, ?, ?)", [intent, path, lines])
            if self.database.total_changes != before:
                self.write_value(WRITTEN_KEY, "")
            if isinstance(mark, LogMark):
                self.write_value(LOG_KEY, json.encode({**self.log_marks, mark.log: mark}).decode())
            else:
                self.database.execute("insert or replace into files values (?, ?)", [name, json.encode(mark).decode()])

    def add_entry(self, entry: MapEntry) -> list[tuple[str, str]]:
        """Add one map entry; return the (intent, path) pairs whose blocks change."""
        intent, files = escape_markup(escape_surrogates(entry.intent)), list(rendered_files(entry))
        self.database.execute(UPSERT_NAME, [intent, *latest_name(entry)])
        rows = ((intent, path, *line) for path, parts in files for line in parts)
        self.database.executemany("insert or ignore into lines values (?, ?, ?, ?, ?)", rows)
        lacking = ((escape_surrogates(blob),) for blob in entry.lacking)
        self.database.executemany("insert or ignore into lacking values (?)", lacking)
        return [(intent, path) for path, _ in files]

    # -- the text -------------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        return self.database.execute("select 1 from lines limit 1").fetchone() is not None

    def render(self) -> str:
        return join_sections(self.database.execute(SELECT_ROWS))

    def read_value(self, key: str) -> str:
        row = self.database.execute("select value from about where key = ?", [key]).fetchone()
        return str(row[0]) if row else ""

    def write_value(self, key: str, value: str) -> None:
        self.database.execute("insert or replace into about values (?, ?)", [key, value])


def open_database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        path.chmod(0o600)
        database.execute("pragma synchronous = normal")
        enable_write_ahead(database, BUSY_TIMEOUT_S)
        with transaction(database):
            create_tables(database)
    except BaseException:
        database.close()
        raise
    return database


def create_tables(database: sqlite3.Connection) -> None:
    """Create the tables, dropping those of another version."""
    if database.execute("pragma user_version").fetchone()[0] == VERSION:
        return
    for (name,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
        database.execute(f'drop table "{name}"')
    run_statements(database, TABLES)
    database.execute(f"pragma user_version = {VERSION}")


def decode_or_none(text: str, kind: type[_T]) -> _T | None:
    """Decode JSON; None if empty or of another type."""
    try:
        return json.decode(text, type=kind) if text else None
    except (DecodeError, ValidationError):
        return None
