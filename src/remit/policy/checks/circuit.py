"""A session that runs into the same wall again and again has to stop and say so."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts, SessionFacts
from remit.core.text import shown

SAME_DENIALS = 3
FAILURES = 5


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """CIRCUIT_OPEN after three equal denials, or five failed tools, in a row."""
    why = reason(facts.session)
    if why is None:
        return None
    return Finding(
        rule="circuit",
        code="CIRCUIT_OPEN",
        message=f"{why}. Stop here: say in your answer what you tried and what you need, and wait for the person. "
        "Reading is still possible; changes are taken again after a minute, or when the person writes.",
        context={"denials": facts.session.denials, "failures": facts.session.failures},
    )


def reason(session: SessionFacts) -> str | None:
    """What happened too often, in words; None where nothing did."""
    if session.denials >= SAME_DENIALS:
        return f"The same was refused {session.denials} times in a row ({shown(session.denial, 200)})"
    if session.failures >= FAILURES:
        return f"{session.failures} tool calls failed in a row"
    return None
