"""Holds: claim, renew and release write sets under tokens that only rise, and elect one leader.

Every function works in the transaction of its caller. A claim writes the hold, the token, the attempt and its place in
the queue together, after the proof that no live hold shares a path.
"""

from collections.abc import Callable, Iterable

import sqlalchemy as sa
from msgspec.structs import replace

from remit.orchestrator.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Claim,
    EventKind,
    Hold,
    Proof,
    ProofAnswer,
    ProofKey,
    Task,
    TaskKey,
    TaskState,
    pair_scopes,
)
from remit.orchestrator.store import (
    FINAL_STATES,
    Store,
    add_event,
    attempts,
    holds,
    leader,
    proofs,
    read_values,
    repositories,
    row_of,
    tasks,
)

ProveScopes = Callable[[tuple[str, ...], tuple[str, ...]], Proof]
Enqueue = Callable[[sa.Connection, Attempt], None]

BRANCH_PREFIX = "remit/"


class ClaimRefused(RuntimeError):
    """A claim that the present board no longer allows: nothing was written."""


def claim_task(store: Store, connection: sa.Connection, claim: Claim, *, lease_s: float, prove: ProveScopes) -> Attempt:
    """Take the task's write set for a new attempt, and return it. Raises ClaimRefused."""
    token = take_token(connection, claim.repository)  # takes the row: claims of one repository are serial
    task = find_task(connection, claim.key)
    if task is None or task.state is not TaskState.WAITING:
        raise ClaimRefused(f"{claim.intent} is not waiting any more")
    now = store.now(connection)
    others = read_values(connection, Hold, sa.select(holds).where(holds.c.repository == claim.repository))
    for other in others:
        if other.intent == claim.intent:
            raise ClaimRefused(f"{claim.intent} is held under token {other.token}")
        proof = prove_pair(connection, task, other, prove)
        if proof.answer is not ProofAnswer.APART:
            shared = (
                f"both may write {proof.witness!r}" if proof.witness else "it is not proved that they share no path"
            )
            raise ClaimRefused(f"{other.intent} holds its write set, and {shared}")
    number = find_last_attempt(connection, claim.key) + 1
    attempt = Attempt(
        repository=claim.repository,
        intent=claim.intent,
        attempt=number,
        token=token,
        workflow_id=f"{claim.repository}:{claim.intent}:{token}",
        worker=claim.worker,
        agent=claim.agent,
        role=task.role,
        branch=f"{BRANCH_PREFIX}{claim.intent}/{number}",
        reserved_usd=claim.reserved_usd,
        last_event_at=now,
    )
    hold = Hold(claim.repository, claim.intent, number, token, task.scope, task.scope_sha256, now, now + lease_s)
    connection.execute(sa.insert(holds).values(**row_of(hold, holds)))
    connection.execute(sa.insert(attempts).values(**row_of(attempt, attempts), plan=task.plan, claimed_at=now))
    set_task(
        connection, task, state=TaskState.HELD, attempts=task.attempts + 1, why=f"attempt {number} waits for its worker"
    )
    body = {"state": "claimed", "token": token, "worker": claim.worker, "agent": claim.agent}
    add_event(
        *(store, connection, EventKind.ATTEMPT, body),
        repository=claim.repository,
        plan=task.plan,
        intent=claim.intent,
        attempt=number,
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


def find_last_attempt(connection: sa.Connection, key: TaskKey) -> int:
    """Return the highest number of an attempt at this intent, in any plan."""
    numbers = sa.select(sa.func.max(attempts.c.attempt))
    return connection.execute(numbers.where(attempts.c.repository == key[0], attempts.c.intent == key[1])).scalar() or 0


def prove_pair(connection: sa.Connection, task: Task, other: Hold, prove: ProveScopes) -> Proof:
    """Return whether two write sets are apart, from the cache of proofs if they were asked before."""
    key = pair_scopes(task.scope_sha256, other.scope_sha256)
    known = read_values(connection, Proof, sa.select(proofs).where(is_pair(key)))
    if known:
        return known[0]
    proof = prove(task.scope, other.scope)
    if proof.answer is not ProofAnswer.UNPROVED:
        connection.execute(sa.insert(proofs).values(a_sha256=key[0], b_sha256=key[1], **row_of(proof, proofs)))
    return proof


def is_pair(key: ProofKey) -> sa.ColumnElement[bool]:
    return sa.and_(proofs.c.a_sha256 == key[0], proofs.c.b_sha256 == key[1])


def find_task(connection: sa.Connection, key: TaskKey) -> Task | None:
    """Return the task of this key that is not final, else the newest one."""
    query = sa.select(tasks).where(tasks.c.repository == key[0], tasks.c.intent == key[1])
    found = read_values(connection, Task, query.order_by(tasks.c.plan.desc()))
    return next((task for task in found if task.state not in FINAL_STATES), found[0] if found else None)


def set_task(connection: sa.Connection, task: Task, **changes: object) -> Task:
    after = replace(task, **changes)
    connection.execute(
        sa.update(tasks).where(tasks.c.plan == task.plan, tasks.c.intent == task.intent).values(**row_of(after, tasks))
    )
    return after


def find_hold(connection: sa.Connection, key: TaskKey) -> Hold | None:
    query = sa.select(holds).where(holds.c.repository == key[0], holds.c.intent == key[1])
    return next(iter(read_values(connection, Hold, query)), None)


def has_token(connection: sa.Connection, key: TaskKey, token: int) -> bool:
    hold = find_hold(connection, key)
    return hold is not None and hold.token == token


def renew_holds(store: Store, connection: sa.Connection, worker: str, lease_s: float) -> tuple[Hold, ...]:
    """Renew the leases of all live attempts of a worker at once, and return the holds that it still has."""
    renewed = sa.select(holds.c.repository, holds.c.intent).join(
        attempts,
        sa.and_(
            attempts.c.repository == holds.c.repository,
            attempts.c.intent == holds.c.intent,
            attempts.c.token == holds.c.token,
            attempts.c.worker == worker,
            attempts.c.state != str(AttemptState.ENDED),
        ),
    )
    keys = connection.execute(renewed).all()
    if not keys:
        return ()
    is_mine = sa.tuple_(holds.c.repository, holds.c.intent).in_([tuple(key) for key in keys])
    connection.execute(sa.update(holds).where(is_mine, holds.c.until.is_not(None)).values(until=store.clock + lease_s))
    return read_values(connection, Hold, sa.select(holds).where(is_mine))


def release_hold(connection: sa.Connection, key: TaskKey, token: int) -> bool:
    gone = sa.delete(holds).where(holds.c.repository == key[0], holds.c.intent == key[1], holds.c.token == token)
    return connection.execute(gone).rowcount == 1


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


def list_lost_attempts(store: Store, connection: sa.Connection, dead: Iterable[str]) -> tuple[Attempt, ...]:
    """Return live attempts of dead workers, and those whose lease ran out or whose hold is gone."""
    overdue = sa.or_(holds.c.token.is_(None), holds.c.until < store.now(connection))
    same = sa.and_(
        holds.c.repository == attempts.c.repository,
        holds.c.intent == attempts.c.intent,
        holds.c.token == attempts.c.token,
    )
    query = (
        sa.select(attempts)
        .outerjoin(holds, same)
        .where(attempts.c.state != str(AttemptState.ENDED), sa.or_(attempts.c.worker.in_(list(dead)), overdue))
    )
    return read_values(connection, Attempt, query)


def mark_ended(store: Store, connection: sa.Connection, attempt: Attempt, ended_as: AttemptEnd, failure: str) -> None:
    """Write the end of an attempt that has not ended yet."""
    this = sa.and_(
        attempts.c.repository == attempt.repository,
        attempts.c.intent == attempt.intent,
        attempts.c.attempt == attempt.attempt,
    )
    ended = {"state": str(AttemptState.ENDED), "ended_as": str(ended_as), "failure": failure}
    connection.execute(sa.update(attempts).where(this).values(**ended, ended_at=store.clock))
    add_event(
        *(store, connection, EventKind.ATTEMPT, {"state": "ended", "ended_as": str(ended_as), "why": failure}),
        repository=attempt.repository,
        intent=attempt.intent,
        attempt=attempt.attempt,
    )
