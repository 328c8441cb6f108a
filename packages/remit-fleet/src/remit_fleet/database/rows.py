"""Rows of the board: read as values, and written back within the transaction of the caller."""

from collections.abc import Sequence

import sqlalchemy as sa
from msgspec import convert

from remit.core.python_runtime import prepare_type
from remit_fleet.attempts import close_attempt
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Breaker,
    BreakerKind,
    EventKind,
    FleetRepository,
    Hold,
    OpenPlan,
    Proof,
    ProofAnswer,
    Role,
    SpendingBudget,
    Task,
    TaskKey,
    Worker,
)
from remit_fleet.breaker import record_answers, record_failure, record_success
from remit_fleet.budget import charge_attempt, read_reservation, select_budgets, settle
from remit_fleet.database.store import (
    Store,
    add_event,
    attempts,
    breakers,
    budgets,
    holds,
    orders,
    plans,
    proofs,
    read_values,
    repositories,
    row_of,
    tasks,
    workers,
)
from remit_fleet.states import FINAL_STATES, needs_hold

ENDED_STATE = str(AttemptState.ENDED)
RETRYING = ("retry", "reassign")
"""Orders after which the failures of earlier attempts count no more."""


def load_board(store: Store, connection: sa.Connection, dead_after_s: float) -> Board:
    """Return the board. Only workers with a recent heartbeat are included."""
    alive = workers.c.beat_at >= store.clock - dead_after_s
    live = read_values(connection, Attempt, sa.select(attempts).where(attempts.c.state != ENDED_STATE))
    proved = connection.execute(sa.select(proofs)).mappings().all()
    return Board(
        now=store.now(connection),
        repositories={r.id: r for r in read_values(connection, FleetRepository, sa.select(repositories))},
        plans={p.id: p for p in read_values(connection, OpenPlan, sa.select(plans).order_by(plans.c.made_at))},
        # Of several tasks of one intent the newest counts; the others are final.
        tasks={
            t.key: t for t in read_values(connection, Task, sa.select(tasks).order_by(tasks.c.plan, tasks.c.intent))
        },
        holds={hold.key: hold for hold in read_values(connection, Hold, sa.select(holds))},
        attempts={attempt.key: attempt for attempt in live},
        workers={worker.id: worker for worker in read_values(connection, Worker, sa.select(workers).where(alive))},
        roles=load_roles(connection),
        budgets={(b.scope, b.key): b for b in read_values(connection, SpendingBudget, sa.select(budgets))},
        breakers={(b.kind, b.key): b for b in read_values(connection, Breaker, sa.select(breakers))},
        proofs={(r["a_sha256"], r["b_sha256"]): Proof(ProofAnswer(r["answer"]), r["witness"]) for r in proved},
    )


def load_roles(connection: sa.Connection) -> dict[str, Role]:
    found: dict[str, Role] = {}
    for row in connection.execute(sa.select(plans.c.roles).order_by(plans.c.made_at)).scalars():
        found |= convert(row or {}, prepare_type(dict[str, Role]))
    return found


def lock_repository(connection: sa.Connection, repository: str) -> FleetRepository:
    """Lock and return the repository, because changes of its tasks are serial. Raises ValueError."""
    query = sa.select(repositories).where(repositories.c.id == repository).with_for_update()
    found = read_values(connection, FleetRepository, query)
    if not found:
        raise ValueError(f"the fleet knows no repository {repository!r}")
    return found[0]


def find_task(connection: sa.Connection, key: TaskKey) -> Task | None:
    """Return the unfinished task of this key, or the newest final task."""
    query = sa.select(tasks).where(tasks.c.repository == key[0], tasks.c.intent == key[1])
    found = read_values(connection, Task, query.order_by(tasks.c.plan.desc()))
    return next((task for task in found if task.state not in FINAL_STATES), found[0] if found else None)


def list_tasks(connection: sa.Connection, *which: sa.ColumnElement[bool]) -> tuple[Task, ...]:
    return read_values(connection, Task, sa.select(tasks).where(*which).order_by(tasks.c.plan, tasks.c.intent))


def store_task(store: Store, connection: sa.Connection, before: Task, after: Task) -> None:
    """Store a task, release its hold if the state needs none, and append an event for a new state."""
    this = sa.and_(tasks.c.plan == after.plan, tasks.c.intent == after.intent)
    connection.execute(sa.update(tasks).where(this).values(**row_of(after, tasks)))
    if not needs_hold(after):
        connection.execute(sa.delete(holds).where(*is_key(holds, after.key)))
    if after.state is not before.state:
        tell_task(store, connection, after)


def tell_task(store: Store, connection: sa.Connection, task: Task) -> None:
    add_event(
        *(store, connection, EventKind.TASK, {"state": str(task.state), "why": task.why}),
        repository=task.repository,
        plan=task.plan,
        intent=task.intent,
    )


