"""What every page of the console has, in a real browser: palette, keys, banner, theme, settings; and hostile texts."""

import json
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, Route

from console.console_world import Browser, serving
from console.hostile_world import HostileWorld
from console.remote_world import find_free_port
from console.test_console import addresses
from console.test_hostile_texts import list_addresses
from e2e.npm import installed
from e2e.test_console_pages import LOOKS, Visitor, agent, open_context, press_key, pytestmark, server, visitor
from gate.driving import Agent, machine
from remit.console.server import ConsoleServer
from waiting import wait_until

__all__ = ["agent", "pytestmark", "server", "visitor"]
AXE_RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}"


def where(page: Page) -> str:
    parts = urlsplit(page.url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def test_the_palette_goes_anywhere_by_keys_alone(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/intents")
    press_key(page, "Control+k")
    options = page.locator(".palette [role=option]")
    options.first.wait_for()
    assert options.count() == 14
    page.keyboard.type("app.py")
    page.locator(".palette [data-address$='/code/src/app.py']").wait_for()
    press_key(page, "Enter")
    page.wait_for_url("**/code/src/app.py")
    press_key(page, "Control+k")
    page.keyboard.type("metr")
    page.locator(".palette [data-address$='/metrics']").wait_for()
    press_key(page, "Escape")
    page.locator(".palette").wait_for(state="hidden")
    page.click("[data-palette]")
    assert page.locator(".palette input").input_value() == "metr"
    press_key(page, "Enter")
    page.wait_for_url("**/metrics")


def test_enter_in_the_palette_waits_for_what_the_words_find(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/intents")

    press_key(page, "Control+k")
    page.locator(".palette [role=option]").first.wait_for()
    held: list[Route] = []
    page.route("**/search.json?**", lambda route: held.append(route))
    page.keyboard.type("metr")
    press_key(page, "Enter")
    wait_until(lambda: page.evaluate("true") and held)
    assert where(page) == f"/r/{agent.cwd.name}/intents"
    for route in held:
        route.continue_()
    page.wait_for_url("**/metrics")


def test_rows_and_parts_are_reached_by_keys_which_can_need_alt_or_be_off(agent: Agent, visitor: Visitor) -> None:
    for n in range(110):
        agent.ask("Bash", command=f"echo number{n}")
    ledger = f"/r/{agent.cwd.name}/ledger"
    page = visitor.go(ledger)
    press_key(page, "]")
    page.wait_for_url(f"**{ledger}?skip=100")
    press_key(page, "[")
    page.wait_for_url(f"**{ledger}?skip=0")
    press_key(page, "j")
    press_key(page, "j")
    press_key(page, "k")
    press_key(page, "Enter")
    page.wait_for_url("**/records/*")
    press_key(page, "/")
    assert page.evaluate("document.activeElement.name") == "q"
    press_key(page, "Escape")
    visitor.go("/settings")
    page.click("[data-keys-choice=alt]")
    visitor.go(ledger)
    press_key(page, "?")
    assert not page.locator("dialog[data-keys]").is_visible()
    press_key(page, "Alt+g")
    press_key(page, "Alt+m")
    page.wait_for_url("**/metrics")
    visitor.go("/settings")
    page.click("[data-keys-choice=off]")
    visitor.go(ledger)
    press_key(page, "g")
    press_key(page, "m")
    press_key(page, "Control+k")
    page.locator(".palette").wait_for()
    assert where(page) == ledger


def test_a_console_that_goes_away_says_since_when_and_comes_back(agent: Agent, chromium: Chromium) -> None:
    port, hour = find_free_port(), time.strftime("%H:")
    with serving(agent.home, port) as first:
        visitor = Visitor(chromium, first)
        page = visitor.go("/")
        visitor.wait_until_live()
    banner = page.locator("[data-offline]")
    banner.get_by_text("not reachable since").wait_for()
    assert any(f"since {each}" in banner.inner_text() for each in (hour, time.strftime("%H:")))
    assert page.locator("h1").inner_text() == "Now"
    page.evaluate("document.body.dataset.static = '/static/00000000'")  # as a page of an older version has it
    second = ConsoleServer(lambda: machine(agent.home), port)
    second.start()
    try:
        assert second.guard.origin == first.guard.origin
        visitor.server = second
        page.evaluate("document.querySelector('[data-retry]').click()")  # hidden, if the page has tried by itself
        visitor.wait_until_live()
        banner.wait_for(state="hidden")
        with page.expect_navigation():
            page.locator(".toasts button").click()
        visitor.wait_until_live()
        assert page.locator(".toasts button").count() == 0
    finally:
        second.stop()
        visitor.context.close()


def test_pairing_leads_to_the_page_that_was_wanted(agent: Agent, server: ConsoleServer, chromium: Chromium) -> None:
    wanted = f"/r/{agent.cwd.name}/ledger?event=denied"
    context = open_context(chromium)
    page = context.new_page()
    refused = page.goto(server.guard.origin + wanted)
    assert refused is not None
    assert refused.status == 401
    assert "remit serve" in page.inner_text("main")
    wait_until(lambda: page.evaluate("localStorage.getItem('remit-wanted')"))
    page.goto(server.make_link())
    page.wait_for_url(f"**{wanted}")
    context.close()


def test_a_theme_comes_with_the_page(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go("/settings")
    page.click("[data-theme-choice=dark]")
    response = page.goto(f"{visitor.server.guard.origin}/")
    assert response is not None
    assert '<html lang="en" data-theme="dark">' in response.text()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 17, 21)"
    visitor.go("/settings")
    page.click("[data-theme-choice=system]")
    response = page.goto(f"{visitor.server.guard.origin}/")
    assert response is not None
    assert "data-theme" not in response.text().partition("<body")[0]


def test_settings_are_written_by_the_page_and_an_older_page_overwrites_nothing(agent: Agent, visitor: Visitor) -> None:
    file = agent.cwd / ".orchestration" / "remit.toml"
    file.write_text(f"# ours\n{file.read_text()}")
    page = visitor.go("/settings")
    row = page.locator("[data-setting='approvals.grant_hours']")
    row.locator("input").fill("2")
    row.locator("button").click()
    row.locator("[data-held]", has_text="remit.toml:").wait_for()
    assert file.read_text().startswith("# ours\n")
    assert "[approvals]\ngrant_hours = 2" in file.read_text()
    file.write_text(f"{file.read_text()}# by hand\n")
    row.locator("input").fill("3")
    row.locator("button").click()
    page.locator(".toasts p", has_text="load the page again").wait_for()
    assert file.read_text().endswith("grant_hours = 2\n# by hand\n")
    page.fill("[data-tried]", "token ghp_0123456789abcdefghijABCDEFGHIJ012345")
    page.click("[data-try]")
    answer = page.locator("[data-tried-answer]")
    answer.wait_for()
    assert "ghp_" not in answer.inner_text()
    visitor.complaints[:] = [line for line in visitor.complaints if "409" not in line]


def test_every_page_reads_without_script(agent: Agent, server: ConsoleServer, chromium: Chromium) -> None:
    paired = Browser(server)
    paired.pair()
    context = open_context(chromium, java_script_enabled=False)
    cookie = {"name": "remit_read", "value": paired.cookie, "url": server.guard.origin}
    context.add_cookies([cookie])  # pyright: ignore[reportArgumentType]
    page = context.new_page()
    for address in addresses(agent):
        page.goto(f"{server.guard.origin}{address}")
        assert len(page.inner_text("main").split()) > 3, address
    page.goto(f"{server.guard.origin}/search?q=app.py")
    page.click("main a[href$='src/app.py']")
    assert "two" in page.inner_text("main")
    context.close()


def test_hostile_texts_load_nothing_run_nothing_and_make_no_element(
    tmp_path: Path, home: Path, chromium: Chromium
) -> None:
    world = HostileWorld(tmp_path, home).build()
    with serving(home) as server:
        visitor = Visitor(chromium, server)
        asked: set[str] = set()
        too_wide: dict[str, int] = {}
        visitor.context.on("request", lambda request: asked.add(request.url))
        dialogs: list[str] = []
        visitor.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        pages = [a for a in list_addresses(world) if a.count("/") < 3 or not a.startswith("/approvals/q")]
        for address in (*pages[:12], *pages[13:200:16], *pages[-4:], "/approvals/q003", "/approvals/q044"):
            page = visitor.go(address)
            strange = "main :is(img, iframe, object, embed, meta, base, link, style, math, template, video, audio)"
            assert page.locator(strange).count() == 0, address
            assert page.locator("[onerror], [onload], [onmouseover], [onfocus], [style]").count() == 0, address
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > LOOKS[0][1]:
                too_wide[address[-60:]] = wide
            assert page.title().endswith("Remit")
        page = visitor.go("/")
        press_key(page, "Control+k")
        page.keyboard.type("img")
        page.locator(".palette [role=option]", has_text="<img").first.wait_for()
        assert page.locator(".palette img").count() == 0
        visitor.context.close()
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(server.guard.origin).netloc}
    assert dialogs == []
    assert too_wide == {}
    assert visitor.complaints == []


@pytest.fixture(scope="module")
def axe() -> str:
    return installed("axe-core", "4.14.1", "axe-core@4.14.1", "axe-core/axe.min.js").read_text()


def list_violations(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    report = page.evaluate(f"axe.run({AXE_RULES})")
    return [f"{rule['id']}: {node['html'][:200]}" for rule in report["violations"] for node in rule["nodes"]]


@pytest.mark.live
@pytest.mark.parametrize("look", [(t, *size) for t in ("light", "dark") for size in ((1389, 868), (390, 844))], ids=str)
def test_states_of_the_shell_break_no_rule_of_accessibility(
    chromium: Chromium, server: ConsoleServer, agent: Agent, axe: str, look: tuple[str, int, int]
) -> None:
    visitor = Visitor(chromium, server, look)
    base = f"/r/{agent.cwd.name}"
    found: dict[str, list[str]] = {}
    for address in (
        *addresses(agent),
        f"{base}/metrics?as=table&by=intent",
        f"{base}/ledger?verify=1",
        f"{base}/ledger?event=denied&q=none",
        "/search?q=app",
        "/search?q=nothing-like-this",
        "/nowhere",
    ):
        page = visitor.go(address)
        found[address] = list_violations(page, axe)
        assert page.evaluate("document.documentElement.scrollWidth") <= look[1], address
    page = visitor.go(f"{base}/intents")
    press_key(page, "Control+k")
    page.locator(".palette [role=option]").first.wait_for()
    found["palette"] = list_violations(page, axe)
    press_key(page, "Escape")
    press_key(page, "?")
    found["sheet"] = list_violations(page, axe)
    press_key(page, "Escape")
    page.evaluate("document.querySelector('[data-offline]').removeAttribute('hidden')")
    page.evaluate("document.querySelector('[data-toasts]').append(document.createElement('p'))")
    page.evaluate("document.querySelector('[data-toasts] p').textContent = 'Denied'")
    found["banner and toast"] = list_violations(page, axe)
    visitor.context.close()
    assert {name: broken for name, broken in found.items() if broken} == {}, json.dumps(found, indent=1)
