"""The daemon: `hook.answer` in a warm process. All its knowledge is in the state database and the log.

One daemon for each user listens on a private unix socket; the first call without a daemon starts one, and idleness or a
client of another version ends it. A killed daemon loses no data: an unanswered call is answered by a fresh process.
While no call is pending, the daemon keeps the intent map and the index current for `remit blame`.

Protocol. Client to daemon: `RMT1`, version, agent, event class, cwd, and `NAME=value` for each forwarded variable, each
ended by a NUL; an empty field; the payload, up to the end of the stream. Daemon to client: `A` at once (or `V`: another
version, ask a fresh process); the exit code (1 byte), the lengths of both streams (4 bytes each, big-endian), standard
output, standard error.

`remit serve` asks with the agent name `console`: its cwd is `open` or `stop`, and the payload a port or empty. The
answer is a pairing link. A command for people asks with the agent name `person`: the payload is the act and the words
of the command, with a NUL between; the answer is the ruling as JSON, exit code 0 or 3. Exit code 4 asks for the PIN:
the client sends the same again with a NUL and the PIN, which may be empty. Who asks is the process that
connected, whatever the request says.

An MCP client sends the frame of the agent `mcp`, without a payload, and keeps the connection: it is handed to the
process of `tool_server`, which acknowledges, and speaks the protocol on it.

A question of a person, such as `remit blame`, comes in the same frame with the command's name as agent, and is handed
to the process of `questions`, which sends the reply.

The launcher of contained commands (`hook exec`) asks twice. `plan`: session, call, its process, the words; the answer
is the staging folder, the limits in seconds and bytes, and the words to run, each ended by a NUL. `settle`: folder,
call, exit code, the limit that ended the command, the words; the answer is the message about dropped changes, and the
exit code.
"""

import fcntl
import gc
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

import remit
from remit.adapters import HookReply
from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.core.bounds import PAYLOAD_BYTES
from remit.core.clock import Clock
from remit.core.machine_paths import STATE_FOLDER
from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import escape_surrogates
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.rewrite_call import CommandRewriter
from remit.gate.containment.run_command import (
    limits_from,
    make_sandbox_words,
    release_staging,
    settle_staging,
    stage_command,
)
from remit.gate.context import RECORDING_ERRORS
from remit.gate.effects.other_writers import ChangesBetweenCalls
from remit.gate.effects.replays import run_replays
from remit.gate.effects.unfinished_calls import UnfinishedCalls
from remit.gate.gate import Gate
from remit.gate.hooks.registered_checks import load_installed_checks
from remit.gate.machine import Environment
from remit.gate.open_gates import DaemonLeaving, OpenGates, WorktreeWatcher, WorktreeWatchers, write_log_line
from remit.gate.people.questions import CLIENT_GONE
from remit.gate.state.tickets import TicketNotFound, Tickets
from remit.gate.state.workspace_state import mark_kept, put_watch_status
from remit.gate.undo.snapshots import SnapshotTaker
from remit.ledger.log_files import LockTimeout
from remit.servers.answer_upkeep import AnswerUpkeep
from remit.servers.authority import Authority, Ruling, apply_pin, find_running_agent, record_refused
from remit.servers.call_slots import MAX_CALLS, CallListener, CallSlots
from remit.servers.environment import make_environment
from remit.servers.hook import HookFrame, OpenGate, answer, parse_event_class
from remit.servers.pin import PinKeeper
from remit.servers.questions import QUESTION_COMMANDS, QUESTION_SERVER, TOOL_SERVER, ProcessBeside, pack_answer
from remit.tools.conversations import TranscriptIntake, intake_of_all_sessions
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.contents.fold import fold_into_git, migrate_old_refs
from remit.workspace.place.workspace import Workspace, find_session_workspaces, has_replays, locate_workspace
from remit.workspace.processes.peer_identity import read_peer
from remit.workspace.sandbox import staging
from remit.workspace.sandbox.containment import STOP_REASONS, describe_end
from remit.workspace.sandbox.git_folder_checks import check_objects
from remit.workspace.system_clock import SYSTEM_CLOCK

IDLE_TIMEOUT_S = 30 * 60.0
ACCEPT_PAUSE_S = 0.01  # after a connection that could not be taken
READ_TIMEOUT_S = 10.0  # a client sends its whole request at once; a stalled client is dropped
FINISH_TIMEOUT_S = 10.0
"""How long a leaving process waits for its last calls: a call that waits for a person notices within two seconds."""

