"""What one claim costs: hold, token, attempt and its place in the queue, in one transaction, on both databases.

`python benchmarks/claims.py [--claims N]`. PostgreSQL is left out where it is not installed. Statements are those of
one claim, the engine's own among them. `fsync` is what the disk takes for 4 KiB: SQLite waits for one at each commit.
Processor time is this process's own: what other work on the machine does not move.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import pytest
from sqlalchemy import event

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from dbos import run_dbos_database_migrations

from fleet.postgres import running_postgres
from remit.core.assignment import hash_scope
from remit_fleet.board import Claim, FleetRepository, OpenPlan, Task, Worker
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.workflows import ENGINE_SCHEMA


def make_task(number: int) -> Task:
    scope = (f"src/part{number:03}/**",)
    return Task("p", f"INT-{number:03}", "r", scope=scope, scope_sha256=hash_scope(scope), role="builder")


def time_claims(url: str | None, folder: Path, count: int) -> tuple[list[float], float, list[str]]:
    """Claim so many tasks one after the other.

    Return how long each took, the processor time of one, and the statements of the last.
    """
    store = open_store(url, folder)
    run_dbos_database_migrations(store.url, schema=ENGINE_SCHEMA)
    engine = DbosEngine(store)
    engine.add_repository(FleetRepository("r"))
    engine.open_plan(OpenPlan("p", "r", "remit/next"), [make_task(number) for number in range(count)])
    engine.beat(Worker("w", "h", slots=count, agents=("a",)))
    statements: list[str] = []

    def note(_: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(" ".join(statement.split()))

    event.listen(store.engine, "before_cursor_execute", note)
    times: list[float] = []
    used = time.process_time()
    for number in range(count):
        statements.clear()
        began = time.perf_counter()
        assert engine.carry_out(Claim("r", f"INT-{number:03}", "w", "a"))
        times.append((time.perf_counter() - began) * 1000)
    used = (time.process_time() - used) * 1000 / count
    store.close()
    return times, used, statements


def time_fsync(folder: Path) -> float:
    times: list[float] = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return median(times)


def print_row(name: str, times: Sequence[float], used: float, statements: Sequence[str]) -> None:
    load = os.getloadavg()[0]
    print(
        f"{name:11} claim p50 {median(times):6.1f} ms, p95 {quantiles(times, n=20)[-1]:6.1f}, best {min(times):5.1f}; "
        f"processor {used:4.1f} ms; {len(statements)} statements; load {load:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What one claim costs.")
    parser.add_argument("--claims", type=int, default=60)
    parser.add_argument("--statements", action="store_true", help="print the statements of one claim")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        print(f"fsync p50 {time_fsync(folder):.1f} ms")
        times, used, statements = time_claims(None, folder, chosen.claims)
        print_row("SQLite", times, used, statements)
    if chosen.statements:
        print("\n".join(statements))
    try:
        with running_postgres() as server, tempfile.TemporaryDirectory() as name:
            times, used, statements = time_claims(server.url, Path(name), chosen.claims)
            print_row("PostgreSQL", times, used, statements)
            if chosen.statements:
                print("\n".join(statements))
    except pytest.skip.Exception as reason:
        print(reason)


if __name__ == "__main__":
    main()
