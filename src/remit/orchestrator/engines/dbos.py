"""The engine on DBOS: durable attempts and landings, with claims, leases, fencing and sweeping of our own beside them.

DBOS has no detection of dead executors: `sweep` is ours. Each worker has a queue of its own, because scheduling names
the worker; landings share one queue. All names of DBOS that Remit uses are imported here, and none is private.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions
from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy.exc import DBAPIError

from remit.orchestrator.attempts import settle_task, start_task
from remit.orchestrator.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Breaker,
    BreakerKind,
    Claim,
    Ending,
    EventKind,
    FleetEvent,
    FleetRepository,
    Hold,
    Landing,
    LandingState,
    OpenPlan,
    Order,
    OrderKind,
    ProofAnswer,
    Role,
    Task,
    TaskKey,
    TaskState,
    Worker,
)
from remit.orchestrator.breaker import is_plan_failing, limit_train
from remit.orchestrator.conflict import Evidence, SettlementKind, decide
from remit.orchestrator.database.holds import ClaimRefused, claim_task, list_attempts_of, prove_pair, renew_holds
from remit.orchestrator.database.rows import (
    ENDED_STATE,
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
    note_breaker,
    set_attempt,
    store_task,
    tell_task,
)
from remit.orchestrator.database.store import (
    Store,
    add_event,
    attempts,
    breakers,
    events,
    holds,
    landers,
    landings,
    orders,
    plans,
    read_values,
    repositories,
    row_of,
    workers,
)
from remit.orchestrator.database.store import conflicts as conflict_rows
from remit.orchestrator.database.store import tasks as task_rows
from remit.orchestrator.endings import find_endings
from remit.orchestrator.schedule import measure_tails, schedule
from remit.orchestrator.states import FINAL_STATES, apply_order, move_task, needs_hold
from remit.orchestrator.trains import gather_train, order_landing

T = TypeVar("T")
APPLICATION = "remit"
FLOW_VERSION = "remit-flow-1"
"""Version of the workflows: raised by hand when the steps of one change. Work of another version is never taken."""

ENGINE_SCHEMA = "dbos"
LANDING_QUEUE = "landing"
MAX_RECOVERY_ATTEMPTS = 5
ATTEMPT_WORKFLOW, LANDING_WORKFLOW = "attempt", "land"
ATTEMPT_STEPS = ("prepare", "run", "check", "hand_in")
BROKEN_STATES = ["ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
"""States of a workflow that ended without its last step."""

ENDED_WORKFLOW_STATES = ["SUCCESS", *BROKEN_STATES]
RETENTION_S = 14 * 24 * 3600.0
DELETION_INTERVAL_S = 3600.0
MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 5.0
SPARE_THREADS = 6  # of an executor, beside one for each slot's workflow and one for its step
UNSETTLED_STATES = ("gathered", "verifying")


class Timing(Struct, frozen=True):
    """Intervals of a fleet in seconds; all processes of one fleet use the same."""

    beat_s: float = 5.0
    dead_after_s: float = 20.0
    lease_s: float = 60.0
    assignment_s: float = 45.0
    """How long an agent may act after its worker's last renewal; ends before the lease does."""
    sweep_s: float = 5.0
    poll_s: float = 0.25

    def scale(self, pace: float) -> "Timing":
        return Timing(**{name: value * pace for name, value in asdict(self).items()})


class StepEnd(Struct, frozen=True):
    """Result of a step: the attempt goes on, or has ended in this way. `failure` is the signature of a failure."""

    ended_as: AttemptEnd | None = None
    why: str = ""
    failure: str = ""


class AttemptRunner(Protocol):
    """What a worker does for an attempt, step by step, and for a landing. Each step may run twice."""

    def run_step(self, step: str, attempt: Attempt) -> StepEnd: ...

    def land(self, repository: str, target: str) -> None:
        """Land what is handed in, train after train."""
        ...


