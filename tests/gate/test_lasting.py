"""Where nothing is enforced, one thing is held back all the same: what neither git nor a snapshot brings back."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.running import remit
from gate.driving import Agent, allowed, body, governed, records, refusal
from gate.people.test_ask import Person
from remit.core.agents import ROWS
from remit.core.call import SessionKey, ToolCall
from remit.gate.gate import Gate
from remit.gate.people.questions import ApprovalReply

LASTING = (
    "git push --force origin main",
    "git push origin :main",
    "npm publish",
    "dropdb app",
    "dd if=/dev/zero of=/dev/sda",
    "git clean -fdx",
    "git stash clear",
    "rm -rf ~",
    "git reset --hard && git push -f",
    "git checkout . && rm -rf *",
)
KEPT = ("git reset --hard", "git clean -fd", "git checkout -- .", "git restore .", "git branch -D old")


@pytest.fixture(params=["observe", "warn"])
def agent(repository: Path, home: Path, request: pytest.FixtureRequest) -> Agent:
    return Agent(governed(repository, request.param), home)


def judged(agent: Agent, command: str, name: str = "codex") -> Any:
    """The gate's own answer, to an agent of that name."""
    call = ToolCall(
        name, SessionKey("s"), "Bash", "execute", str(agent.cwd), command=command, whole_workspace=True, call_id=command
    )
    return Gate.open(agent.cwd, agent.environment).before(call)


@pytest.mark.parametrize("command", LASTING)
def test_what_nothing_brings_back_is_put_to_the_person_by_an_agent_that_can_ask(agent: Agent, command: str) -> None:
    answer = agent.ask("Bash", command=command)
    assert answer["permissionDecision"] == "ask"
    assert "[COMMAND_BLOCKED]" in answer["permissionDecisionReason"]
    assert records(agent.cwd, "snapshot")
    [use] = [body(r) for r in records(agent.cwd, "tool_use")]
    assert (use["decision"]["effect"], use["decision"]["approved_by"]) == ("ask", None)


def test_an_agent_that_cannot_ask_is_refused_and_told_how_a_yes_is_given(agent: Agent) -> None:
    assert not ROWS["codex"].can_ask
    answer = judged(agent, "git push --force")
    assert answer.decision.effect == "deny"
    assert "nothing would bring back" in answer.reason
    assert "remit approvals watch" in answer.reason
    assert [body(r)["violation"]["error_type"] for r in records(agent.cwd, "denied")] == ["COMMAND_BLOCKED"]


def test_a_person_who_watches_is_asked_first_and_their_yes_is_in_the_record(agent: Agent, home: Path) -> None:
    with Person(agent.cwd, home) as person:
        assert allowed(agent.ask("Bash", command="git push --force"))
    assert [q.code for q in person.asked] == ["COMMAND_BLOCKED"]
    [use] = [body(r) for r in records(agent.cwd, "tool_use")]
    assert (use["decision"]["approved_by"], use["decision"]["grant"]) == ("person", "once")
    assert use["decision"]["verdict"] == "deny", "that there was no intent they did not waive"


def test_their_no_is_told(agent: Agent, home: Path) -> None:
    with Person(agent.cwd, home, ApprovalReply(False, "never on a Friday")):
        answer = agent.ask("Bash", command="git push --force")
    assert (answer["permissionDecision"], refusal(answer)) == ("deny", "COMMAND_BLOCKED")
    assert "never on a Friday" in answer["permissionDecisionReason"]


@pytest.mark.parametrize("command", KEPT)
def test_what_a_snapshot_or_git_brings_back_passes_and_how_is_told(agent: Agent, command: str) -> None:
    answer = agent.ask("Bash", command=command)
    assert allowed(answer)
    [kept] = [body(r) for r in records(agent.cwd, "snapshot")]
    assert f"remit restore {kept['id']}" in answer["additionalContext"]


def test_what_destroys_does_not_run_where_no_snapshot_can_be_made(agent: Agent) -> None:
    folder = Gate.open(agent.cwd, agent.environment).workspace.state
    own = folder / "objects.git"
    shutil.rmtree(own, ignore_errors=True)
    own.write_text("in the way of Remit's own repository")
    assert allowed(agent.ask("Bash", command="make x"))
    answer = agent.ask("Bash", command="git reset --hard")
    assert refusal(answer) == "HOOK_BLOCKED"
    assert "snapshot" in answer["permissionDecisionReason"]


def test_where_nothing_can_be_recorded_it_does_not_run_either(agent: Agent) -> None:
    state = Gate.open(agent.cwd, agent.environment).workspace.state / "state.db"
    state.unlink(missing_ok=True)
    state.mkdir()
    for command in ("git push --force", "git reset --hard"):
        assert refusal(agent.ask("Bash", command=command)) == "HOOK_BLOCKED"
    assert allowed(agent.ask("Bash", command="make x"))


def test_policy_test_says_the_same(agent: Agent) -> None:
    for command, effect in (("git push --force", "ask"), ("git reset --hard", "allow")):
        said = remit(agent.cwd, "policy", "test", "--command", command, "--json")
        assert json.loads(said)["data"]["effect"] == effect


def test_ordinary_commands_and_files_pass_unasked(agent: Agent) -> None:
    for command in ("make x", "git commit -m x", "git push origin main", "rm -rf build", "npm test", "killall node"):
        assert allowed(agent.ask("Bash", command=command)), command
    assert allowed(agent.write("anywhere/x.md", "x\n"))


def test_in_enforce_nothing_is_left_to_the_agents_own_question(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    assert agent.ask("Bash", command="git push --force")["permissionDecision"] == "deny"
