"""Where a workspace is, and whether Remit governs it. Found by looking at folders; no process is started."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR

from msgspec import Struct

from remit.core.once import Once
from remit.workspace.versions import read_tail

FOLDER = ".orchestration"
LOGS = f"{FOLDER}/log"
"""The folder of logs that are tracked files, from the workspace's root."""

GOVERNED = "governed"
"""The marker in the state folder. It names the nested roots that are governed, each ended by a NUL."""

ROOTS_BYTES = 1 << 20
ENFORCE = "enforce"
POINTER_BYTES = 8192
KNOWN_MOST = 64


class Workspace(Struct, frozen=True, dict=True):
    """One workspace. `root` is absolute with links followed; `git_dir` and `common_dir` are None without git."""

    root: Path
    git_dir: Path | None
    common_dir: Path | None

    @Once
    def folder(self) -> Path:
        """`.orchestration/`, whether it is there or not."""
        return self.root / FOLDER

    @Once
    def state(self) -> Path:
        """Remit's own folder: shared by worktrees, never committed."""
        return self.common_dir / "remit" if self.common_dir else self.folder / ".state"

    @property
    def governed(self) -> bool:
        """Whether a person asked Remit to govern here, by `remit init`."""
        return os.path.isfile(self.marker)  # noqa: PTH113  asked several times for each call

    @Once
    def marker(self) -> str:
        """The file that says so."""
        return str(self.state / GOVERNED)

    @property
    def nested(self) -> bool:
        """Whether it is a folder inside a repository, and not the root of a worktree."""
        return self.common_dir is not None and not is_there(self.root / ".git")

    @property
    def counts(self) -> bool:
        """Whether it is a workspace of its own: nested in a governed repository, only a person can make it one."""
        return not self.nested or not self.governed or os.fsencode(self.root) in self.roots

    @property
    def roots(self) -> set[bytes]:
        """The nested roots that a person governs in this repository."""
        return set(read_tail(self.state / GOVERNED, ROOTS_BYTES).split(b"\0"))

    @Once
    def intents_path(self) -> Path:
        """The intents file."""
        return self.folder / "active_intents.yaml"

    @Once
    def config_path(self) -> Path:
        """The configuration file."""
        return self.folder / "remit.toml"

    @Once
    def view_path(self) -> Path:
        """The live view of the log."""
        return self.folder / "agent_trace.jsonl"

    @property
    def tracked_logs(self) -> Path:
        """The folder of logs that are tracked files."""
        return self.root / LOGS

    @Once
    def log_folder(self) -> Path:
        """The machine log."""
        return self.state / "log"


def locate(start: Path) -> Workspace | None:
    """The workspace that holds `start`, which need not exist: the nearest folder above it with `.orchestration/`,
    else the nearest with `.git`. None where there is neither.

    A repository that is governed ends the search, though its folder be missing (a fresh worktree inside the main
    one): what lies above it is another's. In a governed repository a nested `.orchestration/` counts only where a
    person began to govern there: an agent's shell can make a folder, too.
    """
    return located(os.path.realpath(start))


def located(real: str) -> Workspace | None:
    """`locate` for an absolute name whose links are followed already."""
    repository: str | None = None
    for name in upwards(real):
        inside = "" if name == "/" else name
        here = is_there(f"{inside}/.git")
        if is_folder(f"{inside}/{FOLDER}"):
            found = workspace_in(name, name if here else git_root_of(name))
            if here or found.counts:
                return found
        if here:
            repository = repository or name
            own = workspace_in(name, name)
            if own.governed:
                return own
    return workspace_in(repository, repository) if repository else None


def upwards(name: str) -> Iterator[str]:
    """An absolute folder and all above it, as text."""
    while True:
        yield name
        above = name.rpartition("/")[0] or "/"
        if above == name:
            return
        name = above


def workspace_at(root: Path, repository: Path | None) -> Workspace:
    """The workspace at `root`, with the git folders of the repository around it."""
    return workspace_in(str(root), str(repository) if repository else None)


def workspace_in(root: str, repository: str | None) -> Workspace:
    """The same for names as text: a Path for each would cost more than looking does."""
    git_dir = git_folder_of(repository) if repository else None
    return known_as(root, git_dir, common_folder(git_dir) if git_dir else None)


@lru_cache(KNOWN_MOST)
def known_as(root: str, git_dir: str | None, common_dir: str | None) -> Workspace:
    """One value for one workspace: what it works out of its folders is worked out once."""
    return Workspace(Path(root), Path(git_dir) if git_dir else None, Path(common_dir) if common_dir else None)


def git_root(start: Path) -> Path | None:
    """The nearest folder at or above `start` with a `.git`."""
    found = git_root_of(str(start))
    return Path(found) if found else None


def git_root_of(start: str) -> str | None:
    """The same for a name as text."""
    return next((name for name in upwards(start) if is_there(f"{name.rstrip('/')}/.git")), None)


def git_folder(repository: Path) -> Path | None:
    """What `.git` stands for: itself, or what its `gitdir:` line names. None where it names nothing.

    `repository` is absolute with links followed. Source: gitrepository-layout(5), read 2026-11.
    """
    found = git_folder_of(str(repository))
    return Path(found) if found else None


def git_folder_of(repository: str) -> str | None:
    """The same for a name as text."""
    dot_git = f"{repository.rstrip('/')}/.git"
    status = status_of(dot_git)
    if status is not None and S_ISDIR(status.st_mode):
        return dot_git
    if is_folder(dot_git):
        return os.path.realpath(dot_git)
    key, _, name = pointer(dot_git).partition(":")
    named = os.path.join(repository, name.strip())  # noqa: PTH118
    return os.path.realpath(named) if key == "gitdir" and name.strip() and is_folder(named) else None


def common_folder(git_dir: str) -> str:
    """The folder that all worktrees share."""
    named = pointer(f"{git_dir}/commondir")
    return os.path.realpath(os.path.join(git_dir, named)) if named else git_dir  # noqa: PTH118


def pointer(path: Path | str) -> str:
    """The text of a file that names a folder; empty where it is none. A FIFO put there must not stop us."""
    text = os.fsdecode(read_tail(path, POINTER_BYTES)).strip()
    return "" if "\0" in text else text


def main_worktree(workspace: Workspace) -> Path | None:
    """The main worktree's root, for a linked worktree of an ordinary repository."""
    common = workspace.common_dir
    if common is None or common == workspace.git_dir or common.name != ".git":
        return None
    return common.parent


def status_of(path: str) -> os.stat_result | None:
    """What is at that name itself; None where nothing is, or nothing can be seen."""
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def is_folder(path: Path | str) -> bool:
    """Whether a folder is there, as far as we can see; `Path.is_dir` raises where that is not told."""
    return os.path.isdir(path)  # noqa: PTH112


def is_there(path: Path | str) -> bool:
    """Whether anything is there, as far as we can see."""
    return os.path.exists(path)  # noqa: PTH110
