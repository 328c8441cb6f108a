"""Processes: identity, ancestors and command lines, from /proc or ps(1).

The ancestors of this process decide whether an agent started it, since variables can be unset. A process id alone is
not an identity: ids are reused.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

PROC_BLOCK_BYTES = 1 << 16
MAX_ANCESTORS = 64
"""No honest chain is longer, and a forged chain ends."""

INTERPRETER = re.compile(r"(?:node|nodejs|bun|deno|tsx|python|ruby|perl|sh|bash|dash|zsh|ksh|fish|env|busybox)[\d.]*")
"""Programs that run the file named by the first word after their options: `node …/gemini`, `sh …/claude`."""

OPTIONS_WITH_VALUE = frozenset(
    ("-r", "--require", "--import", "--loader", "--experimental-loader", "-X", "-W", "-u", "-C", "-o")
)
"""Interpreter options that take the next word as value."""

SCRIPT_SUFFIXES = (".js", ".mjs", ".cjs", ".py", ".sh")


STATE_FIELD, PARENT_FIELD, SESSION_FIELD, TERMINAL_FIELD, STARTED_FIELD = 0, 1, 3, 4, 19
"""Positions in the result of `read_stat_fields`. Source: proc_pid_stat(5), fields 3, 4, 6, 7 and 22, read 2026-11."""


def read_stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name. Raises OSError without such a process, or without /proc."""
    return read_proc_file(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()


def read_proc_file(place: str) -> bytes:
    """Return a file of /proc. Raises OSError. Building a Path for thousands of files would cost more than reading."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(descriptor, PROC_BLOCK_BYTES), b""))
    finally:
        os.close(descriptor)


class ProcessIdentity(Struct, frozen=True):
    """A process, identifiable later. `world` is its process id namespace: not visible from a different namespace."""

    pid: int
    started: str
    world: str


def identify_this_process() -> ProcessIdentity:
    return ProcessIdentity(os.getpid(), process_start_time(os.getpid()) or "", pid_namespace())


def has_process_ended(process: ProcessIdentity) -> bool | None:
    """Return whether the process has ended; None if not visible from here."""
    if process.world != pid_namespace():
        return None
    return process_start_time(process.pid) != process.started


def pid_namespace() -> str:
    """Return the process id namespace; empty if unsupported."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def process_start_time(pid: int) -> str | None:
    """Return the start time in the system's own format; None if absent or a zombie."""
    try:
        fields = read_stat_fields(pid)
    except OSError:
        return None if Path("/proc/self").exists() else read_start_time_from_ps(pid)
    return None if fields[STATE_FIELD] == "Z" else fields[STARTED_FIELD]


def read_start_time_from_ps(pid: int) -> str | None:
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


class ProcessInfo(Struct, frozen=True):
    """A process: id, parent id, command line."""

    pid: int
    parent: int
    argv: tuple[str, ...]


def list_ancestors(pid: int | None = None) -> Iterator[ProcessInfo]:
    """Yield this process (or `pid`) and its ancestors, as far as visible."""
    at = os.getpid() if pid is None else pid
    for _ in range(MAX_ANCESTORS):
        found = read_process(at)
        if found is None:
            return
        yield found
        if found.parent <= 1:
            return
        at = found.parent


def find_ancestor_program(names: Iterable[str], pid: int | None = None) -> str | None:
    """Return the first of the programs among the ancestors; None if none."""
    wanted = frozenset(names)
    return next((name for process in list_ancestors(pid) if (name := program_name(process.argv)) in wanted), None)


def program_name(words: Sequence[str]) -> str:
    """Return the program of a command line, without interpreter and arguments.

    `vim claude` and `less codex` are a person's.
    """
    first = PurePath(words[0].removeprefix("-")).name if words else ""
    if not INTERPRETER.fullmatch(first):
        return first
    left = list(words[1:])
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option in ("-c", "-e", "--eval", "-p", "--print"):
            return first
        left = left[1:] if option in OPTIONS_WITH_VALUE else left
    name = PurePath(left[0]).name if left else first
    return next((name.removesuffix(ending) for ending in SCRIPT_SUFFIXES if name.endswith(ending)), name)


def read_process(pid: int) -> ProcessInfo | None:
    """Return a process from /proc, else from ps(1)."""
    folder = Path("/proc") / str(pid)
    try:
        parent = int(read_stat_fields(pid)[PARENT_FIELD])
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None if folder.parent.joinpath("self").exists() else read_process_from_ps(pid)
    return ProcessInfo(pid, parent, tuple(words))


def read_process_from_ps(pid: int) -> ProcessInfo | None:
    """Return a process from ps(1), for systems without /proc (macOS)."""
    done = subprocess.run(["ps", "-o", "ppid=,command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    parent, _, command = done.stdout.strip().partition(" ")
    return ProcessInfo(pid, int(parent), tuple(command.split())) if parent.isdigit() else None
