"""An intent may touch what it owns, and nothing else."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts, Target
from remit.core.globs import Scope
from remit.core.intent import Intent
from remit.core.text import shown


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """SCOPE_VIOLATION for the first path that `owned_scope` does not cover; all of them in the context."""
    intent = facts.active
    if intent is None:
        return None
    outside = [t for t in facts.targets if t.path is not None and not owns(intent, t)]
    if not outside:
        return None
    first = outside[0]
    return Finding(
        rule="scope",
        code="SCOPE_VIOLATION",
        message=f"Scope Violation: {intent.id} is not authorized to edit "
        f"{shown(first.path or '')}. Request scope expansion.",
        path=str(first.path),
        context={
            "attempted_action": f"{call.effect} {shown(first.path or '')}",
            "owned_scope": list(intent.owned_scope),
            "owning_intents": list(facts.intents.owners(first.path or "", fold=first.folds)),
            "available_intents": facts.intents.open_ids(facts.ignored_intents),
            **({"paths": [str(t.path) for t in outside]} if len(outside) > 1 else {}),
        },
    )


def owns(intent: Intent, target: Target) -> bool:
    """Whether the intent's scope covers the target."""
    return target.path is not None and Scope(intent.owned_scope).matches(target.path, fold=target.folds)
