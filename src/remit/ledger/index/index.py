"""The index over all logs of a repository: SQLite, derived, may be deleted at any time and is rebuilt identically."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from msgspec import Struct, json

from remit.core.gc_pause import pause_gc
from remit.ledger import lock
from remit.ledger.file_changes import RecordedChange, read_changes
from remit.ledger.index.build import (
    BATCH_LINES,
    clear_index,
    find_starts,
    index_lines,
    index_search_texts,
    read_indexed_lines,
)
from remit.ledger.index.search import RANK_ORDER, build_query
from remit.ledger.index.tables import (
    BUSY_TIMEOUT_S,
    build_database,
    is_damage,
    open_database,
    open_in_memory,
    remove_database,
    transaction,
)
from remit.ledger.machine_logs import list_readable_places
from remit.ledger.reader import measure_log_bytes
from remit.ledger.segments import DECODE_ERRORS
from remit.ledger.sqlite_file import is_unwritable

BULK_BYTES = 4 * 1024 * 1024
"""Logs of this size are first indexed in a separate file that no other process uses yet."""

BUILD_TIMEOUT_S = 600.0

_Result = TypeVar("_Result")
_SqlValue: TypeAlias = str | int | None


class Filters(TypedDict, total=False):
    """Filters for records; None and missing keys have no effect.

    `path` is a path named or changed by a call; `line`, together with `path`, a line written by the record, in the
    numbering of that time; `content_hash` the hash of written lines or of a file before or after, with or without
    `sha256:`. Times are ISO 8601 in UTC; `since` is inclusive, `until` exclusive.
    """

    event: str | None
    session_id: str | None
    intent_id: str | None
    agent: str | None
    path: str | None
    line: int | None
    content_hash: str | None
    since: str | None
    until: str | None


class Mutation(Struct, frozen=True):
    """The change of a file in a record. Blobs are git object names, SHAs are hex digests of the raw bytes.

    A missing or unrecorded side is None. The lines span all ranges of the file.
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


class PutMarks(Struct, frozen=True, gc=False):
    """Marks of the words and lines put into a file by a record: four bytes each, in the machine's byte order.

    Both are None if unknown.
    """

    id: str
    path: str
    words: bytes | None
    lines: bytes | None


_SELECT_MUTATIONS = """select r.seq, r.id, r.at, r.event, r.intent_id, r.session_id, f.path, f.operation, f.before_blob,
  f.after_blob, f.before_sha, f.after_sha, f.start_line, f.end_line
  from files f cross join records r on r.number = f.record where f.path = ? order by f.record"""

_SELECT_CHANGING = """select distinct r.number, r.log, r.segment, r.offset, r.length
  from files f cross join records r on r.number = f.record"""

_SELECT_PLACE = "select r.number, r.log, r.segment, r.offset, r.length"

_HAS_HASH = """r.number in (select record from ranges where content_hash = ?
  union select record from files where after_sha = ? union select record from files where before_sha = ?)"""

_HAS_PATH = "r.number in (select record from paths where path = ?)"

_HAS_LINE = "r.number in (select record from ranges where path = ? and start_line <= ? and end_line >= ?)"

_EQUALITY_FIELDS: tuple[Literal["session_id", "intent_id", "agent", "event"], ...] = (
    "session_id",
    "intent_id",
    "agent",
    "event",
)
"""Ordered by how selective their SQL indexes are; SQLite uses only one of them per query."""

_MAX_CHARACTER = "\U0010ffff"


