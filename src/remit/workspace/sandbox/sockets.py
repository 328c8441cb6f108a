"""Sockets of programs that act on request with their own rights, to be hidden from contained commands.

A sandbox does not stop requests: a socket is not a file, and a read-only folder does not protect it. Source of the
places: ssh-agent(1) of OpenSSH 10.1, X(7), dbus-daemon(1), tmux(1), `docker context ls`, read 2026-11.
"""

import os
import re
import stat
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

ENGINE_SOCKETS = (
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
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
MAX_INNER_FOLDERS = 500
"""Bound of folders read per temporary folder; further folders are judged by name."""

MAX_SOCKETS = 200
"""Sockets per folder, oldest first: a command could create any number later."""


def find_sockets(
    home: Path, temporary: Iterable[Path], *, ssh_agent: bool = False, excluded: Container[str] = frozenset()
) -> tuple[Path, ...]:
    """Return existing sockets to hide, without those in `excluded`; `ssh_agent` leaves out the agent's own."""
    user = Path(f"/run/user/{os.getuid()}")
    places = [*map(Path, ENGINE_SOCKETS), user, *(home / name for name in HOME_SOCKETS)]
    if not ssh_agent:
        places += [home / name for name in SSH_HOME_SOCKETS]
    folders = dict.fromkeys(place.resolve() for place in temporary)
    known = [Path(path) for path in list_unix_sockets(Path("/proc/net/unix"))] if folders else []
    for folder in folders:
        found = find_temporary_sockets(folder, ssh_agent=ssh_agent)
        found |= {str(path): at for path in known if folder in path.parents and (at := socket_change_time_ns(path))}
        oldest = sorted((at, path) for path, at in found.items() if path not in excluded and must_hide(path, ssh_agent))
        places += [Path(path) for _, path in oldest[:MAX_SOCKETS]]
    existing = dict.fromkeys(path.resolve() for path in places if path.exists())
    # A hidden folder hides its content, so only the outermost paths are returned.
    return tuple(path for path in existing if existing.keys().isdisjoint(path.parents))


def must_hide(path: str, ssh_agent: bool) -> bool:
    """Return whether to hide a socket in a temporary folder: always, except an allowed ssh-agent's."""
    return not (ssh_agent and "ssh" in path and not TEMPORARY_SOCKET_NAMES.fullmatch(path.rpartition("/")[2]))


def list_unix_sockets(table: Path) -> dict[str, str]:
    """Return the inode by path for each named socket of this network namespace. A path may be gone.

    Source: proc_net_unix(5), read 2026-11.
    """
    try:
        lines = table.read_bytes().decode("utf-8", "surrogateescape").splitlines()[1:]
    except OSError:
        return {}
    fields = (line.split(maxsplit=7) for line in lines)
    return {item[7]: item[6] for item in fields if len(item) == 8 and item[7].startswith("/")}


def socket_change_time_ns(path: Path) -> int:
    """Return the change time of a socket; 0 if absent."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_ctime_ns if stat.S_ISSOCK(status.st_mode) else 0


def find_contained_sockets(launchers: Iterable[int]) -> frozenset[str]:
    """Return the sockets on which contained commands listen: they grant no additional rights.

    `launchers` are the processes that run the commands.
    """
    found: set[str] = set()
    for launcher in launchers:
        for first in (first for sandbox in list_children(launcher) for first in list_children(sandbox)):
            held = {target for process in list_namespace_processes(first) for target in list_descriptors(process)}
            table = list_unix_sockets(Path(f"/proc/{first}/net/unix"))
            found |= {path for path, inode in table.items() if f"socket:[{inode}]" in held}
    return frozenset(found)


def list_children(process: int) -> list[int]:
    """Return the child processes. Source: proc_pid_task_children(5), read 2026-11."""
    try:
        return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def list_namespace_processes(first: int) -> Iterator[str]:
    """Yield the processes in the process namespace of `first`."""
    try:
        own = os.readlink(f"/proc/{first}/ns/pid")  # noqa: PTH115
    except OSError:
        return
    for pid in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError):
            if pid.isdecimal() and os.readlink(f"/proc/{pid}/ns/pid") == own:  # noqa: PTH115
                yield pid


def list_descriptors(process: str) -> Iterator[str]:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208
            with suppress(OSError):
                yield os.readlink(f"/proc/{process}/fd/{name}")  # noqa: PTH115


def find_ssh_sockets(ssh_agent: bool) -> tuple[Path, ...]:
    user = Path(f"/run/user/{os.getuid()}")
    return tuple(user / name for name in SSH_USER_SOCKETS if (user / name).exists()) if ssh_agent else ()


def may_be_ssh_socket(door: Path) -> bool:
    return "ssh" in door.name or door.parent.name == ".ssh" or door.parts[:3] == ("/", "run", "user")


def find_temporary_sockets(folder: Path, *, ssh_agent: bool) -> dict[str, int]:
    """Return sockets in a temporary folder by path, with change times: also sockets a folder deeper, and folders by
    known names.
    """
    found: dict[str, int] = {}
    inner: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, MAX_ENTRIES):
            if TEMPORARY_SOCKET_NAMES.fullmatch(entry.name) or (
                not ssh_agent and SSH_SOCKET_NAME.fullmatch(entry.name)
            ):
                found.update((entry.path, at) for at in list_change_times(entry))
            elif entry.is_dir(follow_symlinks=False):
                inner.append(entry.path)
            elif is_socket(entry):
                found[entry.path] = entry.stat(follow_symlinks=False).st_ctime_ns
    for path in inner[:MAX_INNER_FOLDERS]:
        with suppress(OSError):
            found.update((name, socket_change_time_ns(Path(name))) for name in list_sockets(path))
    return found


def list_change_times(entry: os.DirEntry[str]) -> Iterator[int]:
    """Yield the change time of a socket, or of a folder that holds a socket."""
    with suppress(OSError):
        if is_socket(entry) or (entry.is_dir(follow_symlinks=False) and any(list_sockets(entry.path))):
            yield entry.stat(follow_symlinks=False).st_ctime_ns


def is_socket(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a socket. `stat` is called only for entries of special kinds."""
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink():
        return False
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


def list_sockets(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from (entry.path for entry in islice(entries, MAX_ENTRIES) if is_socket(entry))
