"""Conflicts in the fleet database: settlements between two tasks, counted for each pair and recorded."""

import sqlalchemy as sa
from msgspec import to_builtins
from msgspec.structs import replace

from remit.gate.state.attempt_messages import AttemptMessage
from remit_fleet.attempts import release_task, settle_growth
from remit_fleet.board import AttemptEnd, EventKind, Task, TaskKey, TaskState
from remit_fleet.conflict import ConflictKind, Evidence, Settlement, SettlementKind, decide
from remit_fleet.database.notes import write_note
from remit_fleet.database.rows import (
    end_live,
    find_hold,
    find_live,
    find_task,
    list_tasks,
    set_attempt,
    store_task,
)
from remit_fleet.database.store import Store, add_event, conflicts, tasks
from remit_fleet.states import FINAL_STATES, needs_hold

NO_LESSON = (str(ConflictKind.TARGET_MOVED), str(ConflictKind.REFUSED))
"""Kinds of conflict from which the next plan learns nothing: no other task took part."""


def settle_evidence(store: Store, connection: sa.Connection, repository: str, evidence: Evidence) -> Settlement:
    """Settle a conflict, counting earlier rounds of the pair; record and return the settlement."""
    a, b = evidence.earlier.intent, evidence.later.intent
    rows = conflicts.c
    pair = sa.and_(rows.repository == repository, rows.a == a, rows.b == b)
    rounds = connection.execute(sa.select(sa.func.count()).where(pair)).scalar_one()
    evidence = replace(evidence, rounds=rounds)
    settlement = decide(evidence)
    row = {"repository": repository, "kind": str(evidence.kind), "a": a, "b": b, "rounds": rounds + 1}
    paths = list(evidence.paths)
    settled = {"settled_as": str(settlement.kind), "at": store.clock}
    made = sa.insert(conflicts).values(**row, paths=paths, evidence=to_builtins(evidence), **settled)
    connection.execute(made)
    told = {"kind": str(evidence.kind), "settled_as": str(settlement.kind), "with": a, "paths": paths}
    told["why"] = settlement.why
    add_event(store, connection, EventKind.CONFLICT, told, repository=repository, intent=b)
    return settlement


def meet_owner(store: Store, connection: sa.Connection, key: TaskKey, evidence: Evidence) -> Settlement | None:
    """Settle and carry out a task's wish for paths held by an owner. Return None if the tasks no longer meet."""
    task, owner = find_task(connection, key), find_task(connection, (key[0], evidence.earlier.intent))
    if task is None or owner is None or task.state is not TaskState.RUNNING:
        return None
    if find_hold(connection, owner.key) is None:
        return None
    waits = find_wait(connection, owner)
    earlier = replace(evidence.earlier, waits_for_other=waits is not None and waits[0] == key[1])
    settlement = settle_evidence(store, connection, key[0], replace(evidence, earlier=earlier))
    shown = ", ".join(evidence.paths[:5])
    for after in settle_growth(settlement, owner, task, evidence.paths):
        change_task(store, connection, after)
        other = owner if after.intent == task.intent else task
        say = f"{shown}: {task.intent} needs what {owner.intent} owns. {settlement.kind}: {settlement.why}."
        text = f"{say} {other.intent} is reached by post_note, and takes changes by submit_patch."
        source = f"conflict:{find_newest(connection, key[0])}:{after.intent}"
        message = AttemptMessage("conflict", text, after.intent, evidence.paths[:20])
        write_note(store, connection, after, message, None, source)
    return settlement


def change_task(store: Store, connection: sa.Connection, after: Task) -> None:
    """Store a task. End its attempt if the task gives its paths back; otherwise count a pause as activity, not as
    silence.
    """
    before, attempt = find_task(connection, after.key), find_live(connection, after.key)
    if before is not None:
        store_task(store, connection, before, after)
    if attempt is not None and not needs_hold(after):
        end_live(store, connection, attempt, AttemptEnd.CANCELLED, "", after.why)
    elif attempt is not None:
        set_attempt(connection, attempt, last_event_at=store.clock)


def find_newest(connection: sa.Connection, repository: str) -> int:
    newest = sa.select(sa.func.max(conflicts.c.id)).where(conflicts.c.repository == repository)
    return int(connection.execute(newest).scalar() or 0)


def find_wait(connection: sa.Connection, task: Task) -> tuple[str, str] | None:
    """Return the owner and the path for which a paused task was last told to wait."""
    if task.state is not TaskState.PAUSED:
        return None
    rows = conflicts.c
    query = sa.select(rows.a, rows.paths).where(
        rows.repository == task.repository,
        rows.b == task.intent,
        rows.kind == str(ConflictKind.GROW),
        rows.settled_as == str(SettlementKind.WAIT),
    )
    found = connection.execute(query.order_by(rows.id.desc())).first()
    return (found[0], (found[1] or [""])[0]) if found is not None else None


def release_waiting(store: Store, connection: sa.Connection, repository: str) -> None:
    """Resume paused tasks whose awaited path owner has ended."""
    paused = sa.and_(tasks.c.repository == repository, tasks.c.state == str(TaskState.PAUSED))
    for task in list_tasks(connection, paused):
        wait = find_wait(connection, task)
        owner = find_task(connection, (repository, wait[0])) if wait is not None else None
        if wait is not None and (owner is None or owner.state in FINAL_STATES):
            for after in release_task(task, *wait):
                change_task(store, connection, after)
                text = f"{wait[0]} is over, and {wait[1]} belongs to nobody now: ask for it, or go on without."
                source = f"released:{find_newest(connection, repository)}:{task.intent}"
                write_note(store, connection, after, AttemptMessage("conflict", text, task.intent), None, source)


def list_without_lesson(connection: sa.Connection, repository: str) -> list[sa.RowMapping]:
    """Return the conflicts between two tasks without a written lesson."""
    rows = conflicts.c
    is_open = sa.and_(rows.repository == repository, rows.lesson_id == "", rows.kind.not_in(NO_LESSON))
    return list(connection.execute(sa.select(conflicts).where(is_open).order_by(rows.id).limit(20)).mappings())


def mark_lesson(connection: sa.Connection, conflict: int, lesson: str) -> None:
    connection.execute(sa.update(conflicts).where(conflicts.c.id == conflict).values(lesson_id=lesson))
