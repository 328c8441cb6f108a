"""A person's words reach Remit's own agent with the result of its next call, once."""

from pathlib import Path

from gate.driving import governed, machine
from remit.core.call import SessionKey, ToolCall
from remit.gate.gate import Gate
from remit.gate.people.messages import PendingMessages
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit_fleet.board import Order, OrderKind
from remit_fleet.workers.messages import is_heard, leave_message, list_sessions

SESSION = SessionKey("run-1")
STEER = Order(1, "r", OrderKind.STEER, intent="INT-001", body="use the glossary")


def read_file(gate: Gate, call_id: str) -> tuple[str, ...]:
    def act(access: WorkspaceAccess) -> ToolOutput:
        return ToolOutput(ok=True, text="read")

    call = ToolCall("remit", SESSION, "read_file", "read", str(gate.workspace.root), call_id, paths=("src/app.py",))
    return gate.perform(call, act).messages


def test_a_message_comes_with_the_next_result_and_only_once(repository: Path, home: Path) -> None:
    gate = Gate.open(governed(repository), machine(home))
    gate.intents.select(SESSION, "remit", "INT-001")
    assert read_file(gate, "call-1") == ()
    PendingMessages(gate.state).add_message(SESSION, "a person says: go on")
    assert read_file(gate, "call-2") == ("a person says: go on",)
    assert read_file(gate, "call-3") == ()


def test_a_message_waits_for_a_session_of_this_attempt(repository: Path, home: Path) -> None:
    gate = Gate.open(governed(repository), machine(home))
    gate.intents.select(SESSION, "remit", "INT-001")
    known = list_sessions(gate.workspace, gate.environment)
    assert known == {SESSION}
    # The session of an earlier attempt in the same worktree does not read it any more.
    assert not leave_message(gate.workspace, gate.environment, known, STEER)
    gate.intents.select(SessionKey("run-2"), "remit", "INT-001")
    reader = leave_message(gate.workspace, gate.environment, known, STEER)
    assert reader is not None
    assert reader.session_id == "run-2"
    assert not is_heard(gate.workspace, gate.environment, reader, STEER)
    messages = PendingMessages(gate.state)
    assert messages.take_messages(SESSION) == ""
    assert messages.take_messages(SessionKey("run-2")) == "Remit: a person says about this task: use the glossary"
    assert is_heard(gate.workspace, gate.environment, reader, STEER)
