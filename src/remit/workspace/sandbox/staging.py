"""Folders of a contained command: layers that take its writes, its package caches, and their removal.

Layers are kept for the next command or removed. A package cache holds code that runs later: it is kept per intent and
never met under a different intent, nor by a person. Source: Documentation/filesystems/overlayfs.rst of Linux 6.18,
"Changes to underlying filesystems", read 2026-11: lower folders may change while unmounted.
"""

import errno
import os
import shutil
import stat
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.bounds import FILE_BYTES
from remit.core.diff.contents import sha256
from remit.core.machine_paths import CONFIG_FOLDER, STATE_FOLDER, TEMPORARY_FOLDERS
from remit.workspace.mounts import find_mount_below, is_mount
from remit.workspace.place.resolve_paths import OWN_TEMPORARY_NAME, TemporaryFolder, find_temporary_folders
from remit.workspace.place.workspace import ASSIGNMENT_FILE, ORCHESTRATION_FOLDER, Workspace, list_governed_roots
from remit.workspace.sandbox.jail import Layer

START_MARKER, LAYERS_KEY_FILE, INDEX_FILE, ROOT_FILE = "began", "layers", "index", "root-path"
END_FILE = "ended"
"""How a command of a program ended that may resume after a crash: until then, its staging area is no leftover."""

MAX_UNSETTLED_S = 86400.0
LENT_FILE = "lent"  # the origin of a command's caches, and their names
SPARE_PREFIX, CACHES_PREFIX = "spare-", "caches-"
SCRATCH_FOLDER = f"{STATE_FOLDER}/sandbox"  # relative to HOME; `remit uninstall` removes the folder

CACHE_FOLDERS = (
    *(".cache", ".npm", ".cargo/registry", ".cargo/git", "go/pkg", ".gradle/caches", ".m2/repository"),
    *(".local/share/pnpm", ".yarn", ".bun/install/cache", ".nuget/packages"),
)
"""Relative to HOME: caches of package managers, compilers and test runners."""

MAX_CACHE_BYTES = 1 << 30  # per intent; larger caches are dropped
MAX_CACHE_AGE_S = 14 * 86400.0
MAX_SHOWN_ENTRIES = 200  # of a temporary folder with mounts inside: each is a mount of the command's
UNMEASURABLE_BYTES = 1 << 62  # size of a folder with paths longer than Linux accepts
GOVERNING_GIT_NAMES = ("config", "config.worktree", "hooks", "info")
"""Entries of git's folder that make git run programs or pass over files."""

OWN_REFS = ("refs/remit", "refs/notes/remit", "refs/notes/ai")
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NoScratchFolder(RuntimeError):
    """No folder outside the workspace can take a command's writes."""

    def __init__(self, tried: Iterable[Path]) -> None:
        super().__init__(f"no folder outside the workspace to stage writes in: tried {[str(p) for p in tried]!r}")


