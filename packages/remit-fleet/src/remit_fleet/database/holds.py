"""Holds: claim, renew and release write sets under tokens that only rise, and elect one leader.

Every function works in the transaction of its caller. A claim writes the hold, the token, the attempt and its place in
the queue together, after the proof that no live hold shares a path.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from remit.core.scope.apart import Apart, Shared, decide_apart
from remit.core.scope.path_patterns import Scope
from remit_fleet.attempts import open_attempt
from remit_fleet.board import (
    Attempt,
    Claim,
    EventKind,
    Hold,
    Proof,
    ProofAnswer,
    SpendingBudget,
    Task,
    TaskState,
    pair_scopes,
)
from remit_fleet.budget import read_reservation, reserve, select_budgets
from remit_fleet.database.rows import ENDED_STATE, is_key, store_budgets
from remit_fleet.database.store import (
    CLOCKS,
    Dialect,
    Store,
    attempts,
    budgets,
    events,
    holds,
    leader,
    proofs,
    read_values,
    repositories,
    row_of,
    tasks,
    value_of,
    workers,
)
from remit_fleet.schedule import describe_overlap


class ClaimRefused(RuntimeError):
    """Error for a claim that the current board no longer allows. The database is unchanged."""


def prove_scopes(a: tuple[str, ...], b: tuple[str, ...]) -> Proof:
    """Return whether two write sets are apart, by `core.scope.apart`."""
    answer = decide_apart(Scope(a), Scope(b))
    if isinstance(answer, Apart):
        return Proof(ProofAnswer.APART)
    return Proof(ProofAnswer.SHARED, answer.path) if isinstance(answer, Shared) else Proof(ProofAnswer.UNPROVED)


def claim_task(store: Store, connection: sa.Connection, claim: Claim, lease_s: float) -> Attempt:
    """Claim the task's write set for a new attempt, and return the attempt. Raises ClaimRefused.

    A claim blocks further claims in its repository; its statements are therefore few and built once.
    """
    token = take_token(connection, claim.repository)  # takes the row: claims of one repository are serial
    task = require_candidate(connection, claim)
    now, has_budgets = require_room(store, connection, claim, task)
    held, hold, attempt = open_attempt(task, claim, token, now)
    if task.state is TaskState.HELD:
        connection.execute(sa.delete(holds).where(*is_key(holds, claim.key)))
    connection.execute(INSERT_HOLD, row_of(replace(hold, until=now + lease_s), holds))
    connection.execute(INSERT_ATTEMPT, row_of(attempt, attempts) | {"plan": task.plan, "claimed_at": now})
    changed = {"of_plan": task.plan, "of_intent": task.intent, "state": str(held.state), "attempts": held.attempts}
    connection.execute(HOLD_TASK, changed)
    if has_budgets:
        known = read_values(connection, SpendingBudget, sa.select(budgets))
        store_budgets(connection, reserve(select_budgets(known, task, claim.agent), read_reservation(claim)))
    place = {"repository": claim.repository, "plan": task.plan, "intent": claim.intent, "at": now}
    body = {"state": "claimed", "token": token, "worker": claim.worker, "agent": claim.agent}
    told = [{**place, "attempt": attempt.attempt, "kind": str(EventKind.ATTEMPT), "body": body}]
    if held.state is not task.state:
        body = {"state": str(held.state), "why": ""}
        told = [{**place, "attempt": None, "kind": str(EventKind.TASK), "body": body}, *told]
    connection.execute(INSERT_EVENT, told)
    return attempt


INSERT_HOLD, INSERT_ATTEMPT, INSERT_EVENT = sa.insert(holds), sa.insert(attempts), sa.insert(events)
HOLD_TASK = (
    sa.update(tasks)
    .where(tasks.c.plan == sa.bindparam("of_plan"), tasks.c.intent == sa.bindparam("of_intent"))
    .values(why="", returns_to=None)
)
TAKE_TOKEN = (
    sa.update(repositories)
    .where(repositories.c.id == sa.bindparam("repository"))
    .values(token_last=repositories.c.token_last + 1)
    .returning(repositories.c.token_last)
)
FIND_CANDIDATE = (
    sa.select(
        tasks,
        workers.c.slots,
        workers.c.draining,
        sa.exists()
        .where(
            attempts.c.repository == tasks.c.repository,
            attempts.c.intent == tasks.c.intent,
            attempts.c.state != ENDED_STATE,
        )
        .label("is_live"),
    )
    .select_from(tasks.join(workers, workers.c.id == sa.bindparam("worker")))
    .where(
        tasks.c.repository == sa.bindparam("repository"),
        tasks.c.intent == sa.bindparam("intent"),
        tasks.c.state.in_([str(TaskState.WAITING), str(TaskState.HELD)]),
    )
    .with_for_update(of=workers)
)


def require_candidate(connection: sa.Connection, claim: Claim) -> Task:
    """Return the task, and lock the worker's row. Raises ClaimRefused if the task or the worker is not ready for a
    claim.
    """
    which = {"worker": claim.worker, "repository": claim.repository, "intent": claim.intent}
    row = connection.execute(FIND_CANDIDATE, which).mappings().first()
    if row is None or row["is_live"]:
        raise ClaimRefused(f"{claim.intent} is not waiting any more, or {claim.worker} is gone")
    if row["draining"] or not row["slots"]:
        raise ClaimRefused(f"worker {claim.worker} takes nothing more")
    return value_of(row, Task)


@cache
def find_room(dialect: Dialect) -> sa.Select[Any]:
    """Return the query of the database's time, the slots in use, and the holds not proved apart."""
    own: sa.BindParameter[str] = sa.bindparam("own_sha256")
    apart = sa.exists().where(
        proofs.c.answer == str(ProofAnswer.APART),
        sa.or_(
            sa.and_(proofs.c.a_sha256 == own, proofs.c.b_sha256 == holds.c.scope_sha256),
            sa.and_(proofs.c.b_sha256 == own, proofs.c.a_sha256 == holds.c.scope_sha256),
        ),
    )
    others = sa.and_(holds.c.repository == sa.bindparam("repository"), holds.c.intent != sa.bindparam("intent"), ~apart)
    used = sa.select(sa.func.count()).where(
        attempts.c.worker == sa.bindparam("worker"), attempts.c.state != ENDED_STATE
    )
    slots = sa.select(workers.c.slots).where(workers.c.id == sa.bindparam("worker"))
    one = sa.select(sa.literal(1).label("one")).subquery()
    return sa.select(
        CLOCKS[dialect].label("now"),
        sa.exists().select_from(budgets).label("has_budgets"),
        (used.scalar_subquery() >= slots.scalar_subquery()).label("is_full"),
        *holds.c,
    ).select_from(one.outerjoin(holds, others))


