"""The pages Intents and Intent in a real browser: a scope is seen while it is typed, and no edit is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium

from cli.running import remit
from conftest import run_git
from console.console_world import serving
from console.test_console_intents import HOSTILE, INTENTS, intents_text
from e2e import test_console_pages as pages
from e2e.npm import installed
from e2e.test_console_pages import LOOKS, Visitor, press_key
from gate.driving import Agent, governed
from remit.console.server import ConsoleServer
from remit.core.decision import Grant
from remit.workspace.place.workspace import register_repository, workspace_at

pytestmark = pages.pytestmark


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository, "warn", intents=INTENTS.replace("name: Docs", f"name: '{HOSTILE}'"))
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    found.write("src/app.py", "two\n")
    found.write("docs/a.md", "outside\n")
    for name in ("tokens.py", "keys.py", f"{HOSTILE.replace('/', '_')}.py"):
        (repository / "src" / "auth").mkdir(exist_ok=True)
        (repository / "src" / "auth" / name).write_text("x = 1\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "work")
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


def test_what_a_scope_owns_follows_what_is_typed_and_is_saved(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/intents")
    press_key(page, "c")
    page.wait_for_url("**/new-intent")
    page.fill("[name=name]", "JWT login")
    page.fill("[name=scope]", "src/auth/**\ndocs/*.md")
    page.locator("[data-files]", has_text="4").wait_for()
    assert "3 are owned by INT-001 too" in page.locator("[data-part=preview]").inner_text()
    page.fill("[name=scope]", "/etc/**")
    page.locator("[data-part=preview] .finding.error").wait_for()
    page.get_by_role("button", name="Make the intent").click()
    page.locator("[data-problem]").first.wait_for(state="visible")
    assert "it is absolute" in page.locator("[data-problem]").inner_text()
    visitor.complaints.clear()  # the browser names the refusal
    page.fill("[name=scope]", "src/auth/**")
    page.get_by_role("button", name="Make the intent").click()
    page.wait_for_url("**/intents/INT-003")
    assert page.locator("img").count() == 0
    assert "owns 3 of 3" in page.locator(".tree").first.inner_text()


def test_two_edits_meet_and_both_are_seen(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/intents/INT-001/edit")
    page.fill("[name=name]", "Mine")
    remit(agent.cwd, "intent", "edit", "INT-001", "--name", "Theirs")
    page.get_by_role("button", name="Save").click()
    page.locator("[data-on-disk]").wait_for(state="visible")
    assert "Theirs" in page.locator("[data-on-disk]").inner_text()
    assert page.input_value("[name=name]") == "Mine"
    assert "name: Theirs" in intents_text(agent)
    visitor.complaints.clear()  # the browser names the refusal
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/intents/INT-001")
    assert "name: Mine" in intents_text(agent)


def test_a_transition_and_a_filter_by_the_keyboard(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/intents?status=DRAFT")
    assert page.locator("[data-row]").count() == 1
    page.reload()
    assert page.locator("[data-row]").count() == 1
    press_key(page, "j")
    press_key(page, "Enter")
    page.wait_for_url("**/intents/INT-002")
    page.get_by_role("button", name="Start").click()
    page.locator(".status-IN_PROGRESS").first.wait_for()
    press_key(page, "e")
    page.wait_for_url("**/intents/INT-002/edit")


@pytest.mark.live
@pytest.mark.parametrize("look", [*LOOKS, ("dark", 1389, 868), ("light", 390, 844)])
def test_they_can_be_read_by_everybody(
    chromium: Chromium, server: ConsoleServer, agent: Agent, look: tuple[str, int, int], tmp_path: Path
) -> None:
    axe = installed("axe-core", "4.14.1", "axe-core@4.14.1", "axe-core/axe.min.js").read_text()
    visitor = Visitor(chromium, server, look)
    repositories = server.console.repositories
    with repositories.open_gate(repositories.list_all()[0]) as gate:
        gate.state.put_grant(Grant("g-1", "SCOPE_VIOLATION", "intent", pattern="docs/*", intent_id="INT-001"))
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    text = path.read_text()
    at = f"/r/{agent.cwd.name}"
    for number, address in enumerate(
        (
            "/intents",
            "/intents?view=board",
            "/intents/INT-001",
            "/intents/INT-001/edit",
            "/new-intent",
            "/scope?scope=[",
            "!",
        )
    ):
        if address == "!":
            path.write_text(text.replace("status: DRAFT", "status: SOON"))
        page = visitor.go(f"{at}{'/intents' if address == '!' else address}")
        page.evaluate(axe)
        report = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
        assert [
            (address, rule["id"], node["html"][:160]) for rule in report["violations"] for node in rule["nodes"]
        ] == []
        page.screenshot(path=tmp_path / f"intents-{number}-{look[0]}-{look[1]}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= look[1], address
    visitor.context.close()
