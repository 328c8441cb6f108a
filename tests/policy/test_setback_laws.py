"""Laws 1 to 3 with leases, repeated denials and refused paths among the facts."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laws.enemies import calls, facts, paths
from remit.core.call import ToolCall
from remit.core.decision import STRICTNESS, DeniedPath, Facts
from remit.policy.decide import CHECKS, decide

NEW = ("lease", "circuit", "detour")

denied = st.builds(
    DeniedPath,
    path=paths,
    code=st.sampled_from(["SCOPE_VIOLATION", "PROTECTED_PATH"]),
    tool=st.sampled_from(["Write", "Bash"]),
    names=st.lists(paths, max_size=3).map(tuple),
)


@st.composite
def facts_with_setbacks(draw: st.DrawFn) -> Facts:
    """Any situation, under pressure."""
    found = draw(facts())
    holder = draw(st.none() | paths)
    counts = {"denial": draw(paths), "denials": draw(st.integers(0, 5)), "failures": draw(st.integers(0, 9))}
    return replace(
        found,
        session=replace(found.session, **counts),
        targets=tuple(replace(t, leased_by=holder) for t in found.targets),
        denied=tuple(draw(st.lists(denied, max_size=3))),
    )


@given(calls, facts_with_setbacks())
def test_none_of_them_breaks(call: ToolCall, situation: Facts) -> None:
    assert not [f for f in decide(call, situation).findings if "exception" in f.context]


@given(calls, facts_with_setbacks(), st.sampled_from(NEW))
def test_none_of_them_loosens(call: ToolCall, situation: Facts, one: str) -> None:
    without = decide(call, situation, {n: c for n, c in CHECKS.items() if n != one})
    with_it = decide(call, situation)
    assert STRICTNESS.index(with_it.verdict) >= STRICTNESS.index(without.verdict)
    assert all(finding in with_it.findings for finding in without.findings)


@given(calls, facts_with_setbacks(), st.permutations(list(CHECKS)))
def test_their_order_never_changes_the_effect(call: ToolCall, situation: Facts, order: list[str]) -> None:
    usual = decide(call, situation)
    shuffled = decide(call, situation, {name: CHECKS[name] for name in order})
    assert (usual.effect, usual.verdict) == (shuffled.effect, shuffled.verdict)


@given(calls, facts_with_setbacks())
def test_they_never_stop_what_changes_nothing(call: ToolCall, situation: Facts) -> None:
    decision = decide(call, situation)
    assert decision.call_class == "destructive" or call.malformed is not None or decision.effect == "allow"
