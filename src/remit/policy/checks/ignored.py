"""Paths in `.intentignore` are barred whatever the intent."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find INTENTIGNORE_PATH_BLOCKED, with the pattern that bars the path."""
    target = next((t for t in facts.targets if t.ignored_by is not None), None)
    if target is None:
        return None
    return Finding(
        rule="ignored",
        code="INTENTIGNORE_PATH_BLOCKED",
        message=f"{sanitise_line(target.path or '')} is barred by .intentignore (pattern {target.ignored_by!r}). "
        "Choose another path.",
        path=str(target.path),
        context={"pattern": target.ignored_by},
    )
