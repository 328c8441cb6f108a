"""Orders of people: their effects on tasks, plans and running attempts, and their delivery to workers.

Every function works in the transaction of its caller.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from msgspec.structs import replace

from remit_fleet.board import (
    AttemptEnd,
    BreakerKind,
    EventKind,
    OpenPlan,
    Order,
    OrderKind,
    Task,
    TaskKey,
    TaskState,
)
from remit_fleet.database.rows import (
    ENDED_STATE,
    end_live,
    find_live,
    is_key,
    list_tasks,
    set_attempt,
    store_task,
)
from remit_fleet.database.store import (
    Store,
    add_event,
    attempts,
    breakers,
    budgets,
    orders,
    plans,
    read_values,
    row_of,
    tasks,
)
from remit_fleet.states import apply_order, needs_hold


def give_order(store: Store, connection: sa.Connection, order: Order) -> int:
    """Store an order, carry out its effects, and return its id. The caller has locked the repository's row."""
    row = row_of(order, orders) | {"at": store.clock}
    del row["id"]
    id = int(connection.execute(sa.insert(orders).values(**row).returning(orders.c.id)).scalar_one())
    told = {"kind": str(order.kind), "by": order.by}
    add_event(store, connection, EventKind.ORDER, told, repository=order.repository, intent=order.intent)
    if not order.intent and order.kind in (OrderKind.PAUSE, OrderKind.RESUME):
        pause_plans(connection, order.repository, is_paused=order.kind is OrderKind.PAUSE)
    chosen = [tasks.c.repository == order.repository]
    chosen += [tasks.c.intent == order.intent] if order.intent else []
    for task in {task.key: task for task in list_tasks(connection, *chosen)}.values():
        order_task(store, connection, task, replace(order, id=id))
    return id


def order_task(store: Store, connection: sa.Connection, task: Task, order: Order) -> None:
    after = apply_order(task, order)
    store_task(store, connection, task, after)
    attempt = find_live(connection, task.key)
    if attempt is not None and order.kind in (OrderKind.RESUME, OrderKind.GIVE_BACK):
        set_attempt(connection, attempt, last_event_at=store.clock)  # a pause is no silence
    if attempt is not None and not needs_hold(after):
        end_live(store, connection, attempt, AttemptEnd.CANCELLED, "", after.why)
    if order.kind is OrderKind.RETRY and after is not task:
        # What was blocked waits again; the next dispatch blocks what still needs something else.
        for blocked in list_tasks(connection, tasks.c.plan == task.plan):
            if blocked.state is TaskState.BLOCKED:
                store_task(store, connection, blocked, apply_order(blocked, order))


def pause_plans(connection: sa.Connection, repository: str, *, is_paused: bool) -> None:
    """Pause or resume the plans of a repository. Resuming also resets the breaker of its landings."""
    connection.execute(sa.update(plans).where(plans.c.repository == repository).values(is_paused=is_paused))
    if not is_paused:
        this = sa.and_(breakers.c.kind == str(BreakerKind.REPOSITORY), breakers.c.key == repository)
        connection.execute(sa.delete(breakers).where(this))


def set_plan_budget(connection: sa.Connection, plan: OpenPlan, usd: float | None, tokens: int | None) -> None:
    """Set what a plan may spend; None leaves a bound as it is."""
    bounds = {name: bound for name, bound in (("usd", usd), ("tokens", tokens)) if bound is not None}
    limits = replace(plan.limits, **bounds)
    connection.execute(
        sa.update(plans)
        .where(plans.c.id == plan.id)
        .values(limits=row_of(replace(plan, limits=limits), plans)["limits"])
    )
    this = sa.and_(budgets.c.scope == "plan", budgets.c.key == plan.id)
    connection.execute(sa.update(budgets).where(this).values(bounds))


def take_orders(store: Store, connection: sa.Connection, worker: str) -> Sequence[Order]:
    """Return the untaken orders for attempts of this worker, and mark them taken."""
    is_mine = sa.exists().where(
        attempts.c.repository == orders.c.repository,
        attempts.c.worker == worker,
        attempts.c.state != ENDED_STATE,
        sa.or_(orders.c.intent == "", orders.c.intent == attempts.c.intent),
    )
    found = read_values(connection, Order, sa.select(orders).where(orders.c.taken_at.is_(None), is_mine))
    if found:
        taken = sa.update(orders).where(orders.c.id.in_([order.id for order in found]))
        connection.execute(taken.values(taken_at=store.clock))
    return found


def list_unheard(connection: sa.Connection, key: TaskKey) -> tuple[Order, ...]:
    """Return people's messages not yet received by any agent of the task, oldest first."""
    unheard = (*is_key(orders, key), orders.c.kind == str(OrderKind.STEER), orders.c.done_at.is_(None))
    return read_values(connection, Order, sa.select(orders).where(*unheard).order_by(orders.c.id))


def finish_order(store: Store, connection: sa.Connection, order: Order, attempt: int) -> bool:
    """Record that an agent of this attempt received the message; return False if the message was received before."""
    this = sa.and_(orders.c.id == order.id, orders.c.done_at.is_(None))
    if not connection.execute(sa.update(orders).where(this).values(done_at=store.clock, attempt=attempt)).rowcount:
        return False
    add_event(
        *(store, connection, EventKind.ORDER, {"kind": str(order.kind), "state": "heard"}),
        repository=order.repository,
        intent=order.intent,
        attempt=attempt,
    )
    return True