FOLD_AFTER_S = 2.0
SWEEP_INTERVAL_S = 60.0
LOOK_INTERVAL_S = 1.0  # between two looks at what is due

QUIET_INTERVAL_S = 0.5  # required pause after a call before upkeep: agents' calls come in pairs, and often in rows
MAX_DELAY_S = 5.0  # without such a pause upkeep starts after this delay
MAX_STEP_S = 0.2  # time of upkeep for one repository at once: Python runs one thread at a time, and calls come first
COLLECTION_INTERVAL_S = 60.0
COLLECTION_THRESHOLDS = (700, 10, 10_000)
"""Of Python's garbage collector. A collection of all objects, 30 ms with the console loaded, waits for a pause between
calls; the young ones are collected as ever.
"""

REST_FACTOR = 20  # upkeep takes at most one part in so many of this process's time
DROPPED_CALL = "a call was dropped"  # start of the log line about an unanswered call; `remit doctor` looks for it
MAX_LOG_BYTES = 1 << 20

FIRST_CALL_MODULES = (
    *("remit.gate.session_lifecycle", "remit.gate.intents.intents", "remit.gate.facts.constraint_facts"),
    "remit.gate.people.ask",
    *("remit.workspace.intents_file.edit", "remit.workspace.intents_file.parse", "remit.ledger.index.build", "yaml"),
)
"""What the first calls of an agent load, with all that these import; a fresh process loads what its call needs."""

MAX_ADDRESS_BYTES = 103  # of a socket on macOS; Linux takes 107
MAGIC, ACKNOWLEDGEMENT, VERSION_MISMATCH = b"RMT1", b"A", b"V"
HOOK_PID_VARIABLE, ATTEMPT_VARIABLE = "REMIT_HOOK_PID", "REMIT_ATTEMPT"
"""Variables of an attempt's door: the process of its client, and the root of the worktree that it may speak for."""

MAX_HEADER_BYTES = 64 * 1024

MCP_AGENT = b"mcp"  # agent name in the frame of an MCP client, which speaks on the same connection afterwards
LAUNCHER_AGENT = "exec"  # agent name in the launcher's frames
PERSON_AGENT = "person"  # in the frames of commands for people
CONSOLE_AGENT = "console"  # in the frames of `remit serve`: the cwd field holds what is asked
READY_DESCRIPTOR = 3  # descriptor on which a started daemon announces that it listens
STATUS_DESCRIPTOR = 7  # descriptor of the launcher for bubblewrap's status output; `client.c` has the same number
FIELD_COUNTS = {"plan": 6, "settle": 7}  # number of fields after the phase; the last three are the words
REFUSED_EXIT_CODE, FACTOR_EXIT_CODE, RETRY_EXIT_CODE = 3, 4, 9


class FrameError(ValueError):
    """Bytes without a valid frame."""


class HookRequest(Struct, frozen=True):
    """Unpacked request of a client."""

    version: str
    frame: HookFrame
    variables: dict[str, str]
    payload: bytes


class NamedSession(Struct, frozen=True):
    """Part of hooks' payloads: the session, where the agent names it so."""

    session_id: str = ""


def unpack_request(data: bytes) -> HookRequest:
    end = data.find(b"\0\0", 0, MAX_HEADER_BYTES)
    fields = data[:end].split(b"\0")
    if end < 0 or len(fields) < 5 or fields[0] != MAGIC:
        raise FrameError("no frame of a Remit client")
    version, agent, kind, cwd, *rest = (field.decode("utf-8", "surrogateescape") for field in fields[1:])
    variables = {name: value for name, _, value in (pair.partition("=") for pair in rest)}
    return HookRequest(version, HookFrame(agent, cwd, parse_event_class(kind)), variables, data[end + 2 :])


def pack_reply(reply: HookReply) -> bytes:
    return pack_answer(reply.exit_code, reply.stdout, reply.stderr)


def socket_path(home: Path) -> Path:
    return home / STATE_FOLDER / "daemon.sock"


