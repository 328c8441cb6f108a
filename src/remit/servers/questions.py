"""Connections of clients, handed by the daemon to a process beside it, which starts at the first one: questions of
people to one that ends when idle, MCP clients to the one of `tool_server`.

Python runs one thread at a time: a blame in the daemon's own process would hold up the calls of agents.
"""

import socket
import subprocess
import sys
import threading
from contextlib import suppress

from remit.servers.call_slots import give_back_limit

QUESTION_COMMANDS = ("blame",)
IDLE_TIMEOUT_S = 10 * 60.0
WRITE_TIMEOUT_S = 10.0  # a client takes its answer at once; a stalled client is dropped
MAX_QUESTION_BYTES = 64 * 1024
MAX_ATTEMPTS = 2
QUESTION_SERVER = (
    "-c",
    "import sys; from remit.cli.blame.question_server import serve_questions; serve_questions(int(sys.argv[1]))",
)
TOOL_SERVER = ("-c", "from remit.cli import main; main()", "mcp", "--clients-fd")
"""The words of both processes for Python, before the descriptor that connections come through."""


def pack_answer(code: int, out: bytes, err: bytes) -> bytes:
    """Return a reply as the clients of the daemon read it; see `daemon`."""
    return bytes([code]) + len(out).to_bytes(4, "big") + len(err).to_bytes(4, "big") + out + err


def send_question(line: socket.socket, message: bytes, connection: socket.socket) -> None:
    """Send a message, after its length in 4 bytes, with a connection. Raises OSError."""
    framed = len(message).to_bytes(4, "big") + message
    sent = socket.send_fds(line, [framed], [connection.fileno()])
    line.sendall(framed[sent:])


def receive_question(line: socket.socket) -> tuple[socket.socket, bytes] | None:
    """Return the next connection with its message; None at the end. Raises OSError, TimeoutError."""
    head, descriptors, _, _ = socket.recv_fds(line, 4, 1)
    if len(head) < 4 or not descriptors:
        return None
    connection = socket.socket(fileno=descriptors[0])
    # The daemon's timeout made the descriptor non-blocking: without a timeout here a long answer is cut.
    connection.settimeout(WRITE_TIMEOUT_S)
    message, size = b"", int.from_bytes(head, "big")
    while len(message) < size and (block := line.recv(size - len(message))):
        message += block
    return connection, message


class ProcessBeside:
    """A process that answers clients, and the daemon's end of the socket to the process."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.line: socket.socket | None = None

    def hand_over(self, connection: socket.socket, message: bytes) -> bool:
        """Let the process answer the client at the connection; return whether it will."""
        if len(message) > MAX_QUESTION_BYTES:
            return False
        with self.lock:
            for _ in range(MAX_ATTEMPTS):  # a process that was idle has ended
                try:
                    line = self.line or self.start()
                    send_question(line, message, connection)
                except OSError:
                    self.close()
                else:
                    return True
        return False

    def start(self) -> socket.socket:
        """Start the process and return the daemon's end of the socket. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-I", *self.words, str(theirs.fileno())]
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), cwd="/"
            )
        give_back_limit(self.process.pid)
        ours.settimeout(1.0)
        self.line = ours
        return ours

    def close(self) -> None:
        """Let the process go: it ends when the socket does."""
        if self.line is not None:
            self.line.close()
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=0)
        self.line = self.process = None
