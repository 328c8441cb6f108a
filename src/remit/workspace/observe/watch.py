"""Watch over a work tree: changed paths since the last question, and whether the list is complete.

Ignored folders and nested repositories are not watched; observations do not look there either.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from remit.workspace.files.mounts import find_mount_below, list_mounts
from remit.workspace.observe import inotify
from remit.workspace.observe.inotify import Inotify, InotifyEvent

MAX_CHANGED_PATHS = 100_000
"""Bound of changed paths in memory."""

GIT_RULE_FILES = frozenset({".git", ".gitignore", ".gitattributes", ".gitmodules"})
"""After a change of such a file, git may see different files."""

RELIABLE_FILE_SYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs"}
)
"""File systems that are written only through this kernel."""

FindIgnored = Callable[[list[str]], set[str]]
"""Returns the ignored folders. May raise GitError."""


class ChangedPaths(Struct, frozen=True):
    """Changed files by path, and folders with unknown changes below."""

    paths: frozenset[str]
    folders: frozenset[str]


class WatchedTree:
    """The watches of a work tree. `lost_reason` says why the list of changes is incomplete; empty if complete."""

    def __init__(self, root: Path, find_ignored: FindIgnored) -> None:
        self.root = str(root)
        self.find_ignored = find_ignored
        self.queue: Inotify | None = None
        self.folders: dict[int, str] = {}
        self.watches: dict[str, int] = {}
        self.changed_files: set[str] = set()
        self.changed_folders: set[str] = set()
        self.lost_reason = "it has only just begun to watch"
        self.end_reason = ""
        """Why watching ended for good."""
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

    def take_changes(self) -> ChangedPaths:
        """Return the changes since the last call."""
        with self.lock:
            found = ChangedPaths(frozenset(self.changed_files), frozenset(self.changed_folders))
            self.changed_files, self.changed_folders = set(), set()
            return found

    def read_events(self) -> None:
        """Process each event until now. Raises GitError."""
        with self.lock:
            if self.queue is None:
                return
            try:
                self.watch_folders(
                    [path for event in self.queue.read_events() if (path := self.handle_event(event)) is not None]
                )
            except OSError as error:
                self.stop(explain_watch_error(error))
            if len(self.changed_files) > MAX_CHANGED_PATHS:
                self.mark_lost(f"more than {MAX_CHANGED_PATHS} files changed at once")

    def mark_lost(self, why: str) -> None:
        self.lost_reason = self.lost_reason or why

    def handle_event(self, event: InotifyEvent) -> str | None:
        """Process an event; return a folder that must be watched now, if any."""
        if event.mask & inotify.IN_Q_OVERFLOW:
            self.mark_lost("changes came faster than they could be read")
        if event.mask & inotify.IN_IGNORED_EVENT:
            self.handle_dropped_watch(event.watch)
        folder = self.folders.get(event.watch)
        if folder is None:
            return None
        if not event.name:
            self.handle_folder_event(folder, event.mask)
            return None
        name = os.fsdecode(event.name)
        if name in GIT_RULE_FILES:
            self.mark_lost(f"{name} changed: git may see other files now")
        return self.handle_path_event(join_path(folder, name), event.mask)

    def handle_path_event(self, path: str, mask: int) -> str | None:
        """Record a change at the path; return the path if a new folder must be watched."""
        if not mask & inotify.IN_ISDIR:
            self.changed_files.add(path)
            return None
        self.changed_folders.add(path)
        if mask & (inotify.IN_MOVE_SOURCE | inotify.IN_MOVE_TARGET):
            self.unwatch_folder(path)
        return path if mask & (inotify.IN_CREATE | inotify.IN_MOVE_TARGET) and path not in self.watches else None

    def handle_folder_event(self, folder: str, mask: int) -> None:
        """Process an event on a watched folder itself; except for the root, the parent reports such events, too."""
        if mask & inotify.IN_UNMOUNT or (not folder and mask & (inotify.IN_DELETE_SELF | inotify.IN_MOVE_SELF)):
            self.stop("the folder was moved, removed or unmounted")
        elif mask & inotify.IN_ATTRIB:
            self.changed_folders.add(folder) if folder else self.mark_lost("the rights of the folder changed")

    def handle_dropped_watch(self, watch: int) -> None:
        folder = self.folders.pop(watch, None)
        if folder is not None and self.watches.get(folder) == watch:
            del self.watches[folder]
        if folder == "":
            self.stop("the folder was moved, removed or unmounted")

    def unwatch_folder(self, folder: str) -> None:
        """Stop watching a moved folder and the folders below.

        The kernel watches the folder, not the name: a folder found again under a new name keeps its watch.
        """
        below = [path for path in self.watches if path == folder or path.startswith(f"{folder}/")]
        for path in below:
            watch = self.watches.pop(path)
            if self.folders.get(watch) == path and self.queue is not None:
                del self.folders[watch]
                self.queue.remove_watch(watch)

    def watch_folders(self, folders: Iterable[str]) -> None:
        """Watch these folders and those below; their files count as changed. Raises OSError, GitError.

        Each folder is watched first and read afterwards, so that no new entry is missed.
        """
        level = list(folders)
        while level:
            barred = self.find_ignored([path for path in level if path])
            level = [below for path in level if path not in barred for below in self.watch_folder(path)]

    def watch_folder(self, folder: str) -> Iterator[str]:
        """Watch a folder and yield the folders inside. Raises OSError."""
        if self.queue is None or folder == ".git":
            return
        path = f"{self.root}/{folder}" if folder else self.root
        if folder and os.path.lexists(f"{path}/.git"):
            if self.counting:
                self.mark_lost("a repository came into the folder")
            return
        if len(self.watches) >= inotify.max_watches():
            raise OSError(errno.ENOSPC, "too many folders")
        try:
            watch = self.queue.add_watch(path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise
        self.folders[watch], self.watches[folder] = folder, watch
        yield from self.list_folder(folder, path)

    def list_folder(self, folder: str, place: str) -> Iterator[str]:
        """Yield the folders in a folder and record its files as changed. Raises OSError."""
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


def explain_watch_error(error: OSError) -> str:
    """Return a readable reason for the end of watching."""
    if error.errno == errno.ENOSPC:
        return f"there are more folders than {inotify.max_watches()}, a third of what {inotify.MAX_WATCHES_FILE} gives"
    if error.errno == errno.EMFILE:
        return "this user has no more inotify instances"
    return f"a folder cannot be watched ({error.strerror or error})"


def unwatchable_reason(root: str) -> str:
    """Return why the folder cannot be watched; empty if watchable. A remote machine may
    write to a network file system.
    """
    system = file_system_type(root)
    if system is None:
        return "this system has no inotify"
    inside = find_mount_below(root)
    if inside:
        return f"another file system is mounted inside, at {inside}"
    return "" if system in RELIABLE_FILE_SYSTEMS else f"changes on {system} are not told reliably"


def file_system_type(root: str) -> str | None:
    """Return the file system type of a folder; None if the system has no list of mounts."""
    above = [
        (len(at), n, kind) for n, (at, kind) in enumerate(list_mounts()) if f"{root}/".startswith(at.rstrip("/") + "/")
    ]
    return max(above)[2] if above else None
