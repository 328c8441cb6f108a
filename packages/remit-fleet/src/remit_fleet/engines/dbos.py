"""Engine on DBOS: durable attempts and landings, with Remit's own claims, leases, fencing and sweeping.

DBOS does not detect dead executors; `sweep` does. The queues and workflows are defined in `workflows`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from remit_fleet.attempts import settle_task, start_task
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    BreakerKind,
    Claim,
    Ending,
    EventKind,
    FleetEvent,
    FleetRepository,
    Hold,
    Landing,
    OpenPlan,
    Order,
    ProofAnswer,
    Role,
    Task,
    TaskKey,
    TaskState,
    Worker,
)
from remit_fleet.breaker import is_plan_failing
from remit_fleet.budget import make_plan_budgets
from remit_fleet.conflict import Evidence, Settlement
from remit_fleet.database.conflicts import meet_owner, release_waiting
from remit_fleet.database.holds import ClaimRefused, claim_task, list_attempts_of, prove_pair, renew_holds
from remit_fleet.database.landings import (
    ask_for_landing,
    choose_attempt,
    finish_landing,
    gather_landing,
    give_up_landing,
    note_check,
    settle_landing,
)
from remit_fleet.database.orders import finish_order, give_order, list_unheard, take_orders
from remit_fleet.database.rows import (
    end_live,
    find_hold,
    find_live,
    find_task,
    is_key,
    list_ended,
    list_tasks,
    load_board,
    load_roles,
    lock_repository,
    note_answers,
    note_breaker,
    set_attempt,
    store_task,
    tell_task,
)
from remit_fleet.database.store import (
    Store,
    StoreError,
    add_event,
    attempts,
    budgets,
    events,
    holds,
    landers,
    orders,
    plans,
    read_values,
    repositories,
    row_of,
    workers,
)
from remit_fleet.database.store import tasks as task_rows
from remit_fleet.endings import find_endings
from remit_fleet.engines.workflows import WorkQueues
from remit_fleet.schedule import measure_tails, schedule
from remit_fleet.states import FINAL_STATES, move_task


class Timing(Struct, frozen=True):
    """Intervals of a fleet in seconds, the same for every process of the fleet."""

    beat_s: float = 5.0
    dead_after_s: float = 20.0
    lease_s: float = 60.0
    assignment_s: float = 45.0
    """How long an agent may act after its worker's last renewal; ends before the lease does."""
    sweep_s: float = 5.0
    poll_s: float = 0.25

    def scale(self, pace: float) -> "Timing":
        return Timing(**{name: value * pace for name, value in asdict(self).items()})


