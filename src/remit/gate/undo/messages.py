"""What was undone, in words for a model."""

from collections.abc import Iterable

from remit.core.call import ToolCall
from remit.core.display_text import quote_path, sanitise_line
from remit.gate.state.workspace_state import PendingCall
from remit.gate.undo.undo import UndoResult

MAX_NAMED = 10
COMMITS_NOTE = " But the call's commits still hold it: take it out of them before anybody gets them."


def describe_undo(call: ToolCall, pending: PendingCall, found: UndoResult) -> str:
    """What became of the effects that the call had no right to; empty where there were none."""
    return "\n".join(filter(None, (undone_message(call, pending, found), not_undone_message(call, found))))


def undone_message(call: ToolCall, pending: PendingCall, found: UndoResult) -> str:
    """What was undone, and where the agent's version is."""
    if not found.undone:
        return ""
    rules = ", ".join(dict.fromkeys(found.undone.values()))
    return (
        f"Remit [{rules}]: what this {call.tool} call did to {list_paths(found.undone)} was undone: it is as it was before "  # noqa: E501
        f"the call, and the rest of the call's work stays.{rules_message(pending, found)}{kept_version_message(found)}"
        f"{COMMITS_NOTE * found.has_commits} {next_step(found)}"
    )


def rules_message(pending: PendingCall, found: UndoResult) -> str:
    """The scope, where something lay beyond it, and the constraints that were broken."""
    beyond = found.undone.keys() - found.broken_constraints.keys()
    scope = f" {pending.intent_id} owns {', '.join(pending.owned_scope[:MAX_NAMED])}."
    broken = [why for _, why in zip(range(MAX_NAMED), found.broken_constraints.values(), strict=False)]
    return " ".join([scope if pending.intent_id and beyond else "", *broken])


def next_step(found: UndoResult) -> str:
    """What to do next."""
    if found.undone.keys() == found.broken_constraints.keys():
        return "Do it again so that the constraint holds, or ask for another one; do not try another way."
    return "Stay in the scope, or ask for a wider one; do not try another way."


def kept_version_message(found: UndoResult) -> str:
    """How a person gets the agent's version."""
    one = next((path for path in found.undone if not path.startswith(".git/")), "PATH")
    if found.snapshot_id:
        return f" Your version is kept: a person gets it back by `remit restore {found.snapshot_id} {sanitise_line(quote_path(one))}`."  # noqa: E501
    return f" Your version is kept as {', '.join(map(str, found.copies[:MAX_NAMED]))}." if found.copies else ""


def not_undone_message(call: ToolCall, found: UndoResult) -> str:
    """What should have been undone, and was not."""
    if not found.not_undone:
        return ""
    few = list(found.not_undone.items())[:MAX_NAMED]
    reasons = "; ".join(f"{sanitise_line(quote_path(path), 120)} ({why})" for path, why in few)
    more = f"; and {len(found.not_undone) - MAX_NAMED} more" if len(found.not_undone) > MAX_NAMED else ""
    return (
        f"Remit: this {call.tool} call had no right to change these either, and they were not undone: {reasons}{more}. "
        "It is recorded. If it was you, undo it yourself; tell the person."
    )


def list_paths(paths: Iterable[str]) -> str:
    """Some paths, on one line."""
    found = list(paths)
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return ", ".join(sanitise_line(quote_path(path), 120) for path in found[:MAX_NAMED]) + more
