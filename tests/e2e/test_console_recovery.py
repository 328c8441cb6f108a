"""The page Recovery in a real browser: what an agent destroyed comes back by a click, and goes again by another."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium

from console.console_world import serving
from e2e import test_console_pages as pages
from e2e.npm import installed
from e2e.test_console_pages import LOOKS, Visitor, press_key
from gate.driving import Agent, governed
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at

pytestmark = pages.pytestmark


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository, "observe")
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    (repository / "src" / "new.py").write_bytes(b"fresh = 1\r\n\xff")
    (repository / "README.md").write_text("edited\n")
    found.shell("git reset -q --hard && git clean -fdq src && rm -rf src")
    return found


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home) as found:
        yield found


@pytest.fixture
def visitor(chromium: Chromium, server: ConsoleServer) -> Iterator[Visitor]:
    found = Visitor(chromium, server)
    yield found
    found.context.close()
    assert found.complaints == []


def test_a_person_looks_restores_and_takes_it_back(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/restore")
    press_key(page, "j")
    press_key(page, "Enter")
    page.wait_for_url("**/restore/*")
    assert "git clean -fdq src" in page.locator("h1").inner_text()
    assert page.locator(".changes li").count() == 3
    page.get_by_role("button", name="Restore all").click()
    page.locator(".finding.done").wait_for()
    assert (agent.cwd / "src" / "new.py").read_bytes() == b"fresh = 1\r\n\xff"
    press_key(page, "u")
    page.get_by_role("button", name="Restore all").click()
    page.locator(".finding.done").wait_for()
    assert not (agent.cwd / "src").exists()


def test_chosen_files_come_back_and_a_changed_tree_is_said(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/restore/latest")
    page.locator("[data-all]").uncheck()
    button = page.locator("[data-needs-choice]")
    assert button.is_disabled()
    page.get_by_label("Restore src/new.py").check()
    (agent.cwd / "README.md").write_text("edited\n")  # as it was then: no longer part of the plan
    button.click()
    page.locator("[data-problem]").wait_for(state="visible")
    assert "files changed meanwhile" in page.locator("[data-problem]").inner_text()
    assert not (agent.cwd / "src").exists()
    visitor.complaints.clear()  # the browser names the refusal
    page.reload()
    page.locator("[data-all]").uncheck()
    page.get_by_label("Restore src/new.py").check()
    button.click()
    page.locator(".finding.done").wait_for()
    assert [path.name for path in (agent.cwd / "src").iterdir()] == ["new.py"]


@pytest.mark.live
@pytest.mark.parametrize("look", [*LOOKS, ("dark", 1389, 868), ("light", 390, 844)])
def test_it_can_be_read_by_everybody(
    chromium: Chromium,
    server: ConsoleServer,
    agent: Agent,
    look: tuple[str, int, int],
    tmp_path: Path,
) -> None:
    axe = installed("axe-core", "4.14.1", "axe-core@4.14.1", "axe-core/axe.min.js").read_text()
    visitor = Visitor(chromium, server, look)
    visitor.go(f"/r/{agent.cwd.name}/restore")
    point = f"/{visitor.page.locator('.points a').first.get_attribute('title')}"
    agent.ask("Bash", command="make all")
    agent.write("src/other.py", "x\n")
    for name in ("", point, f"/session/{agent.session}"):
        page = visitor.go(f"/r/{agent.cwd.name}/restore{name}")
        page.evaluate(axe)
        report = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
        assert [(rule["id"], node["html"][:160]) for rule in report["violations"] for node in rule["nodes"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= look[1]
        page.screenshot(path=tmp_path / f"recovery{name[:5].replace('/', '-')}-{look[0]}-{look[1]}.png", full_page=True)
    visitor.context.close()
