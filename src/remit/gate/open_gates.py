"""Gates kept open by a process that stays, the turns of calls in each repository, and the watchers of its worktrees."""

import select
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.state.workspace_state import WatchStatus
from remit.ledger.index import INDEX_FILE
from remit.ledger.sqlite_file import HeldDatabase
from remit.workspace.git.command import GitError
from remit.workspace.observe.incremental import IncrementalObserver
from remit.workspace.observe.observation import Observation, observe_workspace
from remit.workspace.place.workspace import Workspace, is_repository_registered
from remit.workspace.processes.process_tracking import ProcessFollower, Suspect

MAX_WATCHERS = 16
POLL_INTERVAL_MS = 250
SETTLE_S = 0.2  # quiet time before watching anew after lost events: a checkout loses events many times in a row
RETRY_S = 5.0

MAX_REPOSITORIES = 32
MAX_GATES = 8  # gates of one repository: one for each worktree and each intent named by `REMIT_INTENT`


class WorktreeWatcher:
    """Watcher of one worktree in a thread of its own, used as a gate's observer."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.dirty_set: IncrementalObserver | None = None
        self.following = ProcessFollower(workspace.root)
        self.stopped = threading.Event()
        threading.Thread(target=self.watch_changes, daemon=True).start()

    @property
    def status(self) -> WatchStatus:
        if self.dirty_set is None:
            return WatchStatus("it has only just begun to watch")
        tree = self.dirty_set.watched_tree
        return WatchStatus(self.dirty_set.find_full_look_reason(), len(tree.watches), bool(tree.end_reason))

    def observe(self, *, fully: bool = False) -> Observation:
        """Return the workspace's observation; a full one until the watcher is ready. Raises GitError."""
        self.following.note_call()
        return self.dirty_set.observe(fully=fully) if self.dirty_set else observe_workspace(self.workspace)

    def suspects(self) -> dict[str, tuple[Suspect, ...]]:
        return self.following.suspects()

    def watch_changes(self) -> None:
        """Start watching, and take in events as they come: the kernel's queue is bounded."""
        dirty = IncrementalObserver(self.workspace)
        while not self.stopped.is_set():
            try:
                dirty.restart_watching()
                self.dirty_set = dirty
                self.wait_for_changes(dirty)
            except (GitError, OSError, ValueError):  # the queue was closed meanwhile: the next observation is full
                self.stopped.wait(SETTLE_S)
        dirty.close()

    def wait_for_changes(self, dirty: IncrementalObserver) -> None:
        queue = dirty.watched_tree.queue
        if queue is None or dirty.watched_tree.lost_reason:
            self.stopped.wait(RETRY_S if dirty.watched_tree.end_reason else SETTLE_S)
            return
        poll = select.poll()
        poll.register(queue.descriptor, select.POLLIN)
        due = self.following.next_look_s
        news = bool(poll.poll(POLL_INTERVAL_MS if due is None else min(POLL_INTERVAL_MS, due * 1000)))
        if news and dirty.watched_tree.queue is queue:
            dirty.watched_tree.read_events()
        if self.following.is_due(news=news):
            with dirty.watched_tree.lock:
                pending = [*dirty.watched_tree.changed_files]
            self.following.look(pending)

    def close(self) -> None:
        self.stopped.set()


class WorktreeWatchers:
    """Watchers by worktree, the latest used last."""

    def __init__(self) -> None:
        self.watchers: OrderedDict[Path, WorktreeWatcher] = OrderedDict()
        self.lock = threading.Lock()

    @property
    def has_suspects(self) -> bool:
        """Return True if a file changed while a call's background process was alive, and the facts are complete."""
        with self.lock:
            followers = [watch.following for watch in self.watchers.values()]
        return any(follower.suspects_by_path and follower.is_settled_enough for follower in followers)

    def find_watcher(self, workspace: Workspace) -> WorktreeWatcher:
        with self.lock:
            found = self.watchers.get(workspace.root)
            if found is None or found.workspace != workspace or found.stopped.is_set():
                if found is not None:
                    found.close()
                found = self.watchers[workspace.root] = WorktreeWatcher(workspace)
            self.watchers.move_to_end(workspace.root)
            while len(self.watchers) > MAX_WATCHERS:
                self.watchers.popitem(last=False)[1].close()
            return found


class DaemonLeaving(BaseException):
    """Signal that the daemon leaves while a call waits for a person: a fresh process answers the call.

    No Exception: code that turns failures into answers has to let the signal pass.
    """


