"""What agents' commands left running: which processes, of which session, and which changed file each of them is at.

Agents name their session in the environment of the shells that they start, and a process passes that on, however it
cuts itself loose. Linux tells by /proc; elsewhere nothing is found. Sources: proc_pid_environ(5), proc_pid_fdinfo(5),
and the agents themselves, read 2026-11.

Keeping an eye on what calls left running, while anything of it lives: who was at a file when it changed.

A process that wrote and ended is not there any more to be asked, so those that live are remembered beforehand.
"""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
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
"""The variables that name a session, and whose."""

EDITOR_PROGRAMS = frozenset(
    {
        *("vi", "vim", "nvim", "gvim", "view", "nano", "pico", "micro", "hx", "ed", "joe", "mcedit", "emacs"),
        *("emacsclient", "code", "code-insiders", "codium", "cursor", "zed", "subl", "sublime_text", "atom", "fleet"),
        *("gedit", "gnome-text-editor", "kate", "kwrite", "mousepad", "pluma", "xed", "geany", "leafpad", "notepadqq"),
        *("idea", "pycharm", "webstorm", "goland", "clion", "rider", "phpstorm", "rubymine", "studio", "eclipse"),
        *("libreoffice", "soffice", "soffice.bin"),
    }
)
"""Programs in which a person writes files."""


class SessionProcess(Struct, frozen=True):
    """One process that a session's command began. `started` tells it from a later one of the same id."""

    pid: int
    started: str
    session: str
    argv: tuple[str, ...]
    folder: str
    terminal: bool = False
    """Whether it was ever seen with a terminal; one that is just ending has none any more."""

    @property
    def label(self) -> str:
        """It, for people."""
        return f"{program_name(self.argv)} (process {self.pid})"

    @property
    def is_personal(self) -> bool:
        """Whether a person may sit in it, whoever started it."""
        return self.terminal or program_name(self.argv) in EDITOR_PROGRAMS


def find_session_processes(
    known: Mapping[int, SessionProcess], unmarked: set[tuple[int, str]]
) -> dict[int, SessionProcess]:
    """This user's processes that sessions began, by id. What is in `known` is not asked again.

    `unmarked` are those that were looked at before and are no session's; it is brought up to date.
    """
    found: dict[int, SessionProcess] = {}
    others: set[tuple[int, str]] = set()
    for pid in list_own_processes():
        started, terminal = read_process_start(pid)
        if not started or pid == os.getpid():
            continue
        old = known.get(pid)
        one = old if old and old.started == started else None
        if one is None and (pid, started) not in unmarked:
            one = read_session_process(pid, started)
        if one is None:
            others.add((pid, started))
        else:
            found[pid] = replace(one, terminal=True) if terminal and not one.terminal else one
    unmarked.clear()
    unmarked |= others
    return found


def read_process_start(pid: int) -> tuple[str, bool]:
    """When it began, and whether it has a terminal; empty where it has ended."""
    try:
        fields = read_stat_fields(pid)
    except OSError:
        return "", False
    return ("", False) if fields[STATE_FIELD] == "Z" else (fields[STARTED_FIELD], fields[TERMINAL_FIELD] != "0")


def read_session_process(pid: int, started: str) -> SessionProcess | None:
    """One process, where its environment names a session."""
    try:
        variables = read_proc_file(f"{PROC}/{pid}/environ")
    except OSError:
        return None
    session = find_session_id(variables)
    words = read_command_line(pid) if session else []
    return SessionProcess(pid, started, session, tuple(words), read_link(f"{PROC}/{pid}/cwd") or "") if words else None


def find_session_id(variables: bytes) -> str:
    """The session that an environment names; empty for none."""
    entries = (entry.partition(b"=") for entry in variables.split(b"\0"))
    return next((os.fsdecode(value) for name, _, value in entries if name in SESSION_VARIABLES), "")


def find_paths_open_for_writing(one: SessionProcess, root: Path, paths: Iterable[str]) -> set[str]:
    """Those of the paths that it has open for writing now."""
    wanted = {str(root / path): path for path in paths}
    return {wanted[name] for name in list_files_open_for_writing(one.pid) if name in wanted}


def find_paths_in_command_line(one: SessionProcess, root: Path, paths: Iterable[str]) -> set[str]:
    """Those of the paths that its command line names, in words of their own."""
    words = [part for word in one.argv[1:] for part in word.replace("'", " ").replace('"', " ").split()]
    return find_named_paths(words, one.folder, {str(root / path): path for path in paths})


def list_files_open_for_writing(pid: int) -> Iterator[str]:
    """The files that a process has open so that it can write to them."""
    for number, name in list_open_files(pid):
        if name.startswith("/") and is_open_for_writing(f"{PROC}/{pid}/fdinfo/{number}"):
            yield name


