"""An event that two agents' hooks report is one decision and one record, for programs that fire hooks twice."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate.driving import Agent, governed, machine, records
from remit.adapters import ROWS, HookReply
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.open_gates import OpenGates
from remit.servers.hook import EventClass, HookFrame, answer

FIRING = """\
from msgspec.structs import replace
from remit.adapters import ROWS
ROWS["codex"] = replace(ROWS["codex"], fires_twice=True)
from remit.cli import main; main()
"""
"""A fresh process in which a program fires hooks twice: no row of today does."""


@pytest.fixture(autouse=True)
def fires_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "codex", msgspec.structs.replace(ROWS["codex"], fires_twice=True))


class Warm:
    """A warm process that gets the hooks of two agents."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.gates = OpenGates()
        self.now = 1_800_000_000.0
        self.environment: Environment = msgspec.structs.replace(machine(home), clock=self.clock)

    def clock(self) -> float:
        """The time that the test says it is."""
        return self.now

    def send(
        self, agent: str, event: str = "PreToolUse", content: str = "x", kind: EventClass = "pre", session: str = "s"
    ) -> HookReply:
        """A write to the sources, as this agent's hook tells it; denied where the session has no intent."""
        document: dict[str, Any] = {
            "session_id": session,
            "cwd": str(self.root),
            "hook_event_name": event,
            "tool_name": "Write",
            "tool_input": {"file_path": "src/x.py", "content": content},
            "tool_response": {},
        }
        return answer(
            msgspec.json.encode(document), HookFrame(agent, str(self.root), kind), self.environment, self.gates
        )


@pytest.fixture
def warm(repository: Path, home: Path) -> Warm:
    """The process, in an enforcing workspace."""
    return Warm(governed(repository), home)


def test_the_second_agents_hook_gets_the_same_answer_and_no_record(warm: Warm) -> None:
    first = warm.send("claude-code")
    warm.now += 1
    assert warm.send("codex") == first
    assert b"deny" in first.stdout
    assert len(records(warm.root, "denied")) == 1


def test_its_result_is_recorded_once_too(warm: Warm) -> None:
    warm.send("claude-code", "PostToolUse", kind="post")
    warm.send("codex", "PostToolUse", kind="post")
    assert len(records(warm.root, "tool_result")) == 1


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_the_same_agent_again_or_a_later_hook_is_an_event_of_its_own(warm: Warm, agent: str) -> None:
    warm.send("claude-code")
    warm.now += 0 if agent == "claude-code" else 2.5
    warm.send(agent)
    assert len(records(warm.root, "denied")) == 2


def test_other_arguments_are_another_event(warm: Warm) -> None:
    warm.send("claude-code")
    warm.send("codex", content="y")
    assert len(records(warm.root, "denied")) == 2


def test_another_session_in_the_same_folder_is_the_same_event_where_it_is_denied(warm: Warm) -> None:
    first = warm.send("claude-code", session="theirs")
    assert warm.send("codex", session="ours") == first
    assert len(records(warm.root, "denied")) == 1


def test_one_sessions_leave_to_write_is_not_anothers(warm: Warm, home: Path) -> None:
    Agent(warm.root, home, "theirs").select()
    assert b"deny" not in warm.send("claude-code", session="theirs").stdout
    assert b"deny" in warm.send("qwen", session="ours").stdout


def test_tools_of_two_names_with_one_effect_are_one_event(warm: Warm) -> None:
    """Claude Code's `Write` and Qwen's `write_file` both write."""
    document = {
        "session_id": "s",
        "cwd": str(warm.root),
        "hook_event_name": "PreToolUse",
        "tool_input": {"file_path": "src/x.py", "content": "x"},
    }
    for agent, tool in (("claude-code", "Write"), ("qwen", "write_file")):
        payload = msgspec.json.encode({**document, "tool_name": tool})
        answer(payload, HookFrame(agent, str(warm.root), "pre"), warm.environment, warm.gates)
    assert len(records(warm.root, "denied")) == 1


def fresh(root: Path, agent: str, session: str = "s") -> "subprocess.Popen[str]":
    """A process of its own that answers this agent's hook."""
    document = {
        "session_id": session,
        "cwd": str(root),
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "src/x.py", "content": "x"},
    }
    command = [sys.executable, "-I", "-c", FIRING, "hook", agent, "pre"]
    process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(document))
    process.stdin.close()
    process.stdin = None
    return process


def test_two_fresh_processes_that_start_together_decide_once(repository: Path) -> None:
    root = governed(repository)
    said = {p.communicate(timeout=60)[0] for p in [fresh(root, "claude-code"), fresh(root, "codex")]}
    assert len(said) == 1
    assert "deny" in said.pop()
    assert len(records(root, "denied")) == 1


def test_a_fresh_process_that_died_before_it_answered_holds_nobody_up_for_long(repository: Path) -> None:
    root = governed(repository)
    dead = fresh(root, "claude-code")
    dead.kill()
    dead.communicate()
    assert "deny" in fresh(root, "codex").communicate(timeout=60)[0]


def test_one_hook_at_the_warm_process_and_the_other_at_a_fresh_one_decide_once(repository: Path, home: Path) -> None:
    root = governed(repository)
    warm = Warm(root, home)
    warm.now = time.time()
    said = warm.send("claude-code").stdout.decode()
    assert fresh(root, "codex").communicate(timeout=60)[0] == said
    assert "deny" in said
    assert len(records(root, "denied")) == 1
    assert b"deny" in warm.send("codex").stdout, "it was given to the fresh process, and serves once"
    assert len(records(root, "denied")) == 2


def test_one_hook_at_a_fresh_process_and_the_other_at_the_warm_one_decide_once(repository: Path, home: Path) -> None:
    root = governed(repository)
    warm = Warm(root, home)
    said = fresh(root, "claude-code").communicate(timeout=60)[0]
    warm.now = time.time()
    assert warm.send("codex").stdout.decode() == said
    assert len(records(root, "denied")) == 1


def test_where_no_program_fires_twice_nothing_is_stored(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "codex", msgspec.structs.replace(ROWS["codex"], fires_twice=False))
    warm.send("claude-code")
    assert Gate.open(warm.root, warm.environment).state.fetch_rows("SELECT id FROM told") == []
