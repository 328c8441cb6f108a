"""What was undone, in words for a model."""

from collections.abc import Iterable

from remit.core.call import ToolCall
from remit.core.text import quoted_path, shown
from remit.gate.state import PendingCall
from remit.gate.undoing import Undone

NAMED = 10
COMMITTED = " But the call's commits still hold it: take it out of them before anybody gets them."


def in_words(call: ToolCall, pending: PendingCall, found: Undone) -> str:
    """What became of the effects that the call had no right to; empty where there were none."""
    return "\n".join(filter(None, (said_undone(call, pending, found), said_left(call, found))))


def said_undone(call: ToolCall, pending: PendingCall, found: Undone) -> str:
    """What was undone, and where the agent's version is."""
    if not found.paths:
        return ""
    rules = ", ".join(dict.fromkeys(found.paths.values()))
    return (
        f"Remit [{rules}]: what this {call.tool} call did to {named(found.paths)} was undone: it is as it was before "
        f"the call, and the rest of the call's work stays.{said_rules(pending, found)}{said_kept(found)}"
        f"{COMMITTED * found.committed} {advice(found)}"
    )


def said_rules(pending: PendingCall, found: Undone) -> str:
    """The scope, where something lay beyond it, and the constraints that were broken."""
    beyond = found.paths.keys() - found.broken.keys()
    scope = f" {pending.intent_id} owns {', '.join(pending.owned_scope[:NAMED])}."
    broken = [why for _, why in zip(range(NAMED), found.broken.values(), strict=False)]
    return " ".join([scope if pending.intent_id and beyond else "", *broken])


def advice(found: Undone) -> str:
    """What to do next."""
    if found.paths.keys() == found.broken.keys():
        return "Do it again so that the constraint holds, or ask for another one; do not try another way."
    return "Stay in the scope, or ask for a wider one; do not try another way."


def said_kept(found: Undone) -> str:
    """How a person gets the agent's version."""
    one = next((path for path in found.paths if not path.startswith(".git/")), "PATH")
    if found.kept:
        return (
            f" Your version is kept: a person gets it back by `remit restore {found.kept} {shown(quoted_path(one))}`."
        )
    return f" Your version is kept as {', '.join(map(str, found.places[:NAMED]))}." if found.places else ""


def said_left(call: ToolCall, found: Undone) -> str:
    """What should have been undone, and was not."""
    if not found.left:
        return ""
    few = list(found.left.items())[:NAMED]
    reasons = "; ".join(f"{shown(quoted_path(path), 120)} ({why})" for path, why in few)
    more = f"; and {len(found.left) - NAMED} more" if len(found.left) > NAMED else ""
    return (
        f"Remit: this {call.tool} call had no right to change these either, and they were not undone: {reasons}{more}. "
        "It is recorded. If it was you, undo it yourself; tell the person."
    )


def named(paths: Iterable[str]) -> str:
    """Some paths, on one line."""
    found = list(paths)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(shown(quoted_path(path), 120) for path in found[:NAMED]) + more
