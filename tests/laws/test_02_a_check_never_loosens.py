"""Law 2: adding a check never loosens a decision."""

from hypothesis import given
from hypothesis import strategies as st

from laws.enemies import calls, facts
from remit.core.call import ToolCall
from remit.core.decision import STRICTNESS, Facts, Finding, Verdict
from remit.policy.decide import CHECKS, decide


def strictness(verdict: Verdict) -> int:
    """How strict, as a number."""
    return STRICTNESS.index(verdict)


@given(calls, facts(), st.sets(st.sampled_from(sorted(CHECKS))), st.sampled_from(sorted(CHECKS)))
def test_one_more_check_is_never_looser(call: ToolCall, situation: Facts, few: set[str], one: str) -> None:
    without = decide(call, situation, {n: c for n, c in CHECKS.items() if n in few})
    with_it = decide(call, situation, {n: c for n, c in CHECKS.items() if n in few | {one}})
    assert strictness(with_it.effect) >= strictness(without.effect)
    assert strictness(with_it.verdict) >= strictness(without.verdict)
    assert all(finding in with_it.findings for finding in without.findings)


@given(calls, facts(), st.sampled_from(STRICTNESS))
def test_a_foreign_check_can_only_tighten(call: ToolCall, situation: Facts, verdict: Verdict) -> None:
    def foreign(call: ToolCall, facts: Facts) -> Finding | None:
        return Finding("foreign", "HOOK_BLOCKED", "mine", verdict)

    before = decide(call, situation)
    after = decide(call, situation, {**CHECKS, "foreign": foreign})
    assert strictness(after.effect) >= strictness(before.effect)
    if after.call_class == "destructive":
        assert strictness(after.verdict) == max(strictness(before.verdict), strictness(verdict))
