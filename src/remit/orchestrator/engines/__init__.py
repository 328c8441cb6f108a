"""Engines: what keeps the board and runs attempts. The rules are pure and the same for all of them."""

from collections.abc import Sequence
from typing import Protocol

from remit.orchestrator.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Claim,
    FleetEvent,
    Hold,
    OpenPlan,
    Order,
    Task,
    Worker,
)

__all__ = ["Engine"]


class Engine(Protocol):
    """A keeper of the board.

    Each method is one transaction. A method with a `token` changes nothing and returns False once the token is not
    the one of the task's hold: the attempt has been superseded, and its effects are refused.
    """

    def open_plan(self, plan: OpenPlan, tasks: Sequence[Task]) -> None:
        """Store the plan. Raises where one of its intents has a task that is not final."""
        ...

    def dispatch(self) -> tuple[Claim, ...]:
        """Schedule the board and carry it out: hold, token, attempt and its place in the queue at once, or nothing."""
        ...

    def beat(self, worker: Worker) -> Sequence[Hold]:
        """Register or renew the worker and the leases of its attempts. Returns the holds it still has.

        An attempt of this worker without a hold in the answer has been superseded: the worker ends its agent.
        """
        ...

    def sweep(self) -> Sequence[Attempt]:
        """End the attempts whose worker is dead or whose lease ran out, and return them."""
        ...

    def move_attempt(self, token: int, key: tuple[str, str], state: AttemptState) -> bool:
        """Record that the attempt is prepared or started."""
        ...

    def record_usage(self, token: int, attempt: Attempt) -> bool:
        """Record turns, tokens and money of the attempt so far, and the time of its last event."""
        ...

    def end_attempt(self, token: int, key: tuple[str, str], ended_as: AttemptEnd, failure: str = "") -> bool:
        """End the attempt; its task is handed in, tried again, or stuck. A hand-in also asks for a landing."""
        ...

    def give_order(self, order: Order) -> int:
        """Store an order and return its id. Pausing and stopping take effect at the agent's next call."""
        ...

    def take_orders(self, worker: str) -> Sequence[Order]:
        """Return the orders for attempts of this worker that nobody has taken yet, and mark them taken."""
        ...

    def enqueue_landing(self, repository: str, target: str) -> bool:
        """Ask for a landing. Returns False where one is under way: it gathers again at its end."""
        ...

    def read_board(self) -> Board:
        """Return the board as it is now."""
        ...

    def read_events(self, after: int, limit: int = 500) -> Sequence[FleetEvent]:
        """Return events after the sequence number, oldest first."""
        ...
