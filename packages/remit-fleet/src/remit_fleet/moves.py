"""Moves of the board: what a deed changes, on the rows of any store. Pure: rows and the time are given.

A store in memory and a store in SQL load the rows of a deed and keep the difference. What has to be put into a queue
is an effect: the engine enqueues it in the transaction of its deed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from remit_fleet import attempts, board, conflict, states
from remit_fleet.breaker import is_plan_failing, limit_train, record_failure, record_success
from remit_fleet.budget import (
    charge_attempt,
    make_plan_budgets,
    read_reservation,
    reserve,
    select_budgets,
    settle,
)
from remit_fleet.rows import Rows
from remit_fleet.schedule import describe_overlap, measure_tails
from remit_fleet.trains import gather_train, order_landing

MAX_EVENT_CHARS = 200
UNSETTLED_LANDINGS = (board.LandingState.GATHERED, board.LandingState.VERIFYING)


class ClaimRefused(RuntimeError):
    """Error for a claim that the current board no longer allows. Nothing is changed."""


# -- plans and claims


def open_plan(
    rows: Rows,
    plan: board.OpenPlan,
    tasks: Sequence[board.Task],
    roles: Mapping[str, board.Role],
    *,
    is_rebuilt: bool = False,
) -> None:
    """Store a plan. Raises ValueError for an intent with an unfinished task, or with a need that nobody knows.

    What a rebuilt plan needs may be in a plan that is rebuilt later, or dropped from its own: then its task is blocked.
    """
    intents = {task.intent for task in tasks}
    for task in tasks:
        known = rows.tasks.get(task.key)
        if known is not None and known.state not in states.FINAL_STATES:
            raise ValueError(
                f"{task.intent} is {known.state} in plan {known.plan!r}: it cannot be in {task.plan!r} too"
            )
        missing = [need for need in task.needs if need not in intents and not rows.tasks.get((task.repository, need))]
        if missing and not is_rebuilt:
            raise ValueError(f"{task.intent} needs {', '.join(missing)}: in no plan, and not known to have landed")
    measured = measure_tails(tasks)
    rows.plans[plan.id] = replace(plan, made_at=rows.now)
    rows.add_roles(plan.id, roles)
    for budget in make_plan_budgets(plan, tasks):
        rows.budgets[budget.scope, budget.key] = budget
    others = [task for task in rows.tasks.find(repository=plan.repository) if task.state not in states.FINAL_STATES]
    for task in measured:
        opened = replace(task, attempts=rows.find_last_attempt(task.key))
        rows.tasks[task.key] = opened
        tell_task(rows, opened)
        for other in others:
            prove_pair(rows, opened, other)
        others.append(opened)


def claim_task(rows: Rows, claim: board.Claim, lease_s: float) -> board.Attempt:
    """Claim a task's write set for a new attempt, after the proof that no hold shares a path. Raises ClaimRefused."""
    token = rows.begin_claim(claim)
    task, worker = rows.tasks.get(claim.key), rows.workers.get(claim.worker)
    if task is None or worker is None or task.state not in (states.WAITING, states.HELD) or rows.live.get(claim.key):
        raise ClaimRefused(f"{claim.intent} is not waiting any more, or {claim.worker} is gone")
    if worker.draining or not worker.slots:
        raise ClaimRefused(f"worker {claim.worker} takes nothing more")
    if rows.count_live(worker.id) >= worker.slots:
        raise ClaimRefused(f"worker {claim.worker} has no free slot")
    if overlap := find_overlap(rows, task):
        raise ClaimRefused(f"{overlap[0].intent} holds its write set, and {describe_overlap(overlap[1])}")
    held, hold, attempt = attempts.open_attempt(task, claim, token, rows.now)
    charged = select_budgets(rows.budgets.find(), task, claim.agent)
    store_budgets(rows, reserve(charged, read_reservation(claim)))
    rows.holds[claim.key] = replace(hold, until=rows.now + lease_s)
    rows.live[claim.key] = attempt
    store_task(rows, held)
    body = {"state": "claimed", "token": token, "worker": claim.worker, "agent": claim.agent}
    rows.tell(board.EventKind.ATTEMPT, body, task, attempt=attempt.attempt)
    return attempt


