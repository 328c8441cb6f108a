"""Notes of attempts, as their agents read them."""

import sqlalchemy as sa

from remit.gate.state.attempt_messages import REVIEW_KINDS, FleetNote
from remit_fleet.board import Task, TaskKey
from remit_fleet.database.store import notes

MAX_NOTES_SHOWN = 40


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
