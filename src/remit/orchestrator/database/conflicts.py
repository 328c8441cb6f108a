"""Conflicts in the fleet database: what is decided about two tasks that met, counted for each pair, and recorded."""

import sqlalchemy as sa
from msgspec import to_builtins
from msgspec.structs import replace

from remit.orchestrator.board import EventKind
from remit.orchestrator.conflict import Evidence, Settlement, decide
from remit.orchestrator.database.store import Store, add_event, conflicts


def settle_evidence(store: Store, connection: sa.Connection, repository: str, evidence: Evidence) -> Settlement:
    """Decide about a conflict with the rounds that its pair has had, record it, and return the decision."""
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
