"""The fleet database, on SQLite and on a real PostgreSQL: the same tables, claims and fences."""

import threading
from collections.abc import Generator
from pathlib import Path

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from remit.core.assignment import hash_scope
from remit_fleet.board import (
    AttemptEnd,
    AttemptState,
    Claim,
    FleetRepository,
    OpenPlan,
    Order,
    OrderKind,
    Task,
    TaskState,
    Worker,
)
from remit_fleet.database import store as fleet_store
from remit_fleet.database.rows import change_rows
from remit_fleet.database.store import (
    MIGRATIONS,
    Store,
    StoreError,
    become_leader,
    migrations,
    open_store,
    require_local_folder,
)
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.engine import Engine
from remit_fleet.moves import ClaimRefused, claim_task

KEY = ("repo", "INT-001")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Store]:
    url = None if request.param == "sqlite" else request.getfixturevalue("database")
    opened = open_store(url, tmp_path)
    yield opened
    opened.close()


def make_task(intent: str, *scope: str, needs: tuple[str, ...] = ()) -> Task:
    return Task("plan", intent, "repo", scope=scope, scope_sha256=hash_scope(scope), needs=needs)


def open_engine(store: Store, *tasks: Task) -> DbosEngine:
    engine = DbosEngine(store)
    engine.add_repository(FleetRepository("repo", url="/repo"))
    engine.open_plan(OpenPlan("plan", "repo", "remit/next"), tasks or (make_task("INT-001", "src/a/**"),))
    engine.beat(Worker("host:1", "host", slots=4, agents=("small",)))
    return engine


def claim(store: Store, intent: str, worker: str = "host:1") -> int:
    with change_rows(store) as rows:
        return claim_task(rows, Claim("repo", intent, worker, "small"), 60.0).token


def test_the_engine_keeps_the_protocol(store: Store) -> None:
    engine: Engine = open_engine(store)
    assert engine.read_board().tasks[KEY].state is TaskState.WAITING


def test_a_claim_takes_the_set_once_and_tokens_only_rise(store: Store) -> None:
    engine = open_engine(store)
    assert claim(store, "INT-001") == 1
    with pytest.raises(ClaimRefused, match="not waiting"):
        claim(store, "INT-001")
    assert engine.end_attempt(1, KEY, AttemptEnd.LOST, "", "gone")
    assert claim(store, "INT-001") > 1
    numbers = [attempt.attempt for attempt in engine.list_attempts(KEY)]
    assert numbers == [1, 2]


def test_a_set_that_shares_a_path_with_a_hold_is_refused_with_the_path(store: Store) -> None:
    open_engine(store, make_task("INT-001", "src/**"), make_task("INT-002", "**/*.py"))
    claim(store, "INT-001")
    with pytest.raises(ClaimRefused, match=r"INT-001 holds its write set, and may write src/\S+ too"):
        claim(store, "INT-002")


