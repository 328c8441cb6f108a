"""Sockets of programs that would do something for whoever asks, with rights of their own: out of a command's sight.

A sandbox does not keep anybody from asking: a socket is no file, and a read-only folder does not guard it.
Source of the places: ssh-agent(1) of OpenSSH 10.1, X(7), dbus-daemon(1), tmux(1), `docker context ls`, read 2026-11.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

ENGINES = (
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
)
"""Sockets of services that start programs elsewhere."""

AT_HOME = (".docker/run", ".docker/desktop", ".colima", ".lima", ".1password")
SSH_AT_HOME = (".ssh/agent", ".gnupg/S.gpg-agent.ssh")
SSH_OF_USER = (
    *("keyring/ssh", "gcr/ssh", "openssh_agent", "ssh-agent", "ssh-agent.socket"),
    "gnupg/S.gpg-agent.ssh",
)
"""Below the user's folder in /run."""

SSH = re.compile(r"ssh-.+")
TEMPORARY_DOORS = re.compile(
    r"tmux-\d+|\.X11-unix|\.ICE-unix|dbus-.+|vscode-.+|cursor-.+|code-.+|emacs\d+|\.?screens?|kitty-.+|wezterm.*"
    r"|(docker|podman|containerd|colima|lima|orbstack).*|systemd-private-.+|\.?docker.*"
)
"""What display servers, buses, terminals, editors and container engines call their sockets, or the folders of them."""

MOST_LOOKED = 100_000
MOST = 200
"""Doors in one folder, the oldest first: a command could make any number of its own, later."""


def doors(home: Path, temporary: Iterable[Path], *, ssh_agent: bool = False) -> tuple[Path, ...]:
    """Those that are there, to be hidden. With `ssh_agent` its own are left out."""
    user = Path(f"/run/user/{os.getuid()}")
    places = [*map(Path, ENGINES), user, *(home / name for name in AT_HOME)]
    if not ssh_agent:
        places += [home / name for name in SSH_AT_HOME]
    for folder in dict.fromkeys(place.resolve() for place in temporary):
        places += in_temporary(folder, ssh_agent=ssh_agent)
    return tuple(dict.fromkeys(p.resolve() for p in places if p.exists()))


def ssh_doors(ssh_agent: bool) -> tuple[Path, ...]:
    """The ssh-agent's own below a folder that is hidden, where it is to be seen all the same."""
    user = Path(f"/run/user/{os.getuid()}")
    return tuple(user / name for name in SSH_OF_USER if (user / name).exists()) if ssh_agent else ()


def is_ssh(door: Path) -> bool:
    """Whether an ssh-agent may be behind it."""
    return "ssh" in door.name or door.parent.name == ".ssh" or door.parts[:3] == ("/", "run", "user")


def in_temporary(folder: Path, *, ssh_agent: bool) -> list[Path]:
    """The doors in one temporary folder."""
    found: list[tuple[int, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, MOST_LOOKED):
            if TEMPORARY_DOORS.fullmatch(entry.name) or (not ssh_agent and SSH.fullmatch(entry.name)):
                found += ((at, entry.path) for at in since(entry))
    return [Path(path) for _, path in sorted(found)[:MOST]]


def since(entry: os.DirEntry[str]) -> Iterator[int]:
    """When it came to be, where it is a socket or a folder with one in it; nothing for what speaks to nobody."""
    with suppress(OSError):
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISSOCK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and holds_one(entry.path)):
            yield status.st_ctime_ns


def holds_one(folder: str) -> bool:
    """Whether there is a socket right in that folder. Raises OSError."""
    with os.scandir(folder) as entries:
        return any(stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode) for entry in entries)