def is_open_for_writing(info: str) -> bool:
    """Whether an open file is open for writing."""
    try:
        text = read_proc_file(info).decode("ascii", "replace")
    except OSError:
        return False
    flags = next((line.split()[1] for line in text.splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


LOOK_AFTER_CALL_S = 0.1
LOOK_RECENT_S = 0.25
LOOK_IDLE_S = 1.0
"""How long between two looks: just after a call, for a minute, and for as long as something lives."""

MIN_PAUSE_S = 0.03
"""And between any two, however much changes."""

AFTER_CALL_S = 2.0
RECENT_S = 60.0
MAX_LOOKS_APART = 3
"""A process that named a file and ended within so many looks of its change wrote it, where no other is at it."""

SETTLE_S = 1.0
"""So long after a change it may still turn out who made it."""

MAX_SUSPECT_AGE_S = 120.0
"""What was seen longer ago than a call takes to be noticed explains nothing any more."""

MAX_SUSPECT_PATHS = 1000
"""Paths of which it is remembered who was at them."""


class Suspect(Struct, frozen=True):
    """A process that was there when a file changed. `open`: it had it open for writing; `ended`: its command line named
    the file, and it ended then; `there`: nothing more.
    """

    process: SessionProcess
    evidence: Literal["open", "ended", "there"]
    changed_at: float
    """When it was seen that the file had changed, in seconds since the epoch."""


class ProcessFollower:
    """The processes that calls in one work tree left running. Threads may ask while one looks."""

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
        """A call came or went: it may have left something."""
        self.last_call = time.monotonic()

    @property
    def next_look_s(self) -> float | None:
        """In how many seconds to look; None where nothing is left, and nothing can be."""
        since = time.monotonic() - self.last_call
        if since > AFTER_CALL_S and not self.live_processes and not any(self.recent_ends):
            return None
        pause = LOOK_AFTER_CALL_S if since < AFTER_CALL_S else LOOK_RECENT_S if since < RECENT_S else LOOK_IDLE_S
        return max(0.0, self.last_look + pause - time.monotonic())

    def is_due(self, *, news: bool) -> bool:
        """Whether to look now; with `news` of a change, while who made it may still be at it."""
        if news and self.live_processes:
            return time.monotonic() - self.last_look > MIN_PAUSE_S
        return self.next_look_s == 0

    def look(self, pending: Iterable[str]) -> None:
        """See who lives, and who may have made what changed since the last look; `pending` are all changed paths that
        nobody has asked for yet.
        """
        with self.lock:
            self.look_locked(frozenset(pending))

    def look_locked(self, paths: frozenset[str]) -> None:
        """The same, in one's turn. For a while after a change it is looked often: who made it may be about to end."""
        self.last_look = time.monotonic()
        self.last_call = self.last_look if paths - self.pending_before else self.last_call
        found = find_session_processes(self.live_processes, self.unmarked)
        same = {pid: one.started for pid, one in found.items()}
        gone = {pid: one for pid, one in self.live_processes.items() if same.get(pid) != one.started}
        self.recent_ends = [*self.recent_ends, gone][-MAX_LOOKS_APART:]
        self.recent_changes = [*self.recent_changes, (time.time(), paths - self.pending_before)][-MAX_LOOKS_APART:]
        self.live_processes, self.pending_before = found, paths
        fresh = {path: at for at, some in self.recent_changes for path in some}
        if fresh and (found or any(self.recent_ends)):
            self.record_suspects(fresh)

    def record_suspects(self, fresh: Mapping[str, float]) -> None:
        """Remember who was there when these paths changed."""
        ended = {one.pid: one for look in self.recent_ends for one in look.values()}
        for one in (each for each in (*self.live_processes.values(), *ended.values()) if not each.is_personal):
            named = find_paths_in_command_line(one, self.root, fresh) if one.pid in ended else set[str]()
            held = find_paths_open_for_writing(one, self.root, fresh) if one.pid not in ended else set[str]()
            for path, at in fresh.items():
                suspect = Suspect(one, "open" if path in held else "ended" if path in named else "there", at)
                known = self.suspects_by_path.setdefault(path, {})
                if suspect.evidence != "there" or one.pid not in known:
                    known[one.pid] = suspect
        self.suspects_by_path = dict(
            [(path, known) for path, known in self.suspects_by_path.items() if has_recent_suspect(known)][
                -MAX_SUSPECT_PATHS:
            ]
        )

    def suspects(self) -> dict[str, tuple[Suspect, ...]]:
        """By path, who was there when it changed; looked at once more where that may be too soon to tell."""
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
        """Whether all is known of what was seen that a little waiting tells."""
        now = time.time()
        return all(
            suspect.changed_at < now - SETTLE_S or any(one.evidence != "there" for one in known.values())
            for known in self.suspects_by_path.values()
            for suspect in known.values()
        )

    def clear_suspects(self) -> None:
        """All of it was looked into."""
        with self.lock:
            self.suspects_by_path = {}


def has_recent_suspect(known: Mapping[int, Suspect]) -> bool:
    """Whether this was seen just lately."""
    return max(suspect.changed_at for suspect in known.values()) > time.time() - MAX_SUSPECT_AGE_S


def find_suspects_now(root: Path, paths: Iterable[str]) -> dict[str, tuple[Suspect, ...]]:
    """The same where nobody kept an eye on it: who lives, and has which of these files open."""
    asked, now = list(paths), time.time()
    living = [one for one in find_session_processes({}, set()).values() if not one.is_personal]
    held = {one.pid: find_paths_open_for_writing(one, root, asked) for one in living}
    return {
        path: tuple(Suspect(one, "open" if path in held[one.pid] else "there", now) for one in living) for path in asked
    }
