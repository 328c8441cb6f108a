"""Building the index: lines of the logs become rows of plain values, decoded only as far as needed."""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json

from remit.core.formats.merkle import hash_leaf
from remit.core.record import KEY
from remit.ledger.index.search import INSERT_SEARCH_ROW, parse_search_texts
from remit.ledger.index.tables import insert_statement, transaction
from remit.ledger.machine_logs import list_readable_places
from remit.ledger.reader import LineNotThere, LogLine, LogPosition, read_bytes, read_lines, read_spans
from remit.ledger.segments import DECODE_ERRORS, first_seq, segment_name

Row: TypeAlias = tuple[str | int | None, ...]


class _IndexedSide(Struct, gc=False):
    sha256: str | None = None
    git_blob: str | None = None


class _IndexedRange(Struct, gc=False):
    start_line: int | None = None
    end_line: int | None = None
    content_hash: str | None = None


class _IndexedFile(Struct, gc=False):
    path: str
    operation: str | None = None
    before: _IndexedSide | None = None
    after: _IndexedSide | None = None
    ranges: tuple[_IndexedRange, ...] = ()


class _IndexedCall(Struct, gc=False):
    paths: tuple[str, ...] = ()


class _IndexedChain(Struct, gc=False):
    seq: int


class _IndexedView(Struct, gc=False):
    event: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    call: _IndexedCall | None = None
    files: tuple[_IndexedFile, ...] = ()
    chain: _IndexedChain | None = None


class _IndexedMetadata(Struct, rename={"body": KEY}, gc=False):
    body: _IndexedView


class _IndexedConversation(Struct, gc=False):
    ranges: tuple[_IndexedRange, ...] = ()


class _TracedFile(Struct, gc=False):
    path: str
    conversations: tuple[_IndexedConversation, ...] = ()


class _IndexedTool(Struct, gc=False):
    name: str | None = None


class IndexedRecord(Struct, gc=False):
    """The indexed fields of a record."""

    id: str
    timestamp: str
    metadata: _IndexedMetadata
    files: tuple[_TracedFile, ...] = ()
    tool: _IndexedTool | None = None


class _MinimalRecord(Struct):
    id: str
    timestamp: str


_INDEXED_RECORD = json.Decoder(IndexedRecord)
_MINIMAL_RECORD = json.Decoder(_MinimalRecord)
_EMPTY_METADATA = _IndexedMetadata(_IndexedView())
_EMPTY_SIDE = _IndexedSide()


class IndexRows(Struct, frozen=True):
    """Rows by table, with values in the order of the columns."""

    records: list[Row]
    files: list[Row]
    ranges: list[Row]
    paths: list[Row]


def parse_record(raw: bytes) -> IndexedRecord | None:
    """Decode a record; None if the line is not a record. If inner parts have an unknown shape, only id and time are
    kept.
    """
    try:
        return _INDEXED_RECORD.decode(raw)
    except (ValidationError, UnicodeDecodeError):
        pass
    except (DecodeError, RecursionError):
        return None
    try:
        least = _MINIMAL_RECORD.decode(raw)
    except DECODE_ERRORS:
        return None
    return IndexedRecord(least.id, least.timestamp, _EMPTY_METADATA)


class FoundLine(Struct, frozen=True, gc=False):
    """A line of the log at `place`, decoded. `at` is the latest time of the log's records so far."""

    at: str
    place: str
    line: LogLine
    record: IndexedRecord | None


def build_rows(found: Sequence[tuple[IndexedRecord, FoundLine]], number: int) -> IndexRows:
    """Return the rows of records, numbered from `number` on."""
    numbered = [(n, record) for n, (record, _) in enumerate(found, number)]
    changing = [(n, record) for n, record in numbered if record.files or record.metadata.body.files]
    return IndexRows(
        [_build_record_row(n, record, line) for n, (record, line) in enumerate(found, number)],
        [row for n, record in changing for row in _build_file_rows(n, record)],
        [row for n, record in changing for row in _build_range_rows(n, record.files)],
        [(path, n) for n, record in numbered for path in _list_paths(record)],
    )


