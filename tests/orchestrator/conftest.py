"""What most tests of plans begin with: a fleet whose workers and daemons end with the test."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from orchestrator.fleet_driving import Fleet
from orchestrator.postgres import Postgres, running_postgres
from remit.orchestrator.database.store import open_store
from remit.orchestrator.workers.agent import AGENT_COMMANDS


@pytest.fixture(scope="session")
def path_without_agents(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PATH, where links stand for the programs of each folder that has an agent's."""
    agents, found = {command.words[0] for command in AGENT_COMMANDS.values()}, list[str]()
    for folder in map(Path, os.get_exec_path()):
        if any((folder / name).exists() for name in agents):
            links = tmp_path_factory.mktemp("programs")
            for program in folder.iterdir():
                if program.name not in agents:
                    (links / program.name).symlink_to(program)
            folder = links
        found.append(str(folder))
    return os.pathsep.join(found)


@pytest.fixture(autouse=True)
def search_path(home: Path, path_without_agents: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the developer's agents: a worker offers what it finds."""
    del home
    monkeypatch.setenv("PATH", path_without_agents)


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
