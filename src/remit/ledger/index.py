"""The index over a log: SQLite, derived, may be deleted at any time and comes back the same."""

import os
import re
import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from msgspec import UNSET, DecodeError, Struct, UnsetType, ValidationError, json

from remit.core.merkle import leaf_hash
from remit.core.record import KEY
from remit.ledger import lock
from remit.ledger.reader import LineNotThere, LogLine, Place, lines, read_at

SCHEMA_VERSION = 2
BUSY_TIMEOUT_S = 30.0

_T = TypeVar("_T")
_Row = tuple[str | int | None, ...]

_TABLES = """
create table records (
  number integer primary key, id text not null unique, seq integer not null, segment text not null,
  offset integer not null, length integer not null, at text not null, event text, agent text, session_id text,
  agent_id text, intent_id text, call_id text, tool text, effect text, verdict text, command text);
create table files (
  record integer not null, path text not null, operation text, before_blob text, after_blob text,
  before_sha text, after_sha text, start_line integer, end_line integer);
create table ranges (
  record integer not null, path text not null, start_line integer, end_line integer, content_hash text);
create table paths (path text not null, record integer not null, primary key (path, record)) without rowid;
create table position (
  only integer primary key check (only = 0), segment text, offset integer, seq integer,
  last_segment text, last_offset integer, last_length integer, last_leaf text);
"""

_INDEXES = """
create index records_by_event on records (event, number);
create index records_by_session on records (session_id, number);
create index records_by_intent on records (intent_id, number);
create index records_by_call on records (call_id);
create index records_by_time on records (at);
create index files_by_path on files (path, record);
create index files_by_blob on files (after_blob, path);
create index files_by_after on files (after_sha);
create index files_by_before on files (before_sha);
create index files_by_record on files (record);
create index ranges_by_hash on ranges (content_hash);
"""
"""Made after the rows where there are many: half the time of keeping them up row by row."""

_INDEX_NAMES = tuple(re.findall(r"create index (\w+)", _INDEXES))
BATCH = 2000
"""Lines that are taken in at once."""

# What a damaged file answers, by SQLite's primary result codes: ERROR (a table is gone), IOERR (cut short),
# CORRUPT, MISMATCH, NOTADB. Not BUSY, FULL, READONLY or CANTOPEN: a new file would fare no better.
_DAMAGED = frozenset({1, 10, 11, 20, 26})


class Mutation(Struct, frozen=True):
    """What one record says happened to one file. Blobs are git's names, SHAs are of the raw bytes, in hex.

    A side that does not exist, or was not recorded, is None. The lines span all ranges of the file.
    """

    seq: int
    id: str
    at: str
    event: str
    intent_id: str | None
    session_id: str | None
    path: str
    operation: str | None
    before_blob: str | None
    after_blob: str | None
    before_sha: str | None
    after_sha: str | None
    start_line: int | None
    end_line: int | None


_MUTATION = """select r.seq, r.id, r.at, r.event, r.intent_id, r.session_id, f.path, f.operation, f.before_blob,
  f.after_blob, f.before_sha, f.after_sha, f.start_line, f.end_line
  from files f join records r on r.number = f.record"""


_WORD = r"""(id || char(10) || ifnull(command, '') || char(10) || ifnull(tool, '') || char(10) || ifnull(agent, '')
  || char(10) || ifnull(event, '') || char(10) || ifnull(intent_id, '') like ? escape '\'
  or number in (select record from paths where path like ? escape '\'))"""


class _Side(Struct):
    sha256: str | None = None
    git_blob: str | None = None


class _Range(Struct):
    start_line: int | None = None
    end_line: int | None = None
    content_hash: str | None = None


class _File(Struct):
    path: str
    operation: str | None = None
    before: _Side | None = None
    after: _Side | None = None
    ranges: list[_Range] = []


class _Call(Struct):
    id: str | None = None
    name: str | None = None
    effect: str | None = None
    command: str | None = None
    paths: list[str] = []


class _Decision(Struct):
    verdict: str | None = None


