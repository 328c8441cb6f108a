"""Rows of a deed in the fleet database: read when they are asked for, and written as far as they differ."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from msgspec import Struct, convert
from msgspec.structs import asdict, replace

from remit.core.python_runtime import prepare_type
from remit.core.scope.apart import Apart, Shared, decide_apart
from remit.core.scope.path_patterns import Scope
from remit_fleet import board
from remit_fleet.conflict import SettledConflict
from remit_fleet.database.store import (
    CLOCKS,
    Dialect,
    Store,
    attempts,
    breakers,
    budgets,
    conflicts,
    events,
    holds,
    landers,
    landings,
    notes,
    orders,
    plans,
    proofs,
    read_values,
    repositories,
    row_of,
    tasks,
    value_of,
    workers,
)
from remit_fleet.rows import RETRYING, Rows, Table

K = TypeVar("K")
V = TypeVar("V", bound=Struct)
ENDED_STATE = str(board.AttemptState.ENDED)
IS_LIVE = attempts.c.state != ENDED_STATE
PLACES: Mapping[type[Struct], tuple[sa.Table, tuple[str, ...]]] = {
    board.FleetRepository: (repositories, ("id",)),
    board.OpenPlan: (plans, ("id",)),
    board.Task: (tasks, ("repository", "intent")),
    board.Hold: (holds, ("repository", "intent")),
    board.Attempt: (attempts, ("repository", "intent")),
    board.Worker: (workers, ("id",)),
    board.SpendingBudget: (budgets, ("scope", "key")),
    board.Breaker: (breakers, ("kind", "key")),
    board.Proof: (proofs, ("a_sha256", "b_sha256")),
    board.Order: (orders, ("id",)),
    board.Landing: (landings, ("id",)),
    board.LandingRun: (landers, ("repository", "target")),
    board.StoredNote: (notes, ("id",)),
    SettledConflict: (conflicts, ("id",)),
}
"""Table of each kind of rows, and the columns of its key: of several tasks with one key the newest counts."""


@contextmanager
def change_rows(store: Store, repository: str = "") -> Generator["DatabaseRows"]:
    """Begin a deed on the database. With a repository, lock its row, because changes of its tasks are serial. Raises
    ValueError for an unknown one.
    """
    with store.write() as connection:
        rows = DatabaseRows(store, connection)
        if repository:
            rows.lock(repository)
        yield rows
        rows.write_events()


class DatabaseTable(Table[K, V]):
    """Rows of one kind in the database; the dictionary holds those that the present transaction has read or written."""

    def __init__(self, connection: sa.Connection, kind: type[V], *which: sa.ColumnElement[bool]) -> None:
        super().__init__()
        self.connection = connection
        self.kind = kind
        self.table, self.key = PLACES[kind]
        self.which = which
        self.absent: set[K] = set()
        self.is_empty = False
        self.make_columns: Callable[[Any], Mapping[str, Any]] = lambda _: {}
        """Columns of a new row beside those of its value."""

    def read(self, *which: sa.ColumnElement[bool]) -> dict[K, V]:
        """Return the rows by key; of several tasks of an intent the newest."""
        if self.is_empty:
            return {}
        query = sa.select(self.table).where(*self.which, *which).order_by(*self.table.primary_key)
        found: dict[K, V] = {}
        for row in self.connection.execute(query).mappings():
            key: Any = row[self.key[0]] if len(self.key) == 1 else tuple(row[name] for name in self.key)
            found[key] = value_of(row, self.kind)
        return found

    def get(self, key: K, default: None = None) -> V | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if key not in self and key not in self.absent:
            self.know(key, next(iter(self.read(*self.match(key)).values()), None))
        return super().get(key)

    def know(self, key: K, value: V | None) -> None:
        """Take a row as read, or as absent."""
        if value is None:
            super().pop(key, None)
            self.absent.add(key)
        else:
            super().__setitem__(key, value)
            self.absent.discard(key)

    def __missing__(self, key: K) -> V:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: K, value: V) -> None:
        before = self.get(key)
        row, known = self.write_row(key, value), self.write_row(key, before) if before is not None else {}
        this = {f"key_{column.name}": row[column.name] for column in self.table.primary_key}
        if this.items() <= {f"key_{name}": part for name, part in known.items()}.items():
            changed = {name: part for name, part in row.items() if known[name] != part}
            if changed:
                self.connection.execute(update_of(self.table), changed | this)
        else:
            self.connection.execute(insert_into(self.table), {**row, **self.make_columns(value)})
        self.know(key, value)

    def write_row(self, key: K, value: V) -> dict[str, Any]:
        return row_of(value, self.table) | dict(zip(self.key, split_key(key), strict=True))

    def pop(self, key: K, default: None = None) -> V | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        known = super().get(key)
        if key not in self.absent:
            self.connection.execute(sa.delete(self.table).where(*self.match(key)))
        self.know(key, None)
        return known

    def find(self, **columns: Any) -> Sequence[V]:
        return [*self.read(*(has_value(self.table.c[name], wanted) for name, wanted in columns.items())).values()]

    def add(self: "DatabaseTable[int, V]", value: V) -> V:
        row = {name: part for name, part in row_of(value, self.table).items() if name != "id"}
        made = self.connection.execute(insert_into(self.table).returning(self.table.c.id), row)
        number = int(made.scalar_one())
        numbered = replace(value, id=number)
        self.know(number, numbered)
        return numbered

    def match(self, key: K) -> Iterator[sa.ColumnElement[bool]]:
        return (self.table.c[name] == part for name, part in zip(self.key, split_key(key), strict=True))


def split_key(key: object) -> list[object]:
    parts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    return [text_of(part) for part in parts]


def text_of(value: object) -> object:
    """Return an enumeration's value as text: a driver may write its name."""
    return str(value) if isinstance(value, str) else value


