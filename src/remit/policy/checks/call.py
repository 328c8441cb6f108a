"""Checks on the call itself: arguments that cannot be judged, and a session that fails again and again."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding
from remit.core.untrusted_input import sanitise_line

MAX_EQUAL_DENIALS = 3
MAX_FAILURES = 5


def check_arguments(call: ToolCall, facts: Facts) -> Finding | None:
    """Find INVALID_ARGUMENTS if the path or the command is missing or is no text: such a call cannot be judged."""
    if call.malformed is None:
        return None
    message = f"The arguments of {call.tool} cannot be judged: {call.malformed}."
    return Finding("arguments", "INVALID_ARGUMENTS", message)


def check_circuit(call: ToolCall, facts: Facts) -> Finding | None:
    """Find CIRCUIT_OPEN after three equal denials, or five failed tools, in a row: the session has to stop and ask
    (circuit breaker).
    """
    session = facts.session
    if session.denials >= MAX_EQUAL_DENIALS:
        # Behind the tabulator stands which call it was.
        denial = sanitise_line(session.denial.partition("\t")[0], 200)
        why = f"The same was refused {session.denials} times in a row ({denial})"
    elif session.failures >= MAX_FAILURES:
        why = f"{session.failures} tool calls failed in a row"
    else:
        return None
    return Finding(
        rule="circuit",
        code="CIRCUIT_OPEN",
        message=f"{why}. Stop here: say in your answer what you tried and what you need, and wait for the person. "
        "Reading is still possible; changes are taken again after a minute, or when the person writes.",
        context={"denials": session.denials, "failures": session.failures},
    )
