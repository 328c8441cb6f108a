"""Agent in its jail: the start of each agent without a terminal, and the process that ends with its worker.

With bubblewrap the agent has a process namespace, ended by the kernel together with the worker, however the worker
ends. Without bubblewrap, a reaper above the agent ends the agent's descendants; if the agent ends the reaper, the
worker ends the attempt and the known descendants.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from msgspec import DecodeError, Struct, json

from remit.core.agents import AGENTS, ROWS
from remit.core.agents.row import AgentCommand
from remit.core.call import OWN_AGENT
from remit.core.machine_paths import ATTEMPT_MARK, CLIENT_PATH, STATE_FOLDER, TEMPORARY_FOLDERS
from remit.extensions import PARTS
from remit.gate.hooks.verify_commands import OUTPUT_TAIL_BYTES
from remit.gate.machine import Environment
from remit.wiring.agents import SettingsPlace, find_user_place
from remit.wiring.manifest import SettingsError, read_manifest
from remit.workspace.place.workspace import Workspace
from remit.workspace.processes import reaper
from remit.workspace.processes.limited_command import CommandResult, run_trusted_command
from remit.workspace.processes.process_tracking import process_start_time
from remit.workspace.safe_files import try_lock
from remit.workspace.sandbox import landlock
from remit.workspace.sandbox.attempt_places import existing
from remit.workspace.sandbox.jail import Jail, bubblewrap_command, find_bubblewrap, find_sockets
from remit.workspace.sandbox.private_git_folder import PrivateGitFolder
from remit.workspace.sandbox.scratch_run import STATUS_DESCRIPTOR, WITHOUT_STATUS
from remit.workspace.sandbox.secret_places import SecretPlaces, SecretSearch, make_empty_file
from remit_fleet.board import AttemptEnd
from remit_fleet.workers.feed import AgentFeed
from remit_fleet.workers.network import find_proxy_secrets

LOOK_INTERVAL_S = 0.1
GRACE_S = 5.0


def list_without_model(commands: Mapping[str, AgentCommand], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the agents that these variables give no model: others know their own, or have a command that does."""
    is_bare = commands.get(OWN_AGENT) is AGENTS[OWN_AGENT].command and not variables.get("REMIT_MODEL")
    return (OWN_AGENT,) if is_bare else ()


class AgentRun(Struct, frozen=True):
    """Words and variables of an agent's process, its jail, and the output file."""

    words: tuple[str, ...]
    variables: Mapping[str, str]
    jail: Jail
    log: Path
    bubblewrap: str | None = None


class AgentEnd(Struct, frozen=True):
    """End of an agent's process: its exit code, or how it was ended."""

    code: int | None = None
    ended_as: AttemptEnd | None = None
    why: str = ""


def open_namespace(status: int) -> int:
    """Return a descriptor of the jail's first process, the last to end, from bubblewrap's status; -1 if missing."""
    with suppress(OSError, DecodeError, KeyError), os.fdopen(os.dup(status), "rb") as lines:
        return os.pidfd_open(json.decode(lines.readline())["child-pid"])
    return -1


# -- the jail


HOME_PATHS = (
    *(".gitconfig", ".config/git", ".local/share/remit/bin", ".local/lib"),
    *(".nvm", ".volta", ".asdf", ".local/share/mise", ".pyenv", ".local/share/uv", ".rustup", ".sdkman", ".rbenv"),
)
"""Relative to HOME, what every agent may read: git's settings, the hook client, and folders of installed tools."""

STATE_PATHS = ("sandbox", "spool")
"""In Remit's state folder, what Remit's own agent writes, whose gate is in its process."""

HIDDEN_STATE = ("fleet.db", "fleet.db-wal", "fleet.db-shm", "console.json", "worker.log", "daemon.log", "daemon.sock")


class AttemptPlaces(Struct, frozen=True):
    """Folders of an attempt: the main worktree, the attempt's worktree with its branch, a folder for temporary files,
    and `state`, which the agent sees in the place of Remit's state folder.
    """

    main: Workspace
    tree: Workspace
    temporary: Path
    state: Path
    branch: str

    @property
    def artifacts(self) -> Path:
        """Return the folder for files that the agent gives to people."""
        return self.temporary / "artifacts"