def find_overlap(rows: Rows, task: board.Task) -> tuple[board.Hold, board.Proof] | None:
    """Return a hold not apart from the task's write set, with the proof."""
    for other in rows.list_unproved(task):
        proof = prove_pair(rows, task, other)
        if proof.answer is not board.ProofAnswer.APART:
            return other, proof
    return None


def prove_pair(rows: Rows, task: board.Task, other: board.Task | board.Hold) -> board.Proof:
    """Return whether two write sets are apart, proved once for each pair."""
    pair = board.pair_scopes(task.scope_sha256, other.scope_sha256)
    proof = rows.proofs.get(pair)
    if proof is None:
        rows.proofs[pair] = proof = rows.prove(task, other)
    return proof


# -- tasks and attempts


def store_task(rows: Rows, after: board.Task) -> None:
    """Store a task; release its hold if the state needs none, and tell of a new state."""
    before = rows.tasks[after.key]
    rows.tasks[after.key] = after
    if not states.needs_hold(after):
        rows.holds.pop(after.key, None)
    if after.state is not before.state:
        tell_task(rows, after)


def change_task(rows: Rows, after: board.Task, *, is_activity: bool = True) -> None:
    store_task(rows, after)
    attempt = rows.live.get(after.key)
    if attempt is not None and not states.needs_hold(after):
        end_live(rows, attempt, board.AttemptEnd.CANCELLED, "", after.why)
    elif attempt is not None and is_activity:
        rows.live[after.key] = replace(attempt, last_event_at=rows.now)


def end_live(rows: Rows, attempt: board.Attempt, ended_as: board.AttemptEnd, failure: str, why: str) -> board.Attempt:
    ended = attempts.close_attempt(attempt, ended_as, rows.now, failure)
    rows.close(ended)
    hold, task = rows.holds.get(attempt.key), rows.tasks.get(attempt.key)
    if hold is not None:
        rows.holds[attempt.key] = replace(hold, until=None)
    if task is not None:
        charged = select_budgets(rows.budgets.find(), task, attempt.agent)
        store_budgets(rows, settle(charged, read_reservation(attempt), charge_attempt(attempt, rows.now)))
    body = {"state": str(board.AttemptState.ENDED), "ended_as": str(ended_as), "why": why or failure}
    tell_attempt(rows, board.EventKind.ATTEMPT, body, attempt)
    return ended


def settle_attempt(
    rows: Rows, task: board.Task, attempt: board.Attempt, ended_as: board.AttemptEnd, failure: str, why: str
) -> None:
    """End an attempt, and store what becomes of its task. Too many stuck tasks pause their plan."""
    earlier = rows.list_ended(task)
    ended = end_live(rows, attempt, ended_as, failure, why)
    plan, limit = rows.plans[task.plan], rows.repositories[task.repository].attempts
    by_hand = plan.limits.lands_by_hand
    settled = attempts.settle_task(task, [*earlier, ended], limit, find_role(rows, task), why, lands_by_hand=by_hand)
    store_task(rows, settled)
    if attempt.state is not board.AttemptState.STARTED and ended_as is board.AttemptEnd.FAILED:
        note_agent(rows, attempt, failure or why)
    if settled.state is states.HANDED_IN:
        ask_for_landing(rows, task.repository, plan.target)
    if settled.state is states.STUCK and is_plan_failing(rows.tasks.find(plan=task.plan)):
        rows.plans[plan.id] = replace(plan, is_paused=True)


def find_role(rows: Rows, task: board.Task) -> board.Role:
    return rows.list_roles().get(task.role) or board.Role(task.role)


def store_budgets(rows: Rows, changed: Sequence[board.SpendingBudget]) -> None:
    for budget in changed:
        rows.budgets[budget.scope, budget.key] = budget


def note_agent(rows: Rows, attempt: board.Attempt, failure: str | None) -> None:
    worker = rows.workers.get(attempt.worker)
    note_breaker(rows, board.BreakerKind.AGENT, f"{attempt.agent}@{worker.host if worker else attempt.worker}", failure)


