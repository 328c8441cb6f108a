"""The gates that a warm process keeps open, and whose turn it is in each repository."""

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from remit.gate.answer import CannotRecord
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.servers.watches import Watches
from remit.workspace.place import Workspace
from remit.workspace.registry import registered

MOST_REPOSITORIES = 32
MOST_GATES = 8
"""Of one repository: a worktree and an intent that `REMIT_INTENT` names have each a gate of their own."""


class Leaving(BaseException):
    """This process leaves while a call waits for a person: that call gets no answer here, and asks a fresh process.

    It is no Exception: what turns failures into answers has to let it through.
    """


class Kept:
    """A gate that stays open, and how many calls use it now."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.users = 0
        self.dropped = False

    def close_if_done(self) -> None:
        """Let go of its files where nobody will come back for it."""
        if self.dropped and not self.users:
            self.gate.close()


class Repository:
    """One repository with its worktrees: they share a log and a state database, so their calls take turns.

    A decision takes milliseconds, and sees all before it. `inside` are the calls that are here: judged now, waiting
    for their turn, or letting others pass while a person thinks. `kept` is touched only by who has the turn.
    """

    def __init__(self, leaving: threading.Event, watches: Watches | None = None) -> None:
        self.turn = threading.Lock()
        self.inside = 0
        self.leaving = leaving
        self.watches = watches
        self.kept: OrderedDict[tuple[Path, str | None], Kept] = OrderedDict()

    @contextmanager
    def others_first(self) -> Generator[None]:
        """Let other calls pass while this one waits for a person. Raises Leaving."""
        if self.leaving.is_set():
            raise Leaving
        self.turn.release()
        try:
            yield
        finally:
            self.turn.acquire()

    @contextmanager
    def gate(self, workspace: Workspace, around: Environment) -> Generator[Gate]:
        """The gate of this workspace, opened where it is not yet, or where its state was replaced meanwhile."""
        kept = self.found(workspace, replace(around, unlocked=self.others_first))
        kept.users += 1
        try:
            yield kept.gate
        finally:
            kept.users -= 1
            kept.close_if_done()

    def found(self, workspace: Workspace, around: Environment) -> Kept:
        """The one that is open, where it still holds; else a new one."""
        key = (workspace.root, around.bound_intent)
        known = self.kept.get(key)
        if known and known.gate.found == workspace and known.gate.environment == around and known.gate.current():
            self.kept.move_to_end(key)
            return known
        self.drop(key)
        while len(self.kept) >= MOST_GATES:
            self.drop(next(iter(self.kept)))
        gate = Gate(workspace, around)
        gate.kept_open = True
        gate.observer = self.watches.of(workspace) if self.watches and workspace.common_dir else None
        self.kept[key] = Kept(gate)
        return self.kept[key]

    def drop(self, key: tuple[Path, str | None]) -> None:
        """Keep that gate no longer; the last call that uses it closes it."""
        known = self.kept.pop(key, None)
        if known is not None:
            known.dropped = True
            known.close_if_done()


class Gates:
    """Gates that stay open between calls. Repositories never wait for each other; the least lately used goes first."""

    def __init__(self, leaving: threading.Event | None = None, watches: Watches | None = None) -> None:
        self.leaving = leaving or threading.Event()
        self.watches = watches
        self.repositories: OrderedDict[Path, Repository] = OrderedDict()
        self.table = threading.Lock()
        """For `repositories` and their `inside`: held while one is looked up, never while one works."""

    @contextmanager
    def __call__(self, workspace: Workspace | None, around: Environment) -> Generator[Gate]:
        """The gate of this workspace, for as long as it is this call's turn in the repository."""
        if workspace is None or not (workspace.governed or registered(around.home, workspace)):
            yield Gate(workspace, around)
            return
        with self.turn(workspace.state) as repository, repository.gate(workspace, around) as gate:
            yield gate

    @contextmanager
    def turn(self, state: Path) -> Generator[Repository]:
        """Wait for one's turn in the repository with this state folder."""
        repository = self.enter(state)
        try:
            with repository.turn:
                yield repository
        finally:
            with self.table:
                repository.inside -= 1

    def enter(self, state: Path) -> Repository:
        """The repository, with this call inside; where there are too many, one that nobody is in is forgotten."""
        with self.table:
            repository = self.repositories.setdefault(state, Repository(self.leaving, self.watches))
            repository.inside += 1
            self.repositories.move_to_end(state)
            surplus = len(self.repositories) - MOST_REPOSITORIES
            idle = [key for key, each in self.repositories.items() if not each.inside]
            gone = [self.repositories.pop(key) for key in idle[: max(0, surplus)]]
        for each in gone:
            for key in list(each.kept):
                each.drop(key)
        return repository

    def each(self, act: Callable[[Gate], object]) -> None:
        """Do this in every open gate, in its turn. What cannot be done is reported, and ends nothing else.

        There is a next time, and a thread that ended here would keep house for nobody any more.
        """
        with self.table:
            states = list(self.repositories)
        for state in states:
            with self.turn(state) as repository:
                for kept in [*repository.kept.values()]:
                    try:
                        if kept.gate.workspace.governed:
                            act(kept.gate)
                    except CannotRecord as error:
                        report(f"left for later: {error}")
                    except Exception as error:  # noqa: BLE001  a defect that one repository meets is not the others'
                        report(f"broke in {kept.gate.workspace.root}: {type(error).__name__}: {error}")


def report(message: str) -> None:
    """One line of the daemon's log."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{now} remit: {' '.join(message.split())}\n")