def _build_record_row(number: int, record: IndexedRecord, found: FoundLine) -> Row:
    body, line = record.metadata.body, found.line
    chain, tool = body.chain, record.tool
    return (
        number,
        record.id,
        line.seq if chain is None else chain.seq,
        found.place,
        _first_seq(line.segment),
        line.offset,
        len(line.raw),
        record.timestamp,
        body.event,
        None if tool is None else tool.name,
        body.session_id,
        body.intent_id,
    )


_first_seq = lru_cache(8)(first_seq)


def _build_file_rows(number: int, record: IndexedRecord) -> list[Row]:
    written = {traced.path: traced for traced in record.files}
    return [_build_file_row(number, file, written.get(file.path)) for file in record.metadata.body.files]


def _build_file_row(number: int, file: _IndexedFile, traced: _TracedFile | None) -> Row:
    before, after = file.before or _EMPTY_SIDE, file.after or _EMPTY_SIDE
    start, end = _find_line_span([*file.ranges, *(_list_ranges(traced) if traced else ())])
    return (
        number,
        file.path,
        file.operation,
        before.git_blob,
        after.git_blob,
        before.sha256,
        after.sha256,
        start,
        end,
    )


def _find_line_span(ranges: Sequence[_IndexedRange]) -> tuple[int | None, int | None]:
    """Return the first and the last line of all ranges."""
    if len(ranges) == 1:
        return ranges[0].start_line, ranges[0].end_line
    starts = [r.start_line for r in ranges if r.start_line is not None]
    ends = [r.end_line for r in ranges if r.end_line is not None]
    return min(starts, default=None), max(ends, default=None)


def _list_ranges(traced: _TracedFile) -> Sequence[_IndexedRange]:
    conversations = traced.conversations
    return (
        conversations[0].ranges
        if len(conversations) == 1
        else [r for conversation in conversations for r in conversation.ranges]
    )


def _build_range_rows(number: int, files: Iterable[_TracedFile]) -> list[Row]:
    return [
        (number, traced.path, r.start_line, r.end_line, r.content_hash)
        for traced in files
        for r in _list_ranges(traced)
    ]


def _list_paths(record: IndexedRecord) -> Sequence[str]:
    """Return each path that a call named or changed, once."""
    body = record.metadata.body
    named = () if body.call is None else body.call.paths
    if len(named) < 2 and not body.files and not record.files:
        return named
    return sorted({*named, *(file.path for file in body.files), *(file.path for file in record.files)})


BATCH_LINES = 2000
"""Number of lines per batch."""

BATCH_SEARCH_RECORDS = 20_000
"""Number of records per transaction of the word index: an interrupted search keeps its finished batches."""


StartPositions: TypeAlias = dict[str, LogPosition | None]
"""Position to continue from, by the log's path relative to the log folder; None for the log's beginning."""

IndexedPlace: TypeAlias = tuple[int, str, int, int, int]
"""A record's number, its log, the first seq of its segment, offset and length."""


def find_starts(database: sqlite3.Connection, root: Path) -> StartPositions | None:
    """Return the positions to continue from; None for a new index, or to rebuild the index.

    A rebuild is necessary after a log was replaced, or if a new log has records older than indexed records.
    """
    known = {row[0]: row[1:] for row in database.execute("select * from position")}
    if not known:
        return None
    starts: StartPositions = {place: _find_log_start(root / place, *row) for place, row in known.items()}
    if None in starts.values():
        return None
    for place in list_readable_places(root):
        if place not in starts:
            first = next(_read_log(root, place, None), None)
            if first and database.execute("select 1 from records where at > ?", (first.at,)).fetchone():
                return None
            starts[place] = None
    return starts


def _find_log_start(
    folder: Path,
    segment: str,
    offset: int,
    seq: int,
    last_segment: str,
    last_offset: int,
    last_length: int,
    last_leaf: str,
) -> LogPosition | None:
    try:
        line = read_bytes(folder, last_segment, last_offset, last_length)
    except (LineNotThere, PermissionError):
        return None
    return LogPosition(segment, offset, seq) if hash_leaf(line).hex() == last_leaf else None


