"""Everything the gate writes is an Agent Trace record, whatever the paths and ids are called."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from gate.driving import INTENTS, Agent, body, governed, lines, records

SCHEMA = json.loads((Path(__file__).parents[2] / "compat" / "agent-trace-0.1.0.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)

NASTY = ["a b.py", "100%.py", "x#y.py", "é.py", "new\nline.py", 'q"uo\\te.py', "日本.py", "?.py", "<&>.py"]
SESSIONS = ["plain", "a b", "%zz", "é#?&", "urn:x/y", "new\nline", "x" * 300, "\u202e", "\0nul"]

LATER = {
    "trace_id": "no conversation is read yet",
    "message_index": "no conversation is read yet",
    "branch": "not recorded yet",
    "dirty": "not recorded yet",
}
"""Keys of the design's example that records do not hold yet."""


def scripted(agent: Agent) -> None:
    """A session with every kind of event."""
    agent.send("SessionStart", source="startup", model="m")
    agent.write("src/too-early.py", "x")
    agent.select()
    agent.send("UserPromptSubmit", prompt="go")
    agent.read("src/app.py")
    for name in NASTY:
        agent.write(f"src/{name}", "one\ntwo\n")
        agent.write(f"src/{name}", "one\nTWO\nthree\n")
    agent.shell(r"printf x > src/$(printf 'caf\351.py'); rm src/app.py; ln -s nowhere src/link")
    asked = agent.ask("Bash", command="make")
    agent.send(
        "PostToolUseFailure",
        tool_name="Bash",
        tool_input={"command": "make"},
        tool_use_id=asked["call_id"],
        error="Exit code 2\nmake: *** \x1b[31mno\x1b[0m",
        duration_ms=3,
    )
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    path.write_text(INTENTS.replace("name: Docs", "name: 'Do\\u0301cs <&> \"'"))
    agent.ask("mcp__remit__complete_intent", intent_id="INT-001", verification_notes="done")
    agent.ask("Bash", command="remit intent clear")
    agent.send("Stop")
    agent.send("SessionEnd", reason="other")


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return Agent(governed(repository), home)


def problem(record: dict[str, Any]) -> str:
    """What the schema says against a record."""
    errors: list[ValidationError] = sorted(VALIDATOR.iter_errors(record), key=str)
    return "\n".join(f"{list(error.absolute_path)}: {error.message}" for error in errors)


def test_the_formats_are_really_checked() -> None:
    record: dict[str, Any] = {"version": "0.1.0", "id": "no", "timestamp": "then", "files": []}
    assert len(list(VALIDATOR.iter_errors(record))) == 2
    file: dict[str, Any] = {"path": "a", "conversations": [{"ranges": [], "url": "urn:remit:session:a b"}]}
    assert problem({**record, "files": [file]}).count("is not a") == 3


def test_every_record_of_a_session_validates(agent: Agent) -> None:
    scripted(agent)
    found = records(agent.cwd)
    assert [problem(record) for record in found if problem(record)] == []
    assert {body(record)["event"] for record in found} == {
        "session_start",
        "session_end",
        "denied",
        "tool_use",
        "tool_result",
        "mutation",
        "intent_selected",
        "intent_cleared",
        "intent_changed",
        "snapshot",
        "tree_head",
    }


@pytest.mark.parametrize("session", SESSIONS, ids=[repr(s[:10]) for s in SESSIONS])
def test_any_session_id_makes_a_valid_record(agent: Agent, session: str) -> None:
    named = Agent(agent.cwd, agent.home, session)
    named.select()
    named.write("src/x.py", "x\n")
    [mutation] = records(agent.cwd, "mutation")
    assert problem(mutation) == ""
    assert body(mutation)["session_id"] == session
    assert body(mutation)["intent_id"] == "INT-001"


def sorted_keys(line: bytes) -> bool:
    """Whether the keys of every object are in order."""
    return json.dumps(json.loads(line), sort_keys=True) == json.dumps(json.loads(line))


