"""inotify, the kernel's notice of changes in folders: Linux only.

An event is queued before the causing call returns, so reading the queue once gives each earlier write. Source:
inotify(7), read 2026-11. Writes through mmap(2) and through hard links elsewhere are not reported.
"""

import ctypes
import errno
import os
import struct
from pathlib import Path

from msgspec import Struct

IN_MODIFY = 0x2
IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVE_SOURCE = 0x40
IN_MOVE_TARGET = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_UNMOUNT = 0x2000
IN_Q_OVERFLOW = 0x4000
IN_IGNORED_EVENT = 0x8000
IN_ONLYDIR = 0x1000000
IN_DONT_FOLLOW = 0x2000000
IN_ISDIR = 0x40000000

WATCH_MASK = (
    IN_MODIFY
    | IN_ATTRIB
    | IN_CLOSE_WRITE
    | IN_MOVE_SOURCE
    | IN_MOVE_TARGET
    | IN_CREATE
    | IN_DELETE
    | IN_DELETE_SELF
    | IN_MOVE_SELF
)
EVENT_HEADER = struct.Struct("iIII")
READ_BYTES = 1 << 18
MAX_WATCHES_FILE = Path("/proc/sys/fs/inotify/max_user_watches")


class WatchError(OSError):
    """A folder cannot be watched."""


class InotifyEvent(Struct, frozen=True):
    """A change: the watch, the kind, and the name in the folder; an empty name means the folder itself."""

    watch: int
    mask: int
    name: bytes


class Inotify:
    """A queue of events."""

    def __init__(self) -> None:
        """Open the queue. Raises OSError if the system has no inotify, or no more queues."""
        self.library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self.library, "inotify_init1"):
            raise WatchError(errno.ENOSYS, "this system has no inotify")
        self.descriptor = self.check_result(self.library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def check_result(self, result: int) -> int:
        """Return the result of a call. Raises WatchError for a negative result."""
        if result < 0:
            number = ctypes.get_errno()
            raise WatchError(number, os.strerror(number))
        return result

    def add_watch(self, folder: str) -> int:
        """Watch a folder without following links; return the watch number. Raises OSError."""
        mask = WATCH_MASK | IN_ONLYDIR | IN_DONT_FOLLOW
        return self.check_result(self.library.inotify_add_watch(self.descriptor, os.fsencode(folder), mask))

    def remove_watch(self, watch: int) -> None:
        self.library.inotify_rm_watch(self.descriptor, watch)

    def read_events(self) -> list[InotifyEvent]:
        """Return the queued events without waiting."""
        found: list[InotifyEvent] = []
        while True:
            try:
                block = os.read(self.descriptor, READ_BYTES)
            except BlockingIOError:
                return found
            found += parse_events(block)

    def close(self) -> None:
        os.close(self.descriptor)


def parse_events(block: bytes) -> list[InotifyEvent]:
    found: list[InotifyEvent] = []
    at = 0
    while at < len(block):
        watch, mask, _, size = EVENT_HEADER.unpack_from(block, at)
        at += EVENT_HEADER.size
        found.append(InotifyEvent(watch, mask, block[at : at + size].rstrip(b"\0")))
        at += size
    return found


def max_watches() -> int:
    """Return the bound of watched folders: a third of the user's limit, since editors watch, too."""
    try:
        return int(MAX_WATCHES_FILE.read_text()) // 3
    except (OSError, ValueError):
        return 0
