"""Endings: attempts ended by a rule, because they are expired, silent, too long or too expensive. Pure."""

from collections import defaultdict

from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    Board,
    BudgetKey,
    Ending,
    FleetRepository,
    Hold,
    Role,
    Task,
    TaskKey,
    TaskState,
)
from remit_fleet.budget import Amount, BudgetState, judge_spending, name_budget, select_budgets
from remit_fleet.states import awaits_remote


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
    """Return how a rule ends this attempt by its own facts, and why; shared budgets are left to `find_endings`."""
    if hold is None or hold.token != attempt.token:
        return AttemptEnd.SUPERSEDED, "its write set belongs to a later attempt"
    if hold.until is not None and hold.until < now:
        return AttemptEnd.LOST, f"worker {attempt.worker} did not renew its lease"
    if task.state is not TaskState.RUNNING or awaits_remote(task):
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
    """Return the running tasks charged to a budget in this state, with the budget's name."""
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
