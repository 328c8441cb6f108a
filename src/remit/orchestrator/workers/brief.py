"""Prompt of an attempt: role, intent, who owns what beside it, and what the attempt before left.

Everything that agents or repositories wrote is data here: one line each, cleaned, quoted, and never an instruction.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.core.untrusted_input import sanitise_line
from remit.orchestrator.board import Attempt, Hold, Task

MAX_NEIGHBOURS = 20
MAX_REASON_CHARS = 300


class Handover(Struct, frozen=True):
    """End of the attempt before this one, and the files that its last checkpoint changed."""

    attempt: int
    why: str = ""
    changed: tuple[str, ...] = ()


def write_brief(
    attempt: Attempt, task: Task, block: str, neighbours: Sequence[Hold], handover: Handover | None = None
) -> str:
    """Return the prompt. `block` is the intent's context block."""
    return "\n".join(list_parts(attempt, task, block, neighbours, handover)) + "\n"


def list_parts(
    attempt: Attempt, task: Task, block: str, neighbours: Sequence[Hold], handover: Handover | None
) -> Iterable[str]:
    yield f"You work on the intent {task.intent} as its {task.role}, in a worktree of your own. It is selected already."
    yield "Change only files in its scope, run what its criteria ask for, and stop when it is done."
    yield "Do not commit, push or switch branches: what you leave in the worktree is committed and landed for you."
    yield ""
    yield block
    if neighbours:
        yield ""
        yield "Other agents work at the same time. These paths are theirs: read them, and change none."
        for hold in neighbours[:MAX_NEIGHBOURS]:
            yield f"- {hold.intent}: {sanitise_line(', '.join(hold.scope), MAX_REASON_CHARS)}"
    if handover is not None:
        yield ""
        reason = sanitise_line(handover.why, MAX_REASON_CHARS)
        yield f"This is attempt {attempt.attempt}. Attempt {handover.attempt} ended before it was done: {reason}"
        if handover.changed:
            yield f"It left changes in: {sanitise_line(', '.join(handover.changed), MAX_REASON_CHARS)}"
