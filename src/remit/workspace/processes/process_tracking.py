"""Processes: identity, ancestors, likely writers of files, and processes left running by agents' commands.

The ancestors of this process decide whether an agent started it, since variables can be unset. A process id alone is
not an identity: ids are reused. Agents name their session in the environment of their shells, and child processes
inherit the variable, however detached. An ended writer cannot be examined afterwards, hence live processes are recorded
beforehand. From /proc; on systems without /proc ancestors come from ps(1), and no writer is found. A chain not followed
to the first process raises. Sources: proc(5), proc_pid_stat(5), proc_pid_environ(5), proc_pid_fdinfo(5), and the agents
themselves, read 2026-11.
"""

import os
import re
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.agents import ROWS

MAX_ANCESTORS = 5_000  # a longer chain is given up, which is no answer; 500 take 27 ms
MAX_WALKS = 3  # of one chain, if processes of it end meanwhile
INTERPRETER = re.compile(r"(?:node|nodejs|bun|deno|tsx|python|ruby|perl|sh|bash|dash|zsh|ksh|fish|env|busybox)[\d.]*")
"""Programs that run the file named by the first word after their options: `node …/gemini`, `sh …/claude`."""

OWN_PROGRAM, OWN_AGENT_COMMANDS = "remit", frozenset(("run", "acp-agent", "mcp"))
"""Remit's own program, and its subcommands that are an agent, or act for one."""

OWN_SCRIPT = "from remit.cli import main; main()"
"""Remit as Python runs it without an installed script."""

OPTIONS_WITH_VALUE = frozenset(
    ("-r", "--require", "--import", "--loader", "--experimental-loader", "-X", "-W", "-u", "-C", "-o")
)
"""Interpreter options that take the next word as value."""

STATE_FIELD, PARENT_FIELD, SESSION_FIELD, TERMINAL_FIELD, STARTED_FIELD = 0, 1, 3, 4, 19
"""Positions in the result of `read_stat_fields`: fields 3, 4, 6, 7 and 22 of proc_pid_stat(5)."""

MAX_OPEN_FILES = 512  # examined per process
SESSION_VARIABLES = tuple(row.session_variable.encode() for row in ROWS.values() if row.session_variable)
"""Environment variables of shells that name an agent's session."""

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

LOOK_INTERVALS_S = ((2.0, 0.1), (60.0, 0.25))  # intervals between looks up to so many seconds after a call
LOOK_IDLE_S = 1.0  # later, while a process lives
MIN_PAUSE_S = 0.03  # between two looks, whatever changes
MAX_LOOKS_APART = 3
"""A process that named a file and ended within this many looks of the change wrote the file, unless a live process has
it open.
"""

SETTLE_S = 1.0  # time after a change in which the writer may still become known
MAX_SUSPECT_AGE_S = 120.0  # older evidence explains no change: calls are examined sooner
MAX_SUSPECT_PATHS = 1000


# -- identity ------------------------------------------------------------------------------------------------


