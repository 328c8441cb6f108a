"""The agent-facing tools, called as a door calls them."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gate.driving import Agent, allowed, body, governed, machine, records
from remit.core.call import REMIT_TOOLS, SessionKey
from remit.gate.gate import Gate
from remit.gate.people.questions import ApprovalReply
from remit.tools.agent_tool import Caller, ToolAnswer
from remit.tools.catalogue import TOOLS, run_tool

CALLER = Caller(SessionKey("session-1"), "claude-code")
LEAST: dict[str, dict[str, Any]] = {
    "select_active_intent": {"intent_id": "INT-001"},
    "list_active_intents": {},
    "get_intent_context": {"intent_id": "INT-001"},
    "clear_active_intent": {},
    "complete_intent": {"intent_id": "INT-001", "verification_notes": "x"},
    "propose_intent": {"name": "n", "owned_scope": ["a/**"], "reason": "r"},
    "request_scope_expansion": {"paths": ["docs/a.md"], "reason": "r"},
    "record_lesson": {"kind": "lesson", "lesson": "x"},
    "update_todo_list": {"items": [{"text": "a", "status": "done"}, {"text": "b"}]},
    "query_traces": {},
    "why": {"path": "src/app.py", "line": 1},
    "report_progress": {"text": "half of it"},
    "post_note": {"to": "all", "kind": "note", "text": "x"},
    "read_notes": {},
    "list_workers": {},
    "submit_patch": {"patch": "1"},
    "submit_review": {"verdict": "approve"},
}


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    return Gate.open(governed(repository), machine(home))


class Person:
    """Somebody at a terminal, who gives one answer to each question."""

    def __init__(self, root: Path, home: Path, reply: Callable[[], ApprovalReply]) -> None:
        self.gate = Gate.open(root, machine(home))
        self.reply = reply
        self.asked: list[str] = []
        self.gone = threading.Event()
        self.gate.questions.mark_watcher_present()
        self.thread = threading.Thread(target=self.attend)
        self.thread.start()

    def attend(self) -> None:
        while not self.gone.wait(0.02):
            self.gate.questions.mark_watcher_present()
            for question in self.gate.questions.list_open_questions():
                self.asked.append(question.action)
                self.gate.questions.answer_question(question.id, self.reply())

    def __enter__(self) -> "Person":
        return self

    def __exit__(self, *_: object) -> None:
        self.gone.set()
        self.thread.join()
        self.gate.questions.mark_watcher_gone()


def run(gate: Gate, tool: str, /, **given: Any) -> ToolAnswer:
    return run_tool(gate, CALLER, tool, given)


def test_the_names_are_those_that_the_gate_knows() -> None:
    assert set(TOOLS) == REMIT_TOOLS == set(LEAST)


@pytest.mark.parametrize("name", LEAST)
def test_schemas_are_strict_and_take_what_the_tool_takes(name: str) -> None:
    schema = TOOLS[name].schema
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert schema["additionalProperties"] is False
    assert validator.is_valid(LEAST[name])
    assert not validator.is_valid({**LEAST[name], "surprise": 1})
    assert TOOLS[name].description


@pytest.mark.parametrize("name", LEAST)
def test_arguments_that_do_not_fit_are_told(gate: Gate, name: str) -> None:
    for given in ({**LEAST[name], "surprise": 1}, ["x"], "x", 3):
        result = run_tool(gate, CALLER, name, given)
        assert (result.ok, result.data["error_type"]) == (False, "INVALID_ARGUMENTS")


@pytest.mark.parametrize("name", [name for name, given in LEAST.items() if given])
def test_values_of_another_kind_are_told(gate: Gate, name: str) -> None:
    result = run_tool(gate, CALLER, name, {key: {"of": "another kind"} for key in LEAST[name]})
    assert (result.ok, result.data["error_type"]) == (False, "INVALID_ARGUMENTS")


@pytest.mark.parametrize("name", ["propose_intent", "request_scope_expansion"])
def test_with_nobody_there_the_agent_is_told_to_ask_in_its_answer(gate: Gate, name: str) -> None:
    run(gate, "select_active_intent", intent_id="INT-001")
    before = gate.workspace.intents_path.read_bytes()
    result = run(gate, name, **LEAST[name])
    assert (result.ok, result.data["error_type"]) == (False, "USER_REJECTED")
    assert "Ask the person in your answer; they can run `remit intent " in result.data["error"]
    assert gate.workspace.intents_path.read_bytes() == before
    assert records(gate.workspace.root, "approval_requested") == []


def test_a_proposal_that_a_person_accepts_is_made_and_selected(gate: Gate, home: Path) -> None:
    run(gate, "select_active_intent", intent_id="INT-001")
    with Person(gate.workspace.root, home, lambda: ApprovalReply(True)) as person:
        result = run(
            gate, "propose_intent", name="Speed", owned_scope=["perf/**"], reason="slow", constraints=["no new deps"]
        )
    assert result.ok, result
    made = gate.intents.get("INT-003")
    assert (made.name, made.owned_scope) == ("Speed", ("perf/**",))
    assert [c.text for c in made.constraints] == ["no new deps"]
    assert person.asked == ["propose_intent: Speed (owns perf/**)"]
    [answer] = [body(r)["approval"] for r in records(gate.workspace.root, "approval_answered")]
    assert (answer["answer"], answer["by"], answer["scope"]) == ("allow", "person", ["perf/**"])
    assert gate.state.active_session(CALLER.session).intent_id == "INT-003"
    assert result.data["context"] in result.text
    assert "<pattern>perf/**</pattern>" in result.data["context"]
    assert allowed(Agent(gate.workspace.root, home).write("perf/a.py", "x\n"))


def test_a_no_comes_back_in_the_persons_words(gate: Gate, home: Path) -> None:
    with Person(gate.workspace.root, home, lambda: ApprovalReply(False, "not this week")):
        result = run(gate, "propose_intent", **LEAST["propose_intent"])
    assert result.data["error_type"] == "USER_REJECTED"
    assert "not this week" in result.text
    assert gate.intents.find_intent("INT-003") is None


@pytest.mark.parametrize(
    ("paths", "pattern", "added"),
    [
        (["docs/a.md", "docs/b.md"], None, ("docs/a.md", "docs/b.md")),
        (["docs/a.md"], "docs/**/*.md", ("docs/**/*.md",)),
        (["docs/**"], None, ("docs/**",)),
    ],
)
def test_a_wider_scope_is_what_the_person_said(
    gate: Gate, home: Path, paths: list[str], pattern: str | None, added: tuple[str, ...]
) -> None:
    run(gate, "select_active_intent", intent_id="INT-001")
    with Person(gate.workspace.root, home, lambda: ApprovalReply(True, pattern=pattern)):
        result = run(gate, "request_scope_expansion", paths=paths, reason="the guide is wrong")
    assert result.ok, result
    assert gate.intents.get("INT-001").owned_scope == ("src/**", *added)
    assert f"<pattern>{added[-1]}</pattern>" in result.data["context"]


@pytest.mark.parametrize(
    "paths", [["/etc/passwd"], ["!src/a"], [], ["a["], [f"src/{n}.py" for n in range(90)] + ["**"]]
)
def test_a_scope_that_cannot_be_is_refused_before_anybody_is_asked(gate: Gate, home: Path, paths: list[str]) -> None:
    run(gate, "select_active_intent", intent_id="INT-001")
    with Person(gate.workspace.root, home, lambda: ApprovalReply(True)) as person:
        result = run(gate, "request_scope_expansion", paths=paths, reason="r")
    assert result.data["error_type"] == "INVALID_ARGUMENTS"
    assert person.asked == []


def test_a_wider_scope_needs_an_intent(gate: Gate) -> None:
    result = run(gate, "request_scope_expansion", paths=["docs/a.md"], reason="r")
    assert result.data["error_type"] == "MISSING_OR_INVALID_INTENT"


def test_a_broken_intents_file_is_an_answer_and_no_crash(gate: Gate, home: Path) -> None:
    gate.workspace.intents_path.write_text("active_intents: 3\n")
    with Person(gate.workspace.root, home, lambda: ApprovalReply(True)):
        result = run(gate, "propose_intent", **LEAST["propose_intent"])
    assert not result.ok
    assert "mend" in result.text


def test_lessons_and_lists_are_written_for_the_session(gate: Gate) -> None:
    assert run(gate, "record_lesson", kind="decision", lesson="we use tabs", paths=["src/**"]).ok
    assert "**Lesson:** we use tabs" in (gate.workspace.folder / "AGENT.md").read_text()
    assert run(gate, "update_todo_list", **LEAST["update_todo_list"]).text == "- [x] a\n- [ ] b"
    assert "remit:todo session-1" in (gate.workspace.folder / "TODO.md").read_text()
    assert not run(gate, "record_lesson", kind="lesson", lesson="x", paths=["/abs"]).ok
    assert not run(gate, "record_lesson", kind="lesson", lesson="").ok


def test_the_ledger_answers_by_line_path_hash_and_text(gate: Gate, home: Path) -> None:
    agent = Agent(gate.workspace.root, home)
    run(gate, "select_active_intent", intent_id="INT-001", reasoning="the person wants names")
    agent.write("docs/x.md", "no\n")
    agent.write("src/new.py", "one\ntwo\n")
    [mutation] = records(gate.workspace.root, "mutation")
    digest = mutation["files"][0]["conversations"][0]["ranges"][0]["content_hash"]
    for given in (
        {"path": "src/new.py", "line": 2},
        {"content_hash": digest},
        {"content_hash": digest, "path": "src/new.py"},
    ):
        assert [r["id"] for r in run(gate, "query_traces", **given).data["records"]] == [mutation["id"]]
    found = run(gate, "query_traces", path="src/new.py").data["records"]
    assert {body(r)["event"] for r in found} >= {"mutation", "tool_use"}
    assert run(gate, "query_traces", content_hash=digest, intent_id="INT-002").text == "No such record."
    assert len(run(gate, "query_traces", limit=1).data["records"]) == 1
    assert run(gate, "query_traces", line=2).data["error_type"] == "INVALID_ARGUMENTS"
    assert run(gate, "query_traces", path="../../etc/passwd").data["error_type"] == "INVALID_ARGUMENTS"


def test_why_tells_the_reasoning_behind_a_line(gate: Gate, home: Path) -> None:
    agent = Agent(gate.workspace.root, home)
    run(gate, "select_active_intent", intent_id="INT-001", reasoning="the person wants names")
    agent.write("src/new.py", "one\ntwo\n")
    for line in (1, "1-2", "2", None):
        result = run(gate, "why", path="src/new.py", **({"line": line} if line else {}))
        assert "the person wants names" in result.text, result
    assert run(gate, "why", path="src/app.py").data["why"]["causes"] == ()
    assert run(gate, "why", path="src/app.py", line="x").data["error_type"] == "INVALID_ARGUMENTS"
