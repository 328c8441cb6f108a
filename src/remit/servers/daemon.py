"""The daemon: `answer`, kept warm. It owns nothing that is not in the state database or the log.

One for each user, on a unix socket that only this user may open; started by the first call that finds none, ended
by idleness or by a client of another version. Killed at any time, it takes nothing with it: a call that gets no
answer is answered by a fresh process.
"""

import fcntl
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from remit.adapters import HookReply
from remit.gate.answer import CannotRecord
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.servers.environment import environment
from remit.servers.frames import ACKNOWLEDGED, OTHER_VERSION, FrameError, Request, pack, unpack
from remit.servers.hook import LIMIT, answer
from remit.workspace.place import Workspace

FOLDER = ".local/state/remit"
IDLE_S = 30 * 60.0
READ_S = 10.0
"""A client sends all it has at once; one that stalls is let go."""

FOLD_AFTER_S = 2.0
MOST_GATES = 32

RUN = ("-I", "-c", "from remit.cli import main; main()", "daemon")


def socket_path(home: Path) -> Path:
    """Where the daemon of this home listens."""
    return home / FOLDER / "daemon.sock"


class Gates:
    """Gates that stay open between calls."""

    def __init__(self) -> None:
        self.open: dict[tuple[Path, str | None], Gate] = {}

    def __call__(self, workspace: Workspace | None, around: Environment) -> Gate:
        """The gate of this workspace, opened where it is not yet, or where its state was replaced meanwhile."""
        if workspace is None or not workspace.governed:
            return Gate(workspace, around)
        key = (workspace.root, around.bound_intent)
        known = self.open.get(key)
        if known is not None and known.found == workspace and known.environment == around and known.current():
            return known
        if len(self.open) >= MOST_GATES:
            self.open.clear()
        fresh = Gate(workspace, around)
        self.open[key] = fresh
        return fresh

    def fold(self) -> None:
        """Take the contents that wait into git."""
        for gate in list(self.open.values()):
            try:
                gate.store.fold()
            except CannotRecord as error:
                sys.stderr.write(f"remit: contents wait to be folded: {error}\n")


class Daemon:
    """One listener. `serve` returns when it is idle, told to stop, or met another version."""

    def __init__(self, home: Path, version: str, idle_s: float = IDLE_S) -> None:
        self.home = home
        self.version = version
        self.idle_s = idle_s
        self.gates = Gates()
        self.turn = threading.Lock()
        """Calls are judged one after another: a decision takes a millisecond, and sees all before it."""
        self.stopping = threading.Event()
        self.last = time.monotonic()
        self.busy = 0
        self.door = 0

    def serve(self) -> int:
        """Listen until there is nothing more to do. 0, also where another daemon listens already."""
        folder = self.home / FOLDER
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(folder / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        path = socket_path(self.home)
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            bind_privately(listener, path)
            self.door = path.stat().st_ino
            self.accept(listener)
            if self.reachable():
                path.unlink(missing_ok=True)
        return 0

    def reachable(self) -> bool:
        """Whether the socket is still ours: `uninstall` takes it away, and so does who removes the home."""
        try:
            return socket_path(self.home).stat().st_ino == self.door
        except OSError:
            return False

    def accept(self, listener: socket.socket) -> None:
        """Take calls, each in a thread of its own, until stopped or idle."""
        listener.settimeout(min(1.0, self.idle_s))
        folded = True
        while not self.stopping.is_set() and (self.busy or time.monotonic() - self.last < self.idle_s):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if not folded and time.monotonic() - self.last > FOLD_AFTER_S:
                    self.tidy()
                    folded = True
                if not self.reachable():
                    break
                continue
            folded = False
            self.last = time.monotonic()
            threading.Thread(target=self.attend, args=(connection,), daemon=True).start()
        self.finish()

    def tidy(self) -> None:
        """What can wait until nobody does."""
        with self.turn:
            self.gates.fold()

    def finish(self) -> None:
        """Let the calls under way end."""
        until = time.monotonic() + READ_S
        while self.busy and time.monotonic() < until:
            time.sleep(0.01)
        self.tidy()

    def attend(self, connection: socket.socket) -> None:
        """One call. Whatever goes wrong on the line, the client asks a fresh process."""
        self.busy += 1
        try:
            with connection:
                connection.settimeout(READ_S)
                if same_user(connection):
                    self.reply(connection, unpack(read_all(connection)))
        except (OSError, FrameError) as error:
            sys.stderr.write(f"remit: a call was dropped: {error}\n")
        finally:
            self.busy -= 1
            self.last = time.monotonic()

    def reply(self, connection: socket.socket, request: Request) -> None:
        """Acknowledge, judge, answer."""
        if request.version != self.version:
            self.stopping.set()
            connection.sendall(OTHER_VERSION)
            return
        connection.sendall(ACKNOWLEDGED)
        connection.sendall(pack(self.judge(request)))

    def judge(self, request: Request) -> HookReply:
        """The answer to one call."""
        with self.turn:
            around = replace(environment(request.variables), unlocked=self.others_first)
            return answer(request.payload, request.frame, around, self.gates)

    @contextmanager
    def others_first(self) -> Generator[None]:
        """Let other calls pass while this one waits for a person."""
        self.turn.release()
        try:
            yield
        finally:
            self.turn.acquire()


def bind_privately(listener: socket.socket, path: Path) -> None:
    """Listen at `path`, for this user only."""
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(64)


def same_user(connection: socket.socket) -> bool:
    """Whether the other end is this user's. Where the system cannot tell, the folder's mode has to hold."""
    credentials = getattr(socket, "SO_PEERCRED", None)
    if credentials is None:
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, credentials, struct.calcsize("3i")))
    return user == os.geteuid()


def read_all(connection: socket.socket) -> bytes:
    """All that the client sends. Raises FrameError for more than any payload may be."""
    blocks: list[bytes] = []
    size = 0
    while block := connection.recv(1 << 20):
        blocks.append(block)
        size += len(block)
        if size > LIMIT + (1 << 20):
            raise FrameError("the payload is too large")
    return b"".join(blocks)


def start(home: Path) -> None:
    """Start the daemon in the background, where none listens: it outlives the agent, and holds none of its pipes."""
    (home / FOLDER).mkdir(parents=True, exist_ok=True, mode=0o700)
    if os.fork():
        return
    try:
        become_daemon(home)
    finally:
        os._exit(1)


def become_daemon(home: Path) -> None:
    """Let go of everything that is the agent's, and become the daemon."""
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(quiet, stream)
    report = os.open(home / FOLDER / "daemon.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(report, 2)
    os.chdir("/")
    os.closerange(3, 256)
    os.execv(sys.executable, [sys.executable, *RUN])
