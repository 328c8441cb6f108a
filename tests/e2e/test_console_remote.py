"""The console from another machine, in a real browser: the login, an answered approval, the roles, the logout."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page

from console.console_world import wait_until_answerable
from console.remote_world import ProviderProcess, serving_remote, settings_of, write_settings
from console.test_console import Asked
from e2e.test_console_approvals import shown_card
from e2e.test_console_pages import PATIENT_PAGE, open_context, press_key
from gate.driving import Agent, governed, records
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the agent's process is found there"),
]


@pytest.fixture(scope="module")
def away(launch_chromium: Callable[..., Chromium]) -> Iterator[Chromium]:
    """A browser that finds the console's name, as one on another machine would, and takes the tests' certificate."""
    browser = launch_chromium("--host-resolver-rules=MAP remit.test 127.0.0.1", "--ignore-certificate-errors")
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderProcess]:
    found = ProviderProcess()
    yield found
    found.end()


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    return found


@pytest.fixture
def server(agent: Agent, provider: ProviderProcess) -> Iterator[ConsoleServer]:
    write_settings(agent.home, settings_of(provider, agent.home, "remit.test"))
    with serving_remote(agent.home) as found:
        yield found


class Person:
    """A person with a browser of their own."""

    def __init__(self, away: Chromium, server: ConsoleServer) -> None:
        assert server.remote_settings is not None
        self.origin = server.remote_settings.origin
        self.context = open_context(away, viewport={"width": 1389, "height": 868})
        self.context.add_init_script(PATIENT_PAGE)
        self.complaints: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on(
            "console", lambda line: self.complaints.append(line.text) if line.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def log_in(self, name: str, address: str = "/") -> None:
        self.page.goto(f"{self.origin}{address}")
        self.page.get_by_role("link", name="Log in").click()
        self.page.get_by_role("button", name=name, exact=True).click()
        self.page.wait_for_url(f"{self.origin}{address}")
        self.page.locator("[data-live].on").wait_for(state="attached")


@pytest.fixture
def anna(away: Chromium, server: ConsoleServer) -> Iterator[Person]:
    found = Person(away, server)
    yield found
    found.context.close()


def test_a_person_logs_in_and_answers_an_agent(agent: Agent, server: ConsoleServer, anna: Person) -> None:
    anna.log_in("ben", "/approvals")  # the page that was wanted comes after the login
    wait_until_answerable(server)
    asked = Asked(agent)
    shown_card(anna.page)
    press_key(anna.page, "y")
    assert asked.decision == "allow"
    approval = records(agent.cwd, "approval_answered")[0]["metadata"]["dev.remit"]["approval"]
    assert approval["who"]["name"] == "ben@example.org"
    cookies = {cookie.get("name"): cookie for cookie in anna.context.cookies()}
    assert cookies.keys() == {"__Host-remit"}
    kept = cookies["__Host-remit"]
    assert (kept.get("httpOnly"), kept.get("secure"), kept.get("sameSite")) == (True, True, "Strict")
    assert anna.page.evaluate("document.cookie") == ""
    assert [line for line in anna.complaints if "401" not in line] == []


def test_a_role_that_reads_is_told_so_and_a_logout_ends_all_tabs(
    agent: Agent, server: ConsoleServer, away: Chromium, anna: Person
) -> None:
    ben = Person(away, server)
    ben.log_in("ben", "/approvals")
    anna.log_in("vera", "/approvals")
    wait_until_answerable(server)
    asked = Asked(agent)
    shown_card(anna.page)
    assert anna.page.get_by_text("people with the role approve answer").count() == 1
    press_key(anna.page, "y")
    anna.page.get_by_text("your role here is view").first.wait_for()
    assert asked.reply is None
    second = anna.context.new_page()
    second.goto(f"{anna.origin}/settings")
    second.locator("[data-live].on").wait_for(state="attached")
    anna.page.locator(".side").get_by_role("button", name="Log out").click()
    anna.page.get_by_text("You are logged out").wait_for()
    second.get_by_text("You are not logged in any more").wait_for()
    second.goto(f"{anna.origin}/")
    assert second.get_by_role("heading", name=re.compile("not logged in")).count() == 1
    shown_card(ben.page)
    press_key(ben.page, "n")
    assert asked.decision == "deny"
    ben.context.close()


def test_without_a_role_the_page_names_the_next_step(server: ConsoleServer, anna: Person) -> None:
    anna.page.goto(f"{anna.origin}/")
    anna.page.get_by_role("link", name="Log in").click()
    anna.page.get_by_role("button", name="nemo", exact=True).click()
    anna.page.get_by_text("ask the person who runs this console for a role").wait_for()
    assert anna.page.get_by_role("link", name="Log in").count() == 1
