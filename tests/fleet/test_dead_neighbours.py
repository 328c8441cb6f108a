"""Workers of one host see each other's processes: who has ended is not waited for, and who runs is only slow."""

import os
import subprocess
import sys
from pathlib import Path

import sqlalchemy as sa

from remit_fleet.board import Worker
from remit_fleet.database.store import open_store, workers
from remit_fleet.engines.dbos import DbosEngine, Timing
from remit_fleet.engines.workflows import migrate_engine
from remit_fleet.workers.worker import has_worker_ended, name_worker

NAME = "from remit_fleet.workers.worker import name_worker; print(name_worker())"


def test_an_ended_worker_is_swept_at_once_and_a_slow_one_is_not(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", NAME], capture_output=True, text=True, check=True).stdout.strip()
    slow, away = name_worker(), "elsewhere:1-2:3:4"
    store = open_store(None, tmp_path)
    migrate_engine(store, None)
    engine = DbosEngine(store)
    for id in (ended, slow, away):
        engine.beat(Worker(id, "host", slots=1))
    with store.write() as connection:
        connection.execute(sa.update(workers).values(beat_at=workers.c.beat_at - engine.timing.dead_after_s - 1))
    engine.sweep(has_worker_ended)
    engine.beat(Worker("host:new", "host", slots=1))
    told = [event.body for event in engine.read_events(0) if event.body.get("state") == "lost"]
    assert sorted(body["worker"] for body in told) == sorted([ended, away])
    DbosEngine(store, Timing(dead_after_s=0.05, lease_s=0.05)).sweep(has_worker_ended)
    assert slow in [event.body["worker"] for event in engine.read_events(0) if event.body.get("state") == "lost"]
    store.close()


def test_a_process_with_the_number_of_an_earlier_one_is_another_worker() -> None:
    host, boot, _, _ = name_worker().split(":")
    assert has_worker_ended(name_worker()) is False
    assert has_worker_ended(f"{host}:{boot}:{os.getpid()}:1") is True
    assert has_worker_ended(f"{host}:0-0:{os.getpid()}:1") is None
