"""Attempts: what a claim makes, and what an attempt's end makes of its task. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from remit.orchestrator.board import Attempt, AttemptEnd, AttemptState, Claim, Hold, Role, Task, TaskState
from remit.orchestrator.breaker import find_stuck_reason
from remit.orchestrator.states import (
    ASKING,
    FINAL_STATES,
    HANDED_IN,
    HELD,
    PAUSED,
    RUNNING,
    STUCK,
    WAITING,
    ask_to_land,
    move_task,
)

LEASE_S = 60.0
"""Seconds after the last renewal until a hold is free. The gate stops the agent earlier, by its own clock."""


def open_attempt(task: Task, claim: Claim, token: int, now: float) -> tuple[Task, Hold, Attempt]:
    """Return task, hold and attempt as a claim makes them. `token` is the repository's next one."""
    number = task.attempts + 1
    held = move_task(task, HELD) if task.state is WAITING else task
    hold = Hold(
        task.repository, task.intent, number, token, task.scope, task.scope_sha256, since=now, until=now + LEASE_S
    )
    attempt = Attempt(
        task.repository,
        task.intent,
        number,
        token,
        workflow_id=f"{task.repository}:{task.intent}:{number}",
        worker=claim.worker,
        agent=claim.agent,
        role=task.role,
        branch=f"remit/{task.intent}/{number}",
        started_at=now,
        reserved_usd=claim.reserved_usd,
        reserved_seconds=claim.reserved_seconds,
        last_event_at=now,
    )
    return replace(held, attempts=number, why=""), hold, attempt


def start_task(task: Task) -> Task:
    """Return the task once an agent works on it. One that is paused before its agent starts goes on as running."""
    is_held = (task.returns_to or task.state) is HELD
    return _advance(task, RUNNING, "") if is_held else task


def close_attempt(attempt: Attempt, ended_as: AttemptEnd, now: float, failure: str = "") -> Attempt:
    """Return the attempt as it ended. `failure` is the signature by which the same failure is known again."""
    return replace(attempt, state=AttemptState.ENDED, ended_as=ended_as, ended_at=now, failure=failure)


def settle_task(
    task: Task, ended: Sequence[Attempt], limit: int, role: Role, why: str = "", *, lands_by_hand: bool = False
) -> Task:
    """Return the task after the last one of its ended attempts: handed in, on to the next stage, tried again, or stuck.

    A task that a person stopped or reassigned meanwhile stays as it is. A paused one stays paused, and returns to where
    it would be now; one that a person has taken over keeps its paths.
    """
    last = ended[-1]
    if last.ended_as is AttemptEnd.SUPERSEDED or task.state in FINAL_STATES or task.state is WAITING:
        return task
    if task.state is ASKING:  # a person has taken it over: its paths and its stage stay
        return replace(task, returns_to=HELD)
    if last.ended_as is AttemptEnd.HANDED_IN:
        if task.stage < len(role.chain):
            return _advance(replace(task, stage=task.stage + 1), HELD, f"next is the {role.chain[task.stage]}")
        handed = _advance(task, HANDED_IN, why)
        return ask_to_land(handed) if lands_by_hand else handed
    reason = find_stuck_reason(ended, limit)
    if reason is not None:
        return move_task(task, STUCK, reason)
    again = replace(task, stage=0)
    if last.ended_as is AttemptEnd.OVER_BUDGET:
        return replace(move_task(again, ASKING, why), returns_to=WAITING)
    return _advance(again, WAITING, why or f"attempt {last.attempt} ended: {last.ended_as}")


def _advance(task: Task, state: TaskState, why: str) -> Task:
    """Return the task in the state, or, where a person has to look first, bound for it."""
    if task.state in (PAUSED, ASKING):
        return replace(task, returns_to=state)
    return move_task(task, state, why)
