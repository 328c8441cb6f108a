"""Watching a work tree: which paths changed since somebody last asked, and whether that is all.

Folders that git ignores are not watched, nor repositories inside: no observation looks into them either.
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
"""Changed paths that are held in memory."""

GIT_RULE_FILES = frozenset({".git", ".gitignore", ".gitattributes", ".gitmodules"})
"""With a change of one of these, git may see other files than before."""

RELIABLE_FILE_SYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs"}
)
"""File systems on which nobody writes but through this kernel."""


class ChangedPaths(Struct, frozen=True):
    """What changed: files, by path, and folders of which anything may have."""

    paths: frozenset[str]
    folders: frozenset[str]


FindIgnored = Callable[[list[str]], set[str]]
"""Those of some folders that git ignores. May raise GitError."""


class WatchedTree:
    """The watches of one work tree. `lost` says why what changed is not known in full; empty where it is."""

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
        """Why it does not go on at all."""
        self.counting = False
        """Whether what is found in a folder that is watched from now on counts as changed."""
        self.lock = threading.RLock()

    def start(self) -> None:
        """Watch every folder; from here on nothing is missed. Raises GitError."""
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
        """Watch no more."""
        with self.lock:
            if self.queue is not None:
                self.queue.close()
            self.queue = None
            self.folders, self.watches = {}, {}

    def stop(self, why: str) -> None:
        """Watch no more, for that reason."""
        self.close()
        self.end_reason = why

    def take_changes(self) -> ChangedPaths:
        """What changed since the last time; counting begins anew."""
        with self.lock:
            found = ChangedPaths(frozenset(self.changed_files), frozenset(self.changed_folders))
            self.changed_files, self.changed_folders = set(), set()
            return found

    def read_events(self) -> None:
        """Take in all that happened until now. Raises GitError."""
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
        """Not all that changed is known."""
        self.lost_reason = self.lost_reason or why

    def handle_event(self, event: InotifyEvent) -> str | None:
        """Take in one event; the path of a folder that has to be watched now."""
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
        """Something happened to what is at this path; itself where it is a folder to watch."""
        if not mask & inotify.IN_ISDIR:
            self.changed_files.add(path)
            return None
        self.changed_folders.add(path)
        if mask & (inotify.IN_MOVE_SOURCE | inotify.IN_MOVE_TARGET):
            self.unwatch_folder(path)
        return path if mask & (inotify.IN_CREATE | inotify.IN_MOVE_TARGET) and path not in self.watches else None

    def handle_folder_event(self, folder: str, mask: int) -> None:
        """Something happened to a watched folder itself; of all but the root its parent tells."""
        if mask & inotify.IN_UNMOUNT or (not folder and mask & (inotify.IN_DELETE_SELF | inotify.IN_MOVE_SELF)):
            self.stop("the folder was moved, removed or unmounted")
        elif mask & inotify.IN_ATTRIB:
            self.changed_folders.add(folder) if folder else self.mark_lost("the rights of the folder changed")

    def handle_dropped_watch(self, watch: int) -> None:
        """The kernel watches this one no more."""
        folder = self.folders.pop(watch, None)
        if folder is not None and self.watches.get(folder) == watch:
            del self.watches[folder]
        if folder == "":
            self.stop("the folder was moved, removed or unmounted")

    def unwatch_folder(self, folder: str) -> None:
        """Watch this folder, and those below it, no more: they lie elsewhere by now.

        The kernel watches what lies there, not its name: a folder that was found again elsewhere keeps its watch.
        """
        below = [path for path in self.watches if path == folder or path.startswith(f"{folder}/")]
        for path in below:
            watch = self.watches.pop(path)
            if self.folders.get(watch) == path and self.queue is not None:
                del self.folders[watch]
                self.queue.remove_watch(watch)

    def watch_folders(self, folders: Iterable[str]) -> None:
        """Watch these folders and those below; what is in them counts as changed. Raises OSError, GitError.

        Each is watched first and read then: so nothing that comes into it falls between.
        """
        level = list(folders)
        while level:
            barred = self.find_ignored([path for path in level if path])
            level = [below for path in level if path not in barred for below in self.watch_folder(path)]

    def watch_folder(self, folder: str) -> Iterator[str]:
        """Watch one folder; the folders in it. Raises OSError."""
        if self.queue is None or folder == ".git":
            return
        place = f"{self.root}/{folder}" if folder else self.root
        if folder and os.path.lexists(f"{place}/.git"):
            if self.counting:
                self.mark_lost("a repository came into the folder")
            return
        if len(self.watches) >= inotify.max_watches():
            raise OSError(errno.ENOSPC, "too many folders")
        try:
            watch = self.queue.add_watch(place)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise
        self.folders[watch], self.watches[folder] = folder, watch
        yield from self.list_folder(folder, place)

    def list_folder(self, folder: str, place: str) -> Iterator[str]:
        """The folders in a folder; its files count as changed. Raises OSError."""
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
    """The path of a name in a folder; the root is empty."""
    return f"{folder}/{name}" if folder else name


def explain_watch_error(error: OSError) -> str:
    """Why watching ended, in words."""
    if error.errno == errno.ENOSPC:
        return f"there are more folders than {inotify.max_watches()}, a third of what {inotify.MAX_WATCHES_FILE} gives"
    if error.errno == errno.EMFILE:
        return "this user has no more inotify instances"
    return f"a folder cannot be watched ({error.strerror or error})"


def unwatchable_reason(root: str) -> str:
    """Why this folder cannot be watched; empty where it can: another machine may write to a network's file system."""
    system = file_system_type(root)
    if system is None:
        return "this system has no inotify"
    inside = find_mount_below(root)
    if inside:
        return f"another file system is mounted inside, at {inside}"
    return "" if system in RELIABLE_FILE_SYSTEMS else f"changes on {system} are not told reliably"


def file_system_type(root: str) -> str | None:
    """The kind of file system that a folder lies on; None where the system does not tell."""
    above = [
        (len(at), n, kind) for n, (at, kind) in enumerate(list_mounts()) if f"{root}/".startswith(at.rstrip("/") + "/")
    ]
    return max(above)[2] if above else None
