"""The pages Metrics and Ledger: figures as charts and tables, records in windows, a broken chain, exported records."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from console.console_world import Answered, Browser, serving
from console.hostile_world import ShownPage
from forked_commands import run_command
from gate.driving import Agent, governed, records
from remit.console.pages.metrics import HEIGHT, WIDTH, make_line, make_treemap
from remit.console.server import ConsoleServer
from remit.gate.gate import Gate
from remit.workspace.place.workspace import register_repository, workspace_at


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    found.write("src/app.py", "".join(f"line number {n} of many\n" for n in range(20)))
    found.write("docs/a.md", "not in the scope\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "work")
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


def ask_command(agent: Agent, *words: str) -> Any:
    return json.loads(run_command([*words, "--json"], agent.cwd).stdout)["data"]


def ask_findings(agent: Agent) -> list[dict[str, Any]]:
    return list(ask_command(agent, "ledger", "verify")["findings"])


def list_links(answer: Answered) -> list[str]:
    return [value for _, name, value in ShownPage(answer.text).values if name == "href"]


def test_a_treemap_fills_its_area_with_tiles_of_the_values_sizes() -> None:
    values = {f"INT-{n:03}": n * n + 1 for n in range(30)} | {"none": 400, "empty": 0}
    tiles = make_treemap(values)
    assert sum(tile.width * tile.height for tile in tiles) == pytest.approx(WIDTH * HEIGHT, rel=0.01)
    total = sum(values.values())
    for tile in tiles:
        assert tile.width * tile.height == pytest.approx(WIDTH * HEIGHT * tile.value / total, rel=0.05, abs=12)
        assert 0 <= tile.x <= tile.x + tile.width <= WIDTH + 0.1
        assert 0 <= tile.y <= tile.y + tile.height <= HEIGHT + 0.1
    shapes = sorted(max(tile.width / tile.height, tile.height / tile.width) for tile in tiles)
    assert shapes[len(shapes) // 2] < 2
    assert make_treemap({}) == make_treemap({"a": 0}) == []


def test_a_line_runs_from_edge_to_edge() -> None:
    assert make_line([0, 5, 10], 10, 100, 50) == "M0.0 50.0L50.0 25.0L100.0 0.0"
    assert make_line([], 1) == ""


def test_metrics_are_the_command_s_figures_as_charts_and_as_tables(agent: Agent, browser: Browser) -> None:
    page = f"/r/{agent.cwd.name}/metrics"
    data = browser.get(f"{page}.json").data
    assert data["data"] == ask_command(agent, "stats")
    assert [(bar["name"], bar["written"]) for bar in data["groups"]] == [("claude-code", 20)]
    assert data["groups"][0]["spark"].startswith("M0.0 18.0L")  # nothing two weeks ago
    assert data["groups"][0]["spark"].endswith("L90.0 0.0")  # most today
    assert [(tile["name"], tile["value"]) for tile in data["tiles"]] == [("INT-001", 20)]
    assert browser.get(f"{page}.json?by=intent").data["groups"][0]["name"] == "INT-001"
    assert data["days"][-1]["denied"] == len(records(agent.cwd, "denied")) == 1
    charts, tables = browser.get(page).text, browser.get(f"{page}?as=table").text
    main = charts[charts.index("<main") : charts.index("</main>")]
    assert "treemap" in main
    assert 'class="share-bar"' in main
    main = tables[tables.index("<main") : tables.index("</main>")]
    assert "<svg" not in main.replace('<svg class="icon"', "")
    for words in ("INT-001", "claude-code", "20"):
        assert words in main
    assert browser.get(f"{page}?by=person").status == 400
    assert browser.get(f"{page}?since=soon").status == 400
    assert browser.get(f"{page}?since=7d&by=model").status == 200


def test_metrics_are_measured_again_only_after_a_change(agent: Agent, server: ConsoleServer, browser: Browser) -> None:
    page = f"/r/{agent.cwd.name}/metrics.json"
    before = browser.get(page).data["data"]
    kept = server.console.repositories.heavy.answers
    (answer,) = kept.values()
    assert browser.get(page).data["data"] == before
    assert list(kept.values()) == [answer]
    agent.write("src/b.py", "another\n")
    assert browser.get(page).data["data"]["generated"] == before["generated"] + 1


def test_the_ledger_is_read_in_windows_by_filters_and_words(agent: Agent, browser: Browser) -> None:
    for n in range(120):
        agent.ask("Bash", command=f"echo number{n}")
    page = f"/r/{agent.cwd.name}/ledger"
    whole = browser.get(f"{page}.json").data
    assert (whole["total"], len(whole["rows"]), whole["has_older"]) == (len(records(agent.cwd)), 100, True)
    rest = browser.get(f"{page}.json?skip=100").data
    ids = [row["id"] for row in (*whole["rows"], *rest["rows"])]
    assert ids == [str(record["id"]) for record in records(agent.cwd)][::-1]
    assert not rest["has_older"]
    denied = browser.get(f"{page}.json?event=denied&agent=claude-code&since=1d&path=docs/a.md").data
    assert (denied["total"], [row["verb"] for row in denied["rows"]]) == (1, ["denied"])
    assert browser.get(f"{page}.json?until=1d").data["total"] == 0
    assert [row["about"] for row in browser.get(f"{page}.json?q=number77").data["rows"]] == ["Bash echo number77"]
    for query in ("since=soon", "skip=x", "q=%22"):
        assert browser.get(f"{page}?{query}").status == 400, query
    links = [
        value for _, name, value in ShownPage(browser.get(f"{page}?event=denied&q=docs").text).values if name == "href"
    ]
    assert {"?q=docs", "?event=denied"} <= set(links)


def test_a_record_s_page_leads_to_its_session_intent_and_file(agent: Agent, browser: Browser) -> None:
    record = records(agent.cwd, "mutation")[0]
    html = browser.get(f"/r/repo/records/{record['id']}").text
    links = [value for _, name, value in ShownPage(html).values if name == "href"]
    for link in (
        "/r/repo/sessions/session-1?e=" + str(record["id"]),
        "/r/repo/intents/INT-001",
        "/r/repo/code/src/app.py",
    ):
        assert link in links
        assert browser.get(link).status == 200
    assert "line number 3" in html


def test_a_flipped_byte_is_named_in_red_with_the_next_step(agent: Agent, browser: Browser) -> None:
    page = f"/r/{agent.cwd.name}/ledger"
    assert "The chain is whole" in browser.get(f"{page}?verify=1").text
    folder = Gate.open(agent.cwd).workspace.log_folder
    log = next(path for path in folder.rglob("*.jsonl") if b"claude-code" in path.read_bytes())
    lines = log.read_bytes().split(b"\n")
    place = next(n for n, line in enumerate(lines) if n and b"claude-code" in line)
    lines[place] = lines[place].replace(b"claude-code", b"claude-cody", 1)
    log.write_bytes(b"\n".join(lines))
    (finding,) = (f for f in ask_findings(agent) if f["severity"] == "error")
    shown = browser.get(f"{page}?verify=1")
    assert shown.status == 200
    assert 'class="finding error"' in shown.text
    assert f"Broken at #{finding['seq']}" in shown.text
    assert "remit doctor" in shown.text
    assert (
        browser.get(f"{page}.json?verify=1").data["chain"]["findings"]
        == ask_command(agent, "ledger", "verify")["findings"]
    )  # type: ignore[index]
    assert browser.get(page).status == 200


def test_records_are_exported_as_filtered(agent: Agent, browser: Browser) -> None:
    base = f"/r/{agent.cwd.name}/export"
    lines = browser.get(f"{base}/jsonl?event=denied")
    assert lines.headers["content-disposition"] == 'attachment; filename="records.jsonl"'
    assert [json.loads(line)["id"] for line in lines.text.splitlines()] == [records(agent.cwd, "denied")[0]["id"]]
    rows = list(csv.DictReader(browser.get(f"{base}/csv").text.splitlines()))
    assert len(rows) == len(records(agent.cwd))
    assert browser.get(f"{base}/xml").status == 404
    assert browser.get(f"{base}/csv?since=soon").status == 400
    stranger = Browser(browser.server)
    assert stranger.get(f"{base}/csv").status == 401
