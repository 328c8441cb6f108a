"""Work in DBOS: the queues, and the workflows of attempts and landings run by an executor.

Each worker has its own queue, because scheduling names the worker; landings share one queue. Every DBOS name used by
Remit is imported here, and none is private; where it is used, as only workers need DBOS, which takes long to import.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import sqlalchemy as sa
from msgspec import Struct

from remit_fleet.board import Attempt, AttemptEnd, Claim, TaskKey, is_shared
from remit_fleet.database.store import AWAY_ERRORS, Store

if TYPE_CHECKING:
    from dbos import DBOSClient

T = TypeVar("T")
APPLICATION = "remit"
FLOW_VERSION = "remit-flow-1"
"""Version of the workflows: raised by hand when the steps of one change. Work of another version is never taken."""

ENGINE_SCHEMA = "dbos"
LANDING_QUEUE = "landing"
MAX_RECOVERY_ATTEMPTS = 5
ATTEMPT_WORKFLOW, LANDING_WORKFLOW = "attempt", "land"
ATTEMPT_STEPS = ("prepare", "run", "check", "hand_in")
ENDED_WORKFLOW_STATES = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
MAX_REASON = 500
RETENTION_S = 14 * 24 * 3600.0
DELETION_INTERVAL_S = 3600.0
MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 5.0
SPARE_THREADS = 6  # of an executor, beside one for each slot's workflow and one for its step


class StepEnd(Struct, frozen=True):
    """Result of a step: the attempt continues, or has ended. `failure` is the signature of a failure."""

    ended_as: AttemptEnd | None = None
    why: str = ""
    failure: str = ""


class AttemptRunner(Protocol):
    """Steps of a worker for an attempt, and for a landing. Each step may run twice."""

    def run_step(self, step: str, attempt: Attempt) -> StepEnd: ...

    def land(self, repository: str, target: str) -> None:
        """Land the handed-in tasks, train after train."""
        ...


class WorkflowBoard(Protocol):
    """Queries and reports of workflows to the board."""

    def load_attempt(self, repository: str, intent: str, number: int) -> Attempt | None: ...

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "", why: str = "") -> bool: ...

    def dispatch(self) -> tuple[Claim, ...]: ...

    def finish_landing(self, repository: str, target: str, workflow: str) -> bool: ...


class WorkQueues:
    """Queues of a fleet. Work is enqueued in the transaction of its decision."""

    def __init__(self, store: Store, client: "DBOSClient | None" = None) -> None:
        self.store = store
        self.client = client
        self.due_deletion_s: float = 0.0
        self.running: list[str] = []
        """Workflows that run in this process, once for each thread."""
        self.unheard: set[str] = set()

    def require_client(self) -> "DBOSClient":
        if self.client is None:
            self.client = open_client(self.store)
        return self.client

    def enqueue_attempt(self, connection: sa.Connection, attempt: Attempt) -> None:
        key = attempt.repository, attempt.intent, attempt.attempt, attempt.token
        self.enqueue(connection, ATTEMPT_WORKFLOW, worker_queue(attempt.worker), attempt.workflow_id, *key)

    def enqueue_landing(self, connection: sa.Connection, id: str, repository: str, target: str) -> None:
        self.enqueue(connection, LANDING_WORKFLOW, landing_queue(repository), id, repository, target)

    def enqueue(self, connection: sa.Connection, workflow: str, queue: str, id: str, *arguments: object) -> None:
        from dbos import EnqueueOptions

        options = EnqueueOptions(
            workflow_name=workflow,
            queue_name=queue,
            workflow_id=id,
            workflow_id_reuse_policy="reject",
            app_version=FLOW_VERSION,
        )
        self.require_client().enqueue_in_transaction(connection, options, *arguments)

    def cancel(self, ids: Sequence[str]) -> None:
        if ids:
            self.require_client().cancel_workflows(list(ids))

    def find_ended(self, ids: Collection[str]) -> dict[str, str]:
        """Return the ended workflows among the given ids, with the reason: broken, or started too often."""
        if not ids:
            return {}
        found = self.require_client().list_workflows(
            workflow_ids=list(ids), status=ENDED_WORKFLOW_STATES, load_input=False
        )
        return {status.workflow_id: str(status.error or status.status)[:MAX_REASON] for status in found}

    def resume_landings(self, alive: Collection[str]) -> None:
        """Give the landings of dead workers to live workers."""
        client = self.require_client()
        begun = client.list_workflows(status="PENDING", name=LANDING_WORKFLOW, load_input=False, load_output=False)
        orphans = [status.workflow_id for status in begun if status.executor_id not in alive]
        for id in orphans:
            client.resume_workflows([id], queue_name=landing_queue(id.partition(":")[0]))

    def resume_unheard(self, worker: str) -> None:
        """Enqueue again what this worker took from a queue without hearing of it: the server ended before its answer.

        What was taken just now runs in a moment, and is looked at again the next time.
        """
        client = self.require_client()
        taken = client.list_workflows(status="PENDING", executor_id=worker, load_input=False, load_output=False)
        unheard = {status.workflow_id: status.queue_name for status in taken if status.workflow_id not in self.running}
        for id in self.unheard.intersection(unheard):
            client.resume_workflows([id], queue_name=unheard.pop(id))
        self.unheard = set(unheard)

    def count_foreign(self) -> list[tuple[str, int]]:
        """Return the foreign versions of unfinished workflows, with the number of workflows of each version."""
        try:
            waiting = self.require_client().list_workflows(
                status=["ENQUEUED", "PENDING"], load_input=False, load_output=False
            )
        except AWAY_ERRORS:
            return []  # no worker has made the engine's tables yet
        versions = Counter(status.app_version or "" for status in waiting if status.app_version != FLOW_VERSION)
        return sorted(versions.items())

    def delete_old(self) -> None:
        """Delete the engine's rows of long-ended workflows. The feed and the ledger keep the relevant facts."""
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

    def delete_queue_of(self, worker: str) -> None:
        self.require_client().delete_queue(worker_queue(worker))


