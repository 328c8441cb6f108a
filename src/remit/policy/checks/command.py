"""Commands that an agent may not run at all."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.core.text import shown
from remit.policy.classify import is_for_agents
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
    said = shown(" ".join(("remit", *words)))
    why = (
        "names a program by its path, which anybody may have put there. Run it as plain `remit …`, or use the MCP tools"
        if is_for_agents(words)
        else "is for a person at a terminal. Say in your answer what you need and why"
    )
    return Finding(
        rule="command",
        code="COMMAND_BLOCKED",
        message=f"`{said}` {why}.",
        context={"command": call.command[:4096]},
    )
