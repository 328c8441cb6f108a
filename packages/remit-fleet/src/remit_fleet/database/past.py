"""Past of a repository in the fleet database: its ended attempts, its verifications, what each plan has used, and the
conflicts that no lesson tells of.
"""

from statistics import median
from typing import Any

import sqlalchemy as sa

from remit_fleet.board import Attempt, PlanUse
from remit_fleet.conflict import ConflictKind
from remit_fleet.database.rows import ENDED_STATE
from remit_fleet.database.store import Store, attempts, conflicts, landings, read_values, value_of

MAX_PAST_ATTEMPTS, MAX_PAST_LANDINGS = 500, 50
NO_LESSON = (str(ConflictKind.TARGET_MOVED), str(ConflictKind.REFUSED))
"""Kinds of conflict from which the next plan learns nothing: no other task took part."""


def read_past(store: Store, repository: str) -> tuple[tuple[Attempt, ...], float]:
    """Return the newest ended attempts of a repository, and the usual seconds of a verification."""
    rows = landings.c
    verified = sa.select(rows.verify_ms).where(rows.repository == repository, rows.verify_ms.is_not(None))
    ended = sa.select(attempts).where(attempts.c.repository == repository, attempts.c.state == ENDED_STATE)
    with store.read() as connection:
        spent = connection.execute(verified.order_by(rows.id.desc()).limit(MAX_PAST_LANDINGS)).scalars().all()
        newest = ended.order_by(attempts.c.ended_at.desc()).limit(MAX_PAST_ATTEMPTS)
        return read_values(connection, Attempt, newest), median(spent) / 1000 if spent else 0.0


def sum_use(store: Store, repository: str) -> dict[str, PlanUse]:
    """Return what each plan of a repository has used; a plan without an attempt is left out."""
    rows = attempts.c
    is_unknown = sa.and_(rows.usd.is_(None), rows.state == ENDED_STATE)
    columns: tuple[sa.ColumnElement[Any], ...] = (
        sa.func.count().label("attempts"),
        sa.func.coalesce(sa.func.sum(rows.usd), 0.0).label("usd"),
        sa.func.sum(rows.tokens_in + rows.tokens_out).label("tokens"),
        sa.func.sum(sa.case((is_unknown, 1), else_=0)).label("without_cost"),
        sa.func.max(rows.last_event_at).label("last_event_at"),
    )
    query = sa.select(rows.plan, *columns).where(rows.repository == repository).group_by(rows.plan)
    with store.read() as connection:
        return {row["plan"]: value_of(row, PlanUse) for row in connection.execute(query).mappings()}


def list_without_lesson(connection: sa.Connection, repository: str) -> list[sa.RowMapping]:
    """Return the conflicts between two tasks without a written lesson."""
    rows = conflicts.c
    is_open = sa.and_(rows.repository == repository, rows.lesson_id == "", rows.kind.not_in(NO_LESSON))
    return list(connection.execute(sa.select(conflicts).where(is_open).order_by(rows.id).limit(20)).mappings())


def mark_lesson(connection: sa.Connection, conflict: int, lesson: str) -> None:
    connection.execute(sa.update(conflicts).where(conflicts.c.id == conflict).values(lesson_id=lesson))
