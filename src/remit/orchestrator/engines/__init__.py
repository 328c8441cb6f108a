"""Engines: what keeps the board and runs attempts. The rules are pure and the same for all of them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from remit.orchestrator.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Claim,
    Ending,
    FleetEvent,
    Hold,
    Landing,
    OpenPlan,
    Order,
    Task,
    TaskKey,
    Worker,
)
from remit.orchestrator.conflict import Evidence, Settlement

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

    def sweep(self) -> Sequence[Ending]:
        """End the attempts that `endings.find_endings` names, and return them for their workers."""
        ...

    def move_attempt(self, token: int, key: TaskKey, state: AttemptState) -> bool:
        """Record that the attempt is prepared or started."""
        ...

    def record_usage(self, token: int, attempt: Attempt) -> bool:
        """Record turns, tokens and money of the attempt so far, and the time of its last event."""
        ...

    def note_answers(self, provider: str, good: int, bad: int, why: str = "") -> None:
        """Count answers of a model's provider; too many bad ones in a row leave it fewer slots for a time."""
        ...

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "", why: str = "") -> bool:
        """End the attempt; its task is handed in, tried again, or stuck. A hand-in also asks for a landing."""
        ...

    def widen_hold(self, token: int, key: TaskKey, scope: Sequence[str], scope_sha256: str) -> str | None:
        """Widen the task's write set, at once where it stays apart from all holds (None).

        Else the hold stays as it is, and the intent that owns the rest is returned. The task claims the wider set at
        its next attempt: the caller ends this one as cancelled, so that no two tasks wait for each other.
        """
        ...

    def meet_owner(self, token: int, key: TaskKey, evidence: Evidence) -> Settlement | None:
        """Settle that an attempt wants a path which another task holds, and carry it out: it waits until the owner has
        landed, one of both is redone on top of the other, or a person is asked. None where they do not meet any more.
        """
        ...

    def give_order(self, order: Order) -> int:
        """Carry out an order and return its id. Pausing and stopping take effect at the agent's next call."""
        ...

    def take_orders(self, worker: str) -> Sequence[Order]:
        """Return the orders for attempts of this worker that nobody has taken yet, and mark them taken."""
        ...

    def enqueue_landing(self, repository: str, target: str) -> None:
        """Ask for a landing: one that is under way gathers again at its end."""
        ...

    def gather_landing(
        self, repository: str, target: str, old: str, touched: Mapping[str, Sequence[str]]
    ) -> Landing | None:
        """Take the next train of what is handed in, for a target whose tip is `old`.

        `touched` names the files that each handed-in change touches. None: nothing to land, or a landing is under way.
        """
        ...

    def settle_landing(self, landing: Landing, landed: Sequence[str], conflicts: Sequence[Evidence] = ()) -> bool:
        """Settle a train in the state that it ended in: its members landed, are redone, or stay handed in.

        Conflicts are decided here, with the rounds that their pair has had. Returns False, and all stay handed in,
        where the token of a member is not its hold's any more.
        """
        ...

    def read_board(self) -> Board:
        """Return the board as it is now."""
        ...

    def read_events(self, after: int, limit: int = 500) -> Sequence[FleetEvent]:
        """Return events after the sequence number, oldest first."""
        ...
