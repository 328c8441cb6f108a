"""Waiting for a state, in tests: the limit is far above what a busy machine takes, and costs nothing where it comes."""

import time
from collections.abc import Callable

WAIT_S = 120.0
INTERVAL_S = 0.02


def wait_until(holds: Callable[[], object], failure: str | Callable[[], object] = "it never came to that") -> None:
    """Return once something holds; fail with these words, or those that are known then, if it never does."""
    until = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < until, failure if isinstance(failure, str) else failure()
        time.sleep(INTERVAL_S)
