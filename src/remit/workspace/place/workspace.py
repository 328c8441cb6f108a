"""Location of a workspace and of its git folders, and the registry of governed repositories.

Only folders are looked at; no process is started. The registry lies outside of the repositories: deleting
`.git/remit` does not end governing.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.core.machine_paths import ATTEMPT_MARK, STATE_FOLDER
from remit.core.python_runtime import LazyProperty
from remit.workspace.safe_files import read_tail, write_atomically

ORCHESTRATION_FOLDER = ".orchestration"
TRACKED_LOGS_FOLDER = f"{ORCHESTRATION_FOLDER}/log"
"""Folder of logs that are tracked files, relative to the workspace root."""

MADE_FILES = frozenset(f"{ORCHESTRATION_FOLDER}/{name}" for name in ("agent_trace.jsonl", "intent_map.md", "TODO.md"))
"""Files that Remit itself makes in the workspace, for people; git ignores them."""

REPLAYS_FOLDER = "replays"
GOVERNED_MARKER = "governed"
"""Marker file in the state folder. The content lists governed nested roots, each ended by a NUL."""

GOVERNED_FOLDER = f"{STATE_FOLDER}/governed"
SESSIONS_FOLDER = f"{STATE_FOLDER}/sessions"
MAX_SESSION_BYTES = 1 << 16
MAX_SESSIONS, MAX_SESSION_AGE_S = 500, 30 * 86400.0
"""Sessions that are remembered whatever their age, and the age after which further ones are forgotten."""
MAX_MARKER_BYTES = 1 << 20
ENFORCE_MARKER = "enforce"
ASSIGNMENT_FILE = "remit/assignment.json"
"""Relative to the git folder of one worktree, which no other worktree shares."""

PRIVATE_GIT_FOLDER = "remit/own"
"""Relative to the git folder of a worktree: the copy of git's folder that a running attempt works with."""

MAX_POINTER_BYTES = 8192
MAX_KNOWN_WORKSPACES = 64


class Workspace(Struct, frozen=True, dict=True):
    """A governed or governable folder. `root` is absolute with links followed; `git_dir` and `common_dir` are None
    without git.
    """

    root: Path
    git_dir: Path | None
    common_dir: Path | None

    @LazyProperty
    def folder(self) -> Path:
        return self.root / ORCHESTRATION_FOLDER

    @LazyProperty
    def state(self) -> Path:
        """The state folder: shared by worktrees, never committed."""
        return self.common_dir / "remit" if self.common_dir else self.folder / ".state"

    def find_own_state(self, name: str) -> Path:
        """Return a folder in the state folder: worktrees share it, and a nested workspace has its own."""
        folder = self.state / name
        return folder / sha256(os.fsencode(self.root))[:16] if self.is_nested else folder

    @property
    def is_governed(self) -> bool:
        return os.path.isfile(self.governed_marker)  # noqa: PTH113  asked several times for each call

    @LazyProperty
    def governed_marker(self) -> str:
        return str(self.state / GOVERNED_MARKER)

    @property
    def is_nested(self) -> bool:
        """Whether the root is a folder inside a repository, not the root of a worktree."""
        return self.common_dir is not None and not path_exists(self.root / ".git")

    @property
    def is_separate_workspace(self) -> bool:
        """Whether the folder governs itself. Inside a governed repository, only a person can decide so."""
        return not self.is_nested or not self.is_governed or os.fsencode(self.root) in self.governed_nested_roots

    @property
    def governed_nested_roots(self) -> set[bytes]:
        return set(read_tail(self.state / GOVERNED_MARKER, MAX_MARKER_BYTES).split(b"\0"))

    @LazyProperty
    def assignment_path(self) -> str | None:
        """The file of the attempt that works here, in the worktree's own git folder; None in a main worktree."""
        return None if self.git_dir in (None, self.common_dir) else f"{self.git_dir}/{ASSIGNMENT_FILE}"

    @property
    def is_assigned(self) -> bool:
        return self.assignment_path is not None and os.path.lexists(self.assignment_path)

    @property
    def git_view(self) -> Path | None:
        """The git folder that git works with here now: of a running attempt its own copy."""
        return Path(find_git_view(str(self.git_dir))) if self.git_dir else None

    @property
    def common_view(self) -> Path | None:
        """The shared git folder that belongs to `git_view`."""
        view = self.git_view
        return self.common_dir if view is None or view == self.git_dir else view.parent.parent

    @LazyProperty
    def intents_path(self) -> Path:
        return self.folder / "active_intents.yaml"

    @LazyProperty
    def config_path(self) -> Path:
        return self.folder / "remit.toml"

    @LazyProperty
    def view_path(self) -> Path:
        return self.folder / "agent_trace.jsonl"

    @property
    def tracked_logs(self) -> Path:
        return self.root / TRACKED_LOGS_FOLDER

    @LazyProperty
    def log_folder(self) -> Path:
        return self.state / "log"


