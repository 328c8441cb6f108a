"""When a snapshot is taken, and what happens where none can be."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, allowed, body, governed, records, refusal
from remit.gate.gate import Gate
from remit.gate.restores import before
from remit.gate.snapshots import NEWEST, Snapshots


def agent_of(repository: Path, home: Path, mode: str) -> Agent:
    """An agent at work under an intent."""
    agent = Agent(governed(repository, mode), home)
    agent.select()
    return agent


def blocked(repository: Path) -> None:
    """Leave no place for a snapshot's ref."""
    refs = repository / ".git" / "refs" / "remit"
    refs.mkdir(exist_ok=True)
    (refs / "snapshots").write_text("in the way\n")


@pytest.mark.parametrize("mode", ["observe", "warn", "enforce"])
def test_before_a_command_that_may_change_files_there_is_a_snapshot(repository: Path, home: Path, mode: str) -> None:
    agent = agent_of(repository, home, mode)
    assert allowed(agent.shell("rm src/app.py"))
    [record] = [body(r) for r in records(repository, "snapshot")]
    assert record["intent_id"] == "INT-001"
    assert record["precedes"] == "call"
    assert run_git(repository, "show", f"{record['commit']}:src/app.py").startswith("def main")


def test_what_is_proved_read_only_and_what_a_file_tool_does_needs_none(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "enforce")
    agent.shell("git status")
    agent.write("src/new.py", "x = 1\n")
    assert records(repository, "snapshot") == []


def test_where_no_snapshot_can_be_made_enforce_refuses_the_command(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "enforce")
    blocked(repository)
    answer = agent.ask("Bash", command="rm src/app.py")
    assert refusal(answer) == "HOOK_BLOCKED"
    assert "snapshot" in answer["permissionDecisionReason"]
    assert body(records(repository, "denied")[-1])["violation"]["error_type"] == "HOOK_BLOCKED"


def test_where_no_snapshot_can_be_made_observe_lets_it_pass_and_says_so(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "observe")
    blocked(repository)
    answer = agent.ask("Bash", command="rm src/app.py")
    assert allowed(answer)
    assert "could not keep a snapshot" in answer["additionalContext"]


def test_a_session_begins_with_a_snapshot(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "observe")
    agent.send("SessionStart", source="startup")
    assert [body(r)["precedes"] for r in records(repository, "snapshot")] == ["session"]


def test_the_state_before_an_intent_is_that_before_its_first_command(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "enforce")
    for number in range(3):
        agent.shell(f"echo x = {number} > src/app.py")
    found = Gate.open(repository, agent.environment).snapshots.listed()
    assert before(found, "INT-001") == found[-1]
    assert before(found, "x = 1").occasion.command == "echo x = 1 > src/app.py"


def test_a_secret_in_a_command_is_not_in_the_snapshot(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "observe")
    agent.ask("Bash", command="TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789 make")
    [found] = Gate.open(repository, agent.environment).snapshots.listed()
    assert "ghp_" not in run_git(repository, "log", "-1", "--format=%B", found.ref)


def test_old_snapshots_go_and_the_newest_stay(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "observe")
    gate = Gate.open(repository, agent.environment)
    taking = Snapshots(gate)
    (repository / ".orchestration" / "remit.toml").write_text('mode = "observe"\n[snapshots]\nkeep_days = 0\n')
    for _ in range(NEWEST + 3):
        agent.ask("Bash", command="make")
    assert len(gate.snapshots.listed()) == NEWEST + 3
    assert taking.prune() == 3
    assert len(gate.snapshots.listed()) == NEWEST