def worker_queue(worker: str) -> str:
    return f"attempts {worker}"


def landing_queue(repository: str) -> str:
    return f"{LANDING_QUEUE} {repository}" if is_shared(repository) else LANDING_QUEUE


def migrate_engine(store: Store, worker_role: str | None) -> None:
    """Migrate the engine's tables to its version, and let a role without the right to change tables use them."""
    from dbos import DBOS

    DBOS.migrate(store.url, schema=ENGINE_SCHEMA, application_role=worker_role)


def open_client(store: Store) -> "DBOSClient":
    """Return a client of the engine's tables. Raises if no worker has created the tables yet."""
    from dbos import DBOSClient, DBOSPortableJSONSerializer

    return DBOSClient(
        system_database_url=store.url,
        dbos_system_schema=ENGINE_SCHEMA,
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
        retry_connection_errors=False,
    )


def try_until_answered(ask: Callable[[], T]) -> T:
    pause_s = MIN_PAUSE_S
    while True:
        try:
            return ask()
        except AWAY_ERRORS:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)


def run_step(name: str, action: Callable[[], T]) -> T:
    """Run a step once, and write its result until the database takes it.

    DBOS itself waits for a lost connection alone: a full disk would end the workflow without a word, and its attempt or
    landing would seem to go on.
    """
    from dbos import DBOS

    results: list[T] = []

    def run_once() -> T:
        if not results:
            results.append(action())
        return results[0]

    return try_until_answered(lambda: DBOS.run_step({"name": name}, run_once))


