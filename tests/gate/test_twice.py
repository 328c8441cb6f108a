"""An event that two agents' hooks tell within two seconds is one decision and one record."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate.driving import governed, machine, records
from remit.adapters import HookReply
from remit.gate.environment import Environment
from remit.servers.daemon import Gates
from remit.servers.hook import EventClass, Frame, answer


class Warm:
    """A warm process that gets the hooks of two agents."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.gates = Gates()
        self.now = 1_800_000_000.0
        self.environment: Environment = msgspec.structs.replace(machine(home), clock=self.clock)

    def clock(self) -> float:
        """The time that the test says it is."""
        return self.now

    def send(self, agent: str, event: str = "PreToolUse", content: str = "x", kind: EventClass = "pre") -> HookReply:
        """A write outside all intents, as this agent's hook tells it."""
        document: dict[str, Any] = {
            "session_id": "s",
            "cwd": str(self.root),
            "hook_event_name": event,
            "tool_name": "Write",
            "tool_input": {"file_path": "src/x.py", "content": content},
            "tool_response": {},
        }
        return answer(msgspec.json.encode(document), Frame(agent, str(self.root), kind), self.environment, self.gates)


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
