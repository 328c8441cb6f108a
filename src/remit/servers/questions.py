"""Questions of people, handed by the daemon to a second process that starts at the first question and ends when idle.

Python runs one thread at a time: a blame in the daemon's own process would hold up the calls of agents.
"""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

QUESTION_COMMANDS = ("blame",)
IDLE_TIMEOUT_S = 10 * 60.0
WRITE_TIMEOUT_S = 10.0  # a client takes its answer at once; a stalled client is dropped
MAX_QUESTION_BYTES = 64 * 1024
MAX_ATTEMPTS = 2
SERVER = "import sys; from remit.cli.blame.question_server import serve_questions; serve_questions(int(sys.argv[1]))"


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


class QuestionProcess:
    """The process that answers questions, and the daemon's end of the socket to the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.line: socket.socket | None = None

    def hand_over(self, connection: socket.socket, folder: str, payload: bytes) -> bool:
        """Let the process answer the client at the connection; return whether it will."""
        message = os.fsencode(folder) + b"\0" + payload
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
            words = [sys.executable, "-I", "-c", SERVER, str(theirs.fileno())]
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), cwd="/"
            )
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
