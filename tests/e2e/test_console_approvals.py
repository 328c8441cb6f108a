"""Approvals in a real browser: every key of a card, tabs and a terminal at once, the phone, and who may not answer."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, sync_playwright

from conftest import run_git
from console.console_world import Browser, serving
from console.test_console import body_for
from e2e.npm import installed
from e2e.test_console_pages import LOOKS, Visitor, open_context, press_key, stop_clock, wait_while_dead
from gate.driving import Agent, governed, records
from remit.console.server import ConsoleServer
from remit.gate.gate import Gate
from remit.gate.people.answer import record_reply
from remit.gate.people.questions import ApprovalReply
from remit.workspace.place.workspace import register_repository, workspace_at
from waiting import WAIT_S, wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the agent's process is found there"),
]


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    (repository / "docs").mkdir()
    for name in ("guide.md", "notes.md"):
        (repository / "docs" / name).write_text("".join(f"line {number}\n" for number in range(20)))
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
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
    found.go("/approvals")
    found.wait_until_live()
    yield found
    found.context.close()
    # A refused answer is a line of the browser's own console.
    assert [line for line in found.complaints if "409" not in line and "403" not in line] == []


class Call:
    """A call of the agent that waits in its hook."""

    def __init__(self, agent: Agent, tool: str, **fields: Any) -> None:
        self.replies: list[dict[str, Any]] = []
        self.thread = threading.Thread(target=lambda: self.replies.append(agent.ask(tool, **fields)))
        self.thread.start()

    @property
    def decision(self) -> str:
        self.thread.join(WAIT_S)
        assert self.replies, "the agent still waits"
        return str(self.replies[0].get("permissionDecision", "allow"))

    @property
    def reason(self) -> str:
        self.thread.join(WAIT_S)
        return str(self.replies[0].get("permissionDecisionReason", ""))


def write(agent: Agent, name: str, content: str = "hello\n") -> Call:
    return Call(agent, "Write", file_path=str(agent.cwd / name), content=content)


def push(agent: Agent, branch: str = "main") -> Call:
    return Call(agent, "Bash", command=f"cd src && git push --force origin {branch} 2>&1 | tail -3")


def shown_card(page: Page) -> str:
    """Return the id of the open card, when it takes keys."""
    page.locator("[data-card]").wait_for()
    wait_while_dead(page)
    return str(page.locator("[data-card]").get_attribute("data-card"))


def wait_for_queue(page: Page, many: int) -> None:
    wait_until(lambda: page.locator("[data-ticket]").count() == many)


def answers(agent: Agent) -> list[dict[str, Any]]:
    return [record["metadata"]["dev.remit"]["approval"] for record in records(agent.cwd, "approval_answered")]


def test_of_two_tabs_and_a_terminal_one_answers_and_the_others_say_who(
    agent: Agent, server: ConsoleServer, visitor: Visitor
) -> None:
    first, second = visitor.page, visitor.go("/approvals", visitor.open_tab())
    visitor.wait_until_live(second)
    call = write(agent, "docs/a.md")
    name = shown_card(first)
    assert shown_card(second) == name
    assert first.title().startswith("(1)")
    assert first.locator(".side [data-waiting-count]").inner_text() == "1"
    [repository] = server.console.repositories.list_all()
    with server.console.repositories.open_gate(repository) as gate:
        [question] = gate.questions.list_open_questions()
        record_reply(gate, question, ApprovalReply(False, "the docs are frozen"))
    assert call.decision == "deny"
    for page in (first, second):
        page.locator(".toasts", has_text=re.compile("Already denied by .+ in a terminal")).wait_for()
        page.locator(".empty").wait_for()
    assert [(answer["answer"], answer["by"]) for answer in answers(agent)] == [("deny", "person")]


def test_a_key_in_two_tabs_at_once_is_one_answer(agent: Agent, visitor: Visitor) -> None:
    first, second = visitor.page, visitor.go("/approvals", visitor.open_tab())
    visitor.wait_until_live(second)
    call = write(agent, "docs/a.md")
    name = shown_card(first)
    shown_card(second)
    second.evaluate("setTimeout(() => document.querySelector('footer [data-answer=deny]')?.click(), 150)")
    first.evaluate("setTimeout(() => document.querySelector('footer [data-answer=once]')?.click(), 150)")
    press_key(first, "y")
    press_key(first, "y")
    assert call.decision in ("allow", "deny")
    for page in (first, second):
        page.locator(".empty").wait_for()
    assert [answer["id"] for answer in answers(agent)] == [name]


def test_an_open_card_stays_while_others_come_and_later_opens_the_next(agent: Agent, visitor: Visitor) -> None:
    page = visitor.page
    calls = [write(agent, "docs/a.md")]
    name = shown_card(page)
    shown = page.locator("[data-card]").inner_html()
    calls.append(push(agent))
    wait_for_queue(page, 2)
    assert page.locator("[data-ticket]").first.get_attribute("data-ticket") == name
    still = page.locator("[data-card]").inner_html()
    assert strip_times(still) == strip_times(shown)
    press_key(page, "l")
    wait_until(lambda: page.locator("[data-card]").get_attribute("data-card") != name)
    assert page.locator("[data-ticket]").count() == 2
    shown_card(page)
    press_key(page, "n")
    assert calls[1].decision == "deny"
    wait_until(lambda: page.locator("[data-card]").get_attribute("data-card") == name)
    shown_card(page)
    press_key(page, "y")
    assert calls[0].decision == "allow"


def strip_times(html: str) -> str:
    """Return a card without what counts down, and without the preview, which comes a moment later."""
    return re.sub(r'dasharray="[^"]*"|\d+:\d\d left|(?s:<div id="preview".*?</div>)', "", html)


def test_a_no_with_words_tells_the_agent_why(agent: Agent, visitor: Visitor) -> None:
    page = visitor.page
    call = write(agent, "docs/a.md")
    shown_card(page)
    press_key(page, "Shift+N")
    wait_until(lambda: page.locator("[data-words]").evaluate("field => field === document.activeElement"))
    assert page.locator("[data-words]").input_value() == ""
    page.keyboard.type("the docs are frozen, yes")
    assert call.replies == []
    press_key(page, "Enter")
    assert call.decision == "deny"
    assert "the docs are frozen, yes" in call.reason


def test_the_rule_is_edited_previewed_and_given_as_far_as_was_chosen(agent: Agent, visitor: Visitor) -> None:
    page = visitor.page
    call = write(agent, "docs/a.md")
    shown_card(page)
    preview = page.locator('[data-part="preview"]')
    preview.get_by_text("Covers 2 tracked files").wait_for()
    press_key(page, "e")
    wait_until(lambda: page.locator("[data-rule]").evaluate("field => field === document.activeElement"))
    assert page.locator("[data-rule]").input_value() == "docs/**"
    page.keyboard.type("src/**")
    preview.get_by_text("This yes cannot be given").wait_for()
    assert page.locator('[data-answer="wider"]').is_disabled()
    press_key(page, "Control+A")
    page.keyboard.type("docs/?.md")
    preview.get_by_text("Covers 0 tracked files").wait_for()
    press_key(page, "Escape")
    page.click('[data-extent-choice="session"]')
    preview.get_by_text("of this session").wait_for()
    assert "Allow for the session" in page.locator('[data-answer="wider"]').inner_text()
    page.locator("h2").first.click()
    press_key(page, "s")
    assert call.decision == "allow"
    [answer] = answers(agent)
    assert (answer["extent"], answer["grant"]["rule"]) == ("session", "docs/?.md")
    assert write(agent, "docs/b.md").decision == "allow"


def test_equal_cards_of_low_risk_are_listed_and_allowed_with_one_yes(agent: Agent, visitor: Visitor) -> None:
    page = visitor.page
    calls = [write(agent, f"docs/new-{number}.md", f"text {number}\n") for number in range(3)]
    wait_until(lambda: page.title().startswith("(3)"))
    page.reload()
    visitor.wait_until_live()
    shown_card(page)
    press_key(page, "Shift+Y")
    sheet = page.locator("[data-together-sheet]")
    assert sheet.is_visible()
    assert all(f"text {number}" in sheet.inner_text() for number in range(3))
    press_key(page, "y")  # keys are dead below a dialog
    wait_while_dead(page)
    assert [call.replies for call in calls] == [[], [], []]
    page.click("[data-answer-together]")
    assert [call.decision for call in calls] == ["allow"] * 3
    page.locator(".empty").wait_for()
    assert len(answers(agent)) == 3


def test_a_finger_put_down_as_a_card_arrives_answers_nothing(agent: Agent, visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    visitor.go("/approvals")
    visitor.wait_until_live()
    stop_clock(page)  # the card stays as new as it is
    call = write(agent, "docs/a.md")
    page.locator("[data-card]").wait_for()
    page.evaluate("document.querySelector('footer [data-answer=once]').click()")
    page.clock.run_for(500)
    press_key(page, "n")
    assert call.decision == "deny"  # the first answer counts
    assert len(answers(agent)) == 1


HELD_CARDS = """
const plainFetch = self.fetch;
self.fetch = async (...asked) => {
  const response = await plainFetch(...asked);
  if (asked[1]?.headers?.["Remit-Part"] !== "card" || !self.isHolding) return response;
  self.hasHeld = true;
  while (self.isHolding) await new Promise((done) => setTimeout(done, 20));
  return response;
};
"""


def test_a_question_that_comes_while_the_next_card_is_on_its_way_is_shown(agent: Agent, visitor: Visitor) -> None:
    page = visitor.page
    page.add_init_script(HELD_CARDS)
    visitor.go("/approvals")
    visitor.wait_until_live()
    first = write(agent, "docs/a.md")
    shown_card(page)
    page.evaluate("self.isHolding = true")
    press_key(page, "n")
    wait_until(lambda: page.evaluate("self.hasHeld"))  # the card to come knows of no other question
    second = push(agent)
    wait_until(lambda: page.title().startswith("(1)"))
    page.evaluate("self.isHolding = false")
    page.locator("[data-typed-input]").wait_for()
    shown_card(page)
    press_key(page, "n")
    assert (first.decision, second.decision) == ("deny", "deny")


NOTICES = """
self.notices = [];
self.Notification = class {
  static permission = "granted";
  constructor(title, more) { self.notices.push([title, more.body, more.tag]); }
};
Object.defineProperty(document, "hidden", { get: () => self.isAway ?? false });
"""


def test_a_notification_comes_after_two_seconds_and_names_agent_and_intent_only(
    chromium: Chromium, server: ConsoleServer, agent: Agent, visitor: Visitor
) -> None:
    away = Visitor(chromium, server)
    page = away.page
    page.clock.install()
    page.add_init_script(NOTICES)
    away.go("/")
    away.wait_until_live()
    page.evaluate("self.isAway = true")
    stop_clock(page)
    quick = write(agent, "docs/a.md")
    shown_card(visitor.page)
    wait_until(lambda: page.title().startswith("(1)"))
    press_key(visitor.page, "n")
    assert quick.decision == "deny"
    wait_until(lambda: not page.title().startswith("("))
    page.clock.run_for(2100)
    slow = push(agent)
    name = shown_card(visitor.page)
    wait_until(lambda: page.title().startswith("(1)"))
    page.clock.run_for(1900)
    assert page.evaluate("self.notices") == []
    page.clock.run_for(200)
    wait_until(lambda: page.evaluate("self.notices.length"))
    assert page.evaluate("self.notices") == [["claude-code waits for you", "INT-001", name]]
    press_key(visitor.page, "n")
    assert slow.decision == "deny"
    away.context.close()


def test_a_phone_has_one_card_and_two_buttons_for_a_finger(
    chromium: Chromium, server: ConsoleServer, agent: Agent, visitor: Visitor
) -> None:
    call = write(agent, "docs/guide.md", "short\n")
    name = shown_card(visitor.page)
    phone = Visitor(chromium, server, ("light", 390, 844))
    page = phone.go(f"/p/{name}")
    wait_while_dead(page)
    buttons = page.locator("main button")
    assert buttons.all_inner_texts() == ["Allow once", "Deny"]
    for number in range(2):
        box = buttons.nth(number).bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["x"] + box["width"] <= 390
        assert box["y"] + box["height"] <= 844
    press_key(page, "y")
    phone.go(f"/p/{name}")
    assert call.replies == []
    wait_while_dead(page)
    buttons.nth(1).click()
    assert call.decision == "deny"
    page.get_by_text(re.compile("already denied by .+ in the console")).wait_for()
    assert phone.complaints == []
    phone.context.close()


# -- who may not answer ------------------------------------------------------------------------------------------

BELOW = """#!{python}
import subprocess, sys
sys.exit(subprocess.run([{program!r}, *sys.argv[1:]], close_fds=False).returncode)
"""


def put_below_an_agent(folder: Path, program: str) -> Path:
    """Return a program named like an agent that starts the other one."""
    claude = folder / "claude"
    claude.write_text(BELOW.format(python=sys.executable, program=program))
    claude.chmod(0o755)
    return claude


SEND = """([path, body, proof]) => fetch(path, {
  method: "POST", body, headers: {"Content-Type": "application/json", "Remit-Proof": proof},
}).then(async (answer) => [answer.status, await answer.text()])"""


def paired(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


def last_denied(agent: Agent) -> str:
    return str(records(agent.cwd, "denied")[-1]["metadata"]["dev.remit"]["violation"]["error"])


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_curl_below_an_agent_decides_nothing_even_with_cookie_and_proof(
    agent: Agent, server: ConsoleServer, visitor: Visitor, tmp_path: Path
) -> None:
    call = write(agent, "docs/a.md")
    name = shown_card(visitor.page)
    owner = paired(server)
    card = owner.get(f"/approvals/{name}.json").data["card"]
    path = f"/approvals/{name}/answer"
    body = json.dumps(body_for(card))
    headers = {
        "Host": owner.host,
        "Origin": server.guard.origin,
        "Cookie": f"remit_read={owner.cookie}",
        "Content-Type": "application/json",
        "Remit-Proof": owner.proof("POST", path, body.encode()),
    }
    words = [word for key, value in headers.items() for word in ("-H", f"{key}: {value}")]
    curl = put_below_an_agent(tmp_path, str(shutil.which("curl")))
    command = [str(curl), "-s", "-d", body, *words, f"http://127.0.0.1:{server.port}{path}"]
    answered = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert "deciding is for people" in answered["error"]["message"]
    assert call.replies == []
    assert "started this" in last_denied(agent)
    press_key(visitor.page, "n")
    assert call.decision == "deny"


def test_a_headless_browser_below_an_agent_neither_pairs_nor_decides(
    agent: Agent, server: ConsoleServer, visitor: Visitor, tmp_path: Path, chromium: Chromium
) -> None:
    call = write(agent, "docs/a.md")
    name = shown_card(visitor.page)
    owner = paired(server)
    card = owner.get(f"/approvals/{name}.json").data["card"]
    path = f"/approvals/{name}/answer"
    body = json.dumps(body_for(card))
    program = put_below_an_agent(tmp_path, str(shutil.which("chromium")))
    # Playwright runs one loop a thread, and this test's has one already.
    found: dict[str, Any] = {}

    def attack() -> None:
        with sync_playwright() as playwright:
            below = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            context = open_context(below)
            page = context.new_page()
            page.goto(server.make_link())
            page.get_by_text("started this").wait_for()
            context.add_cookies([{"name": "remit_read", "value": owner.cookie, "url": server.guard.origin}])
            page.goto(f"{server.guard.origin}/approvals/{name}")
            found["answer"] = page.evaluate(SEND, [path, body, owner.proof("POST", path, body.encode())])
            below.close()

    thread = threading.Thread(target=attack)
    thread.start()
    thread.join()
    status, text = found["answer"]
    assert status == 403
    assert "deciding is for people" in text
    assert call.replies == []
    assert "started this" in last_denied(agent)
    assert len(server.pairing.state.browsers) == 2  # the visitor, and the owner of the stolen cookie
    press_key(visitor.page, "n")
    assert call.decision == "deny"


# -- accessibility -----------------------------------------------------------------------------------------------

ALL_LOOKS = [LOOKS[0], ("dark", 1389, 868), ("light", 390, 844), LOOKS[1]]


@pytest.mark.live
@pytest.mark.parametrize("look", ALL_LOOKS, ids=["light", "dark", "light phone", "dark phone"])
def test_no_state_of_a_card_breaks_the_rules_of_accessibility(
    chromium: Chromium, server: ConsoleServer, agent: Agent, visitor: Visitor, look: tuple[str, int, int]
) -> None:
    axe = installed("axe-core", "4.14.1", "axe-core@4.14.1", "axe-core/axe.min.js").read_text()
    person = Visitor(chromium, server, look)
    found: dict[str, list[str]] = {}

    def check(state: str, page: Page) -> None:
        page.evaluate(axe)
        report = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
        broken = [f"{rule['id']}: {node['html'][:160]}" for rule in report["violations"] for node in rule["nodes"]]
        found.update({state: broken} if broken else {})
        assert page.evaluate("document.documentElement.scrollWidth") <= look[1], state

    page = person.go("/approvals")
    check("empty", page)
    calls = [push(agent), write(agent, "docs/a.md"), write(agent, "docs/b.md")]
    wait_until(lambda: visitor.page.title().startswith("(3)"))
    low, high = sorted(paired(server).get("/approvals.json").data["queue"], key=lambda each: each["risk"])
    page = person.go(f"/approvals/{high['id']}")
    check("high risk", page)
    page.fill("[data-typed-input]", str(page.locator("[data-card]").get_attribute("data-typed")))
    check("typed", page)
    page = person.go(f"/approvals/{low['id']}")
    page.get_by_text("tracked files").wait_for()
    check("a change", page)
    page.fill("[data-rule]", "src/**")
    page.locator(".bad").wait_for()
    check("a rule that cannot be given", page)
    page.locator("h2").first.click()
    press_key(page, "Shift+N")
    check("no with words", page)
    press_key(page, "Escape")
    press_key(page, "Shift+Y")
    page.locator("[data-together-sheet]").wait_for()
    check("together", page)
    for name, question in (("phone, high", high), ("phone", low)):
        check(name, person.go(f"/p/{question['id']}"))
    check("gone", person.go("/p/none"))
    person.context.close()
    owner = paired(server)
    for question in owner.get("/approvals.json").data["queue"] * 2:
        card = owner.get(f"/approvals/{question['id']}.json").data["card"]
        for each in [card["question"], *card["together"]] if card else []:
            one = owner.get(f"/approvals/{each['id']}.json").data["card"]
            if one is not None:
                owner.post(f"/approvals/{each['id']}/answer", body_for(one, allow=False))
    assert [call.decision for call in calls] == ["deny"] * 3
    assert found == {}, json.dumps(found, indent=1)


@pytest.mark.parametrize(
    ("key", "scope"),
    [
        ("y", ["docs/guide.md"]),
        ("w", ["docs/guide.md", "docs/notes.md"]),
        ("f", ["docs/**"]),
    ],
)
def test_each_key_of_a_proposal_makes_its_scope(agent: Agent, visitor: Visitor, key: str, scope: list[str]) -> None:
    (agent.cwd / "lib").mkdir()
    for number in range(9):
        (agent.cwd / "lib" / f"m{number}.py").write_text("x = 1\n")
    for number in range(4):
        for name in ("guide.md", "notes.md"):
            (agent.cwd / "docs" / name).write_text(f"line {number}\n")
        run_git(agent.cwd, "add", "-A")
        run_git(agent.cwd, "commit", "-qm", f"both {number}")
    agent.ask("Bash", command="remit intent clear")
    call = Call(agent, "Bash", command="remit intent propose Guide --scope docs/guide.md --why asked")
    shown_card(visitor.page)
    press_key(visitor.page, key)
    assert call.decision == "allow"
    [made] = [record["metadata"]["dev.remit"]["intent_id"] for record in records(agent.cwd, "intent_selected")][1:]
    assert Gate.open(agent.cwd).intents.get(made).owned_scope == tuple(scope)