def is_key(table: sa.Table, key: TaskKey) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return table.c.repository == key[0], table.c.intent == key[1]


def find_hold(connection: sa.Connection, key: TaskKey) -> Hold | None:
    return next(iter(read_values(connection, Hold, sa.select(holds).where(*is_key(holds, key)))), None)


def find_live(connection: sa.Connection, key: TaskKey, token: int | None = None) -> Attempt | None:
    """Return the live attempt of the task. With a token, return only the attempt whose hold has the same token."""
    query = sa.select(attempts).where(*is_key(attempts, key), attempts.c.state != ENDED_STATE)
    found = next(iter(read_values(connection, Attempt, query)), None)
    if token is None or found is None:
        return found
    hold = find_hold(connection, key)
    return found if found.token == token and hold is not None and hold.token == token else None


def list_ended(connection: sa.Connection, task: Task) -> tuple[Attempt, ...]:
    """Return the task's ended attempts in order, since a person last retried the task."""
    retried = sa.select(sa.func.max(orders.c.at)).where(*is_key(orders, task.key), orders.c.kind.in_(RETRYING))
    since = connection.execute(retried).scalar() or 0.0
    theirs = (*is_key(attempts, task.key), attempts.c.plan == task.plan, attempts.c.ended_at > since)
    query = sa.select(attempts).where(*theirs)
    found = read_values(connection, Attempt, query.order_by(attempts.c.attempt))
    return tuple(attempt for attempt in found if attempt.state is AttemptState.ENDED)


def set_attempt(connection: sa.Connection, attempt: Attempt, /, **columns: object) -> None:
    this = (*is_key(attempts, attempt.key), attempts.c.attempt == attempt.attempt)
    connection.execute(sa.update(attempts).where(*this).values(**columns))


def end_live(
    store: Store, connection: sa.Connection, attempt: Attempt, ended_as: AttemptEnd, failure: str, why: str
) -> Attempt:
    """Store an attempt's end: free its slot, settle its budgets, and stop the renewal of its hold."""
    now = store.now(connection)
    ended = close_attempt(attempt, ended_as, now, failure)
    set_attempt(connection, attempt, **row_of(ended, attempts))
    connection.execute(sa.update(holds).where(*is_key(holds, attempt.key)).values(until=None))
    task = find_task(connection, attempt.key)
    if task is not None:
        known = read_values(connection, SpendingBudget, sa.select(budgets))
        spent = charge_attempt(attempt, now)
        budgets_of = select_budgets(known, task, attempt.agent)
        store_budgets(connection, settle(budgets_of, read_reservation(attempt), spent))
    add_event(
        *(
            store,
            connection,
            EventKind.ATTEMPT,
            {"state": ENDED_STATE, "ended_as": str(ended_as), "why": why or failure},
        ),
        repository=attempt.repository,
        intent=attempt.intent,
        attempt=attempt.attempt,
    )
    return ended


def store_budgets(connection: sa.Connection, changed: Sequence[SpendingBudget]) -> None:
    for budget in changed:
        this = sa.and_(budgets.c.scope == budget.scope, budgets.c.key == budget.key)
        connection.execute(sa.update(budgets).where(this).values(**row_of(budget, budgets)))


def note_breaker(
    store: Store, connection: sa.Connection, kind: BreakerKind, key: str, failure: str | None
) -> Breaker | None:
    """Count a failure of a subject, or a success if `failure` is None."""
    this = sa.and_(breakers.c.kind == str(kind), breakers.c.key == key)
    known = next(iter(read_values(connection, Breaker, sa.select(breakers).where(this))), None)
    if failure is None and known is None:
        return None
    now = store.now(connection)
    after = (
        record_success(known or Breaker(kind, key), now)
        if failure is None
        else record_failure(known or Breaker(kind, key), now, failure)
    )
    write = sa.update(breakers).where(this) if known else sa.insert(breakers)
    connection.execute(write.values(**row_of(after, breakers)))
    return after


def note_answers(store: Store, connection: sa.Connection, provider: str, good: int, bad: int, why: str) -> None:
    """Count answers of a model's provider."""
    this = sa.and_(breakers.c.kind == str(BreakerKind.PROVIDER), breakers.c.key == provider)
    known = next(iter(read_values(connection, Breaker, sa.select(breakers).where(this))), None)
    before = known or Breaker(BreakerKind.PROVIDER, provider)
    after = record_answers(before, store.now(connection), good, bad, why)
    write = sa.update(breakers).where(this) if known else sa.insert(breakers)
    connection.execute(write.values(**row_of(after, breakers)))
    if after.trips > before.trips:
        add_event(store, connection, EventKind.BREAKER, {"provider": provider, "why": why, "trips": after.trips})
