"""An intent owns nothing outside its workspace."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding
from remit.core.untrusted_input import sanitise_line


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find OUTSIDE_WORKSPACE if a path, links followed, leaves the workspace; ask if another name of the file may."""
    target = next((t for t in facts.targets if t.path is None and not t.tolerated and not t.protected), None)
    if target is not None:
        led = f" (it leads to {sanitise_line(target.resolved)})" if target.resolved != target.raw else ""
        hint = f", or in the temporary folder {sanitise_line(facts.temporary)}" if facts.temporary else ""
        message = f"{sanitise_line(target.raw)}{led} is outside the workspace. Choose a path inside it{hint}."
        return Finding("outside", "OUTSIDE_WORKSPACE", message, path=target.raw)
    target = next((t for t in facts.targets if t.strange and not t.protected), None)
    if target is None:
        return None
    message = (
        f"{sanitise_line(target.raw)} {target.strange}: what is written there may land outside of here. It needs a "
        "person's yes: say in your answer what you want and why, or delete it and write a fresh file in its place."
    )
    return Finding("outside", "OUTSIDE_WORKSPACE", message, verdict="ask", path=target.raw)