class KeptGate:
    """Open gate with the number of calls using the gate."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.user_count = 0
        self.is_dropped = False

    def close_if_done(self) -> None:
        if self.is_dropped and not self.user_count:
            self.gate.close()


class Repository:
    """Repository with its worktrees: they share a log and a state database, hence their calls take turns.

    A decision takes milliseconds and sees every earlier decision. `call_count` counts calls judged now, waiting for
    their turn, or waiting for a person. Only the holder of the turn touches `open_gates`.
    """

    def __init__(self, state: Path, leaving: threading.Event, watches: WorktreeWatchers | None = None) -> None:
        self.turn_lock = threading.Lock()
        self.held_index = HeldDatabase(state / INDEX_FILE)
        self.call_count = 0
        self.leaving = leaving
        self.watches = watches
        self.open_gates: OrderedDict[tuple[Path, str | None], KeptGate] = OrderedDict()

    @contextmanager
    def let_others_pass(self) -> Generator[None]:
        if self.leaving.is_set():
            raise DaemonLeaving
        self.turn_lock.release()
        try:
            yield
        finally:
            self.turn_lock.acquire()

    @contextmanager
    def open_gate(self, workspace: Workspace, environment: Environment) -> Generator[Gate]:
        """Yield the workspace's gate; reopened if its state was replaced."""
        kept = self.find_gate(workspace, replace(environment, release_lock=self.let_others_pass))
        kept.user_count += 1
        try:
            yield kept.gate
        finally:
            kept.user_count -= 1
            kept.close_if_done()
            self.held_index.renew()

    def find_gate(self, workspace: Workspace, environment: Environment) -> KeptGate:
        key = (workspace.root, environment.bound_intent)
        known = self.open_gates.get(key)
        if known is not None:
            gate = known.gate
            if gate.found_workspace == workspace and gate.environment == environment and gate.is_current():
                self.open_gates.move_to_end(key)
                return known
        self.drop_gate(key)
        while len(self.open_gates) >= MAX_GATES:
            self.drop_gate(next(iter(self.open_gates)))
        gate = Gate(workspace, environment)
        gate.serves_many_calls = True
        gate.observer = self.watches.find_watcher(workspace) if self.watches and workspace.common_dir else None
        self.open_gates[key] = KeptGate(gate)
        return self.open_gates[key]

    def drop_gate(self, key: tuple[Path, str | None]) -> None:
        known = self.open_gates.pop(key, None)
        if known is not None:
            known.is_dropped = True
            known.close_if_done()


class OpenGates:
    """Gates that stay open between calls, by repository. `table_lock` guards the table, never during a call."""

    def __init__(self, leaving: threading.Event | None = None, watches: WorktreeWatchers | None = None) -> None:
        self.leaving = leaving or threading.Event()
        self.watches = watches
        self.repositories: OrderedDict[Path, Repository] = OrderedDict()
        self.table_lock = threading.Lock()

    @contextmanager
    def __call__(self, workspace: Workspace | None, environment: Environment) -> Generator[Gate]:
        """Yield the workspace's gate for the duration of the call's turn in the repository."""
        if workspace is None or not (workspace.is_governed or is_repository_registered(environment.home, workspace)):
            yield Gate(workspace, environment)
            return
        with self.take_turn(workspace.state) as repository, repository.open_gate(workspace, environment) as gate:
            yield gate

    @contextmanager
    def take_turn(self, state: Path) -> Generator[Repository]:
        """Wait for the turn in the repository with this state folder; surplus idle repositories are forgotten."""
        with self.table_lock:
            repository = self.repositories.setdefault(state, Repository(state, self.leaving, self.watches))
            repository.call_count += 1
            self.repositories.move_to_end(state)
            surplus = len(self.repositories) - MAX_REPOSITORIES
            idle = [key for key, each in self.repositories.items() if not each.call_count]
            gone = [self.repositories.pop(key) for key in idle[: max(0, surplus)]]
        for each in gone:
            for key in list(each.open_gates):
                each.drop_gate(key)
            each.held_index.close()
        try:
            with repository.turn_lock:
                yield repository
        finally:
            with self.table_lock:
                repository.call_count -= 1

    def for_each_gate(self, act: Callable[[Gate], object]) -> None:
        """Run `act` in every open gate, in its turn. Failures are logged: they would end the upkeep thread."""
        with self.table_lock:
            states = list(self.repositories)
        for state in states:
            with self.take_turn(state) as repository:
                for kept in [*repository.open_gates.values()]:
                    try:
                        if kept.gate.workspace.is_governed:
                            act(kept.gate)
                    except RECORDING_ERRORS as error:
                        write_log_line(f"left for later: {error}")
                    except Exception as error:  # noqa: BLE001  a defect that one repository meets is not the others'
                        write_log_line(f"broke in {kept.gate.workspace.root}: {type(error).__name__}: {error}")


def write_log_line(message: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{now} remit: {' '.join(message.split())}\n")
