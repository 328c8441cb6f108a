"""Attempts: how a claim creates an attempt, and how the end of an attempt changes its task. Pure."""

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from remit_fleet import states
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    BudgetKey,
    Claim,
    Ending,
    FleetRepository,
    Hold,
    Role,
    Task,
    TaskKey,
    TaskState,
)
from remit_fleet.breaker import find_stuck_reason
from remit_fleet.budget import Amount, BudgetState, judge_spending, name_budget, select_budgets
from remit_fleet.conflict import MAX_ROUNDS, Settlement, SettlementKind

LEASE_S = 60.0
"""Seconds after the last renewal until a hold is free. The gate stops the agent earlier, by its own clock."""


def open_attempt(task: Task, claim: Claim, token: int, now: float) -> tuple[Task, Hold, Attempt]:
    """Return the task, hold and attempt of a claim. `token` is the repository's next token."""
    number = task.attempts + 1
    held = states.move_task(task, states.HELD) if task.state is states.WAITING else task
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
        role=claim.role or task.role,
        branch=f"remit/{task.intent}/{number}",
        started_at=now,
        reserved_usd=claim.reserved_usd,
        reserved_tokens=claim.reserved_tokens,
        reserved_seconds=claim.reserved_seconds,
        last_event_at=now,
    )
    return replace(held, attempts=number, why=""), hold, attempt


def start_task(task: Task) -> Task:
    """Return the task once an agent works on its attempt. A task that is paused before its agent starts resumes as
    running.
    """
    is_held = (task.returns_to or task.state) is states.HELD
    return _advance(task, states.RUNNING, "") if is_held else task


def close_attempt(attempt: Attempt, ended_as: AttemptEnd, now: float, failure: str = "") -> Attempt:
    """Return the ended attempt. `failure` is the signature that identifies a repeated failure."""
    return replace(attempt, state=AttemptState.ENDED, ended_as=ended_as, ended_at=now, failure=failure)


def settle_task(
    task: Task, ended: Sequence[Attempt], limit: int, role: Role, why: str = "", *, lands_by_hand: bool = False
) -> Task:
    """Return the task after the last of its ended attempts: handed in, moved to the next stage, sent back to the
    builder, tried again, or stuck. The work of each finished stage is kept: the next attempt starts from its commit.

    A task that a person stopped or reassigned meanwhile is unchanged. A paused task stays paused and resumes in the new
    state; a task that a person has taken over keeps its paths.
    """
    last = ended[-1]
    if last.ended_as is AttemptEnd.SUPERSEDED or task.state in states.FINAL_STATES or task.state is states.WAITING:
        return task
    if task.state is states.ASKING:  # a person has taken it over: its paths and its stage stay
        return replace(task, returns_to=states.HELD)
    if last.ended_as is AttemptEnd.HANDED_IN:
        if task.stage < len(role.chain):
            on = replace(task, stage=task.stage + 1, head=last.head or task.head)
            return _advance(on, states.HELD, f"next is the {role.chain[task.stage]}")
        return _hand_in(task, ended, why, lands_by_hand=lands_by_hand)
    if last.ended_as is AttemptEnd.SENT_BACK:
        return _send_back(replace(task, head=last.head or task.head), role, why)
    reason = find_stuck_reason([attempt for attempt in ended if attempt.attempt >= task.first_attempt], limit)
    if reason is not None and task.rivals:
        return _start_rival(task, ended, f"{last.agent} is stuck: {reason}")
    if reason is not None and task.finished:
        return _hand_in(task, ended, f"{last.agent} is stuck: {reason}", lands_by_hand=lands_by_hand)
    if reason is not None:
        if last.failure and last.failure in why and last.failure in reason:
            return states.move_task(task, states.STUCK, reason.replace(last.failure, why))
        return states.move_task(task, states.STUCK, f"{reason} ({why})" if why else reason)
    place = states.HELD if task.stage or task.revisions else states.WAITING
    if last.ended_as is AttemptEnd.OVER_BUDGET:
        return replace(states.move_task(task, states.ASKING, why), returns_to=place)
    return _advance(task, place, why or f"attempt {last.attempt} ended: {last.ended_as}")


def redo_task(task: Task, role: Role, settlement: Settlement) -> Task:
    """Return a task whose work did not land, as decided by the settlement: the builder repeats the work on the target's
    current tip, at once or after a person has answered.
    """
    if settlement.kind not in (SettlementKind.REASSIGN, SettlementKind.ASK):
        return task
    is_asked = settlement.kind is SettlementKind.ASK
    moved = states.move_task(task, states.ASKING if is_asked else states.HELD, settlement.why)
    if settlement.keeps_work:  # lands as it is, once a person has mended what is in the way
        return replace(moved, returns_to=states.HANDED_IN) if is_asked else moved
    again = replace(moved, stage=role.builder_stage, head="")
    return replace(again, returns_to=states.HELD) if is_asked else again


def describe_growth(owner: str, path: str) -> str:
    return f"{owner} holds {path} and finishes first"


def settle_growth(settlement: Settlement, owner: Task, wanting: Task, paths: Sequence[str]) -> list[Task]:
    first = paths[0] if paths else "a path"
    match settlement.kind:
        case SettlementKind.WAIT:
            return [states.move_task(wanting, states.PAUSED, describe_growth(owner.intent, first))]
        case SettlementKind.REASSIGN:
            redone, goes_on = (owner, wanting) if settlement.redo == owner.intent else (wanting, owner)
            again = states.move_task(redone, states.WAITING, f"{goes_on.intent} lands first: {settlement.why}")
            return [replace(again, needs=tuple(dict.fromkeys((*again.needs, goes_on.intent)))), *_release(goes_on)]
        case SettlementKind.SPLIT:
            say = f"{first} should be an intent of its own that {owner.intent} and {wanting.intent} need"
            return [
                states.move_task(task, states.ASKING, say)
                for task in (owner, wanting)
                if task.state in (states.RUNNING, states.PAUSED)
            ]
        case _:
            return [states.move_task(wanting, states.ASKING, f"{owner.intent} holds {first}: {settlement.why}")]


