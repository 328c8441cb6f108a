"""The ledger's search over all records, in windows, and the neighbours of a record in what was filtered."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from conftest import run_git
from console.console_world import Browser, serving
from console.large_session import make_long_session

EVENTS = 3_600  # 300 of them have the word pytest, the oldest one is far back
LEDGER = "/r/repo/ledger"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    home, root = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work") / "repo"
    make_repository(root)
    make_long_session(root, home, EVENTS)
    with serving(home) as server:
        found = Browser(server)
        found.pair()
        yield found


def make_repository(root: Path) -> None:
    root.mkdir()
    (root / "src").mkdir()
    (root / "src" / "app.py").write_text("one\n")
    run_git(root, "init", "-q", "-b", "main")
    run_git(root, "add", "-A")
    run_git(root, "-c", "user.name=A Person", "-c", "user.email=person@example.org", "commit", "-qm", "first")


def test_words_find_all_records_that_have_them_window_by_window(browser: Browser) -> None:
    found: list[str] = []
    while True:
        page = browser.get(f"{LEDGER}.json?q=edit&skip={len(found)}").data
        found += [row["id"] for row in page["rows"]]
        assert page["total"] == 3_000
        if not page["has_older"]:
            break
        assert len(page["rows"]) == 100
    assert len(found) == len(set(found)) == 3_000
    last = browser.get(f"{LEDGER}.json?{urlencode({'q': 'pytest', 'event': 'tool_use', 'skip': 299})}").data
    assert (last["total"], [row["about"] for row in last["rows"]]) == (300, ["Bash pytest -q tests/10"])
    assert "300 to 300 of 300" not in browser.get(f"{LEDGER}?q=pytest").text
    assert "1 to 100 of 300" in browser.get(f"{LEDGER}?q=pytest").text


def test_a_record_has_its_neighbours_in_what_was_filtered(browser: Browser) -> None:
    for query in ({}, {"event": "denied"}, {"q": "pytest"}, {"path": "src/module_3.py"}):
        rows = browser.get(f"{LEDGER}.json?{urlencode(query)}").data["rows"]
        newest, middle, older = (row["id"] for row in rows[:3])
        shown = browser.get(f"/r/repo/records/{middle}.json?{urlencode(query)}").data
        assert (shown["newer"], shown["older"]) == (newest, older), query
        top = browser.get(f"/r/repo/records/{newest}.json?{urlencode(query)}").data
        assert (top["newer"], top["older"]) == (None, middle), query
    page = browser.get(f"{LEDGER}?event=denied").text
    first = browser.get(f"{LEDGER}.json?event=denied").data["rows"][0]["id"]
    assert f'href="/r/repo/records/{first}?event=denied"' in page
    record = browser.get(f"/r/repo/records/{first}?event=denied").text
    assert "data-older" in record
    assert "data-newer" not in record
    assert browser.get(f"/r/repo/records/{first}?since=x").status == 400
