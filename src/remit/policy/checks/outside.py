"""An intent owns nothing outside its workspace."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find OUTSIDE_WORKSPACE if a path, links followed, leaves the workspace; ask if another name of the file may."""
    target = next((t for t in facts.targets if t.path is None and not t.tolerated and not t.protected), None)
    if target is None:
        return find_strange_target(facts)
    led = f" (it leads to {sanitise_line(target.resolved)})" if target.resolved != target.raw else ""
    return Finding(
        rule="outside",
        code="OUTSIDE_WORKSPACE",
        message=f"{sanitise_line(target.raw)}{led} is outside the workspace. Choose a path inside it{temporary_folder_hint(facts)}.",  # noqa: E501
        path=target.raw,
    )


def find_strange_target(facts: Facts) -> Finding | None:
    """Return a question about a file inside the workspace that may have another name outside."""
    target = next((t for t in facts.targets if t.strange and not t.protected), None)
    if target is None:
        return None
    return Finding(
        rule="outside",
        code="OUTSIDE_WORKSPACE",
        message=f"{sanitise_line(target.raw)} {target.strange}: what is written there may land outside of here. It needs a "  # noqa: E501
        "person's yes: say in your answer what you want and why, or delete it and write a fresh file in its place.",
        verdict="ask",
        path=target.raw,
    )


def temporary_folder_hint(facts: Facts) -> str:
    return f", or in the temporary folder {sanitise_line(facts.temporary)}" if facts.temporary else ""
