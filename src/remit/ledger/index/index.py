"""The index over all logs of a repository: SQLite, derived, may be deleted at any time and is rebuilt identically."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from msgspec import Struct, json
from msgspec.structs import astuple

from remit.core.python_runtime import pause_gc
from remit.ledger.file_changes import RecordedChange, apply_replays, read_changes
from remit.ledger.index import INDEX_FILE, build
from remit.ledger.index.search import RANK_ORDER, build_query
from remit.ledger.log_files import DECODE_ERRORS, hold_lock, is_unwritable, list_readable_places, segment_name
from remit.ledger.reader import LogLine, measure_log_bytes
from remit.ledger.sqlite_file import is_damage, remove_database, transaction

BULK_BYTES = 4 * 1024 * 1024  # logs of this size are first indexed in a separate file that no other process uses yet
BUILD_TIMEOUT_S = 600.0

_Result = TypeVar("_Result")
_SqlValue: TypeAlias = str | int | None


class Filters(TypedDict, total=False):
    """Filters for records; None and missing keys have no effect. `path` is a path named or changed by a call; `line`,
    together with `path`, a line written by the record, in the numbering of that time; `content_hash` the hash of
    written lines or of a file before or after, with or without `sha256:`; `decision` an effect, such as `deny`;
    `agent_id` a sub-agent. Times are ISO 8601 in UTC; `since` is
    inclusive, `until` exclusive.
    """

    event: str | None
    session_id: str | None
    intent_id: str | None
    intent_uid: str | None
    agent: str | None
    tool: str | None
    decision: str | None
    agent_id: str | None
    path: str | None
    line: int | None
    content_hash: str | None
    since: str | None
    until: str | None


class PutMarks(Struct, frozen=True, gc=False):
    """Marks of the words and lines put into a file by a record: four bytes each, in the machine's byte order. Both are
    None if unknown.
    """

    id: str
    path: str
    words: bytes | None
    lines: bytes | None


class BlamedFile(Struct, frozen=True, gc=False):
    """Packed result of git's blame of a committed file: the same at each commit, until the commit after `last_commit`
    that changes the file. `settings` names git's settings and sources beside the commits.
    """

    path: str
    last_commit: str
    settings: str
    lines: bytes


class KeptLines(Struct, frozen=True, gc=False):
    """Packed attributions of lines that the version `blob` of a file added to `parent_blob`, as an answer to a kind of
    `question`. `sighting` is the number of the last record before the version with the same content, or 0. The
    attributions follow the `rules` of a release and the records up to number `known_until`, and hold as long as
    `lasting` says.
    """

    question: str
    path: str
    blob: str
    parent_blob: str
    sighting: int
    rules: str
    known_until: int
    lasting: int
    lines: bytes


class LastChange(Struct, frozen=True, gc=False):
    """Number and time of the newest record that changed a file; zero and empty without one."""

    number: int = 0
    at: str = ""


class IndexedSession(Struct, frozen=True, gc=False):
    """A session by its records: agent, first and last time, counts, and the intent of the newest record."""

    session_id: str
    agent: str | None
    began_at: str
    last_at: str
    records: int
    denied: int
    changes: int
    questions: int
    intent_id: str | None


_SELECT_PLACE = "select r.number, r.log, r.segment, r.offset, r.length"
_SELECT_CHANGING = """select distinct r.number, r.log, r.segment, r.offset, r.length
  from files f cross join records r on r.number = f.record"""

_HAS_HASH = """r.number in (select record from ranges where content_hash = ?
  union select record from files where after_sha = ? union select record from files where before_sha = ?)"""

_EqualityField: TypeAlias = Literal[
    "session_id", "intent_uid", "intent_id", "agent", "event", "tool", "decision", "agent_id"
]
_EQUALITY_FIELDS: tuple[_EqualityField, ...] = (
    *("session_id", "intent_uid", "intent_id", "agent", "event"),
    *("tool", "decision", "agent_id"),
)
"""Ordered by how selective their SQL indexes are; SQLite uses only one of them per query. The last three have none."""

FacetField: TypeAlias = Literal["event", "tool", "decision", "agent_id", "intent_id"]


class Index:
    """The index at `path` over all logs in `folder`, of every machine. `find` first indexes new lines; the remaining
    queries see the state of the last `catch_up` or `find`.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.keep_timeout_s = 0.0
        """How long storing answers waits for another process that writes."""
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

    # -- records --------------------------------------------------------------------------------------------

    def find(
        self,
        *,
        words: Sequence[str] = (),
        ranked: bool = False,
        any_word: bool = False,
        limit: int = 50,
        offset: int = 0,
        **by: Unpack[Filters],
    ) -> list[dict[str, Any]]:
        """Return whole records, newest first, or `ranked` by relevance to the `words`. Records match all `words`, or
        with `any_word` any of them, as defined by `build_query`. The first search indexes the words of the whole log.
        Raises NoSearchWords.
        """
        self.catch_up()
        if not words:
            query = _build_place_query(by)
            order = query.newest_first
        else:
            query = self._build_word_query(words, by, any_word=any_word)
            order = RANK_ORDER if ranked else query.newest_first
        statement = f"{query.text} order by {order} limit ? offset ?"
        return self._read_documents(statement, [*query.values, limit, offset])

    def _build_word_query(self, words: Sequence[str], by: Filters, *, any_word: bool = False) -> "_PlaceQuery":
        """Return the query for words and filters, once the words of all records are indexed. Raises NoSearchWords."""
        wanted = build_query(words, any_word=any_word)
        self._retry_after_damage(lambda: build.index_search_texts(self._database, self.folder))
        tests, values = _build_conditions(by, indexed=False)
        if (path := by.get("path")) is not None:
            tests.append("r.number in (select record from paths where path = ?)")
            values.append(path)
            if (line := by.get("line")) is not None:
                lines = "select record from ranges where path = ? and start_line <= ? and end_line >= ?"
                tests.append(f"r.number in ({lines})")
                values += [path, line, line]
        where = " and ".join(["words match ?", *tests])
        text = f"{_SELECT_PLACE} from words cross join records r on r.number = words.rowid where {where}"
        return _PlaceQuery(text, [wanted, *values], "r.number", "words.rowid desc")

    def iterate_records(self, **by: Unpack[Filters]) -> Iterator[dict[str, Any]]:
        """Yield all matching records, oldest first, with few of them in memory."""
        query = _build_place_query(by, after=True)
        statement, number = f"{query.text} order by {query.number} limit ?", 0
        while places := self._query_rows(statement, [*query.values, number, build.BATCH_LINES]):
            number = places[-1][0]
            yield from self._decode_documents(places)

    def find_window(self, start: int, count: int, **by: Unpack[Filters]) -> list[dict[str, Any]]:
        """Return up to `count` matching records, oldest first, from position `start` of all that match."""
        query = _build_place_query(by)
        statement = f"{query.text} order by {query.number} limit ? offset ?"
        return self._read_documents(statement, [*query.values, count, start])

    def count_matching(self, *, words: Sequence[str] = (), **by: Unpack[Filters]) -> int:
        """Return how many records match the filters and have all the words. Raises NoSearchWords."""
        query = self._build_word_query(words, by) if words else _build_place_query(by)
        return int(self._query_rows(f"select count(*) from ({query.text})", query.values)[0][0])

    def count_before(self, record_id: str, **by: Unpack[Filters]) -> int:
        """Return the number of matching records older than a given record."""
        query = _build_place_query(by)
        older = f"select count(*) from ({query.text}) where number < (select number from records where id = ?)"
        return int(self._query_rows(older, [*query.values, record_id])[0][0])

    def find_neighbours(
        self, record_id: str, *, words: Sequence[str] = (), **by: Unpack[Filters]
    ) -> tuple[str | None, str | None]:
        """Return the ids of the nearest older and newer record that match; the record itself need not."""
        query = self._build_word_query(words, by) if words else _build_place_query(by)
        found: list[str | None] = []
        for nearest, side in (("max", "<"), ("min", ">")):
            beyond = f"number {side} (select number from records where id = ?)"
            number = f"select {nearest}(number) from ({query.text}) where {beyond}"
            rows = self._query_rows(f"select id from records where number = ({number})", [*query.values, record_id])
            found.append(str(rows[0][0]) if rows else None)
        return found[0], found[1]

    def count_by(self, field: FacetField, **by: Unpack[Filters]) -> dict[str, int]:
        """Return how many matching records have each value of a field; records without one are left out."""
        query = _build_place_query(by)
        counted = f"""select {field}, count(*) from records
          where {field} is not null and number in (select number from ({query.text})) group by 1"""
        return {str(value): int(count) for value, count in self._query_rows(counted, query.values)}

    def list_intent_names(self) -> list[tuple[str, str]]:
        """Return the label and the uid of each intent that was declared; an intent may have had several labels."""
        statement = """select distinct intent_id, intent_uid from records
          where event = 'intent_changed' and intent_id is not null and intent_uid is not null"""
        return [(str(label), str(uid)) for label, uid in self._query_rows(statement, ())]

    def count_by_path(self, limit: int, **by: Unpack[Filters]) -> dict[str, int]:
        """Return how many matching records name each path, those with the most records first."""
        query = _build_place_query(by)
        counted = f"""select path, count(distinct record) from paths
          where record in (select number from ({query.text})) group by 1 order by 2 desc, 1 limit ?"""
        return {str(path): int(count) for path, count in self._query_rows(counted, [*query.values, limit])}

    def list_times(self, limit: int, **by: Unpack[Filters]) -> list[tuple[str, str]]:
        """Return time and event of the newest matching records, oldest first."""
        query = _build_place_query(by)
        timed = f"select at, event from records where number in (select number from ({query.text}))"
        rows = self._query_rows(f"{timed} order by number desc limit ?", [*query.values, limit])
        return [(str(at), str(event)) for at, event in reversed(rows)]

    def list_sessions(self, limit: int = 100, session_id: str | None = None) -> list[IndexedSession]:
        """Return the sessions with records, the latest used first; with `session_id` only the named session."""
        wanted = "session_id is not null" if session_id is None else "session_id = ?"
        statement = f"""select session_id, max(agent), min(at), max(at), count(*), sum(event = 'denied'),
          sum(event = 'mutation'), sum(event = 'approval_requested'),
          (select intent_id from records i where i.session_id = r.session_id and intent_id is not null
            order by number desc limit 1)
          from records r where {wanted} group by session_id order by max(number) desc limit ?"""
        return [
            IndexedSession(*row)
            for row in self._query_rows(statement, [*([] if session_id is None else [session_id]), limit])
        ]

    def find_by_id_prefix(self, prefix: str) -> list[dict[str, Any]]:
        where = "r.id >= ? and r.id < ? order by r.number desc limit 10"
        return self._read_documents(f"{_SELECT_PLACE} from records r where {where}", [prefix, prefix + "\U0010ffff"])

    def find_by_ids(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the records with those ids, by id."""
        where = "r.id in (select value from json_each(?)) order by r.number"
        statement = f"{_SELECT_PLACE} from records r where {where}"
        return {str(document["id"]): document for document in self._read_documents(statement, [_as_json(ids)])}

    def find_by_id_part(self, part: str) -> list[dict[str, Any]]:
        """Return the two newest records whose id contains `part`. Scans every id."""
        where = "instr(r.id, ?) order by r.number desc limit 2"
        return self._read_documents(f"{_SELECT_PLACE} from records r where {where}", [part])

    def count_unsearchable(self) -> int:
        known = "select ifnull(max(number), 0) - ifnull((select number from sought), 0) from records"
        return self._query_rows(known, [])[0][0]

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

    # -- changes of files -----------------------------------------------------------------------------------

    def list_changes(self, path: str) -> tuple[RecordedChange, ...]:
        found = self._read_changes(f"{_SELECT_CHANGING} where f.path = ? order by r.number", [path])
        return tuple(change for change in found if change.path == path)

    def list_changes_to_content(self, after_sha: str) -> tuple[RecordedChange, ...]:
        found = self._read_changes(f"{_SELECT_CHANGING} where f.after_sha = ? order by r.number", [after_sha])
        return tuple(change for change in found if change.after_sha == after_sha)

    def list_newest_changes(self, limit: int) -> tuple[RecordedChange, ...]:
        newest = "select distinct record from files order by record desc limit ?"
        statement = f"{_SELECT_PLACE} from records r where r.number in ({newest}) order by r.number desc"
        return self._read_changes(statement, [limit])

    def list_changes_without_marks(self, path: str | None, limit: int) -> tuple[RecordedChange, ...]:
        """Return the newest changes without stored marks, of a path or of all paths."""
        unknown = "not exists (select 1 from put_words p where p.id = r.id and p.path = f.path)"
        where = f"{'f.path = ?' if path else '? is null'} and r.event is not 'replay' and {unknown}"
        where = f"{where} order by r.number desc limit ?"
        found = self._read_changes(f"{_SELECT_CHANGING} where {where}", [path, limit])
        return tuple(change for change in found if path in (None, change.path))

    def list_changed_paths(self, since: int, limit: int) -> list[str]:
        """Return the files that records above the number `since` changed, the newest first."""
        newest = "select path from files where record > ? group by path order by max(record) desc limit ?"
        return [path for (path,) in self._query_rows(newest, [since, limit])]

    def list_files_of_intent(self, intent_id: str) -> dict[str, str | None]:
        """Return the files that agents changed under an intent, as records spell them, with the blob name of each
        before the first change.
        """
        statement = (
            "select f.path, f.before_blob from records r join files f on f.record = r.number"
            " where r.intent_id = ? and r.event = 'mutation' order by r.number desc"
        )
        return dict(self._query_rows(statement, [intent_id]))

    def find_recorded_blobs(self, blobs: Iterable[str]) -> frozenset[str]:
        known = "select distinct after_blob from files where after_blob in (select value from json_each(?))"
        return frozenset(blob for (blob,) in self._query_rows(known, [_as_json(blobs)]))

    def find_first_change_time(self) -> str | None:
        first = "select at from records where number = (select record from files order by rowid limit 1)"
        return next((at for (at,) in self._query_rows(first, [])), None)

    # -- marks ----------------------------------------------------------------------------------------------

    def store_put_marks(self, rows: Iterable[PutMarks]) -> None:
        kept = [(row.id, row.path, row.words, row.lines) for row in rows]

        def store() -> None:
            with transaction(self._database):
                self._database.executemany("insert or replace into put_words values (?, ?, ?, ?)", kept)

        self._retry_after_damage(store)

    def list_put_marks(self, path: str | None = None, *, calls: bool = False) -> tuple[PutMarks, ...]:
        is_call = "exists (select 1 from records r where r.id = p.id and r.event <> 'human_edit')"
        where = f"{'p.path = ?' if path else '? is null'} and {is_call if calls else 'true'}"
        return tuple(PutMarks(*row) for row in self._query_rows(f"select * from put_words p where {where}", [path]))

    def list_put_marks_of(self, ids: Iterable[str]) -> tuple[PutMarks, ...]:
        known = "select * from put_words where id in (select value from json_each(?))"
        return tuple(PutMarks(*row) for row in self._query_rows(known, [_as_json(ids)]))

    def count_put_mark_bytes(self) -> int:
        return int(self._query_rows("select total(length(words) + length(lines)) from put_words", [])[0][0])

    # -- kept answers ---------------------------------------------------------------------------------------

    def find_named_blobs(self, names: Iterable[str]) -> dict[str, str]:
        known = "select name, blob from named_blobs where name in (select value from json_each(?))"
        return dict(self._query_rows(known, [_as_json(names)]))

    def store_named_blobs(self, blobs: Mapping[str, str]) -> None:
        self._store_unless_busy("insert or ignore into named_blobs values (?, ?)", list(blobs.items()))

    def find_kept_lines(self, question: str, path: str, blobs: Iterable[str], rules: str) -> list[KeptLines]:
        where = "path = ? and blob in (select value from json_each(?)) and question = ? and rules = ?"
        values = [path, _as_json(blobs), question, rules]
        return [KeptLines(*row) for row in self._query_rows(f"select * from line_origins where {where}", values)]

    def store_kept_lines(self, rows: Iterable[KeptLines]) -> None:
        marks = ", ".join("?" * len(KeptLines.__struct_fields__))
        self._store_unless_busy(f"insert or replace into line_origins values ({marks})", list(map(astuple, rows)))

    def find_blamed_files(self, last_commits: Mapping[str, str], settings: str) -> dict[str, bytes]:
        """Return the packed lines by path, of paths with their last commits."""
        pairs = json.encode(list(last_commits.items())).decode()
        joined = "from json_each(?) j cross join blamed_files b on b.path = j.value ->> 0"
        statement = f"select b.path, b.lines {joined} and b.last_commit = j.value ->> 1 where b.settings = ?"
        return dict(self._query_rows(statement, [pairs, settings]))

    def store_blamed_files(self, rows: Iterable[BlamedFile]) -> None:
        self._store_unless_busy("insert or replace into blamed_files values (?, ?, ?, ?)", list(map(astuple, rows)))

    def find_last_change(self, path: str | None = None) -> LastChange:
        """Return the newest record that changed the file, or any file."""
        last = (
            "select max(record) from files where path = ?" if path else "select max(record) from files where ? is null"
        )
        found = self._query_rows(f"select number, at from records where number = ({last})", [path])
        return LastChange(*found[0]) if found else LastChange()

    def list_sightings(self, path: str, blobs: Iterable[str]) -> list[tuple[str, int, str]]:
        """Return the contents among `blobs` that records left in the file, each with the record's number and time."""
        left = "f.path = ? and f.after_blob in (select value from json_each(?))"
        statement = (
            f"select f.after_blob, r.number, r.at from files f cross join records r on r.number = f.record where {left}"
        )
        return self._query_rows(statement, [path, _as_json(blobs)])

    # -- the database ---------------------------------------------------------------------------------------

    def _query_rows(self, statement: str, values: Sequence[_SqlValue]) -> list[tuple[Any, ...]]:
        return self._retry_after_damage(lambda: self._database.execute(statement, values).fetchall())

    def _store_unless_busy(self, statement: str, rows: Sequence[tuple[_SqlValue | bytes, ...]]) -> None:
        if not rows:
            return
        self._database.execute(f"pragma busy_timeout = {int(self.keep_timeout_s * 1000)}")
        try:
            with transaction(self._database):
                self._database.executemany(statement, rows)
        except sqlite3.OperationalError:
            return
        finally:
            self._database.execute(f"pragma busy_timeout = {int(build.BUSY_TIMEOUT_S * 1000)}")

    def _read_changes(self, statement: str, values: Sequence[_SqlValue]) -> tuple[RecordedChange, ...]:
        found = build.read_indexed_lines(self.folder, self._query_rows(statement, values))
        return apply_replays(change for raw in found if raw is not None for change in read_changes(raw))

    def _read_documents(self, statement: str, values: Sequence[_SqlValue]) -> list[dict[str, Any]]:
        return list(self._decode_documents(self._query_rows(statement, values)))

    def _decode_documents(self, places: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        for raw in build.read_indexed_lines(self.folder, places):
            try:
                if raw is not None:
                    yield json.decode(raw, type=dict[str, Any])
            except DECODE_ERRORS:
                continue

    def _retry_after_damage(self, work: Callable[[], _Result]) -> _Result:
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
        if self._is_in_memory:
            return build.open_in_memory(Path(os.devnull) if discarded else self.path)
        with hold_lock(f"{self.path}.lock", timeout_s=build.BUSY_TIMEOUT_S):
            if not discarded:
                try:
                    return build.open_database(self.path)
                except sqlite3.DatabaseError as error:
                    if not is_damage(error):
                        raise
            remove_database(self.path)
            return build.open_database(self.path)

    def _index_new_lines(self) -> int:
        taken = 0
        if not self._is_in_memory and build.find_starts(self._database, self.folder) is None:
            sizes = (measure_log_bytes(self.folder / place) for place in list_readable_places(self.folder))
            if sum(sizes) > BULK_BYTES:
                taken = self._build_aside()
        with transaction(self._database):
            starts = build.find_starts(self._database, self.folder)
            if starts is None:
                build.clear_index(self._database)
            return taken + build.index_lines(self._database, self.folder, starts)

    def _build_aside(self) -> int:
        with hold_lock(f"{self.path}.build", timeout_s=BUILD_TIMEOUT_S):
            self._database.close()
            self._database = self._connect()
            if build.find_starts(self._database, self.folder) is not None:
                return 0
            fresh = Path(f"{self.path}.fresh")
            with build.build_database(fresh) as database, pause_gc():
                taken = build.index_lines(database, self.folder, None)
            self._database.close()
            remove_index(self.path, fresh)
            self._database = self._connect()
            return taken


def _as_json(values: Iterable[str]) -> str:
    return json.encode(list(values)).decode()


def open_index(state: Path, log_folder: Path) -> Index:
    index = Index.open(state / INDEX_FILE, log_folder)
    try:
        index.catch_up()
    except BaseException:
        index.close()
        raise
    return index


def remove_index(path: Path, successor: Path | None = None) -> None:
    """Remove the index, or replace it. Processes with an open index keep the old file until they close it."""
    with hold_lock(f"{path}.lock", timeout_s=build.BUSY_TIMEOUT_S):
        remove_database(path)
        if successor is not None:
            successor.replace(path)


def filter_documents(documents: Sequence[dict[str, Any]], by: Filters) -> list[dict[str, Any]]:
    """Return the records outside the index that match the filters, in their order, by the rules of `Index.find`."""
    if not documents:
        return []
    raws = map(json.encode, documents)
    lines = (build.decode_line(LogLine(segment_name(0), 0, 0, raw, len(raw)), "") for raw in raws)
    query = _build_place_query(by)
    with closing(build.open_in_memory(Path(os.devnull))) as database:
        build.insert_rows(database, build.build_rows(lines, 0))
        numbers = {row[0] for row in database.execute(query.text, query.values)}
    return [document for number, document in enumerate(documents) if number in numbers]


class _PlaceQuery(Struct, frozen=True):
    """A select statement without order and limit. `number` is the column of the record's number."""

    text: str
    values: list[_SqlValue]
    number: str
    newest_first: str


def _build_place_query(by: Filters, *, after: bool = False) -> _PlaceQuery:
    path, line = by.get("path"), by.get("line")
    tests, values = _build_conditions(by, indexed=path is None)
    source, number, newest, group = "records r", "r.number", "r.number desc", ""
    if path is not None:
        source = f"{'paths' if line is None else 'ranges'} x cross join records r on r.number = x.record"
        number, newest = "x.record", "x.record desc"
        tests, values = ["x.path = ?", *tests], [path, *values]
        if line is not None:
            tests, values = [*tests, "x.start_line <= ?", "x.end_line >= ?"], [*values, line, line]
            group = " group by x.record"
    elif (by.get("since") or by.get("until")) and not any(by.get(name) is not None for name in _EQUALITY_FIELDS):
        newest = "r.at desc, r.number desc"
    if after:
        tests.append(f"{number} > ?")
    text = f"{_SELECT_PLACE} from {source} where {' and '.join(tests) or 'true'}{group}"
    return _PlaceQuery(text, values, number, newest)


def _build_conditions(by: Filters, *, indexed: bool) -> tuple[list[str], list[_SqlValue]]:
    requested = [(f"r.{name} = ?", by.get(name)) for name in _EQUALITY_FIELDS]
    requested += [("r.at >= ?", by.get("since")), ("r.at < ?", by.get("until"))]
    chosen = [(test, value) for test, value in requested if value is not None]
    free = 1 if indexed else 0
    if indexed and chosen and chosen[0][0].startswith("r.at"):
        free = 2
    tests = [test if n < free else f"+{test}" for n, (test, _) in enumerate(chosen)]
    values: list[_SqlValue] = [value for _, value in chosen]
    if (content_hash := by.get("content_hash")) is not None:
        plain = content_hash.removeprefix("sha256:")
        tests.append(_HAS_HASH)
        values += [f"sha256:{plain}", plain, plain]  # line hashes are indexed with the prefix, file hashes without
    return tests, values