@contextmanager
def make_address(path: Path) -> Generator[str]:
    """Yield the address of the socket at a path: the path itself, or for one that is too long for an address, a path
    through the descriptor of its folder, which is open as long as the block runs. Raises OSError.
    """
    if len(os.fsencode(path)) <= MAX_ADDRESS_BYTES or not hasattr(os, "O_PATH"):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class ConsoleService(Protocol):
    """The console as the daemon knows it: pages in a process of their own, which a person opens."""

    @property
    def is_in_use(self) -> bool: ...

    def open(self, environment: Callable[[], Environment], wanted: int | None) -> HookReply: ...
    def stop(self) -> HookReply: ...
    def close(self) -> bool: ...
    def restore(self, environment: Callable[[], Environment], given_up: threading.Event) -> None: ...


def mark_installation(path: str) -> tuple[int, int] | None:
    """Return what changes when the file is replaced; None without it."""
    try:
        found = os.stat(path)  # noqa: PTH116  at each call
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


class Daemon:
    """Listener on the daemon's socket; `serve` returns after idleness, a stop, or a client of another version."""

    def __init__(
        self,
        home: Path,
        version: str,
        console: ConsoleService,
        idle_s: float = IDLE_TIMEOUT_S,
        clock: Clock = SYSTEM_CLOCK,
        installed: str = str(remit.__file__),
    ) -> None:
        self.home, self.version, self.console, self.clock = home, version, console, clock
        self.installed, self.mark = installed, mark_installation(installed)
        self.idle_s = idle_s
        self.stopping = threading.Event()
        self.watches = WorktreeWatchers()
        self.gates = OpenGates(self.stopping, self.watches)
        self.upkeep = Upkeep(self.gates, clock)
        self.answers = AnswerUpkeep(self.gates)
        self.questions, self.tools = ProcessBeside(QUESTION_SERVER), ProcessBeside(TOOL_SERVER)
        self.authority = Authority(home)
        self.last_call_at = clock.elapsed()
        self.folded_at = self.swept_at = self.collected_at = clock.elapsed()
        self.active_calls = 0
        self.slots = CallSlots()
        self.calls_changed = threading.Condition()
        self.socket_inode = 0
        self.fold_not_before = 0.0  # after a failure

    def serve(self, announce_ready: Callable[[], None] = lambda: None, first_folder: str = "") -> int:
        """Listen until the daemon has no more work. Return 0, also if another daemon listens already. With the folder
        of the first calls, it is announced once these will find all loaded.
        """
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
            before = os.umask(0o177)  # for this user only
            try:
                with make_address(path) as address:
                    listener.bind(address)
            finally:
                os.umask(before)
            listener.listen(MAX_CALLS)
            self.socket_inode = path.stat().st_ino
            gc.set_threshold(*COLLECTION_THRESHOLDS)
            threading.Thread(target=self.run_upkeep, daemon=True).start()
            if first_folder:
                threading.Thread(target=self.warm_up, args=(first_folder, announce_ready), daemon=True).start()
            else:
                announce_ready()
            served = (partial(make_environment, dict(os.environ)), self.stopping)
            threading.Thread(target=self.console.restore, args=served, name="console-restore", daemon=True).start()
            self.accept_calls(listener)
            if self.is_reachable():
                path.unlink(missing_ok=True)
        self.questions.close()
        self.tools.close()
        is_idle = not self.stopping.is_set()
        # Wait for active calls and do the last background work; calls waiting for a person go to fresh processes.
        self.stopping.set()
        if self.console.close() and is_idle:  # nobody looked for long: a person begins again with `remit serve`
            self.console.stop()
        with self.calls_changed:
            self.calls_changed.wait_for(lambda: not self.active_calls, FINISH_TIMEOUT_S)
        last = threading.Thread(target=self.finish_work, daemon=True)
        last.start()
        last.join(FINISH_TIMEOUT_S)
        self.answers.close()
        return 0

    def warm_up(self, folder: str, announce_ready: Callable[[], None]) -> None:
        """Load what the first calls of an agent need, and read the rules of its workspace, while none comes yet."""
        try:
            for name in FIRST_CALL_MODULES:
                import_module(name)
            workspace = locate_workspace(Path(folder))
            if workspace is not None and workspace.is_governed:
                with self.gates(workspace, replace(make_environment({}), clock=self.clock)) as gate:
                    # State, log and tables are made where there are none.
                    _ = gate.read_mode(), gate.state, gate.recorder.log
                    load_installed_checks(self.home)
                    self.authority.roots.open().close()
                    with gate.index():
                        pass
        except Exception as error:  # noqa: BLE001  the calls themselves say what is wrong
            write_log_line(f"nothing was loaded in advance: {type(error).__name__}: {error}")
        finally:
            announce_ready()

    def is_reachable(self) -> bool:
        try:
            return socket_path(self.home).stat().st_ino == self.socket_inode
        except OSError:
            return False

    def accept_calls(self, listener: socket.socket) -> None:
        """Accept calls, each in its own thread, until stopped or idle. However many come, it raises nothing."""
        listener.settimeout(min(1.0, self.idle_s))
        calls = CallListener(listener)
        while not self.stopping.is_set() and (self.is_busy or self.clock.elapsed() - self.last_call_at < self.idle_s):
            try:
                connection = calls.accept()
            except TimeoutError:
                if not self.is_reachable():
                    break
                continue
            if connection is None:
                self.clock.wait(self.stopping, ACCEPT_PAUSE_S)
                continue
            if not self.slots.take(connection, read_peer(connection)[0]):
                connection.close()
                continue
            self.count_call(1)  # first, so that the daemon does not leave beforehand
            try:
                threading.Thread(target=self.serve_connection, args=(connection,), daemon=True).start()
            except RuntimeError as error:  # no more threads: the client asks a fresh process
                self.slots.release(connection)
                connection.close()
                self.count_call(-1)
                write_log_line(f"{DROPPED_CALL}: {error}")
        calls.close()

    @property
    def is_busy(self) -> bool:
        return self.active_calls > 0 or self.console.is_in_use

    def count_call(self, step: int) -> None:
        with self.calls_changed:
            self.active_calls += step
            self.last_call_at = self.clock.elapsed()
            self.calls_changed.notify_all()

    def run_upkeep(self) -> None:
        while not self.clock.wait(self.stopping, self.step()):
            pass

    def step(self) -> float:
        """Do the background work that is due; return the seconds until the next look."""
        now = self.clock.elapsed()
        is_quiet = self.collected_at <= self.last_call_at and now - self.last_call_at >= QUIET_INTERVAL_S
        if is_quiet or now - self.collected_at >= COLLECTION_INTERVAL_S:
            self.collected_at = now
            gc.collect()
        if self.folded_at <= self.last_call_at and now - self.last_call_at > FOLD_AFTER_S:
            self.folded_at = now
            self.fold_contents(lambda _: True)
            for act in (tidy_stores, write_notes, report_watching):
                self.gates.for_each_gate(act)
            self.store_conversations()
        elif self.folded_at <= self.last_call_at and now >= self.fold_not_before:
            self.fold_contents(ContentStore.is_full)
        self.upkeep.run_if_due(self.last_call_at, now)
        if not self.upkeep.has_backlog:
            self.answers.run_if_due(self.last_call_at, now)
        if self.watches.has_suspects:
            self.gates.for_each_gate(check_background_changes)
        if now - self.swept_at >= SWEEP_INTERVAL_S:
            self.swept_at = now
            self.fold_contents(lambda _: True)  # what could not be folded before
            for act in (take_spooled, settle_idle_calls, write_notes):
                self.gates.for_each_gate(act)
        return LOOK_INTERVAL_S

    def fold_contents(self, is_due: Callable[[ContentStore], bool]) -> None:
        """Fold pending contents if due. Git works outside the repository's turn, for a store of its own: calls
        read and add contents meanwhile.
        """
        stores: dict[Path, ContentStore] = {}
        folded: dict[Path, set[str]] = {}

        def find_due_store(gate: Gate) -> None:
            if is_due(gate.contents):
                stores[gate.workspace.state] = ContentStore(gate.workspace, gate.recorder.machine)

        self.gates.for_each_gate(find_due_store)
        for state, store in stores.items():
            try:
                migrate_old_refs(store)
                folded[state] = fold_into_git(store)
            except RECORDING_ERRORS as error:
                write_log_line(f"contents were left for later: {error}")
                self.fold_not_before = self.clock.elapsed() + SWEEP_INTERVAL_S
        if any(folded.values()):
            self.gates.for_each_gate(lambda gate: mark_kept(gate.state, folded.pop(gate.workspace.state, set())))

    def store_conversations(self) -> None:
        wanted: list[TranscriptIntake] = []
        self.gates.for_each_gate(lambda gate: wanted.append(intake_of_all_sessions(gate)))
        for each in wanted:
            trouble = each.store_new(self.clock.now())
            if trouble:
                write_log_line(trouble)

    def finish_work(self) -> None:
        self.fold_contents(lambda _: True)
        self.gates.for_each_gate(tidy_stores)
        self.gates.for_each_gate(settle_idle_calls)
        self.upkeep.run_all_jobs()
        self.store_conversations()

    def serve_connection(self, connection: socket.socket) -> None:
        """Serve one call. After any connection error the client asks a fresh process."""
        trouble = ""
        try:
            with connection:
                connection.settimeout(READ_TIMEOUT_S)
                pid, user = read_peer(connection)
                if user == os.geteuid():
                    head = receive_head(connection)
                    if is_mcp_head(head):
                        self.pass_on_client(connection, head)
                        return
                    request = unpack_request(head + receive_request(connection))
                    if self.slots.admit(connection, request.frame.event_class):
                        self.reply_to_client(connection, pid, request)
        except (OSError, FrameError) as error:
            trouble = f"{DROPPED_CALL}: {error}"
        except DaemonLeaving:
            trouble = "a question to a person was left to a fresh process"
        finally:
            is_dropped = not self.slots.release(connection)
            self.count_call(-1)
        if trouble and not is_dropped:  # of a flood, no lines
            write_log_line(trouble)

    def pass_on_client(self, connection: socket.socket, head: bytes) -> None:
        """Hand an MCP client to the process that serves tools, which acknowledges once it serves. One that is not
        acknowledged comes again.
        """
        if not self.sends_away(connection, unpack_request(head).version):
            self.tools.hand_over(connection, head)

    def sends_away(self, connection: socket.socket, version: str) -> bool:
        """Return whether the client has to ask a fresh process: it is of another version, or this installation was
        replaced, and a module that is not loaded yet would be another version's. The daemon then leaves.
        """
        if version == self.version and mark_installation(self.installed) == self.mark:
            return False
        self.stopping.set()
        connection.sendall(VERSION_MISMATCH)
        return True

    def reply_to_client(self, connection: socket.socket, pid: int, request: HookRequest) -> None:
        if self.sends_away(connection, request.version):
            return
        connection.sendall(ACKNOWLEDGEMENT)
        if request.frame.agent in QUESTION_COMMANDS:
            if not self.questions.hand_over(connection, os.fsencode(request.frame.cwd) + b"\0" + request.payload):
                connection.sendall(pack_reply(HookReply(exit_code=RETRY_EXIT_CODE)))
            return
        CLIENT_GONE.set(partial(has_hung_up, connection))
        root = ""
        if ATTEMPT_VARIABLE in request.variables and self.authority.is_worker(pid):
            pid, root = int(request.variables.get(HOOK_PID_VARIABLE, pid)), request.variables[ATTEMPT_VARIABLE]
        request = replace(request, frame=replace(request.frame, pid=pid, attempt_root=root))
        is_hook = request.frame.agent in ROWS and not root
        agent = self.authority.roots.find_new(pid) if is_hook else None  # a client ends with its reply
        connection.sendall(pack_reply(self.answer_request(request, connection)))
        if agent is not None:
            self.authority.roots.keep(*agent, find_session(request.payload))

    def answer_request(self, request: HookRequest, connection: socket.socket) -> HookReply:
        environment, frame = replace(make_environment(request.variables), clock=self.clock), request.frame
        if frame.agent == PERSON_AGENT:
            name, _, rest = request.payload.decode("utf-8", "replace").partition("\0")
            command, _, pin = rest.partition("\0")
            if name not in Act.__members__:
                return HookReply(stderr=b"there is no such act", exit_code=REFUSED_EXIT_CODE)
            may_ask = "\0" not in rest
            ruling = self.rule(Act[name], connection, frame.cwd, command, environment, pin, may_ask=may_ask)
            is_asked = may_ask and ruling.takes_pin and PinKeeper(self.home).is_set
            refused = FACTOR_EXIT_CODE if is_asked else REFUSED_EXIT_CODE
            return HookReply(stdout=json.encode(ruling), exit_code=0 if ruling.allowed else refused)
        if frame.agent == CONSOLE_AGENT:
            act = Act.STOP_SERVING if frame.cwd == "stop" else Act.SERVE
            ruling = self.rule(act, connection, frame.cwd, "remit serve", environment)
            if not ruling.allowed:
                return HookReply(stderr=f"{ruling.why}\n{ruling.fix}".encode(), exit_code=REFUSED_EXIT_CODE)
            if act is Act.STOP_SERVING:
                return self.console.stop()
            wanted = int(request.payload) if request.payload.isdigit() else None
            return self.console.open(partial(make_environment, request.variables), wanted)
        if frame.agent == LAUNCHER_AGENT:
            return answer_launcher(request.payload, frame.cwd, environment, self.gates)
        return answer(request.payload, frame, environment, self.gates)

    def rule(
        self,
        act: Act,
        connection: socket.socket,
        folder: str,
        command: str,
        environment: Environment,
        pin: str = "",
        *,
        may_ask: bool = False,
    ) -> Ruling:
        """Return the door's ruling about who connected; one that is refused is recorded, unless the client `may_ask`
        for the PIN.
        """
        keeper = PinKeeper(self.home, self.clock)
        workspace = locate_workspace(Path(folder)) if folder.startswith("/") else None
        root = workspace.root if workspace is not None and workspace.is_governed else None
        if root is None:
            return apply_pin(self.authority.rule_connection(act, connection, None, lambda: ""), keeper, pin)

        def find_call() -> str:
            with self.gates(workspace, environment) as gate:
                return find_running_agent(gate)

        ruling = apply_pin(self.authority.rule_connection(act, connection, root, find_call), keeper, pin)
        if not ruling.allowed and not (may_ask and ruling.takes_pin and keeper.is_set):
            with self.gates(workspace, environment) as gate:
                record_refused(gate, ruling, command)
        return ruling


