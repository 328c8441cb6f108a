"""Running processes that may have written a file, by outside evidence only.

Linux only, from /proc; on other systems no process is found. Source: proc(5), read 2026-11.
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
"""Bound of open files examined per process."""


class LikelyWriter(Struct, frozen=True):
    """A process and the evidence. `path` is the file concerned; empty for any file."""

    pid: int
    program: str
    evidence: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.program} (process {self.pid}), which {self.evidence}"


def find_likely_writers(root: Path, paths: Sequence[str], agents: Collection[str]) -> list[LikelyWriter]:
    """Return this user's processes that may have written the files below `root`, most likely first.

    `agents` are names of programs that write on their own. Ancestors of this process are left out: a hook does not
    suspect its own agent by this evidence.
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
    """Return by path a process in which a person may edit: with the file open, or started with its name.

    The process has a terminal, no agent is an ancestor, and no agent lives in its session. An agent could imitate such
    a process, so a spared file has to be reported.
    """
    found = [w for w in find_likely_writers(root, paths, agents) if w.path]
    if not found:
        return {}
    taken = {read_session(pid)[0] for pid in list_own_processes() if program_name(read_command_line(pid)) in agents}
    return {w.path: w for w in reversed(found) if has_own_terminal(w.pid, agents, taken)}


def is_older_than_agents(agents: Iterable[str], root: Path) -> bool:
    """Return whether the session leader of this process began before each agent that works below `root` now.

    A process left behind by an agent's command is in a later session, or has lost its ancestors. False if no agent is
    visible.
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
    times = [int(item) for item in (own, *begun) if item is not None and item.isdecimal()]
    return own is not None and len(times) > 1 and times[0] < min(times[1:])


def works_below(pid: int, root: Path) -> bool:
    folder = read_link(f"{PROC}/{pid}/cwd")
    return folder is not None and Path(folder).is_relative_to(root)


def has_own_terminal(pid: int, agents: Collection[str], taken: Collection[str]) -> bool:
    session, terminal = read_session(pid)
    below = any(program_name(process.argv) in agents for process in list_ancestors(pid))
    return terminal != "0" and session not in taken and not below


def read_session(pid: int) -> tuple[str, str]:
    """Return a process's session and terminal; the terminal is 0 if none."""
    try:
        fields = read_stat_fields(pid)
    except OSError:
        return "", "0"
    return fields[SESSION_FIELD], fields[TERMINAL_FIELD]


def list_own_processes() -> Iterator[int]:
    """Yield the ids of this user's processes."""
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
    """Yield (rank, evidence) for a process; 0 is the strongest rank."""
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
    full = (os.path.normpath(os.path.join(folder, word)) for word in words if word)  # noqa: PTH118  `..` is to go
    return {wanted[name] for name in full if name in wanted}


def read_command_line(pid: int) -> list[str]:
    """Return the words of a process; empty for an ended process or a kernel thread."""
    try:
        line = read_proc_file(f"{PROC}/{pid}/cmdline")
    except OSError:
        return []
    return [word for word in os.fsdecode(line).split("\0") if word]


def list_open_files(pid: int) -> Iterator[tuple[str, str]]:
    """Yield (descriptor number, target) of a process's open files."""
    path = f"{PROC}/{pid}/fd"
    try:
        numbers = os.listdir(path)[:MAX_OPEN_FILES]  # noqa: PTH208
    except OSError:
        return
    yield from ((number, name) for number in numbers if (name := read_link(f"{path}/{number}")) is not None)


def read_link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None
