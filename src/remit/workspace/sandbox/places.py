"""Which folders a contained command may write to, and which stay as they are even in those."""

import os
import re
import secrets
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from remit.workspace.place import FOLDER, Workspace
from remit.workspace.sandbox.jail import TEMPORARY, Layer

SCRATCH = ".local/state/remit/sandbox"
"""Below HOME; `remit uninstall` takes all of that folder away."""

GOVERNING_GIT = ("config", "config.worktree", "hooks", "info", "remit")
"""What in git's folder makes git run programs, or overlook files; and Remit's own state."""


class NoScratch(RuntimeError):
    """Nowhere is room for what a command writes, outside of the workspace itself."""

    def __init__(self, tried: Iterable[Path]) -> None:
        super().__init__(f"no folder outside the workspace to stage writes in: tried {[str(p) for p in tried]!r}")


class Staging(Struct, frozen=True):
    """Where the writes of one command go. `began_ns` is by the clock of that file system."""

    folder: Path
    root: Layer
    common: Layer | None
    rest: tuple[Layer, ...]
    began_ns: int

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All of them."""
        return (self.root, *([self.common] if self.common else []), *self.rest)


@contextmanager
def staging(workspace: Workspace, home: Path, temporary: Path) -> Generator[Staging]:
    """Room for one command's writes, gone afterwards. Raises NoScratch, OSError."""
    place = scratch(workspace, home, temporary)
    sweep(place)
    folder = place / f"{os.getpid()}-{secrets.token_hex(8)}"
    folder.mkdir(mode=0o700)
    try:
        common = workspace.common_dir
        apart = common if common is not None and not inside(common, workspace.root) else None
        throwaway = throwaways(workspace, temporary)
        yield Staging(
            folder,
            layer(folder, "root", workspace.root),
            layer(folder, "git", apart) if apart else None,
            tuple(temporary_layer(folder, n, place) for n, place in enumerate(throwaway)),
            began(folder),
        )
    finally:
        discard(folder)


def sweep(place: Path) -> None:
    """Take away what processes left that were killed."""
    for found in place.glob("*-*"):
        pid = found.name.partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            discard(found)


def scratch(workspace: Workspace, home: Path, temporary: Path) -> Path:
    """The folder for that: no overlay may take its own upper folder for a lower one."""
    tried = [home / SCRATCH, temporary / f"remit-sandbox-{os.getuid()}", Path(f"/var/tmp/remit-sandbox-{os.getuid()}")]  # noqa: S108  ours alone, checked below
    for place in tried:
        if inside(place, workspace.root) or (workspace.common_dir and inside(place, workspace.common_dir)):
            continue
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.is_symlink() and place.stat().st_uid == os.getuid():
            return place.resolve()
    raise NoScratch(tried)


def inside(path: Path, place: Path) -> bool:
    """Whether a path is that place or lies in it, links followed."""
    return path.resolve().is_relative_to(place.resolve())


def layer(folder: Path, name: str, place: Path) -> Layer:
    """A layer over `place`, with room in `folder`."""
    found = Layer(place, folder / name / "upper", folder / name / "work")
    for made in (found.upper, found.work):
        made.mkdir(parents=True)
    found.upper.chmod(place.stat().st_mode & 0o7777)
    return found


def temporary_layer(folder: Path, number: int, place: Path) -> Layer:
    """A layer over a temporary folder, without what is there where mounts are in it."""
    found = layer(folder, f"temporary-{number}", place)
    return Layer(found.place, found.upper, found.work, bare=mounts_in(place))


def mounts_in(place: Path) -> bool:
    """Whether something is mounted below a folder. Source: proc_pid_mountinfo(5), read 2026-11."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    start = f"{str(place).rstrip('/')}/".encode("utf-8", "surrogateescape")
    return any(unescaped(line.split(b" ")[4]).startswith(start) for line in lines)


def unescaped(name: bytes) -> bytes:
    """A mount point as it is called: blanks, line ends and backslashes are written in octal."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), name)


def throwaways(workspace: Workspace, temporary: Path) -> list[Path]:
    """The temporary folders: a command may write there, and nobody sees it afterwards."""
    known = dict.fromkeys(Path(place).resolve() for place in (*TEMPORARY, temporary) if Path(place).is_dir())
    return [
        p
        for p in known
        if not any(p != other and p.is_relative_to(other) for other in known) and not p.is_relative_to(workspace.root)
    ]


def began(folder: Path) -> int:
    """Now, as the file system there tells time."""
    marker = folder / "began"
    marker.touch()
    return marker.stat().st_ctime_ns


def discard(folder: Path) -> None:
    """Take away what was staged. The overlay's work folder has no permissions at all."""
    for here, names, _ in os.walk(folder):
        for name in names:
            path = Path(here) / name
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def steady(workspace: Workspace, settings: Iterable[str]) -> tuple[Path, ...]:
    """What is there and stays read-only: rules, agents' settings, what makes git run programs, Remit's state."""
    root, common = workspace.root, workspace.common_dir
    names = (FOLDER, ".intentignore", *(setting for setting in settings if not setting.startswith("/")))
    places = [root / name for name in names]
    places += [common / name for name in GOVERNING_GIT] if common else [root / FOLDER]
    if (root / ".git").is_file():
        places.append(root / ".git")
    return tuple(dict.fromkeys(p for p in places if p.exists() and not p.is_symlink()))