def find_session(payload: bytes) -> str:
    """Return the session that a hook's payload names; empty if it names none."""
    try:
        return json.decode(payload, type=prepare_type(NamedSession)).session_id
    except (DecodeError, ValidationError):
        return ""


def has_hung_up(connection: socket.socket) -> bool:
    """Return True if the client is gone, beyond a finished send. Only Linux tells the difference."""
    if sys.platform != "linux":
        return False
    poll = select.poll()
    poll.register(connection, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def receive_head(connection: socket.socket) -> bytes:
    """Return the bytes up to the header's end, and no more where the client waits for the acknowledgement."""
    head = b""
    while b"\0\0" not in head and len(head) <= MAX_HEADER_BYTES and (block := connection.recv(MAX_HEADER_BYTES)):
        head += block
    return head


def is_mcp_head(head: bytes) -> bool:
    return head.split(b"\0", 3)[2:3] == [MCP_AGENT] and b"\0\0" in head


def receive_request(connection: socket.socket) -> bytes:
    """Return the bytes up to the end of the stream."""
    blocks: list[bytes] = []
    size = 0
    while block := connection.recv(1 << 20):
        blocks.append(block)
        size += len(block)
        if size > PAYLOAD_BYTES.value + (1 << 20):
            raise FrameError("the payload is too large")
    return b"".join(blocks)


def start_daemon(home: Path, first_folder: str = "") -> int:
    """Start the daemon in the background, detached from the agent's terminal and pipes. It ends if there is one.

    Returns a descriptor to read from: one byte once the daemon listens, the end of the file where it ended before.
    """
    (home / STATE_FOLDER).mkdir(parents=True, exist_ok=True, mode=0o700)
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        return reading
    try:
        os.setsid()
        os.dup2(writing, READY_DESCRIPTOR)  # first: where a standard stream is closed, the pipe may have its number
        os.set_inheritable(READY_DESCRIPTOR, True)
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1):
            os.dup2(quiet, stream)
        log = home / STATE_FOLDER / "daemon.log"
        anew = os.O_TRUNC if log.exists() and log.stat().st_size > MAX_LOG_BYTES else 0
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | anew, 0o600), 2)
        os.chdir("/")
        os.closerange(READY_DESCRIPTOR + 1, 256)
        words = ["-I", "-c", "from remit.cli import main; main()", "daemon", "--ready-fd", str(READY_DESCRIPTOR)]
        words += ["--first-folder", first_folder] if first_folder else []
        os.execv(sys.executable, [sys.executable, *words])
    finally:
        os._exit(1)


