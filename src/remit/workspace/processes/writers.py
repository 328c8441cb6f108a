"""Which running processes may have written a file: what can be seen of them from outside, and no proof of anything.

Linux tells by /proc; elsewhere nothing is found. Source: proc(5), read 2026-11.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from remit.workspace.processes.process_info import (
    SESSION_FIELD,
    TERMINAL_FIELD,
    list_ancestors,
    process_start_time,
    program_name,
    read_proc_file,
    read_stat_fields,
)

PROC = "/proc"
MAX_OPEN_FILES = 512
"""Files that one process may have open for each of them to be looked at."""


class LikelyWriter(Struct, frozen=True):
    """One process, and what speaks for it. `path` is the file that it speaks of; empty where it is any."""

    pid: int
    program: str
    evidence: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.program} (process {self.pid}), which {self.evidence}"


def find_likely_writers(root: Path, paths: Sequence[str], agents: Collection[str]) -> list[LikelyWriter]:
    """This user's processes that may have written these files below `root`, the likeliest first.

    `agents` are the names of programs that are known to write by themselves. Those that led to this very process
    are left out: a hook does not suspect its own agent by that.
    """
    apart, wanted = {process.pid for process in list_ancestors()}, {str(root / path): path for path in paths}
    found = [
        writer
        for pid in list_own_processes()
        if pid not in apart
        for writer in find_evidence(pid, str(root), wanted, agents)
    ]
    return [writer for _, writer in sorted(found, key=lambda each: (each[0], each[1].pid))]


def find_editing_people(root: Path, paths: Sequence[str], agents: Collection[str]) -> dict[str, LikelyWriter]:
    """By path, a process in which a person may be editing it: one that has it open or was started with its name.

    It has a terminal, no agent is above it, and none lives in its session. An agent that takes pains can look like
    that, too: what is spared for it has to be told.
    """
    found = [w for w in find_likely_writers(root, paths, agents) if w.path]
    if not found:
        return {}
    taken = {read_session(pid)[0] for pid in list_own_processes() if program_name(read_command_line(pid)) in agents}
    return {w.path: w for w in reversed(found) if has_own_terminal(w.pid, agents, taken)}


def is_older_than_agents(agents: Iterable[str], root: Path) -> bool:
    """Whether the session of this process leads to it, and began before every agent which works below `root` now.

    What a command of an agent leaves behind is in a session that began later, or has lost those above it. False where
    no agent can be seen: then that is not known.
    """
    names = frozenset(agents)
    leader, _ = read_session(os.getpid())
    above = {str(process.pid) for process in list_ancestors()} - {str(os.getpid())}
    begun = [
        process_start_time(pid)
        for pid in list_own_processes()
        if program_name(read_command_line(pid)) in names and works_below(pid, root)
    ]
    own = process_start_time(int(leader)) if leader in above else None
    times = [int(each) for each in (own, *begun) if each is not None and each.isdecimal()]
    return own is not None and len(times) > 1 and times[0] < min(times[1:])


def works_below(pid: int, root: Path) -> bool:
    """Whether a process stands in that folder, or below it."""
    folder = read_link(f"{PROC}/{pid}/cwd")
    return folder is not None and Path(folder).is_relative_to(root)


def has_own_terminal(pid: int, agents: Collection[str], taken: Collection[str]) -> bool:
    """Whether a process has a terminal that is no agent's."""
    session, terminal = read_session(pid)
    below = any(program_name(process.argv) in agents for process in list_ancestors(pid))
    return terminal != "0" and session not in taken and not below


def read_session(pid: int) -> tuple[str, str]:
    """A process's session, and its terminal: 0 where it has none."""
    try:
        fields = read_stat_fields(pid)
    except OSError:
        return "", "0"
    return fields[SESSION_FIELD], fields[TERMINAL_FIELD]


def list_own_processes() -> Iterator[int]:
    """The ids of this user's processes."""
    try:
        names = [name for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208  a Path each would cost more
    except OSError:
        return
    me = os.geteuid()
    for name in names:
        try:
            if os.stat(f"{PROC}/{name}").st_uid == me:  # noqa: PTH116
                yield int(name)
        except OSError:
            continue


def find_evidence(
    pid: int, root: str, wanted: dict[str, str], agents: Collection[str]
) -> Iterator[tuple[int, LikelyWriter]]:
    """What speaks for one process, each with its rank: 0 is the strongest."""
    words, folder = read_command_line(pid), read_link(f"{PROC}/{pid}/cwd")
    if not words:
        return
    name = program_name(words)
    for path in sorted({wanted[held] for _, held in list_open_files(pid) if held in wanted}):
        yield 0, LikelyWriter(pid, name, "has it open", path)
    inside = folder is not None and (folder == root or folder.startswith(f"{root}/"))
    for path in sorted(find_named_paths(words[1:], folder or "", wanted)):
        yield 1, LikelyWriter(pid, name, "was started with its name", path)
    if inside and name in agents:
        yield 2, LikelyWriter(pid, name, "is an agent, and works in this folder")
    elif inside:
        yield 3, LikelyWriter(pid, name, "works in this folder")


def find_named_paths(words: Sequence[str], folder: str, wanted: dict[str, str]) -> set[str]:
    """The files that a command line names."""
    full = (os.path.normpath(os.path.join(folder, word)) for word in words if word)  # noqa: PTH118  `..` is to go
    return {wanted[name] for name in full if name in wanted}


def read_command_line(pid: int) -> list[str]:
    """The words that a process was started with; none where it is gone, or a thread of the kernel."""
    try:
        line = read_proc_file(f"{PROC}/{pid}/cmdline")
    except OSError:
        return []
    return [word for word in os.fsdecode(line).split("\0") if word]


def list_open_files(pid: int) -> Iterator[tuple[str, str]]:
    """The files that a process has open, each after its number there."""
    place = f"{PROC}/{pid}/fd"
    try:
        numbers = os.listdir(place)[:MAX_OPEN_FILES]  # noqa: PTH208
    except OSError:
        return
    yield from ((number, name) for number in numbers if (name := read_link(f"{place}/{number}")) is not None)


def read_link(path: str) -> str | None:
    """Where a link leads; None where it cannot be read."""
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None
