"""Folders of a contained command: layers that take its writes, and paths that stay read-only."""

import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.core.machine_paths import STATE_FOLDER
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
"""Relative to HOME: caches of package managers, compilers and test runners."""

GOVERNING_GIT_NAMES = ("config", "config.worktree", "hooks", "info")
"""Entries of git's folder that make git run programs or pass over files."""


SCRATCH_FOLDER = f"{STATE_FOLDER}/sandbox"
"""Relative to HOME; `remit uninstall` removes the folder."""

OWN_REFS = ("refs/remit", "refs/notes/remit", "refs/notes/ai")


class NoScratchFolder(RuntimeError):
    """No folder outside the workspace can take a command's writes."""

    def __init__(self, tried: Iterable[Path]) -> None:
        super().__init__(f"no folder outside the workspace to stage writes in: tried {[str(p) for p in tried]!r}")


class Staging(Struct, frozen=True):
    """Folders that take the writes of a command. `began_ns` is by the clock of their file system."""

    folder: Path
    root: Layer
    common: Layer | None
    other_layers: tuple[Layer, ...]
    began_ns: int
    writable: tuple[Path, ...] = ()
    """Folders that the command really writes to."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        return (self.root, *([self.common] if self.common else []), *self.other_layers)


@contextmanager
def open_staging(workspace: Workspace, home: Path, temporary: Path, *, shared: bool = True) -> Generator[Staging]:
    """Yield a staging area for a command, removed afterwards. Raises NoScratchFolder, OSError."""
    path = find_scratch_folder(workspace, home, temporary)
    remove_leftovers(path)
    staged = create_staging(path, workspace, home, temporary, os.getpid(), shared=shared)
    try:
        yield staged
    finally:
        remove_tree(staged.folder)


def create_staging(
    place: Path, workspace: Workspace, home: Path, temporary: Path, owner: int, *, shared: bool = True
) -> Staging:
    """Create a staging area in `place`, for the lifetime of the process `owner`. Raises OSError.

    With `shared`, the temporary folder is the real folder if possible. An equal area from `save_as_spare` is reused.
    """
    apart = outside_git_folder(workspace)
    real = real_temporary_folders(temporary, workspace, home, place) if shared else ()
    wanted = [("root", workspace.root, False), *([("git", apart, False)] if apart else [])]
    throwaway = [p for p in throwaway_folders(workspace, temporary) if p not in real]
    wanted += [(f"temporary-{n}", p, bool(find_mount_below(p))) for n, p in enumerate(throwaway)]
    wanted += [(f"cache-{n}", p, False) for n, p in enumerate(find_caches(workspace, home))]
    folder = place / f"{owner}-{os.urandom(8).hex()}"
    key = sha256("\0".join(f"{name} {p}" for name, p, _ in wanted).encode("utf-8", "surrogateescape"))[:16]
    try:
        (place / f"{SPARE_PREFIX}{key}").rename(folder)
    except OSError:  # no spare area
        folder.mkdir(mode=0o700)
        (folder / LAYERS_KEY_FILE).write_text(key)
        for name, _, _ in wanted:
            for made in (folder / name / "upper", folder / name / "work"):
                made.mkdir(parents=True)
    save_index(workspace, folder)
    (folder / "root" / "upper").chmod(workspace.root.stat().st_mode & 0o7777)
    first, *others = [Layer(p, folder / name / "upper", folder / name / "work", bare) for name, p, bare in wanted]
    common = others.pop(0) if apart else None
    marker = folder / START_MARKER
    marker.touch()  # the start by the clock of this file system
    return Staging(folder, first, common, tuple(others), marker.stat().st_ctime_ns, real)


def save_index(workspace: Workspace, folder: Path) -> None:
    """Copy git's index before the command: the real index may change meanwhile. Raises OSError."""
    saved_index_path(folder).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        if workspace.git_dir is not None:
            shutil.copyfile(workspace.git_dir / "index", saved_index_path(folder), follow_symlinks=False)


def saved_index_path(folder: Path) -> Path:
    return folder / INDEX_FILE


