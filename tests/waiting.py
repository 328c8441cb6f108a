"""Waiting for a state, in tests: the limit is far above what a busy machine takes, and costs nothing where it comes.

Wait for an event where there is one (a byte of a ready descriptor, a line of a pipe, an `Event`, the end of a process).
`wait_until` looks again and again: it is for states that nobody announces.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from processes import fields, find_parent, list_below

WAIT_S = 120.0
MIN_WAIT_S = 60.0
INTERVAL_S = 0.02
MAX_LOG_LINES = 30


def wait_until(
    holds: Callable[[], object],
    failure: str | Callable[[], object] = "it never came to that",
    *,
    has_failed: Callable[[], object] = lambda: None,
    logs: Path | None = None,
    limit_s: float = WAIT_S,
    interval_s: float = INTERVAL_S,
) -> None:
    """Return once something holds. Fail with these words where it never does, with this process's children and logs.

    `has_failed` tells why it cannot come any more (a process ended, a plan is stuck), and ends the wait at once.
    `logs` is a folder whose `*.log` files are shown. The interval is longer where a look costs more.
    """
    assert limit_s >= MIN_WAIT_S, "a busy machine takes longer"
    until = time.monotonic() + limit_s
    while not holds():
        reason = has_failed()
        if reason or time.monotonic() >= until:
            words = failure if isinstance(failure, str) else failure()
            raise AssertionError(f"{words}\n{reason or f'not within {limit_s:.0f} s'}\n{describe_surroundings(logs)}")
        time.sleep(interval_s)


def describe_surroundings(logs: Path | None) -> str:
    """What runs below this process, and the ends of the logs."""
    parts = [f"below process {os.getpid()}:", *map(describe_process, list_below(os.getpid()))]
    for file in sorted(logs.rglob("*.log")) if logs else ():
        lines = file.read_text("utf-8", "replace").splitlines()[-MAX_LOG_LINES:]
        parts += [f"-- {file}", *lines]
    return "\n".join(parts)


def describe_process(pid: int) -> str:
    place = Path("/proc") / str(pid)
    return f"  {pid} of {find_parent(place) or '?'}: {' '.join(fields(place / 'cmdline'))[:200]}"
