"""A server that ends between a question and its answer: nobody waits for ever for what it has done, or has not."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from fleet.fleet_driving import Fleet
from remit_fleet.board import FleetRepository
from remit_fleet.database.store import open_store, workers
from remit_fleet.engines.dbos import DbosEngine

pytestmark = pytest.mark.timeout(900)
EXECUTOR = Path(__file__).with_name("bare_executor.py")
TAKE = "UPDATE workflow_status SET status = 'PENDING', executor_id = ?, recovery_attempts = 1 WHERE workflow_uuid = ?"
"""What a worker does that takes a workflow from its queue."""


def test_a_launch_that_failed_is_made_anew(home: Path, tmp_path: Path) -> None:
    database = tmp_path / "fleet.db"
    words = [sys.executable, str(EXECUTOR), f"sqlite:///{database}", str(home)]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as executor,
    ):
        assert executor.stdin is not None
        assert executor.stdout is not None
        said = iter(executor.stdout.readline, "")
        assert next(said) == "opened\n"
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE workflow_status (in_the_way)")
        executor.stdin.write("launch\n")
        executor.stdin.flush()
        assert next(said) == "OperationalError\n"
        with sqlite3.connect(database) as connection:
            connection.execute("DROP TABLE workflow_status")
        executor.stdin.write("launch\nland\n")
        executor.stdin.flush()
        assert next(said, "nothing") == "launched\n", (tmp_path / "log").read_text()
        assert next(said) == "landed remit/next of r\n"
        executor.kill()


def test_work_that_was_taken_without_an_answer_is_done_all_the_same(fleet: Fleet, home: Path) -> None:
    """The server has given the work away, and ended before it said so: the worker lives, and knows nothing of it."""
    fleet.govern(1)
    fleet.start_worker(1)
    engine = DbosEngine(open_store(None, home))
    fleet.wait_until(lambda: engine.store.rows(sa.select(workers.c.id)))
    [row] = engine.store.rows(sa.select(workers.c.id))
    engine.add_repository(FleetRepository("r", url=str(fleet.root)))
    with engine.store.write() as connection:
        engine.queues.enqueue_landing(connection, "r:1", "r", "remit/next")
        connection.exec_driver_sql(TAKE, (row["id"], "r:1"))
    fleet.wait_until(lambda: engine.queues.find_ended(["r:1"]))
    assert engine.queues.find_ended(["r:1"]) == {"r:1": "SUCCESS"}
    engine.store.close()
