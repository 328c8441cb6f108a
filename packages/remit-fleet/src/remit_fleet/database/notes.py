"""Notes of attempts: each message is stored once, by the attempt's token and message number, with a feed event."""

from collections.abc import Sequence

import sqlalchemy as sa

from remit.gate.state.attempt_messages import REVIEW_KINDS, AttemptMessage, FleetNote
from remit_fleet.board import EventKind, Task, TaskKey
from remit_fleet.database.store import Store, add_event, notes

MAX_NOTES_SHOWN = 40
MAX_EVENT_CHARS = 200


def store_messages(
    store: Store, connection: sa.Connection, task: Task, attempt: int, token: int, sent: Sequence[AttemptMessage]
) -> None:
    """Store new messages of an attempt and skip stored messages. Progress is only an event."""
    where = {"repository": task.repository, "plan": task.plan, "intent": task.intent}
    for message in sent:
        if message.kind == "progress":
            add_event(store, connection, EventKind.PROGRESS, {"text": message.text}, **where, attempt=attempt)
            continue
        source = f"{token}:{message.number}"
        if connection.execute(sa.select(notes.c.id).where(notes.c.source == source)).first():
            continue
        write_note(store, connection, task, message, attempt, source)


def write_note(
    store: Store, connection: sa.Connection, task: Task, message: AttemptMessage, attempt: int | None, source: str
) -> int:
    """Write a note, append its event, and return its number."""
    row = {"repository": task.repository, "plan": task.plan, "kind": message.kind, "text": message.text}
    made = sa.insert(notes).values(
        **row,
        from_intent=task.intent if attempt else "",
        to_intent=message.to,
        paths=list(message.paths),
        attempt=attempt,
        source=source,
        at=store.clock,
    )
    id = int(connection.execute(made.returning(notes.c.id)).scalar_one())
    told = {"note": id, "kind": message.kind, "to": message.to, "text": message.text[:MAX_EVENT_CHARS]}
    add_event(
        store,
        connection,
        EventKind.NOTE,
        told,
        repository=task.repository,
        plan=task.plan,
        intent=task.intent,
        attempt=attempt,
    )
    return id


def list_notes(connection: sa.Connection, task: Task, attempt: int) -> tuple[FleetNote, ...]:
    """Return the newest notes for a task, oldest first, without the attempt's own notes."""
    rows = notes.c
    is_for_all = sa.and_(rows.to_intent == "", rows.plan == task.plan, rows.from_intent != task.intent)
    is_own = sa.and_(rows.from_intent == task.intent, rows.attempt == attempt)
    query = sa.select(notes).where(
        rows.repository == task.repository, sa.or_(rows.to_intent == task.intent, is_for_all), sa.not_(is_own)
    )
    found = connection.execute(query.order_by(rows.id.desc()).limit(MAX_NOTES_SHOWN)).mappings().all()
    return tuple(read_note(row) for row in reversed(found))


def read_note(row: sa.RowMapping) -> FleetNote:
    paths = tuple(row["paths"] or ())
    return FleetNote(row["id"], row["kind"], row["from_intent"], row["text"], row["to_intent"], row["attempt"], paths)


def count_notes(connection: sa.Connection, key: TaskKey) -> int:
    written = sa.select(sa.func.count()).where(notes.c.repository == key[0], notes.c.from_intent == key[1])
    return int(connection.execute(written).scalar_one())


def find_verdict(connection: sa.Connection, key: TaskKey, attempt: int) -> FleetNote | None:
    """Return the last verdict of an attempt on earlier stages."""
    rows = notes.c
    query = sa.select(notes).where(
        rows.repository == key[0], rows.from_intent == key[1], rows.attempt == attempt, rows.kind.in_(REVIEW_KINDS)
    )
    row = connection.execute(query.order_by(rows.id.desc())).mappings().first()
    return read_note(row) if row is not None else None
