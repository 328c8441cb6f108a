"""Which commands should run contained: those whose text does not tell all that they write."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.core.text import shown
from remit.policy.commands import analyse

RULE = "contain"


def why_unclear(call: ToolCall) -> str | None:
    """Why the text does not tell what the command writes where it runs; None where it does, or there is none."""
    if call.command is None:
        return None
    analysis = analyse(call.command)
    if analysis.outcome == "unknown":
        return "; ".join(analysis.reasons)
    return None if analysis.outcome == "dangerous" else call.unproved


def may_write(facts: Facts) -> str:
    """The same of one that may write, or leave alone, what it should not."""
    names = ", ".join(shown(t.path or t.resolved, 80) for t in facts.perhaps[:5])
    return f"it may write what it should not: {names}"


def contained(why: str) -> Finding:
    """The finding: nothing is wrong with the command, and its effects have to be judged before they count."""
    return Finding(rule=RULE, code="COMMAND_BLOCKED", message=why, verdict="contain")
