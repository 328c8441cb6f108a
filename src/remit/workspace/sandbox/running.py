"""Running one command to its end: signals passed on, its time and what it writes limited, nothing of it left over."""

import json
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.workspace.sandbox import landlock
from remit.workspace.sandbox.staged import UNMEASURABLE

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""The command has a session of its own, so no terminal sends it these."""

FOUND_S = 1.0
"""How long a command that bubblewrap is just starting is looked for."""

GRACE_S = 2.0
"""Between the request to end and the end."""

TIMED_OUT = 124
"""The exit code of timeout(1)."""

MEBIBYTE = 1 << 20
Stop: TypeAlias = Literal["time", "size", "depth"]
STOPS: tuple[Stop, ...] = ("time", "size", "depth")


class NotContained(RuntimeError):
    """The sandbox could not be set up, so the command did not run. The message says what it said."""

    def __init__(self, said: str) -> None:
        super().__init__(f"nothing ran, the sandbox could not be set up: {said.strip()[:500]!r}; try `remit doctor`")


class Limits(Struct, frozen=True):
    """What one command gets, and may take; None: no limit. `written` gives the bytes that it has written so far."""

    seconds: float | None = None
    size: int | None = None
    written: Callable[[], int] = lambda: 0
    environment: Mapping[str, str] | None = None
    """The command's environment; None: this process's own."""


class Ended(Struct, frozen=True):
    """How a command ended; `stopped` says in words which limit ended it, empty where none did."""

    code: int
    stopped: str = ""
    too_much: bool = False
    """It wrote more than it may, or where nobody can look: nothing of it is kept."""


def stopped_by(stop: Stop | None, code: int, limits: Limits) -> Ended:
    """Return how a command ended that a limit ended, or none."""
    if stop is None:
        return Ended(code)
    why = {
        "time": f"it ran longer than {limits.seconds or 0:g} s",
        "size": f"it wrote more than {limits.size} bytes",
        "depth": "it made folders so deep in one another that their paths are longer than Linux takes",
    }
    return Ended(TIMED_OUT, why[stop], stop != "time")


def run(words: Callable[[int], Sequence[str]], limits: Limits) -> Ended:
    """Run bubblewrap, as `words` gives it for a status descriptor, with this process's own input and outputs.

    What the command left running dies with its process namespace. Raises NotContained where it did not even start.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as news:
        with passing_on() as aim:
            try:
                with aim.unheard():
                    process = subprocess.Popen(
                        words(writing),
                        pass_fds=(writing,),
                        env=limits.environment,
                        preexec_fn=landlock.apart,  # in the new process: this one stays as it is
                    )
            finally:
                os.close(writing)
            line = news.readline()
            first = news_pid(line) if line else 0
            aim.at(lambda: commands(first) if first else [])
            with outlived(first):
                stopped = watched(process, limits, aim.send)
                code = process.wait()
        told = news.read()
    if b"exit-code" not in told and not stopped:
        raise NotContained(f"bubblewrap ended with {code} before the command began")
    return stopped_by(stopped, code, limits)


def run_bare(words: Sequence[str], folder: Path, limits: Limits) -> Ended:
    """Run a command in a process group of its own, without bubblewrap; what is left of the group is killed."""
    with passing_on() as aim:
        process = subprocess.Popen(words, cwd=folder, process_group=0, env=limits.environment)
        aim.at(lambda: [process.pid])
        stopped = watched(process, limits, aim.send)
        code = process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return stopped_by(stopped, code if code >= 0 else 128 - code, limits)


def news_pid(line: bytes) -> int:
    """The process that bubblewrap says it started: the first of its own process namespace."""
    return int(json.loads(line)["child-pid"])


@contextmanager
def outlived(first: int) -> Generator[None]:
    """Be there until all that ran in the sandbox is gone: it dies with bubblewrap, a moment later, and could still
    write. `first` is its first process, 0 for none.
    """
    ended = -1
    with suppress(OSError):
        ended = os.pidfd_open(first) if first else -1
    yield
    if ended >= 0:
        is_over(ended, GRACE_S)
        os.close(ended)


def commands(first: int) -> list[int]:
    """The processes that this one started, or is about to. Source: proc_pid_task_children(5), read 2026-11."""
    until = time.monotonic() + FOUND_S
    with suppress(OSError):
        while time.monotonic() < until:
            found = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            if found:
                return [int(pid) for pid in found]
            time.sleep(0.01)
    return []


class Aim:
    """Where signals go. Those that come before the command is known wait for it."""

    def __init__(self) -> None:
        self.find: Callable[[], list[int]] | None = None
        self.waiting: list[int] = []
        self.known: list[int] = []

    def at(self, find: Callable[[], list[int]]) -> None:
        """The command can be found, from here on."""
        self.find = find
        for number in self.waiting:
            self.send(number)

    def send(self, number: int) -> None:
        """Send the command that signal."""
        if self.find is None:
            self.waiting.append(number)
            return
        self.known = self.known or self.find()
        for pid in self.known:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def heard(self, number: int, frame: FrameType | None) -> None:
        """A signal came to this process."""
        self.send(number)

    @contextmanager
    def unheard(self) -> Generator[None]:
        """While it lasts, what is started ignores the signals that are passed on."""
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_IGN)
        try:
            yield
        finally:
            for number in PASSED_ON:
                signal.signal(number, self.heard)


@contextmanager
def passing_on() -> Generator[Aim]:
    """While it lasts, signals to this process go to the command."""
    aim = Aim()
    before = {number: signal.signal(number, aim.heard) for number in PASSED_ON}
    try:
        yield aim
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def watched(process: subprocess.Popen[bytes], limits: Limits, send: Callable[[int], None]) -> Stop | None:
    """Wait for the end, and bring it about where a limit is reached; which that was."""
    begun = time.monotonic()
    ended = os.pidfd_open(process.pid)
    try:
        for pause in pauses(limits, begun):
            if is_over(ended, pause):
                return None
            stopped = beyond(limits, time.monotonic() - begun)
            if stopped:
                send(signal.SIGTERM)
                if not is_over(ended, GRACE_S):
                    process.kill()
                return stopped
    finally:
        os.close(ended)
    return None


def is_over(process: int, within_s: float | None) -> bool:
    """Whether the process that a descriptor names ends within that time. select(2) takes none from 1024 on."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(None if within_s is None else math.ceil(within_s * 1000)))


def pauses(limits: Limits, begun: float) -> Iterator[float | None]:
    """How long to wait each time. Measuring what was written takes a tenth of the time at most."""
    spent = 0.0
    while True:
        left = None if limits.seconds is None else max(0.0, begun + limits.seconds - time.monotonic())
        measure = None if limits.size is None else max(1.0, 10 * spent)
        at = time.monotonic()
        yield min((pause for pause in (left, measure) if pause is not None), default=None)
        spent = max(0.0, time.monotonic() - at - (measure or 0))


def beyond(limits: Limits, seconds: float) -> Stop | None:
    """Which limit is passed."""
    if limits.seconds is not None and seconds >= limits.seconds:
        return "time"
    return None if limits.size is None else stop_by_size(limits.written(), limits)


def stop_by_size(written: int, limits: Limits) -> Stop | None:
    """Return which limit so many written bytes pass; None for no limit."""
    if written >= UNMEASURABLE:
        return "depth"
    return "size" if limits.size is not None and written > limits.size else None
