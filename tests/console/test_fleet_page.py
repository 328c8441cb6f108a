"""The page Fleet over a real socket: plans, waits, attempts with their sessions, workers, and a person's orders."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.console_world import Browser, serving
from console.test_live_resume import Stream
from fleet.test_without_extra import BLOCK
from gate.driving import Agent, governed
from remit.console.server import ConsoleServer
from remit.core.assignment import hash_scope
from remit.workspace.place.workspace import register_repository, workspace_at
from remit_fleet.board import Claim, FleetRepository, OpenPlan, Task, Worker
from remit_fleet.database.rows import change_rows
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.fleet import find_repository_root, name_repository, open_fleet
from remit_fleet.moves import claim_task

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
PAGE = "/r/repo/fleet"
INTENTS = """\
version: "1.0"
active_intents:
  - id: INT-001
    name: Say hello
    status: IN_PROGRESS
    owned_scope: ["src/**"]
    constraints: [none]
    acceptance_criteria: [it works]
  - id: INT-002
    name: Say goodbye
    status: IN_PROGRESS
    owned_scope: ["docs/**"]
    constraints: [none]
    acceptance_criteria: [it works]
  - id: INT-003
    name: Say thanks
    status: IN_PROGRESS
    owned_scope: ["notes/**"]
    constraints: [none]
    acceptance_criteria: [it works]
"""


class FleetWorld:
    """A fleet with a plan of three tasks in a repository; the first one has an attempt, the second one waits for it."""

    def __init__(self, root: Path, home: Path) -> None:
        self.repository = name_repository(find_repository_root(workspace_at(root, root)))
        self.engine: DbosEngine = open_fleet(None, home)
        self.engine.add_repository(FleetRepository(self.repository, url=str(root)))
        needs = {"INT-002": ("INT-001",)}
        scopes = {"INT-001": ("src/**",), "INT-002": ("docs/**",), "INT-003": ("notes/**",)}
        tasks = [
            Task("plan-1", id, self.repository, scope=own, scope_sha256=hash_scope(own), needs=needs.get(id, ()))
            for id, own in scopes.items()
        ]
        self.engine.open_plan(OpenPlan("plan-1", self.repository, "remit/next", by="anna"), tasks)

    def beat(self, slots: int = 1) -> None:
        self.engine.beat(Worker("host:1", "workbench", slots=slots, agents=("small",)))

    def claim(self, intent: str) -> int:
        with change_rows(self.engine.store) as rows:
            claim = Claim(self.repository, intent, "host:1", "small")
            return claim_task(rows, claim, 60.0).token

    def state_of(self, intent: str) -> str:
        return str(self.engine.read_board().tasks[self.repository, intent].state)


def wait_until_live(stream: Stream) -> None:
    """Wait for a state that knows the fleet's database."""
    while not stream.read_event("state")["fleet"]:
        pass


@pytest.fixture
def root(repository: Path, home: Path) -> Path:
    governed(repository, intents=INTENTS)
    register_repository(home, workspace_at(repository, repository))
    return repository


