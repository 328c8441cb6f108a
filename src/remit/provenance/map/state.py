"""What the intent map was made from, and its lines, so that a change costs what it changes and not the ledger.

A file of SQLite beside the log, one for each work tree. It may be deleted at any time and comes back the same.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import DecodeError, ValidationError, json

from remit.core.text import encodable
from remit.ledger.tables import discard, is_damage, run, transaction
from remit.ledger.write_ahead import write_ahead
from remit.provenance.map.intent_map import Told, assembled, called, files_of, plain, together
from remit.provenance.map.sources import Archives, FileMark, LogMark

VERSION = 3
BUSY_TIMEOUT_S = 5.0
LOG = "log"
ARCHIVES = "archives"
FORM = "form"
WRITTEN = "written"
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

CALLED = """insert into sections values (?, ?, ?) on conflict (intent) do update
  set at = excluded.at, name = excluded.name where (excluded.at, excluded.name) > (at, name)"""

LINES = "select line from lines where intent = ? and path = ? order by start, stop, line"

ROWS = """select s.intent, s.name, ifnull(b.path, ''), ifnull(b.text, '')
  from sections s left join blocks b on b.intent = s.intent order by s.intent, b.path"""


class MapState:
    """The lines of the map of one work tree, and how far each source was read."""

    def __init__(self, path: Path, form: str) -> None:
        """Open or make it; one that is damaged, or of another form, begins anew. Raises OSError, sqlite3.Error."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.database = connected(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            discard(path)
            self.database = connected(path)
        if self.value(FORM) != form:
            self.clear()
            self.put(FORM, form)

    def __enter__(self) -> "MapState":
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def clear(self) -> None:
        """Forget what was read."""
        with transaction(self.database):
            for table in ("sections", "lines", "blocks", "files", "lacking"):
                self.database.execute(f"delete from {table}")
            self.database.execute("delete from about where key <> ?", [FORM])

    # -- how far was read -----------------------------------------------------------------------------------

    @property
    def log_marks(self) -> dict[str, LogMark]:
        """How far each log was read, by its folder."""
        return decoded(self.value(LOG), dict[str, LogMark]) or {}

    @property
    def archives(self) -> Archives:
        """The archives of the log, as they were when it was looked at last."""
        return decoded(self.value(ARCHIVES), Archives) or {}

    @archives.setter
    def archives(self, found: Archives) -> None:
        self.put(ARCHIVES, json.encode(found).decode())

    @property
    def file_marks(self) -> dict[str, FileMark]:
        """How far the files of others were read."""
        rows = self.database.execute("select name, mark from files").fetchall()
        return {name: decoded(mark, FileMark) or FileMark() for name, mark in rows}

    @property
    def lacking(self) -> list[str]:
        """The contents that records name, and that were not at hand when these were read."""
        return [blob for (blob,) in self.database.execute("select blob from lacking").fetchall()]

    def forget_file(self, name: str) -> None:
        """Read that file of others anew. Only for one that told nothing: what was told stays."""
        self.database.execute("delete from files where name = ?", [name])

    # -- taking in ------------------------------------------------------------------------------------------

    def take(self, told: Iterable[Told], name: str | None, mark: LogMark | FileMark) -> None:
        """Add what records tell, and note how far was read: of a log, or of the file of others called `name`."""
        with transaction(self.database):
            before = self.database.total_changes
            for intent, path in {place for one in told for place in self.add(one)}:
                lines = together(line for (line,) in self.database.execute(LINES, [intent, path]))
                self.database.execute("insert or replace into blocks values (?, ?, ?)", [intent, path, lines])
            if self.database.total_changes != before:
                self.put(WRITTEN, "")
            if isinstance(mark, LogMark):
                self.put(LOG, json.encode({**self.log_marks, mark.log: mark}).decode())
            else:
                self.database.execute("insert or replace into files values (?, ?)", [name, json.encode(mark).decode()])

    def add(self, told: Told) -> list[tuple[str, str]]:
        """Add what one record tells; whose blocks that changes."""
        intent, files = plain(encodable(told.intent)), list(files_of(told))
        self.database.execute(CALLED, [intent, *called(told)])
        rows = ((intent, path, *line) for path, found in files for line in found)
        self.database.executemany("insert or ignore into lines values (?, ?, ?, ?, ?)", rows)
        lacking = ((encodable(blob),) for blob in told.lacking)
        self.database.executemany("insert or ignore into lacking values (?)", lacking)
        return [(intent, path) for path, _ in files]

    # -- the text -------------------------------------------------------------------------------------------

    @property
    def says_something(self) -> bool:
        """Whether any change is in the map."""
        return self.database.execute("select 1 from lines limit 1").fetchone() is not None

    def text(self) -> str:
        """The map."""
        return assembled(self.database.execute(ROWS))

    def value(self, key: str) -> str:
        """What is noted there; empty for nothing."""
        row = self.database.execute("select value from about where key = ?", [key]).fetchone()
        return str(row[0]) if row else ""

    def put(self, key: str, value: str) -> None:
        """Note it."""
        self.database.execute("insert or replace into about values (?, ?)", [key, value])


def connected(path: Path) -> sqlite3.Connection:
    """The database at `path`, with its tables."""
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        path.chmod(0o600)
        database.execute("pragma synchronous = normal")
        write_ahead(database, BUSY_TIMEOUT_S)
        with transaction(database):
            made(database)
    except BaseException:
        database.close()
        raise
    return database


def made(database: sqlite3.Connection) -> None:
    """Make the tables where there are none, or those of another version."""
    if database.execute("pragma user_version").fetchone()[0] == VERSION:
        return
    for (name,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
        database.execute(f'drop table "{name}"')
    run(database, TABLES)
    database.execute(f"pragma user_version = {VERSION}")


def decoded(text: str, kind: type[_T]) -> _T | None:
    """What was noted; None where nothing was, or nothing of that kind."""
    try:
        return json.decode(text, type=kind) if text else None
    except (DecodeError, ValidationError):
        return None
