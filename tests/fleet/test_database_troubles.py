"""Fleet databases that cannot be used, at the start and in the middle: each is named, and nothing is lost."""

import os
import resource
import signal
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from fleet.fleet_driving import WAIT_S, Fleet, PlanRepository, git
from fleet.postgres import Postgres, running_postgres
from processes import daemons_of
from remit_fleet.board import Worker
from remit_fleet.database.store import MIGRATIONS, Store, StoreError, open_store
from remit_fleet.database.troubles import describe_trouble
from remit_fleet.engines.dbos import DbosEngine

pytestmark = pytest.mark.timeout(900)
PATH = ".local/state/remit/fleet.db"
UNAVAILABLE = 4
NEWER = len(MIGRATIONS) + 1
LONG_LEASE_PACE = "1"
"""For tests of a database that is away: a worker that may not renew ends its agents after 45 s, and not after 18."""


@pytest.fixture
def server() -> Generator[Postgres]:
    with running_postgres() as made:
        yield made


def is_overdue(engine: DbosEngine) -> bool:
    """Tell whether a worker has not signed when it was due."""
    board = engine.read_board()
    return any(board.now - worker.beat_at > engine.timing.beat_s for worker in board.workers.values())


def start_one(fleet: Fleet) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a plan of one task with one worker, and wait until its agent works; it ends when it is released."""
    ids = fleet.govern(1)
    worker = fleet.start_worker(1, WAIT_S)
    fleet.start_plan(ids)
    fleet.wait_for_state("running", ids[0])
    fleet.wait_until(fleet.agents_left)
    return ids[0], worker


@pytest.mark.parametrize(
    ("spoil", "what", "fix"),
    [
        ("damage", "its file is damaged (file is not a database)", "`remit fleet rebuild` in each repository"),
        ("newer", f"is of version {NEWER}, and this Remit knows {NEWER - 1}", "update Remit on this machine"),
        ("folder", "its file cannot be written", "look at the rights"),
    ],
    ids=("damage", "newer", "folder"),
)
def test_a_database_that_cannot_be_used_is_named_with_the_next_step(
    home: Path, tmp_path: Path, spoil: str, what: str, fix: str
) -> None:
    plans = PlanRepository(home, tmp_path / "work")
    plans.govern(1)
    plans.remit("plan", "status")
    path = home / PATH
    match spoil:
        case "damage":
            for file in path.parent.glob("fleet.db*"):
                file.unlink()
            path.write_bytes(b"no database at all\n" * 100)
        case "newer":
            with sqlite3.connect(path) as connection:
                connection.execute("INSERT INTO migrations (version) VALUES (?)", (NEWER,))
        case _:
            path.unlink()
            path.mkdir()
    shown = plans.remit("plan", "status", code=UNAVAILABLE)
    assert what in shown
    assert fix in shown


def test_a_server_that_is_away_at_the_start_is_named(fleet: Fleet, server: Postgres) -> None:
    fleet.govern(1)
    server.stop()
    try:
        shown = fleet.remit("plan", "status", "--database", server.url, code=UNAVAILABLE)
        assert "the server does not answer" in shown
        assert "start it" in shown
        shown = fleet.remit("plan", "status", "--database", server.url, "--json", code=UNAVAILABLE)
        assert '"code":"DATABASE"' in shown.replace(" ", "")
    finally:
        server.start()
    shown = fleet.remit("plan", "status", "--database", server.url.replace("/postgres", "/none"), code=UNAVAILABLE)
    assert "the server has no such database" in shown


def test_a_file_that_another_process_keeps_locked_is_named(home: Path) -> None:
    open_store(None, home).close()
    store = open_store(f"sqlite:///{home / PATH}?timeout=0.2", home)
    with sqlite3.connect(home / PATH) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError) as raised, store.write():
            pass
        trouble = describe_trouble(raised.value)
    assert "another process keeps its file locked" in trouble.what
    assert "fuser" in trouble.fix


def test_words_of_a_server_are_told_apart() -> None:
    said = {
        "connection to server failed: FATAL: password authentication failed for user": "refuses this user",
        "FATAL:  sorry, too many clients already": "no connection left",
        "server closed the connection unexpectedly": "does not answer",
        "FATAL:  the database system is starting up": "does not answer",
        'could not extend file "base/5/16": No space left on device': "its disk is full",
        'relation "remit.tasks" does not exist': "its tables are gone",
        "something nobody has seen": "something nobody has seen",
    }
    for text, what in said.items():
        error = OperationalError("SELECT 1", {}, psycopg.OperationalError(text))
        assert what in describe_trouble(error).what


def test_two_workers_of_one_name_do_not_run_at_once(home: Path) -> None:
    engine = DbosEngine(open_store(None, home))
    engine.require_new_worker("host:1")
    engine.beat(Worker("host:1", "host", slots=1, agents=("a",)))
    with pytest.raises(StoreError, match="has a worker 'host:1' already"):
        engine.require_new_worker("host:1")


def test_a_file_that_was_replaced_is_not_used_on(home: Path) -> None:
    store = open_store(None, home)
    for path in (home / PATH).parent.glob("fleet.db*"):
        path.unlink()
    with pytest.raises(StoreError, match="was deleted or replaced"), store.read():
        pass
    other: Store = open_store(None, home)
    with other.read():
        pass
    with pytest.raises(StoreError, match="was deleted or replaced"), store.write():
        pass


def test_a_worker_whose_database_is_deleted_ends_its_agents_and_says_so(fleet: Fleet, home: Path) -> None:
    """It would go on in a file that nobody else sees, beside the attempts of the database that is built anew."""
    id, worker = start_one(fleet)
    for path in (home / PATH).parent.glob("fleet.db*"):
        path.unlink()
    assert worker.wait(WAIT_S) == UNAVAILABLE
    assert "was deleted or replaced" in fleet.logs()
    assert "remit fleet rebuild" in fleet.logs()
    assert "Traceback" not in fleet.logs()
    for words, code in ((("plan", "status"), 0), (("fleet", "doctor"), 1)):
        assert "the fleet database has none of them: `remit fleet rebuild`" in fleet.remit(*words, code=code)
    fleet.wait_until_agents_end()
    fleet.remit("fleet", "rebuild")
    fleet.start_worker(1, 0.2)
    fleet.wait_until_landed()
    assert fleet.landings() == [id]
    assert [attempt["attempt"] for attempt in fleet.attempts(id)] == [1, 2]


def test_a_worker_ends_once_a_newer_remit_has_migrated_its_database(fleet: Fleet, home: Path) -> None:
    _, worker = start_one(fleet)
    with sqlite3.connect(home / PATH, timeout=WAIT_S) as connection:
        connection.execute("INSERT INTO migrations (version) VALUES (?)", (NEWER,))
    assert worker.wait(WAIT_S) == UNAVAILABLE
    assert "update Remit on this machine" in fleet.logs()
    fleet.wait_until_agents_end()


def test_a_full_disk_is_named_and_work_goes_on_once_there_is_room(fleet: Fleet, home: Path) -> None:
    fleet.pace = LONG_LEASE_PACE
    fleet.variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # Python keeps what a full disk cut off
    id, worker = start_one(fleet)
    fleet.wait_until(lambda: daemons_of(home))  # a daemon that starts later inherits the limit
    size = (home / f"{PATH}-wal").stat().st_size
    unlimited = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (min(size, 32 << 10), resource.RLIM_INFINITY))
    fleet.wait_until(lambda: fleet.has_logged("its disk is full, or fails"))
    assert fleet.status()[id]["state"] == "running"
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, unlimited)
    fleet.wait_until(lambda: fleet.has_logged("the fleet database answers again"))
    fleet.release_agents()
    fleet.wait_until_landed()
    assert fleet.landings() == [id]
    assert worker.poll() is None


def test_a_locked_file_stops_nothing_for_good(fleet: Fleet, home: Path) -> None:
    fleet.pace = LONG_LEASE_PACE
    id, _ = start_one(fleet)
    with sqlite3.connect(home / PATH, timeout=WAIT_S) as other:
        other.execute("BEGIN IMMEDIATE")
        with fleet.open_engine() as engine:
            fleet.wait_until(lambda: is_overdue(engine))
        other.rollback()
    fleet.release_agents()
    fleet.wait_until_landed()
    assert fleet.landings() == [id]
    assert [attempt["ended_as"] for attempt in fleet.attempts(id)] == ["handed_in"]


def test_a_server_that_is_started_again_is_named_and_nothing_is_lost(
    home: Path, tmp_path: Path, server: Postgres
) -> None:
    fleet = Fleet(home, tmp_path / "work", server.url, LONG_LEASE_PACE)
    try:
        id, _ = start_one(fleet)
        server.stop()
        fleet.wait_until(lambda: fleet.has_logged("the server does not answer"))
        server.start()
        fleet.wait_until(lambda: fleet.has_logged("the fleet database answers again"))
        fleet.release_agents()
        fleet.wait_until_landed()
        assert [attempt["ended_as"] for attempt in fleet.attempts(id)] == ["handed_in"]
        assert fleet.landings() == [id]
    finally:
        fleet.stop()


def test_a_worker_that_was_suspended_loses_its_place_and_ends_its_agent(fleet: Fleet) -> None:
    """A lid that is closed: worker and agent stop together, and another one does the work meanwhile."""
    id, worker = start_one(fleet)
    agents = fleet.agents_left()
    fleet.suspend(worker)
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)
    fleet.start_worker(1, 0.2)
    fleet.wait_until_landed()
    landed = git(fleet.root, "rev-parse", "remit/next")
    for pid in (worker.pid, *agents):
        with suppress(ProcessLookupError):  # the next attempt on the host has ended the agent
            os.kill(pid, signal.SIGCONT)
    fleet.wait_until_agents_end()
    assert git(fleet.root, "rev-parse", "remit/next") == landed
    assert [attempt["ended_as"] for attempt in fleet.attempts(id)] == ["lost", "handed_in"]
    assert worker.poll() is None


def test_a_worker_that_was_given_up_and_comes_back_gets_work_again(fleet: Fleet) -> None:
    ids = fleet.govern(1)
    first = fleet.start_worker(1, 0.2)
    fleet.wait_for_workers()
    fleet.suspend(first)
    second = fleet.start_worker(1, 0.2)
    fleet.wait_for_event("lost")
    second.terminate()
    second.wait(WAIT_S)
    os.kill(first.pid, signal.SIGCONT)
    fleet.wait_for_event("came", 3)
    fleet.start_plan(ids)
    fleet.wait_until_landed()
    assert fleet.landings() == ids
