"""A clock that stands still until a test moves it.

`advance(60)` goes from one due wait to the next: it wakes the thread that waits, lets it work until it waits again or
ends, and only then moves on. So a minute takes as long as the work in it, and load changes no order.
"""

import threading
import time
from dataclasses import dataclass, field

from remit.core.clock import Waitable
from waiting import WAIT_S

POLL_S = 0.002  # a real pause between two looks at an event that another thread sets


@dataclass(eq=False)
class Wait:
    """One wait of one thread."""

    thread: threading.Thread
    due: float
    event: Waitable


@dataclass(eq=False)
class SteppedClock:
    """Seconds since the epoch are `start` and what was advanced."""

    start: float = 1_700_000_000.0
    passed: float = 0.0
    waits: list[Wait] = field(default_factory=list[Wait])
    changed: threading.Condition = field(default_factory=threading.Condition)

    def now(self) -> float:
        return self.start + self.passed

    def elapsed(self) -> float:
        return self.passed

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Wait for an event until the test has moved this clock by so many seconds."""
        mine = Wait(threading.current_thread(), self.passed + seconds, event)
        # A condition keeps no news for a thread that does not wait just then: only news or a due time end its wait.
        pause_s = WAIT_S if isinstance(event, threading.Condition) else POLL_S
        with self.changed:
            self.waits.append(mine)
            self.changed.notify_all()
        try:
            while not (came := event.wait(pause_s)) and self.passed < mine.due:
                pass
            return came and (self.passed < mine.due or pause_s == POLL_S)
        finally:
            with self.changed:
                self.waits.remove(mine)
                self.changed.notify_all()

    def advance(self, seconds: float) -> None:
        """Move on, stopping at each wait that is due by then until its thread waits again or has ended."""
        end = self.passed + seconds
        while (due := self.find_next_due(end)) is not None:
            woken = [wait for wait in self.waits if wait.due <= due]
            self.passed = max(self.passed, due)
            for condition in (wait.event for wait in woken if isinstance(wait.event, threading.Condition)):
                with condition:
                    condition.notify_all()
            self.wait_for_threads([wait for wait in woken if wait.thread is not threading.current_thread()])
        self.passed = end

    def find_next_due(self, end: float) -> float | None:
        with self.changed:
            return min((wait.due for wait in self.waits if wait.due <= end), default=None)

    def wait_for_waiter(self, count: int = 1) -> None:
        """Return once so many threads wait: what a test does before it moves the clock."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.waits) >= count, WAIT_S), "nobody waits for this clock"

    def wait_for_threads(self, woken: list[Wait]) -> None:
        until = time.monotonic() + WAIT_S
        with self.changed:
            while any(self.is_at_work(wait) for wait in woken):
                assert time.monotonic() < until, f"still at work: {[wait.thread.name for wait in woken]}"
                self.changed.wait(POLL_S)

    def is_at_work(self, woken: Wait) -> bool:
        """Tell whether a woken thread neither waits again nor has ended."""
        waits_again = any(wait.thread is woken.thread and wait is not woken for wait in self.waits)
        return woken in self.waits or (woken.thread.is_alive() and not waits_again)
