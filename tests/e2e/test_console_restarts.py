"""A page in a real browser goes on when the console's process was killed."""

import os
import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium

from forked_commands import start_ready
from gate.driving import Agent, governed
from processes import kill_daemons
from remit.console.status import read_console_status
from remit.servers.daemon import CONSOLE_AGENT
from remit.servers.daemon_client import ask_started_daemon
from remit.workspace.place.workspace import register_repository, workspace_at
from waiting import wait_until

pytestmark = pytest.mark.live


@pytest.fixture
def link(repository: Path, home: Path) -> Iterator[str]:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    Agent(repository, home).select()
    process = start_ready(["daemon"])
    yield ask_started_daemon(home, version("remit"), CONSOLE_AGENT, "open", b"").stdout.decode().split()[0]
    process.kill()
    process.wait()
    kill_daemons(home)


def test_a_page_goes_on_after_its_console_was_killed(
    chromium: Chromium, link: str, home: Path, repository: Path, tmp_path: Path
) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(link)
    page.locator("nav").first.wait_for()
    origin = link.partition("/pair#")[0]
    found = read_console_status(home)
    assert found is not None
    assert found.process is not None
    os.kill(found.process.pid, signal.SIGKILL)
    wait_until(lambda: (again := read_console_status(home)) is not None and again.restarts == 1)
    page.goto(f"{origin}/settings")
    page.get_by_text("approvals.timeout_s").first.wait_for()
    page.screenshot(path=str(tmp_path / "after-restart.png"), full_page=True)
    page.goto(f"{origin}/r/{repository.name}/intents")
    page.get_by_text("INT-001").first.wait_for()
    context.close()
