"""Past of a repository in the fleet database: its ended attempts, its verifications, and what each plan has used."""

from statistics import median
from typing import Any

import sqlalchemy as sa

from remit_fleet.board import Attempt, PlanUse
from remit_fleet.database.rows import ENDED_STATE
from remit_fleet.database.store import Store, attempts, landings, read_values, value_of

MAX_PAST_ATTEMPTS, MAX_PAST_LANDINGS = 500, 50


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
