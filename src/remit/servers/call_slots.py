"""Places for the calls of the hook socket: so many at once, so many of one caller, some for calls that can be refused.

A connection without a request yet is the first to go: a hook sends its whole request at once, and whoever is dropped
asks a fresh process.
"""

import errno
import os
import resource
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from remit.servers.hook import EventClass
from remit.workspace.processes.process_tracking import PARENT_FIELD, read_stat_fields

MAX_CALLS = 256
MAX_CALLS_OF_CALLER = 32
RESERVED_FOR_PRE = 16
MAX_DESCRIPTORS = 65_536
"""The soft limit is raised up to here: where the hard one is a milliard, programs that close all descriptors hang."""

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class CallSlot(Struct):
    """One connection: the client's process, whether its request was read, and who called it, once that was asked."""

    pid: int
    is_read: bool = False
    caller: int | None = None


class CallSlots:
    """The connections of the hook socket that are open. Thread-safe."""

    def __init__(self, find_caller: Callable[[int], int] | None = None) -> None:
        self.find_caller = find_caller or find_calling_process
        self.held: dict[socket.socket, CallSlot] = {}
        self.lock = threading.Lock()

    def take(self, connection: socket.socket, pid: int) -> bool:
        """Give a new connection a place, if need be that of the oldest one that has sent no request yet."""
        with self.lock:
            mine = CallSlot(pid)
            if len(self.held) >= MAX_CALLS_OF_CALLER:  # before, nobody has more than his share
                rivals = self.list_rivals(mine)
                if len(rivals) >= MAX_CALLS_OF_CALLER and not self.drop_oldest(rivals):
                    return False
            if len(self.held) >= MAX_CALLS and not self.drop_oldest(list(self.held)):
                return False
            self.held[connection] = mine
            return True

    def list_rivals(self, mine: CallSlot) -> list[socket.socket]:
        """Return the connections of the same caller. Whose process is gone has none, and no claim to a place."""
        for slot in (*self.held.values(), mine):
            if slot.caller is None:
                slot.caller = self.find_caller(slot.pid)
        return [connection for connection, slot in self.held.items() if slot.caller == mine.caller]

    def drop_oldest(self, connections: list[socket.socket]) -> bool:
        oldest = next((each for each in connections if not self.held[each].is_read), None)
        if oldest is None:
            return False
        del self.held[oldest]
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)
        return True

    def admit(self, connection: socket.socket, event_class: EventClass | None) -> bool:
        """Return whether the request that was read may be answered here; False also for one that was dropped."""
        with self.lock:
            mine = self.held.get(connection)
            under_way = sum(slot.is_read for slot in self.held.values())
            if mine is None or under_way >= (MAX_CALLS if event_class == "pre" else MAX_CALLS - RESERVED_FOR_PRE):
                return False
            mine.is_read = True
            return True

    def release(self, connection: socket.socket) -> bool:
        """Free the place; return False if the connection was dropped."""
        with self.lock:
            return self.held.pop(connection, None) is not None


def find_calling_process(pid: int) -> int:
    """Return the process that called the hook's: an agent calls all of its own. 0 if it is gone."""
    try:
        return int(read_stat_fields(pid)[PARENT_FIELD])
    except (OSError, IndexError):
        return 0


class CallListener:
    """A listening socket, and a spare descriptor for the moment in which there is none left."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.spare: int | None = None
        self.reserve()

    def reserve(self) -> None:
        with suppress(OSError):
            self.spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def accept(self) -> socket.socket | None:
        """Return the next connection; None if it could not be taken, and the caller has to wait a moment.

        Without a free descriptor the connection is ended, and its client asks a fresh process. Raises TimeoutError.
        """
        try:
            return self.listener.accept()[0]
        except TimeoutError:
            raise
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                self.turn_away()
            return None

    def turn_away(self) -> None:
        if self.spare is not None:
            os.close(self.spare)
            self.spare = None
            with suppress(OSError):
                self.listener.accept()[0].close()
        self.reserve()

    def close(self) -> None:
        if self.spare is not None:
            os.close(self.spare)


# -- limits of this process ----------------------------------------------------------------------------------

INHERITED_LIMITS: list[tuple[int, int]] = []  # of descriptors, before this process raised its own


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as the system lets it."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, MAX_DESCRIPTORS)
    if limit != resource.RLIM_INFINITY and limit < wanted:
        INHERITED_LIMITS.append((limit, most))
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def give_back_limit(pid: int) -> None:
    """Give a process that was just started the limit that this one had: programs that use select(2) break above it.

    It is about to start, and begins no programs of its own before this. Only Linux can.
    """
    if INHERITED_LIMITS and hasattr(resource, "prlimit"):
        with suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, INHERITED_LIMITS[0])
