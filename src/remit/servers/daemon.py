"""The daemon: `hook.answer` in a warm process. All its knowledge is in the state database and the log.

One daemon for each user listens on a private unix socket; the first call without a daemon starts one, and idleness or a
client of another version ends it. A killed daemon loses no data: an unanswered call is answered by a fresh process.

Protocol. Client to daemon: `RMT1`, version, agent, event class, cwd, and `NAME=value` for each forwarded variable, each
ended by a NUL; an empty field; the payload, up to the end of the stream. Daemon to client: `A` at once (or `V`: another
version, ask a fresh process); the exit code (1 byte), the lengths of both streams (4 bytes each, big-endian), standard
output, standard error.
"""

import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import HookReply
from remit.core.machine_paths import STATE_FOLDER
from remit.gate.effects.between_calls import ChangesBetweenCalls
from remit.gate.effects.unfinished_calls import UnfinishedCalls
from remit.gate.gate import Gate
from remit.gate.snapshots.take import SnapshotTaker
from remit.gate.state.questions import CLIENT_GONE
from remit.gate.state.watch_status import put_watch_status
from remit.servers import contained_commands
from remit.servers.environment import make_environment
from remit.servers.hook import MAX_PAYLOAD_BYTES, HookFrame, answer, parse_event_class
from remit.servers.open_gates import DaemonLeaving, OpenGates, write_log_line
from remit.servers.upkeep import Upkeep
from remit.servers.watchers import WorktreeWatcher, WorktreeWatchers
from remit.tools.conversations import TranscriptIntake, intake_of_all_sessions

IDLE_TIMEOUT_S = 30 * 60.0
READ_TIMEOUT_S = 10.0
"""A client sends its whole request at once; a stalled client is dropped."""

FINISH_TIMEOUT_S = 10.0
"""How long a leaving process waits for its last calls: a call that waits for a person notices within two seconds."""

FOLD_AFTER_S = 2.0
SWEEP_INTERVAL_S = 60.0

DROPPED_CALL = "a call was dropped"
"""Start of the log line about an unanswered call; `remit doctor` looks for it."""

MAX_LOG_BYTES = 1 << 20

DAEMON_WORDS = ("-I", "-c", "from remit.cli import main; main()", "daemon")
MAX_IDLE_THREADS = 4

MAGIC = b"RMT1"
ACKNOWLEDGEMENT = b"A"
VERSION_MISMATCH = b"V"
MAX_HEADER_BYTES = 64 * 1024


class FrameError(ValueError):
    """Bytes without a valid frame."""


class HookRequest(Struct, frozen=True):
    """Unpacked request of a client."""

    version: str
    frame: HookFrame
    variables: dict[str, str]
    payload: bytes


def unpack_request(data: bytes) -> HookRequest:
    """Decode a request. Raises FrameError."""
    end = data.find(b"\0\0", 0, MAX_HEADER_BYTES)
    fields = data[:end].split(b"\0")
    if end < 0 or len(fields) < 5 or fields[0] != MAGIC:
        raise FrameError("no frame of a Remit client")
    version, agent, kind, cwd, *rest = (field.decode("utf-8", "surrogateescape") for field in fields[1:])
    variables = {name: value for name, _, value in (pair.partition("=") for pair in rest)}
    return HookRequest(version, HookFrame(agent, cwd, parse_event_class(kind)), variables, data[end + 2 :])


def pack_reply(reply: HookReply) -> bytes:
    lengths = len(reply.stdout).to_bytes(4, "big") + len(reply.stderr).to_bytes(4, "big")
    return bytes([reply.exit_code]) + lengths + reply.stdout + reply.stderr


