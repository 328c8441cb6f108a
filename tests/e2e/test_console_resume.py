"""A page over a daemon that is killed: the stream goes on where it ended."""

from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Request

from console.large_session import SESSION, append_events, make_long_session
from console.remote_world import give_port
from e2e.test_console_pages import open_context, pytestmark
from e2e.test_console_review import wait_for
from processes import daemons_of, kill_daemons
from remit.adapters import HookReply
from remit.servers.daemon import CONSOLE_AGENT
from remit.servers.daemon_client import DaemonAway, ask_started_daemon
from waiting import wait_until

__all__ = ["pytestmark"]
KEYS = "[...document.querySelectorAll('[data-rows] tr')].map((row) => row.dataset.key)"


def serve_console(home: Path) -> str:
    """Return a pairing link of the daemon's console, which is started where none runs."""
    replies: list[HookReply] = []

    def is_served() -> bool:
        with suppress(DaemonAway):
            replies.append(ask_started_daemon(home, version("remit"), CONSOLE_AGENT, "open", b""))
        return bool(replies) and replies[-1].exit_code == 0

    wait_until(is_served, lambda: replies)
    return replies[-1].stdout.decode()


def end_daemons(home: Path) -> None:
    kill_daemons(home)
    wait_until(lambda: not daemons_of(home))


@pytest.fixture
def long(repository: Path, home: Path) -> Path:
    give_port(home)
    make_long_session(repository, home, 300)
    append_events(repository, home, 60, "other-session")
    return repository


def test_a_page_has_each_record_once_after_its_daemon_was_killed(chromium: Chromium, long: Path, home: Path) -> None:
    link = serve_console(home)
    origin = link.partition("/pair")[0]
    context = open_context(chromium)
    tails: list[str] = []

    def note_request(request: Request) -> None:
        if "/tail?" in request.url:
            tails.append(request.url)

    context.on("request", note_request)
    page = context.new_page()
    page.goto(link)
    page.wait_for_url(f"{origin}/")
    page.goto(f"{origin}/r/{long.name}/sessions/{SESSION}")
    other = context.new_page()
    other.goto(f"{origin}/r/{long.name}/sessions/other-session")
    for each in (page, other):
        each.locator("[data-live].on").wait_for(state="attached")
    append_events(long, home, 12, start=300)
    wait_for(page, "document.querySelector('[data-records-total]').textContent", wanted="312")
    end_daemons(home)
    for each in (page, other):
        each.locator("[data-live]:not(.on)").wait_for(state="attached")
    append_events(long, home, 12, start=312)
    before = len(tails)
    serve_console(home)
    append_events(long, home, 12, start=324)
    for each in (page, other):
        each.locator("[data-live].on").wait_for(state="attached")
    wait_for(page, "document.querySelector('[data-records-total]').textContent", wanted="336")
    keys = page.evaluate(KEYS)
    assert len(keys) == len(set(keys))
    text = page.locator("[data-rows]").inner_text()
    assert all(f"# {number}" in text for number in (309, 321, 333))
    asked = tails[before:]
    assert asked
    assert all("/other-session/" not in url for url in asked), "a page without new records asks for none"
    context.close()
