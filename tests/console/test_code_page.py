"""The page Code over a real socket: who wrote each line as `remit blame` says, windows, names that nobody expects."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conftest import run_git
from console.console_world import Browser, serving
from forked_commands import run_command
from gate.driving import Agent, governed
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at

NAMES = [
    "src/a b\nc.py",
    "src/<img src=x onerror=alert(1)>.py",
    "src/\u202egnp.exe",
    'src/"quoted".py',
    "src/#1?x=%2f.py",
    "-l.py",
]


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository, mode="warn")
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    for name in NAMES:
        found.write(name, "value = 1\n")
    found.write("src/app.py", "def compute_all():\n    total = compute_total()\n    return total\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "work")
    (repository / "src" / "app.py").write_text(
        "def compute_all():\n    total = compute_total()\n    return total\n\nHUMAN = 1\n"
    )
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


def remit(folder: Path, *words: str) -> Any:
    return json.loads(run_command(words, folder).stdout)["data"]


def test_origins_and_shares_are_those_of_blame(agent: Agent, browser: Browser) -> None:
    data = browser.get(f"/r/{agent.cwd.name}/code/src/app.py.json").data
    lines = remit(agent.cwd, "blame", "--json", "src/app.py")["lines"]
    assert data["has_origins"]
    assert [(line["block"]["origin"], line["block"]["record"]) for line in data["lines"]] == [
        (line["origin"], line["record"]) for line in lines
    ]
    assert [line["text"] for line in data["lines"]] == [line["content"] for line in lines]
    assert sum(data["shares"].values()) in (99, 100, 101)


def test_the_reason_of_a_line_is_that_of_why(agent: Agent, browser: Browser) -> None:
    data = browser.get(f"/r/{agent.cwd.name}/code/src/app.py.json?l=2").data
    assert data["why"] == remit(agent.cwd, "why", "--json", "src/app.py:2-2")
    part = browser.get(f"/r/{agent.cwd.name}/code/src/app.py?l=2", Remit_Part="why")
    assert "INT-001" in part.text
    assert "<html" not in part.text
    for wrong in ("0", "9-2", "x", "999"):
        assert browser.get(f"/r/{agent.cwd.name}/code/src/app.py?l={wrong}").status in (400, 404)


def test_the_text_comes_before_its_origins(agent: Agent, browser: Browser) -> None:
    address = f"/r/{agent.cwd.name}/code/src/app.py"
    first = browser.get(address).text
    assert "compute_total" in first
    waited = browser.get(f"{address}?wait=1", Remit_Part="source").text
    assert "data-coming" not in waited
    assert "data-blocks" in waited


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_opens_from_the_list(agent: Agent, browser: Browser, name: str) -> None:
    folder = name.rpartition("/")[0]
    listing = browser.get(f"/r/{agent.cwd.name}/code{f'/{folder}' if folder else ''}.json").data
    address = next(e["address"] for e in listing["entries"] if e["name"] == name.rpartition("/")[2])
    page = browser.get(f"/r/{agent.cwd.name}/code/{quote(address)}?wait=1")
    assert page.status == 200
    assert "<img" not in page.text
    assert "value = " in page.text
    data = browser.get(f"/r/{agent.cwd.name}/code/{quote(address)}.json").data
    assert [line["block"]["origin"] for line in data["lines"]] == [
        line["origin"] for line in remit(agent.cwd, "blame", "--json", "--", name)["lines"]
    ]


def test_a_name_outside_utf_8_opens(agent: Agent, browser: Browser) -> None:
    raw = os.fsencode(agent.cwd) + b"/src/caf\xe9.py"
    with open(raw, "w") as file:  # noqa: PTH123  no Path takes these bytes
        file.write("value = 1\n")
    listing = browser.get(f"/r/{agent.cwd.name}/code/src.json").data
    address = next(e["address"] for e in listing["entries"] if e["name"].startswith("caf"))
    assert browser.get(f"/r/{agent.cwd.name}/code/{quote(address)}").status == 200


def test_words_find_files(agent: Agent, browser: Browser) -> None:
    found = browser.get(f"/r/{agent.cwd.name}/code.json?find=APP+src").data["entries"]
    assert [entry["name"] for entry in found] == ["src/app.py"]
    assert "No file has these words" in browser.get(f"/r/{agent.cwd.name}/code?find=nothinglikethis").text


def test_a_long_file_is_shown_in_windows_and_strange_contents_as_they_are(agent: Agent, browser: Browser) -> None:
    src = agent.cwd / "src"
    (src / "long.py").write_text("".join(f"x{n} = {n}\n" for n in range(1000)))
    (src / "wide.py").write_text("x = '" + "<b>" * 20_000 + "'\n")
    (src / "data.py").write_bytes(b"\0\1\2")
    (src / "latin.py").write_bytes(b"x = '\xe9'\r\ny = 1\x0c\r\n")
    (src / "nothing.py").write_text("")
    (src / "link.py").symlink_to("/etc/passwd")
    address = f"/r/{agent.cwd.name}/code/src"
    window = browser.get(f"{address}/long.py.json?from=500").data
    assert [window["lines"][0]["number"], len(window["lines"]), window["total"]] == [501, 200, 1000]
    assert browser.get(f"{address}/long.py.json?from=99999").data["start"] == 999
    wide = browser.get(f"{address}/wide.py")
    assert (wide.status, len(wide.body) < 100_000, "<b>" in wide.text) == (200, True, False)
    assert "binary" in browser.get(f"{address}/data.py").text
    assert len(browser.get(f"{address}/latin.py.json").data["lines"]) == 2
    assert "This file is empty" in browser.get(f"{address}/nothing.py").text
    link = browser.get(f"{address}/link.py")
    assert (link.status, "root:" in link.text) == (404, False)


def test_an_older_version_is_shown_with_its_origins(agent: Agent, browser: Browser) -> None:
    address = f"/r/{agent.cwd.name}/code/src/app.py"
    data = browser.get(f"{address}.json?rev=HEAD").data
    assert [line["block"]["origin"] for line in data["lines"]] == ["ai"] * 3
    assert browser.get(f"{address}?rev=nowhere").status == 404
    assert browser.get(f"{address}?rev=--help").status == 404


def test_lines_of_a_reviewed_change_are_no_longer_unreviewed(agent: Agent, browser: Browser) -> None:
    address = f"/r/{agent.cwd.name}/code/src/app.py"
    block = browser.get(f"{address}.json").data["blocks"][0]
    assert block["reviewed"] is False
    body = {"hunks": ["x"], "records": [block["record"]], "reviewed": True}
    assert browser.post(f"/r/{agent.cwd.name}/changes/reviewed", body).status == 200
    assert browser.get(f"{address}.json?who=unreviewed").data["blocks"][0]["reviewed"] is True
    assert browser.get(f"{address}?who=nobody").status == 400


def test_lines_keep_their_intent_through_squash_and_rebase(agent: Agent, browser: Browser) -> None:
    run_git(agent.cwd, "checkout", "-q", "src/app.py")
    run_git(agent.cwd, "switch", "-qc", "side", "HEAD~1")
    (agent.cwd / "other.txt").write_text("other\n")
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-qm", "other")
    run_git(agent.cwd, "merge", "-q", "--squash", "main")
    run_git(agent.cwd, "commit", "-qm", "squashed")
    data = browser.get(f"/r/{agent.cwd.name}/code/src/app.py.json").data
    assert {line["block"]["intent_id"] for line in data["lines"]} == {"INT-001"}
