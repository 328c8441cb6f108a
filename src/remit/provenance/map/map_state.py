"""What the intent map was made from, and its lines, so that a change costs what it changes and not the ledger.

A file of SQLite beside the log, one for each work tree. It may be deleted at any time and comes back the same.
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
"""What changes whenever the map's file does, as it was when it last held this text; empty while it does not."""


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
"""All is as it is written. A block holds the lines of a file together, in their order: the map is made of blocks.

SQLite's order of bytes is Python's order of text.
"""

UPSERT_NAME = """insert into sections values (?, ?, ?) on conflict (intent) do update
  set at = excluded.at, name = excluded.name where (excluded.at, excluded.name) > (at, name)"""

SELECT_LINES = "select line from lines where intent = ? and path = ? order by start, stop, line"

SELECT_ROWS = """select s.intent, s.name, ifnull(b.path, ''), ifnull(b.text, '')
  from sections s left join blocks b on b.intent = s.intent order by s.intent, b.path"""


class MapState:
    """The lines of the map of one work tree, and how far each source was read."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        """Open or make it; one that is damaged, or of another form, begins anew. Raises OSError, sqlite3.Error."""
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
        """Forget what was read."""
        with transaction(self.database):
            for table in ("sections", "lines", "blocks", "files", "lacking"):
                self.database.execute(f"delete from {table}")
            self.database.execute("delete from about where key <> ?", [FINGERPRINT_KEY])

    # -- how far was read -----------------------------------------------------------------------------------

    @property
    def log_marks(self) -> dict[str, LogMark]:
        """How far each log was read, by its folder."""
        return decode_or_none(self.read_value(LOG_KEY), dict[str, LogMark]) or {}

    @property
    def archives(self) -> Archives:
        """The archives of the log, as they were when it was looked at last."""
        return decode_or_none(self.read_value(ARCHIVES_KEY), Archives) or {}

    @archives.setter
    def archives(self, found: Archives) -> None:
        self.write_value(ARCHIVES_KEY, json.encode(found).decode())

    @property
    def file_marks(self) -> dict[str, FileMark]:
        """How far the files of others were read."""
        rows = self.database.execute("select name, mark from files").fetchall()
        return {name: decode_or_none(mark, FileMark) or FileMark() for name, mark in rows}

    @property
    def missing_contents(self) -> list[str]:
        """The contents that records name, and that were not at hand when these were read."""
        return [blob for (blob,) in self.database.execute("select blob from lacking").fetchall()]

    def forget_file(self, name: str) -> None:
        """Read that file of others anew. Only for one that told nothing: what was told stays."""
        self.database.execute("delete from files where name = ?", [name])

    # -- taking in ------------------------------------------------------------------------------------------

    def add_records(self, entries: Iterable[MapEntry], name: str | None, mark: LogMark | FileMark) -> None:
        """Add what records tell, and note how far was read: of a log, or of the file of others called `name`."""
        with transaction(self.database):
            before = self.database.total_changes
            for intent, path in {place for one in entries for place in self.add_entry(one)}:
                lines = join_lines(line for (line,) in self.database.execute(SELECT_LINES, [intent, path]))
                self.database.execute("insert or replace into blocks values (?, ?, ?)", [intent, path, lines])
            if self.database.total_changes != before:
                self.write_value(WRITTEN_KEY, "")
            if isinstance(mark, LogMark):
                self.write_value(LOG_KEY, json.encode({**self.log_marks, mark.log: mark}).decode())
            else:
                self.database.execute("insert or replace into files values (?, ?)", [name, json.encode(mark).decode()])

    def add_entry(self, entry: MapEntry) -> list[tuple[str, str]]:
        """Add what one record tells; whose blocks that changes."""
        intent, files = escape_markup(escape_surrogates(entry.intent)), list(rendered_files(entry))
        self.database.execute(UPSERT_NAME, [intent, *latest_name(entry)])
        rows = ((intent, path, *line) for path, found in files for line in found)
        self.database.executemany("insert or ignore into lines values (?, ?, ?, ?, ?)", rows)
        lacking = ((escape_surrogates(blob),) for blob in entry.lacking)
        self.database.executemany("insert or ignore into lacking values (?)", lacking)
        return [(intent, path) for path, _ in files]

    # -- the text -------------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        """Whether any change is in the map."""
        return self.database.execute("select 1 from lines limit 1").fetchone() is not None

    def render(self) -> str:
        """The map."""
        return join_sections(self.database.execute(SELECT_ROWS))

    def read_value(self, key: str) -> str:
        """What is noted there; empty for nothing."""
        row = self.database.execute("select value from about where key = ?", [key]).fetchone()
        return str(row[0]) if row else ""

    def write_value(self, key: str, value: str) -> None:
        """Note it."""
        self.database.execute("insert or replace into about values (?, ?)", [key, value])


def open_database(path: Path) -> sqlite3.Connection:
    """The database at `path`, with its tables."""
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
    """Make the tables where there are none, or those of another version."""
    if database.execute("pragma user_version").fetchone()[0] == VERSION:
        return
    for (name,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
        database.execute(f'drop table "{name}"')
    run_statements(database, TABLES)
    database.execute(f"pragma user_version = {VERSION}")


def decode_or_none(text: str, kind: type[_T]) -> _T | None:
    """What was noted; None where nothing was, or nothing of that kind."""
    try:
        return json.decode(text, type=kind) if text else None
    except (DecodeError, ValidationError):
        return None
