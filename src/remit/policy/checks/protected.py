"""Agents must not change the files that govern them."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find PROTECTED_PATH for Remit's own files, agents' hook settings and git's internals."""
    target = next((t for t in facts.targets if t.protected), None)
    if target is None:
        return None
    return Finding(
        rule="protected",
        code="PROTECTED_PATH",
        message=f"{sanitise_line(target.path or target.resolved)} is protected: {target.protected}. "
        "Agents change it only through Remit's own tools.",
        path=str(target.path or target.raw),
    )
