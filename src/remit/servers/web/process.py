"""The console's process: it serves the pages on sockets that the daemon holds, and asks the daemon what people may do.

It ends with the daemon. Whatever it keeps can be lost: the daemon starts it again.
"""

import os
import socket
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from remit.servers.call_slots import raise_descriptor_limit
from remit.servers.environ_checks import clean_environment
from remit.servers.environment import make_environment
from remit.servers.web.claims import Claim, Verdict
from remit.servers.web.line import (
    DAEMON_DECODER,
    LINE_ERRORS,
    Answered,
    Asked,
    Begun,
    FromConsole,
    Leave,
    News,
    Ping,
    Pong,
    encode_line,
    read_lines,
)
from remit.servers.web.listeners import Listeners
from remit.servers.web.remote.settings import RemoteSetupRefused
from remit.servers.web.server import ConsoleServer

ANSWER_TIMEOUT_S = 30.0
NO_ANSWER = Verdict(503, "Remit's daemon does not answer", "try again; see `remit doctor`")


class DaemonLine:
    """The console's end of the line. Thread-safe."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.lock = threading.Lock()
        self.count = 0
        self.waiting: dict[int, Future[Verdict]] = {}

    def send(self, message: FromConsole) -> None:
        """Send a message. Raises OSError."""
        with self.lock:
            self.line.sendall(encode_line(message))

    def decide(self, claim: Claim) -> Verdict:
        answer: Future[Verdict] = Future()
        with self.lock:
            self.count += 1
            number = self.count
            self.waiting[number] = answer
        try:
            self.send(Asked(number, claim))
            return answer.result(ANSWER_TIMEOUT_S)
        except (OSError, TimeoutError):
            return NO_ANSWER
        finally:
            self.waiting.pop(number, None)

    def wake_calls(self) -> None:
        with suppress(OSError):
            self.send(News())

    def follow(self, server: ConsoleServer) -> None:
        """Take what the daemon says, until it tells this process to leave, or is gone."""
        with suppress(*LINE_ERRORS):
            for line in read_lines(self.line):
                match DAEMON_DECODER.decode(line):
                    case Answered(number, verdict):
                        if number in self.waiting:
                            self.waiting[number].set_result(verdict)
                    case Ping():
                        self.answer_ping(server)
                    case Leave():
                        server.stop()
                        os._exit(0)
        os._exit(1)

    def answer_ping(self, server: ConsoleServer) -> None:
        """Let the event loop answer: one that hangs is no console."""
        if server.loop is not None:
            pong = Pong(server.is_in_use, server.console.watcher.answerers > 0)
            with suppress(RuntimeError):
                server.loop.call_soon_threadsafe(self.send, pong)


def serve_pages() -> None:
    """Serve the console. The words of this process are the numbers of three descriptors: the line, and the sockets for
    this machine and, where there is one, for others.
    """
    raise_descriptor_limit()
    clean_environment()
    sockets = [socket.socket(fileno=int(word)) for word in sys.argv[1:]]
    line = DaemonLine(sockets[0])
    try:
        listeners = Listeners(*sockets[1:])
        server = ConsoleServer(partial(make_environment, dict(os.environ)), None, listeners, line)
    except RemoteSetupRefused as error:
        line.send(Begun(str(error), error.fix))
        return
    server.start()
    line.send(Begun())
    threading.Thread(target=line.follow, args=(server,), name="console-line", daemon=True).start()
    server.thread.join()
    if not server.is_stopping:
        os._exit(1)
    threading.Event().wait()  # the line's thread ends this process, once all is closed
