"""The page Agents over a real socket: lanes by worktree, what two agents share, who waits, calls that never ended."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from console.console_world import Browser, serving
from gate.driving import Agent, governed, records
from remit.console.pages.agents import describe_agents
from remit.console.server import ConsoleServer
from remit.core.diff.contents import sha256
from remit.gate.gate import Gate
from remit.workspace.place.workspace import register_repository, workspace_at

HOSTILE = "<img src=x onerror=alert(1)>\u202e"

INTENTS = """\
version: "1.0"
active_intents:
  - id: INT-001
    name: Names
    status: IN_PROGRESS
    owned_scope: ["src/**"]
    constraints: [none]
    acceptance_criteria: [it works]
  - id: INT-002
    name: Main
    status: IN_PROGRESS
    owned_scope: ["docs/**", "src/app.py"]
    constraints: [none]
    acceptance_criteria: [it works]
"""


@pytest.fixture
def first(repository: Path, home: Path) -> Agent:
    governed(repository, intents=INTENTS)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home, "session-one")
    found.select("INT-001")
    return found


@pytest.fixture
def second(first: Agent) -> Agent:
    found = Agent(first.cwd, first.home, "session-two")
    found.select("INT-002")
    return found


@pytest.fixture
def server(second: Agent) -> Iterator[ConsoleServer]:
    with serving(second.home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


def agents(browser: Browser, agent: Agent) -> dict[str, Any]:
    found = browser.get(f"/r/{agent.cwd.name}/agents.json")
    assert found.status == 200, found.text
    return dict(found.data)


def lanes(shown: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {lane["session"]["session_id"]: lane for tree in shown["worktrees"] for lane in tree["lanes"]}


def hold(agent: Agent, path: str) -> dict[str, Any]:
    """A write that is allowed and has not ended."""
    return agent.ask("Write", "held", file_path=str(agent.cwd / path), content="held\n")


def age_calls(agent: Agent, seconds: float) -> None:
    """Calls under way began that much earlier."""
    gate = Gate.open(agent.cwd, agent.environment)
    place = gate.state.path
    gate.close()
    with sqlite3.connect(place) as database:
        database.execute("UPDATE calls SET at = at - ?", (seconds,))


def test_two_agents_that_write_one_file_are_seen_and_no_byte_is_lost(
    first: Agent, second: Agent, browser: Browser
) -> None:
    first.write("src/app.py", "one\n")
    second.read("src/app.py")
    first.read("src/app.py")
    second.write("src/app.py", "one\ntwo\n")
    stale = first.write("src/app.py", "three\n")
    assert "changed" in str(stale)
    assert sha256((first.cwd / "src" / "app.py").read_bytes()) == sha256(b"one\ntwo\n")
    shown = agents(browser, first)
    assert {name: lane["changed"] for name, lane in lanes(shown).items()} == {
        "session-one": ["src/app.py"],
        "session-two": ["src/app.py"],
    }
    [cell] = shown["matrix"][1]["cells"]
    assert cell["changed"] == ["src/app.py"]
    page = browser.get(f"/r/{first.cwd.name}/agents").text
    assert "1 changed by both" in page


def test_scopes_that_meet_are_seen_before_anything_is_written(first: Agent, second: Agent, browser: Browser) -> None:
    [cell] = agents(browser, first)["matrix"][1]["cells"]
    assert (cell["changed"], cell["owned"], cell["sample"]) == ([], 1, ["src/app.py"])


def test_who_waits_for_a_held_file_and_for_whom(first: Agent, second: Agent, browser: Browser) -> None:
    hold(first, "src/app.py")
    refused = second.write("src/app.py", "two\n")
    assert refused["permissionDecision"] == "deny"
    shown = agents(browser, first)
    assert [(w["session_id"], w["path"], w["held_by"], w["is_held"]) for w in shown["waits"]] == [
        ("session-two", "src/app.py", "session-one", True)
    ]
    [call] = lanes(shown)["session-one"]["running"]
    assert (call["paths"], call["is_stale"]) == (["src/app.py"], False)
    assert "holds it still" in browser.get(f"/r/{first.cwd.name}/agents").text


def test_a_call_that_never_ended_is_released_and_its_change_recorded(
    first: Agent, second: Agent, browser: Browser
) -> None:
    hold(first, "src/app.py")
    (first.cwd / "src" / "app.py").write_text("held\n")  # the agent died after this
    body = {"row": lanes(agents(browser, first))["session-one"]["running"][0]["row"], "session_id": "session-one"}
    body["worktree"] = str(first.cwd)
    at = f"/r/{first.cwd.name}/agents/release"
    early = browser.post(at, body)
    assert (early.status, "for a while yet" in early.text) == (409, True)
    age_calls(first, 120)
    assert "Release" in browser.get(f"/r/{first.cwd.name}/agents").text
    assert browser.post(at, body, proof="").status == 401
    assert browser.post(at, {**body, "worktree": "/etc"}).status == 404
    assert browser.post(at, body).status == 200
    assert browser.post(at, body).status == 409
    changed = records(first.cwd, "mutation")[-1]["metadata"]["dev.remit"]
    assert (changed["session_id"], [file["path"] for file in changed["files"]]) == ("session-one", ["src/app.py"])
    assert lanes(agents(browser, first))["session-one"]["running"] == []


def test_lanes_stand_below_their_worktree(first: Agent, second: Agent, browser: Browser, tmp_path: Path) -> None:
    run_git(first.cwd, "add", "-A")
    run_git(first.cwd, "commit", "-qm", "govern")
    name = f"wt {HOSTILE.replace('/', '_')}"
    run_git(first.cwd, "worktree", "add", "-q", "-b", "feature", str(tmp_path / name))
    third = Agent(tmp_path / name, first.home, "session-three")
    governed(third.cwd, intents=INTENTS)
    third.select("INT-001")
    third.write("src/new.py", "new\n")
    run_git(third.cwd, "add", "-A")
    run_git(third.cwd, "commit", "-qm", "work")
    shown = agents(browser, first)
    found = {tree["branch"]: tree for tree in shown["worktrees"]}
    assert [lane["session"]["session_id"] for lane in found["feature"]["lanes"]] == ["session-three"]
    assert found["feature"]["ahead"] == 1
    assert "session-three" not in [lane["session"]["session_id"] for lane in found["main"]["lanes"]]
    page = browser.get(f"/r/{first.cwd.name}/agents")
    assert (page.status, "<img" in page.text, "\u202e" in page.text) == (200, False, False)
    run_git(first.cwd, "worktree", "lock", str(tmp_path / name))
    (tmp_path / name).rename(tmp_path / "moved")
    gone = {tree["branch"]: tree for tree in agents(browser, first)["worktrees"]}
    assert gone["feature"]["problem"]


def test_one_agent_alone_has_nothing_to_coordinate(repository: Path, home: Path) -> None:
    governed(repository, intents=INTENTS)
    register_repository(home, workspace_at(repository, repository))
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        assert "its lane appears" in browser.get(f"/r/{repository.name}/agents").text
        Agent(repository, home).select()
        assert "nothing to coordinate" in browser.get(f"/r/{repository.name}/agents").text


def test_the_page_costs_little(first: Agent, second: Agent) -> None:
    gate = Gate.open(first.cwd, first.environment)
    describe_agents(gate, first.cwd.name)
    before = sum(os.times()[:4])
    assert describe_agents(gate, first.cwd.name).worktrees
    assert sum(os.times()[:4]) - before < 5  # of the processor, git's part too: some 0.1 s, whoever else runs
    gate.close()
