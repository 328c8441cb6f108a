"""Threads that wait for work: to start one takes longer than to wake one."""

import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue

IDLE_THREADS = 4


class Threads:
    """Threads that attend to calls; a few wait for the next one."""

    def __init__(self, attend: Callable[[socket.socket], None]) -> None:
        self.attend = attend
        self.calls: SimpleQueue[socket.socket] = SimpleQueue()
        self.idle = 0
        self.lock = threading.Lock()

    def give(self, connection: socket.socket) -> None:
        """Have a thread attend to this call at once. Raises RuntimeError where none can be had."""
        with self.lock:
            waits = self.idle > 0
            self.idle -= waits
        if waits:
            self.calls.put(connection)
        else:
            threading.Thread(target=self.work, args=(connection,), daemon=True).start()

    def work(self, connection: socket.socket) -> None:
        """One call after another, until enough others wait."""
        while True:
            self.attend(connection)
            with self.lock:
                if self.idle >= IDLE_THREADS:
                    return
                self.idle += 1
            connection = self.calls.get()
