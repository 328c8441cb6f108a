"""Which folders a contained command may write to, and which stay as they are even in those."""

import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.workspace.files.mounts import find_mount_below
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.sandbox.bubblewrap import TEMPORARY_FOLDERS, Layer
from remit.workspace.sandbox.remove_tree import remove_tree

START_MARKER, LAYERS_KEY_FILE, INDEX_FILE = "began", "layers", "index"
SPARE_PREFIX = "spare-"

CACHE_FOLDERS = (
    ".cache",
    ".npm",
    ".cargo/registry",
    ".cargo/git",
    "go/pkg",
    ".gradle/caches",
    ".m2/repository",
    ".local/share/pnpm",
    ".yarn",
    ".bun/install/cache",
    ".nuget/packages",
)
"""Below HOME: what package managers, compilers and test runners keep there."""

GOVERNING_GIT_NAMES = ("config", "config.worktree", "hooks", "info")
"""What in git's folder makes git run programs, or overlook files."""

OWN_STATE = ".local/state/remit"
"""Below HOME: the daemon's socket, and where other commands are staged."""

SCRATCH_FOLDER = f"{OWN_STATE}/sandbox"
"""Below HOME; `remit uninstall` takes all of that folder away."""

OWN_REFS = ("refs/remit", "refs/notes/remit", "refs/notes/ai")


class NoScratchFolder(RuntimeError):
    """Nowhere is room for what a command writes, outside of the workspace itself."""

    def __init__(self, tried: Iterable[Path]) -> None:
        super().__init__(f"no folder outside the workspace to stage writes in: tried {[str(p) for p in tried]!r}")


class Staging(Struct, frozen=True):
    """Where the writes of one command go. `began_ns` is by the clock of that file system."""

    folder: Path
    root: Layer
    common: Layer | None
    other_layers: tuple[Layer, ...]
    began_ns: int
    writable: tuple[Path, ...] = ()
    """What the command may write for real."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All of them."""
        return (self.root, *([self.common] if self.common else []), *self.other_layers)


@contextmanager
def open_staging(workspace: Workspace, home: Path, temporary: Path, *, shared: bool = True) -> Generator[Staging]:
    """Room for one command's writes, gone afterwards. Raises NoScratch, OSError."""
    place = find_scratch_folder(workspace, home, temporary)
    remove_leftovers(place)
    staged = create_staging(place, workspace, home, temporary, os.getpid(), shared=shared)
    try:
        yield staged
    finally:
        remove_tree(staged.folder)


def create_staging(
    place: Path, workspace: Workspace, home: Path, temporary: Path, owner: int, *, shared: bool = True
) -> Staging:
    """Room in `place` for one command's writes, for as long as the process `owner` lives. Raises OSError.

    `shared`: the temporary folder is the real one, where it can be.
    What `save_as_spare` kept for such layers is taken again.
    """
    apart = outside_git_folder(workspace)
    real = real_temporary_folders(temporary, workspace, home, place) if shared else ()
    wanted = [("root", workspace.root, False), *([("git", apart, False)] if apart else [])]
    throwaway = [p for p in throwaway_folders(workspace, temporary) if p not in real]
    wanted += [(f"temporary-{n}", p, bool(find_mount_below(p))) for n, p in enumerate(throwaway)]
    wanted += [(f"cache-{n}", p, False) for n, p in enumerate(find_caches(workspace, home))]
    folder = place / f"{owner}-{os.urandom(8).hex()}"
    key = sha256("\0".join(f"{name} {p}" for name, p, _ in wanted).encode("utf-8", "surrogateescape"))[:16]
    if not take_spare(place / f"{SPARE_PREFIX}{key}", folder):
        folder.mkdir(mode=0o700)
        (folder / LAYERS_KEY_FILE).write_text(key)
        for name, _, _ in wanted:
            for made in (folder / name / "upper", folder / name / "work"):
                made.mkdir(parents=True)
    save_index(workspace, folder)
    (folder / "root" / "upper").chmod(workspace.root.stat().st_mode & 0o7777)
    first, *others = [Layer(p, folder / name / "upper", folder / name / "work", bare) for name, p, bare in wanted]
    common = others.pop(0) if apart else None
    return Staging(folder, first, common, tuple(others), mark_start(folder), real)


def save_index(workspace: Workspace, folder: Path) -> None:
    """Keep git's index as a command finds it: the real one may be written anew while it runs. Raises OSError."""
    saved_index_path(folder).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        if workspace.git_dir is not None:
            shutil.copyfile(workspace.git_dir / "index", saved_index_path(folder), follow_symlinks=False)


def saved_index_path(folder: Path) -> Path:
    """Return where the index is kept as the command that is staged in `folder` found it."""
    return folder / INDEX_FILE


def take_spare(spare: Path, folder: Path) -> bool:
    """Whether room that nothing was written to was there, and is `folder` now."""
    try:
        spare.rename(folder)
    except OSError:
        return False
    return True


def save_as_spare(folder: Path) -> bool:
    """Keep the room for the next command, where nothing at all was written there: making it costs more than a run.

    Otherwise it has to be discarded.
    """
    try:
        key = (folder / LAYERS_KEY_FILE).read_text()
        if any(os.listdir(upper) for upper in folder.glob("*/upper")):  # noqa: PTH208
            return False
        folder.rename(folder.with_name(f"{SPARE_PREFIX}{key}"))
    except OSError:
        return False
    return True


