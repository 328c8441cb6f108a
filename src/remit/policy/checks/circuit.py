"""A session that fails again and again has to stop and ask (circuit breaker)."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts, SessionFacts

MAX_EQUAL_DENIALS = 3
MAX_FAILURES = 5


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find CIRCUIT_OPEN after three equal denials, or five failed tools, in a row."""
    why = describe_repetition(facts.session)
    if why is None:
        return None
    return Finding(
        rule="circuit",
        code="CIRCUIT_OPEN",
        message=f"{why}. Stop here: say in your answer what you tried and what you need, and wait for the person. "
        "Reading is still possible; changes are taken again after a minute, or when the person writes.",
        context={"denials": facts.session.denials, "failures": facts.session.failures},
    )


def describe_repetition(session: SessionFacts) -> str | None:
    """Return what happened too often; None if nothing did."""
    if session.denials >= MAX_EQUAL_DENIALS:
        return f"The same was refused {session.denials} times in a row ({sanitise_line(session.denial, 200)})"
    if session.failures >= MAX_FAILURES:
        return f"{session.failures} tool calls failed in a row"
    return None