class _Chain(Struct):
    seq: int


class _Body(Struct):
    event: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    intent_id: str | None = None
    call: _Call | UnsetType = UNSET
    decision: _Decision | UnsetType = UNSET
    files: list[_File] = []
    chain: _Chain | UnsetType = UNSET


class _Metadata(Struct, rename={"body": KEY}):
    body: _Body


class _Conversation(Struct):
    ranges: list[_Range] = []


class _Traced(Struct):
    path: str
    conversations: list[_Conversation] = []


class _Tool(Struct):
    name: str | None = None


class _Line(Struct):
    """What the index needs of a record."""

    id: str
    timestamp: str
    metadata: _Metadata
    files: list[_Traced] = []
    tool: _Tool | UnsetType = UNSET


class _Least(Struct):
    id: str
    timestamp: str


_LINE = json.Decoder(_Line)
_LEAST = json.Decoder(_Least)
_NOTHING = _Metadata(_Body())


class Index:
    """The index at `path` of the log in `folder`. Queries see what the last `catch_up` saw."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self._database = self._connect()

    @classmethod
    def open(cls, path: Path, folder: Path) -> "Index":
        """Open or make the index. A damaged file, or one of another version, is replaced."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(path, folder)

    def close(self) -> None:
        """Close the database file."""
        self._database.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def catch_up(self) -> int:
        """Take in what was appended since, or everything where the log was replaced; how many lines."""
        return self._surviving(self._catch_up)

    def find(
        self,
        *,
        event: str | None = None,
        session_id: str | None = None,
        intent_id: str | None = None,
        agent: str | None = None,
        path: str | None = None,
        since: str | None = None,
        until: str | None = None,
        text: str | None = None,
        words: Sequence[str] = (),
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Whole records, newest first. `path` is one that a call named or changed; `text` is part of an id,
        a command or a tool, each of `words` of these, of a path, an agent, an event or an intent's id; times are
        ISO 8601 in UTC, `since` included, `until` not.
        """
        tests: list[tuple[str, str | None]] = [
            ("event = ?", event),
            ("session_id = ?", session_id),
            ("intent_id = ?", intent_id),
            ("agent = ?", agent),
            ("number in (select record from paths where path = ?)", path),
            ("at >= ?", since),
            ("at < ?", until),
            (r"id || char(10) || ifnull(command, '') || char(10) || ifnull(tool, '') like ? escape '\'", _like(text)),
            *((_WORD, _like(word)) for word in words),
        ]
        chosen = [(test, value) for test, value in tests if value is not None]
        where = " and ".join(test for test, _ in chosen) or "true"
        return self._documents(where, [value for test, value in chosen for _ in range(test.count("?"))], limit)

    def by_id(self, prefix: str) -> list[dict[str, Any]]:
        """The records whose id begins with `prefix`: one, where it is unique; at most ten."""
        return self._documents("id >= ? and id < ?", [prefix, prefix + "\U0010ffff"], 10)

    def by_content_hash(self, content_hash: str, limit: int = 50) -> list[dict[str, Any]]:
        """Records that wrote lines of that hash, or a file of that SHA-256; with or without `sha256:`."""
        plain = content_hash.removeprefix("sha256:")
        where = """number in (select record from ranges where content_hash = ?
          union select record from files where after_sha = ? union select record from files where before_sha = ?)"""
        return self._documents(where, [f"sha256:{plain}", plain, plain], limit)

    def by_after_blob(self, path: str, blob: str) -> tuple[Mutation, ...]:
        """The mutations that left `path` with exactly that content, oldest first."""
        where = "where f.after_blob = ? and f.path = ? order by r.number, f.rowid"
        return self._mutations(where, (blob, path))

    def mutations_of(self, path: str) -> tuple[Mutation, ...]:
        """All that was recorded of `path`, oldest first."""
        return self._mutations("where f.path = ? order by r.number, f.rowid", (path,))

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything in the index, by table: two indexes of one log are equal."""
        tables = ("records", "files", "ranges", "paths", "position")
        return {
            table: self._surviving(lambda table=table: self._database.execute(f"select * from {table}").fetchall())
            for table in tables
        }

    def _documents(self, where: str, values: Iterable[str | None], limit: int) -> list[dict[str, Any]]:
        query = f"select segment, offset, length from records where {where} order by number desc limit ?"
        parameters = (*values, limit)
        found = self._surviving(lambda: self._database.execute(query, parameters).fetchall())
        return [document for place in found if (document := self._document(*place)) is not None]

    def _document(self, segment: str, offset: int, length: int) -> dict[str, Any] | None:
        """The record at a place; None where the log no longer has it, which is `verify`'s to report."""
        try:
            return json.decode(read_at(self.folder, segment, offset, length), type=dict[str, Any])
        except (LineNotThere, DecodeError, UnicodeDecodeError):
            return None

    def _mutations(self, where: str, values: tuple[str, ...]) -> tuple[Mutation, ...]:
        found = self._surviving(lambda: self._database.execute(f"{_MUTATION} {where}", values).fetchall())
        return tuple(Mutation(*row) for row in found)

    def _surviving(self, work: Callable[[], _T]) -> _T:
        """Do `work`; where the file proves damaged, replace it, fill it again and do it once more."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
        self._database.close()
        self._database = self._connect(discard=True)
        self._catch_up()
        return work()

    def _connect(self, *, discard: bool = False) -> sqlite3.Connection:
        """Open the file under a lock, so that two processes never replace each other's."""
        held = lock.take(self.path.with_name(self.path.name + ".lock"), timeout_s=BUSY_TIMEOUT_S)
        try:
            if discard:
                _discard(self.path)
            try:
                return _opened(self.path)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
            _discard(self.path)
            return _opened(self.path)
        finally:
            lock.release(held)

    def _catch_up(self) -> int:
        with _transaction(self._database):
            start = self._start()
            if start is None:
                _empty(self._database)
            taken = 0
            last: LogLine | None = None
            number = self._database.execute("select ifnull(max(number), 0) from records").fetchone()[0]
            found = lines(self.folder, start)
            while batch := list(islice(found, BATCH)):
                number = _take_in(self._database, batch, number)
                taken += len(batch)
                last = batch[-1]
            if start is None:
                _run(self._database, _INDEXES)
            if last is not None:
                _set_position(self._database, last)
            return taken

    def _start(self) -> Place | None:
        """Where to go on; None where nothing is indexed or the log is not the one that was."""
        row = self._database.execute("select * from position").fetchone()
        if row is None:
            return None
        _, segment, offset, seq, last_segment, last_offset, last_length, last_leaf = row
        try:
            line = read_at(self.folder, last_segment, last_offset, last_length)
        except LineNotThere:
            return None
        return Place(segment, offset, seq) if leaf_hash(line).hex() == last_leaf else None


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in _DAMAGED


def _discard(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        os.chmod(path, 0o600)  # noqa: PTH101
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        _prepare(database)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection) -> None:
    """Make the tables where they are missing, and again where they are of another version."""
    with _transaction(database):
        if database.execute("pragma user_version").fetchone()[0] == SCHEMA_VERSION:
            return
        old = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
        for (name,) in database.execute(old).fetchall():
            quoted = str(name).replace('"', '""')
            database.execute(f'drop table "{quoted}"')
        _run(database, _TABLES)
        _run(database, _INDEXES)
        database.execute(f"pragma user_version = {SCHEMA_VERSION}")


@contextmanager
def _transaction(database: sqlite3.Connection) -> Generator[None]:
    database.execute("begin immediate")
    try:
        yield
    except BaseException:
        if database.in_transaction:
            database.execute("rollback")
        raise
    database.execute("commit")


def _run(database: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";\n"):
        database.execute(statement)


def _empty(database: sqlite3.Connection) -> None:
    for table in ("records", "files", "ranges", "paths", "position"):
        database.execute(f"delete from {table}")
    for name in _INDEX_NAMES:
        database.execute(f"drop index if exists {name}")


def _set_position(database: sqlite3.Connection, last: LogLine) -> None:
    after = last.after
    leaf = leaf_hash(last.raw).hex()
    values = (0, after.segment, after.offset, after.seq, last.segment, last.offset, len(last.raw), leaf)
    database.execute("insert or replace into position values (?, ?, ?, ?, ?, ?, ?, ?)", values)


def _take_in(database: sqlite3.Connection, batch: Sequence[LogLine], number: int) -> int:
    """Index these lines as records after `number`; the last number. What is no record, or there already, is passed."""
    fresh: dict[str, tuple[_Line, LogLine]] = {}
    for line in batch:
        record = _parsed(line.raw)
        if record is not None:
            fresh.setdefault(record.id, (record, line))
    known = _known(database, fresh)
    rows: list[_Row] = []
    files: list[_Row] = []
    ranges: list[_Row] = []
    paths: list[_Row] = []
    for record, line in (fresh[name] for name in fresh if name not in known):
        number += 1
        rows.append(_record_row(record, line, number))
        if not (record.files or record.metadata.body.files or record.metadata.body.call):
            continue
        written = _ranges(record)
        files += [_file_row(number, file, written.get(file.path, [])) for file in record.metadata.body.files]
        ranges += [(number, path, r.start_line, r.end_line, r.content_hash) for path in written for r in written[path]]
        paths += [(path, number) for path in sorted(_paths(record))]
    for table, found in (("records", rows), ("files", files), ("ranges", ranges), ("paths", paths)):
        if found:
            database.executemany(f"insert into {table} values ({', '.join('?' * len(found[0]))})", found)
    return number


def _known(database: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    asked = json.encode(list(ids)).decode()
    found = database.execute("select id from records where id in (select value from json_each(?))", (asked,))
    return {name for (name,) in found}


def _parsed(raw: bytes) -> _Line | None:
    """The record on a line. One whose inner parts have another shape is still found by id and time."""
    try:
        return _LINE.decode(raw)
    except (ValidationError, UnicodeDecodeError):
        pass
    except DecodeError:
        return None
    try:
        least = _LEAST.decode(raw)
    except (DecodeError, UnicodeDecodeError):
        return None
    return _Line(least.id, least.timestamp, _NOTHING)


def _record_row(record: _Line, line: LogLine, number: int) -> _Row:
    body = record.metadata.body
    call = body.call or _Call()
    return (
        number,
        record.id,
        body.chain.seq if body.chain else line.seq,
        line.segment,
        line.offset,
        len(line.raw),
        record.timestamp,
        body.event,
        record.tool.name if record.tool else None,
        body.session_id,
        body.agent_id,
        body.intent_id,
        call.id,
        call.name,
        call.effect,
        body.decision.verdict if body.decision else None,
        call.command,
    )


def _ranges(record: _Line) -> dict[str, list[_Range]]:
    """The lines that were written, by path, as the published part of the record has them."""
    return {file.path: [r for conversation in file.conversations for r in conversation.ranges] for file in record.files}


def _file_row(number: int, file: _File, ranges: list[_Range]) -> _Row:
    before, after = file.before or _Side(), file.after or _Side()
    written = [*ranges, *file.ranges]
    starts = [r.start_line for r in written if r.start_line is not None]
    ends = [r.end_line for r in written if r.end_line is not None]
    span = (min(starts, default=None), max(ends, default=None))
    return (
        number,
        file.path,
        file.operation,
        before.git_blob,
        after.git_blob,
        before.sha256,
        after.sha256,
        *span,
    )


def _paths(record: _Line) -> set[str]:
    body = record.metadata.body
    named = body.call.paths if body.call else []
    return {*named, *(file.path for file in body.files), *(file.path for file in record.files)}


def _like(text: str | None) -> str | None:
    if text is None:
        return None
    for character in ("\\", "%", "_"):
        text = text.replace(character, "\\" + character)
    return f"%{text}%"