class DbosEngine:
    """A keeper of the board on the fleet database (`engines.Engine`). Only a worker's has a client, and enqueues."""

    def __init__(self, store: Store, timing: Timing | None = None, client: DBOSClient | None = None) -> None:
        self.store = store
        self.timing = timing or Timing()
        self.client = client
        self.due_deletion_s: float = 0.0

    # -- plans

    def add_repository(self, repository: FleetRepository) -> None:
        """Register a repository, or its settings anew; its tokens go on."""
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
            for task in measure_tails(tasks):
                self.open_task(connection, task)

    def open_task(self, connection: sa.Connection, task: Task) -> None:
        """Store a task, with a number of attempts that none before it had, and prove it against all others."""
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
                if before is not None and before.state is TaskState.WAITING:
                    store_task(self.store, connection, before, after)
        return tuple(claim for claim in found.claims if self.carry_out(claim))

    def carry_out(self, claim: Claim) -> bool:
        """Claim and enqueue in one transaction; False where the board has moved on."""
        try:
            with self.store.write() as connection:
                attempt = claim_task(self.store, connection, claim, self.timing.lease_s)
                self.enqueue(
                    connection,
                    *(ATTEMPT_WORKFLOW, worker_queue(claim.worker), attempt.workflow_id),
                    *(attempt.repository, attempt.intent, attempt.attempt, attempt.token),
                )
        except ClaimRefused:
            return False
        return True

    def enqueue(self, connection: sa.Connection, workflow: str, queue: str, id: str, *arguments: object) -> None:
        options = EnqueueOptions(
            workflow_name=workflow,
            queue_name=queue,
            workflow_id=id,
            workflow_id_reuse_policy="reject",
            app_version=FLOW_VERSION,
        )
        self.require_client().enqueue_in_transaction(connection, options, *arguments)

    def require_client(self) -> DBOSClient:
        if self.client is None:
            self.client = open_client(self.store)
        return self.client

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

    def is_draining(self, worker: str) -> bool:
        found = self.store.rows(sa.select(workers.c.draining).where(workers.c.id == worker))
        return bool(found and found[0]["draining"])

    def drain_worker(self, worker: str) -> bool:
        """Give a worker nothing more; return whether it is known."""
        with self.store.write() as connection:
            drained = sa.update(workers).where(workers.c.id == worker).values(draining=True)
            return connection.execute(drained).rowcount == 1

    def remove_worker(self, worker: str, how: str = "left") -> None:
        """Forget a worker, and end what it left running."""
        with self.store.read() as connection:
            left = list_attempts_of(connection, [worker])
        self.end_lost(left)
        with self.store.write() as connection:
            if connection.execute(sa.delete(workers).where(workers.c.id == worker)).rowcount:
                self.tell_worker(connection, worker, how)
        self.require_client().delete_queue(worker_queue(worker))

    def sweep(self) -> Sequence[Ending]:
        endings = find_endings(self.read_board())
        self.cancel([(ending.repository, ending.intent, ending.attempt) for ending in endings])
        for ending in endings:
            key = ending.repository, ending.intent
            self.end_attempt(ending.token, key, ending.ended_as, str(ending.ended_as), ending.why)
        late = sa.select(workers.c.id).where(workers.c.beat_at < self.store.clock - self.timing.dead_after_s)
        for row in self.store.rows(late):
            self.remove_worker(row["id"], "lost")
        self.end_broken()
        self.resume_landings()
        self.ask_for_missed_landings()
        self.delete_old()
        return endings

    def cancel(self, ended: Sequence[tuple[str, str, int]]) -> None:
        """Cancel workflows first: a worker that wakes finds its workflow cancelled, and then its token superseded."""
        wanted = sa.tuple_(attempts.c.repository, attempts.c.intent, attempts.c.attempt).in_(list(ended))
        ids = [row["workflow_id"] for row in self.store.rows(sa.select(attempts.c.workflow_id).where(wanted))]
        if ids:
            self.require_client().cancel_workflows(ids)

    def end_lost(self, lost: Sequence[Attempt]) -> None:
        self.cancel([(attempt.repository, attempt.intent, attempt.attempt) for attempt in lost])
        for attempt in lost:
            self.end_attempt(attempt.token, attempt.key, AttemptEnd.LOST, "", f"its worker {attempt.worker} is gone")

    def end_broken(self) -> None:
        """End attempts whose workflow is over without having said so: it broke, or was started too often."""
        live = {attempt.workflow_id: attempt for attempt in self.read_board().attempts.values()}
        if not live:
            return
        found = self.require_client().list_workflows(
            workflow_ids=list(live), status=BROKEN_STATES, load_input=False, load_output=False
        )
        for status in found:
            attempt = live[status.workflow_id]
            self.end_attempt(attempt.token, attempt.key, AttemptEnd.FAILED, "workflow", "its workflow broke")

    def resume_landings(self) -> None:
        """Give the landings of workers that are gone to others."""
        client = self.require_client()
        begun = client.list_workflows(status="PENDING", name=LANDING_WORKFLOW, load_input=False, load_output=False)
        alive = {row["id"] for row in self.store.rows(sa.select(workers.c.id))}
        orphans = [status.workflow_id for status in begun if status.executor_id not in alive]
        if orphans:
            client.resume_workflows(orphans, queue_name=LANDING_QUEUE)

    def ask_for_missed_landings(self) -> None:
        """Ask for the landings of all that is handed in and has none under way, such as after a rebuild."""
        board = self.read_board()
        waiting = {(t.repository, board.plans[t.plan].target) for t in board.tasks.values() if t.state == "handed_in"}
        for repository, target in waiting:
            self.enqueue_landing(repository, target)

    def count_foreign_workflows(self) -> list[tuple[str, int]]:
        """Return the versions of workflows that wait for a worker of theirs, with how many there are."""
        try:
            waiting = self.require_client().list_workflows(
                status=["ENQUEUED", "PENDING"], load_input=False, load_output=False
            )
        except DBAPIError:
            return []  # no worker has made the engine's tables yet
        versions = Counter(status.app_version or "" for status in waiting if status.app_version != FLOW_VERSION)
        return sorted(versions.items())

    def delete_old(self) -> None:
        """Delete what the engine keeps of workflows that ended long ago; the feed and the ledger keep what matters."""
        if time.monotonic() < self.due_deletion_s:
            return
        self.due_deletion_s = time.monotonic() + DELETION_INTERVAL_S
        before = datetime.fromtimestamp(time.time() - RETENTION_S, UTC).isoformat()
        client = self.require_client()
        old = client.list_workflows(
            status=ENDED_WORKFLOW_STATES, end_time=before, limit=1000, load_input=False, load_output=False
        )
        if old:
            client.delete_workflows([status.workflow_id for status in old])

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

    def record_usage(self, token: int, attempt: Attempt, progress: str = "") -> bool:
        with self.store.write() as connection:
            if find_live(connection, attempt.key, token) is None:
                return False
            used = {name: getattr(attempt, name) for name in ("turns", "tokens_in", "tokens_out", "usd")}
            set_attempt(connection, attempt, **used, last_event_at=self.store.clock)
            if progress:
                self.tell_attempt(connection, attempt, EventKind.PROGRESS, {"text": progress})
            return True

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
                self.ask_for_landing(connection, task.repository, plan.target)
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

    # -- landing

    def enqueue_landing(self, repository: str, target: str) -> None:
        with self.store.write() as connection:
            lock_repository(connection, repository)
            self.ask_for_landing(connection, repository, target)

    def ask_for_landing(self, connection: sa.Connection, repository: str, target: str) -> None:
        """Enqueue a landing unless one is under way, which gathers again at its end."""
        this = sa.and_(landers.c.repository == repository, landers.c.target == target)
        if connection.execute(sa.select(landers.c.workflow).where(this)).first():
            return
        made = sa.insert(events).values(
            at=self.store.clock,
            repository=repository,
            kind=str(EventKind.LANDING),
            body={"state": "asked", "target": target},
        )
        number = connection.execute(made.returning(events.c.seq)).scalar_one()  # which is never used again
        id = f"{repository}:land:{number}"
        connection.execute(sa.insert(landers).values(repository=repository, target=target, workflow=id))
        self.enqueue(connection, LANDING_WORKFLOW, LANDING_QUEUE, id, repository, target)

    def finish_landing(self, repository: str, target: str) -> bool:
        """Say that no landing is under way, unless something is handed in; return whether it is over."""
        with self.store.write() as connection:
            lock_repository(connection, repository)
            if self.list_ready(connection, repository, target):
                return False
            this = sa.and_(landers.c.repository == repository, landers.c.target == target)
            connection.execute(sa.delete(landers).where(this))
            return True

    def list_ready(self, connection: sa.Connection, repository: str, target: str) -> list[Task]:
        theirs = sa.and_(
            task_rows.c.repository == repository,
            task_rows.c.state == str(TaskState.HANDED_IN),
            task_rows.c.plan.in_(sa.select(plans.c.id).where(plans.c.target == target)),
        )
        return list(list_tasks(connection, theirs))

    def gather_landing(
        self, repository: str, target: str, old: str, touched: Mapping[str, Sequence[str]]
    ) -> Landing | None:
        """Take the next train. The one of a lander that died is taken up again: a target has one lander at a time."""
        with self.store.write() as connection:
            size = lock_repository(connection, repository).train
            here = sa.and_(landings.c.repository == repository, landings.c.target == target)
            query = sa.select(landings).where(here, landings.c.state.in_(UNSETTLED_STATES))
            if open_ones := read_values(connection, Landing, query):
                return open_ones[-1]
            ready = self.list_ready(connection, repository, target)
            if not ready:
                return None
            this = sa.and_(breakers.c.kind == str(BreakerKind.REPOSITORY), breakers.c.key == repository)
            breaker = next(iter(read_values(connection, Breaker, sa.select(breakers).where(this))), None)
            limit = limit_train(breaker, size) if breaker else size
            train = gather_train(order_landing(ready), touched, limit)
            for task in train:
                store_task(self.store, connection, task, move_task(task, TaskState.LANDING))
            landing = Landing(0, repository, target, tuple(task.intent for task in train), old=old)
            row = row_of(landing, landings) | {"at": self.store.clock}
            del row["id"]
            made = connection.execute(sa.insert(landings).values(**row).returning(landings.c.id)).scalar_one()
            return replace(landing, id=int(made))

    def settle_landing(self, landing: Landing, landed: Sequence[str], conflicts: Sequence[Evidence] = ()) -> bool:
        with self.store.write() as connection:
            lock_repository(connection, landing.repository)
            known = connection.execute(sa.select(landings.c.state).where(landings.c.id == landing.id)).scalar()
            if known not in UNSETTLED_STATES:
                return False
            row = row_of(landing, landings)
            connection.execute(sa.update(landings).where(landings.c.id == landing.id).values(**row))
            body = {"state": str(landing.state), "members": list(landing.members), "new": landing.new}
            add_event(self.store, connection, EventKind.LANDING, body, repository=landing.repository)
            for intent in landed:
                self.settle_member(connection, landing, intent)
            for evidence in conflicts:
                self.settle_conflict(connection, landing, evidence)
            for intent in landing.members:
                task = find_task(connection, (landing.repository, intent))
                if task is not None and task.state is TaskState.LANDING:
                    back = move_task(task, TaskState.HANDED_IN, "its train did not land")
                    store_task(self.store, connection, task, back)
            if landing.state in (LandingState.RED, LandingState.LANDED):
                why = landing.why if landing.state is LandingState.RED else None
                note_breaker(self.store, connection, BreakerKind.REPOSITORY, landing.repository, why)
            return True

    def settle_member(self, connection: sa.Connection, landing: Landing, intent: str) -> None:
        task = find_task(connection, (landing.repository, intent))
        if task is not None and task.state is TaskState.LANDING:
            after = move_task(task, TaskState.LANDED, f"in {landing.new}")
            store_task(self.store, connection, task, replace(after, landed=landing.new))

    def settle_conflict(self, connection: sa.Connection, landing: Landing, evidence: Evidence) -> None:
        """Send the task back that the settlement names: to its hold for another attempt, or to a person."""
        a, b = evidence.earlier.intent, evidence.later.intent
        rows = conflict_rows.c
        pair = sa.and_(rows.repository == landing.repository, rows.a == a, rows.b == b)
        rounds = connection.execute(sa.select(sa.func.count()).where(pair)).scalar_one()
        settlement = decide(replace(evidence, rounds=rounds))
        row = {"repository": landing.repository, "kind": str(evidence.kind), "a": a, "b": b, "rounds": rounds + 1}
        paths = list(evidence.paths)
        connection.execute(
            sa.insert(conflict_rows).values(**row, paths=paths, settled_as=str(settlement.kind), at=self.store.clock)
        )
        told = {"settled_as": str(settlement.kind), "with": a, "paths": paths}
        add_event(self.store, connection, EventKind.CONFLICT, told, repository=landing.repository, intent=b)
        task = find_task(connection, (landing.repository, settlement.redo))
        if task is None or task.state is not TaskState.LANDING:
            return
        if settlement.kind is SettlementKind.REASSIGN:
            store_task(self.store, connection, task, move_task(task, TaskState.HELD, settlement.why))
        elif settlement.kind is SettlementKind.ASK:
            returns_to = TaskState.HANDED_IN if settlement.keeps_work else TaskState.HELD
            asking = replace(move_task(task, TaskState.ASKING, settlement.why), returns_to=returns_to)
            store_task(self.store, connection, task, asking)

    # -- orders

    def give_order(self, order: Order) -> int:
        with self.store.write() as connection:
            lock_repository(connection, order.repository)
            row = row_of(order, orders) | {"at": self.store.clock}
            del row["id"]
            id = int(connection.execute(sa.insert(orders).values(**row).returning(orders.c.id)).scalar_one())
            told = {"kind": str(order.kind), "by": order.by}
            add_event(self.store, connection, EventKind.ORDER, told, repository=order.repository, intent=order.intent)
            if not order.intent and order.kind in (OrderKind.PAUSE, OrderKind.RESUME):
                self.pause_plans(connection, order.repository, is_paused=order.kind is OrderKind.PAUSE)
            chosen = [task_rows.c.repository == order.repository]
            chosen += [task_rows.c.intent == order.intent] if order.intent else []
            for task in {task.key: task for task in list_tasks(connection, *chosen)}.values():
                self.order_task(connection, task, replace(order, id=id))
            return id

    def order_task(self, connection: sa.Connection, task: Task, order: Order) -> None:
        after = apply_order(task, order)
        store_task(self.store, connection, task, after)
        attempt = find_live(connection, task.key)
        if attempt is not None and order.kind in (OrderKind.RESUME, OrderKind.GIVE_BACK):
            set_attempt(connection, attempt, last_event_at=self.store.clock)  # a pause is no silence
        if attempt is not None and not needs_hold(after):
            end_live(self.store, connection, attempt, AttemptEnd.CANCELLED, "", after.why)
        if order.kind is OrderKind.RETRY and after is not task:
            # What was blocked waits again; the next dispatch blocks what still needs something else.
            for blocked in list_tasks(connection, task_rows.c.plan == task.plan):
                if blocked.state is TaskState.BLOCKED:
                    store_task(self.store, connection, blocked, apply_order(blocked, order))

    def pause_plans(self, connection: sa.Connection, repository: str, *, is_paused: bool) -> None:
        """Pause the plans of a repository, or let them go on: then its landings start from nothing too."""
        connection.execute(sa.update(plans).where(plans.c.repository == repository).values(is_paused=is_paused))
        if not is_paused:
            this = sa.and_(breakers.c.kind == str(BreakerKind.REPOSITORY), breakers.c.key == repository)
            connection.execute(sa.delete(breakers).where(this))

    def take_orders(self, worker: str) -> Sequence[Order]:
        with self.store.write() as connection:
            is_mine = sa.exists().where(
                attempts.c.repository == orders.c.repository,
                attempts.c.worker == worker,
                attempts.c.state != ENDED_STATE,
                sa.or_(orders.c.intent == "", orders.c.intent == attempts.c.intent),
            )
            found = read_values(connection, Order, sa.select(orders).where(orders.c.taken_at.is_(None), is_mine))
            if found:
                taken = sa.update(orders).where(orders.c.id.in_([order.id for order in found]))
                connection.execute(taken.values(taken_at=self.store.clock))
            return found

    def list_plan(self, plan: str) -> tuple[Task, ...]:
        with self.store.read() as connection:
            return list_tasks(connection, task_rows.c.plan == plan)

    def list_unheard(self, key: TaskKey) -> tuple[Order, ...]:
        """Return the messages of people that no agent of the task has got yet, oldest first."""
        unheard = (*is_key(orders, key), orders.c.kind == str(OrderKind.STEER), orders.c.done_at.is_(None))
        with self.store.read() as connection:
            return read_values(connection, Order, sa.select(orders).where(*unheard).order_by(orders.c.id))

    def finish_order(self, order: Order, attempt: int) -> bool:
        """Record that an agent of this attempt got the message; False where one has got it before."""
        with self.store.write() as connection:
            this = sa.and_(orders.c.id == order.id, orders.c.done_at.is_(None))
            done = sa.update(orders).where(this).values(done_at=self.store.clock, attempt=attempt)
            if not connection.execute(done).rowcount:
                return False
            add_event(
                *(self.store, connection, EventKind.ORDER, {"kind": str(order.kind), "state": "heard"}),
                repository=order.repository,
                intent=order.intent,
                attempt=attempt,
            )
            return True

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

    def tell_attempt(self, connection: sa.Connection, attempt: Attempt, kind: EventKind, body: dict[str, Any]) -> None:
        where = {"repository": attempt.repository, "intent": attempt.intent}
        add_event(self.store, connection, kind, body, **where, attempt=attempt.attempt)

    def tell_worker(self, connection: sa.Connection, worker: str, state: str) -> None:
        add_event(self.store, connection, EventKind.WORKER, {"worker": worker, "state": state})


