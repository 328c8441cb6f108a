"""Holds: claim, renew and release write sets under tokens that only rise, and elect one leader.

Every function works in the transaction of its caller. A claim writes the hold, the token, the attempt and its place in
the queue together, after the proof that no live hold shares a path.
"""

from collections.abc import Callable, Iterable

import sqlalchemy as sa
from msgspec.structs import replace

from remit.core.scope.apart import Apart, Shared, decide_apart
from remit.core.scope.path_patterns import Scope
from remit.orchestrator.attempts import open_attempt
from remit.orchestrator.board import (
    Attempt,
    Claim,
    EventKind,
    Hold,
    Proof,
    ProofAnswer,
    SpendingBudget,
    Task,
    TaskState,
    Worker,
    pair_scopes,
)
from remit.orchestrator.budget import Amount, reserve, select_budgets
from remit.orchestrator.database.rows import ENDED_STATE, find_live, find_task, is_key, store_budgets, store_task
from remit.orchestrator.database.store import (
    Store,
    add_event,
    attempts,
    budgets,
    holds,
    leader,
    proofs,
    read_values,
    repositories,
    row_of,
    workers,
)
from remit.orchestrator.schedule import describe_overlap

ProveScopes = Callable[[tuple[str, ...], tuple[str, ...]], Proof]


class ClaimRefused(RuntimeError):
    """A claim that the present board no longer allows: nothing was written."""


def prove_scopes(a: tuple[str, ...], b: tuple[str, ...]) -> Proof:
    """Return whether two write sets are apart, by `core.scope.apart`."""
    answer = decide_apart(Scope(a), Scope(b))
    if isinstance(answer, Apart):
        return Proof(ProofAnswer.APART)
    return Proof(ProofAnswer.SHARED, answer.path) if isinstance(answer, Shared) else Proof(ProofAnswer.UNPROVED)


def claim_task(store: Store, connection: sa.Connection, claim: Claim, lease_s: float) -> Attempt:
    """Take the task's write set for a new attempt, and return it. Raises ClaimRefused."""
    token = take_token(connection, claim.repository)  # takes the row: claims of one repository are serial
    task = find_task(connection, claim.key)
    is_candidate = task is not None and task.state in (TaskState.WAITING, TaskState.HELD)
    if task is None or not is_candidate or find_live(connection, claim.key) is not None:
        raise ClaimRefused(f"{claim.intent} is not waiting any more")
    require_slot(connection, claim.worker)
    theirs = sa.and_(holds.c.repository == claim.repository, holds.c.intent != claim.intent)
    others = read_values(connection, Hold, sa.select(holds).where(theirs))
    apart = list_scopes_apart(connection, task) if others else frozenset[str]()
    for other in others:
        if other.scope_sha256 not in apart:
            proof = prove_pair(connection, task, other)
            if proof.answer is not ProofAnswer.APART:
                raise ClaimRefused(f"{other.intent} holds its write set, and {describe_overlap(proof)}")
    held, hold, attempt = open_attempt(task, claim, token, store.now(connection))
    connection.execute(sa.delete(holds).where(*is_key(holds, claim.key)))
    connection.execute(sa.insert(holds).values(**row_of(replace(hold, until=hold.since + lease_s), holds)))
    row = row_of(attempt, attempts) | {"plan": task.plan, "claimed_at": hold.since}
    connection.execute(sa.insert(attempts).values(**row))
    store_task(store, connection, task, held)
    amount = Amount(claim.reserved_usd, seconds=claim.reserved_seconds)
    known = read_values(connection, SpendingBudget, sa.select(budgets))
    store_budgets(connection, reserve(select_budgets(known, task), amount))
    add_event(
        *(store, connection, EventKind.ATTEMPT),
        {"state": "claimed", "token": token, "worker": claim.worker, "agent": claim.agent},
        repository=claim.repository,
        plan=task.plan,
        intent=claim.intent,
        attempt=attempt.attempt,
    )
    return attempt


def take_token(connection: sa.Connection, repository: str) -> int:
    raised = (
        sa.update(repositories)
        .where(repositories.c.id == repository)
        .values(token_last=repositories.c.token_last + 1)
        .returning(repositories.c.token_last)
    )
    return int(connection.execute(raised).scalar_one())


def require_slot(connection: sa.Connection, worker: str) -> None:
    """Raise ClaimRefused unless the worker is there, takes work, and has a slot that no attempt uses."""
    query = sa.select(workers).where(workers.c.id == worker).with_for_update()
    found = next(iter(read_values(connection, Worker, query)), None)
    used = sa.select(sa.func.count()).where(attempts.c.worker == worker, attempts.c.state != ENDED_STATE)
    if found is None or found.draining or connection.execute(used).scalar_one() >= found.slots:
        raise ClaimRefused(f"worker {worker} has no free slot")


def list_scopes_apart(connection: sa.Connection, task: Task) -> frozenset[str]:
    """Return the write sets that are proved apart from the task's, by their hashes."""
    own = task.scope_sha256
    is_own = sa.or_(proofs.c.a_sha256 == own, proofs.c.b_sha256 == own)
    pairs = sa.select(proofs.c.a_sha256, proofs.c.b_sha256).where(proofs.c.answer == str(ProofAnswer.APART), is_own)
    found = connection.execute(pairs).all()
    return frozenset(b if a == own else a for a, b in found)


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
    """Renew the leases of all live attempts of a worker at once, and return the holds that it still has."""
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
    """Take or renew the lead of this name; False while another holder's has not run out."""
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
