"""Landings: one current landing per target, the next train of handed-in tasks, and the result of a train.

Every function works in the transaction of its caller, after the caller has locked the repository's row.
"""

from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa
from msgspec.structs import replace

from remit_fleet.attempts import redo_task
from remit_fleet.board import (
    Breaker,
    BreakerKind,
    EventKind,
    FleetRepository,
    Landing,
    LandingState,
    Role,
    Task,
    TaskState,
)
from remit_fleet.breaker import limit_train
from remit_fleet.conflict import Evidence
from remit_fleet.database.conflicts import settle_evidence
from remit_fleet.database.rows import find_task, is_key, list_tasks, load_roles, note_breaker, store_task
from remit_fleet.database.store import (
    Store,
    add_event,
    breakers,
    events,
    holds,
    landers,
    landings,
    plans,
    read_values,
    row_of,
    tasks,
)
from remit_fleet.states import move_task
from remit_fleet.trains import gather_train, order_landing

UNSETTLED_STATES = ("gathered", "verifying")
EnqueueLanding = Callable[[sa.Connection, str, str, str], None]
"""Puts a landing into its queue: id, repository, target."""


def ask_for_landing(
    store: Store, connection: sa.Connection, repository: str, target: str, enqueue: EnqueueLanding
) -> None:
    """Enqueue a landing. A landing under way needs no second: the current landing gathers again at its end."""
    if connection.execute(sa.select(landers.c.workflow).where(is_lander(repository, target))).first():
        return
    made = sa.insert(events).values(
        at=store.clock,
        repository=repository,
        kind=str(EventKind.LANDING),
        body={"state": "asked", "target": target},
    )
    number = connection.execute(made.returning(events.c.seq)).scalar_one()  # which is never used again
    id = f"{repository}:land:{number}"
    connection.execute(sa.insert(landers).values(repository=repository, target=target, workflow=id))
    enqueue(connection, id, repository, target)


def finish_landing(connection: sa.Connection, repository: str, target: str, workflow: str) -> bool:
    """Mark this landing as finished unless tasks are still handed in; return whether the landing is finished."""
    this = sa.and_(is_lander(repository, target), landers.c.workflow == workflow)
    # A landing that is told twice to finish must not end the one after it.
    if list_ready(connection, repository, target) and connection.execute(sa.select(landers).where(this)).first():
        return False
    connection.execute(sa.delete(landers).where(this))
    return True


def give_up_landing(store: Store, connection: sa.Connection, repository: str, workflow: str, why: str) -> None:
    """Mark a landing as broken. The next landing takes up its train; the repository's breaker counts a red train."""
    if connection.execute(sa.delete(landers).where(landers.c.workflow == workflow)).rowcount:
        body = {"state": "broken", "why": why}
        add_event(store, connection, EventKind.LANDING, body, repository=repository)
        note_breaker(store, connection, BreakerKind.REPOSITORY, repository, f"a landing broke: {why}")


def is_lander(repository: str, target: str) -> sa.ColumnElement[bool]:
    return sa.and_(landers.c.repository == repository, landers.c.target == target)


def list_ready(connection: sa.Connection, repository: str, target: str) -> tuple[Task, ...]:
    theirs = sa.and_(
        tasks.c.repository == repository,
        tasks.c.state == str(TaskState.HANDED_IN),
        tasks.c.plan.in_(sa.select(plans.c.id).where(plans.c.target == target)),
    )
    return list_tasks(connection, theirs)


def gather_landing(
    store: Store,
    connection: sa.Connection,
    repository: FleetRepository,
    target: str,
    old: str,
    touched: Mapping[str, Sequence[str]],
) -> Landing | None:
    """Take the next train, or the unfinished train of a dead lander: a target has one lander at a time."""
    here = sa.and_(landings.c.repository == repository.id, landings.c.target == target)
    query = sa.select(landings).where(here, landings.c.state.in_(UNSETTLED_STATES))
    if open_ones := read_values(connection, Landing, query):
        return open_ones[-1]
    ready = list_ready(connection, repository.id, target)
    if not ready:
        return None
    this = sa.and_(breakers.c.kind == str(BreakerKind.REPOSITORY), breakers.c.key == repository.id)
    breaker = next(iter(read_values(connection, Breaker, sa.select(breakers).where(this))), None)
    limit = limit_train(breaker, repository.train) if breaker else repository.train
    train = gather_train(order_landing(ready), touched, limit)
    for task in train:
        store_task(store, connection, task, move_task(task, TaskState.LANDING))
    landing = Landing(0, repository.id, target, tuple(task.intent for task in train), old=old)
    row = row_of(landing, landings) | {"at": store.clock}
    del row["id"]
    made = connection.execute(sa.insert(landings).values(**row).returning(landings.c.id)).scalar_one()
    return replace(landing, id=int(made))