def release_task(task: Task, owner: str, path: str) -> list[Task]:
    """Return the resumed task after the owner's end; an empty list if the task is now paused for a different reason."""
    return _release(task) if task.why == describe_growth(owner, path) else []


def _release(task: Task) -> list[Task]:
    return [states.move_task(task, task.returns_to or states.WAITING)] if task.state is states.PAUSED else []


def _send_back(task: Task, role: Role, why: str) -> Task:
    again = replace(task, stage=role.builder_stage, revisions=task.revisions + 1)
    if task.revisions >= MAX_ROUNDS:
        return replace(
            states.move_task(again, states.ASKING, f"sent back {again.revisions} times: {why}"), returns_to=states.HELD
        )
    return _advance(again, states.HELD, f"sent back: {why}")


def _hand_in(task: Task, ended: Sequence[Attempt], why: str, *, lands_by_hand: bool) -> Task:
    last = ended[-1]
    if last.ended_as is AttemptEnd.HANDED_IN and (task.rivals or task.finished):
        task = replace(task, finished=(*task.finished, last.attempt))
    if task.rivals:
        return _start_rival(task, ended, why)
    handed = _advance(task, states.HANDED_IN, why)
    return states.ask_to_land(handed) if lands_by_hand else handed


def _start_rival(task: Task, ended: Sequence[Attempt], why: str) -> Task:
    agent, *rest = task.rivals
    anew = replace(states.start_afresh(task, ended[0].base), agents=(agent,), rivals=tuple(rest))
    return _advance(anew, states.HELD, f"{f'{why}; ' if why else ''}next is {agent}")


def _advance(task: Task, state: TaskState, why: str) -> Task:
    if task.state in (states.PAUSED, states.ASKING):
        return replace(task, returns_to=state)
    return states.move_task(task, state, why) if task.state is not state else replace(task, why=why)


def find_endings(board: Board) -> list[Ending]:
    """Return the running attempts ended by a rule: lease expired, silent, too long, too expensive."""
    exhausted = find_charged(board, "exhausted")
    endings: list[Ending] = []
    for key, attempt in board.attempts.items():
        task = board.tasks[key]
        repository = board.repositories[task.repository]
        found = judge_attempt(attempt, task, board.holds.get(key), board.find_role(task), repository, board.now)
        if found is None and key in exhausted:
            found = AttemptEnd.OVER_BUDGET, f"the budget of {exhausted[key]} is used up"
        if found is not None:
            endings.append(Ending(attempt.repository, attempt.intent, attempt.attempt, attempt.token, *found))
    return endings


def judge_attempt(
    attempt: Attempt, task: Task, hold: Hold | None, role: Role, repository: FleetRepository, now: float
) -> tuple[AttemptEnd, str] | None:
    if hold is None or hold.token != attempt.token:
        return AttemptEnd.SUPERSEDED, "its write set belongs to a later attempt"
    if hold.until is not None and hold.until < now:
        return AttemptEnd.LOST, f"worker {attempt.worker} did not renew its lease"
    if task.state is not TaskState.RUNNING or states.awaits_remote(task):
        return None
    if now - attempt.last_event_at > repository.stall_s:
        return AttemptEnd.SILENT, f"no event for {now - attempt.last_event_at:.0f} s"
    if role.max_seconds is not None and now - attempt.started_at > role.max_seconds:
        return AttemptEnd.TIMED_OUT, f"longer than {role.max_seconds:.0f} s"
    if role.max_usd is not None and (attempt.usd or 0.0) >= role.max_usd:
        return AttemptEnd.OVER_BUDGET, f"{attempt.usd:.2f} USD spent, `max_usd` of {role.name} is {role.max_usd:.2f}"
    used = attempt.tokens_in + attempt.tokens_out
    if role.max_tokens is not None and used >= role.max_tokens:
        return AttemptEnd.OVER_BUDGET, f"{used:,} tokens used, `max_tokens` of {role.name} is {role.max_tokens}"
    return None


def find_warnings(board: Board) -> dict[TaskKey, str]:
    """Return the running tasks with a nearly exhausted budget; their agents are warned in the next context."""
    return find_charged(board, "warned")


def find_charged(board: Board, state: BudgetState) -> dict[TaskKey, str]:
    charged: defaultdict[BudgetKey, list[Attempt]] = defaultdict(list)
    for key, attempt in board.attempts.items() if board.budgets else ():
        for budget in select_budgets(board.budgets.values(), board.tasks[key], attempt.agent):
            charged[budget.scope, budget.key].append(attempt)
    found: dict[TaskKey, str] = {}
    for key, attempts in charged.items():
        running = Amount(
            usd=sum(attempt.usd or 0.0 for attempt in attempts),
            tokens=sum(attempt.tokens_in + attempt.tokens_out for attempt in attempts),
            seconds=sum(board.now - attempt.started_at for attempt in attempts),
        )
        if judge_spending(board.budgets[key], running) == state:
            found |= {attempt.key: name_budget(board.budgets[key]) for attempt in attempts}
    return found
