"""Rows of the board that a deed reads and changes, of any store."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from remit_fleet import board
from remit_fleet.conflict import SettledConflict

K = TypeVar("K")
V = TypeVar("V", bound=Struct)
Effect: TypeAlias = board.Attempt | board.LandingRun
"""What is put into a queue once a deed is done, in its transaction."""

RETRYING = (board.OrderKind.RETRY, board.OrderKind.REASSIGN)
"""Orders after which the failures of earlier attempts count no more."""


class Table(dict[K, V]):
    """Rows of one kind by their key. A table of a database reads them when `get`, `[]` or `find` ask for them."""

    def find(self, **columns: Any) -> Sequence[V]:
        """Return the rows whose columns have these values, in the order of their keys; of a tuple, one of them."""
        rows: Iterable[V] = self.values()
        for name, wanted in columns.items():
            read = attrgetter(name)
            if isinstance(wanted, tuple):
                rows = [row for row in rows if read(row) in wanted]
            else:
                rows = [row for row in rows if read(row) == wanted]
        return list(rows)

    def read(self) -> dict[K, V]:
        """Return all rows by key."""
        return dict(self)

    def add(self: "Table[int, V]", value: V) -> V:
        """Store a row under the next number, and return it with its `id`."""
        number = len(self) + 1
        self[number] = numbered = replace(value, id=number)
        return numbered


class Rows(ABC):
    """Rows of a deed, and what it wants done. `live` are the attempts that have not ended."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.repositories: Table[str, board.FleetRepository] = self.make_table(board.FleetRepository)
        self.plans: Table[str, board.OpenPlan] = self.make_table(board.OpenPlan)
        self.tasks: Table[board.TaskKey, board.Task] = self.make_table(board.Task)
        self.holds: Table[board.TaskKey, board.Hold] = self.make_table(board.Hold)
        self.live: Table[board.TaskKey, board.Attempt] = self.make_table(board.Attempt)
        self.workers: Table[str, board.Worker] = self.make_table(board.Worker)
        self.budgets: Table[board.BudgetKey, board.SpendingBudget] = self.make_table(board.SpendingBudget)
        self.breakers: Table[board.BreakerKey, board.Breaker] = self.make_table(board.Breaker)
        self.proofs: Table[board.ProofKey, board.Proof] = self.make_table(board.Proof)
        self.orders: Table[int, board.Order] = self.make_table(board.Order)
        self.landings: Table[int, board.Landing] = self.make_table(board.Landing)
        self.landers: Table[tuple[str, str], board.LandingRun] = self.make_table(board.LandingRun)
        self.notes: Table[int, board.StoredNote] = self.make_table(board.StoredNote)
        self.conflicts: Table[int, SettledConflict] = self.make_table(SettledConflict)
        self.effects: list[Effect] = []

    def make_table(self, kind: type[V]) -> Table[Any, V]:
        return Table()

    @property
    def now(self) -> float:
        return self.clock()

    @abstractmethod
    def prove(self, one: board.Task | board.Hold, other: board.Task | board.Hold) -> board.Proof:
        """Return whether two write sets are apart."""

    @abstractmethod
    def begin_claim(self, claim: board.Claim) -> int:
        """Return the repository's next token. Claims of one repository are serial from here."""

    @abstractmethod
    def count_live(self, worker: str) -> int:
        """Return the number of a worker's live attempts."""

    @abstractmethod
    def list_unproved(self, task: board.Task) -> Sequence[board.Hold]:
        """Return the other holds of the repository that no proof calls apart from the task's write set."""

    @abstractmethod
    def find_last_attempt(self, key: board.TaskKey) -> int:
        """Return the number of the last attempt of this or an earlier task of the intent."""

    @abstractmethod
    def list_ended(self, task: board.Task) -> Sequence[board.Attempt]:
        """Return the task's ended attempts in order, since a person last had it retried."""

    @abstractmethod
    def close(self, ended: board.Attempt) -> None:
        """Store the end of a live attempt."""

    @abstractmethod
    def renew_holds(self, worker: str, until: float) -> Sequence[board.Hold]:
        """Renew the holds of a worker's live attempts at once, and return them."""

    @abstractmethod
    def list_roles(self) -> Mapping[str, board.Role]:
        """Return the roles of all plans; of two with one name the newer plan's."""

    @abstractmethod
    def add_roles(self, plan: str, roles: Mapping[str, board.Role]) -> None: ...

    @abstractmethod
    def tell(
        self, kind: board.EventKind, body: Mapping[str, Any], task: board.Task | None = None, **place: Any
    ) -> None:
        """Append an event to the feed, about a task or a place: repository, plan, intent, attempt."""

    @abstractmethod
    def number_event(self, kind: board.EventKind, body: Mapping[str, Any], **place: Any) -> int:
        """Append an event at once, and return its number, which is never used again."""

    def read_board(self) -> board.Board:
        return board.Board(
            self.now,
            self.repositories.read(),
            self.plans.read(),
            self.tasks.read(),
            self.holds.read(),
            self.live.read(),
            self.workers.read(),
            dict(self.list_roles()),
            self.budgets.read(),
            self.breakers.read(),
            self.proofs.read(),
        )
