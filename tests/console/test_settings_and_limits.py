"""The page Settings writes the repository's file as a person asked; streams and slow requests have limits."""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.console_world import Answered, Browser, serving
from gate.driving import Agent, governed
from remit.console.live import MAX_STREAMS
from remit.console.server import ConsoleServer
from remit.workspace.place.config import ConfigError, set_value
from remit.workspace.place.workspace import register_repository, workspace_at

CONFIG = """\
# Ours.
mode = "enforce"  # since May

[approvals]  # people
timeout_s = 300 # five minutes
[redact]
patterns = [
  "ACME-[0-9]{4}", # internal
]

[[grants]]
id = "g1"
extent = "project"
"""


@pytest.mark.parametrize(
    ("name", "value", "old", "new"),
    [
        ("approvals.timeout_s", 60, "timeout_s = 300 #", "timeout_s = 60 #"),
        ("approvals.timeout_s", None, "timeout_s = 300 # five minutes\n", ""),
        ("approvals.threshold", 40, "# people\n", "# people\nthreshold = 40\n"),
        ("redact.patterns", ["a", 'b"'], '[\n  "ACME-[0-9]{4}", # internal\n]', '["a", "b\\""]'),
        ("mode", "warn", '"enforce"', '"warn"'),
        ("trailers.style", "kernel", 'extent = "project"\n', 'extent = "project"\n\n[trailers]\nstyle = "kernel"\n'),
        ("snapshots.max_mib", None, "", ""),
    ],
)
def test_a_setting_changes_its_own_bytes_alone(name: str, value: Any, old: str, new: str) -> None:
    assert set_value(CONFIG, name, value) == CONFIG.replace(old, new, 1)
    windows = set_value(CONFIG.replace("\n", "\r\n"), name, value)
    assert windows == CONFIG.replace(old, new, 1).replace("\n", "\r\n")


def test_a_setting_makes_its_table_and_takes_itself_out_again() -> None:
    assert set_value("", "approvals.timeout_s", 60) == "[approvals]\ntimeout_s = 60\n"
    assert set_value("mode = 'warn'", "approvals.timeout_s", 60) == "mode = 'warn'\n\n[approvals]\ntimeout_s = 60\n"
    assert set_value("[approvals]", "approvals.timeout_s", 60) == "[approvals]\ntimeout_s = 60\n"
    assert set_value("[approvals]\ntimeout_s = 60\n", "approvals.timeout_s", None) == "[approvals]\n"


@pytest.mark.parametrize(
    "text",
    ["approvals.timeout_s = 3\n", "approvals = { timeout_s = 3 }\n", 'x = """\n[approvals]\n"""\n', "[approvals\n"],
)
def test_a_setting_that_cannot_be_found_for_sure_is_left_to_a_person(text: str) -> None:
    with pytest.raises(ConfigError):
        set_value(text, "approvals.timeout_s", 60)


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    return found


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


def write(browser: Browser, name: str, value: str, sha: str = "") -> Answered:
    sha = sha or str(browser.get("/settings.json").data["file_sha256"])
    return browser.post("/settings", {"repository": "repo", "name": name, "value": value, "file_sha256": sha})


def test_each_setting_names_the_file_that_holds_it_and_is_written_there(agent: Agent, browser: Browser) -> None:
    file = agent.cwd / ".orchestration" / "remit.toml"
    before = browser.get("/settings.json").data
    rows = {row["name"]: row for row in before["rows"]}
    assert (rows["mode"]["value"], rows["mode"]["line"], rows["approvals.grant_hours"]["line"]) == (
        '"enforce"',
        1,
        None,
    )
    assert write(browser, "approvals.grant_hours", "2.5").data["row"]["line"] is not None
    assert "grant_hours = 2.5" in file.read_text()
    assert write(browser, "approvals.grant_hours", "3", before["file_sha256"]).status == 409
    for name, value, status in (
        ("approvals.threshold", "400", 400),
        ("approvals.timeout_s", '"soon"', 400),
        ("approvals.timeout_s", "soon", 400),
        ("redact.patterns", '["(a+)+"]', 400),
        ("mode", '"observe"', 404),
        ("hooks", "[]", 404),
        ("approvals", "1", 404),
        ("approvals.unknown", "1", 404),
    ):
        content = file.read_bytes()
        assert write(browser, name, value).status == status, (name, value)
        assert file.read_bytes() == content
    assert write(browser, "approvals.grant_hours", "").data["row"]["line"] is None
    shown = write(browser, "run.instructions", '"a\u202eb"').data["row"]["value"]
    assert shown == '"a\\u202eb"'  # an escape, which is seen, and written back is the same
    assert write(browser, "run.instructions", shown).data["row"]["value"] == shown