def save_as_spare(folder: Path) -> bool:
    """Keep an area without any writes for the next command: creating an area costs more than a run.

    Returns False if the area must be discarded.
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
    """Return the area of `create_staging` for judging, without the discarded layers. Raises OSError."""
    apart = outside_git_folder(workspace)
    began_ns = (folder / START_MARKER).stat().st_ctime_ns
    return Staging(
        folder, named_layer(folder, "root", workspace.root), apart and named_layer(folder, "git", apart), (), began_ns
    )


def outside_git_folder(workspace: Workspace) -> Path | None:
    common = workspace.common_dir
    return common if common is not None and not is_inside(common, workspace.root) else None


def real_temporary_folders(temporary: Path, workspace: Workspace, *others: Path) -> tuple[Path, ...]:
    """Return the temporary folder if a command may really write there, as file tools may.

    Excluded if the temporary folder lies in the workspace, or holds the workspace or a path of `others`: HOME, and
    Remit's staging areas.
    """
    found = temporary.resolve()
    own = (workspace.root, *([workspace.common_dir] if workspace.common_dir else []))
    if not found.is_dir() or any(is_inside(found, path) for path in own):
        return ()
    return () if any(is_inside(path, found) for path in (*own, *others)) else (found,)


def find_caches(workspace: Workspace, home: Path) -> list[Path]:
    """Return the caches in HOME that tools need. Writes there are discarded.

    Kept writes would run later, in other projects, without having been judged.
    """
    caches: list[Path] = []
    for path in (home / name for name in CACHE_FOLDERS):
        overlaps_workspace = is_inside(path, workspace.root) or is_inside(workspace.root, path)
        if path.is_dir() and not path.is_symlink() and not overlaps_workspace and not find_mount_below(path):
            caches.append(path)
    return caches


def find_leftovers(place: Path) -> list[Path]:
    names = ((found, found.name.partition("-")[0]) for found in place.glob("*-*"))
    return [found for found, pid in names if pid.isdecimal() and not Path("/proc", pid).exists()]


def remove_leftovers(place: Path) -> list[Path]:
    """Remove staging areas of dead processes; return those that cannot be removed. Never raises OSError."""
    with suppress(OSError):
        return [found for found in find_leftovers(place) if not remove_tree(found)]
    return []


def staging_folders(home: Path, temporary: Path) -> tuple[Path, ...]:
    """Return candidate folders for staging, best first."""
    return (
        home / SCRATCH_FOLDER,
        temporary / f"remit-sandbox-{os.getuid()}",
        Path(f"/var/tmp/remit-sandbox-{os.getuid()}"),  # noqa: S108  a fallback that is made with mode 0700
    )


def find_scratch_folder(workspace: Workspace, home: Path, temporary: Path) -> Path:
    """Return the folder for staging. An overlay cannot use its own upper folder as a lower folder."""
    tried = staging_folders(home, temporary)
    for path in tried:
        if is_inside(path, workspace.root) or (workspace.common_dir and is_inside(path, workspace.common_dir)):
            continue
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_symlink() and path.stat().st_uid == os.getuid():
            return path.resolve()
    raise NoScratchFolder(tried)


def is_inside(path: Path, place: Path) -> bool:
    # Strings instead of Path objects: a dozen calls for each contained command.
    found, above = os.path.realpath(path), os.path.realpath(place)
    return found == above or found.startswith(f"{above.rstrip('/')}/")


def named_layer(folder: Path, name: str, place: Path) -> Layer:
    return Layer(place, folder / name / "upper", folder / name / "work")


def throwaway_folders(workspace: Workspace, temporary: Path) -> list[Path]:
    """Return temporary folders with writes that are discarded."""
    known = dict.fromkeys(Path(path).resolve() for path in (*TEMPORARY_FOLDERS, temporary) if Path(path).is_dir())
    return [
        p
        for p in known
        if not any(p != other and p.is_relative_to(other) for other in known) and not p.is_relative_to(workspace.root)
    ]


def read_only_paths(workspace: Workspace, settings: Iterable[str], *, layered: bool = False) -> tuple[Path, ...]:
    """Return existing paths that stay read-only: rules, agents' settings, programs of git.

    With `layered`, git's settings go to a layer and are judged later: `git push -u` sets a branch's upstream.
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
    """Return Remit's folders for the repository and the user, which commands do not need."""
    return tuple(path.resolve() for path in (workspace.state, home / STATE_FOLDER) if path.is_dir())


def own_ref_paths(workspace: Workspace) -> tuple[Path, ...]:
    """Return files of Remit's refs: read-only for commands that write to git's folder directly."""
    places = (workspace.common_dir / name for name in OWN_REFS) if workspace.common_dir else ()
    return tuple(path for path in places if path.exists())
