"""The console's chat in a real browser, with a scripted model in a real process of Remit's own agent."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium

from console.console_world import serving
from console.test_chat import SCRIPT
from e2e.npm import installed
from e2e.test_console_pages import LOOKS, Visitor, press_key
from gate.driving import governed
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at

pytestmark = pytest.mark.live


@pytest.fixture
def server(repository: Path, home: Path) -> Iterator[ConsoleServer]:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    with serving(home) as found:
        yield found


@pytest.mark.parametrize("look", LOOKS, ids=["light desktop", "dark phone"])
def test_a_person_talks_with_the_agent(
    chromium: Chromium, server: ConsoleServer, repository: Path, tmp_path: Path, look: tuple[str, int, int]
) -> None:
    axe = installed("axe-core", "4.14.1", "axe-core@4.14.1", "axe-core/axe.min.js").read_text()
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    visitor = Visitor(chromium, server, look)
    page = visitor.go(f"/r/{repository.name}/chat")
    page.fill("[name='task']", "change it")
    page.select_option("[name='intent']", "INT-001")
    page.fill("[name='model']", f"scripted:{script}")
    page.screenshot(path=str(tmp_path / "chat-list.png"))
    page.click("button[type='submit']")
    page.locator("[data-choice]").wait_for()
    page.evaluate(axe)
    report = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
    assert [rule["id"] for rule in report["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= look[1]
    page.screenshot(path=str(tmp_path / "chat-asked.png"))
    page.click("[data-choice]")
    page.get_by_text("So it is <script>.").wait_for()
    page.fill("#words", "and now?")
    press_key(page, "Enter")
    page.get_by_text("Welcome back.").wait_for()
    assert page.input_value("#words") == ""
    page.screenshot(path=str(tmp_path / "chat-end.png"))
    visitor.context.close()
    assert visitor.complaints == []