class Staging(Struct, frozen=True):
    """Folders that take a command's writes, save for `writable`. `began_ns` is by their file system's clock.
    `entries` stand read-only in layers without a lower folder, `held` in writable folders.
    """

    folder: Path
    root: Layer
    common: Layer | None
    other_layers: tuple[Layer, ...]
    began_ns: int
    writable: tuple[Path, ...] = ()
    entries: tuple[Path, ...] = ()
    held: tuple[Path, ...] = ()

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
    """Create a staging area for the lifetime of the process `owner`; `shared` allows the real temporary folder."""
    apart = outside_git_folder(workspace)
    shown = find_shared_folders(temporary, workspace, home, place) if shared else ()
    real = tuple(Path(folder.path) for folder in shown)
    held = tuple(Path(path) for folder in shown for path in sorted(folder.held))
    # Temporary folders with writes that are discarded: the outermost ones.
    known = dict.fromkeys(Path(path).resolve() for path in (*TEMPORARY_FOLDERS, temporary) if Path(path).is_dir())
    apart_from_real = dict.fromkeys(p for p in known if p not in real and not p.is_relative_to(workspace.root))
    throwaway = [p for p in apart_from_real if apart_from_real.keys().isdisjoint(p.parents)]
    wanted = [("root", workspace.root, False), *([("git", apart, False)] if apart else [])]
    wanted += [(f"temporary-{n}", p, bool(find_mount_below(p))) for n, p in enumerate(throwaway)]
    wanted += [(f"cache-{n}", p, False) for n, p in enumerate(find_caches(workspace, home))]
    folder = place / f"{owner}-{os.urandom(8).hex()}"
    layered = {p for _, p, _ in wanted}
    key = sha256("\0".join(f"{name} {p}" for name, p, _ in wanted).encode("utf-8", "surrogateescape"))[:16]
    try:
        (place / f"{SPARE_PREFIX}{key}").rename(folder)
    except OSError:  # no spare area
        folder.mkdir(mode=0o700)
        (folder / LAYERS_KEY_FILE).write_text(key)
        (folder / ROOT_FILE).write_bytes(os.fsencode(workspace.root))
        for name, _, _ in wanted:
            for made in (folder / name / "upper", folder / name / "work"):
                made.mkdir(parents=True)
    # git's index before the command: the real index may change meanwhile.
    saved_index_path(folder).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        if workspace.git_dir is not None:
            shutil.copyfile(workspace.git_dir / "index", saved_index_path(folder), follow_symlinks=False)
    (folder / "root" / "upper").chmod(workspace.root.stat().st_mode & 0o7777)
    first, *others = [named_layer(folder, *each) for each in wanted]
    common = others.pop(0) if apart else None
    marker = folder / START_MARKER
    marker.touch()  # the start by the clock of this file system
    uncovered = [layer for layer in others if layer.without_lower]
    entries = [path for layer in uncovered for path in list_newest_entries(layer) if path not in layered]
    folders = [path for path in entries if can_take_layer(path)]
    inner = [named_layer(folder, f"entry-{n}", path) for n, path in enumerate(folders)]
    for layer in inner:
        layer.upper.mkdir(parents=True, exist_ok=True)
        layer.work.mkdir(exist_ok=True)
    read_only = tuple(path for path in entries if path not in folders)
    began_ns, layers = marker.stat().st_ctime_ns, (*others, *inner)
    covered = {workspace.root, *(layer.target for layer in layers)}
    held = tuple(path for path in held if path not in covered)
    return Staging(folder, first, common, layers, began_ns, real, read_only, held)


def list_newest_entries(layer: Layer) -> list[Path]:
    """Return the entries of a folder that no overlay can cover, at most MAX_SHOWN_ENTRIES, the newest first. Links are
    made again in its layer instead. Raises OSError.
    """
    found = list[tuple[int, Path]]()
    for path in layer.target.iterdir():
        with suppress(FileNotFoundError):  # others remove what is theirs
            if path.is_symlink():
                (layer.upper / path.name).symlink_to(path.readlink())
            else:
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)[:MAX_SHOWN_ENTRIES]]


def can_take_layer(path: Path) -> bool:
    return path.is_dir() and os.access(path, os.R_OK | os.X_OK) and not (is_mount(path) or find_mount_below(path))


def saved_index_path(folder: Path) -> Path:
    return folder / INDEX_FILE


def named_layer(folder: Path, name: str, place: Path, without_lower: bool = False) -> Layer:
    return Layer(place, folder / name / "upper", folder / name / "work", without_lower)


def save_as_spare(folder: Path) -> bool:
    """Keep an area without writes for the next command, as creating one costs more than a run; False: discard it."""
    try:
        key = (folder / LAYERS_KEY_FILE).read_text()
        if any(os.listdir(upper) for upper in folder.glob("*/upper")):  # noqa: PTH208
            return False
        folder.rename(folder.with_name(f"{SPARE_PREFIX}{key}"))
    except OSError:
        return False
    return True


def reopen_staging(folder: Path, workspace: Workspace) -> Staging:
    apart = outside_git_folder(workspace)
    began_ns = (folder / START_MARKER).stat().st_ctime_ns
    common = named_layer(folder, "git", apart) if apart else None
    return Staging(folder, named_layer(folder, "root", workspace.root), common, (), began_ns)


def read_workspace_root(folder: Path) -> str:
    """Return the root of the workspace whose command is staged in `folder`; "" if unknown."""
    try:
        return os.fsdecode((folder / ROOT_FILE).read_bytes())
    except OSError:
        return ""


