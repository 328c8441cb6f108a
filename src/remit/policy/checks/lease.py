"""Two sessions must not write one file at the same time."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding
from remit.core.untrusted_input import sanitise_line


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find FILE_LEASED for the first path that another session's running call may change."""
    target = next((t for t in facts.targets if t.path is not None and t.leased_by is not None), None)
    if target is None:
        return None
    message = (
        f"Another session is changing {sanitise_line(target.path or '')} just now. "
        "Wait for its call to end, read the file again, then try once more."
    )
    return Finding("lease", "FILE_LEASED", message, path=str(target.path), context={"held_by": target.leased_by})
