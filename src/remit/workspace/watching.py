"""Watching a work tree: which paths changed since somebody last asked, and whether that is all.

Folders that git ignores are not watched, nor repositories inside: no observation looks into them either.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from remit.workspace import inotify
from remit.workspace.inotify import Event, Inotify
from remit.workspace.mounts import mounted_in, mounts

MOST_KNOWN = 100_000
"""Changed paths that are held in memory."""

TELLING = frozenset({".git", ".gitignore", ".gitattributes", ".gitmodules"})
"""With a change of one of these, git may see other files than before."""

KNOWN_SYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs"}
)
"""File systems on which nobody writes but through this kernel."""


class Changed(Struct, frozen=True):
    """What changed: files, by path, and folders of which anything may have."""

    paths: frozenset[str]
    folders: frozenset[str]


Ignored = Callable[[list[str]], set[str]]
"""Those of some folders that git ignores. May raise GitError."""


class Tree:
    """The watches of one work tree. `lost` says why what changed is not known in full; empty where it is."""

    def __init__(self, root: Path, ignored: Ignored) -> None:
        self.root = str(root)
        self.ignored = ignored
        self.queue: Inotify | None = None
        self.folders: dict[int, str] = {}
        self.watches: dict[str, int] = {}
        self.paths: set[str] = set()
        self.touched: set[str] = set()
        self.lost = "it has only just begun to watch"
        self.ended = ""
        """Why it does not go on at all."""
        self.counting = False
        """Whether what is found in a folder that is watched from now on counts as changed."""
        self.lock = threading.RLock()

    def start(self) -> None:
        """Watch every folder; from here on nothing is missed. Raises GitError."""
        with self.lock:
            self.ended, self.lost = why_not(self.root), ""
            if self.ended:
                return
            try:
                self.queue = Inotify()
                self.watch_all([""])
            except OSError as error:
                self.end(reason(error))
            self.counting = True

    def close(self) -> None:
        """Watch no more."""
        with self.lock:
            if self.queue is not None:
                self.queue.close()
            self.queue = None
            self.folders, self.watches = {}, {}

    def end(self, why: str) -> None:
        """Watch no more, for that reason."""
        self.close()
        self.ended = why

    def take(self) -> Changed:
        """What changed since the last time; counting begins anew."""
        with self.lock:
            found = Changed(frozenset(self.paths), frozenset(self.touched))
            self.paths, self.touched = set(), set()
            return found

    def drain(self) -> None:
        """Take in all that happened until now. Raises GitError."""
        with self.lock:
            if self.queue is None:
                return
            try:
                self.watch_all([path for event in self.queue.read() if (path := self.heard(event)) is not None])
            except OSError as error:
                self.end(reason(error))
            if len(self.paths) > MOST_KNOWN:
                self.lose(f"more than {MOST_KNOWN} files changed at once")

    def lose(self, why: str) -> None:
        """Not all that changed is known."""
        self.lost = self.lost or why

    def heard(self, event: Event) -> str | None:
        """Take in one event; the path of a folder that has to be watched now."""
        if event.mask & inotify.OVERFLOW:
            self.lose("changes came faster than they could be read")
        if event.mask & inotify.IGNORED:
            self.dropped(event.watch)
        folder = self.folders.get(event.watch)
        if folder is None:
            return None
        if not event.name:
            self.heard_of_itself(folder, event.mask)
            return None
        name = os.fsdecode(event.name)
        if name in TELLING:
            self.lose(f"{name} changed: git may see other files now")
        return self.heard_of(join(folder, name), event.mask)

    def heard_of(self, path: str, mask: int) -> str | None:
        """Something happened to what is at this path; itself where it is a folder to watch."""
        if not mask & inotify.IS_FOLDER:
            self.paths.add(path)
            return None
        self.touched.add(path)
        if mask & (inotify.MOVED_FROM | inotify.MOVED_TO):
            self.forget(path)
        return path if mask & (inotify.CREATE | inotify.MOVED_TO) and path not in self.watches else None

    def heard_of_itself(self, folder: str, mask: int) -> None:
        """Something happened to a watched folder itself; of all but the root its parent tells."""
        if mask & inotify.UNMOUNT or (not folder and mask & (inotify.DELETE_SELF | inotify.MOVE_SELF)):
            self.end("the folder was moved, removed or unmounted")
        elif mask & inotify.ATTRIB:
            self.touched.add(folder) if folder else self.lose("the rights of the folder changed")

    def dropped(self, watch: int) -> None:
        """The kernel watches this one no more."""
        folder = self.folders.pop(watch, None)
        if folder is not None and self.watches.get(folder) == watch:
            del self.watches[folder]
        if folder == "":
            self.end("the folder was moved, removed or unmounted")

    def forget(self, folder: str) -> None:
        """Watch this folder, and those below it, no more: they lie elsewhere by now.

        The kernel watches what lies there, not its name: a folder that was found again elsewhere keeps its watch.
        """
        below = [path for path in self.watches if path == folder or path.startswith(f"{folder}/")]
        for path in below:
            watch = self.watches.pop(path)
            if self.folders.get(watch) == path and self.queue is not None:
                del self.folders[watch]
                self.queue.remove(watch)

    def watch_all(self, folders: Iterable[str]) -> None:
        """Watch these folders and those below; what is in them counts as changed. Raises OSError, GitError.

        Each is watched first and read then: so nothing that comes into it falls between.
        """
        level = list(folders)
        while level:
            barred = self.ignored([path for path in level if path])
            level = [below for path in level if path not in barred for below in self.watch(path)]

    def watch(self, folder: str) -> Iterator[str]:
        """Watch one folder; the folders in it. Raises OSError."""
        if self.queue is None or folder == ".git":
            return
        place = f"{self.root}/{folder}" if folder else self.root
        if folder and os.path.lexists(f"{place}/.git"):
            if self.counting:
                self.lose("a repository came into the folder")
            return
        if len(self.watches) >= inotify.most_watches():
            raise OSError(errno.ENOSPC, "too many folders")
        try:
            watch = self.queue.add(place)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise
        self.folders[watch], self.watches[folder] = folder, watch
        yield from self.read(folder, place)

    def read(self, folder: str, place: str) -> Iterator[str]:
        """The folders in a folder; its files count as changed. Raises OSError."""
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    path = join(folder, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        yield path
                    elif self.counting:
                        self.paths.add(path)
        except FileNotFoundError:
            return


def join(folder: str, name: str) -> str:
    """The path of a name in a folder; the root is empty."""
    return f"{folder}/{name}" if folder else name


def reason(error: OSError) -> str:
    """Why watching ended, in words."""
    if error.errno == errno.ENOSPC:
        return f"there are more folders than {inotify.most_watches()}, a third of what {inotify.LIMIT} gives"
    if error.errno == errno.EMFILE:
        return "this user has no more inotify instances"
    return f"a folder cannot be watched ({error.strerror or error})"


def why_not(root: str) -> str:
    """Why this folder cannot be watched; empty where it can: another machine may write to a network's file system."""
    system = file_system(root)
    if system is None:
        return "this system has no inotify"
    inside = mounted_in(root)
    if inside:
        return f"another file system is mounted inside, at {inside}"
    return "" if system in KNOWN_SYSTEMS else f"changes on {system} are not told reliably"


def file_system(root: str) -> str | None:
    """The kind of file system that a folder lies on; None where the system does not tell."""
    above = [(len(at), n, kind) for n, (at, kind) in enumerate(mounts()) if f"{root}/".startswith(at.rstrip("/") + "/")]
    return max(above)[2] if above else None
