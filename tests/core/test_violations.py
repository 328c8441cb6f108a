"""Denials as data and as text."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.enemies import texts
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import (
    HINTS,
    NOT_RECOVERABLE,
    Decision,
    ErrorType,
    Finding,
    explain,
    leading_violation,
    make_violation,
)

CODES: tuple[ErrorType, ...] = get_args(ErrorType)
CALL = ToolCall(agent="a", session=SessionKey("s"), tool="Write", effect="write", cwd="/w")


def make_decision(*findings: Finding) -> Decision:
    return Decision("deny", "deny", "destructive", "enforce", findings, "INT-001")


def test_every_error_type_has_a_hint() -> None:
    assert set(HINTS) == set(CODES)
    assert set(CODES) > NOT_RECOVERABLE


@pytest.mark.parametrize("code", CODES)
def test_every_error_type_is_explained_in_five_parts(code: ErrorType) -> None:
    finding = Finding("r", code, "what is wrong")
    text = explain(make_violation(finding, CALL, make_decision(finding)))
    assert text.startswith(f"[{code}] what is wrong\n")
    for part in ("What happened:", "Do:", "Why:"):
        assert part in text
    assert "{" not in text, "every word of an example is filled in"


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("MISSING_OR_INVALID_INTENT", "remit intent select INT-007"),
        ("INTENT_ALREADY_ACTIVE", "remit intent clear"),
        ("SCOPE_VIOLATION", "remit intent widen 'docs/a b.md' --why \"why\""),
    ],
)
def test_a_step_by_a_tool_names_the_command_that_does_the_same(code: ErrorType, command: str) -> None:
    finding = Finding("r", code, "what is wrong", path="docs/a b.md", context={"available_intents": ["INT-007"]})
    violation = make_violation(finding, CALL, make_decision(finding))
    hint = violation.action_hint
    assert f"\nDo: run alone in your shell: {command}   (or {hint})\n" in explain(violation)
    assert f"\nDo: {hint}   (or run alone in your shell: {command})\n" in explain(violation, "tool first")
    assert f"\nDo: {hint}\n" in explain(violation, "tool only")


def test_without_an_open_intent_the_step_is_to_propose_one() -> None:
    finding = Finding("r", "MISSING_OR_INVALID_INTENT", "none", context={"available_intents": []})
    text = explain(make_violation(finding, CALL, make_decision(finding)))
    assert "\nDo: run alone in your shell: remit intent propose " in text


def test_the_wire_shape_is_that_of_the_contract() -> None:
    finding = Finding("scope", "SCOPE_VIOLATION", "m", path="docs/x", context={"owned_scope": ["src/**"]})
    other = Finding("stale", "STALE_FILE", "n")
    found = leading_violation(CALL, make_decision(finding, other))
    assert msgspec.to_builtins(found) == {
        "status": "error",
        "error_type": "SCOPE_VIOLATION",
        "error": "m",
        "message": "m",
        "tool": "Write",
        "classification": "destructive",
        "intent_id": "INT-001",
        "path": "docs/x",
        "recoverable": True,
        "action_hint": "request_scope_expansion",
        "context": {"owned_scope": ["src/**"], "also": ["STALE_FILE"]},
    }


@given(st.sampled_from(CODES), texts, st.none() | texts, st.lists(texts, max_size=3))
def test_no_text_breaks_the_words(code: ErrorType, message: str, path: str | None, scope: list[str]) -> None:
    finding = Finding("r", code, message, path=path, context={"owned_scope": scope, "available_intents": scope})
    found = make_violation(finding, CALL, make_decision(finding))
    assert explain(found)
    if isinstance(found.path, str):
        found.path.encode()


def test_nothing_found_is_no_violation() -> None:
    assert leading_violation(CALL, Decision("allow", "allow", "destructive", "enforce")) is None
