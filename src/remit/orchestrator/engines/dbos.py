"""The engine on DBOS: durable attempts and landings, with claims, leases, fencing and sweeping of our own beside them.

DBOS has no detection of dead executors: `sweep` is ours. Each worker has a queue of its own, because scheduling names
the worker; landings share one queue. All names of DBOS that Remit uses are imported here, and none is private.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions
from msgspec import Struct, convert, structs

from remit.orchestrator.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Breaker,
    Claim,
    EventKind,
    FleetEvent,
    FleetRepository,
    Hold,
    OpenPlan,
    Order,
    OrderKind,
    Proof,
    ProofAnswer,
    Role,
    SpendingBudget,
    Task,
    TaskKey,
    TaskState,
    Worker,
)
from remit.orchestrator.holds import (
    ClaimRefused,
    ProveScopes,
    claim_task,
    find_hold,
    find_task,
    list_lost_attempts,
    mark_ended,
    release_hold,
    renew_holds,
    set_task,
)
from remit.orchestrator.schedule import schedule
from remit.orchestrator.store import (
    FINAL_STATES,
    Store,
    add_event,
    attempts,
    breakers,
    budgets,
    events,
    holds,
    landings,
    orders,
    plans,
    proofs,
    read_values,
    repositories,
    row_of,
    tasks,
    workers,
)

APPLICATION = "remit"
FLOW_VERSION = "remit-flow-1"
"""Version of the workflows: raised by hand when the steps of one change. Work of another version is never taken."""

ENGINE_SCHEMA = "dbos"
LANDING_QUEUE = "landing"
MAX_RECOVERY_ATTEMPTS = 5
ATTEMPT_WORKFLOW, LANDING_WORKFLOW = "attempt", "land"
ATTEMPT_STEPS = ("prepare", "run", "check", "hand_in")
BROKEN = ["ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
"""States of a workflow that ended without its last step."""

SPARE_THREADS = 6  # of an executor, beside one for each slot's workflow and one for its step


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
        return Timing(**{name: value * pace for name, value in structs.asdict(self).items()})


class StepEnd(Struct, frozen=True):
    """Result of a step: the attempt goes on, or has ended in this way."""

    ended_as: AttemptEnd | None = None
    why: str = ""


class AttemptRunner(Protocol):
    """What a worker does for an attempt, step by step, and for a landing. Each step may run twice."""

    def run_step(self, step: str, attempt: Attempt) -> StepEnd: ...

    def land(self, repository: str, target: str) -> bool:
        """Land what is handed in; return whether there may be more."""
        ...


class DbosEngine:
    """A keeper of the board on the fleet database. Each method is one transaction (`engines.Engine`)."""

    def __init__(
        self, store: Store, prove: ProveScopes, timing: Timing | None = None, client: DBOSClient | None = None
    ) -> None:
        self.store = store
        self.prove = prove
        self.timing = timing or Timing()
        self.client = client

    # -- plans

    def open_plan(self, plan: OpenPlan, tasks_of_plan: Sequence[Task], roles: Mapping[str, Role] | None = None) -> None:
        with self.store.write() as connection:
            for task in tasks_of_plan:
                known = find_task(connection, task.key)
                if known is not None and known.state not in FINAL_STATES:
                    raise ValueError(f"{task.intent} is in the plan {known.plan} already, and {known.state} there")
            row = row_of(plan, plans) | {"made_at": self.store.clock, "roles": structs_as_rows(roles or {})}
            connection.execute(sa.insert(plans).values(**row))
            for task in tasks_of_plan:
                connection.execute(sa.insert(tasks).values(**row_of(task, tasks)))
                self.tell_task(connection, task)

    def add_repository(self, repository: FleetRepository) -> None:
        """Register a repository, or its settings anew; its tokens go on."""
        with self.store.write() as connection:
            row = row_of(repository, repositories)
            del row["token_last"]
            known = sa.update(repositories).where(repositories.c.id == repository.id)
            if not connection.execute(known.values(**row)).rowcount:
                connection.execute(sa.insert(repositories).values(**row))

    # -- scheduling

    def dispatch(self) -> tuple[Claim, ...]:
        with self.store.read() as connection:
            found = schedule(self.load_board(connection))
        for ending in found.endings:
            self.end_attempt(ending.token, (ending.repository, ending.intent), ending.ended_as, ending.why)
        with self.store.write() as connection:
            for after in found.moves:
                before = find_task(connection, after.key)
                if before is not None and before.state not in FINAL_STATES:
                    self.tell_task(connection, set_task(connection, before, state=after.state, why=after.why))
            for key, why in found.waits.items():
                waiting = sa.and_(tasks.c.repository == key[0], tasks.c.intent == key[1], tasks.c.state == "waiting")
                connection.execute(sa.update(tasks).where(waiting, tasks.c.why != why).values(why=why))
        return tuple(claim for claim in found.claims if self.carry_out(claim))

    def carry_out(self, claim: Claim) -> bool:
        """Claim and enqueue in one transaction; False where the board has moved on."""
        try:
            with self.store.write() as connection:
                attempt = claim_task(self.store, connection, claim, lease_s=self.timing.lease_s, prove=self.prove)
                self.enqueue(
                    connection,
                    *(ATTEMPT_WORKFLOW, worker_queue(claim.worker), attempt.workflow_id),
                    *(attempt.repository, attempt.intent, attempt.attempt, attempt.token),
                )
        except ClaimRefused as refused:
            with self.store.write() as connection:
                task = find_task(connection, claim.key)
                if task is not None and task.state is TaskState.WAITING:
                    set_task(connection, task, why=str(refused))
            return False
        return True

    def enqueue(self, connection: sa.Connection, workflow: str, queue: str, id: str, *arguments: object) -> None:
        assert self.client is not None, "only a worker's engine enqueues"
        options = EnqueueOptions(
            workflow_name=workflow,
            queue_name=queue,
            workflow_id=id,
            workflow_id_reuse_policy="reject",
            app_version=FLOW_VERSION,
        )
        self.client.enqueue_in_transaction(connection, options, *arguments)

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

    def remove_worker(self, worker: str) -> None:
        with self.store.write() as connection:
            connection.execute(sa.delete(workers).where(workers.c.id == worker))
            self.tell_worker(connection, worker, "left")
        assert self.client is not None
        self.client.delete_queue(worker_queue(worker))

    def sweep(self) -> Sequence[Attempt]:
        assert self.client is not None
        with self.store.read() as connection:
            late = workers.c.beat_at < self.store.clock - self.timing.dead_after_s
            dead = [str(id) for id in connection.execute(sa.select(workers.c.id).where(late)).scalars()]
            lost = list_lost_attempts(self.store, connection, dead)
        # Cancelled first: a worker that wakes finds its workflow cancelled, and its token superseded.
        self.client.cancel_workflows([attempt.workflow_id for attempt in lost])
        ended = [
            attempt
            for attempt in lost
            if self.end_attempt(attempt.token, attempt.key, AttemptEnd.LOST, f"its worker {attempt.worker} is gone")
        ]
        ended += self.end_broken()
        self.resume_landings(dead)
        for worker in dead:
            with self.store.write() as connection:
                gone = sa.delete(workers).where(
                    workers.c.id == worker, workers.c.beat_at < self.store.clock - self.timing.dead_after_s
                )
                if connection.execute(gone).rowcount:
                    self.tell_worker(connection, worker, "lost")
            self.client.delete_queue(worker_queue(worker))
        return ended

    def end_broken(self) -> list[Attempt]:
        """End attempts whose workflow is over without having said so: it broke, or was started too often."""
        assert self.client is not None
        with self.store.read() as connection:
            live = read_values(
                connection, Attempt, sa.select(attempts).where(attempts.c.state != str(AttemptState.ENDED))
            )
        if not live:
            return []
        ids = [attempt.workflow_id for attempt in live]
        found = self.client.list_workflows(workflow_ids=ids, status=BROKEN, load_input=False, load_output=False)
        broken = {status.workflow_id for status in found}
        return [
            attempt
            for attempt in live
            if attempt.workflow_id in broken
            and self.end_attempt(attempt.token, attempt.key, AttemptEnd.FAILED, "its workflow broke")
        ]

    def resume_landings(self, dead: Sequence[str]) -> None:
        """Give the landings of workers that are gone to others."""
        assert self.client is not None
        begun = self.client.list_workflows(status="PENDING", name=LANDING_WORKFLOW, load_input=False, load_output=False)
        with self.store.read() as connection:
            alive = set(connection.execute(sa.select(workers.c.id)).scalars()) - set(dead)
        orphans = [status.workflow_id for status in begun if status.executor_id not in alive]
        if orphans:
            self.client.resume_workflows(orphans, queue_name=LANDING_QUEUE)

    # -- attempts

    def load_attempt(self, repository: str, intent: str, number: int) -> Attempt | None:
        this = (attempts.c.repository == repository, attempts.c.intent == intent, attempts.c.attempt == number)
        with self.store.read() as connection:
            return next(iter(read_values(connection, Attempt, sa.select(attempts).where(*this))), None)

    def move_attempt(self, token: int, key: TaskKey, state: AttemptState, **columns: object) -> bool:
        with self.store.write() as connection:
            hold = find_hold(connection, key)
            if hold is None or hold.token != token:
                return False
            this = (attempts.c.repository == key[0], attempts.c.intent == key[1], attempts.c.attempt == hold.attempt)
            times = {"started_at": self.store.clock} if state is AttemptState.STARTED else {}
            changed = sa.update(attempts).where(*this, attempts.c.state != str(AttemptState.ENDED))
            if not connection.execute(changed.values(state=str(state), **times, **columns)).rowcount:
                return False
            task = find_task(connection, key)
            if state is AttemptState.STARTED and task is not None and task.state is TaskState.HELD:
                self.tell_task(connection, set_task(connection, task, state=TaskState.RUNNING, why=""))
            add_event(
                *(self.store, connection, EventKind.ATTEMPT, {"state": str(state)}),
                repository=key[0],
                intent=key[1],
                attempt=hold.attempt,
            )
            return True

    def list_attempts(self, key: TaskKey) -> tuple[Attempt, ...]:
        these = (attempts.c.repository == key[0], attempts.c.intent == key[1])
        with self.store.read() as connection:
            return read_values(connection, Attempt, sa.select(attempts).where(*these).order_by(attempts.c.attempt))

    def record_usage(self, token: int, attempt: Attempt, progress: str = "") -> bool:
        with self.store.write() as connection:
            hold = find_hold(connection, attempt.key)
            if hold is None or hold.token != token:
                return False
            this = (
                attempts.c.repository == attempt.repository,
                attempts.c.intent == attempt.intent,
                attempts.c.attempt == attempt.attempt,
            )
            used = {name: getattr(attempt, name) for name in ("turns", "tokens_in", "tokens_out", "usd")}
            connection.execute(sa.update(attempts).where(*this).values(**used, last_event_at=self.store.clock))
            if progress:
                add_event(
                    *(self.store, connection, EventKind.PROGRESS, {"text": progress}),
                    repository=attempt.repository,
                    intent=attempt.intent,
                    attempt=attempt.attempt,
                )
            return True

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "") -> bool:
        with self.store.write() as connection:
            hold = find_hold(connection, key)
            task = find_task(connection, key)
            if hold is None or hold.token != token or task is None:
                return False
            this = (attempts.c.repository == key[0], attempts.c.intent == key[1], attempts.c.attempt == hold.attempt)
            live = read_values(
                connection, Attempt, sa.select(attempts).where(*this, attempts.c.state != str(AttemptState.ENDED))
            )
            if not live:
                return False
            mark_ended(self.store, connection, live[0], ended_as, failure)
            if ended_as is AttemptEnd.HANDED_IN:
                kept = sa.update(holds).where(holds.c.repository == key[0], holds.c.intent == key[1])
                connection.execute(kept.values(until=None))
                task = set_task(connection, task, state=TaskState.HANDED_IN, why="the next landing")
                self.ask_for_landing(connection, task.repository)
            else:
                release_hold(connection, key, token)
                task = self.set_after_failure(connection, task, live[0], ended_as, failure)
            self.tell_task(connection, task)
            return True

    def set_after_failure(
        self, connection: sa.Connection, task: Task, attempt: Attempt, ended_as: AttemptEnd, failure: str
    ) -> Task:
        """Try the task again, or give it up: after all its attempts, or where a person stopped it."""
        query = sa.select(repositories).where(repositories.c.id == task.repository)
        limits = next(iter(read_values(connection, FleetRepository, query)), None)
        allowed = limits.attempts if limits else FleetRepository("").attempts
        reason = f"attempt {attempt.attempt} ended as {ended_as}" + (f": {failure}" if failure else "")
        if task.state is TaskState.DROPPED or ended_as is AttemptEnd.CANCELLED:
            return set_task(connection, task, state=TaskState.DROPPED, why=failure or "a person stopped it")
        if ended_as is AttemptEnd.LOST or task.attempts < allowed:
            # An attempt that died with its worker is no failure of the task.
            made = task.attempts - (ended_as is AttemptEnd.LOST)
            return set_task(connection, task, state=TaskState.WAITING, why=f"a worker; {reason}", attempts=made)
        return set_task(connection, task, state=TaskState.STUCK, why=reason)

    # -- landing

    def enqueue_landing(self, repository: str, target: str) -> bool:
        with self.store.write() as connection:
            return self.ask_for_landing(connection, repository)

    def ask_for_landing(self, connection: sa.Connection, repository: str) -> bool:
        """Enqueue a landing unless one is under way; the row of the repository says so."""
        query = sa.select(repositories.c.target, repositories.c.landing).where(repositories.c.id == repository)
        found = connection.execute(query.with_for_update()).mappings().one()
        if found["landing"]:
            return False
        id = f"{repository}:land:{self.count_landings(connection)}"
        connection.execute(sa.update(repositories).where(repositories.c.id == repository).values(landing=id))
        self.enqueue(connection, LANDING_WORKFLOW, LANDING_QUEUE, id, repository, found["target"])
        return True

    def count_landings(self, connection: sa.Connection) -> int:
        """Return a number that no landing had: the next of the feed, which is never reused."""
        add_event(self.store, connection, EventKind.LANDING, {"state": "asked"})
        return int(connection.execute(sa.select(sa.func.max(events.c.seq))).scalar_one())

    def finish_landing(self, repository: str) -> bool:
        """Say that no landing is under way, unless something was handed in meanwhile; return whether it is over."""
        with self.store.write() as connection:
            this = repositories.c.id == repository
            connection.execute(sa.select(repositories.c.id).where(this).with_for_update())
            waiting = sa.select(tasks.c.intent).where(
                tasks.c.repository == repository, tasks.c.state.in_(("handed_in", "landing"))
            )
            if connection.execute(waiting).first():
                return False
            connection.execute(sa.update(repositories).where(this).values(landing=""))
            return True

    def set_landed(self, hold: Hold, old: str, new: str, why: str) -> bool:
        """Record that a task has landed under this token, or with `why`, that a person has to look at it."""
        with self.store.write() as connection:
            task = find_task(connection, hold.key)
            now = find_hold(connection, hold.key)
            if task is None or now is None or now.token != hold.token or task.state in FINAL_STATES:
                return False
            if why:
                after = set_task(connection, task, state=TaskState.ASKING, why=why, returns_to=TaskState.HANDED_IN)
            else:
                after = set_task(connection, task, state=TaskState.LANDED, why="", landed=new)
                release_hold(connection, hold.key, hold.token)
            landing = {"repository": hold.repository, "old": old, "new": new, "members": [hold.intent], "why": why}
            state = "conflict" if why else "landed"
            connection.execute(sa.insert(landings).values(**landing, state=state, at=self.store.clock))
            self.tell_task(connection, after)
            return True

    # -- orders

    def give_order(self, order: Order) -> int:
        with self.store.write() as connection:
            row = row_of(order, orders) | {"at": self.store.clock}
            del row["id"]
            made = connection.execute(sa.insert(orders).values(**row).returning(orders.c.id)).scalar_one()
            add_event(
                *(self.store, connection, EventKind.ORDER, {"kind": str(order.kind), "by": order.by}),
                repository=order.repository,
                intent=order.intent,
            )
            for task in self.list_tasks(connection, order):
                self.apply_order(connection, task, order)
            return int(made)

    def list_tasks(self, connection: sa.Connection, order: Order) -> tuple[Task, ...]:
        chosen = [tasks.c.repository == order.repository]
        if order.intent:
            chosen.append(tasks.c.intent == order.intent)
        if order.kind is not OrderKind.RETRY:
            chosen.append(tasks.c.state.not_in(FINAL_STATES))
        return read_values(connection, Task, sa.select(tasks).where(*chosen))

    def apply_order(self, connection: sa.Connection, task: Task, order: Order) -> None:
        """Change what no worker has to change: tasks that wait, are paused, or are over."""
        state, kind = task.state, order.kind
        by = order.by or "a person"
        if kind is OrderKind.PAUSE and state in (TaskState.WAITING, TaskState.HELD, TaskState.RUNNING):
            after = set_task(connection, task, state=TaskState.PAUSED, returns_to=state, why=f"{by} paused it")
        elif kind is OrderKind.RESUME and state is TaskState.PAUSED:
            hold = find_hold(connection, task.key)
            back = (task.returns_to or TaskState.WAITING) if hold else TaskState.WAITING
            after = set_task(connection, task, state=back, returns_to=None, why="")
        elif kind in (OrderKind.STOP, OrderKind.DROP):
            after = set_task(connection, task, state=TaskState.DROPPED, why=f"{by} stopped it")
            live = find_hold(connection, task.key)
            if live is not None:
                self.end_live(connection, live, f"{by} stopped it")
                release_hold(connection, task.key, live.token)
        elif kind is OrderKind.RETRY and state in (TaskState.STUCK, TaskState.DROPPED, TaskState.BLOCKED):
            after = set_task(connection, task, state=TaskState.WAITING, attempts=0, why=f"{by} tries it again")
        else:
            return
        self.tell_task(connection, after)

    def end_live(self, connection: sa.Connection, hold: Hold, why: str) -> None:
        live = (
            attempts.c.repository == hold.repository,
            attempts.c.intent == hold.intent,
            attempts.c.attempt == hold.attempt,
            attempts.c.state != str(AttemptState.ENDED),
        )
        for attempt in read_values(connection, Attempt, sa.select(attempts).where(*live)):
            mark_ended(self.store, connection, attempt, AttemptEnd.CANCELLED, why)

    def take_orders(self, worker: str) -> Sequence[Order]:
        with self.store.write() as connection:
            mine = sa.select(attempts.c.intent).where(
                attempts.c.repository == orders.c.repository,
                attempts.c.worker == worker,
                attempts.c.state != str(AttemptState.ENDED),
                sa.or_(orders.c.intent == "", orders.c.intent == attempts.c.intent),
            )
            query = sa.select(orders).where(orders.c.taken_at.is_(None), sa.exists(mine))
            found = read_values(connection, Order, query)
            if found:
                taken = sa.update(orders).where(orders.c.id.in_([order.id for order in found]))
                connection.execute(taken.values(taken_at=self.store.clock))
            return found

    # -- reading

    def read_board(self) -> Board:
        with self.store.read() as connection:
            return self.load_board(connection)

    def load_board(self, connection: sa.Connection) -> Board:
        now = self.store.now(connection)
        alive = workers.c.beat_at >= self.store.clock - self.timing.dead_after_s
        shown_plans = sa.select(plans).order_by(plans.c.made_at)
        roles: dict[str, Role] = {}
        for row in connection.execute(sa.select(plans.c.roles)).scalars():
            roles |= convert(row or {}, dict[str, Role])
        proved = connection.execute(sa.select(proofs)).mappings().all()
        return Board(
            now=now,
            repositories=read_values(connection, FleetRepository, sa.select(repositories)),
            plans=read_values(connection, OpenPlan, shown_plans),
            tasks=read_values(connection, Task, sa.select(tasks).order_by(tasks.c.plan, tasks.c.intent)),
            holds=read_values(connection, Hold, sa.select(holds)),
            attempts=read_values(
                connection, Attempt, sa.select(attempts).where(attempts.c.state != str(AttemptState.ENDED))
            ),
            workers=read_values(connection, Worker, sa.select(workers).where(alive)),
            roles=roles,
            budgets=read_values(connection, SpendingBudget, sa.select(budgets)),
            breakers=read_values(connection, Breaker, sa.select(breakers)),
            proofs={
                (row["a_sha256"], row["b_sha256"]): Proof(ProofAnswer(row["answer"]), row["witness"]) for row in proved
            },
        )

    def read_events(self, after: int, limit: int = 500) -> Sequence[FleetEvent]:
        query = sa.select(events).where(events.c.seq > after).order_by(events.c.seq).limit(limit)
        with self.store.read() as connection:
            return read_values(connection, FleetEvent, query)

    def tell_task(self, connection: sa.Connection, task: Task) -> None:
        body = {"state": str(task.state), "why": task.why}
        add_event(
            *(self.store, connection, EventKind.TASK, body),
            repository=task.repository,
            plan=task.plan,
            intent=task.intent,
        )

    def tell_worker(self, connection: sa.Connection, worker: str, state: str) -> None:
        add_event(self.store, connection, EventKind.WORKER, {"worker": worker, "state": state})


def structs_as_rows(values: Mapping[str, Struct]) -> dict[str, Any]:
    return {name: structs.asdict(value) for name, value in values.items()}


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


def stop_executor() -> None:
    DBOS.destroy()


def register_workflows(engine: DbosEngine, runner: AttemptRunner) -> None:
    """Register the workflows with DBOS under their names."""

    def run_step(step: str, repository: str, intent: str, number: int, token: int) -> list[str]:
        attempt = engine.load_attempt(repository, intent, number)
        if attempt is None or attempt.token != token or not attempt.is_live:
            return [str(AttemptEnd.SUPERSEDED), "another attempt has its place"]
        end = runner.run_step(step, attempt)
        return [str(end.ended_as) if end.ended_as else "", end.why]

    def settle(repository: str, intent: str, token: int, ended_as: str, why: str) -> None:
        engine.end_attempt(token, (repository, intent), AttemptEnd(ended_as), why)
        engine.dispatch()

    @DBOS.workflow(name=ATTEMPT_WORKFLOW, max_recovery_attempts=MAX_RECOVERY_ATTEMPTS)
    def run_attempt(repository: str, intent: str, number: int, token: int) -> str:
        for name in ATTEMPT_STEPS:
            ended_as, why = DBOS.run_step({"name": name}, run_step, name, repository, intent, number, token)
            if ended_as:
                break
        else:
            ended_as, why = str(AttemptEnd.HANDED_IN), ""
        DBOS.run_step({"name": "settle"}, settle, repository, intent, token, ended_as, why)
        return ended_as

    @DBOS.workflow(name=LANDING_WORKFLOW, max_recovery_attempts=MAX_RECOVERY_ATTEMPTS)
    def land(repository: str, target: str) -> None:
        while True:
            DBOS.run_step({"name": "land"}, runner.land, repository, target)
            if DBOS.run_step({"name": "finish"}, engine.finish_landing, repository):
                return

    del run_attempt, land
