"""An intent may change only the files in its scope, and, if allowed, the tests and pages that mirror them."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding, Target
from remit.core.intent import Intent
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line

NARROW_RULE = "narrow"
NO_FILE = (".git/**",)
"""What a session is narrowed to that changes no file: no scope matches it, and no patterns at all would hold nobody."""


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find SCOPE_VIOLATION for the first path that `owned_scope` does not cover; all such paths are in the context.

    A session may be narrowed beside its intent, by a mode or a task: then the path has to match that too.

    If all of them are companions of files in the scope, the finding is a remark that allows the call.
    """
    intent = facts.active
    if (narrowed := find_narrowed(call, facts)) is not None or intent is None:
        return narrowed
    beyond = [t for t in facts.targets if t.path is not None and not t.generated and not owns_target(intent, t)]
    outside = [t for t in beyond if call.command is not None or not is_companion(intent, t)]
    if not beyond:
        return None
    if not outside:
        mirrored = "; ".join(
            f"{sanitise_line(t.path or '')} mirrors {sanitise_line(', '.join(t.mirrors))}" for t in beyond
        )
        message = f"Outside the scope of {intent.id}, and its companion: {mirrored}."
        companions = {"companions": [str(t.path) for t in beyond]}
        # The record of the call names the rule of its companions.
        return Finding("companion", "SCOPE_VIOLATION", message, verdict="allow", context=companions)
    first = outside[0]
    shown = sanitise_line(first.path or "")
    return Finding(
        rule="scope",
        code="SCOPE_VIOLATION",
        message=f"Scope Violation: {intent.id} is not authorized to edit {shown}. Request scope expansion.",
        path=str(first.path),
        context={
            "attempted_action": f"{call.effect} {shown}",
            "owned_scope": list(intent.owned_scope),
            "owning_intents": list(facts.intents.find_owners(first.path or "", fold=first.folds)),
            "available_intents": facts.intents.list_open_ids(facts.ignored_intents),
            **({"paths": [str(t.path) for t in outside]} if len(outside) > 1 else {}),
        },
    )


def find_narrowed(call: ToolCall, facts: Facts) -> Finding | None:
    """Return the finding about the first path outside of what the session is narrowed to."""
    for patterns in facts.session.narrow:
        scope = Scope(patterns)
        targets = (t for t in facts.targets if t.path is not None and not t.generated)
        first = next((t for t in targets if t.path is None or not scope.matches(t.path, fold=t.folds)), None)
        if first is not None:
            shown, listed = sanitise_line(first.path or ""), ", ".join(sanitise_line(p, 80) for p in patterns[:5])
            may = f"may change only {listed}" if patterns != NO_FILE else "may change no file of the workspace"
            return Finding(
                rule=NARROW_RULE,
                code="SCOPE_VIOLATION",
                message=f"This session {may}, by its mode or its task, and so not {shown}.",
                path=str(first.path),
                context={"attempted_action": f"{call.effect} {shown}", "narrow": list(patterns)},
            )
    return None


def owns_target(intent: Intent, target: Target) -> bool:
    return target.path is not None and Scope(intent.owned_scope).matches(target.path, fold=target.folds)


def is_companion(intent: Intent, target: Target) -> bool:
    """Return True if the target mirrors only files that the intent owns, and is not excluded from the scope."""
    if not intent.companions or target.path is None or not target.mirrors:
        return False
    scope = Scope(intent.owned_scope)
    taken_out = tuple(pattern[1:] for pattern in intent.owned_scope if pattern.startswith("!"))
    barred = bool(taken_out) and Scope(taken_out).matches(target.path, fold=target.folds)
    return not barred and all(scope.matches(path, fold=target.folds) for path in target.mirrors)