def outside_git_folder(workspace: Workspace) -> Path | None:
    common = workspace.common_dir
    return common if common is not None and not is_inside(common, workspace.root) else None


def find_shared_folders(
    temporary: Path, workspace: Workspace, home: Path, *others: Path
) -> tuple[TemporaryFolder, ...]:
    """Return the temporary folders in which a command may really write, apart from the workspace and `others`. What
    other governed repositories have there is held.
    """
    own = (workspace.root, *([workspace.common_dir] if workspace.common_dir else []))
    folders = find_temporary_folders(temporary, (*own, home, *others))
    apart = [folder for folder in folders if not any(is_inside(Path(folder.path), path) for path in own)]
    governed = list_governed_roots(home, tuple(folder.path for folder in apart))
    return tuple(
        replace(folder, held=folder.held | {root for root in map(os.path.realpath, governed) if folder.opens(root)})
        for folder in apart
    )


def find_caches(workspace: Workspace, home: Path) -> list[Path]:
    caches: list[Path] = []
    for path in (home / name for name in CACHE_FOLDERS):
        overlaps_workspace = is_inside(path, workspace.root) or is_inside(workspace.root, path)
        if path.is_dir() and not path.is_symlink() and not overlaps_workspace and not find_mount_below(path):
            caches.append(path)
    return caches