def find_plan(connection: sa.Connection, task: Task) -> OpenPlan:
    return read_values(connection, OpenPlan, sa.select(plans).where(plans.c.id == task.plan))[0]


def try_until_answered(ask: Callable[[], T]) -> T:
    """Return what the database answers; while it is away, ask again. The steps of DBOS itself wait likewise."""
    pause_s = MIN_PAUSE_S
    while True:
        try:
            return ask()
        except DBAPIError:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)


def worker_queue(worker: str) -> str:
    return f"attempts {worker}"


# -- workflows ----------------------------------------------------------------------------------------------


def open_client(store: Store) -> DBOSClient:
    """Return a client of the engine's tables. Raises where no worker has made them yet."""
    return DBOSClient(
        system_database_url=store.url,
        dbos_system_schema=ENGINE_SCHEMA,
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
        retry_connection_errors=False,
    )


def launch_executor(engine: DbosEngine, worker: str, slots: int, runner: AttemptRunner) -> None:
    """Register the workflows, and run what the queues of this worker hold, in threads, until `stop_executor`."""
    logging.getLogger("dbos").setLevel(logging.WARNING)
    config = DBOSConfig(
        name=APPLICATION,
        system_database_url=engine.store.url,
        dbos_system_schema=ENGINE_SCHEMA,
        application_version=FLOW_VERSION,
        executor_id=worker,
        serializer=DBOSPortableJSONSerializer(),
        max_executor_threads=2 * slots + SPARE_THREADS,
        log_level="WARNING",
    )
    DBOS(config=config)
    register_workflows(engine, runner)
    DBOS.listen_queues([worker_queue(worker), LANDING_QUEUE])
    DBOS.launch()
    engine.client = open_client(engine.store)
    poll = engine.timing.poll_s
    DBOS.register_queue(
        worker_queue(worker), worker_concurrency=slots, polling_interval_sec=poll, on_conflict="always_update"
    )
    DBOS.register_queue(LANDING_QUEUE, worker_concurrency=2, polling_interval_sec=poll, on_conflict="always_update")


