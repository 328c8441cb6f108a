"""A lock file for processes and threads, acquired with a timeout."""

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
    """A lock held by a different process or thread for the whole timeout."""


def acquire(path: "Path | str", *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> int:
    """Lock the file at `path` and return the descriptor for `release`. Only an exclusive lock creates the file.

    Each call opens a new descriptor: flock(2) locks belong to the descriptor, so threads and forked children that
    share a descriptor would not exclude each other. Raises LockTimeout, OSError.
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
    """Unlock and close. The explicit unlock matters if a forked child still holds a copy of the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _try_lock(descriptor: int, shared: bool) -> bool:
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # A deleted lock file excludes nobody: the next process creates and locks a new file.
    return os.fstat(descriptor).st_nlink > 0
