"""The page of a session over a real socket: windows, rows of calls, search, links to records, the newest records."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.console_world import Browser, serving
from console.large_session import SESSION, append_events, make_long_session
from gate.driving import governed, records
from provenance.speaker import Speaker
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at

EVENTS = 1500
SECRET = "AKIAQ3EGTUV5XW7YZ2BC"


@pytest.fixture
def long(repository: Path, home: Path) -> Path:
    make_long_session(repository, home, EVENTS)
    return repository


@pytest.fixture
def server(home: Path) -> Iterator[ConsoleServer]:
    with serving(home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


def page_of(folder: Path, session: str = SESSION) -> str:
    return f"/r/{folder.name}/sessions/{session}"


def test_a_window_has_the_records_it_names_and_never_more(long: Path, browser: Browser) -> None:
    newest = browser.get(f"{page_of(long)}.json").data
    assert (newest["total"], newest["start"], newest["end"]) == (EVENTS, EVENTS - 120, EVENTS)
    window = browser.get(f"{page_of(long)}.json?from=300&to=360").data
    assert (window["start"], window["end"]) == (300, 360)
    assert sum(len(row["records"]) for row in window["rows"]) == 60
    everything = browser.get(f"{page_of(long)}.json?from=0&to={EVENTS}").data
    assert everything["end"] == 400
    assert browser.get(f"{page_of(long)}.json?from=999999").data["start"] == EVENTS - 1


def test_the_records_of_a_call_are_one_row_and_the_gravest_names_it(long: Path, browser: Browser) -> None:
    rows = browser.get(f"{page_of(long)}.json?from=0&to=12").data["rows"]
    first = rows[0]
    assert (first["name"], len(first["records"]), first["badge"], first["kind"]) == ("Edit", 3, "", "write")
    assert (first["added"], first["removed"]) == (1, 1)
    assert "denied" in [row["badge"] for row in rows]
    filtered = browser.get(f"{page_of(long)}.json?kind=denied").data
    assert {row["meaning"] for row in filtered["rows"]} == {"denied"}
    assert filtered["total"] == EVENTS // 12


def test_a_link_to_a_record_opens_the_window_around_it(long: Path, browser: Browser) -> None:
    wanted = str(records(long)[700]["id"])
    data = browser.get(f"{page_of(long)}.json?e={wanted}").data
    assert data["start"] <= 700 < data["end"]
    assert data["peek"]["row"]["id"] == wanted
    page = browser.get(f"{page_of(long)}?e={wanted}").text
    assert re.search(r'<tr [^>]*class="[^"]*chosen"', page)


def test_the_panel_has_the_changes_of_the_whole_call(repository: Path, home: Path, browser: Browser) -> None:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    agent = Speaker(repository, home, session="talk")
    agent.select()
    agent.write("src/app.py", "def other():\n    return 2\n")
    first = browser.get(f"{page_of(repository, 'talk')}.json").data["rows"][-1]
    assert (first["name"], first["kind"], len(first["records"])) == ("Write", "write", 3)
    for record in first["records"]:
        peek = browser.get(f"{page_of(repository, 'talk')}.json?e={record}").data["peek"]
        assert [(file["path"], "+    return 2" in file["diff"]) for file in peek["files"]] == [("src/app.py", True)]
        assert peek["together"]["records"] == first["records"]


def test_words_find_a_record(long: Path, browser: Browser) -> None:
    data = browser.get(f"{page_of(long)}.json?q=tests/1270").data
    assert [row["about"] for row in data["rows"]] == ["pytest -q tests/1270"]
    assert "No record of this session fits" in browser.get(f"{page_of(long)}?q=nosuchword").text
    assert browser.get(f"{page_of(long)}?q=++").status == 200
    assert browser.get(f"{page_of(long)}?q=%21%21").status == 400


def test_the_newest_records_are_read_on_from_a_position_without_gap_or_repeat(
    long: Path, home: Path, browser: Browser
) -> None:
    tail = f"/r/{long.name}/sessions/{SESSION}/tail"
    assert browser.get(f"{tail}.json?from={EVENTS}").data == {"total": EVENTS, "start": EVENTS, "rows": []}
    append_events(long, home, 30, start=EVENTS)
    data = browser.get(f"{tail}.json?from={EVENTS}").data
    ids = [record for row in data["rows"] for record in row["records"]]
    assert ids == [str(record["id"]) for record in records(long)[-30:]]
    part = browser.get(f"{tail}?from={EVENTS}", Remit_Part="rows")
    assert part.headers["remit-total"] == str(EVENTS + 30)
    assert part.text.count("<tr ") == len(data["rows"])
    far_behind = browser.get(f"{tail}.json?from=0").data
    assert far_behind["start"] == EVENTS + 30 - 400


def test_tree_and_feed_tell_prompts_calls_and_outcomes(repository: Path, home: Path, browser: Browser) -> None:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    agent = Speaker(repository, home, session="talk")
    agent.send("SessionStart", source="startup", model="claude-sonnet-5")
    agent.add("user", "Rename <b>it</b>")
    agent.says("I rename it.")
    agent.select()
    agent.ask("Write", file_path=str(agent.cwd / "docs" / "x.md"), content="x")
    agent.write("src/app.py", f"key = '{SECRET}'\n")
    child = Speaker(repository, home, session="talk", agent_id="a1b2c3")
    child.add("user", "look around", isSidechain=True)
    child.read("README.md")
    for form in ("tree", "feed"):
        data = browser.get(f"{page_of(repository, 'talk')}.json?form={form}").data
        turns: list[dict[str, Any]] = data["story"]["turns"]
        calls = [node["step"] for turn in turns for node in turn["nodes"] if node["step"]["kind"] == "call"]
        assert "deny" in [call["verdict"] for call in calls]
        assert "a1b2c3" in [node["below"][0]["agent_id"] for turn in turns for node in turn["nodes"] if node["below"]]
        page = browser.get(f"{page_of(repository, 'talk')}?form={form}").text
        assert "SCOPE_VIOLATION" in page
        assert "<b>it</b>" not in page
        assert SECRET not in page
        assert "Rename &lt;b&gt;it&lt;/b&gt;" in page
    assert browser.get(f"{page_of(repository, 'talk')}.json").data["title"] == "Rename <b>it</b>"
    assert browser.get(f"{page_of(repository, 'talk')}?form=dance").status == 400
    change = str(records(repository, "mutation")[-1]["id"])
    peek = browser.get(f"{page_of(repository, 'talk')}?e={change}").text
    assert SECRET not in peek
    assert "redacted" in peek.lower()


def test_the_list_says_what_each_session_is_about_and_whether_it_works(
    repository: Path, home: Path, browser: Browser
) -> None:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    for session in ("one", "two"):
        agent = Speaker(repository, home, session=session)
        agent.add("user", f"Task {session}")
        agent.select()
        agent.write(f"src/{session}.py", "x = 1\n")
    agent.send("SessionEnd", reason="exit")
    data = browser.get(f"/r/{repository.name}/sessions.json").data
    assert data["titles"] == {"one": "Task one", "two": "Task two"}
    assert data["statuses"] == {"one": "working", "two": "ended"}


def test_an_unknown_session_says_so(long: Path, browser: Browser) -> None:
    assert browser.get(f"{page_of(long, 'nobody')}.json").status == 404
