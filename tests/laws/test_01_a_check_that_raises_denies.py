"""Law 1: a check that raises denies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.enemies import calls, facts
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Facts, Finding
from remit.policy.decide import CHECKS, Check, decide

FAILURES: list[BaseException] = [
    ValueError("no"),
    KeyError("k"),
    RecursionError(),
    MemoryError(),
    SystemExit(0),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    Exception("\ud800"),
]


def raising(error: BaseException) -> Check:
    """A check that breaks."""

    def check(call: ToolCall, facts: Facts) -> Finding | None:
        raise error

    return check


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
@given(call=calls, situation=facts(), name=st.sampled_from(sorted(CHECKS)))
@settings(max_examples=40)
def test_any_check_that_raises_denies_what_may_change_something(
    error: BaseException, call: ToolCall, situation: Facts, name: str
) -> None:
    decision = decide(call, situation, {**CHECKS, name: raising(error)})
    if decision.call_class == "destructive":
        assert decision.verdict == "deny"
        assert any(f.rule == name and f.code == "HOOK_BLOCKED" for f in decision.findings)
        assert (decision.effect == "deny") == (situation.mode == "enforce")


@given(calls, facts())
def test_no_check_breaks_on_anything_that_can_be_asked(call: ToolCall, situation: Facts) -> None:
    decision = decide(call, situation)
    assert not [f for f in decision.findings if "exception" in f.context]


def test_a_person_who_interrupts_is_obeyed() -> None:
    call = ToolCall(agent="a", session=SessionKey("s"), tool="Write", effect="write", cwd="/w")
    with pytest.raises(KeyboardInterrupt):
        decide(call, Facts("enforce"), {"x": raising(KeyboardInterrupt())})
