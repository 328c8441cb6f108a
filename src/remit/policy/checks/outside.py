"""An intent never owns anything outside its workspace."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.core.text import shown


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """OUTSIDE_WORKSPACE where a path, links followed, leaves the workspace; a question where another name of it may."""
    target = next((t for t in facts.targets if t.path is None and not t.tolerated and not t.protected), None)
    if target is None:
        return elsewhere(facts)
    led = f" (it leads to {shown(target.resolved)})" if target.resolved != target.raw else ""
    return Finding(
        rule="outside",
        code="OUTSIDE_WORKSPACE",
        message=f"{shown(target.raw)}{led} is outside the workspace. Choose a path inside it{spare(facts)}.",
        path=target.raw,
    )


def elsewhere(facts: Facts) -> Finding | None:
    """The question about a file inside, of which more than its name here may be written."""
    target = next((t for t in facts.targets if t.strange and not t.protected), None)
    if target is None:
        return None
    return Finding(
        rule="outside",
        code="OUTSIDE_WORKSPACE",
        message=f"{shown(target.raw)} {target.strange}: what is written there may land outside of here. It needs a "
        "person's yes: say in your answer what you want and why, or delete it and write a fresh file in its place.",
        verdict="ask",
        path=target.raw,
    )


def spare(facts: Facts) -> str:
    """The place for what is not to stay, where there is one."""
    return f", or in the temporary folder {shown(facts.temporary)}" if facts.temporary else ""