def make_jail(
    places: AttemptPlaces,
    agent: str,
    words: Sequence[str],
    around: Environment,
    search_path: str,
    links: Sequence[str] = (),
    certificates: Sequence[Path] = (),
) -> Jail:
    """Return the jail of an attempt: visible are the attempt's worktree, its own git folder in the place of git's, the
    rules, and the files of HOME needed by the agent. Hidden are the main worktree, further worktrees, the rest of HOME,
    foreign temporary folders, and Remit's records and keys, except from Remit's own agent, which writes them itself.
    """
    tree, home, git_folder = places.tree, around.home.resolve(), PrivateGitFolder(places.tree)
    state = home / STATE_FOLDER
    private = existing(home, places.main.root, *map(Path, TEMPORARY_FOLDERS))
    own_folder, own_files = find_agent_files(agent, home, around.config_folders)
    writable = (tree.root, places.temporary)
    named = (*list_tool_paths(words, search_path), *certificates)
    tools = (path for path in named if is_inside_only(path, private))
    read_only = (tree.root / ".git",)
    shown = find_links(places, links)
    unseen = (*private, *OWN_MOUNTS)
    hidden = tuple(path for path in find_sockets(home, (Path("/"),)) if not is_in_folders(path, unseen))
    emptied = (git_folder.common,)
    is_own = is_own_agent(agent, words)
    if is_own:
        writable = (*writable, places.main.state, places.main.folder, *(state / name for name in STATE_PATHS))
        read_only = (*read_only, state)
        hidden = (*hidden, *(state / name for name in HIDDEN_STATE))
    else:
        read_only = (*read_only, places.main.folder)
        shown = {**shown, state: places.state}
        emptied = (*emptied, places.main.state)
    writable = existing(*writable, *own_folder)
    read_only = existing(*read_only, *own_files, *(home / name for name in HOME_PATHS), *tools)
    secrets = find_secrets_in_sight(around, private, own_folder, (*writable, *read_only, *shown.values()))
    return Jail(
        tree.root,
        private=private,
        writable=writable,
        read_only=read_only,
        placed=git_folder.list_writable(),
        links={**shown, **git_folder.list_read_only()},
        hidden=existing(*hidden, *secrets.files),
        emptied=(*secrets.folders, *existing(*emptied)),
        shown=secrets.visible,
        empty=make_empty_file(home),
        can_nest=is_own,
    )


def find_secrets_in_sight(
    around: Environment, private: Sequence[Path], own_folder: Sequence[Path], seen: Sequence[Path]
) -> SecretPlaces:
    found = SecretSearch(
        around.home, around.settings_variables, tuple(around.config_folders.values()), kept=tuple(seen)
    ).find()
    own = existing(*(folder.resolve() for folder in own_folder))

    def in_sight(paths: Sequence[Path]) -> tuple[Path, ...]:
        is_open = (path for path in paths if not is_in_folders(path, private) or is_in_folders(path, seen))
        return tuple(path for path in is_open if not is_in_folders(path, own))

    return SecretPlaces(in_sight(found.folders), in_sight(found.files), in_sight(found.visible))


OWN_MOUNTS = (Path("/dev"), Path("/proc"))


def is_own_agent(agent: str, words: Sequence[str]) -> bool:
    return agent == OWN_AGENT or (Path(words[0]).name == "remit" and words[1:2] == ("run",))


def is_in_folders(path: Path, folders: Sequence[Path]) -> bool:
    return any(folder in path.parents for folder in folders)


def prepare_state(places: AttemptPlaces) -> None:
    """Make the folder that an agent sees in the place of Remit's state folder."""
    places.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    (places.state / Path(ATTEMPT_MARK).name).touch(mode=0o600)


def find_links(places: AttemptPlaces, patterns: Sequence[str]) -> dict[Path, Path]:
    found: dict[Path, Path] = {}
    for source in (path for pattern in patterns for path in sorted(places.main.root.glob(pattern.rstrip("/")))):
        target = places.tree.root / source.relative_to(places.main.root)
        is_real = source.is_dir() and source.resolve() == source and target.parent.resolve() == target.parent
        if is_real and target.parent.is_dir() and not (target.exists() and any(target.iterdir())):
            found[target] = source
    return found


