"""The console as a watcher: open pages are asked, in a repository without a call too, and beside others."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from console.console_world import Browser, open_page, put_on_clock, serving
from console.test_console import Asked, body_for, wait_for_card
from console.test_live_resume import Stream
from forked_commands import run_command
from gate.driving import Agent, governed
from remit.console.live import PRESENCE_INTERVAL_S
from remit.console.server import ConsoleServer
from remit.gate.gate import Gate
from remit.workspace.place.workspace import register_repository, workspace_at
from stepped_clock import SteppedClock
from waiting import wait_until


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def server(repository: Path, home: Path, clock: SteppedClock) -> Iterator[ConsoleServer]:
    """A console over a repository in which no agent has made a call yet."""
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    with serving(home, clock=clock) as found:
        yield found


def test_an_open_page_is_asked_about_the_first_call_ever_made_in_a_repository(
    server: ConsoleServer, repository: Path, home: Path, clock: SteppedClock
) -> None:
    browser = Browser(server)
    browser.pair()
    stream = Stream(browser)
    wait_until((workspace_at(repository, repository).state / "state.db").exists)
    with open_page(browser):
        asked = Asked(put_on_clock(Agent(repository, home), clock))
        card = wait_for_card(browser)
        assert browser.post(f"/approvals/{card['question']['id']}/answer", body_for(card, allow=False)).status == 200
        assert asked.decision == "deny"
    stream.close()


def test_an_open_page_is_told_on_after_a_state_could_not_be_written(
    server: ConsoleServer, repository: Path, home: Path, clock: SteppedClock
) -> None:
    browser = Browser(server)
    browser.pair()
    gate = Gate.open(repository, put_on_clock(Agent(repository, home), clock).environment)
    with open_page(browser):
        clock.wait_for_waiter(3)  # looks, signs and pushes: none of them still makes the tables
        with closing(sqlite3.connect(repository / ".git/remit/state.db", timeout=60, isolation_level=None)) as state:
            state.execute("ALTER TABLE watchers RENAME TO away")
            clock.advance(PRESENCE_INTERVAL_S)
            state.execute("ALTER TABLE away RENAME TO watchers")
            state.execute("DELETE FROM watchers")
        assert not gate.questions.is_watcher_present()
        clock.advance(PRESENCE_INTERVAL_S)
        assert gate.questions.is_watcher_present()
    gate.close()


def test_a_repository_is_known_to_the_console_from_its_setup_on(repository: Path, home: Path) -> None:
    assert run_command(["init", "--yes", "--no-agents"], repository).returncode == 0
    with serving(home) as server:
        assert [each.root for each in server.console.repositories.list_all()] == [str(repository)]