def test_no_setting_is_written_without_this_browser_s_signature(browser: Browser) -> None:
    body = {"repository": "repo", "name": "approvals.grant_hours", "value": "2", "file_sha256": ""}
    assert browser.post("/settings", body, proof="").status == 401
    assert browser.post("/settings/redaction", {"repository": "repo", "text": "x"}, proof="").status == 401
    assert browser.post("/settings", body, Origin="http://evil.com").status == 403


def test_a_text_is_tried_as_records_redact_it(browser: Browser) -> None:
    assert write(browser, "redact.patterns", '["ACME-[0-9]+"]').status == 200
    secret = "key AKIAIOSFODNN7EXAMPLE, ticket ACME-4711, word"
    text = browser.post("/settings/redaction", {"repository": "repo", "text": secret}).data["text"]
    assert "word" in text
    assert "AKIA" not in text
    assert "4711" not in text


def test_a_broken_file_is_named_on_the_page(agent: Agent, browser: Browser) -> None:
    (agent.cwd / ".orchestration" / "remit.toml").write_text("mode = [\n")
    page = browser.get("/settings")
    assert page.status == 200
    assert "cannot be used" in page.text
    assert write(browser, "approvals.grant_hours", "2").status == 404


def test_the_thirty_third_stream_is_refused(browser: Browser) -> None:
    second, third = Browser(browser.server), Browser(browser.server)
    assert (second.pair().status, third.pair().status) == (200, 200)
    open_streams: list[http.client.HTTPConnection] = []
    try:
        for number in range(MAX_STREAMS):
            cookie = (browser, second, third)[number % 3].cookie
            headers = {"Host": browser.host, "Cookie": f"remit_read={cookie}"}
            connection = http.client.HTTPConnection("127.0.0.1", browser.server.port, timeout=90)
            connection.request("GET", "/live", headers=headers)
            assert connection.getresponse().readline().startswith(b"retry")
            open_streams.append(connection)
        refused = browser.get("/live")
        assert (refused.status, "too many" in refused.text) == (429, True)
        assert browser.get("/").status == 200
    finally:
        for connection in open_streams:
            connection.close()


def test_a_slow_request_loses_its_connection_and_a_slow_body_is_refused(browser: Browser) -> None:
    with socket.create_connection(("127.0.0.1", browser.server.port)) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x")
        slow.settimeout(120)
        assert slow.recv(100) == b""
    head = (
        f"POST /pair HTTP/1.1\r\nHost: {browser.host}\r\nOrigin: http://{browser.host}\r\nContent-Length: 100\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", browser.server.port)) as slow:
        slow.sendall(head.encode() + b'{"secret"')
        slow.settimeout(120)
        assert b" 408 " in slow.recv(200)


def test_search_finds_pages_intents_files_sessions_and_records(agent: Agent, browser: Browser) -> None:
    agent.write("src/payment.py", "x\n")

    def find(words: str) -> list[tuple[str, str]]:
        return [(hit["kind"], hit["address"]) for hit in browser.get(f"/search.json?q={words}").data["hits"]]

    assert ("page", "/r/repo/metrics") in find("met")
    assert ("intent", "/r/repo/intents/INT-001") in find("names")
    assert ("file", "/r/repo/code/src/payment.py") in find("payment")
    assert ("session", "/r/repo/sessions/session-1") in find("session-1")
    assert any(kind == "record" for kind, _ in find("payment"))
    navigation = browser.get("/r/repo/intents").text.partition("<nav")[2].partition("</nav>")[0]
    assert set(re.findall(r'href="([^"?#]+)"', navigation)) <= {address for _, address in find("")}
    assert find("nothing-like-this") == []
    assert json.loads(browser.get("/search.json?q=x&repo=none").body)["error"]["code"] == 404
