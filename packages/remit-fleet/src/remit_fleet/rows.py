"""Rows of the board that a deed reads and changes, of any store."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from remit_fleet.board import (
    Attempt,
    Board,
    Breaker,
    BreakerKey,
    BudgetKey,
    Claim,
    EventKind,
    FleetRepository,
    Hold,
    Landing,
    LandingRun,
    OpenPlan,
    Order,
    OrderKind,
    Proof,
    ProofKey,
    Role,
    SpendingBudget,
    StoredNote,
    Task,
    TaskKey,
    Worker,
)
from remit_fleet.conflict import SettledConflict

K = TypeVar("K")
V = TypeVar("V", bound=Struct)
Effect: TypeAlias = Attempt | LandingRun
"""What is put into a queue once a deed is done, in its transaction."""

RETRYING = (OrderKind.RETRY, OrderKind.REASSIGN)
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
        self.repositories: Table[str, FleetRepository] = self.make_table(FleetRepository)
        self.plans: Table[str, OpenPlan] = self.make_table(OpenPlan)
        self.tasks: Table[TaskKey, Task] = self.make_table(Task)
        self.holds: Table[TaskKey, Hold] = self.make_table(Hold)
        self.live: Table[TaskKey, Attempt] = self.make_table(Attempt)
        self.workers: Table[str, Worker] = self.make_table(Worker)
        self.budgets: Table[BudgetKey, SpendingBudget] = self.make_table(SpendingBudget)
        self.breakers: Table[BreakerKey, Breaker] = self.make_table(Breaker)
        self.proofs: Table[ProofKey, Proof] = self.make_table(Proof)
        self.orders: Table[int, Order] = self.make_table(Order)
        self.landings: Table[int, Landing] = self.make_table(Landing)
        self.landers: Table[tuple[str, str], LandingRun] = self.make_table(LandingRun)
        self.notes: Table[int, StoredNote] = self.make_table(StoredNote)
        self.conflicts: Table[int, SettledConflict] = self.make_table(SettledConflict)
        self.effects: list[Effect] = []

    def make_table(self, kind: type[V]) -> Table[Any, V]:
        return Table()

    @property
    def now(self) -> float:
        return self.clock()

    @abstractmethod
    def prove(self, one: Task | Hold, other: Task | Hold) -> Proof:
        """Return whether two write sets are apart."""

    @abstractmethod
    def begin_claim(self, claim: Claim) -> int:
        """Return the repository's next token. Claims of one repository are serial from here."""

    @abstractmethod
    def count_live(self, worker: str) -> int:
        """Return the number of a worker's live attempts."""

    @abstractmethod
    def list_unproved(self, task: Task) -> Sequence[Hold]:
        """Return the other holds of the repository that no proof calls apart from the task's write set."""

    @abstractmethod
    def find_last_attempt(self, key: TaskKey) -> int:
        """Return the number of the last attempt of this or an earlier task of the intent."""

    @abstractmethod
    def list_ended(self, task: Task) -> Sequence[Attempt]:
        """Return the task's ended attempts in order, since a person last had it retried."""

    @abstractmethod
    def close(self, ended: Attempt) -> None:
        """Store the end of a live attempt."""

    @abstractmethod
    def renew_holds(self, worker: str, until: float) -> Sequence[Hold]:
        """Renew the holds of a worker's live attempts at once, and return them."""

    @abstractmethod
    def list_roles(self) -> Mapping[str, Role]:
        """Return the roles of all plans; of two with one name the newer plan's."""

    @abstractmethod
    def add_roles(self, plan: str, roles: Mapping[str, Role]) -> None:
        """Store the roles of a plan."""

    @abstractmethod
    def tell(self, kind: EventKind, body: Mapping[str, Any], task: Task | None = None, **place: Any) -> None:
        """Append an event to the feed, about a task or a place: repository, plan, intent, attempt."""

    @abstractmethod
    def number_event(self, kind: EventKind, body: Mapping[str, Any], **place: Any) -> int:
        """Append an event at once, and return its number, which is never used again."""

    def read_board(self) -> Board:
        """Return a copy of all rows of the board."""
        return Board(
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
