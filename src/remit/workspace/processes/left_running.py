"""Processes that agents' commands left running, and the changed files that each may have written.

Agents name their session in the environment of their shells, and child processes inherit the variable, however
detached. Linux only, from /proc. A process that wrote and ended cannot be examined afterwards, so live processes are
recorded beforehand. Sources: proc_pid_environ(5), proc_pid_fdinfo(5), and the agents themselves, read 2026-11.
"""

import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from remit.workspace.processes.process_info import (
    STARTED_FIELD,
    STATE_FIELD,
    TERMINAL_FIELD,
    program_name,
    read_proc_file,
    read_stat_fields,
)
from remit.workspace.processes.writers import (
    PROC,
    find_named_paths,
    list_open_files,
    list_own_processes,
    read_command_line,
    read_link,
)

SESSION_VARIABLES: Mapping[bytes, str] = {
    b"CLAUDE_CODE_SESSION_ID": "claude-code",
    b"CODEX_SESSION_ID": "codex",
    b"QWEN_CODE_SESSION_ID": "qwen",
}
"""Environment variables that name a session, and the agent."""

EDITOR_PROGRAMS = frozenset(
    {
        *("vi", "vim", "nvim", "gvim", "view", "nano", "pico", "micro", "hx", "ed", "joe", "mcedit", "emacs"),
        *("emacsclient", "code", "code-insiders", "codium", "cursor", "zed", "subl", "sublime_text", "atom", "fleet"),
        *("gedit", "gnome-text-editor", "kate", "kwrite", "mousepad", "pluma", "xed", "geany", "leafpad", "notepadqq"),
        *("idea", "pycharm", "webstorm", "goland", "clion", "rider", "phpstorm", "rubymine", "studio", "eclipse"),
        *("libreoffice", "soffice", "soffice.bin"),
    }
)
"""Programs in which a person edits files."""

LOOK_AFTER_CALL_S = 0.1
LOOK_RECENT_S = 0.25
LOOK_IDLE_S = 1.0
"""Intervals between looks: right after a call, for a minute, and while a process lives."""

MIN_PAUSE_S = 0.03
"""Minimum between two looks, whatever changes."""

AFTER_CALL_S = 2.0
RECENT_S = 60.0
MAX_LOOKS_APART = 3
"""A process that named a file and ended within this many looks of the change wrote the file, unless a live process has
it open.
"""

SETTLE_S = 1.0
"""Time after a change in which the writer may still become known."""

MAX_SUSPECT_AGE_S = 120.0
"""Older evidence explains no change: calls are examined sooner."""

MAX_SUSPECT_PATHS = 1000
"""Bound of paths with recorded suspects."""


class SessionProcess(Struct, frozen=True):
    """A process begun by a session's command. `started` distinguishes reused process ids."""

    pid: int
    started: str
    session: str
    argv: tuple[str, ...]
    folder: str
    terminal: bool = False
    """Whether a terminal was ever seen; an ending process has none any more."""

    @property
    def label(self) -> str:
        return f"{program_name(self.argv)} (process {self.pid})"

    @property
    def is_personal(self) -> bool:
        """Whether a person may be using the process, whoever started it."""
        return self.terminal or program_name(self.argv) in EDITOR_PROGRAMS


def find_session_processes(
    known: Mapping[int, SessionProcess], unmarked: set[tuple[int, str]]
) -> dict[int, SessionProcess]:
    """Return this user's processes begun by sessions, by id. Entries in `known` are not read again.

    `unmarked` are processes of no session, updated in place.
    """
    found: dict[int, SessionProcess] = {}
    others: set[tuple[int, str]] = set()
    for pid in list_own_processes():
        started, terminal = read_process_start(pid)
        if not started or pid == os.getpid():
            continue
        process = known.get(pid)
        if process is None or process.started != started:
            process = None if (pid, started) in unmarked else read_session_process(pid, started)
        if process is None:
            others.add((pid, started))
        else:
            found[pid] = replace(process, terminal=True) if terminal and not process.terminal else process
    unmarked.clear()
    unmarked |= others
    return found


def read_process_start(pid: int) -> tuple[str, bool]:
    """Return the start time and whether a terminal is attached; empty if ended."""
    try:
        fields = read_stat_fields(pid)
    except OSError:
        return "", False
    return ("", False) if fields[STATE_FIELD] == "Z" else (fields[STARTED_FIELD], fields[TERMINAL_FIELD] != "0")


def read_session_process(pid: int, started: str) -> SessionProcess | None:
    """Return the process if its environment names a session."""
    try:
        variables = read_proc_file(f"{PROC}/{pid}/environ")
    except OSError:
        return None
    entries = (entry.partition(b"=") for entry in variables.split(b"\0"))
    session = next((os.fsdecode(value) for name, _, value in entries if name in SESSION_VARIABLES), "")
    words = read_command_line(pid) if session else []
    return SessionProcess(pid, started, session, tuple(words), read_link(f"{PROC}/{pid}/cwd") or "") if words else None


def find_paths_open_for_writing(process: SessionProcess, root: Path, paths: Iterable[str]) -> set[str]:
    wanted = {str(root / path): path for path in paths}
    return {
        wanted[name]
        for number, name in list_open_files(process.pid)
        if name in wanted and is_open_for_writing(f"{PROC}/{process.pid}/fdinfo/{number}")
    }


def find_paths_in_command_line(process: SessionProcess, root: Path, paths: Iterable[str]) -> set[str]:
    words = [part for word in process.argv[1:] for part in word.replace("'", " ").replace('"', " ").split()]
    return find_named_paths(words, process.folder, {str(root / path): path for path in paths})


