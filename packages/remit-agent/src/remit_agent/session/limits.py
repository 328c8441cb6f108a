"""Limits of a run: turns, cost, time, mistakes in a row, repeated calls. A child's turns and cost count in its root."""

from collections.abc import Sequence

from msgspec import Struct

from remit_agent.session.journal.history import RunHistory
from remit_agent.session.journal.lines import RunLimits

MAX_MISTAKES = 3
MAX_REPEATED = 2


class Spending(Struct, frozen=True):
    """Turns and cost of a run with its children. `cost` is None if a price is unknown."""

    turns: int
    cost: float | None


def sum_spending(histories: Sequence[RunHistory]) -> Spending:
    costs = [history.cost for history in histories]
    cost = None if None in costs else sum(filter(None, costs))
    return Spending(sum(history.turn_count for history in histories), cost)


def find_reached_limit(spent: Spending, limits: RunLimits, minutes: float) -> str | None:
    """Return the limit that is reached, in words. An unknown price counts as reached: unknown is not 0."""
    if spent.turns >= limits.max_turns:
        return f"the limit of {limits.max_turns} turns is reached"
    if limits.max_cost_usd is not None:
        if spent.cost is None:
            return f"the price of the model is unknown, and the cost is limited to {limits.max_cost_usd:g} USD"
        if spent.cost >= limits.max_cost_usd:
            return f"the limit of {limits.max_cost_usd:g} USD is reached (spent: {spent.cost:.4f})"
    if limits.max_minutes is not None and minutes >= limits.max_minutes:
        return f"the limit of {limits.max_minutes:g} minutes is reached"
    return None


def find_stuck_reason(history: RunHistory) -> str | None:
    """Return the reason for a person's help: the model makes mistakes, or repeats calls despite a warning."""
    if history.mistake_count >= MAX_MISTAKES:
        return f"the model made {history.mistake_count} mistakes in a row"
    if history.repeated_count >= MAX_REPEATED:
        return f"the model repeated calls {history.repeated_count} times after it was told that the answer is the same"
    return None
