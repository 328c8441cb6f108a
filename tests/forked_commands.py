"""Runs `remit` as a process that is forked from one which has imported it: most of a short command is imports.

Each command is a process of its own, with its own memory, environment, folder, streams and words in the system's table,
and it ends by an interpreter's rules. `run_command` waits for its end, `start_process` does not, and `start_ready`
waits until a daemon or a worker takes work. This file is also the program that forks; it ends with the tests.

Start a fresh interpreter only where the claim is about one: its isolation, imports, signals or variables at its start.
"""

import atexit
import faulthandler
import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ctypes import memmove
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from typing import IO, Any, AnyStr

MAIN = "from remit.cli import main; main()"
MAX_REQUEST_BYTES = 100_000
HEAVY_MODULES = (
    *("remit_fleet.engines.dbos", "remit.console.routes", "remit.servers.mcp", "remit_agent.faces.acp"),
    *("rich.console", "rich.table"),
)
"""What commands import when they run, beside their own modules."""
MAX_DESCRIPTORS = 16
FREE_DESCRIPTOR = 100
"""Descriptors from here on are nobody's while a command gets its own."""
WORDS_BYTES, VARIABLES_BYTES = 8_000, 32_000
"""Place for a command's words and variables in the system's table of processes."""
PLACES = slice(45, 49)
"""Where a process keeps both, in the fields of /proc/PID/stat after its name."""
PID_BYTES, MAX_REPORT_BYTES = 10, 100
READY_S = 120.0
UNFLUSHED_EXIT_CODE = 120  # Python's own

seconds_used: float = 0.0
"""CPU seconds of the commands that ended: their parent does not count among this process's children."""


def run_command(
    words: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `remit` with these words, without a terminal."""
    pipe = subprocess.PIPE
    options: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True}
    with open_process(words, cwd=folder, env=environment, **options) as process:
        out, err = process.communicate(typed)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_in_bytes(
    words: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Do the same with streams that are not text."""
    pipe = subprocess.PIPE
    with start_process(words, folder, environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        out, err = process.communicate(given)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_process(
    words: Sequence[str],
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    pass_fds: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Start `remit` with these words. Who starts it ends it."""
    return open_process(
        words, cwd=folder, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds
    )


def start_ready(
    words: Sequence[str],
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    log: IO[Any] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a daemon or a worker, and return once it takes work, or has left it to another one.

    Its words go to the log, else to those of the test.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as line:
        try:
            more = ("--ready-fd", str(writing))
            process = start_process((*words, *more), folder, environment, stdout=log, stderr=log, pass_fds=[writing])
        finally:
            os.close(writing)
        if not select.select([line], [], [], READY_S)[0]:
            process.kill()
        if not line.read(1) and (code := process.wait()):
            raise AssertionError(f"{process.args} took no work: it ended with {code}")
    return process


def open_process(words: Sequence[str], code: str = MAIN, **options: Any) -> "subprocess.Popen[Any]":
    """Start a process with these words that runs the code."""
    argv = [sys.executable, "-c", code, *words]
    small = sum(map(len, (*argv, *options["env"].keys(), *options["env"].values()))) < MAX_REQUEST_BYTES // 2
    return ForkedProcess(argv, **options) if sys.platform == "linux" and small else subprocess.Popen(argv, **options)


class ForkedProcess(subprocess.Popen[AnyStr]):
    """A command that is forked. It is no child of this process: a process beside it waits for it, and tells its end."""

    def _execute_child(
        self,
        args: list[str],
        executable: object,
        preexec_fn: object,
        close_fds: bool,
        pass_fds: Sequence[int],
        cwd: Path | None,
        env: Mapping[str, str],
        startupinfo: object,
        creationflags: object,
        shell: bool,
        *pipes: Any,
    ) -> None:
        """Ask for a process, where Python would start a program. Python calls this, and waits by the methods below."""
        ends = pipes[:6]
        streams = [number if given == -1 else given for number, given in enumerate((ends[0], ends[3], ends[5]))]
        reading, writing = os.pipe()
        self.report = os.fdopen(reading, "rb", buffering=0)
        request = json.dumps([args, str(cwd or Path.cwd()), dict(env), [0, 1, 2, *pass_fds]]).encode()
        try:
            socket.send_fds(start_forking(), [request], [writing, *streams, *pass_fds])
        finally:
            os.close(writing)
            self._close_pipe_fds(*ends)  # pyright: ignore[reportAttributeAccessIssue]  one of Python's own
        self._child_created = True
        self.pid = int(self.report.read(PID_BYTES))

    def poll(self) -> int | None:
        return self.returncode if self.returncode is not None or not self.has_report(0) else self.wait()

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not self.has_report(timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            global seconds_used
            waited, seconds = self.report.read(MAX_REPORT_BYTES).split()
            seconds_used += float(seconds)
            self.returncode = os.waitstatus_to_exitcode(int(waited))
            self.report.close()
        return self.returncode

    def has_report(self, timeout: float | None) -> bool:
        return bool(select.select([self.report], [], [], timeout)[0])


@cache
def start_forking() -> socket.socket:
    """Start the process that forks, one for each process of pytest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"import runpy; runpy.run_path({__file__!r}, run_name='__main__')"
    with theirs:
        forking = subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno()), " " * WORDS_BYTES],
            env={**os.environ, "PLACE": " " * VARIABLES_BYTES},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd="/",
        )
    atexit.register(end_forking, ours, forking)
    return ours


