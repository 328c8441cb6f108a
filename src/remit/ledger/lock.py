"""One lock file that processes and threads take in turn, and never wait for without end."""

import fcntl
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOCK_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.0002
_MAX_PAUSE_S = 0.005


class LockTimeout(OSError):
    """Somebody else held the lock for the whole time."""


def acquire(path: "Path | str", *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> int:
    """Take the lock at `path`; the descriptor to give to `release`. Only one that is not shared is made.

    A new descriptor each time: one that is kept would be shared with threads and forked children, and
    the lock belongs to the descriptor, so it would keep none of them out. Raises LockTimeout, OSError.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = _FIRST_PAUSE_S
    access = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    while True:
        descriptor = os.open(path, access | os.O_CLOEXEC, 0o600)
        if _try_lock(descriptor, shared):
            return descriptor
        os.close(descriptor)
        if time.monotonic() >= deadline:
            raise LockTimeout(f"{str(path)!r} was held by another process for {timeout_s:g} s")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _MAX_PAUSE_S)


def release(descriptor: int) -> None:
    """Give the lock back, also where a forked child still has a copy of the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _try_lock(descriptor: int, shared: bool) -> bool:
    """Whether the lock was free, and its file is still there to keep others out."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(descriptor).st_nlink > 0
