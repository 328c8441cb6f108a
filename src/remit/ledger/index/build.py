"""Building the index: its tables, and the lines of the logs as rows of plain values, decoded only as far as needed."""

import heapq
import os
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json

from remit.core.python_runtime import prepare_type
from remit.core.record import KEY, hash_leaf
from remit.ledger.index.search import INSERT_SEARCH_ROW, SEARCH_TABLE, parse_search_texts
from remit.ledger.log_files import DECODE_ERRORS, first_seq, flush, list_readable_places, segment_name
from remit.ledger.reader import LineNotThere, LogLine, LogPosition, read_bytes, read_lines, read_spans
from remit.ledger.sqlite_file import copy_to_memory, enable_write_ahead, remove_database, run_statements, transaction

SCHEMA_VERSION = 12
BUSY_TIMEOUT_S = 30.0

TABLES = f"""
create table records (
  number integer primary key, id text not null unique, log text not null,
  segment integer not null, offset integer not null, length integer not null, at text not null, event text,
  agent text, session_id text, intent_id text,
  tool text, decision text, agent_id text, intent_uid text);
create table files (
  record integer not null, path text not null, before_blob text, after_blob text, before_sha text, after_sha text);
create table ranges (
  record integer not null, path text not null, start_line integer, end_line integer, content_hash text);
create table paths (path text not null, record integer not null);
create table position (
  log text primary key, segment text, offset integer, seq integer,
  last_segment text, last_offset integer, last_length integer, last_leaf text);
create table put_words (
  id text not null, path text not null, words blob, lines blob, primary key (id, path)) without rowid;
create table named_blobs (name text primary key, blob text not null) without rowid;
create table blamed_files (
  path text not null, last_commit text not null, settings text not null, lines blob not null,
  primary key (path, last_commit)) without rowid;
create table line_origins (
  question text not null, path text not null, blob text not null, parent_blob text not null, sighting integer not null,
  rules text not null, known_until integer not null, lasting integer not null, lines blob not null,
  primary key (path, blob, parent_blob, sighting, question)) without rowid;
create table sought (only integer primary key check (only = 0), number integer not null);
{SEARCH_TABLE}
"""
"""`log` is the log's path relative to the log folder; `segment` is the first seq of the segment. `tool` is the name of
the call's tool, `decision` the effect of the decision about it, `agent_id` the sub-agent that called.

The first search fills `words`, up to the record in `sought`. Blame fills `put_words`: marks of the words and lines that
a record put into a file, null if unknown. Blame also fills `named_blobs`, the git blobs of `<commit>:<path>`, and
`line_origins`, with the values of `KeptLines`. `blamed_files` has git's blame of files as `BlamedFile`s.
"""

INDEXES = """
create index records_by_event on records (event);
create index records_by_session on records (session_id);
create index records_by_intent on records (intent_id);
create index records_by_uid on records (intent_uid);
create index records_by_agent on records (agent);
create index records_by_time on records (at);
create index files_by_path on files (path, record);
create index files_by_record on files (record);
create index files_by_after on files (after_sha);
create index files_by_before on files (before_sha);
create index ranges_by_hash on ranges (content_hash);
create index ranges_by_line on ranges (path, record, start_line, end_line);
create index paths_by_path on paths (path, record)
"""
"""Created after the rows of a large log: half the time of updating them row by row."""

BULK_PRAGMAS = ("journal_mode = off", "synchronous = off", "locking_mode = exclusive", "cache_size = -65536")
"""Settings for a file that no other process uses yet, and that is discarded unless completed."""

BATCH_LINES = 2000
BATCH_SEARCH_RECORDS = 20_000
"""Number of records per transaction of the word index: an interrupted search keeps its finished batches."""

Row: TypeAlias = tuple[str | int | None, ...]

StartPositions: TypeAlias = dict[str, LogPosition | None]
"""Position to continue from, by the log's path relative to the log folder; None for the log's beginning."""

IndexedPlace: TypeAlias = tuple[int, str, int, int, int]
"""A record's number, its log, the first seq of its segment, offset and length."""


# -- the database file ---------------------------------------------------------------------------------------


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
    with transaction(database):
        if database.execute("pragma user_version").fetchone()[0] == SCHEMA_VERSION:
            return
        # Virtual tables first: their shadow tables are dropped with them, never alone.
        known = database.execute(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
            " order by sql not like 'create virtual%'"
        )
        for (name,) in known.fetchall():
            quoted = str(name).replace('"', '""')
            database.execute(f'drop table if exists "{quoted}"')
        run_statements(database, TABLES)
        run_statements(database, INDEXES)
        database.execute(f"pragma user_version = {SCHEMA_VERSION}")