def test_of_claims_made_at_once_on_sets_that_overlap_one_succeeds(store: Store) -> None:
    ids = [f"INT-{number:03}" for number in range(1, 7)]
    engine = open_engine(store, *(make_task(id, "src/shared/**") for id in ids))
    taken: list[str] = []

    def attempt(id: str) -> None:
        try:
            claim(store, id)
            taken.append(id)
        except ClaimRefused:
            pass

    threads = [threading.Thread(target=attempt, args=(id,)) for id in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    assert [hold.intent for hold in engine.read_board().holds.values()] == taken


def test_a_worker_gets_no_more_attempts_than_it_has_slots(store: Store) -> None:
    engine = open_engine(store, make_task("INT-001", "a/**"), make_task("INT-002", "b/**"))
    engine.beat(Worker("host:2", "host", slots=1, agents=("small",)))
    claim(store, "INT-001", "host:2")
    with pytest.raises(ClaimRefused, match="no free slot"):
        claim(store, "INT-002", "host:2")


def test_a_superseded_token_changes_nothing(store: Store) -> None:
    engine = open_engine(store)
    old = claim(store, "INT-001")
    engine.end_attempt(old, KEY, AttemptEnd.LOST, "", "gone")
    new = claim(store, "INT-001")
    assert not engine.move_attempt(old, KEY, AttemptState.STARTED)
    assert not engine.end_attempt(old, KEY, AttemptEnd.HANDED_IN)
    stale = replace(engine.list_attempts(KEY)[0], turns=9)
    assert not engine.record_usage(old, stale)
    assert engine.move_attempt(new, KEY, AttemptState.STARTED)
    assert [attempt.turns for attempt in engine.list_attempts(KEY)] == [0, 0]


def test_a_beat_renews_the_leases_of_its_worker_alone(store: Store) -> None:
    engine = open_engine(store, make_task("INT-001", "a/**"), make_task("INT-002", "b/**"))
    engine.beat(Worker("host:2", "host", slots=1, agents=("small",)))
    claim(store, "INT-001")
    claim(store, "INT-002", "host:2")
    before = {hold.intent: hold.until for hold in engine.read_board().holds.values()}
    assert [hold.intent for hold in engine.beat(Worker("host:1", "host", slots=4, agents=("small",)))] == ["INT-001"]
    after = {hold.intent: hold.until for hold in engine.read_board().holds.values()}
    assert after["INT-002"] == before["INT-002"]
    assert (after["INT-001"] or 0) > (before["INT-001"] or 0)


def test_an_intent_is_in_one_plan_that_is_open(store: Store) -> None:
    engine = open_engine(store)
    with pytest.raises(ValueError, match="INT-001 is waiting in plan 'plan'"):
        engine.open_plan(OpenPlan("later", "repo", "remit/next"), [replace(make_task("INT-001", "x/**"), plan="later")])
    assert list(engine.read_board().plans) == ["plan"]


def test_an_order_pauses_resumes_and_stops(store: Store) -> None:
    engine = open_engine(store)
    claim(store, "INT-001")
    for kind, state in (("pause", "paused"), ("resume", "held"), ("stop", "dropped")):
        engine.give_order(Order(0, "repo", OrderKind(kind), "INT-001", by="Ann"))
        assert engine.read_board().tasks[KEY].state == state
    assert engine.read_board().holds == {}
    assert [attempt.ended_as for attempt in engine.list_attempts(KEY)] == [AttemptEnd.CANCELLED]


def test_a_deed_reads_what_it_has_written(store: Store) -> None:
    engine = open_engine(store)
    token = claim(store, "INT-001")
    with change_rows(store, "repo") as rows:
        hold, attempt = rows.holds[KEY], rows.live[KEY]
        for _ in range(2):
            rows.holds.pop(KEY, None)
            assert rows.holds.get(KEY) is None
            assert rows.holds.find(repository="repo") == []
            rows.holds[KEY] = replace(hold, token=token + 1)
            assert rows.holds[KEY].token == token + 1
        rows.holds.pop(KEY, None)
        rows.close(replace(attempt, state=AttemptState.ENDED, ended_as=AttemptEnd.LOST, ended_at=rows.now))
        assert rows.live.get(KEY) is None
        assert [each.attempt for each in rows.list_ended(rows.tasks[KEY])] == [1]
    assert engine.read_board().holds == engine.read_board().attempts == {}


def test_one_holder_leads_until_its_time_is_over(store: Store) -> None:
    def lead(holder: str, for_s: float) -> bool:
        with store.write() as connection:
            return become_leader(store, connection, "sweep", holder, for_s)

    assert [lead("a", 60), lead("b", 60), lead("a", -1), lead("b", 60)] == [True, False, True, True]


def test_migrating_twice_changes_nothing_and_a_newer_database_is_refused(store: Store) -> None:
    store.migrate()
    with store.write() as connection:
        connection.execute(sa.insert(migrations).values(version=len(MIGRATIONS) + 1))
    with pytest.raises(StoreError, match="update Remit"):
        store.migrate()


@pytest.mark.system
def test_the_tables_of_remit_have_other_names_than_those_of_the_engine() -> None:
    from dbos import run_dbos_database_migrations

    assert callable(run_dbos_database_migrations)
    names = {table.name for table in fleet_store.metadata.tables.values()}
    assert not names & {"workflow_status", "operation_outputs", "queues", "workflow_events", "notifications", "streams"}


def test_a_database_file_on_a_network_file_system_is_refused(tmp_path: Path) -> None:
    require_local_folder(tmp_path / "fleet.db")
    mounts = [("/", "ext4"), (str(tmp_path), "nfs4")]
    with pytest.raises(StoreError, match="network file system"):
        require_local_folder(tmp_path / "fleet.db", mounts)


@pytest.mark.parametrize(
    "url", ["mysql://localhost/fleet", "oracle://x", "sqlite+aiosqlite:///x.db", "postgresql+psycopg2://h/x"]
)
def test_a_database_of_another_kind_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no database for a fleet"):
        open_store(url, tmp_path)


def test_the_embedded_file_is_a_users_own_and_keeps_a_write_ahead_log(tmp_path: Path) -> None:
    store = open_store(None, tmp_path)
    assert store.path.stat().st_mode & 0o777 == 0o600
    with store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    store.close()


@pytest.mark.parametrize("url", ["~/x.db", "foo:bar", "postgresql://me:secret@host:port/x", "mysql://host/x"])
def test_an_address_that_is_none_is_refused_with_the_forms_that_are(url: str) -> None:
    with pytest.raises(StoreError, match=r"use sqlite:///PATH or postgresql://USER@HOST/NAME") as refused:
        Store(url)
    assert "secret" not in str(refused.value)


def test_a_worker_of_an_older_version_that_fills_no_new_column_is_read(store: Store) -> None:
    engine = open_engine(store)
    with store.write() as connection:
        connection.execute(sa.update(fleet_store.workers).values(needs_model=sa.null(), repositories=sa.null()))
    assert [worker.needs_model for worker in engine.read_board().workers.values()] == [()]
