"""Answers that come late, or in another order than they were asked for, in a real browser: what is shown is the newest.

`self.holding` names the part, or the last word of the address, whose answers wait.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, Route

from console.console_world import serving
from console.test_chat import SCRIPT
from e2e import test_console_pages as pages
from e2e.test_console_approvals import shown_card
from e2e.test_console_pages import Visitor, press_key
from gate.driving import Agent, governed
from remit.console.server import ConsoleServer
from remit.ledger.log_files import list_readable_places
from remit.ledger.reader import measure_log_bytes
from remit.workspace.place.workspace import register_repository, workspace_at
from waiting import wait_until

pytestmark = pages.pytestmark

HELD_PARTS = """
const plainFetch = self.fetch;
self.fetch = async (...asked) => {
  const response = await plainFetch(...asked);
  if (![asked[1]?.headers?.["Remit-Part"], `${asked[0]}`.split("/").at(-1)].includes(self.holding)) return response;
  self.hasHeld = true;
  while (self.holding) await new Promise((done) => setTimeout(done, 20));
  return response;
};
document.addEventListener("remit:state", (event) => { self.heard = event.detail; });
"""
OWN_STREAM = "delete self.SharedWorker;"  # a stream of the page itself can be held
EMPTY_STATE = 'event: state\ndata: {"questions": [], "log_bytes": {}, "records": {}, "fleet": 0}\n\n'


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    return found


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home) as found:
        yield found


@pytest.fixture
def visitor(chromium: Chromium, server: ConsoleServer) -> Iterator[Visitor]:
    found = Visitor(chromium, server)
    found.context.add_init_script(HELD_PARTS)
    yield found
    found.context.close()
    assert found.complaints == []


def hold(page: Page, part: str) -> None:
    page.evaluate("(part) => { self.holding = part; }", part)


def begin_session(agent: Agent, name: str) -> None:
    Agent(agent.cwd, agent.home, name).select()


def test_a_list_has_what_came_while_it_was_fetched(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/sessions")
    visitor.wait_until_live()
    hold(page, "list")
    begin_session(agent, "second-session")
    wait_until(lambda: page.evaluate("self.hasHeld"))
    before = page.evaluate("JSON.stringify(self.heard.log_bytes)")
    begin_session(agent, "third-session")
    wait_until(lambda: page.evaluate("JSON.stringify(self.heard.log_bytes)") != before)
    hold(page, "")
    page.locator("[data-part=list] a[href$='third-session']").first.wait_for()


def test_a_list_has_what_came_between_the_page_and_its_stream(agent: Agent, visitor: Visitor) -> None:
    visitor.wait_until_live()
    page = visitor.open_tab()
    page.add_init_script(OWN_STREAM)

    watcher = visitor.server.console.watcher
    folder = workspace_at(agent.cwd, agent.cwd).log_folder

    def connect_late(route: Route) -> None:
        begin_session(agent, "second-session")
        size = sum(measure_log_bytes(folder / place) for place in list_readable_places(folder))
        wait_until(lambda: watcher.state.log_bytes == {agent.cwd.name: size})
        route.continue_()

    page.route("**/live", connect_late)
    visitor.go(f"/r/{agent.cwd.name}/sessions", page)
    page.locator("[data-part=list] a[href$='second-session']").first.wait_for()


def test_a_card_that_is_newer_than_the_stream_s_state_stays(agent: Agent, visitor: Visitor) -> None:
    visitor.wait_until_live()
    asked = pages.Asked(agent)
    page = visitor.open_tab()
    page.add_init_script(OWN_STREAM)
    page.route("**/live", lambda route: route.fulfill(content_type="text/event-stream", body=EMPTY_STATE))
    wait_until(lambda: visitor.page.title().startswith("(1)"))
    checked: list[str] = []
    page.on("response", lambda response: checked.append(response.url))
    visitor.go("/approvals", page)
    name = shown_card(page)
    page.fill("[data-rule]", "docs/b.md")
    wait_until(lambda: page.evaluate("true") and any(url.endswith(f"/approvals/{name}.json") for url in checked))
    assert page.locator("[data-rule]").input_value() == "docs/b.md"
    assert page.locator("[data-toasts] p").count() == 0
    page.locator("h2").first.click()
    press_key(page, "n")
    assert asked.decision == "deny"


def test_a_panel_that_was_closed_on_its_way_stays_closed(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/sessions/{agent.session}")
    hold(page, "peek")
    press_key(page, "]")
    wait_until(lambda: page.evaluate("self.hasHeld"))
    press_key(page, "Escape")
    hold(page, "next")
    press_key(page, "]")
    page.locator("aside.peek h2").wait_for()
    press_key(page, "Escape")
    hold(page, "")
    press_key(page, "j")  # after the answer that was held
    page.locator("aside.peek").wait_for(state="hidden")
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert page.locator("aside.peek").is_hidden()


def test_a_late_preview_does_not_replace_a_newer_one(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/governed/simulate")
    hold(page, "answer")
    page.fill("[name=write]", "lib/a.py")
    wait_until(lambda: page.evaluate("self.hasHeld"))
    hold(page, "next")
    page.select_option("[name=intent]", "INT-001")
    answer = page.locator("[data-part=answer]")
    answer.get_by_text("SCOPE_VIOLATION").first.wait_for()
    hold(page, "")
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert "SCOPE_VIOLATION" in answer.inner_text()


def test_words_said_while_an_answer_is_on_its_way_are_not_lost(agent: Agent, visitor: Visitor, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    page = visitor.go(f"/r/{agent.cwd.name}/chat")
    page.fill("[name='task']", "change it")
    page.select_option("[name='intent']", "INT-001")
    page.fill("[name='model']", f"scripted:{script}")
    page.click("button[type='submit']")
    page.locator("[data-choice]").wait_for()
    page.wait_for_load_state()
    hold(page, "words")
    page.click("[data-choice]")
    page.get_by_text("So it is <script>.").wait_for()  # the page looks again by itself
    page.fill("#words", "and now?")
    press_key(page, "Enter")
    hold(page, "")
    page.get_by_text("Welcome back.").wait_for()
    assert page.input_value("#words") == ""
