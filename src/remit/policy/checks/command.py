"""Commands that an agent may not run at all."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.policy.commands import analyse


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """COMMAND_BLOCKED for those of Remit's own commands that are for people.

    A destructive call that is literally `remit …` can only be one of those: the others are meta.
    """
    if call.command is None:
        return None
    words = analyse(call.command).remit
    if words is None:
        return None
    return Finding(
        rule="command",
        code="COMMAND_BLOCKED",
        message=f"`remit {' '.join(words)}` is for a person at a terminal. Say in your answer what you need and why.",
        context={"command": call.command[:4096]},
    )
