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

_turns: dict[Path, threading.Lock] = {}
_turns_lock = threading.Lock()


class GateAccess:
    """The gate of a run and of its children."""

    def __init__(self, path: Path, environment: Environment) -> None:
        """Open the gate. Raises LookupError without a workspace."""
        self.gate = Gate.open(path, replace(environment, release_lock=self.release_turn))
        self.gate.serves_many_calls = True
        with _turns_lock:
            self.turn = _turns.setdefault(self.gate.workspace.state, threading.Lock())
        self.threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="remit-run")

    @contextmanager
    def release_turn(self) -> Generator[None]:
        self.turn.release()
        try:
            yield
        finally:
            self.turn.acquire()

    async def run(self, work: Callable[[Gate], T]) -> T:
        """Return what `work` returns, run in a worker thread during the repository's turn."""
        return await self.run_in_thread(lambda: self.run_in_turn(work))

    def run_in_turn(self, work: Callable[[Gate], T]) -> T:
        with self.turn:
            return work(self.gate)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Return what `work` returns. A cancelled caller waits until the thread has ended: its effects are recorded."""
        future = asyncio.get_running_loop().run_in_executor(self.threads, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def close(self) -> None:
        self.threads.shutdown(wait=True)
        with self.turn:
            self.gate.close()
