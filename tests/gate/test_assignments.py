"""An attempt in its own worktree, through the hook: what it may change, until when, and what a pause does."""

import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.driving import Agent, allowed, governed, machine, overlay, records, refusal
from remit.core.assignment import Assignment
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Mode
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.run_command import plan_sandbox, run_contained
from remit.gate.containment.take_over import ContainedResult
from remit.gate.enforce import PAUSE_POLL_S
from remit.gate.gate import Gate
from remit.gate.governing.settings import set_mode
from remit.workspace.place.assignment_file import AssignmentChanged, AssignmentFile, read_assignment
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.sandbox.containment import Containment, Limits
from stepped_clock import SteppedClock
from waiting import WAIT_S

TERMS = Assignment(task="plan:INT-001", intent="INT-001", attempt=7, token=31, scope=("src/**", "!src/b/**"))


@pytest.fixture
def attempt(repository: Path) -> Workspace:
    """A worktree without `.orchestration/`, of a repository that enforces."""
    governed(repository)
    place = repository.parent / "attempt"
    run_git(repository, "worktree", "add", "-q", "-b", "remit/INT-001/7", str(place))
    found = locate_workspace(place)
    assert found is not None
    return found


@pytest.fixture
def file(attempt: Workspace) -> AssignmentFile:
    written = AssignmentFile(attempt)
    written.write(TERMS, 600)
    return written


@pytest.fixture
def agent(attempt: Workspace, file: AssignmentFile, home: Path) -> Agent:
    """An agent that its worktree binds to the intent."""
    found = Agent(attempt.root, home, clock=SteppedClock())
    found.send("SessionStart", source="startup")
    return found


def test_the_worktree_binds_the_session_and_narrows_its_scope(agent: Agent) -> None:
    assert allowed(agent.write("src/a.py", "a = 1\n"))
    assert refusal(agent.write("src/b/a.py", "a = 1\n")) == "SCOPE_VIOLATION"
    assert refusal(agent.write("docs/a.md", "a\n")) == "SCOPE_VIOLATION"


def test_it_is_in_a_file_of_its_own_that_only_the_user_reads(file: AssignmentFile, attempt: Workspace) -> None:
    assert file.path == Path(str(attempt.git_dir), "remit", "assignment.json")
    assert file.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_an_attempt_is_held_to_its_set_in_every_mode(agent: Agent, repository: Path, mode: Mode) -> None:
    found = locate_workspace(repository)
    assert found is not None
    set_mode(found, mode)
    assert refusal(agent.write("docs/a.md", "a\n")) == "SCOPE_VIOLATION"
    assert allowed(agent.write("src/a.py", "a = 1\n"))
    other = Agent(repository, agent.home, "other")
    assert allowed(other.write("docs/a.md", "a\n"))


def test_an_ended_assignment_stops_changes_and_leaves_reading(agent: Agent, file: AssignmentFile) -> None:
    file.change_state(replace(TERMS, state="ended"), 600)
    said = agent.write("src/a.py", "a = 1\n")
    assert refusal(said) == "ASSIGNMENT_ENDED"
    assert "stop_and_report" in said["permissionDecisionReason"]
    assert allowed(agent.read("src/app.py"))


def test_a_lease_that_was_not_renewed_is_over(agent: Agent, file: AssignmentFile) -> None:
    assert allowed(agent.write("src/a.py", "a = 1\n"))
    file.renew(0)
    assert refusal(agent.write("src/a.py", "a = 2\n")) == "ASSIGNMENT_ENDED"
    file.renew(600)
    assert allowed(agent.write("src/a.py", "a = 2\n"))


def test_a_lease_of_another_boot_is_over(agent: Agent, file: AssignmentFile) -> None:
    kept = json.loads(file.path.read_bytes())
    file.path.write_text(json.dumps({**kept, "boot": "another"}))
    assert refusal(agent.write("src/a.py", "a = 1\n")) == "ASSIGNMENT_ENDED"


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b"{\xff", b'{"task": 1}', b"[" * 100_000])
def test_what_cannot_be_read_stops_the_attempt(agent: Agent, file: AssignmentFile, content: bytes) -> None:
    file.path.write_bytes(content)
    assert refusal(agent.write("src/a.py", "a = 1\n")) == "ASSIGNMENT_ENDED"


