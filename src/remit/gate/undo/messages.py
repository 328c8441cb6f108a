"""Messages to the model about changes that were undone, or should have been."""

from collections.abc import Iterable

from remit.core.call import ToolCall
from remit.core.display_text import quote_path, sanitise_line
from remit.gate.state.pending_calls import PendingCall
from remit.gate.undo.git_file_copies import is_git_path
from remit.gate.undo.undo import UndoResult

MAX_NAMED = 10
COMMITS_NOTE = " But the call's commits still hold it: take it out of them before anybody gets them."


def describe_undo(call: ToolCall, pending: PendingCall, result: UndoResult) -> str:
    """Return the message about a call's violations; empty if there were none."""
    return "\n".join(filter(None, (undone_message(call, pending, result), not_undone_message(call, result))))


def undone_message(call: ToolCall, pending: PendingCall, result: UndoResult) -> str:
    if not result.undone:
        return ""
    rules = ", ".join(dict.fromkeys(result.undone.values()))
    return (
        f"Remit [{rules}]: what this {call.tool} call did to {list_paths(result.undone)} was undone: it is as it was "
        f"before the call, and the rest of the call's work stays.{rules_message(pending, result)}"
        f"{kept_version_message(result)}{COMMITS_NOTE * result.has_commits} {next_step(result)}"
    )


def rules_message(pending: PendingCall, result: UndoResult) -> str:
    outside = result.undone.keys() - result.broken_constraints.keys()
    scope = f" {pending.intent_id} owns {', '.join(pending.owned_scope[:MAX_NAMED])}."
    broken = list(result.broken_constraints.values())[:MAX_NAMED]
    return " ".join([scope if pending.intent_id and outside else "", *broken])


def next_step(result: UndoResult) -> str:
    if result.undone.keys() == result.broken_constraints.keys():
        return "Do it again so that the constraint holds, or ask for another one; do not try another way."
    return "Stay in the scope, or ask for a wider one; do not try another way."


def kept_version_message(result: UndoResult) -> str:
    """Return how a person gets the agent's version back."""
    example = next((path for path in result.undone if not is_git_path(path)), "PATH")
    if result.snapshot_id:
        command = f"remit restore {result.snapshot_id} {sanitise_line(quote_path(example))}"
        return f" Your version is kept: a person gets it back by `{command}`."
    return f" Your version is kept as {', '.join(map(str, result.copies[:MAX_NAMED]))}." if result.copies else ""


def not_undone_message(call: ToolCall, result: UndoResult) -> str:
    if not result.not_undone:
        return ""
    listed = list(result.not_undone.items())[:MAX_NAMED]
    reasons = "; ".join(f"{sanitise_line(quote_path(path), 120)} ({why})" for path, why in listed)
    more = f"; and {len(result.not_undone) - MAX_NAMED} more" if len(result.not_undone) > MAX_NAMED else ""
    return (
        f"Remit: this {call.tool} call had no right to change these either, and they were not undone: {reasons}{more}. "
        "It is recorded. If it was you, undo it yourself; tell the person."
    )


def list_paths(paths: Iterable[str]) -> str:
    found = list(paths)
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return ", ".join(sanitise_line(quote_path(path), 120) for path in found[:MAX_NAMED]) + more