def note_check(store: Store, connection: sa.Connection, landing: Landing, command: str) -> None:
    """Record that a check of a train runs, for its members to say what they wait for."""
    this = sa.and_(landings.c.id == landing.id, landings.c.state == str(LandingState.GATHERED))
    if connection.execute(sa.update(landings).where(this).values(state=str(LandingState.VERIFYING))).rowcount:
        body = {"state": str(LandingState.VERIFYING), "members": list(landing.members), "check": command}
        add_event(store, connection, EventKind.LANDING, body, repository=landing.repository)
    for intent in landing.members:
        task = find_task(connection, (landing.repository, intent))
        if task is not None and task.state is TaskState.LANDING:
            store_task(store, connection, task, replace(task, why=f"`{command}` runs"))


def choose_attempt(
    store: Store, connection: sa.Connection, landing: Landing, intent: str, attempt: int, why: str
) -> None:
    """Store which attempt of a task with rivals lands, and why."""
    key = landing.repository, intent
    task = find_task(connection, key)
    if task is not None and task.state is TaskState.LANDING:
        connection.execute(sa.update(holds).where(*is_key(holds, key)).values(attempt=attempt))
        store_task(store, connection, task, replace(task, finished=()))
        body = {"state": "chosen", "why": why}
        place = {"repository": key[0], "plan": task.plan, "intent": intent}
        add_event(store, connection, EventKind.LANDING, body, **place, attempt=attempt)


def settle_landing(
    store: Store, connection: sa.Connection, landing: Landing, landed: Sequence[str], evidence: Sequence[Evidence]
) -> bool:
    """Store the result of a train; return False if the train was settled before."""
    known = connection.execute(sa.select(landings.c.state).where(landings.c.id == landing.id)).scalar()
    if known not in UNSETTLED_STATES:
        return False
    row = row_of(landing, landings)
    connection.execute(sa.update(landings).where(landings.c.id == landing.id).values(**row))
    body = {"state": str(landing.state), "members": list(landing.members), "new": landing.new}
    body |= {"why": landing.why} if landing.why else {}
    add_event(store, connection, EventKind.LANDING, body, repository=landing.repository)
    for intent in landed:
        settle_member(store, connection, landing, intent)
    for found in evidence:
        settle_conflict(store, connection, landing, found)
    for intent in landing.members:
        task = find_task(connection, (landing.repository, intent))
        if task is not None and task.state is TaskState.LANDING:
            back = move_task(task, TaskState.HANDED_IN, landing.why or "its train did not land")
            store_task(store, connection, task, back)
    if landing.state in (LandingState.RED, LandingState.LANDED):
        why = landing.why if landing.state is LandingState.RED else None
        note_breaker(store, connection, BreakerKind.REPOSITORY, landing.repository, why)
    return True


def settle_member(store: Store, connection: sa.Connection, landing: Landing, intent: str) -> None:
    task = find_task(connection, (landing.repository, intent))
    if task is not None and task.state is TaskState.LANDING:
        after = move_task(task, TaskState.LANDED, f"in {landing.new[:12]}")
        store_task(store, connection, task, replace(after, landed=landing.new))


def settle_conflict(store: Store, connection: sa.Connection, landing: Landing, evidence: Evidence) -> None:
    """Send the task named by the settlement back: to its hold for a further attempt, or to a person."""
    settlement = settle_evidence(store, connection, landing.repository, evidence)
    task = find_task(connection, (landing.repository, settlement.redo))
    if task is None or task.state is not TaskState.LANDING:
        return
    role = load_roles(connection).get(task.role) or Role(task.role)
    store_task(store, connection, task, redo_task(task, role, settlement))
