"""Observations at the cost of the changes: a full look once, later looks only at paths that the kernel reported.

Correctness comes before speed: unless the watches certainly reported each change since the last full look, the next
look is full, and `full_look_reason` says why. Watches are inotify's, so Linux only. An event is queued before the
causing call returns, so reading the queue once gives each earlier write. Writes through mmap(2) and through hard links
elsewhere are not reported. Ignored folders and nested repositories are not watched; observations do not look there
either. Source: inotify(7), read 2026-11.
"""

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.workspace.git.command import Git, GitError, file_state
from remit.workspace.git.ignored_files import private_pattern_files, refuse_other_worktree
from remit.workspace.git.repository import MAX_NAMED_PATHS, head_commit, read_tree_entries
from remit.workspace.mounts import find_mount_below, list_mounts
from remit.workspace.observe import observation
from remit.workspace.place.workspace import Workspace

IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE = 0x2, 0x4, 0x8
IN_MOVE_SOURCE, IN_MOVE_TARGET, IN_CREATE = 0x40, 0x80, 0x100
IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF = 0x200, 0x400, 0x800
IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED_EVENT = 0x2000, 0x4000, 0x8000
IN_ONLYDIR, IN_DONT_FOLLOW, IN_ISDIR = 0x1000000, 0x2000000, 0x40000000
MOVES, SELF_MOVES = IN_MOVE_SOURCE | IN_MOVE_TARGET, IN_DELETE_SELF | IN_MOVE_SELF
WATCH_MASK = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | MOVES | IN_CREATE | IN_DELETE | SELF_MOVES
EVENT_HEADER = struct.Struct("iIII")
READ_BYTES = 1 << 18
MAX_WATCHES_FILE = Path("/proc/sys/fs/inotify/max_user_watches")

MAX_CHANGED_PATHS_HELD = 100_000  # bound of changed paths in memory
MAX_CHANGED_PATHS = 2000  # above this count, asking git about the whole tree is as fast
GIT_RULE_FILES = frozenset({".git", ".gitignore", ".gitattributes", ".gitmodules"})
"""After a change of such a file, git may see different files."""

GIT_STATE_FILES = ("config", "config.worktree", "info/exclude", "info/attributes", "info/sparse-checkout")

RELIABLE_FILE_SYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs"}
)
"""File systems that are written only through this kernel."""

FindIgnored = Callable[[list[str]], set[str]]  # returns the ignored folders; may raise GitError

FileSignature: TypeAlias = tuple[int, ...]
GitState: TypeAlias = tuple[str | None, tuple[FileSignature, ...]]
"""HEAD and the state of git's files that decide what differs from HEAD. After any change git is asked about the whole
tree.
"""


# -- watching ------------------------------------------------------------------------------------------------


