"""Budgets: money, tokens and time, reserved before an attempt starts and settled at its end. Pure."""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit_fleet.board import Attempt, AttemptState, Claim, OpenPlan, Role, SpendingBudget, Task

WARNING_SHARE = 0.8
"""Share of a budget at which the agent is told in its next context."""
ESTIMATE_FACTOR = 1.5

BudgetState: TypeAlias = Literal["fine", "warned", "exhausted"]


class Amount(Struct, frozen=True):
    """Money, tokens and seconds of an attempt: reserved, or spent so far."""

    usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0


NO_AMOUNT = Amount()


class BudgetExceeded(Exception):
    """Error for a reservation that exceeds the rest of a budget. No budget has reserved the amount."""

    def __init__(self, budget: SpendingBudget, amount: Amount) -> None:
        super().__init__(f"the budget of {name_budget(budget)} has not enough left for {describe_amount(amount)}")
        self.budget = budget
        self.amount = amount


def describe_amount(amount: Amount) -> str:
    """Return the money and the tokens of an amount in words."""
    return f"{amount.usd:.2f} USD{f' and {amount.tokens:,} tokens' if amount.tokens else ''}"


def read_reservation(holder: Attempt | Claim) -> Amount:
    return Amount(holder.reserved_usd, holder.reserved_tokens, holder.reserved_seconds)


def name_budget(budget: SpendingBudget) -> str:
    return f"{budget.scope} {budget.key}".strip()


def describe_raise(task: Task, role: Role, budget: SpendingBudget) -> str:
    """Return what counted against a budget that is used up, and how a person raises it enough for one attempt more."""
    amount = estimate_amount(task, role)
    is_money = fits_bound(budget.tokens, budget.spent_tokens + amount.tokens)
    counted = "an attempt that reports no cost counts as its limit; " if is_money else ""
    if budget.scope != "plan":
        return f"{counted}raise it in `remit.toml`, then `remit task drop {task.intent}` and a new plan"
    option = f"--max-usd {ceil(100 * (budget.spent_usd + amount.usd)) / 100:.2f}"
    if not is_money:
        option = f"--max-tokens {budget.spent_tokens + amount.tokens if amount.tokens else 'N'}"
    return f"{counted}`remit plan resume {task.intent} {option}` raises it"


def select_budgets(budgets: Iterable[SpendingBudget], task: Task, agent: str = "") -> list[SpendingBudget]:
    """Return the budgets charged by an attempt of the task, by this agent if it is known."""
    keys = {
        ("fleet", ""),
        ("repository", task.repository),
        ("plan", task.plan),
        ("intent", f"{task.repository}/{task.intent}"),
        ("role", task.role),
        ("task", f"{task.plan}/{task.intent}"),
        ("agent", f"{task.plan}/{agent}"),
    }
    return [budget for budget in budgets if (budget.scope, budget.key) in keys]


def estimate_amount(task: Task, role: Role, budgets: Iterable[SpendingBudget] = ()) -> Amount:
    """Return the amount reserved by one attempt: 1.5 times the estimate, and at least the role's limit. A smaller
    budget is reserved as a whole, and of a task's own budget what is left: it ends the attempt once it is used up.
    """
    budgets = list(budgets)
    usd = max(role.estimate_usd * ESTIMATE_FACTOR, role.max_usd or 0.0)
    left = [b.usd - (b.spent_usd if b.scope == "task" else 0.0) for b in budgets if b.usd is not None]
    usd = min([usd, *(rest for rest in left if rest > 0)])
    left_tokens = [b.tokens - (b.spent_tokens if b.scope == "task" else 0) for b in budgets if b.tokens is not None]
    tokens = min([role.max_tokens or 0, *(rest for rest in left_tokens if rest > 0)])
    seconds = max(task.estimate_s * ESTIMATE_FACTOR, role.max_seconds or 0.0)
    return Amount(usd, tokens, seconds)


