"""The gate from async code: its work runs in worker threads, in one turn for each repository.

The turn is given up while a tool acts and while a person thinks: `Environment.release_lock`.
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from remit.gate.gate import Gate
from remit.gate.machine import Environment

MAX_THREADS = 32  # of one run with its children: a call of a parent keeps its thread while the child works
T = TypeVar("T")


class RepositoryTurn:
    """The turn of one thread in a repository: its gates share a log and a state database."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder = 0

    @contextmanager
    def hold(self) -> Generator[None]:
        """Wait for the turn; a thread with the turn goes on."""
        if self.holder == threading.get_ident():
            yield
            return
        with self.lock:
            self.holder = threading.get_ident()
            try:
                yield
            finally:
                self.holder = 0

    @contextmanager
    def release(self) -> Generator[None]:
        """Give the turn to waiting threads during the block, if the current thread has the turn."""
        if self.holder != threading.get_ident():
            yield
            return
        self.holder = 0
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()
            self.holder = threading.get_ident()


_turns: dict[Path, RepositoryTurn] = {}
_turns_lock = threading.Lock()


class GateAccess:
    """The gate of a run and of its children."""

    def __init__(self, path: Path, environment: Environment) -> None:
        """Open the gate. Raises LookupError without a workspace."""
        found = Gate.open(path, environment)
        with _turns_lock:
            self.turn = _turns.setdefault(found.workspace.state, RepositoryTurn())
        self.gate = Gate(found.workspace, replace(environment, release_lock=self.turn.release))
        self.gate.serves_many_calls = True
        self.threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="remit-run")

    async def run(self, work: Callable[[Gate], T]) -> T:
        """Return what `work` returns, run in a worker thread during the repository's turn."""
        return await self.run_in_thread(lambda: self.run_in_turn(work))

    def run_in_turn(self, work: Callable[[Gate], T]) -> T:
        with self.turn.hold():
            return work(self.gate)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Return the value of `work`. A cancelled caller waits until the thread has ended: its effects are recorded."""
        future = asyncio.get_running_loop().run_in_executor(self.threads, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def close(self) -> None:
        self.threads.shutdown(wait=True)
        self.run_in_turn(lambda gate: gate.close())