class Inotify:
    """A queue of events. Raises OSError if the system has no inotify, or no more queues."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self.library, "inotify_init1"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self.descriptor = self.check_result(self.library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def check_result(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def add_watch(self, folder: str) -> int:
        mask = WATCH_MASK | IN_ONLYDIR | IN_DONT_FOLLOW
        return self.check_result(self.library.inotify_add_watch(self.descriptor, os.fsencode(folder), mask))

    def remove_watch(self, watch: int) -> None:
        self.library.inotify_rm_watch(self.descriptor, watch)

    def read_events(self) -> list[tuple[int, int, bytes]]:
        """Return the queued events without waiting: watch, kind, and name in the folder; empty for itself."""
        found: list[tuple[int, int, bytes]] = []
        while True:
            try:
                block = os.read(self.descriptor, READ_BYTES)
            except BlockingIOError:
                return found
            at = 0
            while at < len(block):
                watch, mask, _, size = EVENT_HEADER.unpack_from(block, at)
                start = at + EVENT_HEADER.size
                at = start + size
                found.append((watch, mask, block[start:at].rstrip(b"\0")))

    def close(self) -> None:
        os.close(self.descriptor)


class WatchedTree:
    """The watches of a work tree. `lost_reason`: why the list of changes is incomplete; `end_reason`: why it ended."""

    def __init__(self, root: Path, find_ignored: FindIgnored) -> None:
        self.root = str(root)
        self.find_ignored = find_ignored
        self.queue: Inotify | None = None
        self.folders: dict[int, str] = {}
        self.watches: dict[str, int] = {}
        self.changed_files: set[str] = set()
        self.changed_folders: set[str] = set()
        self.lost_reason, self.end_reason = "it has only just begun to watch", ""
        self.counting = False
        """Whether files found in newly watched folders count as changed."""
        self.lock = threading.RLock()

    def start(self) -> None:
        """Watch each folder; no change is missed afterwards. Raises GitError."""
        with self.lock:
            self.end_reason, self.lost_reason = unwatchable_reason(self.root), ""
            if self.end_reason:
                return
            try:
                self.queue = Inotify()
                self.watch_folders([""])
            except OSError as error:
                self.stop(explain_watch_error(error))
            self.counting = True

    def close(self) -> None:
        with self.lock:
            if self.queue is not None:
                self.queue.close()
            self.queue = None
            self.folders, self.watches = {}, {}

    def stop(self, why: str) -> None:
        self.close()
        self.end_reason = why

    def take_changes(self) -> tuple[set[str], set[str]]:
        """Return the changed files since the last call, and the folders with unknown changes below."""
        with self.lock:
            found = (self.changed_files, self.changed_folders)
            self.changed_files, self.changed_folders = set(), set()
            return found

    def read_events(self) -> None:
        """Process each event until now. Raises GitError."""
        with self.lock:
            if self.queue is None:
                return
            try:
                paths = (self.handle_event(*event) for event in self.queue.read_events())
                self.watch_folders([path for path in paths if path is not None])
            except OSError as error:
                self.stop(explain_watch_error(error))
            if len(self.changed_files) > MAX_CHANGED_PATHS_HELD:
                self.mark_lost(f"more than {MAX_CHANGED_PATHS_HELD} files changed at once")

    def mark_lost(self, why: str) -> None:
        self.lost_reason = self.lost_reason or why

    def handle_event(self, watch: int, mask: int, entry: bytes) -> str | None:
        """Process an event; return a folder that must be watched now, if any."""
        if mask & IN_Q_OVERFLOW:
            self.mark_lost("changes came faster than they could be read")
        if mask & IN_IGNORED_EVENT:
            dropped = self.folders.pop(watch, None)
            if dropped is not None and self.watches.get(dropped) == watch:
                del self.watches[dropped]
            if dropped == "":
                self.stop("the folder was moved, removed or unmounted")
        folder = self.folders.get(watch)
        if folder is None:
            return None
        if not entry:  # the watched folder itself; except for the root, the parent reports such events, too
            if mask & IN_UNMOUNT or (not folder and mask & SELF_MOVES):
                self.stop("the folder was moved, removed or unmounted")
            elif mask & IN_ATTRIB:
                self.changed_folders.add(folder) if folder else self.mark_lost("the rights of the folder changed")
            return None
        name = os.fsdecode(entry)
        if name in GIT_RULE_FILES:
            self.mark_lost(f"{name} changed: git may see other files now")
        path = join_path(folder, name)
        if not mask & IN_ISDIR:
            self.changed_files.add(path)
            return None
        self.changed_folders.add(path)
        if mask & MOVES:
            self.unwatch_folder(path)
        return path if mask & (IN_CREATE | IN_MOVE_TARGET) and path not in self.watches else None

    def unwatch_folder(self, folder: str) -> None:
        for path in [path for path in self.watches if path == folder or path.startswith(f"{folder}/")]:
            watch = self.watches.pop(path)
            if self.folders.get(watch) == path and self.queue is not None:
                del self.folders[watch]
                self.queue.remove_watch(watch)

    def watch_folders(self, folders: Iterable[str]) -> None:
        """Watch these folders and those below; each is watched first and read afterwards. Raises OSError, GitError."""
        level = list(folders)
        while level:
            barred = self.find_ignored([path for path in level if path])
            level = [below for path in level if path not in barred for below in self.watch_folder(path)]

    def watch_folder(self, folder: str) -> Iterator[str]:
        """Watch a folder, record its files as changed, and yield the folders inside. Raises OSError."""
        if self.queue is None or folder == ".git":
            return
        place = f"{self.root}/{folder}" if folder else self.root
        if folder and os.path.lexists(f"{place}/.git"):
            if self.counting:
                self.mark_lost("a repository came into the folder")
            return
        if len(self.watches) >= max_watches():
            raise OSError(errno.ENOSPC, "too many folders")
        try:
            watch = self.queue.add_watch(place)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise
        self.folders[watch], self.watches[folder] = folder, watch
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    path = join_path(folder, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        yield path
                    elif self.counting:
                        self.changed_files.add(path)
        except FileNotFoundError:
            return


def join_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def max_watches() -> int:
    """Return the bound of watched folders: a third of the user's limit, since editors watch, too."""
    try:
        return int(MAX_WATCHES_FILE.read_text()) // 3
    except (OSError, ValueError):
        return 0


