"""Runs `remit` as a process that is forked from one which has imported it: most of a short command is imports.

Each command is a process of its own, with its own memory, environment, folder and streams, and it ends as an
interpreter ends. This file is also the program that forks; it ends with the tests.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

MAIN = "from remit.cli import main; main()"
MAX_REQUEST_BYTES = 100_000
HEAVY_MODULES = ("remit.orchestrator.engines.dbos", "rich.console", "rich.table")
"""What commands import when they run, beside their own modules."""

seconds_used: float = 0.0
"""CPU seconds of the commands that ended: their parent does not count among this process's children."""


def run_command(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `remit` with these words, without a terminal."""
    argv = [sys.executable, "-c", MAIN, *words]
    request = json.dumps([["-c", *words], str(folder), dict(environment)]).encode()
    if sys.platform != "linux" or len(request) > MAX_REQUEST_BYTES:
        return subprocess.run(
            argv, cwd=folder, env=environment, input=typed, capture_output=True, text=True, check=False
        )
    pipes = [os.pipe() for _ in range(4)]
    stdin, stdout, stderr, status = pipes
    given = [stdin[0], stdout[1], stderr[1], status[1]]
    try:
        socket.send_fds(start_forking(), [request], given)
    finally:
        for descriptor in given:
            os.close(descriptor)
    with ThreadPoolExecutor(4) as threads:
        threads.submit(write_all, stdin[1], typed)
        texts = list(threads.map(read_all, (stdout[0], stderr[0], status[0])))
    global seconds_used
    waited, seconds = texts[2].split()
    seconds_used += float(seconds)
    return subprocess.CompletedProcess(argv, os.waitstatus_to_exitcode(int(waited)), texts[0], texts[1])


def write_all(descriptor: int, text: str) -> None:
    """Write what is typed; a command that reads no input closes its end."""
    with suppress(BrokenPipeError), open(descriptor, "w") as file:
        file.write(text)


def read_all(descriptor: int) -> str:
    with open(descriptor) as file:
        return file.read()


@cache
def start_forking() -> socket.socket:
    """Start the process that forks, one for each process of pytest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"import runpy; runpy.run_path({__file__!r}, run_name='__main__')"
    with theirs:
        forking = subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno())],
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
    import remit.cli

    names = [module.name for module in walk_packages(remit.cli.__path__, "remit.cli.")]
    for name in (*names, *HEAVY_MODULES):
        with suppress(ImportError):
            import_module(name)


def fork_commands(line: socket.socket) -> None:
    """Fork a process for each request. Returns in that process, ready to run its command, and ends all others."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(line, MAX_REQUEST_BYTES, 4)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            line.close()
            wait_for_command(descriptors)
            argv, folder, environment = json.loads(request)
            become_command(argv, folder, environment, descriptors[:3])
            return
        for descriptor in descriptors:
            os.close(descriptor)


def wait_for_command(descriptors: list[int]) -> None:
    """Fork the command, and report how it ended. Returns in the command's process only."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, status = descriptors
    command = os.fork()
    if command == 0:
        os.close(status)
        return
    for descriptor in streams:
        os.close(descriptor)
    _, waited, usage = os.wait4(command, 0)
    os.write(status, f"{waited} {usage.ru_utime + usage.ru_stime}".encode())
    os._exit(0)


def become_command(argv: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Give this process the command's words, folder, environment and streams."""
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    sys.argv[:] = argv
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)


if __name__ == "__main__":
    import_commands()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    fork_commands(socket.socket(fileno=int(sys.argv[1])))
    from remit.cli import main

    main()
