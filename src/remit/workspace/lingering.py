"""What agents' commands left running: which processes, of which session, and which changed file each of them is at.

Agents name their session in the environment of the shells that they start, and a process passes that on, however it
cuts itself loose. Linux tells by /proc; elsewhere nothing is found. Sources: proc_pid_environ(5), proc_pid_fdinfo(5),
and the agents themselves, read 2026-11.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.workspace.living import STARTED, STATE, TERMINAL, fields_of, told
from remit.workspace.processes import program
from remit.workspace.writers import PROC, command, linked, named, open_files, own_processes

SESSIONS: Mapping[bytes, str] = {
    b"CLAUDE_CODE_SESSION_ID": "claude-code",
    b"CODEX_SESSION_ID": "codex",
    b"QWEN_CODE_SESSION_ID": "qwen",
}
"""The variables that name a session, and whose."""

EDITORS = frozenset(
    {
        *("vi", "vim", "nvim", "gvim", "view", "nano", "pico", "micro", "hx", "ed", "joe", "mcedit", "emacs"),
        *("emacsclient", "code", "code-insiders", "codium", "cursor", "zed", "subl", "sublime_text", "atom", "fleet"),
        *("gedit", "gnome-text-editor", "kate", "kwrite", "mousepad", "pluma", "xed", "geany", "leafpad", "notepadqq"),
        *("idea", "pycharm", "webstorm", "goland", "clion", "rider", "phpstorm", "rubymine", "studio", "eclipse"),
        *("libreoffice", "soffice", "soffice.bin"),
    }
)
"""Programs in which a person writes files."""


class Process(Struct, frozen=True):
    """One process that a session's command began. `started` tells it from a later one of the same id."""

    pid: int
    started: str
    session: str
    words: tuple[str, ...]
    folder: str
    terminal: bool = False
    """Whether it was ever seen with a terminal; one that is just ending has none any more."""

    @property
    def name(self) -> str:
        """It, for people."""
        return f"{program(self.words)} (process {self.pid})"

    @property
    def personal(self) -> bool:
        """Whether a person may sit in it, whoever started it."""
        return self.terminal or program(self.words) in EDITORS


def processes(known: Mapping[int, Process], unmarked: set[tuple[int, str]]) -> dict[int, Process]:
    """This user's processes that sessions began, by id. What is in `known` is not asked again.

    `unmarked` are those that were looked at before and are no session's; it is brought up to date.
    """
    found: dict[int, Process] = {}
    others: set[tuple[int, str]] = set()
    for pid in own_processes():
        started, terminal = state_of(pid)
        if not started or pid == os.getpid():
            continue
        old = known.get(pid)
        one = old if old and old.started == started else None
        if one is None and (pid, started) not in unmarked:
            one = process(pid, started)
        if one is None:
            others.add((pid, started))
        else:
            found[pid] = replace(one, terminal=True) if terminal and not one.terminal else one
    unmarked.clear()
    unmarked |= others
    return found


def state_of(pid: int) -> tuple[str, bool]:
    """When it began, and whether it has a terminal; empty where it has ended."""
    try:
        fields = fields_of(pid)
    except OSError:
        return "", False
    return ("", False) if fields[STATE] == "Z" else (fields[STARTED], fields[TERMINAL] != "0")


def process(pid: int, started: str) -> Process | None:
    """One process, where its environment names a session."""
    try:
        variables = told(f"{PROC}/{pid}/environ")
    except OSError:
        return None
    session = session_in(variables)
    words = command(pid) if session else []
    return Process(pid, started, session, tuple(words), linked(f"{PROC}/{pid}/cwd") or "") if words else None


def session_in(variables: bytes) -> str:
    """The session that an environment names; empty for none."""
    entries = (entry.partition(b"=") for entry in variables.split(b"\0"))
    return next((os.fsdecode(value) for name, _, value in entries if name in SESSIONS), "")


def writes_to(one: Process, root: Path, paths: Iterable[str]) -> set[str]:
    """Those of the paths that it has open for writing now."""
    wanted = {str(root / path): path for path in paths}
    return {wanted[name] for name in open_for_writing(one.pid) if name in wanted}


def names(one: Process, root: Path, paths: Iterable[str]) -> set[str]:
    """Those of the paths that its command line names, in words of their own."""
    words = [part for word in one.words[1:] for part in word.replace("'", " ").replace('"', " ").split()]
    return named(words, one.folder, {str(root / path): path for path in paths})


def open_for_writing(pid: int) -> Iterator[str]:
    """The files that a process has open so that it can write to them."""
    for number, name in open_files(pid):
        if name.startswith("/") and writable(f"{PROC}/{pid}/fdinfo/{number}"):
            yield name


def writable(info: str) -> bool:
    """Whether an open file is open for writing."""
    try:
        text = told(info).decode("ascii", "replace")
    except OSError:
        return False
    flags = next((line.split()[1] for line in text.splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