# -- background work -----------------------------------------------------------------------------------------


def tidy_stores(gate: Gate) -> None:
    SnapshotTaker(gate).tidy_store()
    # For start-up speed: no call reads or writes archives.
    from remit.ledger.retention import compact

    compact(gate.recorder.log.folder, max_segments=1)


def write_notes(gate: Gate) -> None:
    """Write the notes of new commits if they are shared, after replays. A few at a time: calls wait for their turn."""
    if gate.rules.config.share.notes and not has_replays(gate.workspace):
        # Loads the modules of blame: no call needs them, and few repositories share notes.
        from remit.provenance.notes.note_writer import write_new_notes

        write_new_notes(gate.workspace, gate.contents)


def report_watching(gate: Gate) -> None:
    if isinstance(gate.observer, WorktreeWatcher):
        put_watch_status(gate.state, gate.observer.status)


def check_background_changes(gate: Gate) -> None:
    following = gate.observer.following if isinstance(gate.observer, WorktreeWatcher) else None
    if following and following.suspects_by_path and following.is_settled_enough and not gate.state.list_open_calls():
        ChangesBetweenCalls(gate).record_unattributed_changes("between calls", gate.observe(), None)
        following.clear_suspects()


def take_spooled(gate: Gate) -> None:
    if gate.recorder.take_spooled():
        write_log_line("records that waited are in the log")


