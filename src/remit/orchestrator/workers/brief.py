"""Prompt of an attempt: role, intent, who owns what beside it, and what the attempt before left.

Everything that agents or repositories wrote is data here: one line each, cleaned, quoted, and never an instruction.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.core.untrusted_input import sanitise_line, sanitise_text
from remit.orchestrator.board import Attempt, Hold, Task
from remit.orchestrator.workers.starting_point import StartingPoint

MAX_NEIGHBOURS = 20
MAX_REASON_CHARS = 300
MAX_STEERING_CHARS = 2000


class Handover(Struct, frozen=True):
    """End of the attempt before this one, the files that it changed, and which of them this one begins with."""

    attempt: int
    why: str = ""
    changed: tuple[str, ...] = ()
    start: str = ""


def describe_handover(last: Attempt, start: StartingPoint) -> Handover:
    changed = (*start.taken, *start.left, *start.conflicts)
    return Handover(last.attempt, f"{last.ended_as}. {last.failure}", changed, start.describe())


def write_brief(
    attempt: Attempt,
    task: Task,
    block: str,
    neighbours: Sequence[Hold],
    handover: Handover | None = None,
    messages: Sequence[str] = (),
) -> str:
    """Return the prompt. `block` is the intent's context block, `messages` are a person's words for this task."""
    parts = (*list_parts(attempt, task, block, neighbours, handover), *map(format_message, messages))
    return "\n".join(parts) + "\n"


def format_message(text: str) -> str:
    """Return a person's message as the agent reads it."""
    return f"Remit: a person says about this task: {sanitise_text(text)[:MAX_STEERING_CHARS].strip()}"


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
        yield f"This is attempt {attempt.attempt}. Attempt {handover.attempt} ended: {reason}"
        if handover.changed:
            yield f"It changed: {sanitise_line(', '.join(handover.changed), MAX_REASON_CHARS)}"
        if handover.start:
            yield sanitise_line(handover.start, MAX_REASON_CHARS)
