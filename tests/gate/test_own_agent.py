"""What the gate keeps for Remit's own agent: open calls, narrowed sessions, questions to its own person, its words."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gate.driving import body, overlay, records
from gate.test_perform import (
    DONE,
    SESSION,
    command_call,
    file_call,
    gate,
    refuses,
    runs,
    script,
    writes,
)
from remit.core.call import OWN_AGENT, Outcome, SessionKey, SessionStarted, ToolCall, hash_arguments
from remit.gate.containment.rewrite_call import KNOWN_CONTAINMENT
from remit.gate.effects.unfinished_calls import temporary_token
from remit.gate.gate import Gate
from remit.gate.intents.refusals import IntentError
from remit.gate.people.questions import ApprovalReply, Question
from remit.gate.perform import OPEN, ToolOutput, WorkspaceAccess
from remit.tools.agent_tool import Caller
from remit.tools.catalogue import run_tool
from remit.workspace.safe_files import temporary_name

__all__ = ["gate"]


def leave_open(gate: Gate, call_id: str = "call-1") -> None:
    """Leave a call as a killed process leaves it: decided and recorded, without a result."""
    call = file_call(gate, "src/new.py", "x = 1\n", call_id)
    gate.before(call)


def test_a_resumed_session_of_the_own_agent_finds_its_calls_open(gate: Gate) -> None:
    leave_open(gate)
    gate.begin_session(SessionStarted(SESSION, str(gate.workspace.root), "resume"), OWN_AGENT)
    assert gate.fate(SESSION, "call-1") == OPEN
    gate.begin_session(SessionStarted(SESSION, str(gate.workspace.root), "resume"), "claude-code")
    assert gate.fate(SESSION, "call-1").state == "returned"
    assert gate.fate(SESSION, "call-1").ok is None


def test_a_call_that_is_asked_about_or_told_of_twice_is_recorded_once(gate: Gate) -> None:
    call = file_call(gate, "src/new.py", "x = 1\n")
    gate.before(call)
    gate.before(call)
    assert len(gate.state.list_open_calls()) == 1
    performed = gate.perform(call, refuses(), performed=DONE)
    assert performed.output == DONE
    gate.perform(call, writes(call), performed=DONE)
    found = [body(record)["event"] for record in records(gate.workspace.root)]
    assert found.count("tool_use") == 2  # the second time it is a call of its own, which uses the id again
    assert found.count("tool_result") == 2


def test_a_result_that_is_told_twice_is_recorded_once(gate: Gate) -> None:
    call = file_call(gate, "src/new.py", "x = 1\n")
    gate.before(call)
    (gate.workspace.root / "src/new.py").write_text("x = 1\n")
    assert gate.after(call, Outcome()).context == ""
    assert gate.after(call, Outcome()).context == ""
    found = [body(record)["event"] for record in records(gate.workspace.root)]
    assert (found.count("mutation"), found.count("tool_result")) == (1, 1)


def test_the_temporary_file_of_a_killed_write_is_nobodys_edit(gate: Gate) -> None:
    call, root = file_call(gate, "src/app.py", "x = 1\n"), gate.workspace.root

    gate.before(call)
    # The write was killed before the rename.
    left = root / "src" / temporary_name("app.py", temporary_token(call.session, call.call_id))
    left.write_text("x =")
    gate.begin_session(SessionStarted(SESSION, str(root)), OWN_AGENT)
    assert not left.exists()
    assert records(root, "human_edit") == []


def test_a_narrowed_session_changes_only_what_matches_beside_its_scope(gate: Gate) -> None:
    gate.narrow(SESSION, ["**/*.md"])
    denied = gate.perform(file_call(gate, "src/new.py", "x = 1\n"), refuses())
    assert denied.violation is not None
    assert denied.violation.error_type == "SCOPE_VIOLATION"
    assert "may change only **/*.md" in denied.violation.error
    outside = gate.perform(file_call(gate, "docs/a.md", "x\n", "call-2"), refuses())
    assert outside.violation is not None
    call = file_call(gate, "src/notes.md", "x\n", "call-3")
    assert gate.perform(call, writes(call)).output == DONE
    gate.narrow(SESSION, [])
    call = file_call(gate, "src/new.py", "x = 1\n", "call-4")
    assert gate.perform(call, writes(call)).output == DONE


def test_a_child_is_narrowed_by_its_parent_too(gate: Gate) -> None:
    child = SessionKey(SESSION.session_id, "child-1")
    gate.narrow(SESSION, ["**/*.py"])
    gate.narrow(child, ["src/sub/**"])
    for number, (path, is_allowed) in enumerate(
        {"src/sub/a.py": True, "src/sub/a.md": False, "src/a.py": False}.items()
    ):
        call = replace(file_call(gate, path, "x\n", f"call-{number}"), session=child)
        assert (gate.perform(call, writes(call)).output is not None) == is_allowed, path


def test_a_contained_command_of_a_narrowed_session_keeps_only_what_matches(
    gate: Gate, home: Path, tmp_path: Path
) -> None:
    KNOWN_CONTAINMENT.pop(home, None)
    overlay(home)
    command = script(gate, "echo x > src/a.py; echo x > src/a.md")
    gate.narrow(SESSION, ["**/*.md"])
    performed = gate.perform(command_call(gate, command), runs(tmp_path / "out"))
    assert "src/a.py" in "\n".join(performed.messages)
    assert [path.name for path in (gate.workspace.root / "src").glob("a.*")] == ["a.md"]


def test_a_pattern_that_no_intent_may_have_narrows_nothing(gate: Gate) -> None:
    with pytest.raises(IntentError):
        gate.narrow(SESSION, ["/etc/**"])


def test_a_question_is_shown_by_the_process_that_asks_and_by_no_other(gate: Gate) -> None:
    shown: list[Question] = []

    def show(question: Question) -> None:
        shown.append(question)
        threading.Timer(0.1, lambda: other.questions.answer_question(question.id, ApprovalReply(allow=True))).start()

    other = Gate(gate.workspace, gate.environment)
    gate.question_listener = show
    call = file_call(gate, "docs/a.md", "x\n")
    assert gate.perform(call, writes(call)).output == DONE
    assert [question.call_id for question in shown] == ["call-1"]
    assert not other.questions.is_watcher_present(SESSION.session_id)
    denied = other.perform(file_call(gate, "docs/b.md", "x\n", "call-2"), refuses())
    assert denied.output is None
    other.close()


def test_presence_for_one_session_answers_for_no_other(gate: Gate) -> None:
    gate.questions.mark_watcher_present("run-1")
    assert gate.questions.is_watcher_present("run-1")
    assert not gate.questions.is_watcher_present("run-2")
    assert not gate.questions.is_watcher_present()
    gate.questions.mark_watcher_gone("run-1")
    assert not gate.questions.is_watcher_present("run-1")


def test_a_cancelled_call_asks_no_longer(gate: Gate) -> None:
    cancel = threading.Event()
    gate.question_listener = lambda _: cancel.set()
    denied = gate.perform(file_call(gate, "docs/a.md", "x\n"), refuses(), cancel=cancel)
    assert denied.output is None


def test_the_block_stays_while_the_session_writes(gate: Gate) -> None:
    first = gate.begin_session(SessionStarted(SESSION, str(gate.workspace.root)), OWN_AGENT)
    call = file_call(gate, "src/new.py", "x = 1\n")
    gate.perform(call, writes(call))
    assert gate.receive_prompt(SESSION, OWN_AGENT) == ""
    other = replace(file_call(gate, "src/theirs.py", "x = 1\n", "call-2"), session=SessionKey("run-2"))
    gate.intents.select(other.session, OWN_AGENT, "INT-001")
    gate.perform(other, writes(other))
    changed = gate.receive_prompt(SESSION, OWN_AGENT)
    assert "src/theirs.py" in changed
    assert "src/new.py" not in changed
    assert "tool `select_active_intent`" in first
    assert "MCP" not in first


def test_a_tool_of_remits_acts_within_the_turn(gate: Gate) -> None:
    released: list[str] = []

    @contextmanager
    def let_others_pass() -> Generator[None]:
        released.append("released")
        yield

    gate.environment = replace(gate.environment, release_lock=let_others_pass)
    arguments = {"items": [{"text": "write", "status": "pending"}]}
    call = ToolCall(
        OWN_AGENT,
        SESSION,
        "update_todo_list",
        "meta",
        str(gate.workspace.root),
        "call-1",
        arguments=arguments,
        arguments_sha256=hash_arguments(arguments),
        remit_tool="update_todo_list",
    )

    def act(access: WorkspaceAccess) -> ToolOutput:
        answer = run_tool(gate, Caller(SESSION, OWN_AGENT), "update_todo_list", arguments)
        return ToolOutput(answer.ok, answer.text)

    performed = gate.perform(call, act)
    assert performed.output is not None
    assert performed.output.ok, performed.output
    assert released == []
    assert gate.state.list_open_calls() == []


def test_a_tool_of_a_foreign_server_is_compared_as_a_whole(gate: Gate) -> None:
    root = gate.workspace.root
    call = replace(command_call(gate, ""), tool="use_mcp_tool", command=None)

    def act(access: WorkspaceAccess) -> ToolOutput:
        (root / "src" / "by-server.py").write_text("x\n")
        (root / "elsewhere.py").write_text("x\n")
        return DONE

    performed = gate.perform(call, act)
    assert performed.output == DONE
    assert (root / "src" / "by-server.py").exists()
    assert not (root / "elsewhere.py").exists()
    assert "elsewhere.py" in "\n".join(performed.messages)
    assert performed.snapshot
