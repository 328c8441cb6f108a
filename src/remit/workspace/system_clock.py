"""The machine's own clock."""

import time

from remit.core.clock import Waitable


class SystemClock:
    """The clock of everything but tests."""

    now = staticmethod(time.time)
    elapsed = staticmethod(time.monotonic)

    def wait(self, event: Waitable, seconds: float) -> bool:
        return event.wait(seconds)


SYSTEM_CLOCK = SystemClock()
