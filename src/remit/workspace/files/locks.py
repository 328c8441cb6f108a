"""File locks with a time limit.

Any process of the same user may hold a lock for any time, so no call waits without a limit.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

LOCK_TIMEOUT_S = 10.0
FIRST_PAUSE_S = 0.0002
MAX_PAUSE_S = 0.01


class FileLocked(OSError):
    """Another process held the lock for the whole time limit."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__(f"{str(path)!r} was locked for {timeout_s:g} s: `lslocks` shows by which process")


def lock_file(descriptor: int, path: Path, *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> None:
    """Lock the open file `descriptor`; `path` names the file in the error. Raises FileLocked, OSError."""
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


@contextmanager
def hold_lock(path: Path, *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> Generator[None]:
    """Hold the lock of a file, created if missing, during the block. Raises FileLocked, OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock_file(descriptor, path, shared=shared, timeout_s=timeout_s)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def try_lock(path: Path) -> Generator[bool]:
    """Yield whether the lock was free; if so, hold it during the block. Raises OSError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(path, timeout_s=0))
        except FileLocked:
            yield False
            return
        yield True