class CallThreads:
    """Threads that serve calls; a few wait for the next call, since waking is faster than starting."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.serve = serve
        self.calls: SimpleQueue[socket.socket] = SimpleQueue()
        self.idle = 0
        self.lock = threading.Lock()

    def start_call(self, connection: socket.socket) -> None:
        """Serve this call in a thread at once. Raises RuntimeError if no thread can be started."""
        with self.lock:
            waits = self.idle > 0
            self.idle -= waits
        if waits:
            self.calls.put(connection)
        else:
            threading.Thread(target=self.serve_calls, args=(connection,), daemon=True).start()

    def serve_calls(self, connection: socket.socket) -> None:
        while True:
            self.serve(connection)
            with self.lock:
                if self.idle >= MAX_IDLE_THREADS:
                    return
                self.idle += 1
            connection = self.calls.get()


def socket_path(home: Path) -> Path:
    return home / STATE_FOLDER / "daemon.sock"


class Daemon:
    """Listener on the daemon's socket. `serve` returns after idleness, a stop, or a client of another version."""

    def __init__(
        self, home: Path, version: str, idle_s: float = IDLE_TIMEOUT_S, sweep_s: float = SWEEP_INTERVAL_S
    ) -> None:
        self.home = home
        self.version = version
        self.idle_s = idle_s
        self.sweep_s = sweep_s
        self.stopping = threading.Event()
        self.watches = WorktreeWatchers()
        self.gates = OpenGates(self.stopping, self.watches)
        self.upkeep = Upkeep(self.gates)
        self.threads = CallThreads(self.serve_connection)
        self.last_call_at = time.monotonic()
        self.active_calls = 0
        self.calls_changed = threading.Condition()
        """Guards `active_calls` and `last_call_at`."""
        self.socket_inode = 0

    def serve(self) -> int:
        """Listen until the daemon has no more work. Return 0, also if another daemon listens already."""
        folder = self.home / STATE_FOLDER
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
            self.socket_inode = path.stat().st_ino
            threading.Thread(target=self.run_upkeep, daemon=True).start()
            self.accept_calls(listener)
            if self.is_reachable():
                path.unlink(missing_ok=True)
        self.finish()
        return 0

    def is_reachable(self) -> bool:
        """Return True if the socket is still this daemon's: `uninstall` removes the socket, and so does deleting the
        home.
        """
        try:
            return socket_path(self.home).stat().st_ino == self.socket_inode
        except OSError:
            return False

    def accept_calls(self, listener: socket.socket) -> None:
        """Accept calls, each in its own thread, until stopped or idle."""
        listener.settimeout(min(1.0, self.idle_s))
        while not self.stopping.is_set() and (self.active_calls or time.monotonic() - self.last_call_at < self.idle_s):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if not self.is_reachable():
                    break
                continue
            self.take_call(connection)

    def take_call(self, connection: socket.socket) -> None:
        """Give a call to a thread. The call is counted first, so that the daemon does not leave beforehand."""
        self.count_call(1)
        try:
            self.threads.start_call(connection)
        except RuntimeError as error:  # no more threads: the client asks a fresh process
            connection.close()
            self.count_call(-1)
            write_log_line(f"{DROPPED_CALL}: {error}")

    def count_call(self, step: int) -> None:
        with self.calls_changed:
            self.active_calls += step
            self.last_call_at = time.monotonic()
            self.calls_changed.notify_all()

    def run_upkeep(self) -> None:
        """Do background work in its own thread; calls are accepted meanwhile."""
        folded = swept = time.monotonic()
        while not self.stopping.wait(min(1.0, self.sweep_s)):
            now = time.monotonic()
            if folded <= self.last_call_at and now - self.last_call_at > FOLD_AFTER_S:
                folded = now
                self.gates.for_each_gate(fold_contents)
                self.gates.for_each_gate(write_notes)
                self.gates.for_each_gate(report_watching)
                self.store_conversations()
            self.upkeep.run_if_due(self.last_call_at, now)
            if self.watches.has_suspects:
                self.gates.for_each_gate(check_background_changes)
            if now - swept >= self.sweep_s:
                swept = now
                self.gates.for_each_gate(settle_idle_calls)
                self.gates.for_each_gate(write_notes)

    def store_conversations(self) -> None:
        """Store new conversation lines. Reading may be slow and happens outside the repository's turn."""
        wanted: list[TranscriptIntake] = []
        self.gates.for_each_gate(lambda gate: wanted.append(intake_of_all_sessions(gate)))
        for each in wanted:
            trouble = each.store_new(time.time())
            if trouble:
                write_log_line(trouble)

    def finish(self) -> None:
        """Wait for active calls and do the last background work; calls waiting for a person go to fresh processes."""
        self.stopping.set()
        with self.calls_changed:
            self.calls_changed.wait_for(lambda: not self.active_calls, FINISH_TIMEOUT_S)
        last = threading.Thread(target=self.finish_work, daemon=True)
        last.start()
        last.join(FINISH_TIMEOUT_S)

    def finish_work(self) -> None:
        self.gates.for_each_gate(fold_contents)
        self.gates.for_each_gate(settle_idle_calls)
        self.upkeep.run_all_jobs()
        self.store_conversations()

    def serve_connection(self, connection: socket.socket) -> None:
        """Serve one call. After any connection error the client asks a fresh process."""
        try:
            with connection:
                connection.settimeout(READ_TIMEOUT_S)
                if is_same_user(connection):
                    self.reply_to_client(connection, unpack_request(receive_request(connection)))
        except (OSError, FrameError) as error:
            write_log_line(f"{DROPPED_CALL}: {error}")
        except DaemonLeaving:
            write_log_line("a question to a person was left to a fresh process")
        finally:
            self.count_call(-1)

    def reply_to_client(self, connection: socket.socket, request: HookRequest) -> None:
        """Acknowledge, judge, answer."""
        if request.version != self.version:
            self.stopping.set()
            connection.sendall(VERSION_MISMATCH)
            return
        connection.sendall(ACKNOWLEDGEMENT)
        CLIENT_GONE.set(partial(has_hung_up, connection))
        process, _ = read_peer(connection)
        request = replace(request, frame=replace(request.frame, pid=process))
        connection.sendall(pack_reply(self.answer_request(request)))

    def answer_request(self, request: HookRequest) -> HookReply:
        environment, frame = make_environment(request.variables), request.frame
        if frame.agent == contained_commands.LAUNCHER_AGENT:
            return contained_commands.answer_launcher(request.payload, frame.cwd, environment, self.gates)
        return answer(request.payload, frame, environment, self.gates)


