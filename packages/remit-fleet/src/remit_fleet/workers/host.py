"""Settings of a worker, and its access to the repositories on its host."""

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from remit.core.agents.row import AgentCommand
from remit.core.intent import FINAL_STATUSES, TRANSITIONS, Status
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.state.workspace_state import State
from remit.workspace.intents_file.storage import IntentsFileChanged
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.safe_files import hold_lock
from remit.workspace.worktrees import Worktrees
from remit_fleet.board import Attempt
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.remote import FleetRemote
from remit_fleet.workers.agent import LOOK_INTERVAL_S, AttemptPlaces
from remit_fleet.workers.landing_rounds import trees_folder
from remit_fleet.workers.waiting import exchange_with_remote

T = TypeVar("T")


class WorkerSettings(Struct, frozen=True):
    """Settings of a worker. `commands` are the startable agents, by name."""

    slots: int
    commands: Mapping[str, AgentCommand]
    variables: Mapping[str, str]
    home: Path
    environment: Environment
    until_idle: bool = False
    open_door: Callable[[AttemptPlaces, str], AbstractContextManager[None]] = lambda _places, _intent: nullcontext()
    """Opens the socket of an attempt, by its folders and its intent: the only one of Remit that its jail shows."""
    version: str = ""
    clones: Mapping[str, Path] = {}
    """Main worktrees of the shared repositories on this host."""
    tell: Callable[[str], None] = lambda _: None
    """Tells the person who started the worker."""


class WorkerHost:
    """Access of a worker to the gates, locks, worktrees and remotes of its repositories. `stopping` ends each wait."""

    def __init__(self, engine: DbosEngine, settings: WorkerSettings, stopping: threading.Event) -> None:
        self.engine = engine
        self.settings = settings
        self.stopping = stopping
        self.intents_lock = threading.Lock()

    def find_workspace(self, repository: str) -> Workspace:
        clone = self.settings.clones.get(repository)
        root = clone or Path(self.engine.read_board().repositories[repository].url)
        found = locate_workspace(root)
        if found is None or found.common_dir is None:
            raise ValueError(f"{str(root)!r} is no git repository on this host")
        return found

    @contextmanager
    def open_gate(self, repository: str) -> Generator[Gate]:
        gate = Gate(self.find_workspace(repository), self.settings.environment)
        try:
            yield gate
        finally:
            gate.close()

    @contextmanager
    def open_state(self, tree: Workspace) -> Generator[State]:
        gate = Gate(tree, self.settings.environment)
        try:
            yield gate.state
        finally:
            gate.close()

    def lock(self, repository: str, name: str, timeout_s: float) -> AbstractContextManager[None]:
        """Return a lock shared by the workers of this host."""
        folder = trees_folder(self.settings.home, repository)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return hold_lock(folder / f"{name}.lock", timeout_s=timeout_s)

    def open_trees(self, repository: str) -> Worktrees:
        return Worktrees(self.find_workspace(repository), trees_folder(self.settings.home, repository))

    def share(
        self,
        gate: Gate,
        attempt: Attempt,
        exchange: Callable[[FleetRemote], T],
        instead: Callable[[FleetRemote], T | None] = lambda _: None,
    ) -> T | None:
        return exchange_with_remote(self.engine, gate, attempt, exchange, self.stopping.wait, instead)

    def move_intent(self, repository: str, intent_id: str, to: Status) -> None:
        """Move an intent to a status in the main worktree, if allowed and needed. Concurrent writers of the file are
        expected, and a person who is about to edit the file.
        """
        until = time.monotonic() + self.engine.timing.lease_s
        while True:
            with self.open_gate(repository) as gate, self.intents_lock:
                why = gate.intents.describe_broken_file(intent_id)
                if not why:
                    status = gate.intents.get(intent_id).status
                    if status in FINAL_STATUSES:
                        raise ValueError(f"{intent_id} is {status}: nobody works on it; `remit plan stop {intent_id}`")
                    if to not in TRANSITIONS[status]:
                        return
                    with suppress(IntentsFileChanged):
                        gate.intents.set_status(intent_id, to, by="fleet")
                        return
                    why = "others keep writing the intents file"
            if time.monotonic() > until or self.stopping.wait(LOOK_INTERVAL_S):
                raise ValueError(f"{intent_id} could not be moved to {to}: {why}")
