"""Waiting for the lock of a file, within a time limit.

Any process of the same user may hold such a lock for as long as it likes, so no call waits for one without end.
"""

import fcntl
import time
from pathlib import Path

LOCK_TIMEOUT_S = 10.0
FIRST_PAUSE_S = 0.0002
MAX_PAUSE_S = 0.01


class FileLocked(OSError):
    """Another process held the lock for the whole time."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__(f"{str(path)!r} was locked for {timeout_s:g} s: `lslocks` shows by which process")


def lock_file(descriptor: int, path: Path, *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> None:
    """Lock the open file `descriptor`, which `path` names in the error. Raises FileLocked, OSError."""
    kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    deadline, pause_s = time.monotonic() + timeout_s, FIRST_PAUSE_S
    while True:
        try:
            return fcntl.flock(descriptor, kind)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise FileLocked(path, timeout_s) from None
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, MAX_PAUSE_S)
