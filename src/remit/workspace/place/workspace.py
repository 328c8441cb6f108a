"""Where a workspace is, and whether Remit governs it. Found by looking at folders; no process is started."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR

from msgspec import Struct

from remit.core.lazy_property import LazyProperty
from remit.workspace.files.read_files import read_tail

ORCHESTRATION_FOLDER = ".orchestration"
TRACKED_LOGS_FOLDER = f"{ORCHESTRATION_FOLDER}/log"
"""The folder of logs that are tracked files, from the workspace's root."""

GOVERNED_MARKER = "governed"
"""The marker in the state folder. It names the nested roots that are governed, each ended by a NUL."""

MAX_MARKER_BYTES = 1 << 20
ENFORCE_MARKER = "enforce"
MAX_POINTER_BYTES = 8192
MAX_KNOWN_WORKSPACES = 64


class Workspace(Struct, frozen=True, dict=True):
    """One workspace. `root` is absolute with links followed; `git_dir` and `common_dir` are None without git."""

    root: Path
    git_dir: Path | None
    common_dir: Path | None

    @LazyProperty
    def folder(self) -> Path:
        """`.orchestration/`, whether it is there or not."""
        return self.root / ORCHESTRATION_FOLDER

    @LazyProperty
    def state(self) -> Path:
        """Remit's own folder: shared by worktrees, never committed."""
        return self.common_dir / "remit" if self.common_dir else self.folder / ".state"

    @property
    def is_governed(self) -> bool:
        """Whether a person asked Remit to govern here, by `remit init`."""
        return os.path.isfile(self.governed_marker)  # noqa: PTH113  asked several times for each call

    @LazyProperty
    def governed_marker(self) -> str:
        """The file that says so."""
        return str(self.state / GOVERNED_MARKER)

    @property
    def is_nested(self) -> bool:
        """Whether it is a folder inside a repository, and not the root of a worktree."""
        return self.common_dir is not None and not path_exists(self.root / ".git")

    @property
    def is_separate_workspace(self) -> bool:
        """Whether it is a workspace of its own: nested in a governed repository, only a person can make it one."""
        return not self.is_nested or not self.is_governed or os.fsencode(self.root) in self.governed_nested_roots

    @property
    def governed_nested_roots(self) -> set[bytes]:
        """The nested roots that a person governs in this repository."""
        return set(read_tail(self.state / GOVERNED_MARKER, MAX_MARKER_BYTES).split(b"\0"))

    @LazyProperty
    def intents_path(self) -> Path:
        """The intents file."""
        return self.folder / "active_intents.yaml"

    @LazyProperty
    def config_path(self) -> Path:
        """The configuration file."""
        return self.folder / "remit.toml"

    @LazyProperty
    def view_path(self) -> Path:
        """The live view of the log."""
        return self.folder / "agent_trace.jsonl"

    @property
    def tracked_logs(self) -> Path:
        """The folder of logs that are tracked files."""
        return self.root / TRACKED_LOGS_FOLDER

    @LazyProperty
    def log_folder(self) -> Path:
        """The machine log."""
        return self.state / "log"


def locate_workspace(start: Path) -> Workspace | None:
    """The workspace that holds `start`, which need not exist: the nearest folder above it with `.orchestration/`,
    else the nearest with `.git`. None where there is neither.

    A repository that is governed ends the search, though its folder be missing (a fresh worktree inside the main
    one): what lies above it is another's. In a governed repository a nested `.orchestration/` counts only where a
    person began to govern there: an agent's shell can make a folder, too.
    """
    return locate_by_real_path(os.path.realpath(start))


