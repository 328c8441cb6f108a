"""The page Changes over a real socket: its findings are those of `remit verify`, and a person's actions take effect."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from console.console_world import Browser, serving
from console.review_world import make_branch
from forked_commands import run_command
from gate.driving import Agent, records
from remit.console.server import ConsoleServer
from waiting import wait_until


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return make_branch(repository, home)


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


@pytest.fixture
def address(agent: Agent) -> str:
    return f"/r/{agent.cwd.name}/changes"


def remit(folder: Path, *words: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(run_command([*words, "--json"], folder).stdout)["data"]
    return data


def hunks(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [hunk for group in data["groups"] for hunk in group["hunks"]]


def find_hunk(data: dict[str, Any], path: str, *, committed: bool) -> str:
    return next(
        str(h["changed"]["id"]) for h in hunks(data) if (h["changed"]["path"], h["is_committed"]) == (path, committed)
    )


def test_findings_and_hunks_are_those_of_the_command(agent: Agent, browser: Browser, address: str) -> None:
    data = browser.get(f"{address}.json").data
    assert data["range"] == "main..HEAD"
    assert data["committed"] == remit(agent.cwd, "verify", "main..HEAD", "--hunks")
    assert data["uncommitted"] == remit(agent.cwd, "verify", "--uncommitted", "--hunks")
    found = [item["finding"] for item in data["look_first"]]
    asked = [*data["committed"]["findings"], *data["uncommitted"]["findings"]]
    assert sorted(map(str, found)) == sorted(map(str, asked))


def test_a_file_out_of_scope_comes_first_and_hunks_stand_below_their_intent(browser: Browser, address: str) -> None:
    data = browser.get(f"{address}.json").data
    first = data["look_first"][0]
    assert (first["finding"]["rule"], first["finding"]["path"]) == ("RMT001", "docs/design.md")
    assert first["hunk"] == find_hunk(data, "docs/design.md", committed=True)
    assert "RMT005" in [item["finding"]["rule"] for item in data["look_first"]]
    assert [group["intent_id"] for group in data["groups"]] == ["INT-001", "INT-002", ""]
    by_path = {(h["changed"]["path"], h["is_committed"]): h["changed"]["author"] for h in hunks(data)}
    assert by_path["src/tokens.py", True]["agent"] == "claude-code"
    assert by_path["src/tokens.py", False]["session_id"] == "session-1"
    assert by_path["docs/hooks.md", False]["intent_id"] == "INT-002"
    assert by_path["tests/test_tokens.py", True]["origin"] == "ai"
    assert by_path["src/keys.py", False]["intent_id"] is None


def test_the_page_comes_before_its_answers(browser: Browser, address: str) -> None:
    first = browser.get(address)
    assert (first.status, "Reading the changes" in first.text) == (200, True)
    part = browser.get(address, Remit_Part="review")
    assert "docs/design.md" in part.text
    assert "Reading the changes" not in part.text


def test_a_file_without_lines_to_show_is_named(agent: Agent, browser: Browser, address: str) -> None:
    (agent.cwd / "old.bin").write_bytes(b"\0\1")
    run_git(agent.cwd, "add", "old.bin")
    run_git(agent.cwd, "commit", "-qm", "binary")
    (agent.cwd / "old.bin").write_bytes(b"\0\2")
    (agent.cwd / "src" / "app.py").chmod(0o755)
    (agent.cwd / "data.bin").write_bytes(b"\0\1")
    (agent.cwd / "huge.txt").write_text("line\n" * 300_000)
    run_git(agent.cwd, "mv", "README.md", "READ.md")
    data = browser.get(f"{address}.json?only=uncommitted").data
    named = {each["path"]: each["what"] for each in data["lineless"]}
    assert named.keys() == {"data.bin", "huge.txt", "READ.md", "old.bin", "src/app.py"}
    assert named["READ.md"] == "renamed from README.md"
    page = browser.get(f"{address}?wait=1").text
    assert all(path in page for path in named)


def test_hostile_lines_are_text(browser: Browser, address: str) -> None:
    page = browser.get(f"{address}?wait=1").text
    assert "<img" not in page
    assert "\u202e" not in page
    assert "U+202E" in page


def test_a_mark_stays_until_the_hunk_changes(agent: Agent, browser: Browser, address: str) -> None:
    hunk = find_hunk(browser.get(f"{address}.json").data, "src/keys.py", committed=False)
    assert browser.post(f"{address}/reviewed", {"hunks": [hunk], "reviewed": True}).status == 200
    assert browser.get(f"{address}.json").data["reviewed"] == 1
    (agent.cwd / "src" / "keys.py").write_text("KEYS = {1}\n")
    wait_until(lambda: browser.get(f"{address}.json").data["reviewed"] == 0)  # an answer is given again for a second


@pytest.mark.parametrize("committed", [True, False])
def test_a_hunk_taken_back_leaves_the_bytes_from_before(
    agent: Agent, browser: Browser, address: str, committed: bool
) -> None:
    data = browser.get(f"{address}.json").data
    hunk = find_hunk(data, "src/tokens.py", committed=committed)
    before = run_git(agent.cwd, "show", "main:src/tokens.py" if committed else "HEAD:src/tokens.py")
    now = (agent.cwd / "src" / "tokens.py").read_text()
    wanted = now.replace("compare(header, body)", "header == body") if committed else before
    body = {"hunk": hunk, "range": "main..HEAD" if committed else ""}
    assert browser.post(f"{address}/revert", body).status == 200
    assert (agent.cwd / "src" / "tokens.py").read_text() == wanted
    assert browser.post(f"{address}/revert", body).status == 409
    (restore,) = records(agent.cwd, "restore")
    assert restore["metadata"]["dev.remit"]["paths"] == ["src/tokens.py"]
    assert "src/tokens.py" in json.dumps(remit(agent.cwd, "restore", "undo", "--preview"))


def test_a_hunk_without_a_last_newline_and_a_new_file_are_taken_back(
    agent: Agent, browser: Browser, address: str
) -> None:
    (agent.cwd / "README.md").write_bytes(b"# Example\r\nmore")
    data = browser.get(f"{address}.json").data
    for path in ("README.md", "docs/hooks.md"):
        body = {"hunk": find_hunk(data, path, committed=False), "range": ""}
        assert browser.post(f"{address}/revert", body).status == 200, path
    assert (agent.cwd / "README.md").read_bytes() == b"# Example\n"
    assert not (agent.cwd / "docs" / "hooks.md").exists()


def test_a_hunk_on_lines_that_changed_since_is_left_alone(agent: Agent, browser: Browser, address: str) -> None:
    hunk = find_hunk(browser.get(f"{address}.json").data, "src/tokens.py", committed=True)
    path = agent.cwd / "src" / "tokens.py"
    path.write_text(path.read_text().replace("compare(header, body)", "something_else()"))
    refused = browser.post(f"{address}/revert", {"hunk": hunk, "range": "main..HEAD"})
    assert refused.status == 409
    assert "same lines" in json.loads(refused.body)["error"]["message"]
    assert "something_else" in path.read_text()


def test_comments_reach_the_agent_as_one_message_with_its_next_call(
    agent: Agent, browser: Browser, address: str
) -> None:
    comments = [
        {"path": "src/tokens.py", "line": 3, "text": "use hmac.compare_digest here", "quote": "    return compare()"},
        {"path": "docs/design.md", "line": 1, "text": "why is this here?", "quote": ""},
    ]
    sent = browser.post(f"{address}/comments", {"session": agent.session, "comments": comments})
    assert sent.status == 200
    assert browser.get(f"{address}.json").data["waiting"] == ["claude-code"]
    heard = str(agent.read("README.md"))
    assert "2 comments" in heard
    assert browser.get(f"{address}.json").data["waiting"] == []
    assert "1. src/tokens.py:3: use hmac.compare_digest here" in heard
    assert "why is this here?" in heard
    assert "a person reviewed" not in str(agent.read("README.md"))
    (record,) = records(agent.cwd, "review_sent")
    assert record["metadata"]["dev.remit"]["session_id"] == agent.session


def test_what_cannot_be_sent_is_refused_and_nothing_is_lost(agent: Agent, browser: Browser, address: str) -> None:
    one = {"path": "src/tokens.py", "line": 3, "text": "x" * 7000, "quote": ""}
    assert browser.post(f"{address}/comments", {"session": "nobody", "comments": [one]}).status == 400
    assert browser.post(f"{address}/comments", {"session": agent.session, "comments": []}).status == 400
    assert browser.post(f"{address}/comments", {"session": agent.session, "comments": [one]}).status == 200
    assert browser.post(f"{address}/comments", {"session": agent.session, "comments": [one]}).status == 400
    assert "x" * 7000 in str(agent.read("README.md"))


def test_pages_that_wait_for_slow_commands_hold_up_no_decision(
    server: ConsoleServer, browser: Browser, address: str
) -> None:
    is_over = threading.Event()
    waiting = [server.console.readers.submit(is_over.wait, 120) for _ in range(40)]
    try:
        assert browser.post(f"{address}/reviewed", {"hunks": ["x"], "reviewed": True}).status == 200
        assert not any(each.done() for each in waiting)
    finally:
        is_over.set()


def test_marks_reverts_and_comments_need_a_signature(agent: Agent, browser: Browser, address: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "reviewed": {"hunks": [], "reviewed": True},
        "revert": {"hunk": "x"},
        "comments": {"session": agent.session, "comments": []},
    }
    for name, body in bodies.items():
        assert browser.post(f"{address}/{name}", body, proof="").status == 401


def test_nothing_changed_says_so(agent: Agent, browser: Browser, address: str) -> None:
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-qm", "all")
    page = browser.get(f"{address}?range=HEAD..HEAD&only=committed&wait=1")
    assert page.status == 200
    assert "Nothing changed since HEAD" in page.text
    assert browser.get(f"{address}?range=nowhere..HEAD&wait=1").status == 404
    assert browser.get(f"{address}?range=--output=x").status == 400
