"""How lines of a log become rows of the index."""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeAlias

from remit.core.merkle import leaf_hash
from remit.ledger.machine_logs import readable_places
from remit.ledger.reader import LineNotThere, LogLine, Place, lines, read_at, read_each
from remit.ledger.rows import FoundLine, Line, Row, parsed, rows_of
from remit.ledger.segments import segment_name
from remit.ledger.tables import insert, transaction
from remit.ledger.words import INSERT, said

BATCH = 2000
"""Lines that are taken in at once."""

WORDS_BATCH = 20_000
"""Records whose words one transaction takes in: a search that is broken off has not worked in vain."""


Starts: TypeAlias = dict[str, Place | None]
"""Where to go on in each log, by its folder from the log folder; None for its beginning."""

IndexedPlace: TypeAlias = tuple[int, str, int, int, int]
"""A record's number, its log, the first seq of its segment, offset and length."""


def starts_of(database: sqlite3.Connection, root: Path) -> Starts | None:
    """Where to go on; None where nothing is indexed, or the index has to begin anew.

    It has to where a log is not the one that was, and where one came that has records older than those known.
    """
    known = {row[0]: row[1:] for row in database.execute("select * from position")}
    if not known:
        return None
    starts: Starts = {place: _start_in(root / place, *row) for place, row in known.items()}
    if None in starts.values():
        return None
    for place in readable_places(root):
        if place not in starts:
            first = next(_found_lines(root, place, None), None)
            if first and database.execute("select 1 from records where at > ?", (first.at,)).fetchone():
                return None
            starts[place] = None
    return starts


def _start_in(
    folder: Path,
    segment: str,
    offset: int,
    seq: int,
    last_segment: str,
    last_offset: int,
    last_length: int,
    last_leaf: str,
) -> Place | None:
    try:
        line = read_at(folder, last_segment, last_offset, last_length)
    except (LineNotThere, PermissionError):
        return None
    return Place(segment, offset, seq) if leaf_hash(line).hex() == last_leaf else None


def fill(database: sqlite3.Connection, root: Path, starts: Starts | None) -> int:
    """Take in the lines from `starts` on; how many. The caller holds a transaction."""
    number, top = database.execute("select ifnull(max(number), 0), ifnull(max(id), '') from records").fetchone()
    taken = 0
    last: dict[str, LogLine] = {}
    found = _merged_lines(root, starts if starts is not None else dict.fromkeys(readable_places(root)))
    while batch := list(islice(found, BATCH)):
        fresh, top = _fresh(database, batch, top)
        _put(database, fresh, number + 1)
        number += len(fresh)
        taken += len(batch)
        last.update((one.place, one.line) for one in batch)
    for place, line in last.items():
        _set_position(database, place, line)
    return taken


def _merged_lines(root: Path, starts: Mapping[str, Place | None]) -> Iterator[FoundLine]:
    """The lines of all logs in the order of their times; those of one log stay in theirs."""
    streams = [_found_lines(root, place, start) for place, start in sorted(starts.items())]
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=attrgetter("at"))


def _found_lines(root: Path, place: str, start: Place | None) -> Iterator[FoundLine]:
    at = ""
    for line in lines(root / place, start):
        record = parsed(line.raw)
        at = max(at, record.timestamp) if record else at
        yield FoundLine(at, place, line, record)


def _fresh(
    database: sqlite3.Connection, batch: Iterable[FoundLine], top: str
) -> tuple[list[tuple[Line, FoundLine]], str]:
    """The records of these lines that are not there yet, and the greatest id. Ids grow with time, so few are sought."""
    fresh: list[tuple[Line, FoundLine]] = []
    ids: set[str] = set()
    for found in batch:
        record = found.record
        if record is None:
            continue
        name = record.id
        if name > top:
            top = name
        elif name in ids or _known(database, name):
            continue
        ids.add(name)
        fresh.append((record, found))
    return fresh, top


def _known(database: sqlite3.Connection, name: str) -> bool:
    return database.execute("select 1 from records where id = ?", (name,)).fetchone() is not None


def _put(database: sqlite3.Connection, fresh: Sequence[tuple[Line, FoundLine]], number: int) -> None:
    rows = rows_of(fresh, number)
    for table in ("records", "files", "ranges", "paths"):
        found: list[Row] = getattr(rows, table)
        if found:
            database.executemany(insert(table, len(found[0])), found)


def _set_position(database: sqlite3.Connection, place: str, last: LogLine) -> None:
    after = last.after
    leaf = leaf_hash(last.raw).hex()
    values = (place, after.segment, after.offset, after.seq, last.segment, last.offset, len(last.raw), leaf)
    database.execute("insert or replace into position values (?, ?, ?, ?, ?, ?, ?, ?)", values)


def fill_words(database: sqlite3.Connection, folder: Path) -> int:
    """Take in the words of the records that have none yet; how many."""
    taken = 0
    while True:
        with transaction(database):
            done = _fill_words(database, folder)
        taken += done
        if done < WORDS_BATCH:
            return taken


def _fill_words(database: sqlite3.Connection, folder: Path) -> int:
    row = database.execute("select number from sought").fetchone()
    known = row[0] if row else 0
    places = database.execute(
        "select number, log, segment, offset, length from records where number > ? order by number limit ?",
        (known, WORDS_BATCH),
    ).fetchall()
    if places:
        database.executemany(INSERT, _said(folder, places))
        database.execute("insert or replace into sought values (0, ?)", (places[-1][0],))
    return len(places)


def _said(folder: Path, places: Sequence[IndexedPlace]) -> Iterator[tuple[int, str, str, str]]:
    """What each record says; nothing where its line is no more, which is `verify`'s to report."""
    for (number, *_), raw in zip(places, read_indexed(folder, places), strict=True):
        if raw is not None:
            yield (number, *said(raw))


def read_indexed(root: Path, places: Iterable[IndexedPlace]) -> Iterator[bytes | None]:
    """The lines at these places, with None for what the logs no longer have."""
    for place, of_log in groupby(places, itemgetter(1)):
        where = ((segment_name(segment), offset, length) for _, _, segment, offset, length in of_log)
        yield from read_each(root / place, where)


def empty(database: sqlite3.Connection) -> None:
    """Forget everything. The caller holds a transaction."""
    for table in ("records", "files", "ranges", "paths", "position", "sought", "put_words"):
        database.execute(f"delete from {table}")
    database.execute("insert into words (words) values ('delete-all')")
