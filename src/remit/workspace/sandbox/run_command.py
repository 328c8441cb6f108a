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
from remit.workspace.sandbox.staged_changes import UNMEASURABLE_BYTES

FORWARDED_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""The command has a session of its own, so no terminal sends it these."""

FIND_TIMEOUT_S = 1.0
"""How long a command that bubblewrap is just starting is looked for."""

GRACE_S = 2.0
"""Between the request to end and the end."""

TIMEOUT_EXIT_CODE = 124
"""The exit code of timeout(1)."""

MEBIBYTE = 1 << 20
StopReason: TypeAlias = Literal["time", "size", "depth"]
STOP_REASONS: tuple[StopReason, ...] = ("time", "size", "depth")


class SandboxFailed(RuntimeError):
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


class CommandEnd(Struct, frozen=True):
    """How a command ended; `stopped` says in words which limit ended it, empty where none did."""

    code: int
    stop_text: str = ""
    must_discard: bool = False
    """It wrote more than it may, or where nobody can look: nothing of it is kept."""


def describe_end(stop: StopReason | None, code: int, limits: Limits) -> CommandEnd:
    """Return how a command ended that a limit ended, or none."""
    if stop is None:
        return CommandEnd(code)
    why = {
        "time": f"it ran longer than {limits.seconds or 0:g} s",
        "size": f"it wrote more than {limits.size} bytes",
        "depth": "it made folders so deep in one another that their paths are longer than Linux takes",
    }
    return CommandEnd(TIMEOUT_EXIT_CODE, why[stop], stop != "time")


def run_in_bubblewrap(words: Callable[[int], Sequence[str]], limits: Limits) -> CommandEnd:
    """Run bubblewrap, as `words` gives it for a status descriptor, with this process's own input and outputs.

    What the command left running dies with its process namespace. Raises NotContained where it did not even start.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as news:
        with forward_signals() as aim:
            try:
                with aim.ignore_signals():
                    process = subprocess.Popen(
                        words(writing),
                        pass_fds=(writing,),
                        env=limits.environment,
                        preexec_fn=landlock.isolate_abstract_sockets,  # in the new process: this one stays as it is
                    )
            finally:
                os.close(writing)
            line = news.readline()
            first = parse_child_pid(line) if line else 0
            aim.set_target(lambda: find_commands(first) if first else [])
            with wait_for_namespace(first):
                stopped = wait_with_limits(process, limits, aim.send_signal)
                code = process.wait()
        told = news.read()
    if b"exit-code" not in told and not stopped:
        raise SandboxFailed(f"bubblewrap ended with {code} before the command began")
    return describe_end(stopped, code, limits)


def run_without_bubblewrap(words: Sequence[str], folder: Path, limits: Limits) -> CommandEnd:
    """Run a command in a process group of its own, without bubblewrap; what is left of the group is killed."""
    with forward_signals() as aim:
        process = subprocess.Popen(words, cwd=folder, process_group=0, env=limits.environment)
        aim.set_target(lambda: [process.pid])
        stopped = wait_with_limits(process, limits, aim.send_signal)
        code = process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return describe_end(stopped, code if code >= 0 else 128 - code, limits)


def parse_child_pid(line: bytes) -> int:
    """The process that bubblewrap says it started: the first of its own process namespace."""
    return int(json.loads(line)["child-pid"])


@contextmanager
def wait_for_namespace(first: int) -> Generator[None]:
    """Be there until all that ran in the sandbox is gone: it dies with bubblewrap, a moment later, and could still
    write. `first` is its first process, 0 for none.
    """
    ended = -1
    with suppress(OSError):
        ended = os.pidfd_open(first) if first else -1
    yield
    if ended >= 0:
        ends_within(ended, GRACE_S)
        os.close(ended)


def find_commands(first: int) -> list[int]:
    """The processes that this one started, or is about to. Source: proc_pid_task_children(5), read 2026-11."""
    until = time.monotonic() + FIND_TIMEOUT_S
    with suppress(OSError):
        while time.monotonic() < until:
            found = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            if found:
                return [int(pid) for pid in found]
            time.sleep(0.01)
    return []


class SignalForwarder:
    """Where signals go. Those that come before the command is known wait for it."""

    def __init__(self) -> None:
        self.find_processes: Callable[[], list[int]] | None = None
        self.pending_signals: list[int] = []
        self.process_ids: list[int] = []

    def set_target(self, find: Callable[[], list[int]]) -> None:
        """The command can be found, from here on."""
        self.find_processes = find
        for number in self.pending_signals:
            self.send_signal(number)

    def send_signal(self, number: int) -> None:
        """Send the command that signal."""
        if self.find_processes is None:
            self.pending_signals.append(number)
            return
        self.process_ids = self.process_ids or self.find_processes()
        for pid in self.process_ids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """A signal came to this process."""
        self.send_signal(number)

    @contextmanager
    def ignore_signals(self) -> Generator[None]:
        """While it lasts, what is started ignores the signals that are passed on."""
        for number in FORWARDED_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        try:
            yield
        finally:
            for number in FORWARDED_SIGNALS:
                signal.signal(number, self.handle_signal)


@contextmanager
def forward_signals() -> Generator[SignalForwarder]:
    """While it lasts, signals to this process go to the command."""
    aim = SignalForwarder()
    before = {number: signal.signal(number, aim.handle_signal) for number in FORWARDED_SIGNALS}
    try:
        yield aim
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def wait_with_limits(
    process: subprocess.Popen[bytes], limits: Limits, send: Callable[[int], None]
) -> StopReason | None:
    """Wait for the end, and bring it about where a limit is reached; which that was."""
    begun = time.monotonic()
    ended = os.pidfd_open(process.pid)
    try:
        for pause in wait_intervals(limits, begun):
            if ends_within(ended, pause):
                return None
            stopped = find_passed_limit(limits, time.monotonic() - begun)
            if stopped:
                send(signal.SIGTERM)
                if not ends_within(ended, GRACE_S):
                    process.kill()
                return stopped
    finally:
        os.close(ended)
    return None


def ends_within(process: int, within_s: float | None) -> bool:
    """Whether the process that a descriptor names ends within that time. select(2) takes none from 1024 on."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(None if within_s is None else math.ceil(within_s * 1000)))


def wait_intervals(limits: Limits, begun: float) -> Iterator[float | None]:
    """How long to wait each time. Measuring what was written takes a tenth of the time at most."""
    spent = 0.0
    while True:
        left = None if limits.seconds is None else max(0.0, begun + limits.seconds - time.monotonic())
        measure = None if limits.size is None else max(1.0, 10 * spent)
        at = time.monotonic()
        yield min((pause for pause in (left, measure) if pause is not None), default=None)
        spent = max(0.0, time.monotonic() - at - (measure or 0))


def find_passed_limit(limits: Limits, seconds: float) -> StopReason | None:
    """Which limit is passed."""
    if limits.seconds is not None and seconds >= limits.seconds:
        return "time"
    return None if limits.size is None else find_size_limit(limits.written(), limits)


def find_size_limit(written: int, limits: Limits) -> StopReason | None:
    """Return which limit so many written bytes pass; None for no limit."""
    if written >= UNMEASURABLE_BYTES:
        return "depth"
    return "size" if limits.size is not None and written > limits.size else None