@pytest.fixture
def server(root: Path, home: Path) -> Iterator[ConsoleServer]:
    with serving(home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


def test_without_a_plan_the_page_says_how_to_start_one_and_makes_no_database(browser: Browser, home: Path) -> None:
    page = browser.get(PAGE)
    assert "No plan was started in this repository" in page.text
    assert "remit plan start" in page.text
    assert not list(home.rglob("fleet.db"))
    assert browser.post(f"{PAGE}/orders", {"kind": "pause"}).status == 404


def test_without_the_package_the_console_has_no_such_page(root: Path, home: Path) -> None:
    show = """
from remit.console.pages.navigation import NAVIGATION
from remit.console.routes import PAGES, WRITES
print(*sorted(page.nav for page in PAGES if page.nav in ("chat", "fleet")))
print(*sorted(entry[0] for group in NAVIGATION for entry in group if entry[0] in ("chat", "fleet")))
print(*sorted(entry[3] for group in NAVIGATION for entry in group if entry[3] in ("e", "f")))
print(*sorted(write.url for write in WRITES if "fleet" in write.url))
"""
    block = BLOCK[: BLOCK.index("from remit.cli")]
    done = subprocess.run([sys.executable, "-c", block + show], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["chat", "chat", "chat", "e"]


def test_tasks_say_what_they_wait_for_and_attempts_lead_to_their_sessions(
    root: Path, home: Path, browser: Browser
) -> None:
    fleet = FleetWorld(root, home)
    page = browser.get(PAGE)
    assert "No worker is alive: nothing starts until one runs" in page.text
    fleet.beat()
    fleet.claim("INT-001")
    fleet.engine.move_attempt(1, (fleet.repository, "INT-001"), "started")  # pyright: ignore[reportArgumentType]
    Agent(root, home, "session-of-attempt").select("INT-001")
    twin = browser.get(f"{PAGE}.json").data
    first, second, third = twin["plans"][0]["tasks"]
    assert [each["title"] for each in (first, second, third)] == ["Say hello", "Say goodbye", "Say thanks"]
    assert "INT-001" in second["wait"]
    assert third["wait"]
    [attempt] = first["attempts"]
    assert attempt["sessions"] == ["session-of-attempt"]
    assert (attempt["attempt"]["agent"], attempt["attempt"]["branch"]) == ("small", "remit/INT-001/1")
    assert [(each["worker"]["host"], each["used"]) for each in twin["workers"]] == [("workbench", 1)]
    page = browser.get(PAGE)
    assert 'href="/r/repo/sessions/session-of-attempt"' in page.text
    assert "1 of 1 in use" in page.text
    assert "0 of 3 tasks over" in page.text


def test_orders_of_the_page_are_those_of_the_commands(root: Path, home: Path, browser: Browser) -> None:
    fleet = FleetWorld(root, home)
    done = browser.post(f"{PAGE}/orders", {"kind": "pause"})
    assert done.status == 200, done.text
    assert {fleet.state_of(id) for id in ("INT-001", "INT-002", "INT-003")} == {"paused"}
    twin = browser.get(f"{PAGE}.json").data
    assert twin["orders"] == ["resume"]
    assert twin["plans"][0]["is_paused"]
    assert browser.post(f"{PAGE}/orders", {"kind": "resume", "intent": "INT-001"}).status == 200
    assert fleet.state_of("INT-001") == "waiting"
    assert browser.post(f"{PAGE}/orders", {"kind": "stop", "intent": "INT-003"}).status == 200
    assert fleet.state_of("INT-003") == "dropped"
    assert browser.get(f"{PAGE}.json").data["plans"][0]["tasks"][2]["wait"].endswith("in the console")
    unknown = browser.post(f"{PAGE}/orders", {"kind": "stop", "intent": HOSTILE})
    assert unknown.status == 404
    assert browser.post(f"{PAGE}/orders", {"kind": "take", "intent": "INT-001"}).status == 400
    assert browser.post(f"{PAGE}/orders", {"kind": "stop"}, proof="").status == 401


def test_an_open_page_hears_of_changes_of_the_fleet(root: Path, home: Path, browser: Browser) -> None:
    fleet = FleetWorld(root, home)
    stream = Stream(browser)
    wait_until_live(stream)
    fleet.beat()
    assert stream.read_event("state")["fleet"]  # it comes by the change alone
    stream.close()


def test_texts_of_a_fleet_are_shown_and_never_run(root: Path, home: Path, browser: Browser) -> None:
    fleet = FleetWorld(root, home)
    fleet.engine.beat(Worker(f"w{HOSTILE}", HOSTILE, slots=1, agents=(HOSTILE,)))
    page = browser.get(PAGE)
    assert page.status == 200
    assert "<img" not in page.text
    assert "\u202e" not in page.text