def note_breaker(rows: Rows, kind: board.BreakerKind, key: str, failure: str | None) -> None:
    """Count a failure of a subject, or a success if `failure` is None."""
    known = rows.breakers.get((kind, key))
    if failure is not None:
        rows.breakers[kind, key] = record_failure(known or board.Breaker(kind, key), rows.now, failure)
    elif known is not None:
        rows.breakers[kind, key] = record_success(known, rows.now)


def tell_task(rows: Rows, task: board.Task) -> None:
    rows.tell(board.EventKind.TASK, {"state": str(task.state), "why": task.why}, task)


def tell_attempt(rows: Rows, kind: board.EventKind, body: Mapping[str, Any], attempt: board.Attempt) -> None:
    rows.tell(kind, body, repository=attempt.repository, intent=attempt.intent, attempt=attempt.attempt)


# -- conflicts


def settle_evidence(rows: Rows, repository: str, evidence: conflict.Evidence) -> tuple[conflict.Settlement, int]:
    a, b, kind = evidence.earlier.intent, evidence.later.intent, evidence.kind
    evidence = replace(evidence, rounds=len(rows.conflicts.find(b=b, a=a, repository=repository)))
    settlement = conflict.decide(evidence)
    settled = (evidence.paths, evidence, evidence.rounds + 1, settlement.kind, rows.now)
    made = rows.conflicts.add(conflict.SettledConflict(0, repository, kind, a, b, *settled))
    told = {"kind": str(kind), "settled_as": str(settlement.kind), "with": a, "paths": list(evidence.paths)}
    rows.tell(board.EventKind.CONFLICT, told | {"why": settlement.why}, repository=repository, intent=b)
    return settlement, made.id


def meet_owner(rows: Rows, key: board.TaskKey, evidence: conflict.Evidence) -> conflict.Settlement | None:
    """Settle and carry out a task's wish for paths held by an owner: the task waits until the owner has landed, one of
    them is redone on top of the other, or a person is asked. Return None if the tasks no longer meet.
    """
    task, owner = rows.tasks.get(key), rows.tasks.get((key[0], evidence.earlier.intent))
    if task is None or owner is None or task.state is not states.RUNNING or rows.holds.get(owner.key) is None:
        return None
    wait = find_wait(rows, owner)
    earlier = replace(evidence.earlier, waits_for_other=wait is not None and wait.a == key[1])
    settlement, number = settle_evidence(rows, key[0], replace(evidence, earlier=earlier))
    shown = ", ".join(evidence.paths[:5])
    for after in attempts.settle_growth(settlement, owner, task, evidence.paths):
        change_task(rows, after)
        other = owner if after.intent == task.intent else task
        say = f"{shown}: {task.intent} needs what {owner.intent} owns. {settlement.kind}: {settlement.why}."
        text = f"{say} {other.intent} is reached by post_note, and takes changes by submit_patch."
        write_note(
            rows, after, "conflict", text, after.intent, evidence.paths[:20], source=f"conflict:{number}:{after.intent}"
        )
    return settlement


def find_wait(rows: Rows, task: board.Task) -> conflict.SettledConflict | None:
    if task.state is not states.PAUSED:
        return None
    told = {"kind": conflict.ConflictKind.GROW, "settled_as": conflict.SettlementKind.WAIT}
    return next(reversed(rows.conflicts.find(repository=task.repository, b=task.intent, **told)), None)


def release_waiting(rows: Rows, repository: str) -> None:
    """Resume paused tasks whose awaited path owner has ended."""
    for task in rows.tasks.find(state=states.PAUSED, repository=repository):
        wait = find_wait(rows, task)
        owner = rows.tasks.get((repository, wait.a)) if wait is not None else None
        if wait is not None and (owner is None or owner.state in states.FINAL_STATES):
            path = next(iter(wait.paths), "")
            for after in attempts.release_task(task, wait.a, path):
                change_task(rows, after)
                text = f"{wait.a} is over, and {path} belongs to nobody now: ask for it, or go on without."
                write_note(rows, after, "conflict", text, after.intent, source=f"released:{wait.id}:{task.intent}")


# -- notes


