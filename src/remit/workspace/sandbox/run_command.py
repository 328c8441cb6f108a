"""A single command run to its end: signals forwarded, time and writes limited, no process left over."""

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
from remit.workspace.sandbox.layer_changes import UNMEASURABLE_BYTES

FORWARDED_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""The command has its own session, so no terminal sends these."""

FIND_TIMEOUT_S = 1.0
"""Search time for a command that bubblewrap is starting."""

GRACE_S = 2.0
"""Time between SIGTERM and SIGKILL."""

TIMEOUT_EXIT_CODE = 124
"""The exit code of timeout(1)."""

MEBIBYTE = 1 << 20
StopReason: TypeAlias = Literal["time", "size", "depth"]
STOP_REASONS: tuple[StopReason, ...] = ("time", "size", "depth")


class SandboxFailed(RuntimeError):
    """The sandbox could not be set up, so the command did not run. The message quotes bubblewrap."""

    def __init__(self, said: str) -> None:
        super().__init__(f"nothing ran, the sandbox could not be set up: {said.strip()[:500]!r}; try `remit doctor`")


class Limits(Struct, frozen=True):
    """Resources of a command; None means no limit. `written` returns the bytes written so far."""

    seconds: float | None = None
    size: int | None = None
    written: Callable[[], int] = lambda: 0
    environment: Mapping[str, str] | None = None
    """The command's environment; None for the own environment."""


class CommandEnd(Struct, frozen=True):
    """End of a command; `stop_text` describes the limit that ended the command, empty if none."""

    code: int
    stop_text: str = ""
    must_discard: bool = False
    """The command wrote too much, or too deep to be read: no write is kept."""


def describe_end(stop: StopReason | None, code: int, limits: Limits) -> CommandEnd:
    """Return the end of a command, with the text for a limit."""
    if stop is None:
        return CommandEnd(code)
    reason = {
        "time": f"it ran longer than {limits.seconds or 0:g} s",
        "size": f"it wrote more than {limits.size} bytes",
        "depth": "it made folders so deep in one another that their paths are longer than Linux takes",
    }
    return CommandEnd(TIMEOUT_EXIT_CODE, reason[stop], stop != "time")


def run_in_bubblewrap(words: Callable[[int], Sequence[str]], limits: Limits) -> CommandEnd:
    """Run bubblewrap with the words for a status descriptor, and with this process's standard streams.

    Processes left running die with the process namespace. Raises SandboxFailed if the command did not start.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as status:
        with forward_signals() as forwarder:
            try:
                with forwarder.ignore_signals():
                    process = subprocess.Popen(
                        words(writing),
                        pass_fds=(writing,),
                        env=limits.environment,
                        preexec_fn=landlock.isolate_abstract_sockets,  # runs in the child
                    )
            finally:
                os.close(writing)
            line = status.readline()
            # The first process of the sandbox's own process namespace.
            first = int(json.loads(line)["child-pid"]) if line else 0
            forwarder.set_target(lambda: find_commands(first) if first else [])
            with wait_for_namespace(first):
                stopped = wait_with_limits(process, limits, forwarder.send_signal)
                code = process.wait()
        rest = status.read()
    if b"exit-code" not in rest and not stopped:
        raise SandboxFailed(f"bubblewrap ended with {code} before the command began")
    return describe_end(stopped, code, limits)


def run_without_bubblewrap(words: Sequence[str], folder: Path, limits: Limits) -> CommandEnd:
    """Run a command in its own process group, and kill the rest of the group afterwards."""
    with forward_signals() as forwarder:
        process = subprocess.Popen(words, cwd=folder, process_group=0, env=limits.environment)
        forwarder.set_target(lambda: [process.pid])
        stopped = wait_with_limits(process, limits, forwarder.send_signal)
        code = process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return describe_end(stopped, code if code >= 0 else 128 - code, limits)


@contextmanager
def wait_for_namespace(first: int) -> Generator[None]:
    """Wait until the sandbox's processes are gone: they die a moment after bubblewrap and could still write.

    `first` is the first process, 0 for none.
    """
    ended = -1
    with suppress(OSError):
        ended = os.pidfd_open(first) if first else -1
    yield
    if ended >= 0:
        ends_within(ended, GRACE_S)
        os.close(ended)


def find_commands(first: int) -> list[int]:
    """Return the processes started by `first`, waiting briefly. Source: proc_pid_task_children(5), read 2026-11."""
    until = time.monotonic() + FIND_TIMEOUT_S
    with suppress(OSError):
        while time.monotonic() < until:
            found = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            if found:
                return [int(pid) for pid in found]
            time.sleep(0.01)
    return []


class SignalForwarder:
    """Target of forwarded signals. Earlier signals wait until the target is known."""

    def __init__(self) -> None:
        self.find_processes: Callable[[], list[int]] | None = None
        self.pending_signals: list[int] = []
        self.process_ids: list[int] = []

    def set_target(self, find: Callable[[], list[int]]) -> None:
        self.find_processes = find
        for number in self.pending_signals:
            self.send_signal(number)

    def send_signal(self, number: int) -> None:
        if self.find_processes is None:
            self.pending_signals.append(number)
            return
        self.process_ids = self.process_ids or self.find_processes()
        for pid in self.process_ids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        self.send_signal(number)

    @contextmanager
    def ignore_signals(self) -> Generator[None]:
        """Start processes with the forwarded signals ignored."""
        for number in FORWARDED_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        try:
            yield
        finally:
            for number in FORWARDED_SIGNALS:
                signal.signal(number, self.handle_signal)


@contextmanager
def forward_signals() -> Generator[SignalForwarder]:
    """Forward signals of this process to the command during the block."""
    forwarder = SignalForwarder()
    before = {number: signal.signal(number, forwarder.handle_signal) for number in FORWARDED_SIGNALS}
    try:
        yield forwarder
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def wait_with_limits(
    process: subprocess.Popen[bytes], limits: Limits, send: Callable[[int], None]
) -> StopReason | None:
    """Wait for the end, or end the command at a limit; return the limit."""
    begun = time.monotonic()
    ended = os.pidfd_open(process.pid)
    try:
        for pause in wait_intervals(limits, begun):
            if ends_within(ended, pause):
                return None
            stopped: StopReason | None = None
            if limits.seconds is not None and time.monotonic() - begun >= limits.seconds:
                stopped = "time"
            elif limits.size is not None:
                stopped = find_size_limit(limits.written(), limits)
            if stopped:
                send(signal.SIGTERM)
                if not ends_within(ended, GRACE_S):
                    process.kill()
                return stopped
    finally:
        os.close(ended)
    return None


def ends_within(process: int, within_s: float | None) -> bool:
    """Return whether the process of a descriptor ends within the time. select(2) accepts no descriptor above 1023."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(None if within_s is None else math.ceil(within_s * 1000)))


def wait_intervals(limits: Limits, begun: float) -> Iterator[float | None]:
    """Yield the time of each wait. Measuring writes takes a tenth of the time at most."""
    spent = 0.0
    while True:
        left = None if limits.seconds is None else max(0.0, begun + limits.seconds - time.monotonic())
        measure = None if limits.size is None else max(1.0, 10 * spent)
        at = time.monotonic()
        yield min((pause for pause in (left, measure) if pause is not None), default=None)
        spent = max(0.0, time.monotonic() - at - (measure or 0))


def find_size_limit(written: int, limits: Limits) -> StopReason | None:
    """Return the limit passed by the written bytes; None if none."""
    if written >= UNMEASURABLE_BYTES:
        return "depth"
    return "size" if limits.size is not None and written > limits.size else None