def make_plan_budgets(plan: OpenPlan, tasks: Iterable[Task]) -> list[SpendingBudget]:
    """Return the budgets that a plan's limits give to itself, its tasks and its agents."""
    limits = plan.limits
    made = [
        SpendingBudget("plan", plan.id, limits.usd, limits.tokens, limits.seconds),
        *(SpendingBudget("task", f"{plan.id}/{t.intent}", limits.task.usd, limits.task.tokens) for t in tasks),
        *(SpendingBudget("agent", f"{plan.id}/{name}", b.usd, b.tokens) for name, b in limits.agents.items()),
    ]
    return [budget for budget in made if (budget.usd, budget.tokens, budget.seconds) != (None, None, None)]


def charge_attempt(attempt: Attempt, now: float) -> Amount:
    """Return the charge of an attempt at its end. A started attempt of unknown cost, or of unknown tokens, is charged
    its full reservation: unknown is not zero.
    """
    usd, tokens = attempt.usd, attempt.tokens_in + attempt.tokens_out
    if attempt.state is AttemptState.STARTED:
        usd = attempt.reserved_usd if usd is None else usd
        tokens = tokens or attempt.reserved_tokens
    return Amount(usd or 0.0, tokens, now - attempt.started_at)


def can_reserve(budget: SpendingBudget, amount: Amount) -> bool:
    """Return whether the sum of reserved, spent and new amount stays within every bound of the budget."""
    return (
        fits_bound(budget.usd, budget.spent_usd + budget.reserved_usd + amount.usd)
        and fits_bound(budget.tokens, budget.spent_tokens + budget.reserved_tokens + amount.tokens)
        and fits_bound(budget.seconds, budget.spent_seconds + budget.reserved_seconds + amount.seconds)
    )


def can_ever_reserve(budget: SpendingBudget, amount: Amount) -> bool:
    """Return whether the amount would fit if every reservation came back unspent. Otherwise only a person can help."""
    return can_reserve(replace(budget, reserved_usd=0.0, reserved_tokens=0, reserved_seconds=0.0), amount)


def fits_bound(bound: float | None, amount: float) -> bool:
    return bound is None or amount <= bound + 1e-6


def reserve(budgets: Sequence[SpendingBudget], amount: Amount) -> list[SpendingBudget]:
    """Return the budgets with the amount reserved in each. Raises BudgetExceeded for the first with too little."""
    for budget in budgets:
        if not can_reserve(budget, amount):
            raise BudgetExceeded(budget, amount)
    return [_add_reserved(budget, amount, 1) for budget in budgets]


def settle(budgets: Sequence[SpendingBudget], reserved: Amount, spent: Amount) -> list[SpendingBudget]:
    """Return the budgets after an attempt's end, with the reservation released and the spent amount charged."""
    return [spend(_add_reserved(budget, reserved, -1), spent) for budget in budgets]


def spend(budget: SpendingBudget, amount: Amount) -> SpendingBudget:
    return replace(
        budget,
        spent_usd=budget.spent_usd + amount.usd,
        spent_tokens=budget.spent_tokens + amount.tokens,
        spent_seconds=budget.spent_seconds + amount.seconds,
    )


def judge_spending(budget: SpendingBudget, running: Amount = NO_AMOUNT) -> BudgetState:
    """Return the state of a budget from its charged spending plus the uncharged spending of running attempts."""
    bounds = (
        (budget.usd, budget.spent_usd + running.usd),
        (budget.tokens, budget.spent_tokens + running.tokens),
        (budget.seconds, budget.spent_seconds + running.seconds),
    )
    shares = [spent / limit if limit else float("inf") for limit, spent in bounds if limit is not None]
    most = max(shares, default=0.0)
    return "exhausted" if most >= 1 else "warned" if most >= WARNING_SHARE else "fine"


def _add_reserved(budget: SpendingBudget, amount: Amount, sign: int) -> SpendingBudget:
    """Return the budget with more (1) or less (-1) reserved. Sums of fractions never leave a rest below zero."""
    return replace(
        budget,
        reserved_usd=max(0.0, budget.reserved_usd + sign * amount.usd),
        reserved_tokens=max(0, budget.reserved_tokens + sign * amount.tokens),
        reserved_seconds=max(0.0, budget.reserved_seconds + sign * amount.seconds),
    )