def end_forking(line: socket.socket, forking: "subprocess.Popen[bytes]") -> None:
    line.close()
    forking.wait()


# --- the process that forks --------------------------------------------------------------------------------


def import_commands() -> None:
    """Import what commands import, as far as it is installed."""
    rooms = (find_spec(room) for room in ("remit.cli", "remit_fleet.commands", "remit_agent.faces"))
    found = [room for room in rooms if room is not None]
    names = [m.name for room in found for m in walk_packages(room.submodule_search_locations, f"{room.name}.")]
    for name in (*names, *HEAVY_MODULES):
        with suppress(ImportError):
            import_module(name)


def fork_commands(line: socket.socket) -> str:
    """Fork a process for each request. Returns in that process the code that it has to run, and ends all others."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(line, MAX_REQUEST_BYTES, MAX_DESCRIPTORS)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            line.close()
            wait_for_command(descriptors)
            return become_command(json.loads(request), descriptors[1:])
        for descriptor in descriptors:
            os.close(descriptor)


def wait_for_command(descriptors: list[int]) -> None:
    """Fork the command, and report its id and how it ended. Returns in the command's process only."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    report, *given = descriptors
    command = os.fork()
    if command == 0:
        os.close(report)
        return
    os.write(report, f"{command:{PID_BYTES}}".encode())
    for descriptor in given:
        os.close(descriptor)
    _, waited, usage = os.wait4(command, 0)
    with suppress(BrokenPipeError):  # nobody may wait for it
        os.write(report, f"{waited} {usage.ru_utime + usage.ru_stime}".encode())
    os._exit(0)


def become_command(request: list[Any], given: list[int]) -> str:
    """Give this process the command's words, folder, environment and descriptors, and return its code."""
    argv, folder, environment, wanted = request
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, FREE_DESCRIPTOR) for descriptor in given]
    for descriptor in given:
        os.close(descriptor)
    for descriptor, number in zip(moved, wanted, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv[:] = ["-c", *argv[3:]]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    words, words_end, variables, variables_end = map(int, stat[PLACES])
    show(argv, words, words_end - words)
    show(
        [f"HOME={environment.get('HOME')}", *(f"{n}={v}" for n, v in environment.items())],
        variables,
        variables_end - variables,
    )
    if environment.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    return str(argv[2])


def show(fields: list[str], place: int, size: int) -> None:
    """Put these fields into the system's table of processes."""
    text = os.fsencode("\0".join(fields))[: size - 1]
    memmove(place, text.ljust(size, b"\0"), size)


def run_code(code: str) -> int:
    """Run the command's code; its exit code, by the rules of Python. Raises KeyboardInterrupt, as Python does."""
    try:
        exec(code, {"__name__": "__main__"})
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        print(ended.code, file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001  as an interpreter does
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def end_command(code: int) -> None:
    """End this process as Python does, but leave its memory to the system: to take it apart would copy all of what it
    shares with the process that forked it, and be most of what a short command costs.
    """
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]  waits for threads, as Python does
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError:
            code = UNFLUSHED_EXIT_CODE
    os._exit(code)


if __name__ == "__main__":
    import_commands()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    end_command(run_code(fork_commands(socket.socket(fileno=int(sys.argv[1])))))