def test_lines_have_sorted_keys_and_no_control_characters(agent: Agent) -> None:
    scripted(agent)
    for line in lines(agent.cwd):
        assert sorted_keys(line)
        assert all(byte >= 32 for byte in line)
        line.decode("utf-8")


def test_a_mutation_holds_every_key_of_the_design_but_the_later_ones(agent: Agent) -> None:
    scripted(agent)
    whole = next(r for r in records(agent.cwd, "mutation") if body(r)["files"][0]["operation"] == "modify")
    found = body(whole)
    wanted = {
        "schema", "event", "intent_id", "session_id", "trace_id", "message_index", "call", "mutation_class", "files",
        "decision", "in_scope", "covered", "branch", "dirty", "chain",
    }  # fmt: skip
    assert wanted - set(found) <= set(LATER)
    assert set(found["call"]) == {"id", "name", "effect", "paths", "arguments_sha256"}
    assert set(found["mutation_class"]) == {"declared", "computed"}
    assert {"path", "operation", "before", "after", "in_scope", "ranges", "hunks"} == set(found["files"][0])
    assert {"sha256", "git_blob", "lines", "mode"} == set(found["files"][0]["before"])
    assert {"effect", "rules", "approved_by", "grant", "intent_sha256", "mode", "verdict"} == set(found["decision"])
    assert {"log", "seq", "prev"} == set(found["chain"])
    assert whole["vcs"]["revision"] == whole["vcs"]["revision_id"]
    [conversation] = whole["files"][0]["conversations"]
    assert conversation["related"][0] == {
        "type": "specification",
        "url": "urn:remit:intent:INT-001",
        "value": "INT-001",
    }
    assert whole["files"][0]["path"] == whole["files"][0]["relative_path"] == found["files"][0]["path"]


def test_a_creation_has_no_before_and_a_deletion_no_after(agent: Agent) -> None:
    scripted(agent)
    for file in (f for r in records(agent.cwd, "mutation") for f in body(r)["files"]):
        assert ("before" in file) == (file["operation"] != "create")
        assert ("after" in file) == (file["operation"] != "delete")


def test_use_and_result_join_by_the_call(agent: Agent) -> None:
    scripted(agent)
    uses = {body(r)["call"]["id"] for r in records(agent.cwd, "tool_use")}
    results = {body(r)["call"]["id"] for r in records(agent.cwd, "tool_result")}
    assert results <= uses


def test_the_computed_class_is_recorded_where_no_parser_is_needed(agent: Agent) -> None:
    """Code that comes or goes is no refactoring; of a change within a file readers find the class."""
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    agent.write("src/new.py", "y = 1\n")
    agent.write("src/new.txt", "x\n")
    agent.shell("rm src/new.py")
    classes = [body(r)["mutation_class"]["computed"] for r in records(agent.cwd, "mutation")]
    assert classes == ["INTENT_EVOLUTION", None, None, "INTENT_EVOLUTION"]


def test_the_first_write_of_a_sub_agent_has_its_parents_model(repository: Path, home: Path) -> None:
    """Claude Code writes a sub-agent's transcript after its first call came back."""
    parent = home / ".claude" / "projects" / "p" / "session-1.jsonl"
    parent.parent.mkdir(parents=True)
    parent.write_text('{"type":"assistant","message":{"model":"claude-sonnet-5","role":"assistant"}}\n')
    agent = Agent(governed(repository, "observe"), home, agent_id="child")
    document = {"tool_name": "Write", "tool_use_id": "t", "tool_input": {"file_path": "src/a.py", "content": "x\n"}}
    document["transcript_path"] = str(parent)
    agent.send("PreToolUse", **document)
    (repository / "src" / "a.py").write_text("x\n")
    agent.send("PostToolUse", **document, tool_response={})
    [record] = records(repository, "mutation")
    assert record["files"][0]["conversations"][0]["contributor"]["model_id"] == "claude-sonnet-5"