def settle_idle_calls(gate: Gate) -> None:
    said = UnfinishedCalls(gate).settle_idle_calls()
    if said:
        write_log_line(said)


Job: TypeAlias = Callable[[Callable[[], bool]], bool]
"""Does a part of the work until the given function returns True; returns True if work is left."""


class Upkeep:
    """Upkeep of the intent map and the index: its schedule and backlog.

    No call waits for upkeep: inputs are collected in a repository's turn, reading and writing happen outside of the
    turn. `not_before` is the earliest time of the next start, unless a backlog exists. `reported_errors` holds the last
    reported error of each job: a lasting error is logged once.
    """

    def __init__(self, gates: OpenGates, clock: Clock = SYSTEM_CLOCK) -> None:
        self.gates, self.clock = gates, clock
        self.started_at = clock.elapsed()
        self.not_before = 0.0
        self.has_backlog = False
        self.reported_errors: dict[str, str] = {}

    def run_if_due(self, last_call: float, now: float) -> None:
        """Run the jobs if a call came since the last time, and the pause or the delay is over."""
        waited = now - last_call >= QUIET_INTERVAL_S or now - self.started_at >= MAX_DELAY_S
        if self.has_backlog or (last_call >= self.started_at and waited and now >= self.not_before):
            self.started_at = now
            self.run_all_jobs()
            ended_at = self.clock.elapsed()
            self.not_before = ended_at + REST_FACTOR * (ended_at - now)

    def run_all_jobs(self) -> None:
        wanted: dict[str, Job] = {}
        self.gates.for_each_gate(lambda gate: wanted.update(find_jobs(gate)))
        self.has_backlog = any([self.run_job(name, job) for name, job in wanted.items()])

    def run_job(self, name: str, job: Job) -> bool:
        """Do one step of a job; return True if work is left. Failures are logged."""
        end = self.clock.elapsed() + MAX_STEP_S
        said, is_unfinished = "", False
        try:
            is_unfinished = job(lambda: self.clock.elapsed() > end)
        except LockTimeout:
            is_unfinished = True
        except Exception as error:  # noqa: BLE001  records of others are read, and whatever they break, the rest goes on
            words = error.strerror if isinstance(error, OSError) else str(error)
            said = f"{name} was left for later: {type(error).__name__}: {words}"
        if said and said != self.reported_errors.get(name):
            write_log_line(said)
        self.reported_errors[name] = said
        return is_unfinished