def locate_by_real_path(real: str) -> Workspace | None:
    """`locate` for an absolute name whose links are followed already."""
    repository: str | None = None
    for name in parent_paths(real):
        inside = "" if name == "/" else name
        here = path_exists(f"{inside}/.git")
        if is_folder(f"{inside}/{ORCHESTRATION_FOLDER}"):
            found = workspace_at_names(name, name if here else find_git_root_name(name))
            if here or found.is_separate_workspace:
                return found
        if here:
            repository = repository or name
            own = workspace_at_names(name, name)
            if own.is_governed:
                return own
    return workspace_at_names(repository, repository) if repository else None


def parent_paths(name: str) -> Iterator[str]:
    """An absolute folder and all above it, as text."""
    while True:
        yield name
        above = name.rpartition("/")[0] or "/"
        if above == name:
            return
        name = above


def workspace_at(root: Path, repository: Path | None) -> Workspace:
    """The workspace at `root`, with the git folders of the repository around it."""
    return workspace_at_names(str(root), str(repository) if repository else None)


def workspace_at_names(root: str, repository: str | None) -> Workspace:
    """The same for names as text: a Path for each would cost more than looking does."""
    git_dir = resolve_git_folder_name(repository) if repository else None
    return cached_workspace(root, git_dir, resolve_common_folder(git_dir) if git_dir else None)


@lru_cache(MAX_KNOWN_WORKSPACES)
def cached_workspace(root: str, git_dir: str | None, common_dir: str | None) -> Workspace:
    """One value for one workspace: what it works out of its folders is worked out once."""
    return Workspace(Path(root), Path(git_dir) if git_dir else None, Path(common_dir) if common_dir else None)


def find_git_root(start: Path) -> Path | None:
    """The nearest folder at or above `start` with a `.git`."""
    found = find_git_root_name(str(start))
    return Path(found) if found else None


def find_git_root_name(start: str) -> str | None:
    """The same for a name as text."""
    return next((name for name in parent_paths(start) if path_exists(f"{name.rstrip('/')}/.git")), None)


def resolve_git_folder(repository: Path) -> Path | None:
    """What `.git` stands for: itself, or what its `gitdir:` line names. None where it names nothing.

    `repository` is absolute with links followed. Source: gitrepository-layout(5), read 2026-11.
    """
    found = resolve_git_folder_name(str(repository))
    return Path(found) if found else None


def resolve_git_folder_name(repository: str) -> str | None:
    """The same for a name as text."""
    dot_git = f"{repository.rstrip('/')}/.git"
    status = try_lstat(dot_git)
    if status is not None and S_ISDIR(status.st_mode):
        return dot_git
    if is_folder(dot_git):
        return os.path.realpath(dot_git)
    key, _, name = read_pointer(dot_git).partition(":")
    named = os.path.join(repository, name.strip())  # noqa: PTH118
    return os.path.realpath(named) if key == "gitdir" and name.strip() and is_folder(named) else None


def resolve_common_folder(git_dir: str) -> str:
    """The folder that all worktrees share."""
    named = read_pointer(f"{git_dir}/commondir")
    return os.path.realpath(os.path.join(git_dir, named)) if named else git_dir  # noqa: PTH118


def read_pointer(path: Path | str) -> str:
    """The text of a file that names a folder; empty where it is none. A FIFO put there must not stop us."""
    text = os.fsdecode(read_tail(path, MAX_POINTER_BYTES)).strip()
    return "" if "\0" in text else text


def find_main_worktree(workspace: Workspace) -> Path | None:
    """The main worktree's root, for a linked worktree of an ordinary repository."""
    common = workspace.common_dir
    if common is None or common == workspace.git_dir or common.name != ".git":
        return None
    return common.parent


def try_lstat(path: str) -> os.stat_result | None:
    """What is at that name itself; None where nothing is, or nothing can be seen."""
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def is_folder(path: Path | str) -> bool:
    """Whether a folder is there, as far as we can see; `Path.is_dir` raises where that is not told."""
    return os.path.isdir(path)  # noqa: PTH112


def path_exists(path: Path | str) -> bool:
    """Whether anything is there, as far as we can see."""
    return os.path.exists(path)  # noqa: PTH110