def reopen_staging(folder: Path, workspace: Workspace) -> Staging:
    """What `stage` made for this workspace, to be judged: without the layers that are thrown away. Raises OSError."""
    apart = outside_git_folder(workspace)
    began_ns = (folder / START_MARKER).stat().st_ctime_ns
    return Staging(
        folder, named_layer(folder, "root", workspace.root), apart and named_layer(folder, "git", apart), (), began_ns
    )


def outside_git_folder(workspace: Workspace) -> Path | None:
    """The folder of git, where it does not lie in the workspace."""
    common = workspace.common_dir
    return common if common is not None and not is_inside(common, workspace.root) else None


def real_temporary_folders(temporary: Path, workspace: Workspace, *others: Path) -> tuple[Path, ...]:
    """The temporary folder, which file tools may write to as well.

    Not where it lies in the workspace, or holds that or one of `others`: HOME, and what Remit stages in.
    """
    found = temporary.resolve()
    own = (workspace.root, *([workspace.common_dir] if workspace.common_dir else []))
    if not found.is_dir() or any(is_inside(found, place) for place in own):
        return ()
    return () if any(is_inside(place, found) for place in (*own, *others)) else (found,)


def find_caches(workspace: Workspace, home: Path) -> list[Path]:
    """The caches in HOME that tools cannot work without. What is written there is gone afterwards.

    Kept, it would be run later, by others and in other projects, without ever having been judged.
    """
    found = [home / name for name in CACHE_FOLDERS]
    return [
        p for p in found if p.is_dir() and not p.is_symlink() and are_disjoint(p, workspace) and not find_mount_below(p)
    ]


def are_disjoint(place: Path, workspace: Workspace) -> bool:
    """Whether neither the place nor the workspace holds the other."""
    return not is_inside(place, workspace.root) and not is_inside(workspace.root, place)


def find_leftovers(place: Path) -> list[Path]:
    """Find what was staged by processes that are gone: they were killed, or could not remove it."""
    names = ((found, found.name.partition("-")[0]) for found in place.glob("*-*"))
    return [found for found, pid in names if pid.isdecimal() and not Path("/proc", pid).exists()]


def remove_leftovers(place: Path) -> list[Path]:
    """Remove what processes left that are gone, and return what could not be removed. Never raises OSError."""
    with suppress(OSError):
        return [found for found in find_leftovers(place) if not remove_tree(found)]
    return []


def staging_folders(home: Path, temporary: Path) -> tuple[Path, ...]:
    """Return the folders that commands may be staged in, the best first."""
    return (
        home / SCRATCH_FOLDER,
        temporary / f"remit-sandbox-{os.getuid()}",
        Path(f"/var/tmp/remit-sandbox-{os.getuid()}"),  # noqa: S108  a fallback that is made with mode 0700
    )


def find_scratch_folder(workspace: Workspace, home: Path, temporary: Path) -> Path:
    """The folder for that: no overlay may take its own upper folder for a lower one."""
    tried = staging_folders(home, temporary)
    for place in tried:
        if is_inside(place, workspace.root) or (workspace.common_dir and is_inside(place, workspace.common_dir)):
            continue
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.is_symlink() and place.stat().st_uid == os.getuid():
            return place.resolve()
    raise NoScratchFolder(tried)


def is_inside(path: Path, place: Path) -> bool:
    """Whether a path is that place or lies in it, links followed."""
    found, above = os.path.realpath(path), os.path.realpath(place)  # strings: this is asked a dozen times for one plan
    return found == above or found.startswith(f"{above.rstrip('/')}/")


def named_layer(folder: Path, name: str, place: Path) -> Layer:
    """The layer of that name."""
    return Layer(place, folder / name / "upper", folder / name / "work")


def throwaway_folders(workspace: Workspace, temporary: Path) -> list[Path]:
    """The temporary folders: a command may write there, and nobody sees it afterwards."""
    known = dict.fromkeys(Path(place).resolve() for place in (*TEMPORARY_FOLDERS, temporary) if Path(place).is_dir())
    return [
        p
        for p in known
        if not any(p != other and p.is_relative_to(other) for other in known) and not p.is_relative_to(workspace.root)
    ]


def mark_start(folder: Path) -> int:
    """Now, as the file system there tells time."""
    marker = folder / START_MARKER
    marker.touch()
    return marker.stat().st_ctime_ns


def read_only_paths(workspace: Workspace, settings: Iterable[str], *, layered: bool = False) -> tuple[Path, ...]:
    """What is there and stays read-only: rules, agents' settings, what makes git run programs.

    `layered`: git's settings are written to a layer, and judged afterwards: `git push -u` sets a branch's upstream.
    """
    root, common = workspace.root, workspace.common_dir
    names = (ORCHESTRATION_FOLDER, ".intentignore", *(setting for setting in settings if not setting.startswith("/")))
    places = [root / name for name in names]
    places += (
        [common / name for name in GOVERNING_GIT_NAMES if not layered or name != "config"]
        if common
        else [root / ORCHESTRATION_FOLDER]
    )
    if (root / ".git").is_file():
        places.append(root / ".git")
    return tuple(dict.fromkeys(p for p in places if p.exists() and not p.is_symlink()))


def own_state_folders(workspace: Workspace, home: Path) -> tuple[Path, ...]:
    """Find Remit's own folders, for this repository and for this user: a command has nothing to look for there."""
    return tuple(place.resolve() for place in (workspace.state, home / OWN_STATE) if place.is_dir())


def own_ref_paths(workspace: Workspace) -> tuple[Path, ...]:
    """Where refs that only Remit writes lie as files: read-only where a command writes to git's folder itself."""
    places = (workspace.common_dir / name for name in OWN_REFS) if workspace.common_dir else ()
    return tuple(place for place in places if place.exists())
