"""Observations at the cost of the changes: a full look once, later looks only at paths named by a watcher.

Correctness comes before speed: unless the watcher certainly reported each change since the last full look, the next
look is full, and `full_look_reason` says why.
"""

import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.workspace.git.command import Git, GitError
from remit.workspace.git.hidden_files import private_pattern_files, refuse_other_worktree
from remit.workspace.git.programs_in_settings import file_state
from remit.workspace.git.refs import head_commit
from remit.workspace.git.tree_files import MAX_NAMED_PATHS, read_tree_entries
from remit.workspace.observe.observation import (
    LOG_VIEW,
    Observation,
    git_status,
    is_ignore_file,
    observe_dirty_paths,
    observe_workspace,
    try_observe_file,
)
from remit.workspace.observe.watch import ChangedPaths, WatchedTree
from remit.workspace.place.workspace import Workspace

FileSignature: TypeAlias = tuple[int, ...]
GitState: TypeAlias = tuple[str | None, tuple[FileSignature, ...]]
"""HEAD and the state of git's files that decide what differs from HEAD. After any change git is asked about the whole
tree.
"""

MAX_CHANGED_PATHS = 2000
"""Above this count, asking git about the whole tree is as fast."""

GIT_STATE_FILES = ("config", "config.worktree", "info/exclude", "info/attributes", "info/sparse-checkout")


class TooManyChanges(RuntimeError):
    """So many changes that a full look is as fast."""


class KnownState(Struct):
    """The last full look, kept up to date: git state, dirty paths, and git's answers per path.

    `listed_paths` are the paths of the full look; `touched_signatures` describe paths touched since.
    """

    git_state: GitState
    dirty: dict[str, None]
    listed_paths: frozenset[str]
    head_entries: dict[str, tuple[str, str] | None] = {}
    ignored: dict[str, bool] = {}
    in_index: dict[str, bool] = {}
    touched_signatures: dict[str, FileSignature] = {}


