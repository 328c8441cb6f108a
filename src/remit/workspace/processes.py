"""Who started this process: what a restriction on agents can go by, since variables can be unset."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from msgspec import Struct

MOST = 64
"""Ancestors looked at: no honest chain is longer, and a forged one ends."""

WORDS = 3
"""How many first words of a command line may name the program: `node …/gemini`, `python -m agent`."""


class Process(Struct, frozen=True):
    """One process: its parent's id and its command line."""

    pid: int
    parent: int
    words: tuple[str, ...]


def ancestors(pid: int | None = None) -> Iterator[Process]:
    """This process (or `pid`) and those above it, as far as the system tells."""
    at = os.getpid() if pid is None else pid
    for _ in range(MOST):
        found = look_up(at)
        if found is None:
            return
        yield found
        if found.parent <= 1:
            return
        at = found.parent


def below(names: Iterable[str], pid: int | None = None) -> str | None:
    """The first of these programs that is above this process; None where none is."""
    wanted = frozenset(names)
    for process in ancestors(pid):
        for word in process.words[:WORDS]:
            if PurePath(word).name in wanted:
                return PurePath(word).name
    return None


def look_up(pid: int) -> Process | None:
    """One process, from /proc, else from ps(1)."""
    folder = Path("/proc") / str(pid)
    try:
        status = (folder / "stat").read_text("utf-8", "replace")
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None if folder.parent.joinpath("self").exists() else asked(pid)
    return Process(pid, int(status.rpartition(")")[2].split()[1]), tuple(words))


def asked(pid: int) -> Process | None:
    """One process as ps(1) tells it, where there is no /proc (macOS)."""
    done = subprocess.run(["ps", "-o", "ppid=,command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    parent, _, command = done.stdout.strip().partition(" ")
    return Process(pid, int(parent), tuple(command.split())) if parent.isdigit() else None
