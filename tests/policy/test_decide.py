"""The decision about one call by all checks."""

import pytest

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import STRICTNESS, Decision, Facts, Finding, Verdict, find_strictest
from remit.policy.decide import CHECKS, CONTAIN_RULE, RECOMMENDED, Check, decide, is_containment_needed

CALL = ToolCall(agent="a", session=SessionKey("s"), tool="Write", effect="write", cwd="/w", paths=("x",))


def saying(verdict: Verdict, name: str = "x") -> Check:
    """A check that always says the same."""

    def check(call: ToolCall, facts: Facts) -> Finding | None:
        return Finding(name, "HOOK_BLOCKED", name, verdict)

    return check


def test_the_strictest_finding_leads_and_all_are_kept() -> None:
    checks = {v: saying(v, v) for v in STRICTNESS}
    decision = decide(CALL, Facts("enforce"), checks)
    assert (decision.effect, decision.verdict, len(decision.findings)) == ("deny", "deny", len(STRICTNESS))
    assert decision.leading is not None
    assert decision.leading.rule == "deny"


def test_of_equals_the_first_of_the_table_leads() -> None:
    decision = decide(CALL, Facts("enforce"), {"b": saying("deny", "b"), "a": saying("deny", "a")})
    assert decision.leading is not None
    assert decision.leading.rule == "b"


def test_no_check_runs_on_a_safe_call() -> None:
    def raise_always(call: ToolCall, facts: Facts) -> Finding | None:
        raise AssertionError

    read = ToolCall(agent="a", session=SessionKey("s"), tool="Read", effect="read", cwd="/w")
    assert decide(read, Facts("enforce"), {"x": raise_always}).effect == "allow"


def test_of_a_safe_call_the_form_of_its_arguments_is_checked() -> None:
    read = ToolCall(agent="a", session=SessionKey("s"), tool="Read", effect="read", cwd="/w", malformed="no path")
    assert [found.code for found in decide(read, Facts("enforce")).findings] == ["INVALID_ARGUMENTS"]


def test_an_unproved_call_passes_without_an_intent_and_meets_what_stands_against_its_tool() -> None:
    call = ToolCall(agent="a", session=SessionKey("s"), tool="T", effect="unproved", cwd="/w", whole_workspace=True)
    passed = decide(call, Facts("enforce"))
    assert (passed.effect, passed.call_class, passed.findings) == ("allow", "unproved", ())
    asked = Finding("tools", "USER_REJECTED", "ask first", verdict="ask")
    assert decide(call, Facts("enforce", tool_finding=asked)).effect == "deny"
    assert decide(call, Facts("observe", tool_finding=asked)).effect == "allow"


def test_nothing_found_allows_and_nothing_leads() -> None:
    decision = decide(CALL, Facts("enforce"), {})
    assert (decision.effect, decision.leading) == ("allow", None)
    assert find_strictest(()) == "allow"


def test_the_table_holds_each_check_in_the_order_in_which_it_leads() -> None:
    order = [
        "arguments",
        "circuit",
        "intents_file",
        "protected",
        "outside",
        "active_intent",
        "mismatch",
        "ignored",
        "scope",
        "lease",
        "stale",
        "command",
    ]
    assert [name for name in CHECKS if name in order] == order


REQUIRED_CONTAINMENT = Finding(CONTAIN_RULE, "COMMAND_BLOCKED", "its effects are unknown", "contain")
ADVISED_CONTAINMENT = Finding(
    CONTAIN_RULE, "COMMAND_BLOCKED", "proves the lines", "contain", context={RECOMMENDED: True}
)
REMARK = Finding("companion", "SCOPE_VIOLATION", "mirrors src/x.py", "allow")


@pytest.mark.parametrize(
    ("findings", "needed"),
    [
        ((), False),
        ((REMARK,), False),
        ((ADVISED_CONTAINMENT,), False),
        ((REQUIRED_CONTAINMENT,), True),
        ((ADVISED_CONTAINMENT, REQUIRED_CONTAINMENT), True),
    ],
)
def test_one_finding_that_requires_containment_is_enough(findings: tuple[Finding, ...], needed: bool) -> None:
    assert is_containment_needed(Decision("contain", "contain", "destructive", "enforce", findings)) is needed
