"""Who started this process: what a restriction on agents can go by, since variables can be unset."""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from remit.workspace.living import PARENT, fields_of

MOST = 64
"""Ancestors looked at: no honest chain is longer, and a forged one ends."""

INTERPRETER = re.compile(r"(?:node|nodejs|bun|deno|tsx|python|ruby|perl|sh|bash|dash|zsh|ksh|fish|env|busybox)[\d.]*")
"""They run the program that their first word after their options names: `node …/gemini`, `sh …/claude`."""

VALUED = frozenset(("-r", "--require", "--import", "--loader", "--experimental-loader", "-X", "-W", "-u", "-C", "-o"))
"""Options of theirs that take the next word for a value."""

ENDINGS = (".js", ".mjs", ".cjs", ".py", ".sh")


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
    return next((name for process in ancestors(pid) if (name := program(process.words)) in wanted), None)


def program(words: Sequence[str]) -> str:
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
        left = left[1:] if option in VALUED else left
    name = PurePath(left[0]).name if left else first
    return next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), name)


def look_up(pid: int) -> Process | None:
    """One process, from /proc, else from ps(1)."""
    folder = Path("/proc") / str(pid)
    try:
        parent = int(fields_of(pid)[PARENT])
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None if folder.parent.joinpath("self").exists() else asked(pid)
    return Process(pid, parent, tuple(words))


def asked(pid: int) -> Process | None:
    """One process as ps(1) tells it, where there is no /proc (macOS)."""
    done = subprocess.run(["ps", "-o", "ppid=,command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    parent, _, command = done.stdout.strip().partition(" ")
    return Process(pid, int(parent), tuple(command.split())) if parent.isdigit() else None
