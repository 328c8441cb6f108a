"""How lines of a log become rows of the index."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from remit.core.merkle import leaf_hash
from remit.ledger.reader import LineNotThere, LogLine, Place, lines, read_at, read_each
from remit.ledger.rows import Line, Row, parsed, rows_of
from remit.ledger.segments import segment_name
from remit.ledger.tables import insert, transaction
from remit.ledger.words import INSERT, said

BATCH = 2000
"""Lines that are taken in at once."""

WORDS_BATCH = 20_000
"""Records whose words one transaction takes in: a search that is broken off has not worked in vain."""


def start_of(database: sqlite3.Connection, folder: Path) -> Place | None:
    """Where to go on; None where nothing is indexed or the log is not the one that was."""
    row = database.execute("select * from position").fetchone()
    if row is None:
        return None
    _, segment, offset, seq, last_segment, last_offset, last_length, last_leaf = row
    try:
        line = read_at(folder, last_segment, last_offset, last_length)
    except LineNotThere:
        return None
    return Place(segment, offset, seq) if leaf_hash(line).hex() == last_leaf else None


def fill(database: sqlite3.Connection, folder: Path, start: Place | None) -> int:
    """Take in the lines from `start` on; how many. The caller holds a transaction."""
    number, top = database.execute("select ifnull(max(number), 0), ifnull(max(id), '') from records").fetchone()
    taken = 0
    last: LogLine | None = None
    found = lines(folder, start)
    while batch := list(islice(found, BATCH)):
        fresh, top = _fresh(database, batch, top)
        _put(database, fresh, number + 1)
        number += len(fresh)
        taken += len(batch)
        last = batch[-1]
    if last is not None:
        _set_position(database, last)
    return taken


def _fresh(database: sqlite3.Connection, batch: Iterable[LogLine], top: str) -> tuple[list[tuple[Line, LogLine]], str]:
    """The records of these lines that are not there yet, and the greatest id. Ids grow with time, so few are sought."""
    fresh: list[tuple[Line, LogLine]] = []
    ids: set[str] = set()
    for line in batch:
        record = parsed(line.raw)
        if record is None:
            continue
        name = record.id
        if name > top:
            top = name
        elif name in ids or _known(database, name):
            continue
        ids.add(name)
        fresh.append((record, line))
    return fresh, top


def _known(database: sqlite3.Connection, name: str) -> bool:
    return database.execute("select 1 from records where id = ?", (name,)).fetchone() is not None


def _put(database: sqlite3.Connection, fresh: Sequence[tuple[Line, LogLine]], number: int) -> None:
    rows = rows_of(fresh, number)
    for table in ("records", "files", "ranges", "paths"):
        found: list[Row] = getattr(rows, table)
        if found:
            database.executemany(insert(table, len(found[0])), found)


def _set_position(database: sqlite3.Connection, last: LogLine) -> None:
    after = last.after
    leaf = leaf_hash(last.raw).hex()
    values = (0, after.segment, after.offset, after.seq, last.segment, last.offset, len(last.raw), leaf)
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
        "select number, segment, offset, length from records where number > ? order by number limit ?",
        (known, WORDS_BATCH),
    ).fetchall()
    if places:
        database.executemany(INSERT, _said(folder, places))
        database.execute("insert or replace into sought values (0, ?)", (places[-1][0],))
    return len(places)


def _said(folder: Path, places: Sequence[tuple[int, int, int, int]]) -> Iterator[tuple[int, str, str, str]]:
    """What each record says; nothing where its line is no more, which is `verify`'s to report."""
    where = ((segment_name(segment), offset, length) for _, segment, offset, length in places)
    for (number, *_), raw in zip(places, read_each(folder, where), strict=True):
        if raw is not None:
            yield (number, *said(raw))


def empty(database: sqlite3.Connection) -> None:
    """Forget everything. The caller holds a transaction."""
    for table in ("records", "files", "ranges", "paths", "position", "sought", "put_words"):
        database.execute(f"delete from {table}")
    database.execute("insert into words (words) values ('delete-all')")