def staging_folders(home: Path, temporary: Path) -> tuple[Path, ...]:
    return (
        home / SCRATCH_FOLDER,
        temporary / OWN_TEMPORARY_NAME,
        Path(TEMPORARY_FOLDERS[-1], OWN_TEMPORARY_NAME),  # a fallback that is made with mode 0700
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


def read_only_paths(workspace: Workspace, settings: Iterable[str], *, layered: bool = False) -> tuple[Path, ...]:
    """Return existing paths that stay read-only; `layered` judges git's settings later: `git push -u` sets some."""
    root, common = workspace.root, workspace.common_dir
    names = (ORCHESTRATION_FOLDER, ".intentignore", *(setting for setting in settings if not setting.startswith("/")))
    places = [root / name for name in names]
    if common:
        places += [common / name for name in GOVERNING_GIT_NAMES if not layered or name != "config"]
        places += (common / "worktrees").glob(f"*/{ASSIGNMENT_FILE.partition('/')[0]}")
    if (root / ".git").is_file():
        places.append(root / ".git")
    return tuple(dict.fromkeys(p for p in places if p.exists() and not p.is_symlink()))


def own_state_folders(workspace: Workspace, home: Path) -> tuple[Path, ...]:
    """Return Remit's folders for the repository and the user, which commands do not need."""
    folders = (workspace.state, home / STATE_FOLDER, home / CONFIG_FOLDER)
    return tuple(path.resolve() for path in folders if path.is_dir())


def own_ref_paths(workspace: Workspace) -> tuple[Path, ...]:
    """Return files of Remit's refs: read-only for commands that write to git's folder directly."""
    places = (workspace.common_dir / name for name in OWN_REFS) if workspace.common_dir else ()
    return tuple(path for path in places if path.exists())


# -- package caches ------------------------------------------------------------------------------------------


def lend_caches(staging: Staging, root: Path, intent_id: str) -> None:
    """Lay the caches of the intent over the staging area; a concurrent command may hold them."""
    key = sha256(f"{root}\0{intent_id}".encode("utf-8", "surrogateescape"))[:16]
    kept = staging.folder.with_name(f"{CACHES_PREFIX}{key}")
    caches = [layer for layer in staging.other_layers if layer.upper.parent.name.startswith("cache-")]
    names = {layer.upper.parent: sha256(os.fsencode(layer.target))[:16] for layer in caches}
    if not names:
        return
    lines = [kept.name, *(f"{own.name} {name}" for own, name in names.items())]
    (staging.folder / LENT_FILE).write_text("\n".join(lines))
    for own, name in names.items() if kept.is_dir() else ():
        aside = own.with_name(f"{own.name}-empty")
        with suppress(OSError):
            own.rename(aside)
            try:
                (kept / name).rename(own)
            except OSError:  # absent, or lent to a different command
                aside.rename(own)
            else:
                remove_tree(aside)


def keep_caches(folder: Path) -> Path | None:
    """Keep the caches of an ended command; return their folder. Of two, the first is kept."""
    try:
        first, *lines = (folder / LENT_FILE).read_text().split("\n")
    except OSError:
        return None
    kept = folder.with_name(first)
    for own, name in (line.split(" ") for line in lines):
        with suppress(OSError):
            if os.listdir(folder / own / "upper"):  # noqa: PTH208
                kept.mkdir(mode=0o700, exist_ok=True)
                (folder / own).rename(kept / name)
                for made in ("upper", "work"):
                    (folder / own / made).mkdir(parents=True)
    return kept


def trim_caches(kept: Path | None) -> None:
    oldest = time.time() - MAX_CACHE_AGE_S
    for found in kept.parent.glob(f"{CACHES_PREFIX}*") if kept else ():
        with suppress(OSError):
            if found.stat().st_mtime < oldest or (found == kept and measure_bytes(found) > MAX_CACHE_BYTES):
                gone = found.with_name(f"{os.getpid()}-{os.urandom(8).hex()}")
                found.rename(gone)
                remove_tree(gone)


# -- size and removal ----------------------------------------------------------------------------------------


def measure_bytes(upper: Path) -> int:
    """Return the bytes below a folder, holes of transferable files included, or UNMEASURABLE_BYTES."""
    total = 0
    waiting = [os.fspath(upper)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        status = entry.stat(follow_symlinks=False)
                        on_disk = status.st_blocks * 512
                        total += on_disk if status.st_size > FILE_BYTES.value else max(status.st_size, on_disk)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return UNMEASURABLE_BYTES
    return total


def find_leftovers(place: Path) -> list[Path]:
    names = ((found, found.name.partition("-")[0]) for found in place.glob("*-*"))
    gone = [found for found, pid in names if pid.isdecimal() and not Path("/proc", pid).exists()]
    return [found for found in gone if not is_unsettled(found)]


def is_unsettled(folder: Path) -> bool:
    try:
        return time.time() - (folder / END_FILE).stat().st_mtime < MAX_UNSETTLED_S
    except OSError:
        return False


def remove_leftovers(place: Path) -> list[Path]:
    """Remove staging areas of dead processes; return those that cannot be removed. Never raises OSError."""
    with suppress(OSError):
        return [found for found in find_leftovers(place) if not remove_tree(found)]
    return []


def remove_tree(folder: Path) -> bool:
    """Remove a folder with its content, of any depth, path length and permissions; return whether it is gone.

    Never raises OSError. No link is followed. No other process may still move folders inside.
    """
    try:
        if not folder.is_symlink():
            folder.chmod(0o700)
        here = os.open(folder, FOLDER_FLAGS)
    except OSError:
        return not os.path.lexists(folder)
    empty_folder(here)
    with suppress(OSError):
        folder.rmdir()
    return not os.path.lexists(folder)


def empty_folder(here: int) -> None:
    # On the way down: name and identity of each folder, and the names of its remaining sub-folders.
    levels = [("", folder_identity(here), clear_files(here))]
    try:
        while levels:
            _, _, inner = levels[-1]
            if inner:
                name = inner.pop()
                with suppress(OSError):
                    try:
                        below = os.open(name, FOLDER_FLAGS, dir_fd=here)
                    except PermissionError:
                        os.chmod(name, 0o700, dir_fd=here)
                        below = os.open(name, FOLDER_FLAGS, dir_fd=here)
                    os.close(here)
                    here = below
                    levels.append((name, folder_identity(here), clear_files(here)))
                continue
            done, _, _ = levels.pop()
            if levels:
                above = os.open("..", FOLDER_FLAGS, dir_fd=here)
                os.close(here)
                here = above
                if folder_identity(here) != levels[-1][1]:
                    return  # the folder was moved, and its new neighbours are not ours to remove
                with suppress(OSError):
                    os.rmdir(done, dir_fd=here)
    except OSError:
        return
    finally:
        os.close(here)


def folder_identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def clear_files(folder: int) -> list[str]:
    try:
        if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(folder, stat.S_IRWXU)
        found = os.listdir(folder)
    except OSError:
        return []
    return [name for name in found if not remove_file(name, folder)]


def remove_file(name: str, folder: int) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        with suppress(OSError):
            return not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return True
