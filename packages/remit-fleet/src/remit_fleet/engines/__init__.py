"""Engines: keepers of the board that run attempts. Every engine shares the same pure rules."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from remit_fleet.board import (
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
from remit_fleet.conflict import Evidence, Settlement

__all__ = ["Engine"]


class Engine(Protocol):
    """Keeper of the board.

    Each method is one transaction. A method with a `token` changes no row and returns False if the token differs from
    the hold's token: the attempt has been superseded, and its effects are refused.
    """

    def open_plan(self, plan: OpenPlan, tasks: Sequence[Task]) -> None:
        """Store the plan. Raises if one of its intents already has an unfinished task."""
        ...

    def dispatch(self) -> tuple[Claim, ...]:
        """Schedule the board and carry out the claims. Each claim stores the hold, token, attempt and place in the
        queue atomically.
        """
        ...

    def beat(self, worker: Worker) -> Sequence[Hold]:
        """Register or renew the worker and the leases of its attempts. Return the worker's remaining holds.

        An attempt of this worker without a returned hold has been superseded: the worker ends its agent.
        """
        ...

    def sweep(self) -> Sequence[Ending]:
        """End the attempts named by `endings.find_endings`, and return them for their workers."""
        ...

    def move_attempt(self, token: int, key: TaskKey, state: AttemptState) -> bool:
        """Record that the attempt is prepared or started."""
        ...

    def record_usage(self, token: int, attempt: Attempt) -> bool:
        """Record the attempt's turns, tokens and money so far, and the time of its last event."""
        ...

    def note_answers(self, provider: str, good: int, bad: int, why: str = "") -> None:
        """Count answers of a model's provider. Too many recent bad answers reduce the provider's slots for a time."""
        ...

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "", why: str = "") -> bool:
        """End the attempt; its task is handed in, tried again, or stuck. A hand-in also requests a landing."""
        ...

    def widen_hold(self, token: int, key: TaskKey, scope: Sequence[str], scope_sha256: str) -> str | None:
        """Widen the task's write set at once if the wider set is apart from every hold; return None.

        Otherwise keep the hold and return the intent that owns the rest. The task claims the wider set at its next
        attempt: the caller ends the current attempt as cancelled, to prevent a deadlock between two tasks.
        """
        ...

    def meet_owner(self, token: int, key: TaskKey, evidence: Evidence) -> Settlement | None:
        """Settle and carry out an attempt's wish for a path held by a different task: the attempt waits until the owner
        has landed, one task is redone on top of its partner, or a person is asked. Return None if the tasks no longer
        meet.
        """
        ...

    def give_order(self, order: Order) -> int:
        """Carry out an order and return its id. Pausing and stopping take effect at the agent's next call."""
        ...

    def take_orders(self, worker: str) -> Sequence[Order]:
        """Return the untaken orders for attempts of this worker, and mark them taken."""
        ...

    def enqueue_landing(self, repository: str, target: str) -> None:
        """Request a landing. A landing under way gathers again at its end."""
        ...

    def gather_landing(
        self, repository: str, target: str, old: str, touched: Mapping[str, Sequence[str]]
    ) -> Landing | None:
        """Take the next train of handed-in tasks, for a target with the tip `old`.

        `touched` names the files touched by each handed-in change. Return None without a train, or if a landing is
        under way.
        """
        ...

    def note_check(self, landing: Landing, command: str) -> None:
        """Record that a check of the train runs: its members say so while they wait."""
        ...

    def choose_attempt(self, landing: Landing, intent: str, attempt: int, why: str) -> None:
        """Store which attempt of a task with rivals lands, and why."""
        ...

    def settle_landing(self, landing: Landing, landed: Sequence[str], conflicts: Sequence[Evidence] = ()) -> bool:
        """Settle a train in its final state: members have landed, are redone, or stay handed in.

        Conflicts are decided here, counting earlier rounds of the pair. Return False, with every member still handed
        in, if a member's token is no longer its hold's token.
        """
        ...

    def read_board(self) -> Board:
        """Return the current board."""
        ...

    def read_events(self, after: int, limit: int = 500) -> Sequence[FleetEvent]:
        """Return events after the sequence number, oldest first."""
        ...