def locate_workspace(start: Path) -> Workspace | None:
    """Return the workspace that holds `start`, which need not exist; None outside of any. The nearest folder with
    `.orchestration/` wins, else the nearest with `.git`. A governed repository ends the search even without the folder
    (a fresh worktree inside the main worktree), since folders above belong to another workspace. In a governed
    repository, a nested `.orchestration/` counts only after a person began to govern there: an agent's shell can create
    the folder, too.
    """
    return locate_by_real_path(os.path.realpath(start))


def locate_by_real_path(real: str) -> Workspace | None:
    """Return the workspace for an absolute path whose links are followed already."""
    repository: str | None = None
    for name in parent_paths(real):
        inside = "" if name == "/" else name
        here = path_exists(f"{inside}/.git")
        if is_folder(f"{inside}/{ORCHESTRATION_FOLDER}"):
            found = workspace_at(name, name if here else find_git_root(name))
            if here or found.is_separate_workspace:
                return found
        if here:
            repository = repository or name
            own = workspace_at(name, name)
            if own.is_governed:
                return own
    return workspace_at(repository, repository) if repository else None


def parent_paths(name: str) -> Iterator[str]:
    while True:
        yield name
        above = name.rpartition("/")[0] or "/"
        if above == name:
            return
        name = above


def workspace_at(root: Path | str, repository: Path | str | None) -> Workspace:
    """Return the workspace at `root`, with the git folders of the given repository; names as text cost least."""
    git_dir = resolve_git_folder(str(repository)) if repository else None
    return _shared_workspace(str(root), git_dir, resolve_common_folder(git_dir) if git_dir else None)


@lru_cache(MAX_KNOWN_WORKSPACES)
def _shared_workspace(root: str, git_dir: str | None, common_dir: str | None) -> Workspace:
    return Workspace(Path(root), Path(git_dir) if git_dir else None, Path(common_dir) if common_dir else None)


def find_git_root(start: Path | str) -> Path | None:
    return next((Path(name) for name in parent_paths(str(start)) if path_exists(f"{name.rstrip('/')}/.git")), None)


def find_nested_repository(workspace: Workspace, path: str) -> str:
    """Return the folder in the workspace, with a final `/`, of another repository that holds the path, such as a
    submodule; empty without one.
    """
    folder = os.path.dirname(path)  # noqa: PTH120
    while folder and not path_exists(workspace.root / folder / ".git"):
        folder = os.path.dirname(folder)  # noqa: PTH120
    return f"{folder}/" if folder else ""


def resolve_git_folder(repository: str) -> str | None:
    """Return the folder that `.git` stands for: the folder or the target of a `gitdir:` line; None if invalid.
    `repository` is absolute with links followed. Source: gitrepository-layout(5), read 2026-11.
    """
    dot_git = f"{repository.rstrip('/')}/.git"
    if is_folder(dot_git):
        return os.path.realpath(dot_git) if os.path.islink(dot_git) else dot_git  # noqa: PTH114
    key, _, name = read_pointer(dot_git).partition(":")
    named = os.path.join(repository, name.strip())  # noqa: PTH118
    return os.path.realpath(named) if key == "gitdir" and name.strip() and is_folder(named) else None


def resolve_common_folder(git_dir: str) -> str:
    named = read_pointer(f"{git_dir}/commondir")
    return os.path.realpath(os.path.join(git_dir, named)) if named else git_dir  # noqa: PTH118


def find_git_view(git_dir: str) -> str:
    """Return the git folder that git works with for a worktree's git folder: the copy of a running attempt, if any."""
    above, _, name = git_dir.rpartition("/")
    if not above.endswith("/worktrees"):
        return git_dir
    own = f"{git_dir}/{PRIVATE_GIT_FOLDER}/common/worktrees/{name}"
    return own if path_exists(f"{own}/commondir") else git_dir


def find_shared_objects(workspace: Workspace) -> Path | None:
    """Return where the jail of an attempt shows the objects of the real repository; None outside of one."""
    shared = Path(f"{workspace.git_dir}/{PRIVATE_GIT_FOLDER}/shared")
    return shared if workspace.assignment_path and is_folder(shared / "pack") else None


def read_pointer(path: Path | str) -> str:
    """Return the text of a file that names a folder; empty if unreadable. A FIFO in place of
    the file does not block.
    """
    text = os.fsdecode(read_tail(path, MAX_POINTER_BYTES)).strip()
    return "" if "\0" in text else text


def find_main_worktree(workspace: Workspace) -> Path | None:
    common = workspace.common_dir
    if common is None or common == workspace.git_dir or common.name != ".git":
        return None
    return common.parent


def has_replays(workspace: Workspace) -> bool:
    """Return True if commands wait to be run again, as proof of what they wrote."""
    try:
        return bool(os.listdir(workspace.state / REPLAYS_FOLDER))  # noqa: PTH208
    except OSError:
        return False


