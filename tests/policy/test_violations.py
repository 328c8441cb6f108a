"""Denials as data and as text."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.enemies import texts
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Decision, ErrorType, Finding
from remit.policy.violations import HINTS, NOT_RECOVERABLE, explain, leading_violation, make_violation

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
    for part in ("What happened:", "What to do:", "Why:"):
        assert part in text
    assert "{" not in text, "every word of an example is filled in"


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