def index_lines(database: sqlite3.Connection, root: Path, starts: StartPositions | None) -> int:
    """Index the lines from `starts` on and return their number. The caller holds a transaction."""
    number, top = database.execute("select ifnull(max(number), 0), ifnull(max(id), '') from records").fetchone()
    taken = 0
    last: dict[str, LogLine] = {}
    found = _merge_logs(root, starts if starts is not None else dict.fromkeys(list_readable_places(root)))
    while batch := list(islice(found, BATCH_LINES)):
        fresh, top = _select_new_records(database, batch, top)
        _insert_records(database, fresh, number + 1)
        number += len(fresh)
        taken += len(batch)
        last.update((item.place, item.line) for item in batch)
    for place, line in last.items():
        _store_position(database, place, line)
    return taken


def _merge_logs(root: Path, starts: Mapping[str, LogPosition | None]) -> Iterator[FoundLine]:
    """Merge the lines of all logs by time; lines of the same log keep their order."""
    streams = [_read_log(root, place, start) for place, start in sorted(starts.items())]
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=attrgetter("at"))


def _read_log(root: Path, place: str, start: LogPosition | None) -> Iterator[FoundLine]:
    at = ""
    for line in read_lines(root / place, start):
        record = parse_record(line.raw)
        at = max(at, record.timestamp) if record else at
        yield FoundLine(at, place, line, record)


def _select_new_records(
    database: sqlite3.Connection, batch: Iterable[FoundLine], top: str
) -> tuple[list[tuple[IndexedRecord, FoundLine]], str]:
    """Return the records that are not indexed yet, and the greatest id. Ids grow with time, so few need a query."""
    fresh: list[tuple[IndexedRecord, FoundLine]] = []
    ids: set[str] = set()
    for found in batch:
        record = found.record
        if record is None:
            continue
        name = record.id
        if name > top:
            top = name
        elif name in ids or _has_record(database, name):
            continue
        ids.add(name)
        fresh.append((record, found))
    return fresh, top


def _has_record(database: sqlite3.Connection, name: str) -> bool:
    return database.execute("select 1 from records where id = ?", (name,)).fetchone() is not None


def _insert_records(
    database: sqlite3.Connection, fresh: Sequence[tuple[IndexedRecord, FoundLine]], number: int
) -> None:
    rows = build_rows(fresh, number)
    for table in ("records", "files", "ranges", "paths"):
        found: list[Row] = getattr(rows, table)
        if found:
            database.executemany(insert_statement(table, len(found[0])), found)


def _store_position(database: sqlite3.Connection, place: str, last: LogLine) -> None:
    after = last.next_position
    leaf = hash_leaf(last.raw).hex()
    values = (place, after.segment, after.offset, after.seq, last.segment, last.offset, len(last.raw), leaf)
    database.execute("insert or replace into position values (?, ?, ?, ?, ?, ?, ?, ?)", values)


def index_search_texts(database: sqlite3.Connection, folder: Path) -> int:
    """Index the words of all records without indexed words, and return the number of records."""
    taken = 0
    while True:
        with transaction(database):
            completed = _index_search_batch(database, folder)
        taken += completed
        if completed < BATCH_SEARCH_RECORDS:
            return taken


def _index_search_batch(database: sqlite3.Connection, folder: Path) -> int:
    row = database.execute("select number from sought").fetchone()
    known = row[0] if row else 0
    places = database.execute(
        "select number, log, segment, offset, length from records where number > ? order by number limit ?",
        (known, BATCH_SEARCH_RECORDS),
    ).fetchall()
    if places:
        database.executemany(INSERT_SEARCH_ROW, _read_search_texts(folder, places))
        database.execute("insert or replace into sought values (0, ?)", (places[-1][0],))
    return len(places)


def _read_search_texts(folder: Path, places: Sequence[IndexedPlace]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the search texts per record, skipping lines that no longer exist (`verify` reports them)."""
    for (number, *_), raw in zip(places, read_indexed_lines(folder, places), strict=True):
        if raw is not None:
            yield (number, *parse_search_texts(raw))


def read_indexed_lines(root: Path, places: Iterable[IndexedPlace]) -> Iterator[bytes | None]:
    """Yield the lines at the given places, and None for removed lines."""
    for place, of_log in groupby(places, itemgetter(1)):
        where = ((segment_name(segment), offset, length) for _, _, segment, offset, length in of_log)
        yield from read_spans(root / place, where)


def clear_index(database: sqlite3.Connection) -> None:
    for table in ("records", "files", "ranges", "paths", "position", "sought", "put_words"):
        database.execute(f"delete from {table}")
    database.execute("insert into words (words) values ('delete-all')")