class IncrementalObserver:
    """Observer of a work tree. `full_look_reason` is empty after an incremental look."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.watched_tree = WatchedTree(workspace.root, self.find_ignored)
        self.known: KnownState | None = None
        self.full_look_reason = self.watched_tree.lost_reason
        self.lock = threading.RLock()

    def observe(self, *, fully: bool = False) -> Observation:
        """Return the result of a full observation. Raises GitError."""
        with self.lock:
            try:
                self.watched_tree.read_events()
            except GitError as error:
                self.watched_tree.mark_lost(str(error).partition("\n")[0])
            reason = "it was asked for" if fully else self.find_full_look_reason()
            if reason:
                return self.observe_fully(reason)
            try:
                found = self.observe_changes(self.watched_tree.take_changes())
            except (GitError, TooManyChanges) as error:
                return self.observe_fully(str(error).partition("\n")[0])
            self.full_look_reason = ""
            return found

    def find_full_look_reason(self) -> str:
        """Return why a full look is needed; empty if not."""
        reason = self.watched_tree.end_reason or self.watched_tree.lost_reason
        if reason or self.known is None:
            return reason or "nothing was looked at in full yet"
        if private_pattern_files(self.workspace):
            return "patterns outside the work tree hide files from git"
        standing = self.read_git_state()
        if standing[0] is None:
            return "there is no commit yet"
        if standing != self.known.git_state:
            return "HEAD, the index or git's settings changed"
        return ""

    def read_git_state(self) -> GitState:
        git_dir, common = self.workspace.git_dir, self.workspace.common_dir
        if git_dir is None or common is None:
            return (None, ())
        files = (git_dir / "index", git_dir / "config.worktree", *(common / name for name in GIT_STATE_FILES))
        return head_commit(self.workspace), tuple(map(file_state, files))

    # -- in full --------------------------------------------------------------------------------------------

    def observe_fully(self, why: str) -> Observation:
        """Look at the whole workspace; changes during the look are looked at again next time. Raises GitError."""
        self.full_look_reason, self.known = why, None
        if self.workspace.common_dir is None:
            return observe_workspace(self.workspace)
        whole = not self.watched_tree.end_reason and not self.watched_tree.lost_reason
        self.watched_tree.take_changes()
        before = self.read_git_state()
        refuse_other_worktree(self.workspace)
        head, dirty = git_status(self.workspace)
        found = observe_dirty_paths(self.workspace, head, dirty)
        if whole and head is not None and head == before[0] and before == self.read_git_state():
            self.known = KnownState(before, dict.fromkeys(dirty), frozenset(dirty))
        return found

    def restart_watching(self) -> None:
        """Watch anew after lost events; the next look is full.

        Slow, so no tool call waits for a restart. Raises GitError.
        """
        if not self.watched_tree.lost_reason or self.watched_tree.end_reason:
            return
        fresh = WatchedTree(self.workspace.root, self.find_ignored)
        fresh.start()
        with self.lock:
            old, self.watched_tree, self.known = self.watched_tree, fresh, None
        old.close()

    def close(self) -> None:
        with self.lock:
            self.watched_tree.stop("it was closed")

    # -- in part --------------------------------------------------------------------------------------------

    def observe_changes(self, changed: ChangedPaths) -> Observation:
        """Look at the known differences and at the changed paths. Raises GitError."""
        known = self.known
        if known is None:
            raise AssertionError("a partial look follows a full one")
        touched = {
            *changed.paths,
            *self.find_paths_below(known, changed.folders),
            *find_unreported_changes(self.workspace.root, known.touched_signatures),
        }
        touched.discard(LOG_VIEW)
        if any(map(is_ignore_file, touched)):
            raise TooManyChanges("a file of ignore patterns changed")
        if len(touched) + len(known.touched_signatures) > MAX_CHANGED_PATHS:
            raise TooManyChanges(f"more than {MAX_CHANGED_PATHS} files changed since the last full look")
        if touched:
            self.update_paths(known, sorted(touched))
        return observe_dirty_paths(self.workspace, known.git_state[0], list(known.dirty))

    def find_paths_below(self, known: KnownState, folders: Iterable[str]) -> set[str]:
        """Return known paths in these folders, and paths of HEAD there. New files are reported by the watcher."""
        named = tuple(f"{folder}/" for folder in folders)
        if not named:
            return set()
        if len(named) > MAX_NAMED_PATHS:
            raise TooManyChanges(f"more than {MAX_NAMED_PATHS} folders changed since the last look")
        found = {path for path in (*known.dirty, *known.touched_signatures) if path.startswith(named)} | set(folders)
        query = ("--", *(f":(literal){folder}" for folder in folders))
        out = Git(self.workspace.root).run("ls-tree", "-r", "-z", "--name-only", str(known.git_state[0]), *query)
        return found | {path for path in out.decode("utf-8", "surrogateescape").split("\0") if path}

    def update_paths(self, known: KnownState, touched: list[str]) -> None:
        """Determine whether each path differs from HEAD now. Raises GitError."""
        self.query_git(known, touched)
        for path in touched:
            known.touched_signatures[path] = found = file_signature(self.workspace.root, path)
            if found[-1:] > (1,):
                raise TooManyChanges("a file that changed has other names (hard links), of which nothing is told")
            if self.differs_from_head(known, path):
                known.dirty[path] = None
            else:
                known.dirty.pop(path, None)

    def query_git(self, known: KnownState, touched: list[str]) -> None:
        """Ask git for the HEAD entry and the ignore state of paths not asked about before."""
        fresh = [path for path in touched if path not in known.head_entries]
        modes = read_tree_entries(self.workspace, str(known.git_state[0]), fresh) if fresh else {}
        known.head_entries |= {path: modes.get(path) for path in fresh}
        loose = [
            p
            for p in touched
            if known.head_entries[p] is None and p not in known.ignored and p not in known.listed_paths
        ]
        barred = self.find_ignored(loose)
        known.ignored |= {path: path in barred for path in loose}
        new = [
            p for p in touched if known.head_entries[p] is None and p in known.listed_paths and p not in known.in_index
        ]
        held = self.find_in_index(new)
        known.in_index |= {path: path in held for path in new}

    def differs_from_head(self, known: KnownState, path: str) -> bool:
        """Return whether a queried path belongs into an observation."""
        held = known.head_entries[path]
        if held is None and path not in known.listed_paths and known.ignored[path]:
            return False
        now = try_observe_file(self.workspace.root / path)
        if held is not None:
            return now is None or (now.version.mode, now.version.git_blob) != held
        return now is not None or (path in known.listed_paths and known.in_index[path])

    def find_in_index(self, paths: list[str]) -> set[str]:
        """Return the `paths` that are in the index. Raises GitError."""
        if not paths:
            return set()
        query = (f":(literal){path}" for path in paths)
        out = Git(self.workspace.root).run("ls-files", "-z", "--cached", "--", *query)
        return set(out.decode("utf-8", "surrogateescape").split("\0")) - {""}

    def find_ignored(self, paths: list[str]) -> set[str]:
        """Return the ignored `paths`. A folder with tracked files is not ignored. Raises GitError."""
        if not paths or self.workspace.common_dir is None:
            return set()
        query = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
        out = Git(self.workspace.root).run("check-ignore", "-z", "--stdin", stdin=query, ok=(0, 1))
        return set(out.decode("utf-8", "surrogateescape").split("\0")) - {""}


def file_signature(root: Path, path: str) -> FileSignature:
    """Return status values that change with the file's content; the last value is the link count."""
    try:
        status = (root / path).lstat()
    except OSError:
        return ()
    names = 1 if stat.S_ISDIR(status.st_mode) else status.st_nlink
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, names)


def find_unreported_changes(root: Path, warm: dict[str, FileSignature]) -> list[str]:
    """Return paths changed without an event: through a memory mapping that was still open."""
    return [path for path, known in warm.items() if file_signature(root, path) != known]
