"""Door of an attempt: Remit's only socket within reach of a jailed agent of a plan.

The jail shows the door in the place of the daemon's socket. The door passes hooks' requests on to the daemon, bound to
the attempt's worktree, intent and temporary folder. Other requests, for example for a pairing link of the console, are
refused. The agent's MCP server reads and writes the records, and therefore runs outside of the jail, behind the door.
Without an answering daemon the door starts a daemon; without a daemon, a call before an action is denied.
"""

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from msgspec import Struct

from remit.adapters import HookReply
from remit.core.agents import ROWS
from remit.core.clock import Clock
from remit.core.machine_paths import STATE_FOLDER
from remit.gate.governing.workspaces import find_marked_folder
from remit.servers import daemon
from remit.servers.questions import QUESTION_COMMANDS
from remit.workspace.processes.peer_identity import read_peer
from remit.workspace.system_clock import SYSTEM_CLOCK
from remit_fleet.workers.agent import AttemptPlaces, prepare_state

START_TIMEOUT_S = 10.0
RETRY_INTERVAL_S = 0.05
MAX_CONNECTIONS, MAX_TOOL_SERVERS = 32, 2  # at once of one attempt: its worker holds descriptors for all of them
STARTS_INTERVAL_S = 2.0  # between two tries to start a daemon
MAX_START_S = 60.0  # time in which a started daemon answers, on a machine that is busy with agents
LOOK_INTERVAL_MS = 1000
DENIED_EXIT_CODE, DECLINED_EXIT_CODE = 2, 9
NO_DAEMON = (
    "Remit's daemon does not answer, so nothing could be judged or recorded. Try it again in a minute; if it stays so, "
    "stop, and say that `remit worker` and ~/.local/state/remit/daemon.log on this host need a look"
)
ALLOWED = "files of its worktree, `-L` and `--json`"
REMIT = ("-I", "-c", "from remit.cli import main; main()")


class DoorTerms(Struct, frozen=True):
    """Terms of the attempt behind a door, which every request is bound to."""

    places: AttemptPlaces
    intent: str
    home: Path
    variables: Mapping[str, str]
    """Variables of the agent's MCP server, which runs outside."""


