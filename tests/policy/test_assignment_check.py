"""What an assignment forbids beside the intent's scope, and that nothing widens it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laws.enemies import assignments, calls, facts
from remit.core.assignment import Assignment, AssignmentFacts
from remit.core.call import Effect, SessionKey, ToolCall
from remit.core.decision import STRICTNESS, ErrorType, Facts, Grant, SessionFacts, Target, Waiver
from remit.core.intent import Intent, IntentSet
from remit.core.scope.path_patterns import RepoPath
from remit.policy.decide import CHECKS, decide, waiver_for

INTENT = Intent("INT-001", ("src/**",), status="IN_PROGRESS")
OUTSIDE = Target(raw="/tmp/x", resolved="/tmp/x", path=None, tolerated=True)
GENERATED = Target(raw="build/x", resolved="/w/build/x", path=RepoPath.parse("build/x", "/w"), generated=True)
TERMS = Assignment(task="plan:INT-001", intent="INT-001", attempt=7, token=31, scope=("src/**", "!src/b/**"))


def situation(path: str, terms: Assignment | None = TERMS, expired: str = "", intent: str = "INT-001") -> Facts:
    other = Intent("INT-002", ("docs/**",), status="IN_PROGRESS")
    return Facts(
        mode="enforce",
        session=SessionFacts(intent),
        intents=IntentSet((INTENT, other)),
        assignment=AssignmentFacts(terms, expired),
        targets=(Target(raw=path, resolved=f"/w/{path}", path=RepoPath.parse(path, "/w")),),
    )


def call(effect: Effect = "write") -> ToolCall:
    return ToolCall(agent="a", session=SessionKey("s"), tool="Write", effect=effect, cwd="/w")


CASES: list[tuple[Facts, Effect, ErrorType | None]] = [
    (situation("src/a/x"), "write", None),
    (situation("src/a/x"), "delete", None),
    (situation("src/b/x"), "write", "SCOPE_VIOLATION"),
    (situation("src/a/x", replace(TERMS, paths=("tests/**",))), "write", "SCOPE_VIOLATION"),
    (situation("src/a/x", replace(TERMS, effects=("read",))), "write", "SCOPE_VIOLATION"),
    (situation("src/a/x", replace(TERMS, effects=("read", "write"))), "execute", "SCOPE_VIOLATION"),
    (situation("src/a/x", replace(TERMS, scope=())), "write", "SCOPE_VIOLATION"),
    (replace(situation("src/a/x"), targets=(OUTSIDE,)), "write", None),
    (replace(situation("src/a/x"), targets=(GENERATED,)), "execute", None),
    (replace(situation("src/a/x"), targets=(replace(GENERATED, generated=False),)), "execute", "SCOPE_VIOLATION"),
    (situation("docs/x", intent="INT-002"), "write", "INTENT_MISMATCH"),
    (situation("src/a/x", replace(TERMS, state="paused")), "write", "ASSIGNMENT_PAUSED"),
    (situation("src/a/x", replace(TERMS, state="paused"), "its lease has run out"), "write", "ASSIGNMENT_ENDED"),
    (situation("src/a/x", expired="it was ended"), "write", "ASSIGNMENT_ENDED"),
    (situation("src/a/x", None, "it cannot be read"), "write", "ASSIGNMENT_ENDED"),
    (situation("src/a/x", None), "write", "ASSIGNMENT_ENDED"),
]


@pytest.mark.parametrize(("found", "effect", "code"), CASES)
def test_an_assignment_narrows_the_intent(found: Facts, effect: Effect, code: ErrorType | None) -> None:
    objection = CHECKS["assignment"](call(effect), found)
    assert (objection.code if objection else None) == code


def test_a_refusal_names_the_role_and_leads() -> None:
    terms = replace(TERMS, role="tester", paths=("tests/**",))
    decision = decide(call(), situation("src/b/x", terms))
    assert decision.effect == "deny"
    assert decision.leading is not None
    assert decision.leading.rule == "assignment"
    assert "'tester'" in decision.leading.message


def test_reading_passes_whatever_became_of_the_assignment() -> None:
    for state in (replace(TERMS, state="paused"), None):
        assert decide(call("read"), situation("src/a/x", state)).effect == "allow"


def test_without_an_assignment_there_is_nothing_to_find() -> None:
    ordinary = replace(situation("src/b/x"), assignment=None)
    assert CHECKS["assignment"](call(), ordinary) is None


def test_no_approval_widens_an_assignment() -> None:
    found = situation("src/b/x")
    objection = CHECKS["assignment"](call(), found)
    assert objection is not None
    waived: frozenset[Waiver] = frozenset({waiver_for(objection, found)})
    grant = Grant("g", "SCOPE_VIOLATION", "project", "src/**")
    assert decide(call(), replace(found, waived=waived, grants=(grant,))).effect == "deny"


@given(calls, facts(), assignments)
def test_an_assignment_never_loosens(asked: ToolCall, ordinary: Facts, given_to: AssignmentFacts) -> None:
    without = decide(asked, replace(ordinary, assignment=None))
    with_it = decide(asked, replace(ordinary, assignment=given_to))
    assert STRICTNESS.index(with_it.effect) >= STRICTNESS.index(without.effect)
    assert STRICTNESS.index(with_it.verdict) >= STRICTNESS.index(without.verdict)


@given(st.sampled_from([case[0] for case in CASES]))
def test_a_changed_path_is_in_every_set(found: Facts) -> None:
    if decide(call(), found).effect == "allow":
        assert found.assignment is not None
        assert found.assignment.terms is not None
