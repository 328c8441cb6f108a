"""Calls without a record, results without a decision, and doubled records, as `remit doctor` names them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate.driving import Agent, governed, records
from remit.core.record import Body, CallPart
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.wiring.doctor_checks import DoctorCheck, check_calls
from stepped_clock import SteppedClock

LATER_S = 120.0


class Spoken:
    """An agent with a transcript at its usual place."""

    def __init__(self, root: Path, home: Path) -> None:
        self.agent = Agent(root, home, session="session-1")
        self.path = home / ".claude/projects/p/session-1.jsonl"
        self.path.parent.mkdir(parents=True)
        self.agent.send("SessionStart", source="startup")

    def say(self, call_id: str, tool: str = "Read", at: str = "") -> None:
        at = at or records(self.agent.cwd)[-1]["timestamp"]
        part = {"type": "tool_use", "id": call_id, "name": tool, "input": {"file_path": f"{call_id}.py"}}
        line: dict[str, Any] = {"type": "assistant", "timestamp": at, "message": {"content": [part]}}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def read(self, call_id: str) -> None:
        self.agent.ask("Read", call_id, file_path="src/app.py")
        self.agent.tell("Read", call_id, file_path="src/app.py")

    def examine(self) -> DoctorCheck:
        later = SteppedClock(self.agent.environment.clock.now() + LATER_S)
        environment: Environment = msgspec.structs.replace(self.agent.environment, clock=later)
        (found,) = check_calls(Gate.open(self.agent.cwd, environment))
        return found


@pytest.fixture
def spoken(repository: Path, home: Path) -> Spoken:
    return Spoken(governed(repository, "observe"), home)


def test_where_each_call_has_its_records_nothing_is_said(spoken: Spoken) -> None:
    for number in range(3):
        spoken.read(f"t{number}")
        spoken.say(f"t{number}")
    found = spoken.examine()
    assert (found.level, "3 are in transcripts" in found.message) == ("ok", True)


def test_a_call_that_only_the_transcript_names_is_found(spoken: Spoken) -> None:
    spoken.read("t1")
    spoken.say("t1")
    spoken.say("t2", "Grep")
    spoken.say("before", at="2020-01-01T00:00:00.000Z")
    found = spoken.examine()
    assert (found.level, "1 only in a transcript (Grep t2)" in found.message) == ("warn", True)


def test_an_agent_whose_transcript_has_other_ids_than_its_hooks_is_left_out(spoken: Spoken) -> None:
    spoken.read("t1")
    spoken.say("call_1")
    found = spoken.examine()
    assert (found.level, "0 are in transcripts" in found.message) == ("ok", True)


def test_a_result_that_nobody_decided_is_found(spoken: Spoken) -> None:
    spoken.agent.tell("Read", "t9", file_path="src/app.py")
    found = spoken.examine()
    assert (found.level, "1 without a decision before (Read t9)" in found.message) == ("warn", True)


def test_a_decision_that_is_recorded_twice_is_found(spoken: Spoken) -> None:
    spoken.read("t1")
    recorder = Gate.open(spoken.agent.cwd, spoken.agent.environment).recorder
    use = Body("tool_use", intent_id=None, session_id="session-1", call=CallPart(id="t1", name="Read", effect="read"))
    recorder.append([recorder.make_record(use, "claude-code")])
    found = spoken.examine()
    assert (found.level, "1 recorded twice (t1)" in found.message) == ("warn", True)


def test_a_hostile_transcript_breaks_nothing(spoken: Spoken) -> None:
    spoken.read("t1")
    spoken.path.write_bytes(b"\xff\0{[" * 1000 + b"\n" + b'{"type":"assistant","message":{"content":[[{}]]}}\n')
    assert spoken.examine().level == "ok"
