"""The console for other machines over real TLS, with a real provider of identities: who comes in, and who may what."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, governed, records
from remit.servers.web.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at
from servers.web.remote_world import (
    ProviderProcess,
    RemoteVisitor,
    serving_remote,
    settings_of,
    wait_until,
    write_settings,
)
from servers.web.test_console import Asked, body_for


@pytest.fixture(scope="module")
def running_provider() -> Iterator[ProviderProcess]:
    found = ProviderProcess()
    yield found
    found.end()


@pytest.fixture
def provider(running_provider: ProviderProcess) -> ProviderProcess:
    running_provider.set_mischief()
    return running_provider


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    return found


@pytest.fixture
def server(agent: Agent, provider: ProviderProcess) -> Iterator[ConsoleServer]:
    write_settings(agent.home, settings_of(provider, agent.home))
    with serving_remote(agent.home) as found:
        yield found


@pytest.fixture
def visitor(server: ConsoleServer, agent: Agent) -> Iterator[RemoteVisitor]:
    found = RemoteVisitor(server, agent.home)
    yield found
    found.client.close()


def test_a_person_logs_in_and_reads(visitor: RemoteVisitor) -> None:
    assert visitor.get("/").status == 401
    assert visitor.log_in("anna").status == 200
    page = visitor.get("/")
    assert page.status == 200
    assert "anna@example.org" in page.text
    assert page.headers["strict-transport-security"].startswith("max-age=")


def wait_for_card(visitor: RemoteVisitor) -> dict[str, Any]:
    found: list[Any] = []

    def look() -> bool:
        found.append(visitor.get("/approvals.json").data["card"])
        return found[-1] is not None

    wait_until(look)
    return found[-1]


@pytest.fixture
def asked(agent: Agent, server: ConsoleServer, visitor: RemoteVisitor) -> Iterator[Asked]:
    """An agent that waits for a person, while a stream of somebody with a look only is open."""
    watching = RemoteVisitor(server, agent.home)
    watching.log_in("vera")
    with watching.client.stream("GET", f"{watching.origin}/live") as stream:
        next(stream.iter_raw())
        wait_until(lambda: bool(server.console.watcher.read_at))
        yield Asked(agent)
    watching.client.close()


def test_who_answered_is_in_the_record(
    agent: Agent, asked: Asked, visitor: RemoteVisitor, provider: ProviderProcess
) -> None:
    visitor.log_in("ben")
    card = wait_for_card(visitor)
    path = f"/approvals/{card['question']['id']}/answer"
    assert visitor.post(path, body_for(card)).status == 200
    assert asked.decision == "allow"
    who = {"issuer": provider.issuer, "subject": "user-2", "name": "ben@example.org"}
    answered = records(agent.cwd, "approval_answered")[0]["metadata"]["dev.remit"]["approval"]
    assert (answered["by"], answered["through"], answered["who"]) == ("person", "console", who)
    paired = [record["metadata"]["dev.remit"] for record in records(agent.cwd, "console_paired")]
    assert [(one["who"]["name"], one["role"], one["address"]) for one in paired] == [
        ("vera@example.org", "view", "127.0.0.1"),
        ("ben@example.org", "approve", "127.0.0.1"),
    ]
    again = visitor.post(path, body_for(card))
    assert (again.status, "by ben@example.org in the console" in again.text) == (409, True)
