"""Executor of a host: its slots, heartbeat and renewals, the sweep by one leader, and landing.

A short outage of the database stops no agent: the loop retries, and an agent with a possibly expired lease is ended
here before a new attempt can take its place.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from remit.gate.context import RECORDING_ERRORS
from remit.workspace.place.assignment_file import read_boot_clock_ns
from remit.workspace.processes.process_tracking import pid_namespace, process_start_time
from remit_fleet.board import Attempt, AttemptEnd, TaskState, Worker
from remit_fleet.database.store import AWAY_ERRORS, StoreError, become_leader
from remit_fleet.database.troubles import describe_trouble
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.workflows import FLOW_VERSION, StepEnd, launch_executor, register_queues
from remit_fleet.pruning import prune_when_due
from remit_fleet.states import FINAL_STATES
from remit_fleet.workers.agent import list_without_model
from remit_fleet.workers.attempt_steps import AttemptSteps
from remit_fleet.workers.host import WorkerHost, WorkerSettings
from remit_fleet.workers.landing_rounds import land_handed_in
from remit_fleet.workers.meetings import write_lessons
from remit_fleet.workers.workplaces import DRAIN_S, Workplaces

MAX_RETRY_S = 5.0
LANDING_LOCK_S = 24 * 3600.0


def name_worker() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = boot.read_text().strip()[:8] if boot.exists() else "0"
    world = pid_namespace().strip("pid:[]")
    return f"{socket.gethostname()}:{boot_id}-{world}:{os.getpid()}:{process_start_time(os.getpid())}"


def has_worker_ended(worker: str) -> bool | None:
    """Return whether a worker's process has ended; None for another host's, or one that cannot be seen from here."""
    here, there = name_worker().split(":"), worker.split(":")
    if len(there) != len(here) or there[:2] != here[:2]:
        return None
    pid, started = int(there[2]), there[3]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return None
    return process_start_time(pid) != started


class FleetWorker:
    """Executor. `run_until_stopped` blocks until the worker is drained, idle, or `stopping` is set; the engine's
    threads end with the process.
    """

    def __init__(self, engine: DbosEngine, settings: WorkerSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.id = name_worker()
        self.stopping = threading.Event()
        self.host = WorkerHost(engine, settings, self.stopping)
        self.places = Workplaces(self.host)
        self.steps = AttemptSteps(self.host, self.places)
        self.last_order = 0
        self.away_since_s: float | None = None
        self.landings: set[tuple[str, str]] = set()
        """Repository and target of what this worker lands now."""

    def describe(self) -> Worker:
        return Worker(
            id=self.id,
            host=socket.gethostname(),
            boot=self.id.split(":")[1],
            slots=self.settings.slots,
            agents=tuple(self.settings.commands),
            version=self.settings.version,
            flow=FLOW_VERSION,
            repositories=tuple(self.settings.clones),
            needs_model=list_without_model(self.settings.commands, self.settings.variables),
        )

    def run_until_stopped(self, announce_ready: Callable[[], None] = lambda: None) -> None:
        """Run until stopped, drained or idle. Raises StoreError for a database unusable by this worker."""
        timing = self.engine.timing
        slots, clones = self.settings.slots, tuple(self.settings.clones)
        self.retry(lambda: self.engine.require_new_worker(self.id))
        queues = self.engine.queues
        self.retry(lambda: launch_executor(self.engine, queues, self.id, slots, timing.poll_s, self, clones))
        try:
            self.retry(self.beat)
            announce_ready()
            due_beat, due_sweep = time.monotonic() + timing.beat_s / 2, 0.0
            while not self.stopping.wait(timing.poll_s):
                if self.has_new_order() or time.monotonic() >= due_beat:
                    due_beat = time.monotonic() + timing.beat_s / 2
                    self.try_once(self.beat)
                self.places.end_overdue()
                if time.monotonic() >= due_sweep:
                    due_sweep = time.monotonic() + timing.sweep_s
                    self.try_once(self.look_after_fleet)
                    if self.settings.until_idle and self.is_idle():
                        break
        finally:
            with suppress(StoreError):
                self.try_once(self.drain_slots)
                self.try_once(lambda: self.engine.remove_worker(self.id))
            for token in list(self.places.by_token):
                self.places.end(token, AttemptEnd.LOST, "its worker was stopped")
            self.places.wait_until_left()

    def drain_slots(self) -> None:
        self.engine.drain_worker(self.id)
        for place in list(self.places.by_token.values()):
            place.cancel(AttemptEnd.LOST, "its worker was stopped")
        self.places.wait_until_left()

    def retry(self, action: Callable[[], None]) -> None:
        """Repeat the action until the database answers, or the worker is stopped."""
        pause_s = 0.1
        while not self.try_once(action):
            if self.stopping.wait(pause_s):
                return
            pause_s = min(2 * pause_s, MAX_RETRY_S)

    def try_once(self, action: Callable[[], None]) -> bool:
        now = time.monotonic()
        try:
            action()
        except AWAY_ERRORS as error:
            if self.away_since_s is None:
                self.away_since_s = now
                trouble = describe_trouble(error)
                self.settings.tell(f"{trouble.what}\nhint: {trouble.fix}")
            return False
        if self.away_since_s is not None:
            self.settings.tell(f"the fleet database answers again, after {now - self.away_since_s:.0f} s")
            self.away_since_s = None
        return True

    def has_new_order(self) -> bool:
        try:
            newest = self.engine.find_newest_order()
        except AWAY_ERRORS:
            return False
        known, self.last_order = self.last_order, newest
        return newest != known

    def beat(self) -> None:
        """Renew the leases, take orders, end agents of superseded attempts, and update paused assignments."""
        asked = read_boot_clock_ns() / 1e9
        held = {hold.token: hold for hold in self.engine.beat(self.describe())}
        for order in self.engine.take_orders(self.id):
            self.places.take_message(order)
        board = self.engine.read_board() if held else None
        for token, place in list(self.places.by_token.items()):
            if token not in held:
                self.places.end(token, AttemptEnd.SUPERSEDED, "another attempt has its place")
                if place.process is None:  # between two steps: none of them comes
                    self.places.run_aside(place, partial(self.places.leave, token))
            elif board is not None:
                self.places.renew(place, held[token], board, asked)
                self.places.relay(place, board.tasks.get(held[token].key), board)
                self.places.watch_denials(place, held[token], board)
                self.places.watch_scope(place, held[token], board)
        if board is not None:
            self.places.watch_budgets(board)

    def look_after_fleet(self) -> None:
        with self.engine.store.write() as connection:
            self.engine.store.require_version(connection)
            for_s = 3 * self.engine.timing.sweep_s
            leads = become_leader(self.engine.store, connection, "sweep", self.id, for_s)
        register_queues(self.id, self.settings.slots, self.engine.timing.poll_s, self.settings.clones)
        self.engine.queues.resume_unheard(self.id)
        if leads:
            self.engine.sweep(has_worker_ended)
        if not self.engine.is_draining(self.id):
            self.engine.dispatch()
        elif not self.places.by_token and not self.landings:
            self.stopping.set()

    def is_idle(self) -> bool:
        try:
            board = self.engine.read_board()
        except AWAY_ERRORS:
            return False
        quiet = (*FINAL_STATES, TaskState.ASKING, TaskState.PAUSED)
        return not self.places.by_token and all(task.state in quiet for task in board.tasks.values())

    def run_step(self, step: str, attempt: Attempt) -> StepEnd:
        return self.steps.run(step, attempt)

    def land(self, repository: str, target: str) -> None:
        self.landings.add((repository, target))
        try:
            self.land_on_target(repository, target)
        finally:
            self.landings.discard((repository, target))
        if self.stopping.is_set():
            time.sleep(DRAIN_S)  # the process ends, and another worker goes on

    def land_on_target(self, repository: str, target: str) -> None:
        # There is one worktree for verification.
        with self.host.lock(repository, "landing", LANDING_LOCK_S), self.host.open_gate(repository) as gate:
            trees = self.host.open_trees(repository)
            land_handed_in(self.engine, gate, trees, repository, target, self.stopping.wait)
            with suppress(*RECORDING_ERRORS):
                write_lessons(self.engine.store, gate, repository)
            count = prune_when_due(gate, self.engine.read_board(), repository, trees.folder / "pruned")
            if count:
                self.settings.tell(f"{count} old refs that the target holds were deleted, here and on the remote")