def register_workflows(engine: DbosEngine, runner: AttemptRunner) -> None:
    """Register the workflows with DBOS under their names."""

    def run_step(step: str, repository: str, intent: str, number: int, token: int) -> list[str]:
        attempt = try_until_answered(lambda: engine.load_attempt(repository, intent, number))
        if attempt is None or attempt.token != token or not attempt.is_live:
            return [str(AttemptEnd.SUPERSEDED), "another attempt has its place", ""]
        end = runner.run_step(step, attempt)
        return [str(end.ended_as) if end.ended_as else "", end.why, end.failure]

    def settle(repository: str, intent: str, token: int, ended_as: str, why: str, failure: str) -> None:
        end = AttemptEnd(ended_as)
        try_until_answered(lambda: engine.end_attempt(token, (repository, intent), end, failure, why))
        try_until_answered(engine.dispatch)

    def land_all(repository: str, target: str) -> None:
        try_until_answered(lambda: runner.land(repository, target))

    def finish(repository: str, target: str) -> bool:
        return try_until_answered(lambda: engine.finish_landing(repository, target))

    @DBOS.workflow(name=ATTEMPT_WORKFLOW, max_recovery_attempts=MAX_RECOVERY_ATTEMPTS)
    def run_attempt(repository: str, intent: str, number: int, token: int) -> str:
        for name in ATTEMPT_STEPS:
            ended_as, why, failure = DBOS.run_step({"name": name}, run_step, name, repository, intent, number, token)
            if ended_as:
                break
        else:
            ended_as, why, failure = str(AttemptEnd.HANDED_IN), "", ""
        DBOS.run_step({"name": "settle"}, settle, repository, intent, token, ended_as, why, failure)
        return ended_as

    @DBOS.workflow(name=LANDING_WORKFLOW, max_recovery_attempts=MAX_RECOVERY_ATTEMPTS)
    def land(repository: str, target: str) -> None:
        while True:
            DBOS.run_step({"name": "land"}, land_all, repository, target)
            if DBOS.run_step({"name": "finish"}, finish, repository, target):
                return

    del run_attempt, land
