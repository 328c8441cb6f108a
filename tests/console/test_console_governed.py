"""The pages Coverage and Try a call over a real socket: what the commands say, with the next step."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cli.running import data, remit
from console.console_world import Browser, serving
from gate.driving import Agent, governed, records
from remit.console.server import ConsoleServer
from remit.core.decision import Grant
from remit.gate.gate import Gate
from remit.workspace.place.workspace import register_repository, workspace_at

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    (home / ".claude").mkdir()
    remit(repository, "init", "--yes", "--agent", "claude-code", "--mode", "enforce")
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    found.write("src/app.py", "two\n")
    found.write("docs/a.md", "not in the scope\n")
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


def shown(browser: Browser, agent: Agent, query: str = "") -> dict[str, Any]:
    found = browser.get(f"/r/{agent.cwd.name}/governed.json{query}")
    assert found.status == 200, found.text
    return dict(found.data)


def claude(browser: Browser, agent: Agent) -> dict[str, Any]:
    return next(each for each in shown(browser, agent)["agents"] if each["agent"] == "claude-code")


def simulate(browser: Browser, agent: Agent, **query: str) -> Any:
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    return browser.get(f"/r/{agent.cwd.name}/governed/simulate.json?{asked}")


def test_the_page_says_what_the_command_says(agent: Agent, browser: Browser) -> None:
    assert shown(browser, agent)["status"] == data(agent.cwd, "status")
    assert shown(browser, agent, "?suggest=1")["suggestion"] == data(agent.cwd, "mode", "suggest")


def test_a_removed_hook_turns_the_agent_s_row_red(agent: Agent, browser: Browser) -> None:
    before = claude(browser, agent)
    assert (before["is_wired"], before["level"], before["denied"], before["changed"], before["judged"]) == (
        True,
        "ok",
        1,
        1,
        1,
    )
    [settings] = [path for path in (agent.home / ".claude").glob("settings*.json") if "hooks" in path.read_text()]
    document = json.loads(settings.read_text())
    del document["hooks"]["PreToolUse"]
    settings.write_text(json.dumps(document))
    after = claude(browser, agent)
    assert (after["is_wired"], after["level"], after["fix"]) == (False, "fail", "remit doctor --fix")
    page = browser.get(f"/r/{agent.cwd.name}/governed").text
    assert "✗ broken" in page
    assert "its calls go by unjudged" in page
    settings.write_text("{")
    assert claude(browser, agent)["level"] == "fail"


def test_sub_agents_and_mcp_calls_are_counted(agent: Agent, browser: Browser) -> None:
    below = Agent(agent.cwd, agent.home, agent_id="sub-1")
    below.write("src/b.py", "b\n")
    call = agent.ask("mcp__db__query", sql=HOSTILE)
    agent.tell("mcp__db__query", call["call_id"], sql=HOSTILE)
    found = claude(browser, agent)
    assert (found["by_subagents"] > 0, found["by_mcp"]) == (True, 1)


def test_what_nobody_judged_is_named_with_its_record(agent: Agent, browser: Browser) -> None:
    path = agent.cwd / "src" / HOSTILE.replace("/", "_")
    path.write_text("behind\n")
    agent.tell("Write", "never-asked", file_path=str(path), content="behind\n")
    [change] = shown(browser, agent)["status"]["coverage"]["changes"]
    assert (change["why"], change["writers"]) == ("the call never asked", [f"session {agent.session}"])
    page = browser.get(f"/r/{agent.cwd.name}/governed").text
    assert "<img" not in page
    assert f"/records/{change['record']}" in page


def test_a_simulated_call_is_decided_as_by_the_command_and_leaves_nothing(agent: Agent, browser: Browser) -> None:
    count = len(records(agent.cwd))
    for query, words in (
        ({"command": "git push --force"}, ("--command", "git push --force")),
        ({"command": "ls", "intent": "INT-001"}, ("--command", "ls", "--intent", "INT-001")),
        ({"write": "docs/a.md", "intent": "INT-001"}, ("--write", "docs/a.md", "--intent", "INT-001")),
        ({"write": "src/app.py", "session": agent.session}, ("--write", "src/app.py", "--session", agent.session)),
        ({"command": f"rm -rf '{HOSTILE}'"}, ("--command", f"rm -rf '{HOSTILE}'")),
    ):
        found = simulate(browser, agent, **query)
        assert found.status == 200, found.text
        assert found.data["answer"] == data(agent.cwd, "policy", "test", *words), query
    assert found.data["answer"]["verdict"] != "allow"
    assert simulate(browser, agent, write="docs/a.md", intent="INT-001").data["hints"] == {
        "SCOPE_VIOLATION": "request_scope_expansion"
    }
    assert len(records(agent.cwd)) == count
    page = browser.get(f"/r/{agent.cwd.name}/governed/simulate?command={quote(f'echo {HOSTILE}')}").text
    assert "<img" not in page


def test_a_wrong_question_is_answered_with_the_next_step(agent: Agent, browser: Browser) -> None:
    for query, status in (
        ({"command": "ls", "write": "a"}, 400),
        ({"command": "ls", "intent": "INT-999"}, 400),
        ({"command": "ls", "session": "nobody"}, 404),
        ({"write": "../../etc/passwd"}, 200),
        ({"command": "\x00"}, 200),
        ({}, 200),
    ):
        found = simulate(browser, agent, **query)
        assert found.status == status, (query, found.text)


def test_grants_are_listed_and_revoked(agent: Agent, browser: Browser) -> None:
    gate = Gate.open(agent.cwd, agent.environment)
    gate.state.put_grant(Grant("g-1", "SCOPE_VIOLATION", "session", pattern="docs/*", session_id=agent.session))
    gate.close()
    assert shown(browser, agent)["grants"] == data(agent.cwd, "approvals", "list")["grants"]
    assert browser.post(f"/r/{agent.cwd.name}/grants/g-1/revoke", {}).status == 200
    assert shown(browser, agent)["grants"] == []


def test_the_mode_is_set_by_a_signed_write_alone(agent: Agent, browser: Browser) -> None:
    at = f"/r/{agent.cwd.name}/mode"
    assert browser.post(at, {"mode": "observe", "shown": "enforce"}, proof="").status == 401
    assert browser.post(at, {"mode": "observe", "shown": "warn"}).status == 409
    assert browser.post(at, {"mode": "off", "shown": "enforce"}).status == 400
    assert browser.post(at, {"mode": "warn", "shown": "enforce"}).data == {"mode": "warn"}
    assert data(agent.cwd, "mode")["mode"] == "warn"


def test_broken_settings_of_the_repository_are_said(agent: Agent, browser: Browser) -> None:
    (agent.cwd / ".orchestration" / "remit.toml").write_text("[share\n")
    (agent.cwd / ".orchestration" / "active_intents.yaml").write_text("active_intents: [\n")
    page = browser.get(f"/r/{agent.cwd.name}/governed")
    assert page.status == 200, page.text
    assert "The intents file has" in page.text
    assert simulate(browser, agent, command="touch a").data["answer"]["verdict"] == "deny"
    assert browser.post(f"/r/{agent.cwd.name}/mode", {"mode": "observe", "shown": "enforce"}).status in (400, 409)
