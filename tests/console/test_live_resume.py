"""A live stream that begins with the id of the last state: it says what was missed, also after a restart."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.console_world import Browser, serving
from console.large_session import SESSION, append_events, make_long_session
from remit.console.live import decode_positions, encode_positions
from remit.console.server import ConsoleServer
from remit.ledger.reader import LogPosition


class Stream:
    """An open live stream of a paired client."""

    def __init__(self, browser: Browser, last_id: str = "", path: str = "/live") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", browser.server.port, timeout=90)
        headers = {"Host": browser.host, "Cookie": f"remit_read={browser.cookie}"}
        self.connection.request("GET", path, headers=headers | ({"Last-Event-ID": last_id} if last_id else {}))
        self.response = self.connection.getresponse()
        self.last_id = last_id

    def read_event(self, wanted: str) -> dict[str, Any]:
        """Return the data of the next event of that name; the ids on the way are kept."""
        name = ""
        while line := self.response.readline().decode().rstrip("\n"):
            name = ""
            fields: dict[str, str] = {}
            while line:
                key, _, value = line.partition(": ")
                fields[key] = value
                line = self.response.readline().decode().rstrip("\n")
            name = fields.get("event", "")
            self.last_id = fields.get("id", self.last_id)
            if name == wanted:
                return json.loads(fields["data"])
        raise AssertionError(f"the stream ended before {wanted!r}; the last event was {name!r}")

    def read_until_counted(self, key: str, count: int) -> None:
        while self.read_event("state")["records"].get(key, 0) < count:
            pass

    def close(self) -> None:
        self.response.close()
        self.connection.close()


@pytest.fixture
def root(repository: Path, home: Path) -> Path:
    make_long_session(repository, home, 30)
    append_events(repository, home, 5, "other-session")
    return repository


@pytest.fixture
def server(root: Path, home: Path) -> Iterator[ConsoleServer]:
    with serving(home) as found:
        yield found


def read_last_id(browser: Browser, root: Path, home: Path) -> str:
    """Follow the stream until it has counted a new record, and return the id of that state."""
    stream = Stream(browser)
    while not stream.last_id:  # an id is there once the logs are followed
        stream.read_event("state")
    append_events(root, home, 1, start=30)
    stream.read_until_counted(f"{root.name}/{SESSION}", 1)
    stream.close()
    return stream.last_id


def test_a_stream_of_a_restarted_console_says_which_sessions_have_records_since(root: Path, home: Path) -> None:
    with serving(home) as first:
        browser = Browser(first)
        browser.pair()
        last_id = read_last_id(browser, root, home)
    append_events(root, home, 7, start=31)
    append_events(root, home, 2, "third-session")
    with serving(home) as second:
        browser.server = second
        for stream in (Stream(browser, last_id), Stream(browser, path=f"/live?last={last_id}")):
            found = stream.read_event("missed")
            key = f"{root.name}/"
            assert found == {"records": {f"{key}{SESSION}": 7, f"{key}third-session": 2}, "is_whole": True}
            stream.close()
        after = Stream(browser, last_id)
        after.read_event("missed")
        append_events(root, home, 3, start=38)  # each record is missed or counted, and these are new
        after.read_until_counted(f"{root.name}/{SESSION}", 3)
        again = Stream(browser, after.last_id)
        assert again.read_event("missed") == {"records": {}, "is_whole": True}
        after.close()
        again.close()


@pytest.mark.parametrize(
    "last_id",
    [
        "nonsense",
        "%%%",
        "e30=",
        encode_positions({"repo": {"": LogPosition("../../x", -5, 0)}})[:-4],
        encode_positions({"elsewhere": {}}),
    ],
)
def test_an_id_that_names_no_known_position_makes_pages_look_themselves(
    root: Path, server: ConsoleServer, last_id: str
) -> None:
    browser = Browser(server)
    browser.pair()
    stream = Stream(browser, last_id)
    assert stream.read_event("missed") == {"records": {}, "is_whole": False}
    assert "questions" in stream.read_event("state")
    stream.close()


def test_positions_outside_the_logs_read_nothing_else(root: Path, home: Path, server: ConsoleServer) -> None:
    browser = Browser(server)
    browser.pair()
    last_id = read_last_id(browser, root, home)
    (places,) = decode_positions(last_id).values()
    for offset in (-1, 10**30, 3):
        forged = {place: LogPosition(at.segment, offset, 0) for place, at in places.items()}
        stream = Stream(browser, encode_positions({root.name: forged}))
        assert stream.read_event("missed").keys() == {"records", "is_whole"}
        stream.close()


def test_a_stream_without_an_id_has_the_state_alone(root: Path, server: ConsoleServer) -> None:
    browser = Browser(server)
    browser.pair()
    stream = Stream(browser)
    stream.read_event("hello")
    assert stream.response.readline().startswith((b"event: state", b"id: "))
    stream.close()


def test_the_page_of_a_pairing_link_is_shown_without_a_login(root: Path, server: ConsoleServer) -> None:
    page = Browser(server).get("/pair")
    assert (page.status, "Pairing this browser" in page.text, "data-has-login" in page.text) == (200, True, False)
