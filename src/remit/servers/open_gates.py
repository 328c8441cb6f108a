"""The gates that a warm process keeps open, and whose turn it is in each repository."""

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
"""Of one repository: a worktree and an intent that `REMIT_INTENT` names have each a gate of their own."""


class DaemonLeaving(BaseException):
    """This process leaves while a call waits for a person: that call gets no answer here, and asks a fresh process.

    It is no Exception: what turns failures into answers has to let it through.
    """


class KeptGate:
    """A gate that stays open, and how many calls use it now."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.user_count = 0
        self.is_dropped = False

    def close_if_done(self) -> None:
        """Let go of its files where nobody will come back for it."""
        if self.is_dropped and not self.user_count:
            self.gate.close()


class Repository:
    """One repository with its worktrees: they share a log and a state database, so their calls take turns.

    A decision takes milliseconds, and sees all before it. `inside` are the calls that are here: judged now, waiting
    for their turn, or letting others pass while a person thinks. `kept` is touched only by who has the turn.
    """

    def __init__(self, leaving: threading.Event, watches: WorktreeWatchers | None = None) -> None:
        self.turn_lock = threading.Lock()
        self.call_count = 0
        self.leaving = leaving
        self.watches = watches
        self.open_gates: OrderedDict[tuple[Path, str | None], KeptGate] = OrderedDict()

    @contextmanager
    def let_others_pass(self) -> Generator[None]:
        """Let other calls pass while this one waits for a person. Raises Leaving."""
        if self.leaving.is_set():
            raise DaemonLeaving
        self.turn_lock.release()
        try:
            yield
        finally:
            self.turn_lock.acquire()

    @contextmanager
    def open_gate(self, workspace: Workspace, environment: Environment) -> Generator[Gate]:
        """The gate of this workspace, opened where it is not yet, or where its state was replaced meanwhile."""
        kept = self.find_gate(workspace, replace(environment, release_lock=self.let_others_pass))
        kept.user_count += 1
        try:
            yield kept.gate
        finally:
            kept.user_count -= 1
            kept.close_if_done()

    def find_gate(self, workspace: Workspace, environment: Environment) -> KeptGate:
        """The one that is open, where it still holds; else a new one."""
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
        """Keep that gate no longer; the last call that uses it closes it."""
        known = self.open_gates.pop(key, None)
        if known is not None:
            known.is_dropped = True
            known.close_if_done()


class OpenGates:
    """Gates that stay open between calls. Repositories never wait for each other; the least lately used goes first."""

    def __init__(self, leaving: threading.Event | None = None, watches: WorktreeWatchers | None = None) -> None:
        self.leaving = leaving or threading.Event()
        self.watches = watches
        self.repositories: OrderedDict[Path, Repository] = OrderedDict()
        self.table_lock = threading.Lock()
        """For `repositories` and their `inside`: held while one is looked up, never while one works."""

    @contextmanager
    def __call__(self, workspace: Workspace | None, environment: Environment) -> Generator[Gate]:
        """The gate of this workspace, for as long as it is this call's turn in the repository."""
        if workspace is None or not (workspace.is_governed or is_repository_registered(environment.home, workspace)):
            yield Gate(workspace, environment)
            return
        with self.take_turn(workspace.state) as repository, repository.open_gate(workspace, environment) as gate:
            yield gate

    @contextmanager
    def take_turn(self, state: Path) -> Generator[Repository]:
        """Wait for one's turn in the repository with this state folder."""
        repository = self.enter_repository(state)
        try:
            with repository.turn_lock:
                yield repository
        finally:
            with self.table_lock:
                repository.call_count -= 1

    def enter_repository(self, state: Path) -> Repository:
        """The repository, with this call inside; where there are too many, one that nobody is in is forgotten."""
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
        """Do this in every open gate, in its turn. What cannot be done is reported, and ends nothing else.

        There is a next time, and a thread that ended here would keep house for nobody any more.
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
    """One line of the daemon's log."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{now} remit: {' '.join(message.split())}\n")