class DaemonStarter:
    """Starts the daemon when none answers: at most once in two seconds, and none while another one is starting."""

    def __init__(self, home: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self.home, self.clock = home, clock
        self.lock = threading.Lock()
        self.started: list[subprocess.Popen[bytes]] = []
        self.latest_at = -MAX_START_S

    def is_starting(self) -> bool:
        """Tell whether a daemon was started lately and still runs: it answers in a moment, unless it finds another."""
        with self.lock:
            return self.can_answer_soon()

    def can_answer_soon(self) -> bool:
        self.started = [process for process in self.started if process.poll() is None]
        return bool(self.started) and self.clock.elapsed() < self.latest_at + MAX_START_S

    def start(self) -> None:
        with self.lock:
            if self.can_answer_soon() or self.clock.elapsed() < self.latest_at + STARTS_INTERVAL_S:
                return
            self.latest_at = self.clock.elapsed()
            folder = self.home / STATE_FOLDER
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (folder / "daemon.log").open("ab") as log:
                words = [sys.executable, *REMIT, "daemon"]
                quiet = subprocess.DEVNULL
                started = subprocess.Popen(
                    words, stdin=quiet, stdout=quiet, stderr=log, cwd="/", start_new_session=True
                )
            self.started.append(started)


class AttemptDoor:
    """Listener on the attempt's socket, with a thread for each connection."""

    def __init__(
        self,
        terms: DoorTerms,
        starter: DaemonStarter,
        tell: Callable[[str], None],
        patience_s: float = START_TIMEOUT_S,
    ) -> None:
        self.terms = terms
        self.patience_s = patience_s
        self.starter = starter
        self.tell = tell
        self.clock, self.closed = starter.clock, threading.Event()
        self.is_away = False
        self.slots, self.server_slots = threading.Semaphore(MAX_CONNECTIONS), threading.Semaphore(MAX_TOOL_SERVERS)
        self.servers: set[subprocess.Popen[bytes]] = set()

    @contextmanager
    def open(self) -> Generator[None]:
        """Listen for the duration of the block. Raises OSError."""
        prepare_state(self.terms.places)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            bind_door(listener, self.terms.places.state / daemon.socket_path(self.terms.home).name)
            listener.listen(64)
            threading.Thread(target=self.accept_connections, args=(listener,), daemon=True).start()
            try:
                yield
            finally:
                self.closed.set()
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                for server in list(self.servers):
                    server.terminate()

    def accept_connections(self, listener: socket.socket) -> None:
        while not self.closed.is_set():
            self.slots.acquire()
            try:
                connection, _ = listener.accept()
            except OSError:  # the attempt is over, or this process has no descriptor left
                self.slots.release()
                self.clock.wait(self.closed, RETRY_INTERVAL_S)
                continue
            try:
                threading.Thread(target=self.serve_connection, args=(connection,), daemon=True).start()
            except RuntimeError:  # no more threads
                connection.close()
                self.slots.release()

    def serve_connection(self, connection: socket.socket) -> None:
        try:
            self.answer_client(connection)
        finally:
            self.slots.release()

    def answer_client(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, daemon.FrameError):
            connection.settimeout(daemon.READ_TIMEOUT_S)
            pid, _ = read_peer(connection)
            head = daemon.receive_head(connection)
            if daemon.is_mcp_head(head):
                if self.server_slots.acquire(blocking=False):
                    try:
                        connection.sendall(daemon.ACKNOWLEDGEMENT)
                        self.serve_tools(connection)
                    finally:
                        self.server_slots.release()
                return
            request = daemon.unpack_request(head + daemon.receive_request(connection))
            connection.sendall(daemon.ACKNOWLEDGEMENT)
            kind = find_kind(request, self.terms.places.tree.root)
            if kind == "refused":
                asked = request.frame.agent
                text = f"remit: {asked!r} is nothing that an agent of a plan may ask for, but of `blame` {ALLOWED}\n"
                connection.sendall(daemon.pack_reply(HookReply(stderr=text.encode(), exit_code=DENIED_EXIT_CODE)))
                return
            answer = self.ask_daemon(connection, bind_request(request, self.terms, pid))
            connection.sendall(answer or daemon.pack_reply(refuse_request(request, kind)))

    def serve_tools(self, connection: socket.socket) -> None:
        terms = self.terms
        connection.settimeout(None)
        with subprocess.Popen(
            [sys.executable, *REMIT, "mcp", "--repo", str(terms.places.tree.root)],
            cwd=terms.places.tree.root,
            env={**terms.variables, "REMIT_INTENT": terms.intent, "TMPDIR": str(terms.places.temporary)},
            stdin=connection.fileno(),
            stdout=connection.fileno(),
            start_new_session=True,
        ) as server:
            self.servers.add(server)
            server.wait()
        self.servers.discard(server)

    def ask_daemon(self, client: socket.socket, request: bytes) -> bytes | None:
        """Return the daemon's answer; None where none comes in time, the client is gone, or the attempt is over."""
        until = self.clock.elapsed() + self.patience_s
        while True:
            answer = exchange(daemon.socket_path(self.terms.home), request, client)
            if answer is not None or daemon.has_hung_up(client):
                self.report(is_away=False)
                return answer
            if self.clock.elapsed() >= until and not self.starter.is_starting():
                self.report(is_away=True)
                return None
            self.starter.start()
            if self.clock.wait(self.closed, RETRY_INTERVAL_S):
                return None

    def report(self, *, is_away: bool) -> None:
        """Tell the person at the worker once when the daemon stops answering, and once when it is back."""
        if is_away is not self.is_away:
            self.is_away = is_away
            name = self.terms.intent
            self.tell(
                f"the daemon does not answer: calls of {name} are refused\nhint: ~/.local/state/remit/daemon.log"
                if is_away
                else f"the daemon answers {name} again"
            )


RequestKind = Literal["hook", "question", "refused"]


def find_kind(request: daemon.HookRequest, tree: Path) -> RequestKind:
    if request.frame.agent in ROWS:
        return "hook"
    is_question = request.frame.agent in QUESTION_COMMANDS
    return "question" if is_question and is_question_of_tree(request, tree) else "refused"


def is_question_of_tree(request: daemon.HookRequest, tree: Path) -> bool:
    folder = Path(request.frame.cwd)
    fields = [os.fsdecode(field) for field in request.payload.split(b"\0")[:-1]]
    count = fields[3] if len(fields) > 3 else ""  # columns, encoding, git, the number of variables, these, the words
    name, *words = (fields[4 + int(count) :] if count.isdecimal() and len(count) < 4 else []) or [""]
    named = [word for word in words if word not in ("--json", "--") and not word.startswith("-L")]
    places = [folder.resolve(), *((folder / word).resolve().parent for word in named)]
    is_own = all(find_marked_folder(str(place), {}) == str(tree) for place in places)
    return name == request.frame.agent and is_own and not any(word.startswith("-") for word in named)


def refuse_request(request: daemon.HookRequest, kind: RequestKind) -> HookReply:
    text = f"remit: {NO_DAEMON}\n".encode()
    if kind == "question":
        return HookReply(exit_code=DECLINED_EXIT_CODE)
    may_pass = request.frame.event_class in ("post", "note")
    return HookReply(stderr=text, exit_code=0 if may_pass else DENIED_EXIT_CODE)


def bind_request(request: daemon.HookRequest, terms: DoorTerms, pid: int) -> bytes:
    frame, cwd = request.frame, request.frame.cwd
    if frame.agent in QUESTION_COMMANDS:
        cwd = os.path.realpath(cwd)  # the place that was checked
    own = {
        "REMIT_INTENT": terms.intent,
        "TMPDIR": str(terms.places.temporary),
        daemon.HOOK_PID_VARIABLE: str(pid),
        daemon.ATTEMPT_VARIABLE: str(terms.places.tree.root),
    }
    fields: Sequence[str] = (version("remit"), frame.agent, frame.event_class or "any", cwd)
    variables = (f"{name}={value}" for name, value in own.items())
    return (
        b"\0".join([daemon.MAGIC, *map(os.fsencode, fields), *map(os.fsencode, variables)]) + b"\0\0" + request.payload
    )


def exchange(path: Path, request: bytes, client: socket.socket) -> bytes | None:
    """Return the daemon's answer without the acknowledgement; None if there is none, or the client hung up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line, suppress(OSError):
        line.settimeout(daemon.READ_TIMEOUT_S)
        with daemon.make_address(path) as address:
            line.connect(address)
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        if line.recv(1) != daemon.ACKNOWLEDGEMENT:
            return None
        poll = select.poll()
        poll.register(line, select.POLLIN)
        poll.register(client, 0)
        while not (events := dict(poll.poll(LOOK_INTERVAL_MS))).get(line.fileno()):
            if events.get(client.fileno()):  # the daemon notices that its client is gone
                return None
        reply = b"".join(iter(lambda: line.recv(1 << 16), b""))
        return reply if len(reply) >= 9 else None
    return None


def bind_door(listener: socket.socket, path: Path) -> None:
    """Listen at the path. Until the mode is set, that of the folder keeps others out: the umask is that of all threads.

    Raises OSError.
    """
    path.unlink(missing_ok=True)
    with daemon.make_address(path) as address:
        listener.bind(address)
    path.chmod(0o600)
