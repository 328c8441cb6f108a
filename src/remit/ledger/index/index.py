"""The index over the logs of a repository: SQLite, derived, may be deleted at any time and comes back the same."""

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
from remit.ledger.segments import DECODE_ERRORS
from remit.ledger.sqlite_file import is_unwritable

BULK_BYTES = 4 * 1024 * 1024
"""A log of that size is first indexed aside, in a file that nobody else has yet."""

BUILD_TIMEOUT_S = 600.0

_Result = TypeVar("_Result")
_SqlValue: TypeAlias = str | int | None


class Filters(TypedDict, total=False):
    """Which records; what is None or left out filters nothing.

    `path` is one that a call named or changed; `line`, beside it, one that the record wrote there, counted as the
    file was then; `content_hash` that of lines that it wrote, or of a file before or after it, with or without
    `sha256:`; times are ISO 8601 in UTC, `since` included, `until` not.
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


class PutMarks(Struct, frozen=True, gc=False):
    """Marks of the words and of the lines that a record put into a file: four bytes each, in this machine's order.

    Both are None where that cannot be told.
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
"""In this order an index of theirs serves best; only one does."""

_MAX_CHARACTER = "\U0010ffff"


class Index:
    """The index at `path` of all logs in `folder`, of whichever machine.

    `find` catches up by itself; all other queries see what the last `catch_up` or `find` saw.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self._is_in_memory = is_unwritable(path)
        self._database = self._connect()

    @classmethod
    def open(cls, path: Path, folder: Path) -> "Index":
        """Open or make the index. A damaged file, or one of another version, is replaced."""
        if not path.parent.is_dir():
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
        """Whole records, newest first, or `ranked` by how well they fit the `words`, of which each says all, or any.

        Words are read as `build_query` says. The first search takes them in from the whole log. Raises NoWords.
        """
        self.catch_up()
        if words:
            return self._find_by_words(build_query(words, any_word=any_word), ranked, limit, by)
        query = _build_place_query(by)
        return self._read_documents(f"{query.text} order by {query.newest_first} limit ?", [*query.values, limit])

    def iterate_records(self, **by: Unpack[Filters]) -> Iterator[dict[str, Any]]:
        """All records that fit, the oldest first, and never many of them in memory."""
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
        """How many records the next search takes the words of."""
        known = "select ifnull(max(number), 0) - ifnull((select number from sought), 0) from records"
        return self._query_rows(known, [])[0][0]

    def find_by_id_prefix(self, prefix: str) -> list[dict[str, Any]]:
        """The records whose id begins with `prefix`: one, where it is unique; at most ten."""
        where = "r.id >= ? and r.id < ? order by r.number desc limit 10"
        return self._read_documents(f"{_SELECT_PLACE} from records r where {where}", [prefix, prefix + _MAX_CHARACTER])

    def find_by_id_part(self, part: str) -> list[dict[str, Any]]:
        """The newest two records whose id holds `part`. It looks at every id."""
        where = "instr(r.id, ?) order by r.number desc limit 2"
        return self._read_documents(f"{_SELECT_PLACE} from records r where {where}", [part])

    def find_by_content_hash(self, content_hash: str, limit: int = 50) -> list[dict[str, Any]]:
        """Records that wrote lines of that hash, or a file of that SHA-256; with or without `sha256:`."""
        return self.find(content_hash=content_hash, limit=limit)

    def list_mutations(self, path: str) -> tuple[Mutation, ...]:
        """All that was recorded of `path`, oldest first."""
        return tuple(Mutation(*row) for row in self._query_rows(_SELECT_MUTATIONS, [path]))

    def list_changes(self, path: str) -> tuple[RecordedChange, ...]:
        """What the records say happened to `path`, oldest first."""
        found = self._read_changes(f"{_SELECT_CHANGING} where f.path = ? order by r.number", [path])
        return tuple(change for change in found if change.path == path)

    def list_changes_to_content(self, after_sha: str) -> tuple[RecordedChange, ...]:
        """The changes that left a file with exactly that content, oldest first."""
        found = self._read_changes(f"{_SELECT_CHANGING} where f.after_sha = ? order by r.number", [after_sha])
        return tuple(change for change in found if change.after_sha == after_sha)

    def find_recorded_blobs(self, blobs: Iterable[str]) -> frozenset[str]:
        """Those contents, by git names, that a recorded change left some file with."""
        asked = json.encode(list(blobs)).decode()
        known = "select distinct after_blob from files where after_blob in (select value from json_each(?))"
        return frozenset(blob for (blob,) in self._query_rows(known, [asked]))

    def list_changes_without_marks(self, path: str | None, limit: int) -> tuple[RecordedChange, ...]:
        """The newest changes, of one path or of all, of whose words `store_put_marks` was told nothing."""
        unknown = "not exists (select 1 from put_words p where p.id = r.id and p.path = f.path)"
        where = f"{'f.path = ?' if path else '? is null'} and {unknown} order by r.number desc limit ?"
        found = self._read_changes(f"{_SELECT_CHANGING} where {where}", [path, limit])
        return tuple(change for change in found if path in (None, change.path))

    def store_put_marks(self, rows: Iterable[PutMarks]) -> None:
        """Keep what records put into files."""
        kept = [(row.id, row.path, row.words, row.lines) for row in rows]

        def store() -> None:
            with transaction(self._database):
                self._database.executemany("insert or replace into put_words values (?, ?, ?, ?)", kept)

        self._retry_after_damage(store)

    def list_put_marks(self, path: str | None = None, *, calls: bool = False) -> tuple[PutMarks, ...]:
        """What `store_put_marks` was told of one path, or of all; where `calls`, not of what was found by comparing."""
        told = "exists (select 1 from records r where r.id = p.id and r.event <> 'human_edit')" if calls else "true"
        where = f"{'p.path = ?' if path else '? is null'} and {told}"
        return tuple(PutMarks(*row) for row in self._query_rows(f"select * from put_words p where {where}", [path]))

    def count_put_mark_bytes(self) -> int:
        """How many bytes of marks `store_put_marks` was told."""
        return int(self._query_rows("select total(length(words) + length(lines)) from put_words", [])[0][0])

    def list_newest_changes(self, limit: int) -> tuple[RecordedChange, ...]:
        """What the newest `limit` records that changed files say, the newest first."""
        newest = "select distinct record from files order by record desc limit ?"
        statement = f"{_SELECT_PLACE} from records r where r.number in ({newest}) order by r.number desc"
        return tuple(self._read_changes(statement, [limit]))

    def list_files_of_intent(self, intent_id: str) -> dict[str, str | None]:
        """The files that agents changed under an intent: the git name of what each held before the first time."""
        statement = (
            "select f.path, f.before_blob from records r join files f on f.record = r.number"
            " where r.intent_id = ? and r.event = 'mutation' order by r.number desc"
        )
        return dict(self._query_rows(statement, [intent_id]))

    def _read_changes(self, statement: str, values: Sequence[_SqlValue]) -> Iterator[RecordedChange]:
        found = read_indexed_lines(self.folder, self._query_rows(statement, values))
        return (change for raw in found if raw is not None for change in read_changes(raw))

    def find_first_change_time(self) -> str | None:
        """When a file was first recorded to change; None where none was."""
        first = "select at from records where number = (select record from files order by rowid limit 1)"
        return next((at for (at,) in self._query_rows(first, [])), None)

    def list_values(
        self, field: Literal["session_id", "intent_id", "agent"], limit: int = 12, *, prefix: str = ""
    ) -> tuple[str, ...]:
        """Some of the values that a field has in the log, of those that begin with `prefix`, alphabetically."""
        found: list[str] = []
        test = f"select min({field}) from records where {field} >= ?"
        while len(found) < limit:
            ((value,),) = self._query_rows(f"{test} and {field} > ?" if found else test, [prefix, *found[-1:]])
            if value is None or not value.startswith(prefix):
                break
            found.append(value)
        return tuple(found)

    def dump_rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything in the index but the words, by table: two indexes of one log are equal."""
        tables = ("records", "files", "ranges", "paths", "position")
        return {table: self._query_rows(f"select * from {table}", []) for table in tables}

    def _read_documents(self, statement: str, values: Sequence[_SqlValue]) -> list[dict[str, Any]]:
        return list(self._decode_documents(self._query_rows(statement, values)))

    def _query_rows(self, statement: str, values: Sequence[_SqlValue]) -> list[tuple[Any, ...]]:
        return self._retry_after_damage(lambda: self._database.execute(statement, values).fetchall())

    def _decode_documents(self, places: Iterable[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """The records at these places; not those that the log no longer has, which is `verify`'s to report."""
        for raw in read_indexed_lines(self.folder, places):
            try:
                if raw is not None:
                    yield json.decode(raw, type=dict[str, Any])
            except DECODE_ERRORS:
                continue

    def _retry_after_damage(self, work: Callable[[], _Result]) -> _Result:
        """Do `work`; where the file proves damaged, replace it, fill it again and do it once more."""
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
        """Open the file under a lock, so that two processes never replace each other's."""
        if self._is_in_memory:
            return open_in_memory(Path(os.devnull) if discarded else self.path)
        held = lock.acquire(self._sibling_path(".lock"), timeout_s=BUSY_TIMEOUT_S)
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
            lock.release(held)

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
        """Index the whole log aside, and put that in this file's place; how many lines. One process does it."""
        held = lock.acquire(self._sibling_path(".build"), timeout_s=BUILD_TIMEOUT_S)
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
            lock.release(held)

    def _replace_database(self, fresh: Path) -> None:
        """Those who have the old file open keep it, and the log; they only never see each other's again."""
        held = lock.acquire(self._sibling_path(".lock"), timeout_s=BUSY_TIMEOUT_S)
        try:
            remove_database(self.path)
            fresh.replace(self.path)
        finally:
            lock.release(held)


def must_build_aside(folder: Path) -> bool:
    """Whether the log is first indexed aside."""
    from remit.ledger.integrity.tree_heads import measure_log_bytes  # for start-up speed: most indexes stand already

    return sum(measure_log_bytes(folder / place) for place in list_readable_places(folder)) > BULK_BYTES


def remove_index(path: Path) -> None:
    """Remove the index, after records went that it knows. Who has it open keeps it until they are done."""
    held = lock.acquire(path.with_name(path.name + ".lock"), timeout_s=BUSY_TIMEOUT_S)
    try:
        remove_database(path)
    finally:
        lock.release(held)


class _PlaceQuery(Struct, frozen=True):
    """A statement that wants an order and a limit."""

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
    """Tests of the record itself. Where `indexed`, the first one uses an index; a plus keeps the others from it."""
    asked = [(f"r.{name} = ?", by.get(name)) for name in _EQUALITY_FIELDS]
    asked += [("r.at >= ?", by.get("since")), ("r.at < ?", by.get("until"))]
    chosen = [(test, value) for test, value in asked if value is not None]
    free = 1 if indexed else 0
    if indexed and chosen and chosen[0][0].startswith("r.at"):
        free = 2
    tests = [test if n < free else f"+{test}" for n, (test, _) in enumerate(chosen)]
    values = [value for _, value in chosen]
    if (content_hash := by.get("content_hash")) is not None:
        tests, values = [*tests, _HAS_HASH], [*values, *list_hash_spellings(content_hash)]
    return tests, values


def list_hash_spellings(content_hash: str) -> list[_SqlValue]:
    """What `_HASHED` asks for: hashes of lines stand with their `sha256:` in the index, those of files without."""
    plain = content_hash.removeprefix("sha256:")
    return [f"sha256:{plain}", plain, plain]
