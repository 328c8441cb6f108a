"""Paths in `.intentignore` are barred whatever the intent."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding
from remit.core.untrusted_input import sanitise_line


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find INTENTIGNORE_PATH_BLOCKED, with the pattern that bars the path."""
    target = next((t for t in facts.targets if t.ignored_by is not None), None)
    if target is None:
        return None
    barred = f"{sanitise_line(target.path or '')} is barred by .intentignore (pattern {target.ignored_by!r})"
    message, context = f"{barred}. Choose another path.", {"pattern": target.ignored_by}
    return Finding("ignored", "INTENTIGNORE_PATH_BLOCKED", message, path=str(target.path), context=context)
