"""The conversation behind a line, from the transcripts that real agents leave."""

import json
from pathlib import Path

import pytest

from conftest import run_git
from e2e.test_four_agents import AGENTS, remit, wire_up
from remit.rehearsal.scripted_model import Say, ScriptedModel, Use

pytestmark = pytest.mark.live

PROMPT = "Please greet people, the key is sk-ant-api03-" + "a1B2" * 8
REASON = "The tests import it, so it goes into src/new.py."


@pytest.mark.parametrize("name", AGENTS)
def test_a_line_tells_what_was_asked_and_said(
    name: str, repository: Path, home: Path, request: pytest.FixtureRequest
) -> None:
    agent = AGENTS[name]
    request.getfixturevalue(agent.fixture)
    wire_up(repository, name)
    target = repository / "src" / "new.py"
    turns = [
        agent.shell("touch src/too_early.py"),
        Use(agent.remit_tool, {"intent_id": "INT-001", "reasoning": "asked to"}),
        (Say(REASON), agent.write(target, "x = 1\n")),
        Say("done"),
    ]
    with agent.wire(ScriptedModel(turns)).serve() as wire:
        agent.run(repository, home, wire.url, PROMPT)
        told = wire.tool_result_texts()
    assert target.exists(), told
    run_git(repository, "add", "src")
    run_git(repository, "commit", "-q", "-m", "Greet (#12)")
    found = json.loads(remit(repository, "why", "src/new.py:1", "--json"))["data"]
    [cause] = found["causes"]
    assert cause["talk"]["prompt"].replace("[redacted]", "") == "Please greet people, the key is "
    assert REASON in [said["text"] for said in cause["talk"]["said"]]
    assert cause["diff"].endswith("+x = 1\n")
    assert [commit["pull_request"] for commit in found["commits"]] == [12]
    words = remit(repository, "why", "src/new.py:1")
    assert f"said     {REASON}" in words
    story = json.loads(remit(repository, "session", "--json"))["data"]["steps"]
    assert [step["verdict"] for step in story if step["changed"]] == ["allow"]
    assert "deny" in [step["verdict"] for step in story]
    kept = b"".join(path.read_bytes() for path in (repository / ".git" / "remit").glob("transcripts.db*"))
    assert b"Please greet people" in kept
    assert b"a1B2a1B2" not in kept