def explain_watch_error(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"there are more folders than {max_watches()}, a third of what {MAX_WATCHES_FILE} gives"
    if error.errno == errno.EMFILE:
        return "this user has no more inotify instances"
    return f"a folder cannot be watched ({error.strerror or error})"


def unwatchable_reason(root: str) -> str:
    mounts = [
        (len(at), n, kind) for n, (at, kind) in enumerate(list_mounts()) if f"{root}/".startswith(f"{at.rstrip('/')}/")
    ]
    if not mounts:
        return "this system has no inotify"
    inside = find_mount_below(root)
    if inside:
        return f"another file system is mounted inside, at {inside}"
    system = max(mounts)[2]
    return "" if system in RELIABLE_FILE_SYSTEMS else f"changes on {system} are not told reliably"


# -- observing -----------------------------------------------------------------------------------------------


class TooManyChanges(RuntimeError):
    """So many changes that a full look is as fast."""


class KnownState(Struct):
    """The last full look (`listed_paths`), kept up to date: dirty paths, git's answers per path, touched files."""

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

    def observe(self, *, fully: bool = False) -> observation.Observation:
        """Return the result of a full observation. Raises GitError."""
        with self.lock:
            try:
                self.watched_tree.read_events()
            except GitError as error:
                self.watched_tree.mark_lost(str(error).partition("\n")[0])
            reason = "it was asked for" if fully else self.find_full_look_reason()
            if not reason and self.known is not None:
                try:
                    found = self.observe_changes(self.known, *self.watched_tree.take_changes())
                except (GitError, TooManyChanges) as error:
                    reason = str(error).partition("\n")[0]
                else:
                    self.full_look_reason = ""
                    return found
            return self.observe_fully(reason)

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
        return "" if standing == self.known.git_state else "HEAD, the index or git's settings changed"

    def read_git_state(self) -> GitState:
        git_dir, common = self.workspace.git_view, self.workspace.common_view
        if git_dir is None or common is None:
            return (None, ())
        files = (git_dir / "index", git_dir / "config.worktree", *(common / name for name in GIT_STATE_FILES))
        return head_commit(self.workspace), tuple(map(file_state, files))

    def observe_fully(self, why: str) -> observation.Observation:
        """Look at the whole workspace; changes during the look are looked at again next time. Raises GitError."""
        self.full_look_reason, self.known = why, None
        if self.workspace.common_dir is None:
            return observation.observe_workspace(self.workspace)
        whole = not self.watched_tree.end_reason and not self.watched_tree.lost_reason
        self.watched_tree.take_changes()
        before = self.read_git_state()
        refuse_other_worktree(self.workspace)
        head, dirty = observation.git_status(self.workspace)
        found = observation.observe_dirty_paths(self.workspace, head, dirty)
        if whole and head is not None and head == before[0] and before == self.read_git_state():
            self.known = KnownState(before, dict.fromkeys(dirty), frozenset(dirty))
        return found

    def restart_watching(self) -> None:
        """Watch anew after lost events. Slow, so no tool call waits for a restart. Raises GitError."""
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

    def observe_changes(self, known: KnownState, files: set[str], folders: set[str]) -> observation.Observation:
        """Look at the known differences and at the changed paths. Raises GitError, TooManyChanges."""
        root = self.workspace.root
        # A memory mapping that was still open writes without an event.
        unreported = (path for path, was in known.touched_signatures.items() if file_signature(root, path) != was)
        touched = {*files, *self.find_paths_below(known, folders), *unreported} - {observation.LOG_VIEW}
        if any(map(observation.is_ignore_file, touched)):
            raise TooManyChanges("a file of ignore patterns changed")
        if len(touched) + len(known.touched_signatures) > MAX_CHANGED_PATHS:
            raise TooManyChanges(f"more than {MAX_CHANGED_PATHS} files changed since the last full look")
        paths = sorted(touched)
        self.query_git(known, paths)
        for path in paths:
            known.touched_signatures[path] = found = file_signature(root, path)
            if found[-1:] > (1,):
                raise TooManyChanges("a file that changed has other names (hard links), of which nothing is told")
            if self.differs_from_head(known, path):
                known.dirty[path] = None
            else:
                known.dirty.pop(path, None)
        return observation.observe_dirty_paths(self.workspace, known.git_state[0], list(known.dirty))

    def find_paths_below(self, known: KnownState, folders: Iterable[str]) -> set[str]:
        named = tuple(f"{folder}/" for folder in folders)
        if not named:
            return set()
        if len(named) > MAX_NAMED_PATHS:
            raise TooManyChanges(f"more than {MAX_NAMED_PATHS} folders changed since the last look")
        found = {path for path in (*known.dirty, *known.touched_signatures) if path.startswith(named)} | set(folders)
        words = ("ls-tree", "-r", "-z", "--name-only", str(known.git_state[0]), "--")
        return found | self.list_paths(*words, *(f":(literal){folder}" for folder in folders))

    def query_git(self, known: KnownState, touched: list[str]) -> None:
        fresh = [path for path in touched if path not in known.head_entries]
        modes = read_tree_entries(self.workspace, str(known.git_state[0]), fresh) if fresh else {}
        known.head_entries |= {path: modes.get(path) for path in fresh}
        new = [path for path in touched if known.head_entries[path] is None]
        loose = [path for path in new if path not in known.listed_paths and path not in known.ignored]
        barred = self.find_ignored(loose)
        known.ignored |= {path: path in barred for path in loose}
        listed = [path for path in new if path in known.listed_paths and path not in known.in_index]
        words = ("ls-files", "-z", "--cached", "--")
        held = self.list_paths(*words, *(f":(literal){path}" for path in listed)) if listed else set[str]()
        known.in_index |= {path: path in held for path in listed}

    def differs_from_head(self, known: KnownState, path: str) -> bool:
        held = known.head_entries[path]
        if held is None and path not in known.listed_paths and known.ignored[path]:
            return False
        now = observation.try_observe_file(self.workspace.root / path)
        if held is not None:
            return now is None or (now.version.mode, now.version.git_blob) != held
        return now is not None or (path in known.listed_paths and known.in_index[path])

    def find_ignored(self, paths: list[str]) -> set[str]:
        """Return the ignored `paths`. A folder with tracked files is not ignored. Raises GitError."""
        if not paths or self.workspace.common_dir is None:
            return set()
        query = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
        return self.list_paths("check-ignore", "-z", "--stdin", stdin=query, ok=(0, 1))

    def list_paths(self, *words: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> set[str]:
        out = Git(self.workspace.root).run(*words, stdin=stdin, ok=ok)
        return set(out.decode("utf-8", "surrogateescape").split("\0")) - {""}


def file_signature(root: Path, path: str) -> FileSignature:
    """Return status values that change with the file's content; the last value is the link count."""
    try:
        status = (root / path).lstat()
    except OSError:
        return ()
    names = 1 if stat.S_ISDIR(status.st_mode) else status.st_nlink
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, names)