@contextmanager
def build_database(path: Path) -> Generator[sqlite3.Connection]:
    """Create a database at `path` for bulk inserts; lookup indexes are created at the end. On exit the file is complete
    and on the disk; after an exception the file is removed.
    """
    remove_database(path)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            os.chmod(path, 0o600)  # noqa: PTH101
            for pragma in BULK_PRAGMAS:
                database.execute(f"pragma {pragma}")
            run_statements(database, TABLES)
            with transaction(database):
                yield database
                run_statements(database, INDEXES)
                database.execute(f"pragma user_version = {SCHEMA_VERSION}")
    except BaseException:
        remove_database(path)
        raise
    flush_file(path)


def flush_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def insert_rows(database: sqlite3.Connection, rows: dict[str, list[Row]]) -> None:
    for table, found in rows.items():
        if found:
            marks = ", ".join("?" * len(found[0]))
            database.executemany(f"insert into {table} values ({marks})", found)


def clear_index(database: sqlite3.Connection) -> None:
    for table in ("records", "files", "ranges", "paths", "position", "sought", "put_words", "line_origins"):
        database.execute(f"delete from {table}")
    database.execute("insert into words (words) values ('delete-all')")


# -- rows of records -----------------------------------------------------------------------------------------


class _IndexedSide(Struct, gc=False):
    sha256: str | None = None
    git_blob: str | None = None


class _IndexedRange(Struct, gc=False):
    start_line: int | None = None
    end_line: int | None = None
    content_hash: str | None = None


class _IndexedFile(Struct, gc=False):
    path: str
    before: _IndexedSide | None = None
    after: _IndexedSide | None = None


class _IndexedCall(Struct, gc=False):
    name: str | None = None
    paths: tuple[str, ...] = ()


class _IndexedDecision(Struct, gc=False):
    effect: str | None = None


class _IndexedView(Struct, gc=False):
    event: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    intent_uid: str | None = None
    agent_id: str | None = None
    call: _IndexedCall | None = None
    decision: _IndexedDecision | None = None
    files: tuple[_IndexedFile, ...] = ()


class _IndexedMetadata(Struct, rename={"body": KEY}, gc=False):
    body: _IndexedView


class _IndexedConversation(Struct, gc=False):
    ranges: tuple[_IndexedRange, ...] = ()


class _TracedFile(Struct, gc=False):
    path: str
    conversations: tuple[_IndexedConversation, ...] = ()


class _IndexedTool(Struct, gc=False):
    name: str | None = None


class _MinimalRecord(Struct):
    id: str
    timestamp: str


class _IndexedRecord(Struct, gc=False):
    id: str
    timestamp: str
    metadata: _IndexedMetadata
    files: tuple[_TracedFile, ...] = ()
    tool: _IndexedTool | None = None


class FoundLine(Struct, frozen=True, gc=False):
    """A line of the log at `place`, decoded. `at` is the latest time of the log's records so far."""

    at: str
    place: str
    line: LogLine
    record: _IndexedRecord | None


_INDEXED_RECORD = json.Decoder(prepare_type(_IndexedRecord))
_MINIMAL_RECORD = json.Decoder(prepare_type(_MinimalRecord))
_EMPTY_METADATA = _IndexedMetadata(_IndexedView())
_EMPTY_SIDE = _IndexedSide()
_first_seq = lru_cache(8)(first_seq)


def decode_line(line: LogLine, place: str, at: str = "") -> FoundLine:
    """Decode a line that follows the time `at`. Of a record whose inner parts have an unknown shape, id and time are
    kept.
    """
    try:
        record = _INDEXED_RECORD.decode(line.raw)
    except (ValidationError, UnicodeDecodeError):
        try:
            least = _MINIMAL_RECORD.decode(line.raw)
        except DECODE_ERRORS:
            return FoundLine(at, place, line, None)
        record = _IndexedRecord(least.id, least.timestamp, _EMPTY_METADATA)
    except (DecodeError, RecursionError):
        return FoundLine(at, place, line, None)
    return FoundLine(max(at, record.timestamp), place, line, record)


def build_rows(found: Iterable[FoundLine], number: int) -> dict[str, list[Row]]:
    """Return the rows of records by table, numbered from `number` on, with values in the order of the columns."""
    records: list[Row] = []
    files: list[Row] = []
    ranges: list[Row] = []
    paths: list[Row] = []
    for n, item in enumerate(found, number):
        if (record := item.record) is None:
            continue
        body, line, tool = record.metadata.body, item.line, record.tool
        place = (item.place, _first_seq(line.segment), line.offset, len(line.raw), record.timestamp)
        who = (body.event, tool.name if tool else None, body.session_id, body.intent_id)
        effect = "deny" if body.event == "denied" else body.decision.effect if body.decision else None
        what = (body.call.name if body.call else None, effect, body.agent_id, body.intent_uid)
        records.append((n, record.id, *place, *who, *what))
        named = body.call.paths if body.call else ()
        if not body.files and not record.files:
            paths += [(path, n) for path in (named if len(named) < 2 else sorted(set(named)))]
            continue
        for traced in record.files:
            for conversation in traced.conversations:
                ranges += [(n, traced.path, r.start_line, r.end_line, r.content_hash) for r in conversation.ranges]
        for file in body.files:
            before, after = file.before or _EMPTY_SIDE, file.after or _EMPTY_SIDE
            files.append((n, file.path, before.git_blob, after.git_blob, before.sha256, after.sha256))
        paths += [
            (path, n) for path in sorted({*named, *(f.path for f in body.files), *(f.path for f in record.files)})
        ]
    return {"records": records, "files": files, "ranges": ranges, "paths": paths}


