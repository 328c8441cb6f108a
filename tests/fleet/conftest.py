"""What most tests of plans begin with: a fleet whose workers and daemons end with the test."""

from collections.abc import Generator
from pathlib import Path

import pytest

from fleet.fleet_driving import Fleet
from fleet.postgres import Postgres, running_postgres
from remit_fleet.database.store import open_store


@pytest.fixture
def fleet(home: Path, tmp_path: Path) -> Generator[Fleet]:
    made = Fleet(home, tmp_path / "work")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def shared_server() -> Generator[Postgres]:
    """The one server of these tests, which none of them stops."""
    with running_postgres() as made:
        yield made


@pytest.fixture(scope="session")
def migrated(shared_server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The name of a database with the fleet's tables, to copy: nobody is connected to it."""
    with shared_server.make_database() as url:
        open_store(url, tmp_path_factory.mktemp("migrated")).close()
        yield url.rpartition("/")[2]


@pytest.fixture
def database(shared_server: Postgres, migrated: str) -> Generator[str]:
    """The address of a fleet database of the test's own."""
    with shared_server.make_database(migrated) as url:
        yield url