@contextmanager
def claim_slot(folder: Path) -> Generator[int]:
    """Yield the lowest slot number unused on this host. The number is free again when the process ends."""
    for number in range(MAX_SLOTS):
        with try_lock(folder / f"slot-{number}.lock") as is_free:
            if is_free:
                yield number
                return
    raise OSError(f"{MAX_SLOTS} attempts run on this host already")


FIRST_PORT, PORTS_OF_SLOT, MAX_SLOTS = 20_000, 100, 120
"""Ports of attempts: below 32768, where Linux begins to hand out ports by itself. Source: ip(7), read 2026-11."""


def run_setup(words: Sequence[str], jail: Jail, variables: Mapping[str, str], timeout_s: float) -> CommandResult:
    """Run the command that prepares a worktree, in the jail if available, and return how the command ended."""
    program = find_bubblewrap()
    if program is not None:
        words = ("sh", "-c", WITHOUT_STATUS, "sh", *bubblewrap_command(program, jail, words, STATUS_DESCRIPTOR))
    return run_trusted_command(
        words,
        folder=jail.folder,
        variables=variables,
        timeout_s=timeout_s,
        tail_bytes=OUTPUT_TAIL_BYTES,
        with_stderr=True,
    )


def explain_unwired(agent: str, command: AgentCommand, home: Path, variables: Mapping[str, str], tree: Path) -> str:
    """Return why a known agent would work without hooks in this worktree; empty for a wired agent."""
    row = ROWS.get(agent)
    if row is None or command is not row.command:
        return ""
    try:
        manifest = read_manifest(home)
        user = find_user_place(home, variables, manifest)
    except SettingsError as error:
        return str(error)
    own = SettingsPlace(home, tree).hooks_file(row)
    if manifest.find_file(user.hooks_file(row)) or (own.is_file() and CLIENT_PATH in own.read_text("utf-8", "replace")):
        return ""
    return f"{row.title} has no hooks of Remit here, and would not be governed: `remit init --agent {agent}`"