def test_a_pipe_in_its_place_stops_the_attempt_and_blocks_nobody(agent: Agent, file: AssignmentFile) -> None:
    file.path.unlink()
    os.mkfifo(file.path)
    assert refusal(agent.write("src/a.py", "a = 1\n")) == "ASSIGNMENT_ENDED"


def test_scope_patterns_that_were_not_proved_stop_the_attempt(agent: Agent, file: AssignmentFile) -> None:
    kept = json.loads(file.path.read_bytes())
    file.path.write_text(json.dumps({**kept, "scope": ["**"]}))
    assert refusal(agent.write("src/a.py", "a = 1\n")) == "ASSIGNMENT_ENDED"


def test_a_call_waits_while_the_attempt_is_paused(agent: Agent, file: AssignmentFile) -> None:
    file.change_state(replace(TERMS, state="paused"), 600)
    assert allowed(agent.read("src/app.py"))
    with waiting_write(agent) as answers:
        clock_of(agent).advance(60)
        assert answers == []
        file.change_state(TERMS, 600)
        clock_of(agent).advance(PAUSE_POLL_S)
    assert allowed(answers[0])


def clock_of(agent: Agent) -> SteppedClock:
    clock = agent.environment.clock
    assert isinstance(clock, SteppedClock)
    return clock


@contextmanager
def waiting_write(agent: Agent) -> Generator[list[dict[str, Any]]]:
    """Let the agent write where it has to wait; the answers have come when the block has ended."""
    answers: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: answers.append(agent.write("src/a.py", "a = 1\n")))
    waiting.start()
    clock_of(agent).wait_for_waiter()
    yield answers
    waiting.join(WAIT_S)


def test_a_pause_outlasting_the_agents_patience_asks_to_come_again(
    agent: Agent, file: AssignmentFile, repository: Path
) -> None:
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + "\n[approvals]\ntimeout_s = 60\n")
    file.change_state(replace(TERMS, state="paused"), 600)
    with waiting_write(agent) as answers:
        clock_of(agent).advance(59)
        assert answers == []
        clock_of(agent).advance(2)
    [said] = answers
    assert refusal(said) == "ASSIGNMENT_PAUSED"
    assert "retry_later" in said["permissionDecisionReason"]


def test_an_attempt_that_is_ended_while_it_waits_is_refused(agent: Agent, file: AssignmentFile) -> None:
    file.change_state(replace(TERMS, state="paused"), 600)
    with waiting_write(agent) as answers:
        file.change_state(replace(TERMS, state="ended"), 600)
        clock_of(agent).advance(PAUSE_POLL_S)
    assert refusal(answers[0]) == "ASSIGNMENT_ENDED"


def test_the_agent_can_neither_write_its_assignment_nor_take_another_intent(agent: Agent, file: AssignmentFile) -> None:
    for way in (agent.write(file.path, "{}"), agent.shell(f"echo x > {file.path}"), agent.shell(f"rm {file.path}")):
        assert not allowed(way)
    assert "active" in agent.select("INT-002")["permissionDecisionReason"]
    assert "assigned" in agent.ask("Bash", command="remit intent clear")["permissionDecisionReason"]
    assert allowed(agent.write("src/a.py", "a = 1\n"))


def test_the_main_worktree_is_no_way_out(agent: Agent, repository: Path) -> None:
    assert refusal(agent.write(repository / "src" / "app.py", "a = 1\n")) == "OUTSIDE_WORKSPACE"
    agent.cwd = repository
    assert refusal(agent.select()) == "OUTSIDE_WORKSPACE"
    agent.send("SessionStart", source="resume")
    assert refusal(agent.write(repository / "src" / "app.py", "a = 1\n")) == "MISSING_OR_INVALID_INTENT"


