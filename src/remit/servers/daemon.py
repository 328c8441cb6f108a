"""The daemon: `answer`, kept warm. It owns nothing that is not in the state database or the log.

One for each user, on a unix socket that only this user may open; started by the first call that finds none, ended
by idleness or by a client of another version. Killed at any time, it takes nothing with it: a call that gets no
answer is answered by a fresh process.
"""

import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from remit.adapters import HookReply
from remit.gate.asker import GONE
from remit.gate.between import Between
from remit.gate.gate import Gate
from remit.gate.snapshots import Snapshots
from remit.gate.sweep import Sweep
from remit.gate.watched import put_watched
from remit.servers import contained
from remit.servers.environment import environment
from remit.servers.frames import ACKNOWLEDGED, OTHER_VERSION, FrameError, Request, pack, unpack
from remit.servers.gates import Gates, Leaving, report
from remit.servers.hook import LIMIT, answer
from remit.servers.threads import Threads
from remit.servers.upkeep import Upkeep
from remit.servers.watches import Watch, Watches
from remit.tools.conversations import Intake, everything

FOLDER = ".local/state/remit"
IDLE_S = 30 * 60.0
READ_S = 10.0
"""A client sends all it has at once; one that stalls is let go."""

FINISH_S = 10.0
"""How long a process that leaves waits for its last calls: one that waits for a person notices within two seconds."""

FOLD_AFTER_S = 2.0
SWEEP_S = 60.0

DROPPED = "a call was dropped"
"""How the log begins to tell of a call that got no answer here; `remit doctor` looks for it."""

LOG_BYTES = 1 << 20

RUN = ("-I", "-c", "from remit.cli import main; main()", "daemon")


def socket_path(home: Path) -> Path:
    """Where the daemon of this home listens."""
    return home / FOLDER / "daemon.sock"


class Daemon:
    """One listener. `serve` returns when it is idle, told to stop, or met another version."""

    def __init__(self, home: Path, version: str, idle_s: float = IDLE_S, sweep_s: float = SWEEP_S) -> None:
        self.home = home
        self.version = version
        self.idle_s = idle_s
        self.sweep_s = sweep_s
        self.stopping = threading.Event()
        self.watches = Watches()
        self.gates = Gates(self.stopping, self.watches)
        self.upkeep = Upkeep(self.gates)
        self.threads = Threads(self.attend)
        self.last = time.monotonic()
        self.busy = 0
        self.line = threading.Condition()
        """For `busy` and `last`."""
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
            threading.Thread(target=self.keep_house, daemon=True).start()
            self.accept(listener)
            if self.reachable():
                path.unlink(missing_ok=True)
        self.finish()
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
        while not self.stopping.is_set() and (self.busy or time.monotonic() - self.last < self.idle_s):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if not self.reachable():
                    break
                continue
            self.take(connection)

    def take(self, connection: socket.socket) -> None:
        """Give a call a thread. It counts from here on, so that nobody leaves before it has begun."""
        self.count(1)
        try:
            self.threads.give(connection)
        except RuntimeError as error:  # no more threads: the client asks a fresh process
            connection.close()
            self.count(-1)
            report(f"{DROPPED}: {error}")

    def count(self, step: int) -> None:
        """A call came, or is done."""
        with self.line:
            self.busy += step
            self.last = time.monotonic()
            self.line.notify_all()

    def keep_house(self) -> None:
        """What can wait until nobody does, in a thread of its own: whatever it takes, calls are accepted."""
        folded = swept = time.monotonic()
        while not self.stopping.wait(min(1.0, self.sweep_s)):
            now = time.monotonic()
            if folded <= self.last and now - self.last > FOLD_AFTER_S:
                folded = now
                self.gates.each(fold)
                self.gates.each(note)
                self.gates.each(tell_watched)
                self.listen()
            self.upkeep.keep(self.last, now)
            if self.watches.suspicious:
                self.gates.each(undo_lingering)
            if now - swept >= self.sweep_s:
                swept = now
                self.gates.each(sweep)
                self.gates.each(note)

    def listen(self) -> None:
        """Take in what was said meanwhile. Only what to read is asked in a repository's turn: reading may take long."""
        wanted: list[Intake] = []
        self.gates.each(lambda gate: wanted.append(everything(gate)))
        for each in wanted:
            trouble = each.keep(time.time())
            if trouble:
                report(trouble)

    def finish(self) -> None:
        """Let the calls under way end; those that wait for a person are left to fresh processes."""
        self.stopping.set()
        with self.line:
            self.line.wait_for(lambda: not self.busy, FINISH_S)
        last = threading.Thread(target=self.tidy, daemon=True)
        last.start()
        last.join(FINISH_S)

    def tidy(self) -> None:
        """The last work of this process."""
        self.gates.each(fold)
        self.gates.each(sweep)
        self.upkeep.bring_up()
        self.listen()

    def attend(self, connection: socket.socket) -> None:
        """One call. Whatever goes wrong on the line, the client asks a fresh process."""
        try:
            with connection:
                connection.settimeout(READ_S)
                if same_user(connection):
                    self.reply(connection, unpack(read_all(connection)))
        except (OSError, FrameError) as error:
            report(f"{DROPPED}: {error}")
        except Leaving:
            report("a question to a person was left to a fresh process")
        finally:
            self.count(-1)

    def reply(self, connection: socket.socket, request: Request) -> None:
        """Acknowledge, judge, answer."""
        if request.version != self.version:
            self.stopping.set()
            connection.sendall(OTHER_VERSION)
            return
        connection.sendall(ACKNOWLEDGED)
        GONE.set(partial(hung_up, connection))
        connection.sendall(pack(self.judge(replace(request, frame=replace(request.frame, pid=peer(connection)[0])))))

    def judge(self, request: Request) -> HookReply:
        """The answer to one call."""
        if request.frame.agent == contained.AGENT:
            return contained.answer(request.payload, request.frame.cwd, environment(request.variables), self.gates)
        return answer(request.payload, request.frame, environment(request.variables), self.gates)


