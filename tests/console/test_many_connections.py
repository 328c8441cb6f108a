"""Strangers' connections, however many and however slow, take nothing from a paired browser."""

import resource
import socket
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from console.console_world import Browser, serving
from gate.driving import Agent, governed
from remit.console.connection_limits import (
    ANSWER_S,
    BODY_S,
    HEAD_S,
    IDLE_S,
    MAX_CROWD,
    MAX_OF_BROWSER,
    MAX_OF_GROUP,
    MAX_PAIRED,
    MAX_STRANGERS,
    RESERVED_FOR_LAST,
    Phase,
    Visit,
    Visitors,
)
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at
from waiting import wait_until


@pytest.fixture
def server(repository: Path, home: Path) -> Iterator[ConsoleServer]:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    agent = Agent(repository, home)
    with serving(agent.home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


@contextmanager
def holding(server: ConsoleServer, silent: int, half_sent: int) -> Generator[None]:
    """Hold so many connections that send nothing, and so many that completed a request and sent half of a second."""
    request = b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n"
    with ExitStack() as held:
        for _ in range(half_sent):
            line = held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            with suppress(ConnectionResetError):  # it made room for another one
                line.sendall(request)
                line.recv(1 << 16)
                line.sendall(request[:20])
        for _ in range(silent):
            held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        yield


def test_half_sent_second_requests_keep_no_page_from_a_paired_browser(server: ConsoleServer, browser: Browser) -> None:
    with holding(server, silent=0, half_sent=127):
        assert {browser.get("/index.json").status for _ in range(5)} == {200}


@pytest.mark.live
def test_a_paired_browser_gets_every_page_among_thousands_of_connections(
    server: ConsoleServer, browser: Browser
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[1], 16_384), limits[1]))
    try:
        with holding(server, silent=2000, half_sent=300):
            assert [browser.get("/index.json").status for _ in range(20)] == [200] * 20
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.live
def test_the_second_request_of_a_connection_has_no_more_time_than_the_first(server: ConsoleServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.settimeout(60)
        line.sendall(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n")
        assert b" 421 " in line.recv(1 << 16)
        line.sendall(b"GET / HTTP/1.1\r\nHos")
        with suppress(ConnectionResetError):
            while line.recv(1 << 16):
                pass


def test_a_head_that_is_too_long_is_refused_by_a_stranger_alone(server: ConsoleServer, browser: Browser) -> None:
    assert browser.get("/index.json", X="x" * 9000).status == 200
    assert Browser(server).get("/index.json", X="x" * 9000).status == 431


# The classes, at times that a test chooses


class Doorstep:
    """Visitors whose cookie is the name of their browser, if that is paired, and who are grouped by their host."""

    def __init__(self, *paired: str) -> None:
        self.ended = list[Visit]()
        self.visitors = Visitors(self.find_browser, lambda: paired[-1] if paired else "", lambda clients: [])
        self.paired = paired
        self.unsent = 0

    def find_browser(self, cookies: object) -> str:
        assert isinstance(cookies, dict)
        name = str(cookies.get("name"))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        return name if name in self.paired else ""

    def enter(self, host: str = "127.0.0.1") -> Visit:
        visit = Visit((host, 1), lambda: self.ended.append(visit), 0.0, lambda: self.unsent)
        self.visitors.enter(visit)
        return visit

    def ask(self, name: str, phase: Phase = "answer") -> bool:
        visit = self.enter()
        is_let_in = self.visitors.admit(visit, {"name": name})
        visit.begin(phase, 0.0)
        if not is_let_in:
            self.visitors.leave(visit)
        return is_let_in


def test_the_oldest_strangers_make_room() -> None:
    step = Doorstep()
    visits = [step.enter() for _ in range(MAX_STRANGERS + 3)]
    step.visitors.thin_out()
    assert step.ended == visits[:3]
    crowd = [step.enter() for _ in range(MAX_CROWD)]
    assert len(step.visitors.present) == MAX_CROWD
    assert crowd[0] in step.visitors.present


def test_a_known_cookie_takes_a_connection_out_of_the_strangers_and_a_forged_one_does_not() -> None:
    step = Doorstep("anna")
    mine, forged = step.enter(), step.enter()
    assert step.visitors.admit(mine, {"name": "anna"})
    assert step.visitors.admit(forged, {"name": "ann"})
    for _ in range(MAX_STRANGERS + 10):
        step.enter()
    step.visitors.thin_out()
    assert forged in step.ended
    assert mine not in step.ended
    assert step.visitors.admit(mine, {"name": "forged"})  # its next request has another cookie
    step.visitors.thin_out()
    assert mine in step.ended


def test_no_process_namespace_has_all_places_of_strangers() -> None:
    step = Doorstep()
    theirs, mine = [step.enter("jail") for _ in range(40)], [step.enter("here") for _ in range(5)]
    step.visitors.end_surplus([*theirs, *mine], ["jail"] * 40 + ["here"] * 5)
    assert step.ended == theirs[: 40 - MAX_OF_GROUP]


def test_the_browser_paired_last_has_places_of_its_own() -> None:
    names = [f"b{number}" for number in range(12)]
    step = Doorstep(*names, "last")
    let_in = sum(step.ask(name) for name in names for _ in range(MAX_OF_BROWSER + 1))
    assert let_in == MAX_PAIRED - RESERVED_FOR_LAST
    assert sum(step.ask("last") for _ in range(RESERVED_FOR_LAST + 5)) == RESERVED_FOR_LAST


def test_a_browser_has_its_share_and_what_it_does_not_use_makes_room() -> None:
    step = Doorstep("anna")
    assert step.ask("anna", "idle")
    for _ in range(MAX_OF_BROWSER - 1):
        assert step.ask("anna")
    assert step.ask("anna")
    assert len(step.ended) == 1
    assert not step.ask("anna")


@pytest.mark.parametrize(
    ("phase", "name", "limit_s"),
    [("head", "", HEAD_S), ("idle", "", HEAD_S), ("idle", "anna", IDLE_S), ("body", "anna", BODY_S)],
)
def test_each_part_of_a_request_has_its_time(phase: Phase, name: str, limit_s: float) -> None:
    step = Doorstep("anna")
    visit = step.enter()
    step.visitors.admit(visit, {"name": name})
    visit.begin(phase, 100.0)
    step.visitors.end_overdue(100.0 + limit_s)
    assert not step.ended
    step.visitors.end_overdue(100.1 + limit_s)
    assert step.ended == [visit]


def test_an_answer_that_nobody_takes_ends_and_one_that_is_taken_slowly_does_not() -> None:
    step = Doorstep("anna")
    visit = step.enter()
    step.visitors.admit(visit, {"name": "anna"})
    visit.begin("answer", 0.0)
    now, step.unsent = 0.0, 100_000
    for _ in range(20):
        now, step.unsent = now + ANSWER_S - 1, step.unsent - 10
        step.visitors.end_overdue(now)
    assert not step.ended
    step.visitors.end_overdue(now + ANSWER_S + 1)
    assert step.ended == [visit]


def test_connections_that_were_ended_leave_nothing_behind(server: ConsoleServer, browser: Browser) -> None:
    with holding(server, silent=80, half_sent=0):
        pass
    wait_until(lambda: len(server.server.server_state.connections) == 0)
    assert browser.get("/index.json").status == 200
