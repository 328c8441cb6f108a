"""Which process something belongs to, and whether it still lives: an id alone is given out again."""

import os
import subprocess
from pathlib import Path

from msgspec import Struct

STATE, PARENT, SESSION, TERMINAL, STARTED = 0, 1, 3, 4, 19
"""Where these stand in what `fields_of` gives. Source: proc_pid_stat(5), fields 3, 4, 6, 7 and 22, read 2026-11."""


BLOCK = 1 << 16


def fields_of(pid: int) -> list[str]:
    """What /proc tells of a process, behind its name. Raises OSError where there is none of that id, or no /proc."""
    return told(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()


def told(place: str) -> bytes:
    """What a file of /proc says now. Raises OSError. A Path for each of a few thousand would cost more than reading."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(descriptor, BLOCK), b""))
    finally:
        os.close(descriptor)


class Living(Struct, frozen=True):
    """A process as others can find it again. `world` is its namespace of process ids: another one cannot see it."""

    pid: int
    started: str
    world: str


def this_process() -> Living:
    """The process that asks."""
    return Living(os.getpid(), started(os.getpid()) or "", world())


def is_gone(process: Living) -> bool | None:
    """Whether that process has ended; None where it cannot be seen from here."""
    if process.world != world():
        return None
    return started(process.pid) != process.started


def world() -> str:
    """The namespace of process ids; empty where the system knows of no such thing."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def started(pid: int) -> str | None:
    """When the process began, in whatever words the system has for it; None where there is none of that id.

    A zombie has ended. Elsewhere ps(1).
    """
    try:
        fields = fields_of(pid)
    except OSError:
        return None if Path("/proc/self").exists() else asked(pid)
    return None if fields[STATE] == "Z" else fields[STARTED]


def asked(pid: int) -> str | None:
    """The same from ps(1), where there is no /proc (macOS)."""
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