def test_the_writer_notices_that_somebody_changed_the_file(file: AssignmentFile, attempt: Workspace) -> None:
    file.path.write_text(file.path.read_text().replace("!src/b/**", "src/b/**"))
    with pytest.raises(AssignmentChanged):
        file.renew(600)
    held = read_assignment(attempt)
    assert held is not None
    assert held.expired == "it was ended"
    file.path.unlink()
    with pytest.raises(AssignmentChanged):
        file.renew(600)


def run(gate: Gate, how: Containment, command: str) -> ContainedResult:
    call = ToolCall("test", SessionKey("s1"), "Bash", "execute", str(gate.workspace.root), "c1", command=command)
    return run_contained(gate, how, replace(call, whole_workspace=True), ["bash", "-c", command], Limits(30, 1 << 28))


def test_a_contained_command_keeps_only_what_is_assigned(attempt: Workspace, file: AssignmentFile, home: Path) -> None:
    gate = Gate.open(attempt.root, machine(home))
    gate.intents.select(SessionKey("s1"), "test", "INT-001")
    done = run(gate, overlay(home), "for d in a b; do mkdir -p src/$d; echo 1 > src/$d/x; done")
    assert done.kept == ("src/a/x",)
    assert list(done.dropped) == ["src/b/x"]
    file.change_state(replace(TERMS, state="ended"), 600)
    assert run(gate, overlay(home), "for d in a c; do mkdir -p src/$d; echo 2 > src/$d/x; done").kept == ()


def test_a_contained_command_reaches_no_assignment(attempt: Workspace, file: AssignmentFile, home: Path) -> None:
    gate = Gate.open(attempt.root, machine(home))
    gate.intents.select(SessionKey("s1"), "test", "INT-001")
    before = file.path.read_bytes()
    run(gate, overlay(home), f"n={file.path}; echo x > $n; rm -f $n; mv $n $n.2; rm -rf {file.path.parent}")
    assert file.path.read_bytes() == before
    assert file.path in [*map(Path, file.path.parent.iterdir())]


def test_the_folders_that_a_command_may_write_are_those_of_the_assignment(
    attempt: Workspace, file: AssignmentFile, home: Path
) -> None:
    (attempt.root / "src" / "a").mkdir()
    gate = Gate.open(attempt.root, machine(home))
    gate.intents.select(SessionKey("s1"), "test", "INT-001")
    call = ToolCall("test", SessionKey("s1"), "Bash", "execute", str(attempt.root), "c1", command="make")
    for terms in (replace(TERMS, scope=("src/a/**",)), replace(TERMS, paths=("src/a/**",))):
        file.change_state(terms, 60)
        writable = plan_sandbox(ContainedCommand(gate, call), Containment("landlock")).writable
        assert [path for path in writable if path.is_relative_to(attempt.root)] == [attempt.root / "src" / "a"]
    file.change_state(replace(TERMS, scope=()), 60)
    writable = plan_sandbox(ContainedCommand(gate, call), Containment("landlock")).writable
    assert not [path for path in writable if path.is_relative_to(attempt.root)]


def test_an_attempt_that_is_done_is_handed_in_and_not_done(agent: Agent, repository: Path) -> None:
    said = agent.ask("Bash", command="remit intent complete INT-001 --notes 'all of it'")
    assert allowed(said), said
    assert "status: DONE" not in (repository / ".orchestration" / "active_intents.yaml").read_text()
    (record,) = records(repository, "task_handed_in")
    body = record["metadata"]["dev.remit"]
    assert (body["intent_id"], body["notes"]) == ("INT-001", "all of it")
    assert allowed(agent.write("src/a.py", "a = 1\n"))


def test_a_main_worktree_has_no_assignment(repository: Path) -> None:
    found = locate_workspace(repository)
    assert found is not None
    assert found.assignment_path is None
    assert read_assignment(found) is None
    with pytest.raises(ValueError, match="no linked worktree"):
        AssignmentFile(found)
