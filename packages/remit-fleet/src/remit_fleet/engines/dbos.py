"""Engine on DBOS: durable attempts and landings, with Remit's own claims, leases, fencing and sweeping.

DBOS does not detect dead executors; `sweep` does. The queues and workflows are defined in `workflows`.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    Board,
    Ending,
    EventKind,
    FleetEvent,
    FleetRepository,
    LandingRun,
    TaskKey,
)
from remit_fleet.database.rows import DatabaseRows, change_rows, is_key
from remit_fleet.database.store import (
    Store,
    StoreError,
    attempts,
    events,
    landers,
    orders,
    read_values,
    workers,
)
from remit_fleet.engines.engine import Engine
from remit_fleet.engines.workflows import WorkQueues
from remit_fleet.moves import give_up_landing


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


class DbosEngine(Engine):
    """Engine on the fleet database. Only a worker's has a client, and enqueues."""

    def __init__(self, store: Store, timing: Timing | None = None) -> None:
        self.store = store
        self.timing = timing or Timing()
        self.lease_s = self.timing.lease_s
        self.queues = WorkQueues(store)

    @contextmanager
    def change(self, repository: str = "") -> Generator[DatabaseRows]:
        with change_rows(self.store, repository) as rows:
            yield rows
            for effect in rows.effects:
                if isinstance(effect, LandingRun):
                    place = effect.repository, effect.target
                    self.queues.enqueue_landing(rows.connection, effect.workflow, *place)
                else:
                    self.queues.enqueue_attempt(rows.connection, effect)

    def add_repository(self, repository: FleetRepository) -> None:
        """Register a repository, or update its settings; its tokens continue."""
        with self.change() as rows:
            known = rows.repositories.get(repository.id)
            token = repository.token_last if known is None else known.token_last
            rows.repositories[repository.id] = replace(repository, token_last=token)

    # -- workers

    def require_new_worker(self, id: str) -> None:
        """Raise StoreError if the fleet knows a worker of this name: two such workers would repeat the same work."""
        if self.store.rows(sa.select(workers.c.id).where(workers.c.id == id)):
            raise StoreError(f"the fleet has a worker {id!r} already\nhint: start one of the two again")

    def is_draining(self, worker: str) -> bool:
        found = self.store.rows(sa.select(workers.c.draining).where(workers.c.id == worker))
        return bool(found and found[0]["draining"])

    def drain_worker(self, worker: str) -> bool:
        """Stop giving work to a worker; return whether the worker is known."""
        with self.change() as rows:
            known = rows.workers.get(worker)
            if known is not None:
                rows.workers[worker] = replace(known, draining=True)
            return known is not None

    def remove_worker(self, worker: str, how: str = "left") -> None:
        """Remove a worker, and end its running attempts."""
        with self.change() as rows:
            left = rows.live.find(worker=worker)
        self.end_lost(left)
        with self.change() as rows:
            if rows.workers.get(worker) is not None:
                rows.workers.pop(worker, None)
                rows.tell(EventKind.WORKER, {"worker": worker, "state": how})
        self.queues.delete_queue_of(worker)

    def sweep(self, has_ended: Callable[[str], bool | None] = lambda _: None) -> Sequence[Ending]:
        """End what a rule ends, and what dead workers left. `has_ended` tells whether a worker's process has ended, or
        None: a worker seen to run is only slow until its lease is over, and an ended one is not waited for.
        """
        endings = self.end_overdue()
        known = sa.select(workers, (self.store.clock - workers.c.beat_at).label("age_s"))
        patience_s = {True: 0.0, None: self.timing.dead_after_s, False: self.timing.lease_s}
        for row in self.store.rows(known):
            if row["age_s"] > patience_s[has_ended(row["id"])]:
                self.remove_worker(row["id"], "lost")
        self.release_waiting()
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
        live = {attempt.workflow_id: attempt for attempt in self.read_board().attempts.values()}
        for id, why in self.queues.find_ended(live).items():
            self.end_attempt(live[id].token, live[id].key, AttemptEnd.FAILED, "workflow", f"its workflow broke: {why}")

    def end_broken_landings(self) -> None:
        with self.store.read() as connection:
            under_way = {lander.workflow: lander for lander in read_values(connection, LandingRun, sa.select(landers))}
        for id, why in self.queues.find_ended(under_way).items():
            with self.change(under_way[id].repository) as rows:
                give_up_landing(rows, under_way[id], why)

    def resume_landings(self) -> None:
        self.queues.resume_landings({row["id"] for row in self.store.rows(sa.select(workers.c.id))})

    def count_foreign_workflows(self) -> list[tuple[str, int]]:
        """Return the foreign versions of unfinished workflows, with the number of workflows of each version."""
        return self.queues.count_foreign()

    # -- reading

    def load_attempt(self, repository: str, intent: str, number: int) -> Attempt | None:
        found = self.list_attempts((repository, intent))
        return next((attempt for attempt in found if attempt.attempt == number), None)

    def list_attempts(self, key: TaskKey) -> tuple[Attempt, ...]:
        query = sa.select(attempts).where(*is_key(attempts, key)).order_by(attempts.c.attempt)
        with self.store.read() as connection:
            return read_values(connection, Attempt, query)

    def read_board(self) -> Board:
        """Return the current board. Only workers with a recent heartbeat are included."""
        with self.store.read() as connection:
            board = DatabaseRows(self.store, connection).read_board()
        since = board.now - self.timing.dead_after_s
        return replace(board, workers={id: each for id, each in board.workers.items() if each.beat_at >= since})

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
