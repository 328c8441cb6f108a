"""When a snapshot is taken, and what happens where none can be."""

import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.driving import Agent, allowed, body, governed, records, refusal
from remit.gate.gate import Gate
from remit.gate.undo.restore import find_snapshot_before, open_restore
from remit.gate.undo.snapshots import DAY_S, MIN_KEPT_SNAPSHOTS, SnapshotTaker
from remit.workspace.snapshots.snapshot import PinnedSnapshots
from stepped_clock import SteppedClock


def agent_of(repository: Path, home: Path, mode: str) -> Agent:
    """An agent at work under an intent."""
    agent = Agent(governed(repository, mode), home)
    agent.select()
    return agent


def blocked(repository: Path) -> None:
    """Leave no place for the repository that holds snapshots."""
    (repository / ".git" / "remit" / "objects.git").write_text("in the way\n")


@pytest.mark.parametrize("mode", ["observe", "warn", "enforce"])
def test_before_a_command_that_may_change_files_there_is_a_snapshot(repository: Path, home: Path, mode: str) -> None:
    agent = agent_of(repository, home, mode)
    assert allowed(agent.shell("rm src/app.py"))
    [record] = [body(r) for r in records(repository, "snapshot")]
    assert record["intent_id"] == "INT-001"
    assert record["precedes"] == "call"
    own = repository / ".git/remit/objects.git"
    assert run_git(own, "show", f"{record['commit']}:src/app.py").startswith("def main")


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
    gate = Gate.open(repository, agent.environment)
    found = gate.snapshots.list_snapshots()
    assert find_snapshot_before(gate, found, "INT-001") == found[-1]
    assert find_snapshot_before(gate, found, "x = 1").occasion.command == "echo x = 1 > src/app.py"


def test_a_secret_in_a_command_is_not_in_the_snapshot(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "observe")
    agent.ask("Bash", command="TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789 make")
    [found] = Gate.open(repository, agent.environment).snapshots.list_snapshots()
    assert "ghp_" not in run_git(repository / ".git/remit/objects.git", "log", "-1", "--format=%B", found.ref)


def test_old_snapshots_go_and_the_newest_stay(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "observe")
    gate = Gate.open(repository, agent.environment)
    taking = SnapshotTaker(gate)
    (repository / ".orchestration" / "remit.toml").write_text('mode = "observe"\n[snapshots]\nkeep_days = 0\n')
    for _ in range(MIN_KEPT_SNAPSHOTS + 3):
        agent.ask("Bash", command="make")
    assert len(gate.snapshots.list_snapshots()) == MIN_KEPT_SNAPSHOTS + 3
    assert taking.prune_old() == 3
    assert len(gate.snapshots.list_snapshots()) == MIN_KEPT_SNAPSHOTS


def configured(repository: Path, rules: str) -> None:
    (repository / ".orchestration" / "remit.toml").write_text(f'mode = "observe"\n[snapshots]\n{rules}\n')


def taken(agent: Agent, count: int) -> list[str]:
    """So many snapshots, each of a file of some size of its own; their names, the newest first."""
    for number in range(count):
        (agent.cwd / "big").write_bytes(os.urandom(40_000) + b"%d" % number)
        agent.ask("Bash", command="make")
    gate = Gate.open(agent.cwd, agent.environment)
    found = [s.id for s in gate.snapshots.list_snapshots()]
    gate.close()
    return found


def test_while_all_take_too_much_room_the_oldest_go_and_what_is_pinned_stays(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "observe")
    names = taken(agent, MIN_KEPT_SNAPSHOTS + 8)
    configured(repository, "max_mib = 1")
    gate = Gate.open(repository, agent.environment)
    PinnedSnapshots(gate.workspace).pin(names[-1])
    dropped = SnapshotTaker(gate).prune_old()
    left = [s.id for s in gate.snapshots.list_snapshots()]
    assert dropped > 0
    assert set(names[:MIN_KEPT_SNAPSHOTS]) <= set(left)
    assert names[-1] in left
    assert names[-2] not in left


def test_what_fits_stays(repository: Path, home: Path) -> None:
    agent = agent_of(repository, home, "observe")
    names = taken(agent, MIN_KEPT_SNAPSHOTS + 3)
    gate = Gate.open(repository, agent.environment)
    assert SnapshotTaker(gate).prune_old() == 0
    assert [s.id for s in gate.snapshots.list_snapshots()] == names


def secret_kept(repository: Path, home: Path, rules: str) -> tuple[Agent, Gate]:
    (repository / ".env").write_text("KEY=one\n")
    agent = agent_of(repository, home, "observe")
    configured(repository, rules)
    agent.ask("Bash", command="make")
    return agent, Gate.open(repository, agent.environment)


def copies(gate: Gate) -> list[Path]:
    return [p for p in (gate.workspace.state / "snapshots" / "private").rglob("*") if p.is_file()]


def test_a_secret_is_kept_for_its_owners_eyes_and_goes_first(repository: Path, home: Path) -> None:
    agent, gate = secret_kept(repository, home, "secret_days = 3")
    [copy] = copies(gate)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    later = Gate.open(
        repository, replace(agent.environment, clock=SteppedClock(agent.environment.clock.now() + 4 * DAY_S))
    )
    assert SnapshotTaker(later).prune_old() == 0
    assert copies(gate) == []
    (repository / ".env").write_text("KEY=two\n")
    [point] = gate.snapshots.list_snapshots()
    done = open_restore(gate).restore(point)
    assert "secret_days" in done.plan.not_restorable[".env"]
    assert (repository / ".env").read_text() == "KEY=two\n"


def test_a_pinned_snapshot_keeps_its_secrets(repository: Path, home: Path) -> None:
    agent, gate = secret_kept(repository, home, "secret_days = 3")
    PinnedSnapshots(gate.workspace).pin(gate.snapshots.list_snapshots()[0].id)
    later = Gate.open(
        repository, replace(agent.environment, clock=SteppedClock(agent.environment.clock.now() + 4 * DAY_S))
    )
    SnapshotTaker(later).prune_old()
    assert len(copies(gate)) == 1


def test_secrets_can_be_left_out_altogether(repository: Path, home: Path) -> None:
    _, gate = secret_kept(repository, home, "secret_days = 0")
    assert copies(gate) == []
    assert "secret_days" in gate.snapshots.list_snapshots()[0].left[".env"]
