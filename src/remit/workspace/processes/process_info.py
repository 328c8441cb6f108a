"""Who started this process: what a restriction on agents can go by, since variables can be unset.

Which process something belongs to, and whether it still lives: an id alone is given out again.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

STATE_FIELD, PARENT_FIELD, SESSION_FIELD, TERMINAL_FIELD, STARTED_FIELD = 0, 1, 3, 4, 19
"""Where these stand in what `read_stat_fields` gives. Source: proc_pid_stat(5), fields 3, 4, 6, 7 and 22, read
2026-11."""


PROC_BLOCK_BYTES = 1 << 16


def read_stat_fields(pid: int) -> list[str]:
    """What /proc tells of a process, behind its name. Raises OSError where there is none of that id, or no /proc."""
    return read_proc_file(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()


def read_proc_file(place: str) -> bytes:
    """What a file of /proc says now. Raises OSError. A Path for each of a few thousand would cost more than reading."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(descriptor, PROC_BLOCK_BYTES), b""))
    finally:
        os.close(descriptor)


class ProcessIdentity(Struct, frozen=True):
    """A process as others can find it again. `world` is its namespace of process ids: another one cannot see it."""

    pid: int
    started: str
    world: str


def identify_this_process() -> ProcessIdentity:
    """The process that asks."""
    return ProcessIdentity(os.getpid(), process_start_time(os.getpid()) or "", pid_namespace())


def has_process_ended(process: ProcessIdentity) -> bool | None:
    """Whether that process has ended; None where it cannot be seen from here."""
    if process.world != pid_namespace():
        return None
    return process_start_time(process.pid) != process.started


def pid_namespace() -> str:
    """The namespace of process ids; empty where the system knows of no such thing."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def process_start_time(pid: int) -> str | None:
    """When the process began, in whatever words the system has for it; None where there is none of that id.

    A zombie has ended. Elsewhere ps(1).
    """
    try:
        fields = read_stat_fields(pid)
    except OSError:
        return None if Path("/proc/self").exists() else read_start_time_from_ps(pid)
    return None if fields[STATE_FIELD] == "Z" else fields[STARTED_FIELD]


def read_start_time_from_ps(pid: int) -> str | None:
    """The same from ps(1), where there is no /proc (macOS)."""
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


MAX_ANCESTORS = 64
"""Ancestors looked at: no honest chain is longer, and a forged one ends."""

INTERPRETER = re.compile(r"(?:node|nodejs|bun|deno|tsx|python|ruby|perl|sh|bash|dash|zsh|ksh|fish|env|busybox)[\d.]*")
"""They run the program that their first word after their options names: `node …/gemini`, `sh …/claude`."""

OPTIONS_WITH_VALUE = frozenset(
    ("-r", "--require", "--import", "--loader", "--experimental-loader", "-X", "-W", "-u", "-C", "-o")
)
"""Options of theirs that take the next word for a value."""

SCRIPT_SUFFIXES = (".js", ".mjs", ".cjs", ".py", ".sh")


class ProcessInfo(Struct, frozen=True):
    """One process: its parent's id and its command line."""

    pid: int
    parent: int
    argv: tuple[str, ...]


def list_ancestors(pid: int | None = None) -> Iterator[ProcessInfo]:
    """This process (or `pid`) and those above it, as far as the system tells."""
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
    """The first of these programs that is above this process; None where none is."""
    wanted = frozenset(names)
    return next((name for process in list_ancestors(pid) if (name := program_name(process.argv)) in wanted), None)


def program_name(words: Sequence[str]) -> str:
    """The name of the program that a command line runs, behind its interpreter; what it works on is none of it.

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
    """One process, from /proc, else from ps(1)."""
    folder = Path("/proc") / str(pid)
    try:
        parent = int(read_stat_fields(pid)[PARENT_FIELD])
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None if folder.parent.joinpath("self").exists() else read_process_from_ps(pid)
    return ProcessInfo(pid, parent, tuple(words))


def read_process_from_ps(pid: int) -> ProcessInfo | None:
    """One process as ps(1) tells it, where there is no /proc (macOS)."""
    done = subprocess.run(["ps", "-o", "ppid=,command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    parent, _, command = done.stdout.strip().partition(" ")
    return ProcessInfo(pid, int(parent), tuple(command.split())) if parent.isdigit() else None
