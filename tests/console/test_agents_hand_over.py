"""A person changes which session works under which intent, on the page Agents."""

from pathlib import Path
from typing import Any

from conftest import run_git
from console.console_world import Browser
from console.test_console_agents import (
    INTENTS,
    age_calls,
    agents,
    browser,
    first,
    hold,
    lanes,
    second,
    server,
)
from gate.driving import Agent, governed, records

__all__ = ["browser", "first", "second", "server"]


def intents_of(browser: Browser, agent: Agent) -> dict[str, str | None]:
    return {name: lane["session"]["intent_id"] for name, lane in lanes(agents(browser, agent)).items()}


def newest(agent: Agent, event: str) -> dict[str, Any]:
    return dict(records(agent.cwd, event)[-1]["metadata"]["dev.remit"])


def test_a_person_puts_a_session_under_another_intent_or_none(first: Agent, second: Agent, browser: Browser) -> None:
    at = f"/r/{first.cwd.name}/agents/intent"
    body = {"session_id": "session-one", "shown_intent": "INT-001", "intent_id": "INT-002"}
    assert browser.post(at, body).status == 200
    assert intents_of(browser, first)["session-one"] == "INT-002"
    selected = newest(first, "intent_selected")
    assert (selected["session_id"], selected["by"]) == ("session-one", "person")
    late = browser.post(at, body)
    assert (late.status, "works under INT-002 by now" in late.text) == (409, True)
    assert browser.post(at, {**body, "shown_intent": "INT-002", "intent_id": "INT-404"}).status == 409
    assert browser.post(at, {**body, "shown_intent": "INT-002", "intent_id": ""}).status == 200
    assert first.write("src/app.py", "x\n")["permissionDecision"] == "deny"
    assert browser.post(at, {**body, "session_id": "nobody"}).status == 404
    assert browser.post(at, body, proof="").status == 401


def test_an_intent_goes_to_another_session_and_a_lost_call_lets_go(
    first: Agent, second: Agent, browser: Browser
) -> None:
    at = f"/r/{first.cwd.name}/agents/hand-over"
    hold(first, "src/app.py")
    body = {"intent_id": "INT-001", "session_id": "session-one", "to_session": "session-two"}
    busy = browser.post(at, body)
    assert (busy.status, "call under way" in busy.text) == (409, True)
    assert intents_of(browser, first) == {"session-one": "INT-001", "session-two": "INT-002"}
    (first.cwd / "src" / "app.py").write_text("held\n")  # the agent died after this
    age_calls(first, 120)
    assert "Hand over" in browser.get(f"/r/{first.cwd.name}/agents").text
    done = browser.post(at, body)
    assert (done.status, done.data["released"]) == (200, 1)
    assert intents_of(browser, first) == {"session-one": None, "session-two": "INT-001"}
    changed = newest(first, "mutation")
    assert (changed["session_id"], [file["path"] for file in changed["files"]]) == ("session-one", ["src/app.py"])
    second.read("src/app.py")
    assert second.write("src/app.py", "two\n").get("permissionDecision", "allow") == "allow"
    assert browser.post(at, body).status == 409
    assert browser.post(at, {**body, "to_session": "session-one"}).status == 400


def test_an_intent_goes_to_a_session_in_another_worktree(
    first: Agent, second: Agent, browser: Browser, tmp_path: Path
) -> None:
    run_git(first.cwd, "add", "-A")
    run_git(first.cwd, "commit", "-qm", "govern")
    run_git(first.cwd, "worktree", "add", "-q", "-b", "feature", str(tmp_path / "elsewhere"))
    third = Agent(tmp_path / "elsewhere", first.home, "session-three")
    governed(third.cwd, intents=INTENTS)
    third.select("INT-002")
    body = {"intent_id": "INT-001", "session_id": "session-one", "to_session": "session-three"}
    done = browser.post(f"/r/{first.cwd.name}/agents/hand-over", body)
    assert done.status == 200, done.text
    assert intents_of(browser, first) == {
        "session-one": None,
        "session-two": "INT-002",
        "session-three": "INT-001",
    }
