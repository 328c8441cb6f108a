"""Refusals of and warnings about operations on intents. A refusal names the reason and the next step."""

from collections.abc import Sequence

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Decision, ErrorType, Finding, Violation
from remit.core.intent import (
    FINAL_STATUSES,
    SELECTABLE_STATUSES,
    Intent,
    find_unfinished_dependencies,
    is_intent_id,
    match_intents,
)
from remit.core.scope.path_patterns import Scope, glob_error, is_absolute_pattern
from remit.core.untrusted_input import sanitise_line
from remit.gate.governing import Rules
from remit.gate.state.workspace_state import SessionState
from remit.policy.violations import make_violation

BOUND, HELD = "bound", "held"
"""First word of the source of an intent by a person's binding; what is held, agents cannot leave."""

REPLACEABLE_SOURCES = (
    *("branch", "worktree", "parent", "single", ""),
    *(f"{BOUND} {kind}" for kind in ("session", "terminal", "worktree", "branch")),
)
"""Sources of an active intent that a first explicit selection may replace without a clear."""

ASSIGNED = "assignment"
"""Source of the intent of a session in a worktree that a plan has assigned."""

BOUND_BY = {ASSIGNED: " (assigned to this worktree)"}


def is_held(source: str) -> bool:
    """Return whether an agent's session cannot leave its intent: a person bound it so, or by `REMIT_INTENT`."""
    return source == "environment" or source.startswith(f"{HELD} ")


def refuse_leaving(active: SessionState, tool: str) -> "IntentRefused":
    how = "REMIT_INTENT" if active.source == "environment" else f"its {active.source.removeprefix(f'{HELD} ')}"
    under = active.intent_id or "one intent"
    say = f"A person bound this session to {under} (by {how}). Changing it is their step: ask them."
    return make_refusal("INTENT_ALREADY_ACTIVE", say, tool, active.intent_id)


class IntentRefused(Exception):
    """Intent operation refused by the rules. The violation names the reason and the next step."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.error)
        self.violation = violation


class IntentError(ValueError):
    """Impossible request of a person. The message names the next step."""


def require_selectable(intent_id: str, active: SessionState, rules: Rules, tool: str) -> Intent:
    """Return the intent if the session may select it. Raises IntentRefused."""

    def refuse(code: ErrorType, message: str) -> IntentRefused:
        return make_refusal(code, message, tool, active.intent_id, selectable_intent_ids(rules))

    if not is_intent_id(intent_id):
        say = f"{sanitise_line(intent_id, 60)!r} is not an intent id, such as INT-001."
        raise refuse("INVALID_INTENT_ID", say + suggest_ids(intent_id, rules))
    if rules.document is None:
        raise refuse("INTENTS_FILE_MISSING", "No file declares an intent here: ask the person for one.")
    if fault := rules.find_fault(intent_id):
        raise refuse("INTENTS_FILE_INVALID", f"{fault.place}: {fault.code}: {fault.message}")
    intent = next((i for i in rules.document.intents if i.id == intent_id), None)
    if intent is None:
        known = ", ".join(i.id for i in rules.document.intents[:20]) or "none"
        say = f"There is no intent {intent_id} (known: {known})."
        raise refuse("INTENT_NOT_FOUND", say + suggest_ids(intent_id, rules))
    if intent.status == "BLOCKED":
        why = f": {sanitise_line(intent.blocked_reason)}" if intent.blocked_reason else ""
        raise refuse("INTENT_BLOCKED", f"{intent_id} is BLOCKED{why}.")
    if intent.status in FINAL_STATUSES:
        life = rules.life.get(intent_id)
        where = f", {life.said}" if life and life.origin != "file" else ""
        why = f": {sanitise_line(intent.blocked_reason)}" if intent.blocked_reason else ""
        here = " --here" if life and life.origin == "elsewhere" else ""
        cure = f"A person can reopen it: remit intent reopen {intent_id}{here}"
        raise refuse("INTENT_CLOSED", f"{intent_id} is {intent.status}{where}{why}. {cure}")
    if intent_id in rules.ignore.intents:
        raise refuse("INTENT_IGNORED", f"{intent_id} is barred by .intentignore.")
    if active.intent_id not in (None, intent_id) and active.source not in REPLACEABLE_SOURCES:
        bound = BOUND_BY.get(active.source, "")
        raise refuse("INTENT_ALREADY_ACTIVE", f"{active.intent_id} is active in this session{bound}. Clear it first.")
    return intent


def suggest_ids(given: str, rules: Rules) -> str:
    """Return a question for the ids that may be meant: agents give them in full. Empty for none."""
    open_ids = selectable_intent_ids(rules)
    meant = [i.id for i in match_intents(given, rules.document.intents if rules.document else ()) if i.id in open_ids]
    return f" Did you mean {' or '.join(meant[:3])}?" if meant else ""


def selectable_intent_ids(rules: Rules) -> list[str]:
    intents = rules.document.intents if rules.document else ()
    return [
        i.id
        for i in intents
        if i.status in SELECTABLE_STATUSES and is_intent_id(i.id) and i.id not in rules.ignore.intents
    ]


def make_refusal(
    code: ErrorType, message: str, tool: str, active: str | None, available: Sequence[str] = ()
) -> IntentRefused:
    finding = Finding(rule="intents", code=code, message=message, context={"available_intents": list(available)})
    call = ToolCall(agent="", session=SessionKey(""), tool=tool, effect="meta", cwd="")
    return IntentRefused(make_violation(finding, call, Decision("deny", "deny", "meta", "enforce", (finding,), active)))


def dependency_warnings(intent: Intent, intents: Sequence[Intent]) -> list[str]:
    """Return a warning about unfinished dependencies: they never refuse a selection."""
    waiting = find_unfinished_dependencies(intent, intents)
    return [f"{intent.id} depends on {', '.join(waiting)}, which is not DONE."] if waiting else []


def scope_warnings(intent: Intent, expected: Sequence[str], intents: Sequence[Intent]) -> list[str]:
    outside = [path for path in expected[:100] if not Scope(intent.owned_scope).matches(path)]
    found: list[str] = []
    for path in outside:
        owners = [i.id for i in intents if i.id != intent.id and Scope(i.owned_scope).matches(path)]
        owned = f" (owned by {', '.join(owners)})" if owners else ""
        found.append(f"{sanitise_line(path, 120)} is outside the scope of {intent.id}{owned}.")
    return found


def validate_scope(patterns: Sequence[str], *, required: bool = True) -> None:
    """Raise IntentError for a scope that the intents file would refuse."""
    if required and not [p for p in patterns if not p.startswith("!")]:
        raise IntentError("an intent needs at least one pattern that it owns, such as --scope 'src/**'")
    for pattern in patterns:
        if why := describe_pattern_fault(pattern):
            raise IntentError(f"the scope pattern {pattern!r} cannot be used: {why}")


def describe_pattern_fault(pattern: str) -> str:
    """Return why a pattern cannot stand in a scope; empty for a usable one."""
    if is_absolute_pattern(pattern):
        return "it is absolute; patterns start at the workspace root"
    return glob_error(pattern) or ""
