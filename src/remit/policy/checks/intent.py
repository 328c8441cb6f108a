"""Checks on the intent of a change: one is declared and selected, the plan assigned it, and its constraints hold."""

from remit.core.assignment import Assignment
from remit.core.call import ToolCall
from remit.core.decision import ASSIGNMENT_RULE, ErrorType, Facts, Finding
from remit.core.intent import FINAL_STATUSES
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands.dangers import ALONE, find_mixed_act


def check_intents_file(call: ToolCall, facts: Facts) -> Finding | None:
    """Find CONFIG_INVALID or INTENTS_FILE_INVALID, with the place in the file: nothing changes while the files that
    govern are broken.
    """
    if facts.config_error is not None:
        return Finding("config", "CONFIG_INVALID", f"{facts.config_error}. A person has to mend it.")
    if facts.intents_state != "invalid":
        return None
    first = next(f for f in facts.intents_findings if f.severity == "error")
    others = sum(f.severity == "error" for f in facts.intents_findings) - 1
    more = f" (and {others} more)" if others else ""
    message = (
        f".orchestration/{first.place}: {first.code}: {first.message}{more}. "
        "A person has to mend it; `remit intent lint` shows all findings."
    )
    context = {"line": first.line, "column": first.column, "code": first.code}
    return Finding("intents_file", "INTENTS_FILE_INVALID", message, context=context)


def check_active_intent(call: ToolCall, facts: Facts) -> Finding | None:
    """Find MISSING_OR_INVALID_INTENT, or the reason why the selected intent is no longer open: changes need one."""
    wanted, intent = facts.session.intent_id, facts.active
    selectable = facts.intents.list_open_ids(facts.ignored_intents)
    code: ErrorType
    if wanted is None:
        say = "There is no open intent: ask the person for one (`remit intent new`)."
        if selectable:
            say = f"Select one first (open: {', '.join(selectable[:10])})."
        if call.command is not None and (act := find_mixed_act(call.command)):
            say = f"`{sanitise_line(act, 120)}` selects only as a command of its own: {ALONE}."
        code, message = "MISSING_OR_INVALID_INTENT", f"You must cite a valid active Intent ID. {say}"
    elif intent is None:
        known = ", ".join(list(facts.intents.ids)[:20]) or "none"
        code, message = "INTENT_NOT_FOUND", f"No file declares {wanted} here any more (known: {known})."
    elif wanted in facts.ignored_intents:
        code, message = "INTENT_IGNORED", f"{wanted} is barred by .intentignore. Select another intent."
    elif intent.status == "BLOCKED" or intent.status in FINAL_STATUSES:
        why = f": {sanitise_line(intent.blocked_reason)}" if intent.blocked_reason else ""
        code = "INTENT_BLOCKED" if intent.status == "BLOCKED" else "INTENT_CLOSED"
        message = f"{intent.id} is {intent.status}{why}. Clear it and select another."
    else:
        return None
    return Finding("active_intent", code, message, context={"available_intents": selectable})


def check_mismatch(call: ToolCall, facts: Facts) -> Finding | None:
    """Find INTENT_MISMATCH if the call cites an intent other than the active one."""
    cited, active = call.citation.intent_id, facts.session.intent_id
    if cited is None or active is None or cited == active:
        return None
    message = f"The call cites {cited!r}, but {active} is active in this session. Cite {active}, or select the other."
    return Finding("mismatch", "INTENT_MISMATCH", message, context={"cited": cited, "active": active})


def check_assignment(call: ToolCall, facts: Facts) -> Finding | None:
    """Find ASSIGNMENT_ENDED or ASSIGNMENT_PAUSED, an intent other than the assigned one, an effect that the role has
    not, or SCOPE_VIOLATION for the first path outside of the assigned patterns or the role's: an attempt of a plan
    changes only what it was assigned, and only while its lease holds. Without an assignment there is nothing to find.
    """
    held = facts.assignment
    if held is None:
        return None
    terms = held.terms
    if held.expired or terms is None:
        say = f"The assignment of this worktree no longer holds: {held.expired}. Nothing is changed here any more. "
        say += "Stop, and say in your answer what is done and what is left."
        return make_assignment_finding("ASSIGNMENT_ENDED", say)
    if terms.state == "paused":
        say = f"Attempt {terms.attempt} at {terms.intent} is paused by a person or a rule. Try again in a minute."
        return make_assignment_finding("ASSIGNMENT_PAUSED", say)
    if facts.session.intent_id not in (None, terms.intent):
        say = f"This worktree is assigned to {terms.intent}, and the session works under {facts.session.intent_id}."
        return make_assignment_finding("INTENT_MISMATCH", say)
    if not terms.allows_effect(call.effect):
        return find_missing_effect(call, terms)
    return find_unassigned_path(call, facts, terms)


def find_missing_effect(call: ToolCall, terms: Assignment) -> Finding:
    shown = ", ".join(terms.effects) or "nothing"
    role = sanitise_line(terms.role, 60)
    say = f"The role {role!r} of this attempt may {shown}, and this call is of the kind {call.effect!r}."
    return make_assignment_finding("SCOPE_VIOLATION", say, role=terms.role, effects=list(terms.effects))


def find_unassigned_path(call: ToolCall, facts: Facts, terms: Assignment) -> Finding | None:
    for patterns in terms.sets:
        scope = Scope(patterns)
        targets = (t for t in facts.targets if t.path is not None and not t.generated)
        first = next((t.path for t in targets if t.path is not None and not scope.matches(t.path, fold=t.folds)), None)
        if first is not None:
            listed = ", ".join(sanitise_line(pattern, 80) for pattern in patterns[:5]) or "nothing"
            role, shown = sanitise_line(terms.role, 60), sanitise_line(first)
            say = f"The role {role!r} in attempt {terms.attempt} at {terms.intent} may change {listed}, not {shown}."
            context = {"attempted_action": f"{call.effect} {shown}", "role": terms.role, "assigned": list(patterns)}
            return make_assignment_finding("SCOPE_VIOLATION", say, path=str(first), **context)
    return None


def make_assignment_finding(code: ErrorType, message: str, path: str | None = None, **context: object) -> Finding:
    return Finding(ASSIGNMENT_RULE, code, message, path=path, context=context)


def check_constraints(call: ToolCall, facts: Facts) -> Finding | None:
    """Find CONSTRAINT_VIOLATION for the first constraint of the intent that the files which the call would leave break;
    all of them are in the context.
    """
    intent = facts.active
    if intent is None or not intent.rules:
        return None
    from remit.policy.constraint_kinds import evaluate_constraints  # a tenth of the hook's time, for those that need it

    return evaluate_constraints(intent, facts)
