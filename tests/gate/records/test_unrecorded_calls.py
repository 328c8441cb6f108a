"""No call without a record: what could not be recorded at once is in the log as soon as that takes records again."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from gate.driving import Agent, body, governed, records
from remit.gate.gate import Gate
from remit.ledger.verify_log import verify_log
from remit.servers.hook import HookFrame, answer
from remit.wiring.doctor_checks import check_spool


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository, "observe"), home)
    found.read("README.md")
    return found


def gate(agent: Agent) -> Gate:
    return Gate.open(agent.cwd, agent.environment)


def of_call(agent: Agent, call_id: str) -> list[str]:
    """The events of a call in the log, each with what delayed it."""
    found = [body(record) for record in records(agent.cwd)]
    return [f"{b['event']} {b.get('recorded_late', '')[:16]}" for b in found if b.get("call", {}).get("id") == call_id]


class Broken:
    """A file in whose place a folder stands during the block."""

    def __init__(self, path: Path) -> None:
        self.path, self.aside = path, path.with_name("aside")

    def __enter__(self) -> None:
        self.path.rename(self.aside)
        self.path.mkdir()

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path)
        self.aside.rename(self.path)


def test_a_call_is_recorded_although_the_state_cannot_be_used(agent: Agent) -> None:
    with Broken(gate(agent).workspace.state / "state.db"):
        asked = agent.ask("Write", "t1", file_path="src/new.py", content="x\n")
    assert "not recorded yet" in str(asked)
    assert of_call(agent, "t1") == ["tool_use Remit's state '/"]


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_a_call_waits_in_the_spool_while_the_log_takes_nothing(agent: Agent, mode: str) -> None:
    governed(agent.cwd, mode)
    agent.read("README.md")
    log = gate(agent).recorder.log.folder
    with Broken(log / "lock"):
        asked = agent.ask("Write", "t1", file_path="src/new.py", content="x\n")
        assert ("deny" in str(asked)) == (mode == "enforce")
        assert agent.ask("Read", "t2", file_path="README.md")["call_id"] == "t2"
        assert [check.level for check in check_spool(gate(agent))] == ["fail"]
        assert of_call(agent, "t1") == []
    agent.ask("Read", "t3", file_path="README.md")
    event = "denied" if mode == "enforce" else "tool_use"
    assert of_call(agent, "t1") == [f"{event} cannot append to"]
    assert of_call(agent, "t2") == ["tool_use cannot append to"]
    assert of_call(agent, "t3") == ["tool_use "]
    assert [check.level for check in check_spool(gate(agent))] == ["ok"]
    assert verify_log(log) == ()


def test_what_a_call_did_waits_too(agent: Agent) -> None:
    asked = agent.ask("Write", "t1", file_path="src/new.py", content="x\n")
    (agent.cwd / "src/new.py").write_text("x\n")
    with Broken(gate(agent).recorder.log.folder / "lock"):
        agent.tell("Write", asked["call_id"], file_path="src/new.py", content="x\n")
        assert of_call(agent, "t1") == ["tool_use "]
    agent.read("README.md")
    assert of_call(agent, "t1") == ["tool_use ", "mutation ", "tool_result "]


def test_a_call_is_recorded_while_another_process_keeps_the_state_locked(agent: Agent) -> None:
    holder = sqlite3.connect(gate(agent).workspace.state / "state.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    asked = agent.ask("Write", "t1", file_path="src/new.py", content="x\n")
    holder.execute("ROLLBACK")
    holder.close()
    assert "locked" in str(asked)
    assert len(of_call(agent, "t1")) == 1


def test_a_payload_that_cannot_be_read_is_recorded(agent: Agent) -> None:
    reply = answer(b"{", HookFrame("claude-code", str(agent.cwd), "pre"), agent.environment)
    assert reply.stderr
    (failed,) = records(agent.cwd, "check_failed")
    assert body(failed)["check"] == "hook"
    assert failed["tool"]["name"] == "claude-code"


def test_lines_that_no_log_takes_are_named_by_doctor(agent: Agent) -> None:
    spool = gate(agent).recorder.spool
    spool.path.parent.mkdir(parents=True, exist_ok=True)
    spool.path.write_bytes(b"torn\n")
    agent.read("README.md")
    assert [check.level for check in check_spool(gate(agent))] == ["warn"]