def is_folder(path: Path | str) -> bool:
    """Return whether a visible folder exists at the path. `Path.is_dir` raises for folders that are not visible."""
    return os.path.isdir(path)  # noqa: PTH112


def path_exists(path: Path | str) -> bool:
    return os.path.exists(path)  # noqa: PTH110


def is_in_jail(home: Path) -> bool:
    """Return whether this is the jail of an agent of a plan: the records are out of reach, behind the worker's door."""
    return path_exists(f"{home}/{ATTEMPT_MARK}")


def registry_file_path(home: Path, workspace: Workspace) -> Path:
    return home / GOVERNED_FOLDER / sha256(str(workspace.state).encode("utf-8", "surrogateescape"))[:32]


def register_repository(home: Path, workspace: Workspace) -> None:
    path = registry_file_path(home, workspace)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, repository_mark(workspace) + os.fsencode(workspace.root) + b"\n", durable=False)


def is_repository_registered(home: Path, workspace: Workspace) -> bool:
    try:
        return registry_file_path(home, workspace).read_bytes().startswith(repository_mark(workspace))
    except OSError:
        return False


def repository_mark(workspace: Workspace) -> bytes:
    status = (workspace.common_dir or workspace.root).stat()
    return b"%d:%d\n" % (status.st_dev, status.st_ino)


def list_governed_roots(home: Path, below: tuple[str, ...] = ("",)) -> list[str]:
    """Return the registered repositories that still exist, in the folders `below`; forget those whose folder is gone.
    Entries of older versions name no folder and are skipped.
    """
    found: list[str] = []
    for path in sorted((home / GOVERNED_FOLDER).iterdir()) if (home / GOVERNED_FOLDER).is_dir() else []:
        try:
            root = os.fsdecode(path.read_bytes().partition(b"\n")[2].removesuffix(b"\n"))
        except FileNotFoundError:  # another process forgot it meanwhile
            continue
        if not any(root.startswith(f"{folder}/") for folder in below):
            continue
        workspace = locate_workspace(Path(root)) if root else None
        if workspace is not None and is_repository_registered(home, workspace):
            found.append(root)
        elif root and not Path(root).exists():
            path.unlink(missing_ok=True)
    return found


# Sessions: the user's own list of where each has begun, and works under an intent. A call belongs to its session's
# workspace, wherever its command stands.


class SessionHome(Struct, frozen=True):
    """A workspace of a session; `is_bound` once the session has had an intent there: giving it back frees nobody."""

    root: str
    is_bound: bool


def session_file_path(home: Path, session_id: str) -> str:
    return f"{home}/{SESSIONS_FOLDER}/{sha256(session_id.encode('utf-8', 'surrogateescape'))[:32]}"


def read_session_homes(home: Path, session_id: str) -> tuple[SessionHome, ...]:
    """Return the workspaces of a session, the newest first."""
    entries = read_tail(session_file_path(home, session_id), MAX_SESSION_BYTES).split(b"\0")
    found = (os.fsdecode(entry) for entry in reversed(entries) if entry[:2] in (b"+/", b"-/"))
    return tuple(SessionHome(entry[1:], entry[0] == "+") for entry in found)


def put_session_home(home: Path, session_id: str, root: Path, *, is_bound: bool) -> None:
    """Note that a session has begun in a workspace, or works there under an intent. Raises OSError."""
    path, known = Path(session_file_path(home, session_id)), read_session_homes(home, session_id)
    was_bound = any(other.root == str(root) and other.is_bound for other in known)
    own = SessionHome(str(root), is_bound or was_bound)
    if known[:1] == (own,):
        return
    if not known:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        forget_old_sessions(path.parent)
    entries = [*reversed([other for other in known if other.root != own.root]), own]
    content = b"\0".join(os.fsencode(f"{'+' if entry.is_bound else '-'}{entry.root}") for entry in entries)
    write_atomically(path, content, durable=False)


def forget_old_sessions(folder: Path) -> None:
    files = sorted(((entry.stat().st_mtime, entry.path) for entry in os.scandir(folder)), reverse=True)
    for changed_at, name in files[MAX_SESSIONS:]:
        if changed_at < files[0][0] - MAX_SESSION_AGE_S:
            Path(name).unlink(missing_ok=True)


def find_session_workspaces(home: Path, session_id: str) -> list[Workspace]:
    """Return the governed workspaces in which a session has an intent, the newest first."""
    found = (locate_workspace(Path(entry.root)) for entry in read_session_homes(home, session_id) if entry.is_bound)
    return [workspace for workspace in found if workspace is not None and workspace.is_governed]


def unregister_repository(home: Path, workspace: Workspace) -> None:
    registry_file_path(home, workspace).unlink(missing_ok=True)
