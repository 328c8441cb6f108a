"""The transcripts that real agents left behind, and what else a file may hold."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.adapters.transcripts import TRANSCRIPT_READERS, TranscriptEntry, read_entries
from remit.core.call import hash_arguments
from remit_agent.models.messages import ModelTurn, TextPart, ThoughtPart, ToolCallPart
from remit_agent.session.journal.lines import CondensedLine, ResultLine, RunLine, TurnLine, UserLine

CAPTURED = Path(__file__).parents[1] / "compat" / "transcripts"
ASKED = "Please greet the world from hello.py"
FIRST = "I will write the greeting first, because the tests need it."

TOOLS = {
    "claude-code": ("Write", "Bash"),
    "codex": ("apply_patch", "exec_command"),
    "gemini": ("write_file", "run_shell_command"),
    "qwen": ("write_file", "run_shell_command"),
    "remit": ("write_to_file", "execute_command"),
}


def lines(agent: str) -> list[bytes]:
    return (CAPTURED / f"{agent}.jsonl").read_bytes().splitlines()


def told(agent: str) -> list[TranscriptEntry]:
    """What the captured transcript says; an entry that comes again, by its key, stands where it stood first."""
    found = [entry for line in lines(agent) for entry in read_entries(agent, line)]
    return list({entry.key or str(number): entry for number, entry in enumerate(found)}.values())


def one(agent: str, **document: Any) -> TranscriptEntry:
    """The only entry of a line."""
    [entry] = read_entries(agent, json.dumps(document).encode())
    return entry


@pytest.mark.parametrize("agent", sorted(TRANSCRIPT_READERS))
def test_a_real_transcript_tells_the_conversation_in_order(agent: str) -> None:
    write, shell = TOOLS[agent]
    found = told(agent)
    assert [(e.role, e.tool) for e in found] == [
        ("user", ""),
        ("assistant", ""),
        ("tool_call", write),
        ("tool_result", ""),
        ("assistant", ""),
        ("tool_call", shell),
        ("tool_result", ""),
        ("tool_call", shell),
        ("tool_result", ""),
        ("assistant", ""),
    ]
    assert (found[0].text.strip('"'), found[1].text) == (ASKED, FIRST)
    assert found[2].text.endswith("hello.py")
    assert [e.text for e in found if e.role == "tool_call"][1:] == ["cat hello.py", "false"]
    assert all(e.at.startswith("2026-11-22T03:0") for e in found)


@pytest.mark.parametrize("agent", sorted(TRANSCRIPT_READERS))
def test_an_answer_has_the_id_of_its_call(agent: str) -> None:
    found = told(agent)
    calls = [e.call_id for e in found if e.role == "tool_call"]
    assert calls == [e.call_id for e in found if e.role == "tool_result"]
    assert len(set(calls)) == 3


@pytest.mark.parametrize("agent", ["claude-code", "gemini", "qwen"])
def test_arguments_are_hashed_as_the_hook_hashes_them(agent: str) -> None:
    expected = hash_arguments({"file_path": "$WORKSPACE/hello.py", "content": "print('hello')\n"})
    assert next(e for e in told(agent) if e.role == "tool_call").arguments_sha256 == expected


@pytest.mark.parametrize("agent", sorted(TRANSCRIPT_READERS))
def test_what_a_call_writes_is_not_in_its_entry(agent: str) -> None:
    assert all("print(" not in e.text for e in told(agent) if e.role == "tool_call")


def test_thoughts_are_told_apart_from_words() -> None:
    message = {"content": [{"type": "thinking", "thinking": "hm", "signature": "x"}]}
    assert one("claude-code", type="assistant", uuid="u", message=message).role == "thinking"
    summary = [{"type": "summary_text", "text": "hm"}]
    reasoning = {"type": "reasoning", "summary": summary, "content": None, "encrypted_content": "x"}
    assert one("codex", type="response_item", payload=reasoning) == TranscriptEntry("thinking", "hm")
    thoughts = [{"subject": "Names", "description": "hm"}]
    assert one("gemini", id="m", type="gemini", content="", thoughts=thoughts).text == "Names: hm"
    parts = [{"text": "hm", "thought": True}]
    assert one("qwen", type="assistant", uuid="u", message={"parts": parts}).role == "thinking"


def test_what_programs_put_before_a_prompt_is_not_the_persons() -> None:
    text = "<hook_context>&lt;rules&gt;</hook_context>\n\ngo on"
    assert one("gemini", id="m", type="user", content=[{"text": text}]).text == "go on"
    message = {"role": "user", "content": [{"type": "input_text", "text": "<environment_context>…"}], "type": "message"}
    assert read_entries("codex", json.dumps({"type": "response_item", "payload": message}).encode()) == []
    assert read_entries("claude-code", b'{"type":"user","isMeta":true,"message":{"content":"caveat"}}') == []
    reminder = b'{"type":"user","message":{"content":"<system-reminder>x</system-reminder>"}}'
    assert read_entries("claude-code", reminder) == []


def test_a_summary_takes_the_place_of_what_was_compacted() -> None:
    assert one("claude-code", type="user", isCompactSummary=True, message={"content": "so far"}).role == "summary"
    assert one("codex", type="compacted", payload={"message": "so far"}).role == "summary"


def test_an_older_document_of_all_messages_is_read_too() -> None:
    messages = [{"id": "1", "type": "user", "content": "go"}, {"id": "2", "type": "gemini", "content": "gone"}]
    found = read_entries("gemini", json.dumps({"sessionId": "s", "messages": messages}).encode())
    assert [(e.role, e.text, e.key) for e in found] == [("user", "go", "1"), ("assistant", "gone", "2")]


def test_the_call_that_a_subagent_worked_for_names_it() -> None:
    result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]
    entry = one("claude-code", type="user", message={"content": result}, toolUseResult={"agentId": "a1"})
    assert (entry.role, entry.call_id, entry.child) == ("tool_result", "toolu_1", "a1")


@pytest.mark.parametrize("words", ["cat .env", "cat 'config/secrets.yaml'", "gpg<~/.ssh/id_rsa", "x=1;cat deploy.pem"])
def test_a_call_that_names_a_file_of_secrets_is_marked(words: str) -> None:
    part = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": words}}
    assert one("claude-code", type="assistant", message={"content": [part]}).private


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(TRANSCRIPT_READERS)), st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_junk_says_nothing(agent: str, line: bytes) -> None:
    assert read_entries(agent, line) == [] or line.strip().startswith(b"{")


def keys_of(place: Any) -> list[Any]:
    return list(place) if hasattr(place, "keys") else list(range(len(place)))


@given(st.data(), st.sampled_from(sorted(TRANSCRIPT_READERS)))
@settings(max_examples=300, deadline=None)
def test_no_value_anywhere_in_a_real_line_makes_reading_fail(data: st.DataObject, agent: str) -> None:
    document = json.loads(data.draw(st.sampled_from(lines(agent))))
    place: Any = document
    while place and type(place) in (dict, list):
        keys = keys_of(place)
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    for entry in read_entries(agent, json.dumps(document).encode("utf-8", "surrogatepass")):
        assert isinstance(entry.text, str)


def test_deep_nesting_says_nothing() -> None:
    deep = b'{"type":"user","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert all(read_entries(agent, deep) == [] for agent in TRANSCRIPT_READERS)


def test_an_agent_whose_form_is_not_known_says_nothing() -> None:
    assert read_entries("somebody", lines("claude-code")[0]) == []


def test_the_own_agents_journal_is_read() -> None:
    call = ToolCallPart(id="c1", tool="read_file", arguments={"path": "a"})
    turn = ModelTurn(parts=(TextPart("I look."), ThoughtPart("hm"), call), stop="tool_calls", model="m")
    journal = (
        RunLine(run="r", cwd="/w", model="m", mode="code"),
        UserLine(text="fix it"),
        UserLine(text="a remark", by="remit"),
        TurnLine(turn=turn, at=1795316400.5),
        ResultLine(id="c1", kind="failed", text="no such file"),
        CondensedLine(summary="so far", keeps=""),
    )
    found = [entry for line in journal for entry in read_entries("remit", msgspec.json.encode(line))]
    assert [(entry.role, entry.call_id, entry.failed) for entry in found] == [
        ("user", "", False),
        ("assistant", "", False),
        ("thinking", "", False),
        ("tool_call", "c1", False),
        ("tool_result", "c1", True),
        ("summary", "", False),
    ]
    assert (found[1].at, found[1].model) == ("2026-11-22T03:00:00.500Z", "m")