def read_proc_file(place: str) -> bytes:
    """Return a file of /proc. Raises OSError. Building a Path for thousands of files would cost more than reading."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 16), b""))
    finally:
        os.close(descriptor)


def read_stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name. Raises OSError without such a process, or without /proc."""
    return read_proc_file(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()


def read_link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None


class ProcessIdentity(Struct, frozen=True):
    """A process, identifiable later. `world` is its process id namespace: not visible from a different namespace."""

    pid: int
    started: str
    world: str


def identify_this_process() -> ProcessIdentity:
    return ProcessIdentity(os.getpid(), process_start_time(os.getpid()) or "", pid_namespace())


def has_process_ended(process: ProcessIdentity) -> bool | None:
    return None if process.world != pid_namespace() else process_start_time(process.pid) != process.started


def pid_namespace() -> str:
    return read_link("/proc/self/ns/pid") or ""


def process_start_time(pid: int) -> str | None:
    """Return the start time in the system's own format; None if absent or a zombie."""
    try:
        fields = read_stat_fields(pid)
    except OSError:
        return None if Path("/proc/self").exists() else ask_ps(pid, "lstart=") or None
    return None if fields[STATE_FIELD] == "Z" else fields[STARTED_FIELD]


def ask_ps(pid: int, columns: str) -> str:
    """Return columns of ps(1), for systems without /proc (macOS)."""
    done = subprocess.run(["ps", "-o", columns, "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()


class Incomplete(Exception):
    """A question about a process that cannot be answered: unknown is not nobody. The message names the process."""


class ProcessInfo(Struct, frozen=True):
    """A process: id, parent id, command line; its start in clock ticks after boot, 0 if the system does not tell."""

    pid: int
    parent: int
    argv: tuple[str, ...]
    started: int = 0
    session: int = 0
    terminal: int = 0


def read_process(pid: int) -> ProcessInfo | None:
    try:
        fields = read_stat_fields(pid)
        words = read_proc_file(f"/proc/{pid}/cmdline").decode("utf-8", "replace").split("\0")
    except OSError:
        if Path("/proc/self").exists():
            return None
        above, _, command = ask_ps(pid, "ppid=,command=").partition(" ")
        return ProcessInfo(pid, int(above), tuple(command.split())) if above.isdigit() else None
    numbers = (int(fields[field]) for field in (STARTED_FIELD, SESSION_FIELD, TERMINAL_FIELD))
    return ProcessInfo(pid, int(fields[PARENT_FIELD]), tuple(words), *numbers)


def walk_ancestors(pid: int) -> Iterator[ProcessInfo]:
    """Yield a process and its ancestors up to the first one, whose parent is none of this system's.

    Raises Incomplete where a process cannot be read, or is younger than its child: then its id was used again.
    """
    at, child = pid, None
    for _ in range(MAX_ANCESTORS):
        found = read_process(at)
        if found is None or (child is not None and found.started > child.started):
            raise Incomplete(f"process {at} cannot be seen" if found is None else f"process {at} is another one by now")
        yield found
        if found.parent == 0:
            return
        at, child = found.parent, found
    raise Incomplete(f"process {pid} has more than {MAX_ANCESTORS} others above it")


def list_ancestors(pid: int) -> list[ProcessInfo]:
    """Return a process and all its ancestors. Raises Incomplete."""
    for _ in range(MAX_WALKS - 1):
        try:
            return list(walk_ancestors(pid))
        except Incomplete:  # one of them may have ended meanwhile, and its child has another parent now
            continue
    return list(walk_ancestors(pid))


def find_agent(chain: Iterable[ProcessInfo], names: Collection[str]) -> tuple[ProcessInfo, str] | None:
    return next(((process, name) for process in chain if (name := find_agent_name(process.argv, names))), None)


def find_agent_name(words: Sequence[str], names: Collection[str]) -> str:
    """Return the agent of a command line; empty if none of `names` runs. Remit's own agent is told by the subcommand,
    since all others of the program are a person's.
    """
    name, rest = split_program(words)
    if name != OWN_PROGRAM:
        return name if name in names else ""
    command = next((word for word in rest if not word.startswith("-")), "")
    return f"{name} {command}" if command in OWN_AGENT_COMMANDS else ""


def program_name(words: Sequence[str]) -> str:
    """Return the program of a command line, without interpreter and arguments: `vim claude` is a person's."""
    return split_program(words)[0]


def split_program(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the program of a command line, without interpreter, and its arguments."""
    first = PurePath(words[0].removeprefix("-")).name if words else ""
    if not INTERPRETER.fullmatch(first):
        return first, list(words[1:])
    left = list(words[1:])
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option in ("-c", "-e", "--eval", "-p", "--print"):
            is_own = option == "-c" and left[:1] == [OWN_SCRIPT]
            return (OWN_PROGRAM, left[1:]) if is_own else (first, left)
        if option == "-m":
            return (left[0], left[1:]) if left else (first, left)
        left = left[1:] if option in OPTIONS_WITH_VALUE else left
    name = PurePath(left[0]).name if left else first
    suffixes = (".js", ".mjs", ".cjs", ".py", ".sh")
    return next((name.removesuffix(ending) for ending in suffixes if name.endswith(ending)), name), left[1:]


# -- likely writers ------------------------------------------------------------------------------------------


class LikelyWriter(Struct, frozen=True):
    """A process and the evidence. `path` is the file concerned; empty for any file."""

    pid: int
    program: str
    evidence: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.program} (process {self.pid}), which {self.evidence}"


def find_likely_writers(root: Path, paths: Sequence[str], agents: Collection[str]) -> list[LikelyWriter]:
    """Return processes that may have written the files, most likely first; a hook does not suspect its own agent."""
    apart = set[int]()
    wanted = {str(root / path): path for path in paths}
    with suppress(Incomplete):  # a writer too many is suspected then
        apart.update(process.pid for process in walk_ancestors(os.getpid()))
    found: list[tuple[int, LikelyWriter]] = []
    for pid in list_own_processes():
        words, folder = read_command_line(pid), read_link(f"/proc/{pid}/cwd")
        if pid in apart or not words:
            continue
        name = program_name(words)
        held = sorted({wanted[target] for _, target in list_open(pid, MAX_OPEN_FILES) or () if target in wanted})
        named = sorted(find_named_paths(words[1:], folder or "", wanted))
        found += ((0, LikelyWriter(pid, name, "has it open", path)) for path in held)
        found += ((1, LikelyWriter(pid, name, "was started with its name", path)) for path in named)
        if folder is not None and (folder == str(root) or folder.startswith(f"{root}/")):
            rank, evidence = (2, "is an agent, and works") if name in agents else (3, "works")
            found.append((rank, LikelyWriter(pid, name, f"{evidence} in this folder")))
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
    editing: dict[str, LikelyWriter] = {}
    for writer in reversed(found):
        session, terminal = read_session(writer.pid)
        if terminal != "0" and session not in taken and has_no_agent_above(writer.pid, agents):
            editing[writer.path] = writer
    return editing


def has_no_agent_above(pid: int, agents: Collection[str]) -> bool:
    try:
        return find_agent(list_ancestors(pid), agents) is None
    except Incomplete:
        return False


def find_agents_in(root: Path, names: Collection[str]) -> list[ProcessInfo]:
    """Return the agents among this user's processes that work below `root`."""
    return [
        process
        for pid in list_own_processes()
        if find_agent_name(read_command_line(pid), names)
        and (folder := read_link(f"/proc/{pid}/cwd")) is not None
        and Path(folder).is_relative_to(root)
        and (process := read_process(pid)) is not None
    ]


def read_session(pid: int) -> tuple[str, str]:
    try:
        fields = read_stat_fields(pid)
    except OSError:
        return "", "0"
    return fields[SESSION_FIELD], fields[TERMINAL_FIELD]


def list_own_processes() -> Iterator[int]:
    """Yield the ids of this user's processes."""
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  a Path each would cost more
    except OSError:
        return
    me = os.geteuid()
    for name in names:
        try:
            if os.stat(f"/proc/{name}").st_uid == me:  # noqa: PTH116
                yield int(name)
        except OSError:
            continue


def find_named_paths(words: Sequence[str], folder: str, wanted: Mapping[str, str]) -> set[str]:
    full = (os.path.normpath(os.path.join(folder, word)) for word in words if word)  # noqa: PTH118  `..` is to go
    return {wanted[name] for name in full if name in wanted}


def read_command_line(pid: int) -> list[str]:
    try:
        line = read_proc_file(f"/proc/{pid}/cmdline")
    except OSError:
        return []
    return [word for word in os.fsdecode(line).split("\0") if word]


def list_open(pid: int, at_most: int | None = None) -> list[tuple[str, str]] | None:
    """Return what a process has open, by descriptor; None if that cannot be read."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")[:at_most]  # noqa: PTH208  a Path each would cost more
    except OSError:
        return None
    return [(number, target) for number in numbers if (target := read_link(f"/proc/{pid}/fd/{number}")) is not None]


# -- left running --------------------------------------------------------------------------------------------


class SessionProcess(Struct, frozen=True):
    """A process begun by a session's command; `terminal` was ever seen: an ending process has none any more."""

    pid: int
    started: str
    session: str
    argv: tuple[str, ...]
    folder: str
    terminal: bool = False

    @property
    def label(self) -> str:
        return f"{program_name(self.argv)} (process {self.pid})"

    @property
    def is_personal(self) -> bool:
        return self.terminal or program_name(self.argv) in EDITOR_PROGRAMS


ProcessKey: TypeAlias = tuple[int, str]  # process id and start time


def find_session_processes(
    known: Mapping[ProcessKey, SessionProcess | None] | None = None,
) -> dict[ProcessKey, SessionProcess | None]:
    """Return this user's processes; None for those of no session. Entries in `known` are not read again."""
    found: dict[ProcessKey, SessionProcess | None] = {}
    known = known or {}
    for pid in list_own_processes():
        try:
            fields = read_stat_fields(pid)
        except OSError:
            continue
        key = (pid, fields[STARTED_FIELD])
        if fields[STATE_FIELD] != "Z" and pid != os.getpid():
            process = known[key] if key in known else read_session_process(*key)
            has_new_terminal = process is not None and not process.terminal and fields[TERMINAL_FIELD] != "0"
            found[key] = replace(process, terminal=True) if process is not None and has_new_terminal else process
    return found


def read_session_process(pid: int, started: str) -> SessionProcess | None:
    try:
        variables = read_proc_file(f"/proc/{pid}/environ")
    except OSError:
        return None
    entries = (entry.partition(b"=") for entry in variables.split(b"\0"))
    session = next((os.fsdecode(value) for name, _, value in entries if name in SESSION_VARIABLES), "")
    words = read_command_line(pid) if session else []
    return SessionProcess(pid, started, session, tuple(words), read_link(f"/proc/{pid}/cwd") or "") if words else None


def find_paths_open_for_writing(process: SessionProcess, root: Path, paths: Iterable[str]) -> set[str]:
    wanted, found = {str(root / path): path for path in paths}, set[str]()
    for number, name in list_open(process.pid, MAX_OPEN_FILES) or ():
        if name in wanted:
            try:
                lines = read_proc_file(f"/proc/{process.pid}/fdinfo/{number}").decode("ascii", "replace").splitlines()
            except OSError:
                continue
            flags = next((line.split()[1] for line in lines if line.startswith("flags:")), "0")
            if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                found.add(wanted[name])
    return found


class Suspect(Struct, frozen=True):
    """A process present when a file's change was seen. `open`: open for writing; `ended`: named the file and ended."""

    process: SessionProcess
    evidence: Literal["open", "ended", "there"]
    changed_at: float  # seconds since the epoch


class ProcessFollower:
    """Follows processes that calls in a work tree left running. Thread-safe.

    Red-team case: a command outside of containment leaves a process running (`tests/servers/test_lingering.py`).
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[ProcessKey, SessionProcess | None] = {}
        self.settled: dict[ProcessKey, SessionProcess | None] = {}
        self.recent_looks: list[tuple[float, frozenset[str], list[SessionProcess]]] = []
        """Time, changed paths and ended processes."""
        self.pending_before: frozenset[str] = frozenset()
        self.suspects_by_path: dict[str, dict[int, Suspect]] = {}
        self.last_call = self.last_look = float("-inf")
        self.lock = threading.RLock()

    @property
    def live_processes(self) -> list[SessionProcess]:
        return [process for process in self.known.values() if process is not None]

    def note_call(self) -> None:
        """Note that a call began or ended: the call may have left a process."""
        self.last_call = time.monotonic()

    @property
    def next_look_s(self) -> float | None:
        """Seconds until the next look; None if no process can be left."""
        since = time.monotonic() - self.last_call
        pause = next((pause for until, pause in LOOK_INTERVALS_S if since < until), LOOK_IDLE_S)
        has_ended = any(ended for _, _, ended in self.recent_looks)
        if pause != LOOK_INTERVALS_S[0][1] and not has_ended and not self.live_processes:
            return None
        return max(0.0, self.last_look + pause - time.monotonic())

    def is_due(self, *, news: bool) -> bool:
        """Return whether to look now; with `news` of a change, while the writer may still be visible."""
        if news and self.live_processes:
            return time.monotonic() - self.last_look > MIN_PAUSE_S
        return self.next_look_s == 0

    def look(self, pending: Iterable[str]) -> None:
        """Record live processes, and the likely writers of `pending` paths that changed since the last look."""
        with self.lock:
            paths = frozenset(pending)
            new_paths = paths - self.pending_before
            self.last_look = time.monotonic()
            if new_paths:  # looks are frequent for a while: the writer may be about to end
                self.last_call = self.last_look
            before, found = self.known, find_session_processes(self.settled)
            # One that is about to end shows no variables any more, and is still the session's.
            self.known = {key: process or before.get(key) for key, process in found.items()}
            # A process seen for the first time may be about to execute its program: it is read once more.
            self.settled = {key: process for key, process in self.known.items() if key in before}
            ended = [process for key, process in before.items() if process is not None and key not in self.known]
            self.recent_looks = [*self.recent_looks, (time.time(), new_paths, ended)][-MAX_LOOKS_APART:]
            self.pending_before = paths
            self.record_suspects({path: at for at, some, _ in self.recent_looks for path in some})

    def record_suspects(self, fresh: Mapping[str, float]) -> None:
        ended = {process.pid: process for _, _, some in self.recent_looks for process in some}
        for process in (*self.live_processes, *ended.values()):
            if not fresh or process.is_personal:
                continue
            if process.pid in ended:
                words = [part for word in process.argv[1:] for part in re.split(r"['\"\s]+", word)]
                strong = find_named_paths(words, process.folder, {str(self.root / path): path for path in fresh})
            else:
                strong = find_paths_open_for_writing(process, self.root, fresh)
            for path, at in fresh.items():
                suspects = self.suspects_by_path.setdefault(path, {})
                if path in strong:
                    suspects[process.pid] = Suspect(process, "ended" if process.pid in ended else "open", at)
                else:
                    suspects.setdefault(process.pid, Suspect(process, "there", at))
        self.suspects_by_path = dict(self.recent_suspects()[-MAX_SUSPECT_PATHS:])

    def recent_suspects(self) -> list[tuple[str, dict[int, Suspect]]]:
        oldest = time.time() - MAX_SUSPECT_AGE_S
        return [(path, known) for path, known in self.suspects_by_path.items() if max_change_time(known) > oldest]

    def suspects(self) -> dict[str, tuple[Suspect, ...]]:
        """Return the suspects by path, after another look if the evidence is too fresh."""
        with self.lock:
            if not self.is_settled_enough:
                self.look(self.pending_before)
            return {path: tuple(known.values()) for path, known in self.recent_suspects()}

    @property
    def is_settled_enough(self) -> bool:
        until = time.time() - SETTLE_S
        return all(
            max_change_time(known) < until or any(item.evidence != "there" for item in known.values())
            for known in self.suspects_by_path.values()
        )

    def clear_suspects(self) -> None:
        with self.lock:
            self.suspects_by_path = {}


def max_change_time(known: Mapping[int, Suspect]) -> float:
    return max(suspect.changed_at for suspect in known.values())


def find_suspects_now(root: Path, paths: Iterable[str]) -> dict[str, tuple[Suspect, ...]]:
    """Return suspects without earlier looks: live processes, and those with the file open."""
    follower, paths = ProcessFollower(root), list(paths)
    follower.look(paths)
    return {path: tuple(follower.suspects_by_path.get(path, {}).values()) for path in paths}
