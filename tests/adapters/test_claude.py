"""Claude Code's own payloads, each as the event it is; and the bytes it is answered with."""

import json
from pathlib import Path

import pytest

from adapters.claude_code_payloads import ROWS as EXPECTED
from remit.adapters import HookReply, parse, render
from remit.core.call import (
    AfterCall,
    BeforeCall,
    IgnoredEvent,
    Outcome,
    SessionEnded,
    SessionKey,
    SessionStarted,
    ToolCall,
)
from remit.core.decision import Decision, Verdict
from remit.core.diff.contents import LineRange

PAYLOADS = Path(__file__).parents[1] / "compat" / "payloads" / "claude-code"
Row = tuple[str, str, str, str, str, str, tuple[str, ...], str]


def test_every_captured_payload_has_its_row() -> None:
    assert sorted(row[0] for row in EXPECTED) == sorted(path.stem for path in PAYLOADS.glob("*.json"))


@pytest.mark.parametrize("row", EXPECTED, ids=[row[0] for row in EXPECTED])
def test_a_captured_payload_is_the_event_it_is(row: Row) -> None:
    name, kind, session, agent_id, detail, effect, paths, command = row
    event = parse("claude-code", (PAYLOADS / f"{name}.json").read_bytes())
    assert type(event).__name__ == kind
    if isinstance(event, BeforeCall | AfterCall):
        call = event.call
        assert (call.tool, call.effect, call.paths, call.command or "") == (detail, effect, paths, command)
        assert call.call_id.startswith("toolu_")
        assert call.malformed is None
        assert call.whole_workspace == (effect in ("execute", "unproved"))
        key = call.session
    elif isinstance(event, IgnoredEvent):
        assert event.name == detail
        return
    else:
        key = event.session
        said = event.source if isinstance(event, SessionStarted) else ""
        assert (event.reason if isinstance(event, SessionEnded) else said) == detail
    assert key.session_id.startswith(session)
    assert key.agent_id == agent_id


def test_use_and_result_of_one_call_agree() -> None:
    for after in PAYLOADS.glob("PostToolUse-*.json"):
        before = after.with_name(after.name.replace("Post", "Pre", 1))
        if not before.exists():
            continue
        use = parse("claude-code", before.read_bytes())
        result = parse("claude-code", after.read_bytes())
        assert isinstance(use, BeforeCall)
        assert isinstance(result, AfterCall)
        if use.call.call_id == result.call.call_id:
            assert (use.call.arguments_sha256, use.call.session) == (result.call.arguments_sha256, result.call.session)


def test_a_failure_tells_its_exit_code_and_an_edit_its_lines() -> None:
    failed = parse("claude-code", (PAYLOADS / "PostToolUseFailure-Bash.json").read_bytes())
    edited = parse("claude-code", (PAYLOADS / "PostToolUse-Edit.json").read_bytes())
    assert isinstance(failed, AfterCall)
    assert isinstance(edited, AfterCall)
    assert (failed.outcome.ok, failed.outcome.exit_code, failed.failed) == (False, 3, True)
    assert edited.outcome.positions == {"$WORKSPACE/a.txt": (LineRange(2, 2),)}


def test_a_subagents_transcript_lies_beside_its_parents() -> None:
    event = parse("claude-code", (PAYLOADS / "PreToolUse-Write-subagent.json").read_bytes())
    assert isinstance(event, BeforeCall)
    assert event.call.transcript is not None
    assert event.call.transcript.endswith("/subagents/agent-a0f10feb62edbe8b7.jsonl")


CALL = ToolCall(agent="claude-code", session=SessionKey("s"), tool="Write", effect="write", cwd="/w", paths=("a",))


def answered(verdict: Verdict, reason: str = "", context: str = "") -> HookReply:
    return render(
        "claude-code", BeforeCall(CALL), Decision(verdict, verdict, "destructive", "enforce"), reason, context
    )


def test_an_allowed_call_is_answered_with_silence() -> None:
    assert answered("allow") == HookReply(b"", b"", 0)


ANSWERS: list[tuple[Verdict, str, str, bytes]] = [
    (
        "deny",
        "no",
        "",
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
        b'"permissionDecisionReason":"no"}}',
    ),
    (
        "contain",
        "no",
        "",
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
        b'"permissionDecisionReason":"no"}}',
    ),
    (
        "ask",
        "sure?",
        "",
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask",'
        b'"permissionDecisionReason":"sure?"}}',
    ),
    ("allow", "", "note", b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"note"}}'),
]


@pytest.mark.parametrize(("verdict", "reason", "context", "expected"), ANSWERS)
def test_the_answer_is_these_bytes(verdict: Verdict, reason: str, context: str, expected: bytes) -> None:
    assert answered(verdict, reason, context) == HookReply(expected, b"", 0)


@pytest.mark.parametrize("failed", [False, True])
def test_context_after_a_call_names_the_event_that_came(failed: bool) -> None:
    reply = render("claude-code", AfterCall(CALL, Outcome(ok=False), failed), None, "", "note")
    name = "PostToolUseFailure" if failed else "PostToolUse"
    assert json.loads(reply.stdout)["hookSpecificOutput"] == {"hookEventName": name, "additionalContext": "note"}


def test_text_that_cannot_be_encoded_is_said_all_the_same() -> None:
    assert b"\\\\udce9" in answered("deny", "\udce9").stdout
