"""The index over a large log: how quickly it answers, and what building it costs beside SQLite alone.

The bar compares with the same rows, columns and lookup indexes, made by SQLite alone.

`python benchmarks/index.py [RECORDS]`, a million by default. Nothing is asserted: the table is the result.
"""

import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
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
from remit.ledger.index.build import BULK_PRAGMAS, INDEXES, TABLES, flush_file, insert_rows
from remit.ledger.index.index import Index
from remit.ledger.sqlite_file import run_statements

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


def bare(path: Path, source: Path, pragmas: Sequence[str]) -> tuple[float, float]:
    """The same rows into the same tables by SQLite alone, then the same indexes: the seconds of each.

    No log is read, and the rows are in memory before the clock starts.
    """
    made = sqlite3.connect(source)
    rows = {table: made.execute(f"select * from {table}").fetchall() for table in FILLED}
    database = sqlite3.connect(path, isolation_level=None)
    for pragma in pragmas:
        database.execute(f"pragma {pragma}")
    run_statements(database, TABLES)

    def insert_all() -> None:
        database.execute("begin")
        insert_rows(database, rows)

    def index_all() -> None:
        run_statements(database, INDEXES)
        database.execute("commit")
        database.close()
        flush_file(path)

    return seconds(insert_all), seconds(index_all)


FILLED = ("records", "files", "ranges", "paths")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(folder / "log", count)
        size = (folder / "log" / "000000000000.jsonl").stat().st_size
        with Index.open(folder / "index.db", folder / "log") as index:
            built = seconds(index.catch_up)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{count} records, {size / 1e6:.0f} MB; index {(folder / 'index.db').stat().st_size / 1e6:.0f} MB")
            print(f"build                      {built:.2f} s, {count / built:,.0f} records/s, {peak:.0f} MB of memory")
            for name, pragmas in (("as SQLite comes, WAL", ["journal_mode = wal"]), ("with our pragmas", BULK_PRAGMAS)):
                inserted, indexed = bare(folder / f"{len(pragmas)}.db", folder / "index.db", pragmas)
                whole = inserted + indexed
                print(f"bare, {name:<20} {whole:.2f} s, build {whole / built:.2f} x as quick", end="; ")
                print(f"without lookup indexes {inserted:.2f} s, {inserted / built:.2f} x")
            report(index, count)


def report(index: Index, count: int) -> None:
    """The lookups."""
    lookups: dict[str, Callable[[int], object]] = {
        "by content hash": lambda n: index.find(content_hash=f"{n:064x}"),
        "by file, newest 20": lambda n: index.find(path=path_of(n), limit=20),
        "by file and line, 20": lambda n: index.find(path=path_of(n), line=n % 90 + 5, limit=20),
        "all changes of a file": lambda n: index.list_changes(path_of(n)),
        "by intent, newest 20": lambda n: index.find(intent_id=intent_of(n), limit=20),
        "since a time, newest 20": lambda n: index.find(since=stamp(n), limit=20),
        "by id": lambda n: index.find_by_id_prefix(f"{n:012x}"),
    }
    for name, run_once in lookups.items():
        print(f"{name:<26} p50 {p50(run_once, count)}")
    print(f"words, taken in once       {seconds(lambda: index.find(words=['nothing'])):.2f} s")
    few, many = ["module_77", "edit"], ["mutation"]
    for name, words in (("few", few), ("many", many)):
        ranked, newest = (seconds(lambda r=r, w=words: index.find(words=w, ranked=r, limit=20)) for r in (True, False))
        print(f"words that {name:<4} say        ranked {ranked * 1000:.1f} ms, newest first {newest * 1000:.1f} ms")


if __name__ == "__main__":
    main()
