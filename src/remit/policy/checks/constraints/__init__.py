"""What an intent's structured constraints say of the files that a call would leave: one file a kind.

This file is on the way of every call, so that it imports nothing of the kinds before an intent has one.
"""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts

__all__ = ["check"]


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """CONSTRAINT_VIOLATION for the first constraint that would be broken; all of them in the context."""
    intent = facts.active
    if intent is None or not intent.rules:
        return None
    from remit.policy.checks.constraints.evaluate import (
        evaluate_constraints,  # a tenth of the hook's time, for those that need it
    )

    return evaluate_constraints(intent, facts)