def is_open_for_writing(info: str) -> bool:
    try:
        text = read_proc_file(info).decode("ascii", "replace")
    except OSError:
        return False
    flags = next((line.split()[1] for line in text.splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


class Suspect(Struct, frozen=True):
    """A process present at a file's change. `open`: open for writing; `ended`: named the file and ended then; `there`:
    only present.
    """

    process: SessionProcess
    evidence: Literal["open", "ended", "there"]
    changed_at: float
    """Time at which the change was seen, in seconds since the epoch."""


class ProcessFollower:
    """Follows processes that calls in a work tree left running. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live_processes: dict[int, SessionProcess] = {}
        self.unmarked: set[tuple[int, str]] = set()
        self.recent_ends: list[dict[int, SessionProcess]] = []
        self.recent_changes: list[tuple[float, frozenset[str]]] = []
        self.pending_before: frozenset[str] = frozenset()
        self.suspects_by_path: dict[str, dict[int, Suspect]] = {}
        self.last_call = self.last_look = float("-inf")
        self.lock = threading.Lock()

    def note_call(self) -> None:
        """Note that a call began or ended: the call may have left a process."""
        self.last_call = time.monotonic()

    @property
    def next_look_s(self) -> float | None:
        """Seconds until the next look; None if no process can be left."""
        since = time.monotonic() - self.last_call
        if since > AFTER_CALL_S and not self.live_processes and not any(self.recent_ends):
            return None
        pause = LOOK_AFTER_CALL_S if since < AFTER_CALL_S else LOOK_RECENT_S if since < RECENT_S else LOOK_IDLE_S
        return max(0.0, self.last_look + pause - time.monotonic())

    def is_due(self, *, news: bool) -> bool:
        """Return whether to look now; with `news` of a change, while the writer may still be visible."""
        if news and self.live_processes:
            return time.monotonic() - self.last_look > MIN_PAUSE_S
        return self.next_look_s == 0

    def look(self, pending: Iterable[str]) -> None:
        """Record live processes, and the likely writers of paths changed since the last look.

        `pending` are changed paths not asked for yet.
        """
        with self.lock:
            self.look_locked(frozenset(pending))

    def look_locked(self, paths: frozenset[str]) -> None:
        """Look with the lock held. After a change, looks are frequent for a while: the writer may be about to end."""
        self.last_look = time.monotonic()
        self.last_call = self.last_look if paths - self.pending_before else self.last_call
        found = find_session_processes(self.live_processes, self.unmarked)
        same = {pid: item.started for pid, item in found.items()}
        gone = {pid: item for pid, item in self.live_processes.items() if same.get(pid) != item.started}
        self.recent_ends = [*self.recent_ends, gone][-MAX_LOOKS_APART:]
        self.recent_changes = [*self.recent_changes, (time.time(), paths - self.pending_before)][-MAX_LOOKS_APART:]
        self.live_processes, self.pending_before = found, paths
        fresh = {path: at for at, some in self.recent_changes for path in some}
        if fresh and (found or any(self.recent_ends)):
            self.record_suspects(fresh)

    def record_suspects(self, fresh: Mapping[str, float]) -> None:
        """Record the processes present at the change of these paths."""
        ended = {process.pid: process for look in self.recent_ends for process in look.values()}
        for process in (*self.live_processes.values(), *ended.values()):
            if process.is_personal:
                continue
            open_paths, named_paths = set[str](), set[str]()
            if process.pid in ended:
                named_paths = find_paths_in_command_line(process, self.root, fresh)
            else:
                open_paths = find_paths_open_for_writing(process, self.root, fresh)
            for path, at in fresh.items():
                evidence = "open" if path in open_paths else "ended" if path in named_paths else "there"
                suspects = self.suspects_by_path.setdefault(path, {})
                if evidence != "there" or process.pid not in suspects:
                    suspects[process.pid] = Suspect(process, evidence, at)
        recent = [(path, known) for path, known in self.suspects_by_path.items() if has_recent_suspect(known)]
        self.suspects_by_path = dict(recent[-MAX_SUSPECT_PATHS:])

    def suspects(self) -> dict[str, tuple[Suspect, ...]]:
        """Return the suspects by path, after another look if the evidence is too fresh."""
        with self.lock:
            if not self.is_settled_enough:
                self.look_locked(self.pending_before)
            return {
                path: tuple(known.values())
                for path, known in self.suspects_by_path.items()
                if has_recent_suspect(known)
            }

    @property
    def is_settled_enough(self) -> bool:
        """Whether waiting would add no evidence."""
        now = time.time()
        return all(
            suspect.changed_at < now - SETTLE_S or any(item.evidence != "there" for item in known.values())
            for known in self.suspects_by_path.values()
            for suspect in known.values()
        )

    def clear_suspects(self) -> None:
        with self.lock:
            self.suspects_by_path = {}


def has_recent_suspect(known: Mapping[int, Suspect]) -> bool:
    return max(suspect.changed_at for suspect in known.values()) > time.time() - MAX_SUSPECT_AGE_S


def find_suspects_now(root: Path, paths: Iterable[str]) -> dict[str, tuple[Suspect, ...]]:
    """Return suspects without earlier looks: live processes, and those with the file open."""
    paths, now = list(paths), time.time()
    living = [process for process in find_session_processes({}, set()).values() if not process.is_personal]
    open_paths = {process.pid: find_paths_open_for_writing(process, root, paths) for process in living}
    return {
        path: tuple(Suspect(process, "open" if path in open_paths[process.pid] else "there", now) for process in living)
        for path in paths
    }