def require_room(store: Store, connection: sa.Connection, claim: Claim, task: Task) -> tuple[float, bool]:
    """Return the time, and whether budgets exist. Raises ClaimRefused without a free slot, or if a path is held."""
    which = {"own_sha256": task.scope_sha256, "worker": claim.worker}
    which |= {"repository": claim.repository, "intent": claim.intent}
    rows = connection.execute(find_room(store.dialect), which).mappings().all()
    if rows[0]["is_full"]:
        raise ClaimRefused(f"worker {claim.worker} has no free slot")
    for row in (row for row in rows if row["intent"] is not None):
        other = value_of(row, Hold)
        proof = prove_pair(connection, task, other)
        if proof.answer is not ProofAnswer.APART:
            raise ClaimRefused(f"{other.intent} holds its write set, and {describe_overlap(proof)}")
    return float(rows[0]["now"]), bool(rows[0]["has_budgets"])


def take_token(connection: sa.Connection, repository: str) -> int:
    return int(connection.execute(TAKE_TOKEN, {"repository": repository}).scalar_one())


def prove_pair(connection: sa.Connection, task: Task, other: Task | Hold) -> Proof:
    """Return whether two write sets are apart, from the cache of proofs if they were asked before."""
    a, b = pair_scopes(task.scope_sha256, other.scope_sha256)
    is_pair = sa.and_(proofs.c.a_sha256 == a, proofs.c.b_sha256 == b)
    known = read_values(connection, Proof, sa.select(proofs).where(is_pair))
    if known:
        return known[0]
    proof = prove_scopes(task.scope, other.scope)
    connection.execute(sa.insert(proofs).values(a_sha256=a, b_sha256=b, **row_of(proof, proofs)))
    return proof


def renew_holds(store: Store, connection: sa.Connection, worker: str, lease_s: float) -> tuple[Hold, ...]:
    """Renew the leases of a worker's live attempts at once, and return the worker's remaining holds."""
    is_mine = sa.exists().where(
        attempts.c.worker == worker,
        attempts.c.state != ENDED_STATE,
        attempts.c.repository == holds.c.repository,
        attempts.c.intent == holds.c.intent,
        attempts.c.token == holds.c.token,
    )
    connection.execute(sa.update(holds).where(is_mine).values(until=store.clock + lease_s))
    return read_values(connection, Hold, sa.select(holds).where(is_mine))


def become_leader(store: Store, connection: sa.Connection, name: str, holder: str, for_s: float) -> bool:
    """Take or renew the leadership of this name. Return False while a different holder's leadership has not expired."""
    now = store.now(connection)
    taken = (
        sa.update(leader)
        .where(leader.c.name == name, sa.or_(leader.c.holder == holder, leader.c.until < now))
        .values(holder=holder, until=now + for_s)
    )
    if connection.execute(taken).rowcount:
        return True
    if connection.execute(sa.select(leader.c.name).where(leader.c.name == name)).first():
        return False
    connection.execute(sa.insert(leader).values(name=name, holder=holder, until=now + for_s))
    return True


def list_attempts_of(connection: sa.Connection, dead: Iterable[str]) -> tuple[Attempt, ...]:
    """Return the live attempts of workers."""
    theirs = sa.and_(attempts.c.state != ENDED_STATE, attempts.c.worker.in_(list(dead)))
    return read_values(connection, Attempt, sa.select(attempts).where(theirs))