class DbosEngine:
    """A keeper of the board on the fleet database (`engines.Engine`). Only a worker's has a client, and enqueues."""

    def __init__(self, store: Store, timing: Timing | None = None) -> None:
        self.store = store
        self.timing = timing or Timing()
        self.queues = WorkQueues(store)

    # -- plans

    def add_repository(self, repository: FleetRepository) -> None:
        """Register a repository, or update its settings; its tokens continue."""
        with self.store.write() as connection:
            row = row_of(repository, repositories)
            known = sa.update(repositories).where(repositories.c.id == repository.id)
            settings = {name: value for name, value in row.items() if name != "token_last"}
            if not connection.execute(known.values(**settings)).rowcount:
                connection.execute(sa.insert(repositories).values(**row))

    def open_plan(self, plan: OpenPlan, tasks: Sequence[Task], roles: Mapping[str, Role] | None = None) -> None:
        with self.store.write() as connection:
            lock_repository(connection, plan.repository)
            rows = {name: asdict(role) for name, role in (roles or {}).items()}
            made = row_of(plan, plans) | {"made_at": self.store.clock, "roles": rows}
            connection.execute(sa.insert(plans).values(**made))
            for budget in make_plan_budgets(plan, tasks):
                connection.execute(sa.insert(budgets).values(**row_of(budget, budgets)))
            for task in measure_tails(tasks):
                self.open_task(connection, task)

    def open_task(self, connection: sa.Connection, task: Task) -> None:
        """Store a task, continue the attempt numbers of earlier tasks, and prove the task against every open task."""
        known = find_task(connection, task.key)
        if known is not None and known.state not in FINAL_STATES:
            raise ValueError(
                f"{task.intent} is {known.state} in plan {known.plan!r}: it cannot be in {task.plan!r} too"
            )
        made = sa.select(sa.func.max(attempts.c.attempt)).where(*is_key(attempts, task.key))
        task = replace(task, attempts=connection.execute(made).scalar() or 0)
        connection.execute(sa.insert(task_rows).values(**row_of(task, task_rows)))
        tell_task(self.store, connection, task)
        for other in list_tasks(connection, task_rows.c.repository == task.repository):
            if other.intent != task.intent and other.state not in FINAL_STATES:
                prove_pair(connection, task, other)

    # -- scheduling

    def dispatch(self) -> tuple[Claim, ...]:
        found = schedule(self.read_board())
        for after in found.moves:
            with self.store.write() as connection:
                lock_repository(connection, after.repository)
                before = find_task(connection, after.key)
                is_idle = find_live(connection, after.key) is None
                if before is not None and is_idle and before.state in (TaskState.WAITING, TaskState.HELD):
                    store_task(self.store, connection, before, after)
        return tuple(claim for claim in found.claims if self.carry_out(claim))

    def carry_out(self, claim: Claim) -> bool:
        """Claim and enqueue in one transaction; return False if the board has changed meanwhile."""
        try:
            with self.store.write() as connection:
                attempt = claim_task(self.store, connection, claim, self.timing.lease_s)
                self.queues.enqueue_attempt(connection, attempt)
        except ClaimRefused:
            return False
        return True

    # -- workers

    def beat(self, worker: Worker) -> Sequence[Hold]:
        with self.store.write() as connection:
            row = row_of(worker, workers) | {"beat_at": self.store.clock}
            draining = row.pop("draining")
            known = sa.update(workers).where(workers.c.id == worker.id)
            if not connection.execute(known.values(**row)).rowcount:
                connection.execute(sa.insert(workers).values(**row, draining=draining))
                self.tell_worker(connection, worker.id, "came")
            return renew_holds(self.store, connection, worker.id, self.timing.lease_s)

    def require_new_worker(self, id: str) -> None:
        """Raise StoreError if the fleet knows a worker of this name: two such workers would repeat the same work."""
        if self.store.rows(sa.select(workers.c.id).where(workers.c.id == id)):
            raise StoreError(f"the fleet has a worker {id!r} already\nhint: start one of the two again")

    def is_draining(self, worker: str) -> bool:
        found = self.store.rows(sa.select(workers.c.draining).where(workers.c.id == worker))
        return bool(found and found[0]["draining"])

    def drain_worker(self, worker: str) -> bool:
        """Stop giving work to a worker; return whether the worker is known."""
        with self.store.write() as connection:
            drained = sa.update(workers).where(workers.c.id == worker).values(draining=True)
            return connection.execute(drained).rowcount == 1

    def remove_worker(self, worker: str, how: str = "left") -> None:
        """Remove a worker, and end its running attempts."""
        with self.store.read() as connection:
            left = list_attempts_of(connection, [worker])
        self.end_lost(left)
        with self.store.write() as connection:
            if connection.execute(sa.delete(workers).where(workers.c.id == worker)).rowcount:
                self.tell_worker(connection, worker, how)
        self.queues.delete_queue_of(worker)

    def sweep(self, has_ended: Callable[[str], bool | None] = lambda _: None) -> Sequence[Ending]:
        """End what a rule ends, and what dead workers left. `has_ended` tells whether a worker's process has ended, or
        None: a worker seen to run is only slow until its lease is over, and an ended one is not waited for.
        """
        endings = find_endings(self.read_board())
        self.cancel([(ending.repository, ending.intent, ending.attempt) for ending in endings])
        for ending in endings:
            key = ending.repository, ending.intent
            self.end_attempt(ending.token, key, ending.ended_as, str(ending.ended_as), ending.why)
        known = sa.select(workers, (self.store.clock - workers.c.beat_at).label("age_s"))
        patience_s = {True: 0.0, None: self.timing.dead_after_s, False: self.timing.lease_s}
        for row in self.store.rows(known):
            if row["age_s"] > patience_s[has_ended(row["id"])]:
                self.remove_worker(row["id"], "lost")
        for repository in {task.repository for task in self.read_board().tasks.values() if task.state == "paused"}:
            with self.store.write() as connection:
                lock_repository(connection, repository)
                release_waiting(self.store, connection, repository)
        self.end_broken()
        self.resume_landings()
        self.end_broken_landings()
        self.ask_for_missed_landings()
        self.queues.delete_old()
        return endings

    def cancel(self, ended: Sequence[tuple[str, str, int]]) -> None:
        """Cancel the workflows first: a worker that wakes finds its workflow cancelled, and afterwards its token
        superseded.
        """
        wanted = sa.tuple_(attempts.c.repository, attempts.c.intent, attempts.c.attempt).in_(list(ended))
        self.queues.cancel(
            [row["workflow_id"] for row in self.store.rows(sa.select(attempts.c.workflow_id).where(wanted))]
        )

    def end_lost(self, lost: Sequence[Attempt]) -> None:
        self.cancel([(attempt.repository, attempt.intent, attempt.attempt) for attempt in lost])
        for attempt in lost:
            self.end_attempt(attempt.token, attempt.key, AttemptEnd.LOST, "", f"its worker {attempt.worker} is gone")

    def end_broken(self) -> None:
        """End attempts whose workflow ended without a report: the workflow broke, or was started too often."""
        live = {attempt.workflow_id: attempt for attempt in self.read_board().attempts.values()}
        for id, why in self.queues.find_ended(live).items():
            self.end_attempt(live[id].token, live[id].key, AttemptEnd.FAILED, "workflow", f"its workflow broke: {why}")

    def end_broken_landings(self) -> None:
        """Remove landings whose workflow ended without a report. Handed-in tasks request a new landing."""
        under_way = {row["workflow"]: row["repository"] for row in self.store.rows(sa.select(landers))}
        for id, why in self.queues.find_ended(under_way).items():
            with self.store.write() as connection:
                lock_repository(connection, under_way[id])
                give_up_landing(self.store, connection, under_way[id], id, why)

    def resume_landings(self) -> None:
        self.queues.resume_landings({row["id"] for row in self.store.rows(sa.select(workers.c.id))})

    def ask_for_missed_landings(self) -> None:
        """Request landings for handed-in tasks without a landing under way, for example after a rebuild."""
        board = self.read_board()
        waiting = {
            (task.repository, board.plans[task.plan].target)
            for task in board.tasks.values()
            if task.state in (TaskState.HANDED_IN, TaskState.LANDING)
        }
        for repository, target in waiting:
            self.enqueue_landing(repository, target)

    def count_foreign_workflows(self) -> list[tuple[str, int]]:
        """Return the foreign versions of unfinished workflows, with the number of workflows of each version."""
        return self.queues.count_foreign()

    # -- attempts

    def load_attempt(self, repository: str, intent: str, number: int) -> Attempt | None:
        found = self.list_attempts((repository, intent))
        return next((attempt for attempt in found if attempt.attempt == number), None)

    def list_attempts(self, key: TaskKey) -> tuple[Attempt, ...]:
        query = sa.select(attempts).where(*is_key(attempts, key)).order_by(attempts.c.attempt)
        with self.store.read() as connection:
            return read_values(connection, Attempt, query)

    def move_attempt(self, token: int, key: TaskKey, state: AttemptState, **columns: object) -> bool:
        with self.store.write() as connection:
            lock_repository(connection, key[0])
            attempt, task = find_live(connection, key, token), find_task(connection, key)
            if attempt is None or task is None:
                return False
            set_attempt(connection, attempt, state=str(state), last_event_at=self.store.clock, **columns)
            if state is AttemptState.STARTED:
                self.note_agent(connection, attempt, None)
                store_task(self.store, connection, task, start_task(task))
            if state is not attempt.state:
                self.tell_attempt(connection, attempt, EventKind.ATTEMPT, {"state": str(state)})
            return True

    def explain_wait(self, token: int, key: TaskKey, why: str) -> bool:
        """Store why an attempt's worker waits; an empty text ends the wait."""
        with self.store.write() as connection:
            lock_repository(connection, key[0])
            attempt, task = find_live(connection, key, token), find_task(connection, key)
            if attempt is None or task is None:
                return False
            set_attempt(connection, attempt, last_event_at=self.store.clock)
            if task.why != why:
                store_task(self.store, connection, task, replace(task, why=why))
                self.tell_attempt(connection, attempt, EventKind.PROGRESS, {"text": why or "the remote answers again"})
            return True

    def ask_person(self, token: int, key: TaskKey, why: str) -> bool:
        """Ask a person about an attempt that cannot go on; once they resume the task, it goes on where it was."""
        with self.store.write() as connection:
            lock_repository(connection, key[0])
            task = find_task(connection, key)
            if find_live(connection, key, token) is None or task is None:
                return False
            store_task(self.store, connection, task, move_task(task, TaskState.ASKING, why))
            return True

    def record_usage(self, token: int, attempt: Attempt, progress: str = "") -> bool:
        with self.store.write() as connection:
            if find_live(connection, attempt.key, token) is None:
                return False
            used = {name: getattr(attempt, name) for name in ("sessions", "turns", "tokens_in", "tokens_out", "usd")}
            set_attempt(connection, attempt, **used, last_event_at=self.store.clock)
            if progress:
                self.tell_attempt(connection, attempt, EventKind.PROGRESS, {"text": progress})
            return True

    def note_answers(self, provider: str, good: int, bad: int, why: str = "") -> None:
        with self.store.write() as connection:
            note_answers(self.store, connection, provider, good, bad, why)

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "", why: str = "") -> bool:
        with self.store.write() as connection:
            limit = lock_repository(connection, key[0]).attempts
            attempt, task = find_live(connection, key, token), find_task(connection, key)
            if attempt is None or task is None:
                return False
            end_live(self.store, connection, attempt, ended_as, failure, why)
            role = load_roles(connection).get(task.role) or Role(task.role)
            plan = find_plan(connection, task)
            by_hand = plan.limits.lands_by_hand
            settled = settle_task(task, list_ended(connection, task), limit, role, why, lands_by_hand=by_hand)
            store_task(self.store, connection, task, settled)
            if attempt.state is not AttemptState.STARTED and ended_as is AttemptEnd.FAILED:
                self.note_agent(connection, attempt, failure or why)
            if settled.state is TaskState.HANDED_IN:
                enqueue = self.queues.enqueue_landing
                ask_for_landing(self.store, connection, task.repository, plan.target, enqueue)
            plan_tasks = list_tasks(connection, task_rows.c.plan == task.plan)
            if settled.state is TaskState.STUCK and is_plan_failing(plan_tasks):
                connection.execute(sa.update(plans).where(plans.c.id == task.plan).values(is_paused=True))
            return True

    def note_agent(self, connection: sa.Connection, attempt: Attempt, failure: str | None) -> None:
        host = connection.execute(sa.select(workers.c.host).where(workers.c.id == attempt.worker)).scalar()
        note_breaker(self.store, connection, BreakerKind.AGENT, f"{attempt.agent}@{host or attempt.worker}", failure)

    def widen_hold(self, token: int, key: TaskKey, scope: Sequence[str], scope_sha256: str) -> str | None:
        with self.store.write() as connection:
            lock_repository(connection, key[0])
            task, hold = find_task(connection, key), find_hold(connection, key)
            if task is None or hold is None or find_live(connection, key, token) is None:
                return key[1]
            wider = replace(task, scope=tuple(scope), scope_sha256=scope_sha256)
            store_task(self.store, connection, task, wider)
            for other in read_values(connection, Hold, sa.select(holds).where(holds.c.repository == key[0])):
                if other.key != key and prove_pair(connection, wider, other).answer is not ProofAnswer.APART:
                    return other.intent
            changed = {"scope": list(scope), "scope_sha256": scope_sha256}
            connection.execute(sa.update(holds).where(*is_key(holds, key)).values(**changed))
            return None

    def meet_owner(self, token: int, key: TaskKey, evidence: Evidence) -> Settlement | None:
        with self.store.write() as connection:
            lock_repository(connection, key[0])
            if find_live(connection, key, token) is None:
                return None
            return meet_owner(self.store, connection, key, evidence)

    # -- landing

    def enqueue_landing(self, repository: str, target: str) -> None:
        with self.store.write() as connection:
            lock_repository(connection, repository)
            ask_for_landing(self.store, connection, repository, target, self.queues.enqueue_landing)

    def finish_landing(self, repository: str, target: str, workflow: str) -> bool:
        with self.store.write() as connection:
            lock_repository(connection, repository)
            return finish_landing(connection, repository, target, workflow)

    def gather_landing(
        self, repository: str, target: str, old: str, touched: Mapping[str, Sequence[str]]
    ) -> Landing | None:
        with self.store.write() as connection:
            known = lock_repository(connection, repository)
            return gather_landing(self.store, connection, known, target, old, touched)

    def note_check(self, landing: Landing, command: str) -> None:
        with self.store.write() as connection:
            lock_repository(connection, landing.repository)
            note_check(self.store, connection, landing, command)

    def choose_attempt(self, landing: Landing, intent: str, attempt: int, why: str) -> None:
        with self.store.write() as connection:
            lock_repository(connection, landing.repository)
            choose_attempt(self.store, connection, landing, intent, attempt, why)

    def settle_landing(self, landing: Landing, landed: Sequence[str], conflicts: Sequence[Evidence] = ()) -> bool:
        with self.store.write() as connection:
            lock_repository(connection, landing.repository)
            is_settled = settle_landing(self.store, connection, landing, landed, conflicts)
            release_waiting(self.store, connection, landing.repository)
            return is_settled

    # -- orders

    def give_order(self, order: Order) -> int:
        with self.store.write() as connection:
            lock_repository(connection, order.repository)
            return give_order(self.store, connection, order)

    def take_orders(self, worker: str) -> Sequence[Order]:
        with self.store.write() as connection:
            return take_orders(self.store, connection, worker)

    def list_plan(self, plan: str) -> tuple[Task, ...]:
        with self.store.read() as connection:
            return list_tasks(connection, task_rows.c.plan == plan)

    def list_unheard(self, key: TaskKey) -> tuple[Order, ...]:
        with self.store.read() as connection:
            return list_unheard(connection, key)

    def finish_order(self, order: Order, attempt: int) -> bool:
        with self.store.write() as connection:
            return finish_order(self.store, connection, order, attempt)

    # -- reading

    def read_board(self) -> Board:
        with self.store.read() as connection:
            return load_board(self.store, connection, self.timing.dead_after_s)

    def find_newest_order(self) -> int:
        return int(self.store.rows(sa.select(sa.func.max(orders.c.id).label("id")))[0]["id"] or 0)

    def read_events(self, after: int, limit: int = 500) -> Sequence[FleetEvent]:
        query = sa.select(events).where(events.c.seq > after).order_by(events.c.seq).limit(limit)
        with self.store.read() as connection:
            return read_values(connection, FleetEvent, query)

    def read_newest_events(self, repository: str, limit: int) -> Sequence[FleetEvent]:
        """Return the newest events of a repository and of the workers, the newest first."""
        query = sa.select(events).where(events.c.repository.in_(("", repository))).order_by(events.c.seq.desc())
        with self.store.read() as connection:
            return read_values(connection, FleetEvent, query.limit(limit))

    def tell_attempt(self, connection: sa.Connection, attempt: Attempt, kind: EventKind, body: dict[str, Any]) -> None:
        where = {"repository": attempt.repository, "intent": attempt.intent}
        add_event(self.store, connection, kind, body, **where, attempt=attempt.attempt)

    def tell_worker(self, connection: sa.Connection, worker: str, state: str) -> None:
        add_event(self.store, connection, EventKind.WORKER, {"worker": worker, "state": state})


def find_plan(connection: sa.Connection, task: Task) -> OpenPlan:
    return read_values(connection, OpenPlan, sa.select(plans).where(plans.c.id == task.plan))[0]
