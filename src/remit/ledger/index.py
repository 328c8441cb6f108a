"""The index over the logs of a repository: SQLite, derived, may be deleted at any time and comes back the same."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from msgspec import Struct, json

from remit.core.collector import uncollected
from remit.ledger import lock
from remit.ledger.changes import Change, changes_on
from remit.ledger.filling import BATCH, empty, fill, fill_words, read_indexed, starts_of
from remit.ledger.machine_logs import readable_places
from remit.ledger.segments import UNREADABLE
from remit.ledger.tables import BUSY_TIMEOUT_S, discard, is_damage, opened, opened_in_memory, transaction, unshared
from remit.ledger.words import RANK, query_of
from remit.ledger.write_ahead import is_unwritable

BULK_BYTES = 4 * 1024 * 1024
"""A log of that size is first indexed aside, in a file that nobody else has yet."""

BUILD_TIMEOUT_S = 600.0

_T = TypeVar("_T")
_Value: TypeAlias = str | int | None


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


_MUTATIONS = """select r.seq, r.id, r.at, r.event, r.intent_id, r.session_id, f.path, f.operation, f.before_blob,
  f.after_blob, f.before_sha, f.after_sha, f.start_line, f.end_line
  from files f cross join records r on r.number = f.record where f.path = ? order by f.record"""

_CHANGING = """select distinct r.number, r.log, r.segment, r.offset, r.length
  from files f cross join records r on r.number = f.record"""

_PLACE = "select r.number, r.log, r.segment, r.offset, r.length"

_HASHED = """r.number in (select record from ranges where content_hash = ?
  union select record from files where after_sha = ? union select record from files where before_sha = ?)"""

_ON_PATH = "r.number in (select record from paths where path = ?)"

_ON_LINE = "r.number in (select record from ranges where path = ? and start_line <= ? and end_line >= ?)"

_EQUAL: tuple[Literal["session_id", "intent_id", "agent", "event"], ...] = (
    "session_id",
    "intent_id",
    "agent",
    "event",
)
"""In this order an index of theirs serves best; only one does."""

_PAST = "\U0010ffff"


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
        return self._surviving(self._catch_up)

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

        Words are read as `query_of` says. The first search takes them in from the whole log. Raises NoWords.
        """
        self.catch_up()
        if words:
            return self._search(query_of(words, any_word=any_word), ranked, limit, by)
        query = _query(by)
        return self._documents(f"{query.text} order by {query.newest} limit ?", [*query.values, limit])

    def each(self, **by: Unpack[Filters]) -> Iterator[dict[str, Any]]:
        """All records that fit, the oldest first, and never many of them in memory."""
        query = _query(by, "r.number > ?" if by.get("path") is None else "x.record > ?")
        number = 0
        while places := self._rows(f"{query.text} order by {query.oldest} limit ?", [*query.values, number, BATCH]):
            number = places[-1][0]
            yield from self._read(places)

    def _search(self, query: str, ranked: bool, limit: int, by: Filters) -> list[dict[str, Any]]:
        self._surviving(lambda: fill_words(self._database, self.folder))
        tests, values = _tests(by, indexed=False)
        path, line = by.get("path"), by.get("line")
        if path is not None:
            tests, values = [*tests, _ON_PATH], [*values, path]
        if path is not None and line is not None:
            tests, values = [*tests, _ON_LINE], [*values, path, line, line]
        source = "words cross join records r on r.number = words.rowid"
        where = " and ".join(["words match ?", *tests])
        order = RANK if ranked else "words.rowid desc"
        return self._documents(
            f"{_PLACE} from {source} where {where} order by {order} limit ?", [query, *values, limit]
        )

    def without_words(self) -> int:
        """How many records the next search takes the words of."""
        known = "select ifnull(max(number), 0) - ifnull((select number from sought), 0) from records"
        return self._rows(known, [])[0][0]

    def by_id(self, prefix: str) -> list[dict[str, Any]]:
        """The records whose id begins with `prefix`: one, where it is unique; at most ten."""
        where = "r.id >= ? and r.id < ? order by r.number desc limit 10"
        return self._documents(f"{_PLACE} from records r where {where}", [prefix, prefix + _PAST])

    def holding_id(self, part: str) -> list[dict[str, Any]]:
        """The newest two records whose id holds `part`. It looks at every id."""
        where = "instr(r.id, ?) order by r.number desc limit 2"
        return self._documents(f"{_PLACE} from records r where {where}", [part])

    def by_content_hash(self, content_hash: str, limit: int = 50) -> list[dict[str, Any]]:
        """Records that wrote lines of that hash, or a file of that SHA-256; with or without `sha256:`."""
        return self.find(content_hash=content_hash, limit=limit)

    def mutations_of(self, path: str) -> tuple[Mutation, ...]:
        """All that was recorded of `path`, oldest first."""
        return tuple(Mutation(*row) for row in self._rows(_MUTATIONS, [path]))

    def changes_of(self, path: str) -> tuple[Change, ...]:
        """What the records say happened to `path`, oldest first."""
        found = self._changes(f"{_CHANGING} where f.path = ? order by r.number", [path])
        return tuple(change for change in found if change.path == path)

    def changes_leaving(self, after_sha: str) -> tuple[Change, ...]:
        """The changes that left a file with exactly that content, oldest first."""
        found = self._changes(f"{_CHANGING} where f.after_sha = ? order by r.number", [after_sha])
        return tuple(change for change in found if change.after_sha == after_sha)

    def left_anywhere(self, blobs: Iterable[str]) -> frozenset[str]:
        """Those contents, by git names, that a recorded change left some file with."""
        asked = json.encode(list(blobs)).decode()
        known = "select distinct after_blob from files where after_blob in (select value from json_each(?))"
        return frozenset(blob for (blob,) in self._rows(known, [asked]))

    def changes_without_words(self, path: str | None, limit: int) -> tuple[Change, ...]:
        """The newest changes, of one path or of all, of whose words `keep_put_words` was told nothing."""
        unknown = "not exists (select 1 from put_words p where p.id = r.id and p.path = f.path)"
        where = f"{'f.path = ?' if path else '? is null'} and {unknown} order by r.number desc limit ?"
        found = self._changes(f"{_CHANGING} where {where}", [path, limit])
        return tuple(change for change in found if path in (None, change.path))

    def keep_put_words(self, rows: Iterable[PutMarks]) -> None:
        """Keep what records put into files."""
        kept = [(row.id, row.path, row.words, row.lines) for row in rows]

        def work() -> None:
            with transaction(self._database):
                self._database.executemany("insert or replace into put_words values (?, ?, ?, ?)", kept)

        self._surviving(work)

    def put_words(self, path: str | None = None, *, calls: bool = False) -> tuple[PutMarks, ...]:
        """What `keep_put_words` was told of one path, or of all; where `calls`, not of what was found by comparing."""
        told = "exists (select 1 from records r where r.id = p.id and r.event <> 'human_edit')" if calls else "true"
        where = f"{'p.path = ?' if path else '? is null'} and {told}"
        return tuple(PutMarks(*row) for row in self._rows(f"select * from put_words p where {where}", [path]))

    def put_bytes(self) -> int:
        """How many bytes of marks `keep_put_words` was told."""
        return int(self._rows("select total(length(words) + length(lines)) from put_words", [])[0][0])

    def newest_changes(self, limit: int) -> tuple[Change, ...]:
        """What the newest `limit` records that changed files say, the newest first."""
        newest = "select distinct record from files order by record desc limit ?"
        statement = f"{_PLACE} from records r where r.number in ({newest}) order by r.number desc"
        return tuple(self._changes(statement, [limit]))

    def changed_under(self, intent_id: str) -> dict[str, str | None]:
        """The files that agents changed under an intent: the git name of what each held before the first time."""
        statement = (
            "select f.path, f.before_blob from records r join files f on f.record = r.number"
            " where r.intent_id = ? and r.event = 'mutation' order by r.number desc"
        )
        return dict(self._rows(statement, [intent_id]))

    def _changes(self, statement: str, values: Sequence[_Value]) -> Iterator[Change]:
        found = read_indexed(self.folder, self._rows(statement, values))
        return (change for raw in found if raw is not None for change in changes_on(raw))

    def first_change(self) -> str | None:
        """When a file was first recorded to change; None where none was."""
        first = "select at from records where number = (select record from files order by rowid limit 1)"
        return next((at for (at,) in self._rows(first, [])), None)

    def values(
        self, field: Literal["session_id", "intent_id", "agent"], most: int = 12, *, prefix: str = ""
    ) -> tuple[str, ...]:
        """Some of the values that a field has in the log, of those that begin with `prefix`, alphabetically."""
        found: list[str] = []
        test = f"select min({field}) from records where {field} >= ?"
        while len(found) < most:
            ((value,),) = self._rows(f"{test} and {field} > ?" if found else test, [prefix, *found[-1:]])
            if value is None or not value.startswith(prefix):
                break
            found.append(value)
        return tuple(found)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything in the index but the words, by table: two indexes of one log are equal."""
        tables = ("records", "files", "ranges", "paths", "position")
        return {table: self._rows(f"select * from {table}", []) for table in tables}

    def _documents(self, statement: str, values: Sequence[_Value]) -> list[dict[str, Any]]:
        return list(self._read(self._rows(statement, values)))

    def _rows(self, statement: str, values: Sequence[_Value]) -> list[tuple[Any, ...]]:
        return self._surviving(lambda: self._database.execute(statement, values).fetchall())

    def _read(self, places: Iterable[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """The records at these places; not those that the log no longer has, which is `verify`'s to report."""
        for raw in read_indexed(self.folder, places):
            try:
                if raw is not None:
                    yield json.decode(raw, type=dict[str, Any])
            except UNREADABLE:
                continue

    def _surviving(self, work: Callable[[], _T]) -> _T:
        """Do `work`; where the file proves damaged, replace it, fill it again and do it once more."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        self._database.close()
        self._database = self._connect(discarded=True)
        self._catch_up()
        return work()

    def _connect(self, *, discarded: bool = False) -> sqlite3.Connection:
        """Open the file under a lock, so that two processes never replace each other's."""
        if self._is_in_memory:
            return opened_in_memory(Path(os.devnull) if discarded else self.path)
        held = lock.take(self._beside(".lock"), timeout_s=BUSY_TIMEOUT_S)
        try:
            if discarded:
                discard(self.path)
            try:
                return opened(self.path)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
            discard(self.path)
            return opened(self.path)
        finally:
            lock.release(held)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _catch_up(self) -> int:
        taken = 0
        if not self._is_in_memory and starts_of(self._database, self.folder) is None and is_long(self.folder):
            taken = self._build()
        with transaction(self._database):
            starts = starts_of(self._database, self.folder)
            if starts is None:
                empty(self._database)
            return taken + fill(self._database, self.folder, starts)

    def _build(self) -> int:
        """Index the whole log aside, and put that in this file's place; how many lines. One process does it."""
        held = lock.take(self._beside(".build"), timeout_s=BUILD_TIMEOUT_S)
        try:
            self._database.close()
            self._database = self._connect()
            if starts_of(self._database, self.folder) is not None:
                return 0
            fresh = self._beside(".fresh")
            with unshared(fresh) as database, uncollected():
                taken = fill(database, self.folder, None)
            self._database.close()
            self._replace(fresh)
            self._database = self._connect()
            return taken
        finally:
            lock.release(held)

    def _replace(self, fresh: Path) -> None:
        """Those who have the old file open keep it, and the log; they only never see each other's again."""
        held = lock.take(self._beside(".lock"), timeout_s=BUSY_TIMEOUT_S)
        try:
            discard(self.path)
            fresh.replace(self.path)
        finally:
            lock.release(held)


