"""The kernel's own notice of changes in folders: Linux only.

An event is in the queue before the call that caused it returns, so what was written before a moment is told by
reading the queue once after it. Source: inotify(7), read 2026-11; writes through mmap(2) and through names elsewhere
(hard links) are not told.
"""

import ctypes
import errno
import os
import struct
from pathlib import Path

from msgspec import Struct

MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
UNMOUNT = 0x2000
OVERFLOW = 0x4000
IGNORED = 0x8000
ONLY_FOLDERS = 0x1000000
NO_LINKS = 0x2000000
IS_FOLDER = 0x40000000

CHANGES = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
HEAD = struct.Struct("iIII")
BLOCK = 1 << 18
LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")


class NotWatched(OSError):
    """A folder cannot be watched."""


class Event(Struct, frozen=True):
    """One change: in which watched folder, of what kind, and the name there; empty where it is the folder itself."""

    watch: int
    mask: int
    name: bytes


class Inotify:
    """One queue of events."""

    def __init__(self) -> None:
        """Raises OSError where the system has no such thing, or gives no more of it."""
        self.library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self.library, "inotify_init1"):
            raise NotWatched(errno.ENOSYS, "this system has no inotify")
        self.descriptor = self.called(self.library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def called(self, result: int) -> int:
        """The result of a call. Raises OSError."""
        if result < 0:
            number = ctypes.get_errno()
            raise NotWatched(number, os.strerror(number))
        return result

    def add(self, folder: str) -> int:
        """Watch a folder, no link followed; the number that its events carry. Raises OSError."""
        mask = CHANGES | ONLY_FOLDERS | NO_LINKS
        return self.called(self.library.inotify_add_watch(self.descriptor, os.fsencode(folder), mask))

    def remove(self, watch: int) -> None:
        """Watch it no longer; nothing where that has ended already."""
        self.library.inotify_rm_watch(self.descriptor, watch)

    def read(self) -> list[Event]:
        """All events until now; never waits."""
        found: list[Event] = []
        while True:
            try:
                block = os.read(self.descriptor, BLOCK)
            except BlockingIOError:
                return found
            found += events(block)

    def close(self) -> None:
        """End it, and all its watches."""
        os.close(self.descriptor)


def events(block: bytes) -> list[Event]:
    """What one read brought."""
    found: list[Event] = []
    at = 0
    while at < len(block):
        watch, mask, _, size = HEAD.unpack_from(block, at)
        at += HEAD.size
        found.append(Event(watch, mask, block[at : at + size].rstrip(b"\0")))
        at += size
    return found


def most_watches() -> int:
    """How many folders this may watch: a third of what the system gives a user, for editors watch, too."""
    try:
        return int(LIMIT.read_text()) // 3
    except (OSError, ValueError):
        return 0