def find_agent_files(agent: str, home: Path, moved: Mapping[str, str]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the folder of the agent's settings and conversations, and its files that steer the agent."""
    row = ROWS.get(agent)
    if row is None:
        return (), ()
    place = SettingsPlace(home, moved_folders=dict(moved))
    names = (*row.settings_files, row.hooks_file, row.mcp_file)
    return (place.user_file(row, f"{row.config_folder}/"),), tuple(place.user_file(row, name) for name in names)


def list_package_folders() -> list[Path]:
    """Return the folders of Remit's packages: outside of this Python's in a checkout that is installed to be edited."""
    specs = (find_spec(name) for name in ("remit", "remit_hook", *(part.package for part in PARTS)))
    return [Path(spec.origin).resolve().parent for spec in specs if spec and spec.origin]


def list_tool_paths(words: Sequence[str], search_path: str) -> Iterator[Path]:
    yield from list_package_folders()
    for name in (*search_path.split(os.pathsep), f"{sys.prefix}/bin", f"{sys.base_prefix}/bin"):
        folder = Path(name)
        if folder.is_absolute():
            has_library = folder.name in ("bin", ".bin") and (folder.parent / "lib").is_dir()
            yield folder.parent if has_library and folder.parent.name != ".local" else folder
    program = Path(shutil.which(words[0], path=search_path) or words[0]).resolve()
    packages = [folder for folder in program.parents if folder.name == "node_modules"]
    yield packages[-1] if packages else program.parent
    yield from (Path(word) for word in words if word.startswith("/"))


def is_inside_only(path: Path, folders: Sequence[Path]) -> bool:
    """Return whether a path lies below a folder of the list, and contains none of the folders."""
    real = path.resolve()
    return is_in_folders(real, folders) and not any(folder.is_relative_to(real) for folder in folders)


def end_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.send_signal(number)
        process.wait(GRACE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


REAPER_KILLED = "the process that watches over it without bubblewrap was killed; what it had started was ended with it"
MAX_END_ROUNDS = 50


class Descendants:
    """Processes of an agent without a jail: those seen below its reaper, and those with its temporary folder in their
    environment. The worker ends them where the agent has ended the reaper.
    """

    def __init__(self, temporary: str) -> None:
        self.temporary = temporary
        self.started: dict[int, str | None] = {}

    def look(self, reaper_id: int) -> None:
        for process in reaper.list_descendants(reaper_id):
            self.started.setdefault(process, process_start_time(process))

    def end_all(self) -> None:
        for _ in range(MAX_END_ROUNDS):
            left = {process for process, at in self.started.items() if at and process_start_time(process) == at}
            left |= find_processes_of([self.temporary]) if self.temporary else set()
            left |= {below for process in left for below in reaper.list_descendants(process)}
            left = {process for process in left if is_running(process)}
            if not left:
                return
            for process in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(reaper.PAUSE_S)


def find_processes_of(temporary: Iterable[str]) -> set[int]:
    """Return the processes with one of these temporary folders in their environment. The worker's own folder is left
    out, because other programs of the person share it.
    """
    marks = {os.fsencode(f"TMPDIR={folder}") for folder in temporary}
    with suppress(OSError):
        marks -= set(Path("/proc/self/environ").read_bytes().split(b"\0"))
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*") if marks else ():
        with suppress(OSError):
            if not marks.isdisjoint((folder / "environ").read_bytes().split(b"\0")):
                found.add(int(folder.name))
    return found


def end_processes_of(temporary: Iterable[str]) -> None:
    """End what ended attempts have left: a bubblewrap that was killed while it made a jail leaves its child waiting for
    ever, before the command.
    """
    for process in find_processes_of(temporary):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def is_running(process: int) -> bool:
    """Return whether a process exists that is no mere exit status."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    return False


class AgentProcess:
    """A running agent. `cancel` may be called from any thread."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.feed = AgentFeed(run.log, find_proxy_secrets(run.variables))
        self.cancelled = threading.Event()
        self.end: AgentEnd | None = None

    def cancel(self, ended_as: AttemptEnd, why: str) -> None:
        if not self.cancelled.is_set():
            self.end = AgentEnd(None, ended_as, why)
            self.cancelled.set()

    def wait(self, report: Callable[[AgentFeed], None] | None = None) -> AgentEnd:
        """Start the agent, and wait for its end in this thread; none starts once it is cancelled. A jail ends with
        this thread. Raises OSError.
        """
        if self.end is not None:
            return self.end
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                self.list_words(writing),
                cwd=self.run.jail.folder,
                env=dict(self.run.variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        namespace = open_namespace(reading) if self.run.bubblewrap else -1
        assert process.stdout is not None
        reader = threading.Thread(target=self.feed.read_output, args=(process.stdout,), daemon=True)
        reader.start()
        below = Descendants(self.run.variables.get("TMPDIR", "")) if self.run.bubblewrap is None else None
        try:
            while process.poll() is None and not self.cancelled.wait(LOOK_INTERVAL_S):
                if below is not None:
                    below.look(process.pid)
                if report is not None:
                    report(self.feed)
            if below is not None and process.returncode == -signal.SIGKILL:
                self.cancel(AttemptEnd.FAILED, REAPER_KILLED)
        finally:
            end_group(process, signal.SIGKILL if self.run.bubblewrap else signal.SIGTERM)
            code = process.wait()
            if below is not None:
                below.end_all()
            has_jail_ended = False
            if namespace >= 0:
                # The jail's processes die a moment after bubblewrap and could still write.
                poll = select.poll()
                poll.register(namespace, select.POLLIN)
                has_jail_ended = bool(poll.poll(GRACE_S * 1000))
                os.close(namespace)
            os.close(reading)  # only now: bubblewrap writes its command's exit code there
            # What the last lines say counts, and of a jail that has ended nobody holds the output open.
            reader.join(None if has_jail_ended else GRACE_S)
            if not reader.is_alive():
                process.stdout.close()
        return self.end or AgentEnd(code)

    def list_words(self, status: int) -> Sequence[str]:
        run = self.run
        if run.bubblewrap is None:
            return reaper.above_words(run.words)
        apart = (sys.executable, "-I", "-S", landlock.__file__, landlock.APART, "--")
        return (*apart, *bubblewrap_command(run.bubblewrap, run.jail, run.words, status))
