"""The structured constraints of an intent, checked on the files that a call would leave."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find CONSTRAINT_VIOLATION for the first broken constraint; all of them are in the context."""
    intent = facts.active
    if intent is None or not intent.rules:
        return None
    from remit.policy.constraint_kinds import evaluate_constraints  # a tenth of the hook's time, for those that need it

    return evaluate_constraints(intent, facts)
