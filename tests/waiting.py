"""Waiting for a state, in tests: the limit is far above what a busy machine takes, and costs nothing where it comes.

Wait for an event where there is one (a byte of a ready descriptor, a line of a pipe, an `Event`, the end of a process).
`wait_until` looks again and again: it is for states that nobody announces.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from processes import fields, find_parent

WAIT_S = 120.0
INTERVAL_S = 0.02
MAX_LOG_LINES = 30


def wait_until(
    holds: Callable[[], object],
    failure: str | Callable[[], object] = "it never came to that",
    *,
    has_failed: Callable[[], object] = lambda: None,
    logs: Path | None = None,
) -> None:
    """Return once something holds. Fail with these words where it never does, with this process's children and logs.

    `has_failed` tells why it cannot come any more (a process ended, a plan is stuck), and ends the wait at once.
    `logs` is a folder whose `*.log` files are shown.
    """
    until = time.monotonic() + WAIT_S
    while not holds():
        reason = has_failed()
        if reason or time.monotonic() >= until:
            words = failure if isinstance(failure, str) else failure()
            raise AssertionError(f"{words}\n{reason or f'not within {WAIT_S:.0f} s'}\n{describe_surroundings(logs)}")
        time.sleep(INTERVAL_S)


def describe_surroundings(logs: Path | None) -> str:
    """What runs below this process, and the ends of the logs."""
    parts = [f"below process {os.getpid()}:", *list_descendants(str(os.getpid()))]
    for file in sorted(logs.rglob("*.log")) if logs else ():
        lines = file.read_text("utf-8", "replace").splitlines()[-MAX_LOG_LINES:]
        parts += [f"-- {file}", *lines]
    return "\n".join(parts)


def list_descendants(root: str) -> list[str]:
    """A line for each process below this one, from /proc; none where there is none."""
    parents = {path.name: find_parent(path) for path in Path("/proc").glob("[0-9]*")}
    lines, level = list[str](), [(root, 0)]
    while level:
        pid, depth = level.pop()
        level += [(child, depth + 1) for child, parent in parents.items() if parent == pid]
        if depth:
            words = " ".join(fields(Path("/proc") / pid / "cmdline"))
            lines.append(f"{'  ' * depth}{pid} {words[:200]}")
    return lines
