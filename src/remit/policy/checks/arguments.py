"""Calls whose arguments do not fit the tool cannot be judged."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find INVALID_ARGUMENTS: the path or the command is missing or is no text."""
    if call.malformed is None:
        return None
    message = f"The arguments of {call.tool} cannot be judged: {call.malformed}."
    return Finding("arguments", "INVALID_ARGUMENTS", message)
