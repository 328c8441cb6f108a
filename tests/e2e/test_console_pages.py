"""The console in a real browser, over a real daemon's server and an agent that waits in its hook."""

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page

from conftest import run_git
from console.console_world import serving, wait_until_answerable
from console.test_console import HOSTILE, Asked, addresses
from e2e.npm import installed
from gate.driving import Agent, governed
from remit.console.routes import PAGES
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at
from waiting import WAIT_S

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the agent's process is found there"),
]

LOOKS = [("light", 1389, 868), ("dark", 390, 844)]
PAGE_LIMIT_MS = WAIT_S * 1000
DEAD_MS = 450  # a little more than the moment in which a new card takes no key and no finger
AHEAD_S = 20.0  # a page's clock is stopped at a time to come, and its signatures are good for less than a minute
PATIENT_PAGE = """
const plainTimeout = self.setTimeout;
const forPeople = [1200, 4000, 6000];
self.setTimeout = (act, wait, ...more) => plainTimeout(act, forPeople.includes(wait) ? 120_000 : wait, ...more);
"""
"""What stands there for seconds (a letter after `g`, `Take it back?`, a toast) stays: a busy machine looks late."""


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    found.write("src/app.py", f"two\n{HOSTILE}\n")
    found.write("docs/a.md", "not in the scope\n")
    found.shell("rm -f no-such-file")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "work")
    return found


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home) as found:
        yield found


def open_context(chromium: Chromium, **options: Any) -> BrowserContext:
    """Open a browser's window of its own, whose waits have the limit of all waits."""
    found = chromium.new_context(**options)
    found.set_default_timeout(PAGE_LIMIT_MS)
    return found


class Visitor:
    """A paired browser; complaints of its pages fail the test."""

    def __init__(self, chromium: Chromium, server: ConsoleServer, look: tuple[str, int, int] = LOOKS[0]) -> None:
        theme, width, height = look
        self.server = server
        self.context = open_context(chromium, viewport={"width": width, "height": height}, color_scheme=theme)
        self.context.add_init_script(PATIENT_PAGE)
        self.complaints: list[str] = []
        self.context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        self.page = self.open_tab()
        self.page.goto(server.make_link())
        self.page.wait_for_url(f"{server.guard.origin}/")

    def open_tab(self) -> Page:
        page = self.context.new_page()
        page.on(
            "console", lambda line: self.complaints.append(line.text) if line.type in ("error", "warning") else None
        )
        return page

    def go(self, address: str, page: Page | None = None) -> Page:
        page = page or self.page
        page.goto(f"{self.server.guard.origin}{address}")
        return page

    def wait_until_live(self, page: Page | None = None) -> None:
        """Wait until the page hears the console, and agents know of it."""
        (page or self.page).locator("[data-live].on").wait_for(state="attached")
        wait_until_answerable(self.server)


def press_key(page: Page, key: str) -> None:
    """Press a key once the page's modules run: until then nobody hears it, and a page may still be on its way."""
    page.wait_for_load_state()
    page.keyboard.press(key)


def wait_while_dead(page: Page) -> None:
    """Let a new card become one that takes keys, by the page's own time."""
    page.evaluate("(wait) => new Promise((done) => setTimeout(done, wait))", DEAD_MS)


def stop_clock(page: Page) -> None:
    """Stop the page's clock, which has to be installed: what is new stays new."""
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + AHEAD_S)


@pytest.fixture
def visitor(chromium: Chromium, server: ConsoleServer) -> Iterator[Visitor]:
    found = Visitor(chromium, server)
    yield found
    found.context.close()
    assert found.complaints == []


def test_a_question_appears_by_itself_and_a_key_releases_the_agent(agent: Agent, visitor: Visitor) -> None:
    first, second = visitor.go("/approvals"), visitor.go("/approvals", visitor.open_tab())
    visitor.wait_until_live(first)
    visitor.wait_until_live(second)
    asked = Asked(agent)
    for page in (first, second):
        page.locator("[data-card]").wait_for()
    assert first.title().startswith("(1)")
    assert first.locator("img").count() == 0
    assert "U+202E" in first.locator(".diff").inner_text() or "202e" in first.locator(".diff").inner_text()
    wait_while_dead(first)
    press_key(first, "y")
    assert asked.decision == "allow"
    second.locator(".empty").wait_for()
    assert not second.title().startswith("(")


def test_a_key_typed_before_the_card_was_there_answers_nothing(agent: Agent, visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    visitor.go("/approvals")
    visitor.wait_until_live()
    stop_clock(page)  # the moment in which a card takes no key lasts
    asked = Asked(agent)
    while not page.locator("[data-card]").count():
        press_key(page, "y")
    press_key(page, "y")
    assert asked.reply is None
    page.clock.run_for(500)
    press_key(page, "n")
    assert asked.decision == "deny"


def test_a_high_risk_has_to_be_typed(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go("/approvals")
    visitor.wait_until_live()
    reply: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: reply.append(agent.ask("Bash", command="git push --force origin main")))
    thread.start()
    page.locator("[data-typed-input]").wait_for()
    wait_while_dead(page)
    press_key(page, "y")
    assert page.locator('[data-answer="once"]').is_disabled()
    assert reply == []
    page.fill("[data-typed-input]", str(page.locator("[data-card]").get_attribute("data-typed")))
    page.click('[data-answer="once"]')
    thread.join(WAIT_S)
    assert reply[0].get("permissionDecision", "allow") == "allow"


def test_a_paired_browser_stays_paired_and_an_unpaired_one_reads_nothing(visitor: Visitor) -> None:
    page = visitor.go("/settings")
    page.locator("[data-unpair]").first.wait_for()
    page.click("[data-unpair]")
    page.locator("[data-unpair]").first.wait_for(state="detached")
    assert visitor.server.pairing.state.browsers == []
    visitor.complaints.clear()
    refused = page.goto(f"{visitor.server.guard.origin}/")
    assert refused is not None
    assert refused.status == 401
    visitor.complaints.clear()


def test_a_line_of_code_says_why_it_is_there(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/code/src/app.py")
    page.locator("tr[data-line='1'] .text").click()
    page.locator("aside.peek h2").wait_for()
    assert "INT-001" in page.locator("aside.peek").inner_text()
    press_key(page, "Escape")
    page.locator("aside.peek").wait_for(state="detached")


def test_letters_go_to_pages(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go("/")
    visitor.wait_until_live()
    press_key(page, "g")
    press_key(page, "l")
    page.wait_for_url(f"**/r/{agent.cwd.name}/ledger")
    press_key(page, "?")
    assert page.locator("dialog[data-keys]").is_visible()


@pytest.mark.live
@pytest.mark.parametrize("look", LOOKS, ids=["light desktop", "dark phone"])
def test_no_page_breaks_the_rules_of_accessibility(
    chromium: Chromium, server: ConsoleServer, agent: Agent, look: tuple[str, int, int]
) -> None:
    axe = installed("axe-core", "4.14.1", "axe-core@4.14.1", "axe-core/axe.min.js").read_text()
    visitor = Visitor(chromium, server, look)
    found: dict[str, list[str]] = {}
    for address in addresses(agent):
        page = visitor.go(address)
        page.evaluate(axe)
        report = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
        broken = [f"{rule['id']}: {node['html'][:160]}" for rule in report["violations"] for node in rule["nodes"]]
        if broken:
            found[address] = broken
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= look[1], (address, wide)
    visitor.context.close()
    assert found == {}, json.dumps(found, indent=1)
    assert len(addresses(agent)) == len(PAGES)