def has_value(column: sa.Column[Any], wanted: object) -> sa.ColumnElement[bool]:
    parts = split_key(wanted)
    return column.in_(parts) if len(parts) > 1 else column == parts[0]


@cache
def insert_into(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


@cache
def update_of(table: sa.Table) -> sa.Update:
    return sa.update(table).where(*(column == sa.bindparam(f"key_{column.name}") for column in table.primary_key))


class DatabaseRows(Rows):
    """Rows of one transaction. Events are written at its end, all at once."""

    def __init__(self, store: Store, connection: sa.Connection) -> None:
        self.store, self.connection = store, connection
        self.tables: dict[type[Struct], DatabaseTable[Any, Any]] = {}
        self.time: float | None = None
        self.told: list[dict[str, Any]] = []
        self.used: int | None = None
        self.unproved: list[board.Hold] | None = None
        super().__init__(self.read_clock)

    def make_table(self, kind: type[V]) -> Table[Any, V]:
        table: DatabaseTable[Any, V] = DatabaseTable(
            self.connection, kind, *([IS_LIVE] if kind is board.Attempt else [])
        )
        if kind is board.Attempt:
            table.make_columns = lambda each: {"plan": self.tasks[each.key].plan, "claimed_at": each.started_at}
        self.tables[kind] = table
        return table

    def read_clock(self) -> float:
        if self.time is None:
            self.time = self.store.now(self.connection)
        return self.time

    def lock(self, repository: str) -> None:
        query = sa.select(repositories).where(repositories.c.id == repository).with_for_update()
        found = read_values(self.connection, board.FleetRepository, query)
        if not found:
            raise ValueError(f"the fleet knows no repository {repository!r}")
        self.tables[board.FleetRepository].know(repository, found[0])

    def prove(self, one: board.Task | board.Hold, other: board.Task | board.Hold) -> board.Proof:
        return prove_scopes(one.scope, other.scope)

    def begin_claim(self, claim: board.Claim) -> int:
        """Take the next token, which locks the repository's row, lock the worker's, and read what a claim needs: few
        statements, built once, because a claim blocks further claims in its repository.
        """
        which = {"repository": claim.repository, "intent": claim.intent, "worker": claim.worker}
        token = take_token(self.connection, claim.repository)
        row = self.connection.execute(FIND_CANDIDATE, which).mappings().first()
        if row is not None:
            task, worker = (
                value_of(row, board.Task),
                {column.name: row[f"worker_{column.name}"] for column in workers.c},
            )
            self.tables[board.Task].know(claim.key, task)
            self.tables[board.Worker].know(claim.worker, value_of(worker, board.Worker))
            if not row["is_live"]:
                self.tables[board.Attempt].know(claim.key, None)
            if task.state is board.TaskState.WAITING:
                self.tables[board.Hold].know(claim.key, None)
            room = self.connection.execute(find_room(self.store.dialect), which | {"own_sha256": task.scope_sha256})
            rows = room.mappings().all()
            self.time, self.used = float(rows[0]["now"]), int(rows[0]["used"])
            self.unproved = [value_of(row, board.Hold) for row in rows if row["intent"] is not None]
            if not rows[0]["has_budgets"]:
                self.tables[board.SpendingBudget].is_empty = True
        return token

    def count_live(self, worker: str) -> int:
        if self.used is None:
            query = sa.select(sa.func.count()).where(attempts.c.worker == worker, IS_LIVE)
            return int(self.connection.execute(query).scalar_one())
        return self.used

    def list_unproved(self, task: board.Task) -> Sequence[board.Hold]:
        if self.unproved is None:
            which = {"own_sha256": task.scope_sha256, "repository": task.repository, "intent": task.intent}
            found = self.connection.execute(sa.select(holds).where(IS_UNPROVED), which).mappings()
            return [value_of(row, board.Hold) for row in found]
        return self.unproved

    def find_last_attempt(self, key: board.TaskKey) -> int:
        return int(
            self.connection.execute(sa.select(sa.func.max(attempts.c.attempt)).where(*is_key(attempts, key))).scalar()
            or 0
        )

    def list_ended(self, task: board.Task) -> Sequence[board.Attempt]:
        retried = sa.select(sa.func.max(orders.c.at)).where(*is_key(orders, task.key), orders.c.kind.in_(RETRYING))
        since = self.connection.execute(retried).scalar() or 0.0
        theirs = (*is_key(attempts, task.key), attempts.c.plan == task.plan, attempts.c.ended_at > since, ~IS_LIVE)
        return read_values(
            self.connection, board.Attempt, sa.select(attempts).where(*theirs).order_by(attempts.c.attempt)
        )

    def close(self, ended: board.Attempt) -> None:
        self.live[ended.key] = ended
        self.tables[board.Attempt].know(ended.key, None)

    def renew_holds(self, worker: str, until: float) -> Sequence[board.Hold]:
        is_mine = sa.exists().where(
            attempts.c.worker == worker,
            IS_LIVE,
            attempts.c.repository == holds.c.repository,
            attempts.c.intent == holds.c.intent,
            attempts.c.token == holds.c.token,
        )
        self.connection.execute(sa.update(holds).where(is_mine).values(until=until))
        return read_values(self.connection, board.Hold, sa.select(holds).where(is_mine))

    def list_roles(self) -> Mapping[str, board.Role]:
        return load_roles(self.connection)

    def add_roles(self, plan: str, roles: Mapping[str, board.Role]) -> None:
        made = {name: asdict(role) for name, role in roles.items()}
        self.connection.execute(sa.update(plans).where(plans.c.id == plan).values(roles=made))

    def tell(
        self, kind: board.EventKind, body: Mapping[str, Any], task: board.Task | None = None, **place: Any
    ) -> None:
        of_task = {"repository": task.repository, "plan": task.plan, "intent": task.intent} if task is not None else {}
        self.told.append({**NO_PLACE, **of_task, **place, "kind": str(kind), "body": dict(body)})

    def write_events(self) -> None:
        if self.told:
            self.connection.execute(insert_event(self.store.dialect), self.told)
            self.told = []

    def number_event(self, kind: board.EventKind, body: Mapping[str, Any], **place: Any) -> int:
        self.write_events()
        row = {**NO_PLACE, **place, "kind": str(kind), "body": dict(body)}
        made = self.connection.execute(insert_event(self.store.dialect).returning(events.c.seq), row)
        return int(made.scalar_one())


NO_PLACE: Mapping[str, Any] = {"repository": "", "plan": "", "intent": "", "attempt": None}


@cache
def insert_event(dialect: Dialect) -> sa.Insert:
    return sa.insert(events).values(at=CLOCKS[dialect])


def prove_scopes(a: tuple[str, ...], b: tuple[str, ...]) -> board.Proof:
    answer = decide_apart(Scope(a), Scope(b))
    if isinstance(answer, Apart):
        return board.Proof(board.ProofAnswer.APART)
    return (
        board.Proof(board.ProofAnswer.SHARED, answer.path)
        if isinstance(answer, Shared)
        else board.Proof(board.ProofAnswer.UNPROVED)
    )


def is_key(table: sa.Table, key: board.TaskKey) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return table.c.repository == key[0], table.c.intent == key[1]


# -- statements of a claim

TAKE_TOKEN = (
    sa.update(repositories)
    .where(repositories.c.id == sa.bindparam("repository"))
    .values(token_last=repositories.c.token_last + 1)
    .returning(repositories.c.token_last)
)


def take_token(connection: sa.Connection, repository: str) -> int:
    return int(connection.execute(TAKE_TOKEN, {"repository": repository}).scalar_one())


FIND_CANDIDATE = (
    sa.select(
        tasks,
        *(column.label(f"worker_{column.name}") for column in workers.c),
        sa.exists()
        .where(attempts.c.repository == tasks.c.repository, attempts.c.intent == tasks.c.intent, IS_LIVE)
        .label("is_live"),
    )
    .select_from(tasks.join(workers, workers.c.id == sa.bindparam("worker")))
    .where(
        tasks.c.repository == sa.bindparam("repository"),
        tasks.c.intent == sa.bindparam("intent"),
        tasks.c.state.in_([str(board.TaskState.WAITING), str(board.TaskState.HELD)]),
    )
    .with_for_update(of=workers)
)
OWN_SCOPE: sa.BindParameter[str] = sa.bindparam("own_sha256")
IS_UNPROVED = sa.and_(
    holds.c.repository == sa.bindparam("repository"),
    holds.c.intent != sa.bindparam("intent"),
    ~sa.exists().where(
        proofs.c.answer == str(board.ProofAnswer.APART),
        sa.or_(
            sa.and_(proofs.c.a_sha256 == OWN_SCOPE, proofs.c.b_sha256 == holds.c.scope_sha256),
            sa.and_(proofs.c.b_sha256 == OWN_SCOPE, proofs.c.a_sha256 == holds.c.scope_sha256),
        ),
    ),
)


@cache
def find_room(dialect: Dialect) -> sa.Select[Any]:
    used = sa.select(sa.func.count()).where(attempts.c.worker == sa.bindparam("worker"), IS_LIVE)
    one = sa.select(sa.literal(1).label("one")).subquery()
    return sa.select(
        CLOCKS[dialect].label("now"),
        sa.exists().select_from(budgets).label("has_budgets"),
        used.scalar_subquery().label("used"),
        *holds.c,
    ).select_from(one.outerjoin(holds, IS_UNPROVED))


def load_roles(connection: sa.Connection) -> dict[str, board.Role]:
    found: dict[str, board.Role] = {}
    for row in connection.execute(sa.select(plans.c.roles).order_by(plans.c.made_at)).scalars():
        found |= convert(row or {}, prepare_type(dict[str, board.Role]))
    return found
