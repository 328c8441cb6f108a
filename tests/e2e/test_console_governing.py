"""The pages Agents, Coverage and Try a call in a real browser: two agents at one file, and a call that is tried."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium

from cli.running import remit
from conftest import run_git
from console.console_world import serving
from console.test_console_agents import HOSTILE, INTENTS, age_calls, hold
from e2e import test_console_pages as pages
from e2e.npm import installed
from e2e.test_console_pages import LOOKS, Visitor, press_key
from gate.driving import Agent, governed
from remit.console.server import ConsoleServer
from remit.core.decision import Grant
from remit.gate.gate import Gate
from remit.workspace.place.workspace import register_repository, workspace_at

pytestmark = pages.pytestmark


@pytest.fixture
def agent(repository: Path, home: Path, tmp_path: Path) -> Agent:
    """Three agents: two at one file, the third in a worktree; and a call that never ended."""
    (home / ".claude").mkdir()
    remit(repository, "init", "--yes", "--agent", "claude-code", "--mode", "enforce")
    governed(repository, intents=INTENTS)
    register_repository(home, workspace_at(repository, repository))
    first, second = Agent(repository, home, "session-one"), Agent(repository, home, "session-two")
    first.select("INT-001")
    second.select("INT-002")
    first.write("src/app.py", f"one {HOSTILE}\n")
    second.read("src/app.py")
    second.write("src/app.py", "two\n")
    path = repository / "src" / f"{HOSTILE.replace('/', '_')}.py"
    path.write_text("behind\n")
    first.tell("Write", "never-asked", file_path=str(path), content="behind\n")
    first.write("docs/a.md", "outside\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "work")
    run_git(repository, "worktree", "add", "-q", "-b", "feature/jwt", str(tmp_path / "wt"))
    third = Agent(governed(tmp_path / "wt", intents=INTENTS), home, "session-three")
    third.select("INT-001")
    hold(second, "docs/b.md")
    age_calls(second, 120)
    gate = Gate.open(repository, first.environment)
    gate.state.put_grant(Grant("g-1", "SCOPE_VIOLATION", "intent", pattern="docs/*", intent_id="INT-001"))
    gate.close()
    return first


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


def test_a_collision_is_seen_and_a_call_that_never_ended_is_released(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/agents")
    assert "1 changed by both" in page.locator(".matrix").inner_text()
    assert page.locator("img").count() == 0
    page.get_by_role("button", name="Release").click()
    page.get_by_role("button", name="Release").wait_for(state="detached")
    visitor.wait_until_live()
    agent.read("src/app.py")
    agent.write("src/seen.py", "x\n")  # a new record refreshes the lanes
    page.locator(".lane", has_text="session-").filter(has_text="3 files changed").wait_for()


def test_a_call_is_tried_while_it_is_typed(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/governed")
    press_key(page, "t")
    page.wait_for_url("**/simulate")
    page.fill("[name=write]", "lib/a.py")
    page.select_option("[name=intent]", "INT-001")
    page.locator("[data-part=answer]").get_by_text(
        "SCOPE_VIOLATION"
    ).first.wait_for()  # the first preview has no intent
    page.locator(".badge.big.denied").wait_for()
    page.fill("[name=write]", "")
    page.fill("[name=command]", "ls -l")
    page.locator(".badge.big.allowed").wait_for()
    page.get_by_role("button", name="Try").click()
    page.wait_for_url("**command=ls*")
    assert page.locator(".badge.big.allowed").is_visible()


def test_the_mode_and_a_grant_are_changed(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/governed")
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("button", name="Revoke").wait_for(state="detached")
    page.get_by_role("button", name="observe").click()
    page.locator(".badge.mode-observe").wait_for()


@pytest.mark.live
@pytest.mark.parametrize("look", [*LOOKS, ("dark", 1389, 868), ("light", 390, 844)])
def test_they_can_be_read_by_everybody(
    chromium: Chromium, server: ConsoleServer, agent: Agent, look: tuple[str, int, int], tmp_path: Path
) -> None:
    axe = installed("axe-core", "4.14.1", "axe-core@4.14.1", "axe-core/axe.min.js").read_text()
    visitor = Visitor(chromium, server, look)
    at = f"/r/{agent.cwd.name}"
    tried = "/governed/simulate?command=git+push+--force+origin+main"
    for number, address in enumerate(("/agents", "/governed?suggest=1&measure=1", "/governed/simulate", tried)):
        page = visitor.go(f"{at}{address}")
        page.evaluate(axe)
        report = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
        assert [
            (address, rule["id"], node["html"][:160]) for rule in report["violations"] for node in rule["nodes"]
        ] == []
        page.screenshot(path=tmp_path / f"governing-{number}-{look[0]}-{look[1]}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= look[1], address
    visitor.context.close()
