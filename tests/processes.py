"""Daemons that a test's home left running, and other processes, from /proc: no test may need procps."""

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

END_S = 120


def daemons_of(home: Path) -> list[int]:
    """The daemons of this home, stopped ones and those whose door is gone too; none where there is no /proc.

    What a daemon has just forked looks like the daemon until it executes its own program, and is none.
    """
    found = [path for path in Path("/proc").glob("[0-9]*") if is_daemon(path)]
    daemons = {path.name: find_parent(path) for path in found if f"HOME={home}" in fields(path / "environ")}
    return [int(pid) for pid, parent in daemons.items() if parent not in daemons]


def kill_daemons(home: Path) -> None:
    """Kill the daemons of a home, and return once they have ended: a dying one still holds its lock."""
    for pid in daemons_of(home):
        with suppress(ProcessLookupError):  # one may have left by itself meanwhile
            daemon = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(daemon, signal.SIGKILL)
                assert select.select([daemon], [], [], END_S)[0], f"process {pid} does not end"
            finally:
                os.close(daemon)


def is_daemon(process: Path) -> bool:
    words = fields(process / "cmdline")
    return "daemon" in words and any("main()" in word for word in words)


def find_parent(process: Path) -> str:
    """The id of the parent; empty where the process is gone."""
    stat = "\0".join(fields(process / "stat"))
    return stat.rpartition(")")[2].split()[1] if stat else ""


def list_below(root: int) -> list[int]:
    """The processes below one, parents first; none where there is no /proc."""
    parents = {int(path.name): find_parent(path) for path in Path("/proc").glob("[0-9]*")}
    found, level = list[int](), [root]
    while level:
        level = [pid for pid, parent in parents.items() if parent and int(parent) in level]
        found += level
    return found


def fields(file: Path) -> list[str]:
    """The parts of a file of /proc; none where the process is gone or another user's."""
    try:
        return file.read_bytes().rstrip(b"\0").decode("utf-8", "replace").split("\0")
    except OSError:
        return []
