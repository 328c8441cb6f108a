"""A call that cites an intent must cite the active one."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find INTENT_MISMATCH if the cited intent is not the active one."""
    cited, active = call.citation.intent_id, facts.session.intent_id
    if cited is None or active is None or cited == active:
        return None
    message = f"The call cites {cited!r}, but {active} is active in this session. Cite {active}, or select the other."
    return Finding("mismatch", "INTENT_MISMATCH", message, context={"cited": cited, "active": active})
