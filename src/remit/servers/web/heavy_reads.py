"""Answers of commands that take long, each run once for equal questions that are open at the same time."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

MAX_KEPT = 32


class HeavyReads:
    """Answers by question. The work runs in other processes; two threads wait for them. Thread-safe."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="console-heavy")
        self.lock = threading.Lock()
        self.answers: OrderedDict[Hashable, tuple[float, Future[Any]]] = OrderedDict()

    def ask(self, question: Hashable, answer: Callable[[], Any], *, max_age_s: float = float("inf")) -> Future[Any]:
        """Return the answer to come, or one that is not older than `max_age_s` since it came. Failures are not kept."""
        with self.lock:
            known = self.answers.get(question)
            if known is not None and (not known[1].done() or time.monotonic() - known[0] <= max_age_s):
                self.answers.move_to_end(question)
                return known[1]
            future = self.pool.submit(answer)
            self.answers[question] = (float("inf"), future)
            while len(self.answers) > MAX_KEPT:
                self.answers.popitem(last=False)
        future.add_done_callback(lambda done: self.settle(question, done))
        return future

    def settle(self, question: Hashable, done: Future[Any]) -> None:
        with self.lock:
            if self.answers.get(question, (0, None))[1] is done:
                if done.cancelled() or done.exception() is not None:
                    del self.answers[question]
                else:
                    self.answers[question] = (time.monotonic(), done)
