"""Agents must not change the files that govern them."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding
from remit.core.untrusted_input import sanitise_line


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find PROTECTED_PATH for Remit's own files, agents' hook settings and git's internals."""
    target = next((t for t in facts.targets if t.protected), None)
    if target is None:
        return None
    protected = f"{sanitise_line(target.path or target.resolved)} is protected: {target.protected}"
    message = f"{protected}. Agents change it only through Remit's own tools."
    return Finding("protected", "PROTECTED_PATH", message, path=str(target.path or target.raw))