def find_jobs(gate: Gate) -> dict[str, Job]:
    """Return the jobs of this gate's worktree, by name. Raises OSError."""
    # These load parsers of source code and the modules of blame: no call may load them.
    from remit.provenance.map.intent_map_file import IntentMap
    from remit.provenance.origins.token_index import update_token_index

    root, machine = gate.workspace.root, gate.recorder.machine
    return {
        f"the replays of {root}": partial(run_replays, gate.workspace, gate.environment),
        f"the intent map of {root}": IntentMap.open(gate.workspace, gate.recorder.log.name, machine).update,
        f"the index of {root}": partial(update_token_index, gate.workspace, machine),
    }


# -- contained commands --------------------------------------------------------------------------------------


def answer_launcher(payload: bytes, cwd: str, environment: Environment, gates: OpenGate) -> HookReply:
    """Answer the launcher. Raises the errors in RECORDING_ERRORS: the launcher asks a fresh process after them."""
    phase, *fields = (field.decode("utf-8", "surrogateescape") for field in payload.split(b"\0")[:-1])
    workspace = find_launcher_workspace(phase, cwd, fields, environment, gates)
    if phase == "settle" and workspace is not None:
        check_staged_objects(workspace, Path(fields[0]), environment)
    with gates(workspace, environment) as gate:
        if not gate.is_governed or len(fields) != FIELD_COUNTS.get(phase) or fields[-2] != "-c":
            return HookReply(exit_code=RETRY_EXIT_CODE)
        try:
            return plan_command(gate, cwd, fields) if phase == "plan" else settle_command(gate, fields)
        except staging.NoScratchFolder:
            return HookReply(exit_code=RETRY_EXIT_CODE)
        except TicketNotFound as error:
            return HookReply(stderr=f"remit: {escape_surrogates(str(error))}\n".encode(), exit_code=REFUSED_EXIT_CODE)