def fold(gate: Gate) -> None:
    """Take the contents that wait into git, and archive a segment of the log that is full."""
    gate.fold()
    Snapshots(gate).tidy()
    # For start-up speed: what reads and writes archives is nothing that a call needs.
    from remit.ledger.compact import compact

    compact(gate.recorder.log.folder, most=1)


def note(gate: Gate) -> None:
    """Write the notes of commits that came since, where they are shared. A few at a time: calls wait for their turn."""
    if gate.governing.config.share.notes:
        # It brings what blame needs, which no call does; and few repositories share notes.
        from remit.provenance.notes.noting import note_new

        note_new(gate.workspace, gate.store)


def tell_watched(gate: Gate) -> None:
    """Let `remit doctor` know whether only what changed is looked at, and why not."""
    if isinstance(gate.observer, Watch):
        put_watched(gate.state, gate.observer.told)


def undo_lingering(gate: Gate) -> None:
    """Look at what changed while no call was under way and a process that a call had left was there."""
    following = gate.observer.following if isinstance(gate.observer, Watch) else None
    if following and following.seen and following.ripe and not gate.state.open_calls():
        Between(gate).noticed_everywhere("between calls", gate.observe(), None)
        following.forget()


def sweep(gate: Gate) -> None:
    """Settle what was left open too long ago."""
    said = Sweep(gate).settled_idle()
    if said:
        report(said)


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
    return peer(connection)[1] == os.geteuid()


def peer(connection: socket.socket) -> tuple[int, int]:
    """The process and the user of the other end; (0, -1) where the system cannot tell."""
    credentials = getattr(socket, "SO_PEERCRED", None)
    if credentials is None:
        return 0, -1
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, credentials, struct.calcsize("3i")))
    return pid, user


def hung_up(connection: socket.socket) -> bool:
    """Whether the client is gone, and not only done with sending. Told apart on Linux; elsewhere it counts as there."""
    if sys.platform != "linux":
        return False
    poll = select.poll()
    poll.register(connection, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


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
    log = home / FOLDER / "daemon.log"
    anew = os.O_TRUNC if log.exists() and log.stat().st_size > LOG_BYTES else 0
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | anew, 0o600), 2)
    os.chdir("/")
    os.closerange(3, 256)
    os.execv(sys.executable, [sys.executable, *RUN])
