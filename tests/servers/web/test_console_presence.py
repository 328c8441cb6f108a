"""The console as a watcher: open pages are asked, in a repository without a call too, and beside others."""

import http.client
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gate.driving import Agent, governed, machine
from remit.gate.gate import Gate
from remit.servers.web.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at
from servers.web.console_world import Browser, serving
from servers.web.test_console import Asked, body_for, wait_for_card


@pytest.fixture
def server(repository: Path, home: Path) -> Iterator[ConsoleServer]:
    """A console over a repository in which no agent has made a call yet."""
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    with serving(home) as found:
        yield found


def open_page(browser: Browser) -> Callable[[], None]:
    """Follow the live stream as an open page does; return what closes it."""
    connection = http.client.HTTPConnection("127.0.0.1", browser.server.port, timeout=20)
    connection.request("GET", "/live", headers={"Host": browser.host, "Cookie": f"remit_read={browser.cookie}"})
    response = connection.getresponse()
    stop = threading.Event()

    def follow() -> None:
        while not stop.is_set() and response.readline():
            pass
        connection.close()

    threading.Thread(target=follow, daemon=True).start()
    return stop.set


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_open_page_is_asked_about_the_first_call_ever_made_in_a_repository(
    server: ConsoleServer, repository: Path, home: Path
) -> None:
    browser = Browser(server)
    browser.pair()
    close = open_page(browser)
    [known] = server.console.repositories.list_all()

    def is_watched() -> bool:
        with server.console.repositories.open_gate(known) as gate:
            return gate.questions.is_watcher_present()

    time.sleep(0.5)
    assert (workspace_at(repository, repository).state / "state.db").exists()
    wait_until(is_watched)
    asked = Asked(Agent(repository, home))
    card = wait_for_card(browser)
    assert browser.post(f"/approvals/{card['question']['id']}/answer", body_for(card, allow=False)).status == 200
    assert asked.decision == "deny"
    close()


def test_an_open_page_is_told_on_after_a_state_could_not_be_written(
    server: ConsoleServer, repository: Path, home: Path
) -> None:
    browser = Browser(server)
    browser.pair()
    close = open_page(browser)
    questions = Gate.open(repository, machine(home)).questions
    wait_until(questions.is_watcher_present)
    with closing(sqlite3.connect(repository / ".git/remit/state.db", timeout=60, isolation_level=None)) as state:
        state.execute("ALTER TABLE watchers RENAME TO away")
        time.sleep(2)  # the console signs every second and a half
        state.execute("ALTER TABLE away RENAME TO watchers")
        state.execute("DELETE FROM watchers")
    wait_until(questions.is_watcher_present)
    close()


def test_a_repository_is_known_to_the_console_from_its_setup_on(repository: Path, home: Path) -> None:
    command = [sys.executable, "-c", "from remit.cli import main; main()", "init", "--yes", "--no-agents"]
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    with serving(home) as server:
        assert [each.root for each in server.console.repositories.list_all()] == [str(repository)]
