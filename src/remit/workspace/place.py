"""Where a workspace is, and whether Remit governs it. Found by looking at folders; no process is started."""

from pathlib import Path

from msgspec import Struct

FOLDER = ".orchestration"
GOVERNED = "governed"
ENFORCE = "enforce"


class Workspace(Struct, frozen=True):
    """One workspace. `root` is absolute with links followed; `git_dir` and `common_dir` are None without git."""

    root: Path
    git_dir: Path | None
    common_dir: Path | None

    @property
    def folder(self) -> Path:
        """`.orchestration/`, whether it is there or not."""
        return self.root / FOLDER

    @property
    def state(self) -> Path:
        """Remit's own folder: shared by worktrees, never committed."""
        return self.common_dir / "remit" if self.common_dir else self.folder / ".state"

    @property
    def governed(self) -> bool:
        """Whether somebody asked Remit to govern here: `init`, or first use by a person."""
        return (self.state / GOVERNED).is_file()

    @property
    def intents_path(self) -> Path:
        """The intents file."""
        return self.folder / "active_intents.yaml"

    @property
    def config_path(self) -> Path:
        """The configuration file."""
        return self.folder / "remit.toml"

    @property
    def view_path(self) -> Path:
        """The live view of the log."""
        return self.folder / "agent_trace.jsonl"

    @property
    def log_folder(self) -> Path:
        """The machine log."""
        return self.state / "log"


def locate(start: Path) -> Workspace | None:
    """The workspace that holds `start`, which need not exist: the nearest folder above it with `.orchestration/`,
    else the nearest with `.git`. None where there is neither.

    A repository that is governed ends the search, though its folder be missing (a fresh worktree inside the main
    one): what lies above it is another's.
    """
    origin = Path(start).resolve()
    repository: Path | None = None
    for folder in (origin, *origin.parents):
        if (folder / FOLDER).is_dir():
            return workspace_at(folder, repository or git_root(folder))
        if repository is None and (folder / ".git").exists():
            repository = folder
            own = workspace_at(folder, folder)
            if own.governed:
                return own
    return workspace_at(repository, repository) if repository else None


def workspace_at(root: Path, repository: Path | None) -> Workspace:
    """The workspace at `root`, with the git folders of the repository around it."""
    git_dir = git_folder(repository) if repository else None
    return Workspace(root, git_dir, common_folder(git_dir) if git_dir else None)


def git_root(start: Path) -> Path | None:
    """The nearest folder at or above `start` with a `.git`."""
    return next((f for f in (start, *start.parents) if (f / ".git").exists()), None)


def git_folder(repository: Path) -> Path | None:
    """What `.git` stands for: itself, or what its `gitdir:` line names. None where it names nothing.

    Source: gitrepository-layout(5), read 2026-11.
    """
    dot_git = repository / ".git"
    if dot_git.is_dir():
        return dot_git.resolve()
    try:
        line = dot_git.read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    named = repository / line.removeprefix("gitdir:").strip()
    return named.resolve() if line.startswith("gitdir:") and named.is_dir() else None


def common_folder(git_dir: Path) -> Path:
    """The folder that all worktrees share."""
    try:
        named = (git_dir / "commondir").read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return git_dir
    return (git_dir / named).resolve()


def main_worktree(workspace: Workspace) -> Path | None:
    """The main worktree's root, for a linked worktree of an ordinary repository."""
    common = workspace.common_dir
    if common is None or common == workspace.git_dir or common.name != ".git":
        return None
    return common.parent