def write_note(
    rows: Rows,
    task: board.Task,
    kind: str,
    text: str,
    to: str,
    paths: Sequence[str] = (),
    *,
    source: str,
    attempt: int | None = None,
) -> None:
    """Write a note of a task's attempt, or without an attempt of Remit itself, and tell of it."""
    place = task.repository, task.plan, task.intent if attempt else ""
    made = rows.notes.add(board.StoredNote(0, *place, to, kind, text, tuple(paths), attempt, source, rows.now))
    told = {"note": made.id, "kind": kind, "to": to, "text": text[:MAX_EVENT_CHARS]}
    rows.tell(board.EventKind.NOTE, told, task, attempt=attempt)


# -- orders


def give_order(rows: Rows, order: board.Order) -> int:
    """Store an order, carry it out, and return its id. Pausing and stopping take effect at the agent's next call."""
    given = rows.orders.add(replace(order, at=rows.now))
    told = {"kind": str(order.kind), "by": order.by}
    rows.tell(board.EventKind.ORDER, told, repository=order.repository, intent=order.intent)
    if not order.intent and order.kind in (board.OrderKind.PAUSE, board.OrderKind.RESUME):
        for plan in rows.plans.find(repository=order.repository):
            rows.plans[plan.id] = replace(plan, is_paused=order.kind is board.OrderKind.PAUSE)
        if order.kind is board.OrderKind.RESUME:  # resets the breaker of landings too
            rows.breakers.pop((board.BreakerKind.REPOSITORY, order.repository), None)
    chosen = {"intent": order.intent} if order.intent else {}
    for task in rows.tasks.find(repository=order.repository, **chosen):
        after = states.apply_order(task, given)
        change_task(rows, after, is_activity=order.kind in (board.OrderKind.RESUME, board.OrderKind.GIVE_BACK))
        if order.kind is board.OrderKind.RETRY and after is not task:
            # What was blocked waits again; the next dispatch blocks what still needs something else.
            for blocked in rows.tasks.find(state=states.BLOCKED, plan=task.plan):
                if blocked == rows.tasks[blocked.key]:
                    store_task(rows, states.apply_order(blocked, given))
    return given.id


def take_orders(rows: Rows, worker: str) -> Sequence[board.Order]:
    """Return the untaken orders for attempts of this worker, and mark them taken."""
    mine = rows.live.find(worker=worker)
    taken: list[board.Order] = []
    for repository in sorted({attempt.repository for attempt in mine}):
        intents = ("", *(attempt.intent for attempt in mine if attempt.repository == repository))
        for order in rows.orders.find(repository=repository, intent=intents, taken_at=None):
            rows.orders[order.id] = replace(order, taken_at=rows.now)
            taken.append(rows.orders[order.id])
    return taken


# -- landings


def ask_for_landing(rows: Rows, repository: str, target: str) -> None:
    """Enqueue a landing. A landing under way needs no second: the current landing gathers again at its end."""
    if rows.landers.get((repository, target)) is None:
        number = rows.number_event(board.EventKind.LANDING, {"state": "asked", "target": target}, repository=repository)
        lander = board.LandingRun(repository, target, f"{repository}:land:{number}")
        rows.landers[repository, target] = lander
        rows.effects.append(lander)


def finish_landing(rows: Rows, repository: str, target: str, workflow: str) -> bool:
    """Mark this landing as finished unless tasks are still handed in; return whether the landing is finished."""
    lander = rows.landers.get((repository, target))
    if lander is None or lander.workflow != workflow:
        return True  # a landing that is told twice to finish must not end the one after it
    if list_ready(rows, repository, target):
        return False
    rows.landers.pop((repository, target), None)
    return True


def give_up_landing(rows: Rows, lander: board.LandingRun, why: str) -> None:
    """Mark a landing as broken. The next landing takes up its train; the repository's breaker counts a red train."""
    if rows.landers.get((lander.repository, lander.target)) == lander:
        rows.landers.pop((lander.repository, lander.target), None)
        rows.tell(board.EventKind.LANDING, {"state": "broken", "why": why}, repository=lander.repository)
        note_breaker(rows, board.BreakerKind.REPOSITORY, lander.repository, f"a landing broke: {why}")


