"""Gates kept open by the daemon, and the turns of calls in each repository."""

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from remit.gate.answer import RECORDING_ERRORS
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.servers.watchers import WorktreeWatchers
from remit.workspace.place.governed_repositories import is_repository_registered
from remit.workspace.place.workspace import Workspace

MAX_REPOSITORIES = 32
MAX_GATES = 8
"""Gates of one repository: one for each worktree and each intent named by `REMIT_INTENT`."""


class DaemonLeaving(BaseException):
    """Signal that the daemon leaves while a call waits for a person: a fresh process answers the call.

    No Exception: code that turns failures into answers has to let the signal pass.
    """


class KeptGate:
    """Open gate with the number of calls that use it."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.user_count = 0
        self.is_dropped = False

    def close_if_done(self) -> None:
        if self.is_dropped and not self.user_count:
            self.gate.close()


class Repository:
    """Repository with its worktrees: they share a log and a state database, so their calls take turns.

    A decision takes milliseconds and sees every earlier one. `call_count` counts calls judged now, waiting for their
    turn, or waiting for a person. Only the holder of the turn touches `open_gates`.
    """

    def __init__(self, leaving: threading.Event, watches: WorktreeWatchers | None = None) -> None:
        self.turn_lock = threading.Lock()
        self.call_count = 0
        self.leaving = leaving
        self.watches = watches
        self.open_gates: OrderedDict[tuple[Path, str | None], KeptGate] = OrderedDict()

    @contextmanager
    def let_others_pass(self) -> Generator[None]:
        """Release the turn while this call waits for a person. Raises DaemonLeaving."""
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

    def find_gate(self, workspace: Workspace, environment: Environment) -> KeptGate:
        key = (workspace.root, environment.bound_intent)
        known = self.open_gates.get(key)
        if (
            known
            and known.gate.found_workspace == workspace
            and known.gate.environment == environment
            and known.gate.is_current()
        ):
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
        """Remove a gate; its last call closes it."""
        known = self.open_gates.pop(key, None)
        if known is not None:
            known.is_dropped = True
            known.close_if_done()


class OpenGates:
    """Gates that stay open between calls. Repositories never wait for each other; the least recently used is closed."""

    def __init__(self, leaving: threading.Event | None = None, watches: WorktreeWatchers | None = None) -> None:
        self.leaving = leaving or threading.Event()
        self.watches = watches
        self.repositories: OrderedDict[Path, Repository] = OrderedDict()
        self.table_lock = threading.Lock()
        """Guards `repositories` and their `call_count`: held during a lookup, never during a call."""

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
        """Wait for the turn in the repository with this state folder."""
        repository = self.enter_repository(state)
        try:
            with repository.turn_lock:
                yield repository
        finally:
            with self.table_lock:
                repository.call_count -= 1

    def enter_repository(self, state: Path) -> Repository:
        """Return the repository with this call counted; surplus idle repositories are forgotten."""
        with self.table_lock:
            repository = self.repositories.setdefault(state, Repository(self.leaving, self.watches))
            repository.call_count += 1
            self.repositories.move_to_end(state)
            surplus = len(self.repositories) - MAX_REPOSITORIES
            idle = [key for key, each in self.repositories.items() if not each.call_count]
            gone = [self.repositories.pop(key) for key in idle[: max(0, surplus)]]
        for each in gone:
            for key in list(each.open_gates):
                each.drop_gate(key)
        return repository

    def for_each_gate(self, act: Callable[[Gate], object]) -> None:
        """Run `act` in every open gate, in its turn. Failures are logged and stop no further work.

        A failed task is repeated next time; an exception here would end the upkeep thread for good.
        """
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