def fold_contents(gate: Gate) -> None:
    """Fold pending contents into git, and archive a full segment of the log."""
    gate.fold_contents()
    SnapshotTaker(gate).tidy_store()
    # For start-up speed: no call reads or writes archives.
    from remit.ledger.compact import compact

    compact(gate.recorder.log.folder, max_segments=1)


def write_notes(gate: Gate) -> None:
    """Write the notes of new commits if they are shared. A few at a time: calls wait for their turn."""
    if gate.rules.config.share.notes:
        # Loads the modules of blame: no call needs them, and few repositories share notes.
        from remit.provenance.notes.note_writer import write_new_notes

        write_new_notes(gate.workspace, gate.contents)


def report_watching(gate: Gate) -> None:
    if isinstance(gate.observer, WorktreeWatcher):
        put_watch_status(gate.state, gate.observer.status)


def check_background_changes(gate: Gate) -> None:
    """Inspect changes made without a pending call while a call's background process was alive."""
    following = gate.observer.following if isinstance(gate.observer, WorktreeWatcher) else None
    if following and following.suspects_by_path and following.is_settled_enough and not gate.state.list_open_calls():
        ChangesBetweenCalls(gate).record_unattributed_changes("between calls", gate.observe(), None)
        following.clear_suspects()


def settle_idle_calls(gate: Gate) -> None:
    said = UnfinishedCalls(gate).settle_idle_calls()
    if said:
        write_log_line(said)


def bind_privately(listener: socket.socket, path: Path) -> None:
    """Listen at `path`, for this user only."""
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(64)


def is_same_user(connection: socket.socket) -> bool:
    """Return True if the client runs as this user. Without SO_PEERCRED the folder's mode has to suffice."""
    credentials = getattr(socket, "SO_PEERCRED", None)
    if credentials is None:
        return True
    return read_peer(connection)[1] == os.geteuid()


def read_peer(connection: socket.socket) -> tuple[int, int]:
    """Return the client's process and user; (0, -1) if the system does not tell."""
    credentials = getattr(socket, "SO_PEERCRED", None)
    if credentials is None:
        return 0, -1
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, credentials, struct.calcsize("3i")))
    return pid, user


def has_hung_up(connection: socket.socket) -> bool:
    """Return True if the client is gone, beyond a finished send. Only Linux tells the difference."""
    if sys.platform != "linux":
        return False
    poll = select.poll()
    poll.register(connection, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def receive_request(connection: socket.socket) -> bytes:
    """Return the complete request. Raises FrameError beyond the size limit."""
    blocks: list[bytes] = []
    size = 0
    while block := connection.recv(1 << 20):
        blocks.append(block)
        size += len(block)
        if size > MAX_PAYLOAD_BYTES + (1 << 20):
            raise FrameError("the payload is too large")
    return b"".join(blocks)


def start_daemon(home: Path) -> None:
    """Start the daemon in the background if none listens, detached from the agent and its pipes."""
    (home / STATE_FOLDER).mkdir(parents=True, exist_ok=True, mode=0o700)
    if os.fork():
        return
    try:
        become_daemon(home)
    finally:
        os._exit(1)


def become_daemon(home: Path) -> None:
    """Detach from the agent's terminal and pipes, and execute the daemon."""
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(quiet, stream)
    log = home / STATE_FOLDER / "daemon.log"
    anew = os.O_TRUNC if log.exists() and log.stat().st_size > MAX_LOG_BYTES else 0
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | anew, 0o600), 2)
    os.chdir("/")
    os.closerange(3, 256)
    os.execv(sys.executable, [sys.executable, *DAEMON_WORDS])