def find_launcher_workspace(
    phase: str, cwd: str, fields: Sequence[str], environment: Environment, gates: OpenGate
) -> Workspace | None:
    own = locate_workspace(Path(cwd))
    if len(fields) != FIELD_COUNTS.get(phase):
        return own
    if phase == "settle":
        folder = Path(fields[0])
        places = [place.resolve() for place in staging.staging_folders(environment.home, environment.temporary)]
        root = staging.read_workspace_root(folder) if folder.parent in places else ""
        return locate_workspace(Path(root)) if root else own
    for workspace in find_session_workspaces(environment.home, fields[0]):
        if workspace != own:
            with gates(workspace, environment) as gate:
                if Tickets(gate.state).find_ticket(fields[1]) is not None:
                    return workspace
    return own


def check_staged_objects(workspace: Workspace, folder: Path, environment: Environment) -> None:
    if folder.parent in [place.resolve() for place in staging.staging_folders(environment.home, environment.temporary)]:
        with suppress(OSError):
            check_objects(workspace, staging.reopen_staging(folder, workspace))


def plan_command(gate: Gate, cwd: str, fields: Sequence[str]) -> HookReply:
    """Return the staging folder, the limits, and the sandbox's words. Raises TicketNotFound."""
    session_id, token, launcher, *command = fields
    rewriter, tickets = CommandRewriter(gate), Tickets(gate.state)
    ticket = tickets.find_ticket(token)
    if ticket is None:
        raise TicketNotFound(token)
    if not rewriter.has_overlay or not launcher.isdecimal():
        return HookReply(exit_code=RETRY_EXIT_CODE)
    staged = stage_command(gate, ticket.make_call(command[2], cwd), Path(ticket.temporary), int(launcher))
    try:
        ticket = tickets.use_ticket(token, session_id, command[2], str(staged.folder))
    except TicketNotFound:
        staging.remove_tree(staged.folder)
        raise
    contained = ContainedCommand(gate, ticket.make_call(command[2], cwd), ticket)
    staging.lend_caches(staged, gate.workspace.root, contained.intent_id)
    words = make_sandbox_words(contained, rewriter.containment.program, command, staged, STATUS_DESCRIPTOR)
    limits = limits_from(contained.settings)
    first = (str(staged.folder), f"{limits.seconds or 0:f}", str(limits.size or 0))
    return HookReply(stdout=b"".join(os.fsencode(word) + b"\0" for word in (*first, *words)))


def settle_command(gate: Gate, fields: Sequence[str]) -> HookReply:
    """Return the message about dropped changes, and the exit code. Raises TicketNotFound."""
    name, token, code, stop, *command = fields
    folder = Path(name)
    tickets = Tickets(gate.state)
    ticket = tickets.find_used_ticket(token, name, command[2])
    contained = ContainedCommand(gate, ticket.make_call(command[2]), ticket)
    ended = describe_end(next((s for s in STOP_REASONS if s == stop), None), int(code), limits_from(contained.settings))
    try:
        result = settle_staging(contained, folder, ended)
    finally:
        tickets.delete_ticket(token)
        release_staging(folder, discarded=ended.must_discard)
    message = f"{escape_surrogates(result.said)}\n".encode() if result.said else b""
    return HookReply(stderr=message, exit_code=result.code)
