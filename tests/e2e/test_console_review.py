"""Changes, a session and code in a real browser: reviewed, followed, explained by keys, and readable without script."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Error, Page

from conftest import run_git
from console.console_world import serving
from console.large_session import SESSION, append_events, make_long_session
from console.remote_world import find_free_port
from console.review_world import make_branch
from e2e.npm import installed
from e2e.test_console_pages import LOOKS, Visitor, open_context, press_key, pytestmark
from gate.driving import Agent
from provenance.speaker import Speaker
from remit.console.server import ConsoleServer
from waiting import wait_until

__all__ = ["pytestmark"]


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return make_branch(repository, home)


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


def wait_for(page: Page, script: str, wanted: object = True) -> None:
    """Ask again until the script says what is wanted: the page's policy forbids a waiting script."""
    found: list[object] = [None]

    def says_so() -> bool:
        try:
            found[0] = page.evaluate(script)
        except Error as error:  # the page that was asked has just been left
            if "context was destroyed" not in error.message:
                raise
            return False
        return found[0] == wanted

    wait_until(says_so, lambda: (script, found))


# -- Changes -----------------------------------------------------------------------------------------------------


def test_a_review_by_keys_marks_comments_and_takes_back(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/changes")
    page.locator(".hunk").first.wait_for()
    assert page.locator("img").count() == 0
    assert page.locator(".look-first tr").first.inner_text().split("\t")[0].strip() == "out of scope"
    page.locator(".look-first a").first.click()
    assert page.locator(".hunk:target").get_attribute("data-path") == "docs/design.md"
    press_key(page, "j")
    chosen = page.locator(".hunk.at")
    name = str(chosen.get_attribute("data-hunk"))
    press_key(page, "x")
    page.locator(f'[data-hunk="{name}"].reviewed').wait_for()
    press_key(page, "c")
    page.keyboard.type("please use hmac here")
    page.reload()
    page.locator(f'[data-hunk="{name}"].reviewed').wait_for()
    assert page.locator(f'[data-hunk="{name}"] textarea').input_value() == "please use hmac here"
    send = page.locator("[data-send]")
    assert send.inner_text() == "Send 1 comment to claude-code"
    send.click()
    page.locator(f'[data-hunk="{name}"] textarea').wait_for(state="detached")
    assert "please use hmac here" in str(agent.read("README.md"))


def test_a_hunk_taken_back_in_the_page_leaves_the_bytes_from_before(agent: Agent, visitor: Visitor) -> None:
    before = run_git(agent.cwd, "show", "HEAD:src/tokens.py")
    page = visitor.go(f"/r/{agent.cwd.name}/changes?only=uncommitted&range=")
    hunk = page.locator('[data-path="src/tokens.py"]')
    hunk.locator("[data-revert]").click()
    assert (agent.cwd / "src" / "tokens.py").read_text() != before  # once is not enough
    hunk.locator("[data-revert]").click()
    page.locator('[data-path="src/tokens.py"].gone').wait_for()
    assert (agent.cwd / "src" / "tokens.py").read_text() == before


def test_the_summary_for_a_pull_request_is_copied(agent: Agent, visitor: Visitor) -> None:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visitor.go(f"/r/{agent.cwd.name}/changes?wait=1")
    page.click("[data-copy-summary]")
    page.locator("[data-toasts] p").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "**INT-001**" in copied
    assert "`docs/design.md:1` RMT001" in copied


# -- a session ---------------------------------------------------------------------------------------------------


@pytest.fixture
def long(repository: Path, home: Path) -> Path:
    make_long_session(repository, home, 10_000)
    return repository


@pytest.fixture
def follower(chromium: Chromium, long: Path, home: Path) -> Iterator[Visitor]:
    with serving(home) as server:
        found = Visitor(chromium, server)
        yield found
        found.context.close()
        assert found.complaints == []


def test_a_long_session_opens_in_a_window_and_jumps_in_it(long: Path, follower: Visitor) -> None:
    page = follower.go(f"/r/{long.name}/sessions/{SESSION}")
    assert page.evaluate("document.getElementsByTagName('*').length") < 5000
    assert "9,881 to 10,000 of 10,000" in page.locator(".pager").inner_text()
    page.locator(".strip").click(position={"x": 400, "y": 20})
    wait_for(page, "document.querySelector('.pager').innerText.includes('10,000 of')", wanted=False)
    press_key(page, "]")
    page.locator("aside.peek h2").wait_for()
    first = str(page.locator("tr.chosen").get_attribute("data-id"))
    press_key(page, "]")
    wait_for(page, f"document.querySelector('tr.chosen').dataset.id !== '{first}'")
    second = str(page.locator("tr.chosen").get_attribute("data-id"))
    press_key(page, "[")
    wait_for(page, f"document.querySelector('tr.chosen').dataset.id === '{first}'")
    page.goto(f"{follower.server.guard.origin}/r/{long.name}/sessions/{SESSION}?e={second}")
    assert page.locator("tr.chosen").get_attribute("data-id") == second
    press_key(page, "Escape")
    page.locator("aside.peek").wait_for(state="hidden")
    page.fill(".find input", "tests/9994")
    press_key(page, "Enter")
    page.wait_for_url("**q=tests*")
    assert page.locator("[data-rows] tr").count() == 1


def test_new_records_come_at_the_end_and_move_nothing_elsewhere(long: Path, home: Path, follower: Visitor) -> None:
    page = follower.go(f"/r/{long.name}/sessions/{SESSION}")
    follower.wait_until_live(page)
    append_events(long, home, 24, start=10_000)
    wait_for(page, "document.querySelector('[data-records-total]').textContent", wanted="10,024")
    assert "# 10017" in page.locator("[data-rows]").inner_text()
    page.locator(".pager a.back").click()
    wait_for(page, "Boolean(document.querySelector('.pager a[data-jump]:not(.back)'))")
    shown = page.locator("[data-rows]").inner_text()
    append_events(long, home, 12, start=10_024)
    page.locator("[data-new]:not([hidden])").wait_for()
    assert page.locator("[data-rows]").inner_text() == shown
    page.locator("[data-new] button").click()
    wait_for(page, "document.querySelector('[data-rows]').innerText.includes('# 10029')")


def test_after_a_restart_the_page_has_each_record_once(chromium: Chromium, long: Path, home: Path) -> None:
    port = find_free_port()
    with serving(home, port) as server:
        visitor = Visitor(chromium, server)
        page = visitor.go(f"/r/{long.name}/sessions/{SESSION}")
        visitor.wait_until_live(page)
    page.locator("[data-live]:not(.on)").wait_for(state="attached")
    append_events(long, home, 12, start=10_000)
    again = ConsoleServer(server.environment, port)
    again.start()
    try:
        append_events(long, home, 12, start=10_012)
        wait_for(page, "document.querySelector('[data-records-total]').textContent", wanted="10,024")
        keys = page.evaluate("[...document.querySelectorAll('[data-rows] tr')].map((row) => row.dataset.key)")
        assert len(keys) == len(set(keys))
        text = page.locator("[data-rows]").inner_text()
        assert "# 10005" in text
        assert "# 10017" in text
    finally:
        visitor.context.close()
        again.stop()


# -- code --------------------------------------------------------------------------------------------------------


def test_one_key_leads_from_a_line_to_its_prompt_and_others_to_the_next_block(
    agent: Agent, home: Path, visitor: Visitor
) -> None:
    speaker = Speaker(agent.cwd, home, session="talk")
    speaker.add("user", "Greet the <b>world</b> politely")
    speaker.select()
    speaker.write("src/greet.py", "def greet_politely():\n    return 'good morning, world'\n\n\n# nothing\n")
    with (agent.cwd / "src" / "greet.py").open("a") as file:
        file.write("BY_HAND = 1\n" * 300)
    speaker.read("README.md")
    page = visitor.go(f"/r/{agent.cwd.name}/code/src/greet.py?from=200")
    wait_for(page, "Boolean(document.querySelector('.minimap'))")
    press_key(page, "n")
    wait_for(page, "document.querySelector('tr.chosen')?.dataset.line", wanted="1")
    press_key(page, "w")
    page.locator("aside.peek blockquote").first.wait_for()
    assert "Greet the <b>world</b> politely" in page.locator("aside.peek").inner_text()
    assert "l=1-" in page.url
    press_key(page, "w")
    page.locator("aside.peek").wait_for(state="hidden")
    page.click("text=AI unreviewed")
    wait_for(page, "Boolean(document.querySelector('tr.human.other, tr.unknown.other'))")
    assert page.locator("tr.ai.other").count() == 0


def test_a_file_is_found_by_words_of_its_path(agent: Agent, visitor: Visitor) -> None:
    page = visitor.go(f"/r/{agent.cwd.name}/code")
    page.fill("[data-find]", "tok test")
    wait_for(page, "document.querySelectorAll('[data-part=list] tr').length", wanted=1)
    page.click("[data-part=list] a")
    page.wait_for_url("**/code/tests/test_tokens.py")
    assert page.locator(".code .k").count() > 0


# -- all three ---------------------------------------------------------------------------------------------------


def states(agent: Agent) -> list[str]:
    base = f"/r/{agent.cwd.name}"
    session = f"{base}/sessions/{agent.session}"
    places = ["", "?form=tree", "?form=feed", "?kind=mutation", "?q=nosuchword"]
    return [
        f"{base}/changes?wait=1",
        f"{base}/changes?wait=1&range=HEAD..HEAD&only=committed",
        *(f"{session}{place}" for place in places),
        f"{base}/code",
        f"{base}/code?find=nothing",
        f"{base}/code/src/tokens.py?l=3",
        f"{base}/code/src/keys.py?wait=1",
    ]


def test_each_page_reads_without_script(chromium: Chromium, agent: Agent, visitor: Visitor) -> None:
    cookies = visitor.context.cookies()
    silent = open_context(chromium, java_script_enabled=False)
    silent.add_cookies(cookies)  # pyright: ignore[reportArgumentType]
    page = silent.new_page()
    for address in states(agent):
        answer = page.goto(f"{visitor.server.guard.origin}{address}")
        assert answer is not None
        assert answer.ok, address
        assert len(page.locator("main").inner_text()) > 20, address
    page.goto(f"{visitor.server.guard.origin}/r/{agent.cwd.name}/sessions/{agent.session}")
    page.locator("[data-rows] a").first.click()
    page.locator("aside.peek h2").wait_for()
    page.goto(f"{visitor.server.guard.origin}/r/{agent.cwd.name}/code/src/tokens.py?wait=1")
    page.locator(".tag a").first.click()
    page.locator("aside.peek").get_by_text("INT-001").first.wait_for()
    silent.close()


@pytest.mark.live
@pytest.mark.parametrize("look", LOOKS, ids=["light desktop", "dark phone"])
def test_no_state_of_these_pages_breaks_the_rules_of_accessibility(
    chromium: Chromium,
    server: ConsoleServer,
    agent: Agent,
    look: tuple[str, int, int],
) -> None:
    axe = installed("axe-core", "4.14.1", "axe-core@4.14.1", "axe-core/axe.min.js").read_text()
    visitor = Visitor(chromium, server, look)
    found: dict[str, list[str]] = {}
    for address in states(agent):
        page = visitor.go(address)
        if address.endswith("/changes?wait=1"):
            page.locator(".hunk [data-comment]").first.click()
        elif address.endswith(agent.session):
            press_key(page, "]")
            page.locator("aside.peek h2").wait_for()
        page.evaluate(axe)
        report = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
        broken = [f"{rule['id']}: {node['html'][:160]}" for rule in report["violations"] for node in rule["nodes"]]
        if broken:
            found[address] = broken
        assert page.evaluate("document.documentElement.scrollWidth") <= look[1], address
    visitor.context.close()
    assert found == {}, json.dumps(found, indent=1)