# -- catching up with the logs -------------------------------------------------------------------------------


def find_starts(database: sqlite3.Connection, root: Path) -> StartPositions | None:
    """Return the positions to continue from; None for a new index, or to rebuild the index. A rebuild is necessary
    after a log was replaced, or if a new log has records older than indexed records.
    """
    starts: StartPositions = {}
    for place, segment, offset, seq, *last, leaf in database.execute("select * from position").fetchall():
        try:
            line = read_bytes(root / place, *last)
        except (LineNotThere, PermissionError):
            return None
        if hash_leaf(line).hex() != leaf:
            return None
        starts[place] = LogPosition(segment, offset, seq)
    if not starts:
        return None
    for place in list_readable_places(root):
        if place not in starts:
            first = next(_read_log(root, place, None), None)
            if first and database.execute("select 1 from records where at > ?", (first.at,)).fetchone():
                return None
            starts[place] = None
    return starts


def index_lines(database: sqlite3.Connection, root: Path, starts: StartPositions | None) -> int:
    """Index the lines from `starts` on and return their number. The caller holds a transaction."""
    # Two statements: SQLite answers `max` from an index only if it is the only column.
    number = database.execute("select max(number) from records").fetchone()[0] or 0
    top: str = database.execute("select max(id) from records").fetchone()[0] or ""
    taken = 0
    last: dict[str, LogLine] = {}
    # The logs merged by time; lines of the same log keep their order.
    starts = dict.fromkeys(list_readable_places(root)) if starts is None else starts
    streams = [_read_log(root, place, start) for place, start in sorted(starts.items())]
    found = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=attrgetter("at"))
    while batch := list(islice(found, BATCH_LINES)):
        fresh: list[FoundLine] = []
        ids: set[str] = set()
        for item in batch:
            if item.record is None:
                continue
            name = item.record.id
            if name > top:  # ids grow with time, so few need a query
                top = name
            elif name in ids or database.execute("select 1 from records where id = ?", (name,)).fetchone():
                continue
            ids.add(name)
            fresh.append(item)
        insert_rows(database, build_rows(fresh, number + 1))
        forget_lines_of_replays(database, fresh)
        number += len(fresh)
        taken += len(batch)
        last.update((item.place, item.line) for item in batch)
    for place, line in last.items():
        after, leaf = line.next_position, hash_leaf(line.raw).hex()
        values = (place, after.segment, after.offset, after.seq, line.segment, line.offset, len(line.raw), leaf)
        database.execute("insert or replace into position values (?, ?, ?, ?, ?, ?, ?, ?)", values)
    return taken


def forget_lines_of_replays(database: sqlite3.Connection, fresh: Iterable[FoundLine]) -> None:
    bodies = (item.record.metadata.body for item in fresh if item.record is not None)
    paths = {(file.path,) for body in bodies if body.event == "replay" for file in body.files}
    database.executemany("delete from line_origins where path = ?", list(paths))


def _read_log(root: Path, place: str, start: LogPosition | None) -> Iterator[FoundLine]:
    at = ""
    for line in read_lines(root / place, start):
        found = decode_line(line, place, at)
        at = found.at
        yield found


def index_search_texts(database: sqlite3.Connection, folder: Path) -> None:
    """Index the words of all records without indexed words."""
    statement = "select number, log, segment, offset, length from records where number > ? order by number limit ?"
    while True:
        with transaction(database):
            row = database.execute("select number from sought").fetchone()
            places = database.execute(statement, (row[0] if row else 0, BATCH_SEARCH_RECORDS)).fetchall()
            if not places:
                return
            # Lines that no longer exist are skipped: `verify` reports them.
            lines = zip(places, read_indexed_lines(folder, places), strict=True)
            texts = ((number, *parse_search_texts(raw)) for (number, *_), raw in lines if raw is not None)
            database.executemany(INSERT_SEARCH_ROW, texts)
            database.execute("insert or replace into sought values (0, ?)", (places[-1][0],))


def read_indexed_lines(root: Path, places: Sequence[IndexedPlace]) -> Iterator[bytes | None]:
    for place, of_log in groupby(places, itemgetter(1)):
        where = ((segment_name(segment), offset, length) for _, _, segment, offset, length in of_log)
        yield from read_spans(root / place, where)