def is_long(folder: Path) -> bool:
    """Whether the log is first indexed aside."""
    from remit.ledger.heads import log_bytes  # for start-up speed: most indexes stand already

    return sum(log_bytes(folder / place) for place in readable_places(folder)) > BULK_BYTES


def forget(path: Path) -> None:
    """Remove the index, after records went that it knows. Who has it open keeps it until they are done."""
    held = lock.take(path.with_name(path.name + ".lock"), timeout_s=BUSY_TIMEOUT_S)
    try:
        discard(path)
    finally:
        lock.release(held)


class _Query(Struct, frozen=True):
    """A statement that wants an order and a limit."""

    text: str
    values: list[_Value]
    newest: str
    oldest: str


def _query(by: Filters, *more: str) -> _Query:
    path, line = by.get("path"), by.get("line")
    tests, values = _tests(by, indexed=path is None)
    if path is None:
        timed = not any(by.get(name) is not None for name in _EQUAL) and (by.get("since") or by.get("until"))
        newest = "r.at desc, r.number desc" if timed else "r.number desc"
        return _Query(_where("records r", [*tests, *more]), values, newest, "r.number")
    source = f"{'paths' if line is None else 'ranges'} x cross join records r on r.number = x.record"
    tests, values = ["x.path = ?", *tests], [path, *values]
    if line is not None:
        tests, values = [*tests, "x.start_line <= ?", "x.end_line >= ?"], [*values, line, line]
    text = _where(source, [*tests, *more])
    return _Query(f"{text} group by x.record" if line is not None else text, values, "x.record desc", "x.record")


def _where(source: str, tests: Sequence[str]) -> str:
    return f"{_PLACE} from {source} where {' and '.join(tests) or 'true'}"


def _tests(by: Filters, *, indexed: bool) -> tuple[list[str], list[_Value]]:
    """Tests of the record itself. Where `indexed`, the first one uses an index; a plus keeps the others from it."""
    asked = [(f"r.{name} = ?", by.get(name)) for name in _EQUAL]
    asked += [("r.at >= ?", by.get("since")), ("r.at < ?", by.get("until"))]
    chosen = [(test, value) for test, value in asked if value is not None]
    free = 1 if indexed else 0
    if indexed and chosen and chosen[0][0].startswith("r.at"):
        free = 2
    tests = [test if n < free else f"+{test}" for n, (test, _) in enumerate(chosen)]
    values = [value for _, value in chosen]
    if (content_hash := by.get("content_hash")) is not None:
        tests, values = [*tests, _HASHED], [*values, *hash_values(content_hash)]
    return tests, values


def hash_values(content_hash: str) -> list[_Value]:
    """What `_HASHED` asks for: hashes of lines stand with their `sha256:` in the index, those of files without."""
    plain = content_hash.removeprefix("sha256:")
    return [f"sha256:{plain}", plain, plain]
