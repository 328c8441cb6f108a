"""The machine's own clock."""

import time

from remit.core.clock import Waitable


class SystemClock:
    """The clock of everything but tests."""

    def now(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        return time.monotonic()

    def wait(self, event: Waitable, seconds: float) -> bool:
        return event.wait(seconds)


SYSTEM_CLOCK = SystemClock()
