"""Law 10: that a command can be contained never loosens what is decided, and only a contained one is let through so."""

from hypothesis import given
from msgspec.structs import replace

from laws.enemies import calls, facts
from remit.core.call import ToolCall
from remit.core.decision import STRICTNESS, Facts
from remit.policy.commands import analyse
from remit.policy.decide import CONTAIN_RULE, decide


@given(calls, facts())
def test_a_sandbox_at_hand_never_loosens(call: ToolCall, situation: Facts) -> None:
    without = decide(call, replace(situation, containable=False))
    with_it = decide(call, replace(situation, containable=True))
    assert STRICTNESS.index(with_it.verdict) >= STRICTNESS.index(without.verdict)
    assert with_it.verdict == without.verdict or (without.verdict, with_it.verdict) == ("allow", "contain")
    assert [f for f in with_it.findings if f.rule != CONTAIN_RULE] == list(without.findings)


@given(calls, facts())
def test_what_the_text_does_not_tell_is_contained_or_stricter_and_only_in_enforce(call: ToolCall, facts: Facts) -> None:
    decision = decide(call, facts)
    unknown = call.command is not None and analyse(call.command).outcome == "unknown"
    if decision.call_class == "destructive" and facts.containable and unknown:
        assert STRICTNESS.index(decision.verdict) >= STRICTNESS.index("contain")
    assert decision.effect != "contain" or (facts.mode == "enforce" and facts.containable and call.command is not None)
