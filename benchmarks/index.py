"""The index over a large log: how quickly it answers, and what building it costs beside SQLite alone.

`python benchmarks/index.py [RECORDS]`, a million by default. Nothing is asserted: the table is the result.
"""

import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from remit.core.record import (
    Body,
    CallPart,
    Chain,
    Content,
    Conversation,
    MutatedFile,
    Range,
    Record,
    TracedFile,
    encode_record,
)
from remit.ledger.index import Index

PATHS = 5_000
INTENTS = 200


def path_of(number: int) -> str:
    return f"src/module_{number % PATHS}/file.py"


def intent_of(number: int) -> str:
    return f"INT-{number % INTENTS:03d}"


def stamp(number: int) -> str:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number * 20)
    return at.strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def record(number: int) -> Record:
    """Every fourth a change, the others uses of tools."""
    path, intent, session = path_of(number), intent_of(number), f"session-{number // 500}"
    call = CallPart(id=f"toolu_{number}", name="Edit", effect="write", paths=(path,))
    name = f"{number:012x}-0000-7000-8000-000000000000"
    if number % 4:
        body = Body(event="tool_use", call=call, intent_id=intent, session_id=session)
        return Record(name, stamp(number), body)
    written = Range(start_line=number % 90, end_line=number % 90 + 9, content_hash=f"sha256:{number:064x}")
    before, after = Content(sha256=f"{number:064x}"), Content(sha256=f"{number + 1:064x}", git_blob=f"{number:040x}")
    changed = MutatedFile(path=path, operation="modify", before=before, after=after)
    body = Body(event="mutation", call=call, files=(changed,), intent_id=intent, session_id=session)
    traced = TracedFile(path=path, conversations=(Conversation(ranges=(written,)),))
    return Record(name, stamp(number), body, files=(traced,))


def write_log(folder: Path, count: int) -> None:
    """A log of so many records; the chain is left out, since the index does not look at it."""
    folder.mkdir()
    with (folder / "000000000000.jsonl").open("wb") as file:
        for number in range(count):
            file.write(encode_record(record(number), Chain(log="l/m", seq=number, prev="sha256:" + "0" * 64)) + b"\n")


def seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def p50(run: Callable[[int], object], count: int) -> str:
    times = [seconds(lambda n=n: run(n * 7919 % count // 4 * 4)) for n in range(200)]
    return f"{statistics.median(times) * 1000:.3f} ms"


def bare(path: Path, source: Path) -> float:
    """The same rows into the same tables by SQLite alone: no log is read, and no lookup index is made."""
    rows = {table: sqlite3.connect(source).execute(f"select * from {table}").fetchall() for table in TABLES}
    database = sqlite3.connect(path, isolation_level=None)
    for (statement,) in sqlite3.connect(source).execute("select sql from sqlite_master where type = 'table'"):
        database.execute(statement)
    database.execute("pragma journal_mode = wal")

    def insert() -> None:
        database.execute("begin")
        for table, found in rows.items():
            if found:
                database.executemany(f"insert into {table} values ({', '.join('?' * len(found[0]))})", found)
        database.execute("commit")

    return seconds(insert)


def with_indexes(path: Path, source: Path) -> float:
    """What SQLite needs for the lookup indexes."""
    database = sqlite3.connect(path)
    made = sqlite3.connect(source).execute("select sql from sqlite_master where type = 'index' and sql is not null")
    statements = [statement for (statement,) in made]
    return seconds(lambda: [database.execute(statement) for statement in statements])


TABLES = ("records", "files", "ranges", "paths")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(folder / "log", count)
        size = (folder / "log" / "000000000000.jsonl").stat().st_size
        with Index.open(folder / "index.db", folder / "log") as index:
            built = seconds(index.catch_up)
            inserted = bare(folder / "bare.db", folder / "index.db")
            indexed = with_indexes(folder / "bare.db", folder / "index.db")
            print(f"{count} records, {size / 1e6:.0f} MB")
            print(f"build                      {built:.2f} s, {count / built:,.0f} records/s")
            print(f"bare inserts               {inserted:.2f} s, build {inserted / built:.2f} x as quick")
            both = inserted + indexed
            print(f"bare inserts and indexes   {both:.2f} s, build {both / built:.2f} x as quick")
            report(index, count)


def report(index: Index, count: int) -> None:
    """The lookups."""
    lookups: dict[str, Callable[[int], object]] = {
        "by content hash": lambda n: index.by_content_hash(f"{n:064x}"),
        "by file, newest 20": lambda n: index.find(path=path_of(n), limit=20),
        "file and its lines": lambda n: index.mutations_of(path_of(n)),
        "by intent, newest 20": lambda n: index.find(intent_id=intent_of(n), limit=20),
    }
    for name, run in lookups.items():
        print(f"{name:<26} p50 {p50(run, count)}")
    print(
        f"words, newest 20           {seconds(lambda: index.find(words=('module_77', 'edit'), limit=20)):.3f} s, once"
    )


if __name__ == "__main__":
    main()
