"""Board in dictionaries and in simulated time: for forecasts, demonstrations and the laws of the fleet."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec.structs import replace

from remit_fleet import board
from remit_fleet.attempts import LEASE_S
from remit_fleet.engines.engine import Engine
from remit_fleet.rows import RETRYING, Rows


class MemoryRows(Rows):
    """All rows of a board, and its feed."""

    def __init__(
        self,
        clock: Callable[[], float],
        prove: Callable[[board.Task | board.Hold, board.Task | board.Hold], board.Proof],
    ) -> None:
        super().__init__(clock)
        self.prove_pair = prove
        self.roles: dict[str, board.Role] = {}
        self.ended: defaultdict[tuple[str, str], list[board.Attempt]] = defaultdict(list)
        """By plan and intent."""
        self.events: list[board.FleetEvent] = []

    def prove(self, one: board.Task | board.Hold, other: board.Task | board.Hold) -> board.Proof:
        return self.prove_pair(one, other)

    def begin_claim(self, claim: board.Claim) -> int:
        repository = self.repositories[claim.repository]
        self.repositories[claim.repository] = replace(repository, token_last=repository.token_last + 1)
        return repository.token_last + 1

    def count_live(self, worker: str) -> int:
        return sum(attempt.worker == worker for attempt in self.live.values())

    def list_unproved(self, task: board.Task) -> Sequence[board.Hold]:
        own, key = task.scope_sha256, task.key
        others = (hold for hold in self.holds.values() if hold.repository == key[0] and hold.key != key)
        return [hold for hold in others if not self.is_apart(own, hold.scope_sha256)]

    def is_apart(self, a_sha256: str, b_sha256: str) -> bool:
        proof = self.proofs.get(board.pair_scopes(a_sha256, b_sha256))
        return proof is not None and proof.answer is board.ProofAnswer.APART

    def find_last_attempt(self, key: board.TaskKey) -> int:
        task = self.tasks.get(key)
        return task.attempts if task is not None else 0

    def list_ended(self, task: board.Task) -> Sequence[board.Attempt]:
        orders = self.orders.find(intent=task.intent, kind=RETRYING, repository=task.repository)
        since = orders[-1].at if orders else -1.0
        return [attempt for attempt in self.ended[task.plan, task.intent] if (attempt.ended_at or 0.0) > since]

    def close(self, ended: board.Attempt) -> None:
        del self.live[ended.key]
        self.ended[self.tasks[ended.key].plan, ended.intent].append(ended)

    def renew_holds(self, worker: str, until: float) -> Sequence[board.Hold]:
        mine = [key for key, attempt in self.live.items() if attempt.worker == worker]
        self.holds.update({key: replace(self.holds[key], until=until) for key in mine})
        return [self.holds[key] for key in mine]

    def list_roles(self) -> Mapping[str, board.Role]:
        return self.roles

    def add_roles(self, plan: str, roles: Mapping[str, board.Role]) -> None:
        self.roles.update(roles)

    def tell(
        self, kind: board.EventKind, body: Mapping[str, Any], task: board.Task | None = None, **place: Any
    ) -> None:
        if task is not None:
            place |= {"repository": task.repository, "plan": task.plan, "intent": task.intent}
        self.number_event(kind, body, **place)

    def number_event(self, kind: board.EventKind, body: Mapping[str, Any], **place: Any) -> int:
        number = len(self.events) + 1
        self.events.append(board.FleetEvent(number, self.now, kind, body=body, **place))
        return number


class MemoryEngine(Engine):
    """Engine of one process, without queues: the simulation does what an executor does. `now` is the clock it sets."""

    lease_s = LEASE_S

    def __init__(
        self,
        repositories: Iterable[board.FleetRepository],
        prove: Callable[[board.Task | board.Hold, board.Task | board.Hold], board.Proof],
        *,
        budgets: Iterable[board.SpendingBudget] = (),
    ) -> None:
        self.now = 0.0
        self.rows = MemoryRows(lambda: self.now, prove)
        self.rows.repositories.update({repository.id: repository for repository in repositories})
        self.rows.budgets.update({(budget.scope, budget.key): budget for budget in budgets})

    def change(self, repository: str = "") -> AbstractContextManager[MemoryRows]:
        self.rows.effects.clear()
        return nullcontext(self.rows)

    def view_board(self) -> board.Board:
        rows = self.rows
        held = rows.repositories, rows.plans, rows.tasks, rows.holds, rows.live, rows.workers, rows.roles, rows.budgets
        return board.Board(rows.now, *held, rows.breakers, rows.proofs)

    def read_board(self) -> board.Board:
        return self.rows.read_board()

    def read_events(self, after: int, limit: int = 500) -> Sequence[board.FleetEvent]:
        return self.rows.events[after : after + limit]

    def sweep(self) -> Sequence[board.Ending]:
        endings = self.end_overdue()
        self.release_waiting()
        self.ask_for_missed_landings()
        return endings