class Index:
    """The index at `path` over all logs in `folder`, of every machine.

    `find` first indexes new lines; the remaining queries see the state of the last `catch_up` or `find`.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self._is_in_memory = is_unwritable(path)
        self._database = self._connect()

    @classmethod
    def open(cls, path: Path, folder: Path) -> "Index":
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        return cls(path, folder)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def catch_up(self) -> int:
        """Index the lines appended since the last call, or all lines if a log was replaced. Returns their number."""
        return self._retry_after_damage(self._index_new_lines)

    def find(
        self,
        *,
        words: Sequence[str] = (),
        ranked: bool = False,
        any_word: bool = False,
        limit: int = 50,
        **by: Unpack[Filters],
    ) -> list[dict[str, Any]]:
        """Return whole records, newest first, or `ranked` by relevance to the `words`.

        Records match all `words`, or with `any_word` any of them, as defined by `build_query`. The first search
        indexes the words of the whole log. Raises NoSearchWords.
        """
        self.catch_up()
        if words:
            return self._find_by_words(build_query(words, any_word=any_word), ranked, limit, by)
        query = _build_place_query(by)
        return self._read_documents(f"{query.text} order by {query.newest_first} limit ?", [*query.values, limit])

    def iterate_records(self, **by: Unpack[Filters]) -> Iterator[dict[str, Any]]:
        """Yield all matching records, oldest first, with few of them in memory."""
        query = _build_place_query(by, "r.number > ?" if by.get("path") is None else "x.record > ?")
        number = 0
        while places := self._query_rows(
            f"{query.text} order by {query.oldest_first} limit ?", [*query.values, number, BATCH_LINES]
        ):
            number = places[-1][0]
            yield from self._decode_documents(places)

    def _find_by_words(self, query: str, ranked: bool, limit: int, by: Filters) -> list[dict[str, Any]]:
        self._retry_after_damage(lambda: index_search_texts(self._database, self.folder))
        tests, values = _build_conditions(by, indexed=False)
        path, line = by.get("path"), by.get("line")
        if path is not None:
            tests, values = [*tests, _HAS_PATH], [*values, path]
        if path is not None and line is not None:
            tests, values = [*tests, _HAS_LINE], [*values, path, line, line]
        source = "words cross join records r on r.number = words.rowid"
        where = " and ".join(["words match ?", *tests])
        order = RANK_ORDER if ranked else "words.rowid desc"
        return self._read_documents(
            f"{_SELECT_PLACE} from {source} where {where} order by {order} limit ?", [query, *values, limit]
        )

    def count_unsearchable(self) -> int:
        known = "select ifnull(max(number), 0) - ifnull((select number from sought), 0) from records"
        return self._query_rows(known, [])[0][0]

    def find_by_id_prefix(self, prefix: str) -> list[dict[str, Any]]:
        """Return the records whose id begins with `prefix`, at most ten."""
        where = "r.id >= ? and r.id < ? order by r.number desc limit 10"
        return self._read_documents(f"{_SELECT_PLACE} from records r where {where}", [prefix, prefix + _MAX_CHARACTER])

    def find_by_id_part(self, part: str) -> list[dict[str, Any]]:
        """Return the two newest records whose id contains `part`. Scans every id."""
        where = "instr(r.id, ?) order by r.number desc limit 2"
        return self._read_documents(f"{_SELECT_PLACE} from records r where {where}", [part])

    def find_by_content_hash(self, content_hash: str, limit: int = 50) -> list[dict[str, Any]]:
        """Return records of written lines with the hash, or of files with the SHA-256, with or without `sha256:`."""
        return self.find(content_hash=content_hash, limit=limit)

    def list_mutations(self, path: str) -> tuple[Mutation, ...]:
        """Return the recorded mutations of `path`, oldest first."""
        return tuple(Mutation(*row) for row in self._query_rows(_SELECT_MUTATIONS, [path]))

    def list_changes(self, path: str) -> tuple[RecordedChange, ...]:
        """Return the recorded changes of `path`, oldest first."""
        found = self._read_changes(f"{_SELECT_CHANGING} where f.path = ? order by r.number", [path])
        return tuple(change for change in found if change.path == path)

    def list_changes_to_content(self, after_sha: str) -> tuple[RecordedChange, ...]:
        """Return the changes with exactly the given resulting content, oldest first."""
        found = self._read_changes(f"{_SELECT_CHANGING} where f.after_sha = ? order by r.number", [after_sha])
        return tuple(change for change in found if change.after_sha == after_sha)

    def find_recorded_blobs(self, blobs: Iterable[str]) -> frozenset[str]:
        """Return the blob names among `blobs` that resulted from a recorded change."""
        requested = json.encode(list(blobs)).decode()
        known = "select distinct after_blob from files where after_blob in (select value from json_each(?))"
        return frozenset(blob for (blob,) in self._query_rows(known, [requested]))

    def list_changes_without_marks(self, path: str | None, limit: int) -> tuple[RecordedChange, ...]:
        """Return the newest changes without stored marks, of a path or of all paths."""
        unknown = "not exists (select 1 from put_words p where p.id = r.id and p.path = f.path)"
        where = f"{'f.path = ?' if path else '? is null'} and {unknown} order by r.number desc limit ?"
        found = self._read_changes(f"{_SELECT_CHANGING} where {where}", [path, limit])
        return tuple(change for change in found if path in (None, change.path))

    def store_put_marks(self, rows: Iterable[PutMarks]) -> None:
        """Store marks of records."""
        kept = [(row.id, row.path, row.words, row.lines) for row in rows]

        def store() -> None:
            with transaction(self._database):
                self._database.executemany("insert or replace into put_words values (?, ?, ?, ?)", kept)

        self._retry_after_damage(store)

    def list_put_marks(self, path: str | None = None, *, calls: bool = False) -> tuple[PutMarks, ...]:
        """Return the stored marks of a path or of all paths; with `calls`, without `human_edit` records."""
        is_call = "exists (select 1 from records r where r.id = p.id and r.event <> 'human_edit')"
        condition = is_call if calls else "true"
        where = f"{'p.path = ?' if path else '? is null'} and {condition}"
        return tuple(PutMarks(*row) for row in self._query_rows(f"select * from put_words p where {where}", [path]))

    def count_put_mark_bytes(self) -> int:
        """Return the total size of all stored marks in bytes."""
        return int(self._query_rows("select total(length(words) + length(lines)) from put_words", [])[0][0])

    def list_newest_changes(self, limit: int) -> tuple[RecordedChange, ...]:
        """Return the changes in the newest `limit` records with changes, newest first."""
        newest = "select distinct record from files order by record desc limit ?"
        statement = f"{_SELECT_PLACE} from records r where r.number in ({newest}) order by r.number desc"
        return tuple(self._read_changes(statement, [limit]))

    def list_files_of_intent(self, intent_id: str) -> dict[str, str | None]:
        """Return the files that agents changed under an intent, with the blob name of each before the first change."""
        statement = (
            "select f.path, f.before_blob from records r join files f on f.record = r.number"
            " where r.intent_id = ? and r.event = 'mutation' order by r.number desc"
        )
        return dict(self._query_rows(statement, [intent_id]))

    def _read_changes(self, statement: str, values: Sequence[_SqlValue]) -> Iterator[RecordedChange]:
        found = read_indexed_lines(self.folder, self._query_rows(statement, values))
        return (change for raw in found if raw is not None for change in read_changes(raw))

    def find_first_change_time(self) -> str | None:
        """Return the time of the first recorded change; None if there is none."""
        first = "select at from records where number = (select record from files order by rowid limit 1)"
        return next((at for (at,) in self._query_rows(first, [])), None)

    def list_values(
        self, field: Literal["session_id", "intent_id", "agent"], limit: int = 12, *, prefix: str = ""
    ) -> tuple[str, ...]:
        """Return up to `limit` values of a field that begin with `prefix`, in alphabetical order."""
        found: list[str] = []
        test = f"select min({field}) from records where {field} >= ?"
        while len(found) < limit:
            ((value,),) = self._query_rows(f"{test} and {field} > ?" if found else test, [prefix, *found[-1:]])
            if value is None or not value.startswith(prefix):
                break
            found.append(value)
        return tuple(found)

    def dump_rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows except the words, by table: two indexes of the same log are equal."""
        tables = ("records", "files", "ranges", "paths", "position")
        return {table: self._query_rows(f"select * from {table}", []) for table in tables}

    def _read_documents(self, statement: str, values: Sequence[_SqlValue]) -> list[dict[str, Any]]:
        return list(self._decode_documents(self._query_rows(statement, values)))

    def _query_rows(self, statement: str, values: Sequence[_SqlValue]) -> list[tuple[Any, ...]]:
        return self._retry_after_damage(lambda: self._database.execute(statement, values).fetchall())

    def _decode_documents(self, places: Iterable[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """Yield the records at the given places, without removed records, which `verify` reports."""
        for raw in read_indexed_lines(self.folder, places):
            try:
                if raw is not None:
                    yield json.decode(raw, type=dict[str, Any])
            except DECODE_ERRORS:
                continue

    def _retry_after_damage(self, work: Callable[[], _Result]) -> _Result:
        """Run `work`; if the database proves damaged, rebuild it and run `work` once more."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        self._database.close()
        self._database = self._connect(discarded=True)
        self._index_new_lines()
        return work()

    def _connect(self, *, discarded: bool = False) -> sqlite3.Connection:
        """Open the database under a lock: otherwise two processes could replace each other's file."""
        if self._is_in_memory:
            return open_in_memory(Path(os.devnull) if discarded else self.path)
        locked = lock.acquire(self._sibling_path(".lock"), timeout_s=BUSY_TIMEOUT_S)
        try:
            if discarded:
                remove_database(self.path)
            try:
                return open_database(self.path)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
            remove_database(self.path)
            return open_database(self.path)
        finally:
            lock.release(locked)

    def _sibling_path(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _index_new_lines(self) -> int:
        taken = 0
        if (
            not self._is_in_memory
            and find_starts(self._database, self.folder) is None
            and must_build_aside(self.folder)
        ):
            taken = self._build_aside()
        with transaction(self._database):
            starts = find_starts(self._database, self.folder)
            if starts is None:
                clear_index(self._database)
            return taken + index_lines(self._database, self.folder, starts)

    def _build_aside(self) -> int:
        """Index the whole log in a separate file, which then replaces the database. Returns the number of lines."""
        locked = lock.acquire(self._sibling_path(".build"), timeout_s=BUILD_TIMEOUT_S)
        try:
            self._database.close()
            self._database = self._connect()
            if find_starts(self._database, self.folder) is not None:
                return 0
            fresh = self._sibling_path(".fresh")
            with build_database(fresh) as database, pause_gc():
                taken = index_lines(database, self.folder, None)
            self._database.close()
            self._replace_database(fresh)
            self._database = self._connect()
            return taken
        finally:
            lock.release(locked)

    def _replace_database(self, fresh: Path) -> None:
        """Replace the database. Processes with the old file open continue with the old file."""
        locked = lock.acquire(self._sibling_path(".lock"), timeout_s=BUSY_TIMEOUT_S)
        try:
            remove_database(self.path)
            fresh.replace(self.path)
        finally:
            lock.release(locked)


def open_index(state: Path, log_folder: Path) -> Index:
    """Open the index in a workspace's state folder and catch up with the logs."""
    index = Index.open(state / "index.db", log_folder)
    try:
        index.catch_up()
    except BaseException:
        index.close()
        raise
    return index


def must_build_aside(folder: Path) -> bool:
    """Return True if the logs are large enough to be indexed in a separate file."""
    return sum(measure_log_bytes(folder / place) for place in list_readable_places(folder)) > BULK_BYTES


def remove_index(path: Path) -> None:
    """Remove the index after pruning. Processes with an open index keep the old file until they close it."""
    locked = lock.acquire(path.with_name(path.name + ".lock"), timeout_s=BUSY_TIMEOUT_S)
    try:
        remove_database(path)
    finally:
        lock.release(locked)


class _PlaceQuery(Struct, frozen=True):
    """A select statement without order and limit."""

    text: str
    values: list[_SqlValue]
    newest_first: str
    oldest_first: str


def _build_place_query(by: Filters, *more: str) -> _PlaceQuery:
    path, line = by.get("path"), by.get("line")
    tests, values = _build_conditions(by, indexed=path is None)
    if path is None:
        timed = not any(by.get(name) is not None for name in _EQUALITY_FIELDS) and (by.get("since") or by.get("until"))
        newest = "r.at desc, r.number desc" if timed else "r.number desc"
        return _PlaceQuery(_build_select("records r", [*tests, *more]), values, newest, "r.number")
    source = f"{'paths' if line is None else 'ranges'} x cross join records r on r.number = x.record"
    tests, values = ["x.path = ?", *tests], [path, *values]
    if line is not None:
        tests, values = [*tests, "x.start_line <= ?", "x.end_line >= ?"], [*values, line, line]
    text = _build_select(source, [*tests, *more])
    return _PlaceQuery(f"{text} group by x.record" if line is not None else text, values, "x.record desc", "x.record")


def _build_select(source: str, tests: Sequence[str]) -> str:
    return f"{_SELECT_PLACE} from {source} where {' and '.join(tests) or 'true'}"


def _build_conditions(by: Filters, *, indexed: bool) -> tuple[list[str], list[_SqlValue]]:
    """Return conditions on the record. With `indexed`, only the first may use an SQL index (unary plus bars it)."""
    requested = [(f"r.{name} = ?", by.get(name)) for name in _EQUALITY_FIELDS]
    requested += [("r.at >= ?", by.get("since")), ("r.at < ?", by.get("until"))]
    chosen = [(test, value) for test, value in requested if value is not None]
    free = 1 if indexed else 0
    if indexed and chosen and chosen[0][0].startswith("r.at"):
        free = 2
    tests = [test if n < free else f"+{test}" for n, (test, _) in enumerate(chosen)]
    values = [value for _, value in chosen]
    if (content_hash := by.get("content_hash")) is not None:
        tests, values = [*tests, _HAS_HASH], [*values, *list_hash_spellings(content_hash)]
    return tests, values


def list_hash_spellings(content_hash: str) -> list[_SqlValue]:
    """Return the parameters of `_HAS_HASH`: the index holds line hashes with `sha256:` and file hashes without."""
    plain = content_hash.removeprefix("sha256:")
    return [f"sha256:{plain}", plain, plain]
