"""Forked processes that are killed before a chosen call: the n-th that touches files, locks or processes.

A moment that is chosen by a count of calls comes again on every machine, and no load moves it.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

MODULES = ("posix", "fcntl", "_posixsubprocess", "_io")


def start_forked(work: Callable[[], object], dies_at: int = 0) -> int:
    """Run `work` in a forked child that kills itself before its call number `dies_at`; return its pid. The child leaves
    with 0 where `work` returns.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        sys.setprofile(CallCounter(dies_at) if dies_at else None)
        work()
        code = 0
    finally:
        os._exit(code)


def count_calls(work: Callable[[], object]) -> int:
    """Run `work` in a forked child to its end; return how many calls it made that could be its last."""
    reading, writing = os.pipe()

    def count() -> None:
        counter = CallCounter(0)
        sys.setprofile(counter)
        work()
        sys.setprofile(None)
        os.write(writing, str(counter.calls).encode())

    assert wait_for_end(start_forked(count)) == 0
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return int(pipe.read())


def wait_for_end(pid: int) -> int:
    """Return the exit code of a child, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class CallCounter:
    """A profile function that counts calls, and kills this process before the one numbered `dies_at`."""

    def __init__(self, dies_at: int) -> None:
        self.dies_at = dies_at
        self.calls = 0

    def __call__(self, _: FrameType, event: str, called: Any) -> None:
        if event != "c_call":
            return
        owner = getattr(called, "__self__", None)
        if getattr(called, "__module__", None) in MODULES or type(owner).__module__ in MODULES:
            self.calls += 1
            if self.calls == self.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
