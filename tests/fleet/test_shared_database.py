"""A database that hosts share: an owner and a worker's role, a newer version, and clocks that are wrong."""

from collections.abc import Callable, Generator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError

from fleet.postgres import Postgres
from forked_commands import run_command
from remit_fleet.board import Worker
from remit_fleet.database.store import MIGRATIONS, Store, StoreError, migrations, open_store, workers
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.workflows import migrate_engine

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def opened(tmp_path: Path) -> Generator[Callable[[str | None], Store]]:
    """Open databases that are closed at the end."""
    stores: list[Store] = []

    def open_one(url: str | None) -> Store:
        stores.append(open_store(url, tmp_path))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def empty_database(shared_server: Postgres) -> Generator[str]:
    with shared_server.make_database() as url:
        yield url


@pytest.fixture
def worker_role(shared_server: Postgres) -> Generator[str]:
    """A role of the whole server, gone with its database's grants."""
    with psycopg.connect(shared_server.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE remit_worker LOGIN")
        yield "remit_worker"
        connection.execute("DROP ROLE remit_worker")


def test_a_worker_role_runs_workers_and_changes_no_table(
    worker_role: str, empty_database: str, tmp_path: Path, opened: Callable[[str | None], Store]
) -> None:
    url = empty_database.replace("remit@", f"{worker_role}@")
    with pytest.raises(StoreError, match="run `remit fleet migrate` as their owner"):
        opened(url)
    owner = opened(empty_database)
    owner.grant_worker(worker_role)
    migrate_engine(owner, worker_role)
    store = opened(url)
    assert not store.may_change_tables()
    assert owner.may_change_tables()
    DbosEngine(store).beat(Worker("w", "host"))
    assert [row["id"] for row in owner.rows(sa.select(workers.c.id))] == ["w"]
    for words in (
        "DROP TABLE remit.tasks",
        "CREATE TABLE remit.mine (a int)",
        "ALTER TABLE remit.tasks ADD COLUMN mine int",
        "DELETE FROM remit.migrations",
        "CREATE TABLE dbos.mine (a int)",
    ):
        with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"), store.write() as connection:
            connection.exec_driver_sql(words)
    # A worker of that role really runs: the engine verifies its tables, and changes none.
    words = ["worker", "--until-idle", "--pace=0.2", "--database", url, "--agent-command=none=true {intent}"]
    done = run_command(words, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_file_of_sqlite_has_no_roles(opened: Callable[[str | None], Store]) -> None:
    with pytest.raises(StoreError, match="has no roles"):
        opened(None).grant_worker("somebody")


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def test_a_database_that_a_newer_version_migrated_is_left_alone(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, opened: Callable[[str | None], Store]
) -> None:
    url = request.getfixturevalue("database") if kind == "postgresql" else f"sqlite:///{tmp_path}/fleet.db"
    store = opened(url)
    newer = len(MIGRATIONS) + 1
    with store.write() as connection:
        connection.execute(sa.insert(migrations).values(version=newer, at=0.0))
    with pytest.raises(StoreError, match=f"of version {newer}, and this Remit knows {newer - 1}"):
        opened(url)
    done = run_command(["worker", "list", "--database", url], tmp_path)
    assert done.returncode != 0
    assert "update Remit on this machine" in done.stderr


def test_a_database_of_the_first_version_gets_the_column_of_the_second(opened: Callable[[str | None], Store]) -> None:
    store = opened(None)
    with store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE workers DROP COLUMN repositories")
        connection.execute(sa.delete(migrations).where(migrations.c.version > 1))
    again = opened(None)
    DbosEngine(again).beat(Worker("w", "host", repositories=("shared-1",)))
    (worker,) = DbosEngine(again).read_board().workers.values()
    assert worker.repositories == ("shared-1",)
    assert worker.has_repository("shared-1")
    assert worker.has_repository("0123456789ab")  # one that lies in the same folder of every host
    assert not worker.has_repository("shared-2")