def list_ready(rows: Rows, repository: str, target: str) -> list[board.Task]:
    handed_in = rows.tasks.find(state=states.HANDED_IN, repository=repository)
    return [task for task in handed_in if rows.plans[task.plan].target == target]


def gather_landing(
    rows: Rows, repository: str, target: str, old: str, touched: Mapping[str, Sequence[str]]
) -> board.Landing | None:
    """Take the next train of handed-in tasks, for a target with the tip `old`; or the unfinished train of a landing
    that died, because a target has one at a time. `touched` names the files touched by each handed-in change.
    """
    if under_way := rows.landings.find(state=UNSETTLED_LANDINGS, repository=repository, target=target):
        return under_way[-1]
    ready = list_ready(rows, repository, target)
    if not ready:
        return None
    size = rows.repositories[repository].train
    breaker = rows.breakers.get((board.BreakerKind.REPOSITORY, repository))
    train = gather_train(order_landing(ready), touched, limit_train(breaker, size) if breaker else size)
    for task in train:
        store_task(rows, states.move_task(task, states.LANDING))
    members = tuple(task.intent for task in train)
    return rows.landings.add(board.Landing(0, repository, target, members, old=old, at=rows.now))


def list_members(rows: Rows, landing: board.Landing) -> list[board.Task]:
    """Return the members of a train that still land."""
    found = (rows.tasks.get((landing.repository, intent)) for intent in landing.members)
    return [task for task in found if task is not None and task.state is states.LANDING]


def note_check(rows: Rows, landing: board.Landing, command: str) -> None:
    """Record that a check of a train runs, for its members to say what they wait for."""
    known = rows.landings.get(landing.id)
    if known is not None and known.state is board.LandingState.GATHERED:
        rows.landings[landing.id] = replace(known, state=board.LandingState.VERIFYING)
        body = {"state": str(board.LandingState.VERIFYING), "members": list(landing.members), "check": command}
        rows.tell(board.EventKind.LANDING, body, repository=landing.repository)
    for task in list_members(rows, landing):
        store_task(rows, replace(task, why=f"`{command}` runs"))


def choose_attempt(rows: Rows, landing: board.Landing, intent: str, attempt: int, why: str) -> None:
    """Store which attempt of a task with rivals lands, and why."""
    for task in list_members(rows, landing):
        if task.intent == intent:
            rows.holds[task.key] = replace(rows.holds[task.key], attempt=attempt)
            store_task(rows, replace(task, finished=()))
            rows.tell(board.EventKind.LANDING, {"state": "chosen", "why": why}, task, attempt=attempt)


def settle_landing(
    rows: Rows, landing: board.Landing, landed: Sequence[str], conflicts: Sequence[conflict.Evidence]
) -> bool:
    """Store the result of a train: members have landed, are redone, or stay handed in. Conflicts are decided here,
    counting earlier rounds of the pair. Return False if the train was settled before.
    """
    known = rows.landings.get(landing.id)
    if known is None or known.state not in UNSETTLED_LANDINGS:
        return False
    rows.landings[landing.id] = replace(landing, at=known.at)
    body = {"state": str(landing.state), "members": list(landing.members), "new": landing.new}
    rows.tell(
        board.EventKind.LANDING, body | ({"why": landing.why} if landing.why else {}), repository=landing.repository
    )
    for task in list_members(rows, landing):
        if task.intent in landed:
            after = states.move_task(task, states.LANDED, f"in {landing.new[:12]}")
            store_task(rows, replace(after, landed=landing.new))
    for evidence in conflicts:
        settlement, _ = settle_evidence(rows, landing.repository, evidence)
        task = rows.tasks.get((landing.repository, settlement.redo))
        if task is not None and task.state is states.LANDING:
            store_task(rows, attempts.redo_task(task, find_role(rows, task), settlement))
    for task in list_members(rows, landing):
        store_task(rows, states.move_task(task, states.HANDED_IN, landing.why or "its train did not land"))
    if landing.state in (board.LandingState.RED, board.LandingState.LANDED):
        why = landing.why if landing.state is board.LandingState.RED else None
        note_breaker(rows, board.BreakerKind.REPOSITORY, landing.repository, why)
    release_waiting(rows, landing.repository)
    return True
