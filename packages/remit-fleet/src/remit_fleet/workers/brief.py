"""Prompt of an attempt: role, intent, neighbouring owners, and the results of earlier attempts.

Text written by agents or repositories is data here: one line each or quoted, cleaned, and never an instruction.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.core.untrusted_input import quote_text, sanitise_line, sanitise_text
from remit.gate.state.attempt_messages import FleetNote
from remit.tools.coordination import QUOTED_NOTICE, format_note
from remit_fleet.board import Attempt, Hold, Task
from remit_fleet.workers.starting_point import StartingPoint

MAX_NEIGHBOURS = 20
MAX_REASON_CHARS = 300
MAX_STEERING_CHARS = 2000
MAX_INSTRUCTION_CHARS = 4000
MAX_DIFF_CHARS = 12_000
MAX_DIFF_LINES = 400
MAX_NOTES = 10
MAX_TODO_ITEMS = 20


class Handover(Struct, frozen=True):
    """End of the previous attempt, its changed files, and the subset already in the new worktree."""

    attempt: int
    why: str = ""
    changed: tuple[str, ...] = ()
    start: str = ""


def describe_handover(last: Attempt, start: StartingPoint) -> Handover:
    changed = (*start.taken, *start.left, *start.conflicts)
    return Handover(last.attempt, f"{last.ended_as}. {last.failure}", changed, start.describe())


class StageBrief(Struct, frozen=True):
    """Facts for a stage of a task: its duty, the team's instructions for its role, and the work so far."""

    duty: str = ""
    instructions: str = ""
    must_judge: bool = False
    """Whether the stage gives a verdict on the work so far."""
    diff: str = ""
    todo: tuple[str, ...] = ()
    """Items that earlier attempts left open."""
    notes: tuple[FleetNote, ...] = ()


def write_brief(
    attempt: Attempt,
    task: Task,
    block: str,
    neighbours: Sequence[Hold],
    handover: Handover | None = None,
    stage: StageBrief | None = None,
    messages: Sequence[str] = (),
) -> str:
    """Return the prompt. `block` is the intent's context block, `messages` are a person's words for this task."""
    parts = list_parts(attempt, task, block, neighbours, handover, stage or StageBrief())
    return "\n".join((*parts, *map(format_message, messages))) + "\n"


def format_message(text: str) -> str:
    """Return a person's message as shown to the agent."""
    return f"Remit: a person says about this task: {sanitise_text(text)[:MAX_STEERING_CHARS].strip()}"


def list_parts(
    attempt: Attempt, task: Task, block: str, neighbours: Sequence[Hold], handover: Handover | None, stage: StageBrief
) -> Iterable[str]:
    role = attempt.role or task.role
    yield f"You work on the intent {task.intent} as its {role}, in a worktree of your own. It is selected already."
    yield stage.duty or "Change only files in its scope, run what its criteria ask for, and stop when it is done."
    yield "Do not commit, push or switch branches: what you leave in the worktree is committed and landed for you."
    if stage.must_judge:
        yield "End with one call of the tool submit_review: approve, or revise with what is to be mended."
    yield "Files that only people read, such as pictures: put them into the folder $REMIT_ARTIFACTS."
    if stage.instructions:
        yield ""
        yield stage.instructions[:MAX_INSTRUCTION_CHARS]
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
    if stage.diff:
        yield ""
        yield "The work so far is in your worktree. This is what it changed:"
        yield quote_text(stage.diff, MAX_DIFF_CHARS, MAX_DIFF_LINES)
    if stage.todo:
        yield ""
        yield "Attempts before you left these items open in TODO.md:"
        yield quote_text("\n".join(stage.todo[:MAX_TODO_ITEMS]), MAX_INSTRUCTION_CHARS)
    if stage.notes:
        yield ""
        yield f"Notes for this task. {QUOTED_NOTICE}"
        yield from map(format_note, stage.notes[-MAX_NOTES:])
