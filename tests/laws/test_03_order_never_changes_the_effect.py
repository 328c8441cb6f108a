"""Law 3: the order of the checks never changes what is done, only what is said first."""

from hypothesis import given
from hypothesis import strategies as st

from laws.enemies import calls, facts
from remit.core.call import ToolCall
from remit.core.decision import Facts
from remit.policy.decide import CHECKS, decide


@given(calls, facts(), st.permutations(list(CHECKS)))
def test_any_order_gives_the_same_effect_and_findings(call: ToolCall, situation: Facts, order: list[str]) -> None:
    usual = decide(call, situation)
    shuffled = decide(call, situation, {name: CHECKS[name] for name in order})
    assert (usual.effect, usual.verdict) == (shuffled.effect, shuffled.verdict)
    assert sorted(f.rule for f in usual.findings) == sorted(f.rule for f in shuffled.findings)
    assert (usual.leading is None) == (usual.verdict == "allow")