def launch_executor(
    board: WorkflowBoard,
    queues: WorkQueues,
    worker: str,
    slots: int,
    poll_s: float,
    runner: AttemptRunner,
    repositories: Sequence[str] = (),
) -> None:
    """Register the workflows, and run the work of this worker's queues in threads until the process ends.

    A launch that fails can be tried again: nothing of it is left.
    """
    from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

    logging.getLogger("dbos").setLevel(logging.WARNING)
    # Once its file is gone, each thread fails at each look: the worker says so once, with the next step.
    logging.getLogger("dbos").addFilter(lambda record: not queues.store.has_lost_file())
    config = DBOSConfig(
        name=APPLICATION,
        system_database_url=queues.store.url,
        dbos_system_schema=ENGINE_SCHEMA,
        application_version=FLOW_VERSION,
        executor_id=worker,
        serializer=DBOSPortableJSONSerializer(),
        max_executor_threads=2 * slots + SPARE_THREADS,
        log_level="WARNING",
        run_migrations=queues.store.may_change_tables(),
    )
    DBOS(config=config)
    try:
        register_workflows(board, runner, queues.running)
        landing_queues = [LANDING_QUEUE, *map(landing_queue, repositories)]
        DBOS.listen_queues([worker_queue(worker), *landing_queues])
        DBOS.launch()
        queues.client = open_client(queues.store)
        register_queues(worker, slots, poll_s, repositories)
    except BaseException:
        DBOS.destroy(destroy_registry=True)
        raise


def register_queues(worker: str, slots: int, poll_s: float, repositories: Iterable[str] = ()) -> None:
    """Register the queues of this worker; called repeatedly.

    A worker that was silent for too long has lost its queue with its place, and may come back.
    """
    from dbos import DBOS

    landing_queues = (LANDING_QUEUE, *map(landing_queue, repositories))
    for queue, limit in ((worker_queue(worker), slots), *((name, 2) for name in landing_queues)):
        DBOS.register_queue(queue, worker_concurrency=limit, polling_interval_sec=poll_s, on_conflict="always_update")


def register_workflows(board: WorkflowBoard, runner: AttemptRunner, running: list[str]) -> None:
    from dbos import DBOS

    @contextmanager
    def run_counted() -> Generator[str]:
        id = str(DBOS.workflow_id)
        running.append(id)
        try:
            yield id
        finally:
            running.remove(id)

    def run_attempt_step(step: str, repository: str, intent: str, number: int, token: int) -> list[str]:
        attempt = try_until_answered(lambda: board.load_attempt(repository, intent, number))
        if attempt is None or attempt.token != token or not attempt.is_live:
            return [str(AttemptEnd.SUPERSEDED), "another attempt has its place", ""]
        end = runner.run_step(step, attempt)
        return [str(end.ended_as) if end.ended_as else "", end.why, end.failure]

    def settle(repository: str, intent: str, token: int, ended_as: str, why: str, failure: str) -> None:
        end = AttemptEnd(ended_as)
        try_until_answered(lambda: board.end_attempt(token, (repository, intent), end, failure, why))
        try_until_answered(board.dispatch)

    def land_all(repository: str, target: str) -> None:
        try_until_answered(lambda: runner.land(repository, target))

    def finish(repository: str, target: str, workflow: str) -> bool:
        return try_until_answered(lambda: board.finish_landing(repository, target, workflow))

    @DBOS.workflow(name=ATTEMPT_WORKFLOW, max_recovery_attempts=MAX_RECOVERY_ATTEMPTS)
    def run_attempt(repository: str, intent: str, number: int, token: int) -> str:
        key = repository, intent, number, token
        with run_counted():
            for name in ATTEMPT_STEPS:
                ended_as, why, failure = run_step(name, partial(run_attempt_step, name, *key))
                if ended_as:
                    break
            else:
                ended_as, why, failure = str(AttemptEnd.HANDED_IN), "", ""
            run_step("settle", partial(settle, repository, intent, token, ended_as, why, failure))
        return ended_as

    @DBOS.workflow(name=LANDING_WORKFLOW, max_recovery_attempts=MAX_RECOVERY_ATTEMPTS)
    def land(repository: str, target: str) -> None:
        with run_counted() as workflow:
            while True:
                run_step("land", partial(land_all, repository, target))
                if run_step("finish", partial(finish, repository, target, workflow)):
                    return

    del run_attempt, land
