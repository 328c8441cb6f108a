"""An attempt of a plan changes only what it was assigned, and only while its lease holds."""

from remit.core.assignment import Assignment
from remit.core.call import ToolCall
from remit.core.decision import ASSIGNMENT_RULE, ErrorType, Facts, Finding
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find ASSIGNMENT_ENDED or ASSIGNMENT_PAUSED, an intent other than the assigned one, an effect that the role has
    not, or SCOPE_VIOLATION for the first path outside of the assigned patterns or the role's. Without an assignment
    there is nothing to find.
    """
    held = facts.assignment
    if held is None:
        return None
    terms = held.terms
    if held.expired or terms is None:
        say = f"The assignment of this worktree no longer holds: {held.expired}. Nothing is changed here any more. "
        return make_finding("ASSIGNMENT_ENDED", say + "Stop, and say in your answer what is done and what is left.")
    if terms.state == "paused":
        say = f"Attempt {terms.attempt} at {terms.intent} is paused by a person or a rule. Try again in a minute."
        return make_finding("ASSIGNMENT_PAUSED", say)
    if facts.session.intent_id not in (None, terms.intent):
        say = f"This worktree is assigned to {terms.intent}, and the session works under {facts.session.intent_id}."
        return make_finding("INTENT_MISMATCH", say)
    if not terms.allows_effect(call.effect):
        return find_missing_effect(call, terms)
    return find_path_outside(call, facts, terms)


def find_missing_effect(call: ToolCall, terms: Assignment) -> Finding:
    shown = ", ".join(terms.effects) or "nothing"
    role = sanitise_line(terms.role, 60)
    say = f"The role {role!r} of this attempt may {shown}, and this call is of the kind {call.effect!r}."
    return make_finding("SCOPE_VIOLATION", say, role=terms.role, effects=list(terms.effects))


def find_path_outside(call: ToolCall, facts: Facts, terms: Assignment) -> Finding | None:
    for patterns in terms.sets:
        scope = Scope(patterns)
        targets = (t for t in facts.targets if t.path is not None and not t.generated)
        first = next((t.path for t in targets if t.path is not None and not scope.matches(t.path, fold=t.folds)), None)
        if first is not None:
            listed = ", ".join(sanitise_line(pattern, 80) for pattern in patterns[:5]) or "nothing"
            role, shown = sanitise_line(terms.role, 60), sanitise_line(first)
            say = f"The role {role!r} in attempt {terms.attempt} at {terms.intent} may change {listed}, not {shown}."
            context = {"attempted_action": f"{call.effect} {shown}", "role": terms.role, "assigned": list(patterns)}
            return make_finding("SCOPE_VIOLATION", say, path=str(first), **context)
    return None


def make_finding(code: ErrorType, message: str, path: str | None = None, **context: object) -> Finding:
    return Finding(ASSIGNMENT_RULE, code, message, path=path, context=context)
