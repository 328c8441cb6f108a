"""The console's process as the daemon sees it: started, watched, started again, and told what a person may do.

The daemon holds the sockets. So a console that ends loses no port, no browser that waits in line, no pairing; questions
wait in the state, and the daemon signs for the person at the page until the page is back.
"""

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from msgspec import DecodeError, ValidationError
from msgspec.structs import replace

from remit.console.decider import Decider
from remit.console.line import (
    CONSOLE_DECODER,
    Answered,
    Asked,
    Begun,
    Claim,
    FromDaemon,
    Leave,
    News,
    Ping,
    Pong,
    encode_line,
    read_lines,
)
from remit.console.listeners import Listeners, PortTaken, open_listeners
from remit.console.pairing import Logins, Pairing, make_link, read_state
from remit.console.remote.settings import RemoteSettings, RemoteSetupRefused, read_remote_settings
from remit.console.status import STATUS_FILE, ConsoleStatus, write_console_status
from remit.core.clock import Clock, Waitable
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.open_gates import write_log_line
from remit.servers.call_slots import give_back_limit
from remit.workspace.place.workspace import list_governed_roots, locate_workspace
from remit.workspace.processes.process_tracking import (
    ProcessIdentity,
    pid_namespace,
    process_start_time,
)

PAUSES_S = (0.1, 1.0, 5.0, 30.0, 60.0)  # before the console is started again; the last one from then on
STEADY_S = 60.0  # a console that ran for so long begins at the first pause again
PING_INTERVAL_S, SILENCE_S = 5.0, 15.0
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
SEND_TIMEOUT_S = 5  # whole seconds, as the system takes them
SIGNED_S = 120.0  # how long the daemon signs for a page whose console is gone
SIGN_INTERVAL_S = 5.0
RESTORE_TRIES, RESTORE_INTERVAL_S = 100, 0.1
WATCHER = "console restarts"
SERVER = "from remit.console.server import serve_pages; serve_pages()"


class ConsoleKeeper:
    """Keeper of the console's process. `begun` is set once it serves, or cannot."""

    def __init__(self, environment: Callable[[], Environment], clock: Clock, wanted: int | None) -> None:
        """Take the port, and no other than the wanted one. Raises PortTaken, RemoteSetupRefused."""
        self.environment, self.clock = environment, clock
        self.home = environment().home
        self.remote_settings: RemoteSettings | None = read_remote_settings(self.home)
        self.pairing = Pairing(self.home, clock.now)
        self.listeners: Listeners = open_listeners(wanted, self.pairing.state.port, self.remote_settings)
        self.port = self.listeners.port
        self.pairing.change_state(replace(self.pairing.state, port=self.port, is_served=True))
        self.logins = Logins(self.home, clock.now) if self.remote_settings else None
        self.decider = Decider(environment, self.pairing, self.logins)
        self.answering = ThreadPoolExecutor(4, thread_name_prefix="console-decide")
        self.status = ConsoleStatus(f"http://{self.pairing.state.host_name}:{self.port}")
        self.stopping, self.begun, self.changed = threading.Event(), threading.Event(), threading.Event()
        self.refusal: Begun | None = None
        self.last_pong = Pong(is_in_use=False, can_answer=False)
        self.heard_at = 0.0
        self.away_since: float | None = None  # since when the console of a person who could answer is gone
        self.sending = threading.Lock()
        self.line: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.thread = threading.Thread(target=self.keep, name="console-keeper", daemon=True)

    def start(self) -> None:
        """Start the console, and wait until it serves. Raises RemoteSetupRefused."""
        self.thread.start()
        self.wait_until_served()

    def wait_until_served(self) -> None:
        """Wait until the console serves. Raises RemoteSetupRefused."""
        self.begun.wait(START_TIMEOUT_S)
        if self.refusal is not None:
            self.stop()
            raise RemoteSetupRefused(self.refusal.trouble, self.refusal.fix)

    @property
    def is_in_use(self) -> bool:
        """Whether somebody uses the console, as it said last: the daemon does not leave then."""
        return self.last_pong.is_in_use

    def make_link(self) -> str:
        return make_link(self.pairing, self.port)

    def keep(self) -> None:
        """Run the console again and again, until stopped."""
        failures = 0
        while not self.stopping.is_set():
            started_at = self.clock.elapsed()
            end = self.run_once()
            if self.stopping.is_set():
                return
            if self.refusal is not None:
                write_log_line(f"the console cannot be served: {self.refusal.trouble}; {self.refusal.fix}")
                return
            if self.last_pong.can_answer:
                self.away_since = self.clock.elapsed()
                self.last_pong = Pong(is_in_use=True, can_answer=False)
            failures = 0 if self.clock.elapsed() - started_at > STEADY_S else failures
            pause_s = PAUSES_S[min(failures, len(PAUSES_S) - 1)]
            failures += 1
            write_log_line(f"the console's process ended: {end}; it is started again in {pause_s:g} s")
            self.tell(None, self.status.restarts + 1, end)
            self.sign_while_away()
            while pause_s > 0 and not self.clock.wait(self.stopping, min(pause_s, SIGN_INTERVAL_S)):
                pause_s -= SIGN_INTERVAL_S
                self.sign_while_away()

    def run_once(self) -> str:
        """Run the console's process to its end; return how it ended."""
        self.changed.clear()
        try:
            process, line = self.spawn()
        except OSError as error:
            return f"it could not be started: {error}"
        with line:
            self.process, self.line = process, line
            self.tell(
                ProcessIdentity(process.pid, process_start_time(process.pid) or "", pid_namespace()),
                self.status.restarts,
                self.status.last_end,
            )
            self.heard_at = self.clock.elapsed() + START_TIMEOUT_S - SILENCE_S
            reader = threading.Thread(target=self.follow, args=(line,), name="console-line", daemon=True)
            reader.start()
            end = self.watch(process)
        code = process.wait()
        return end or (f"exit code {code}" if code >= 0 else f"killed by signal {-code}")

    def spawn(self) -> tuple["subprocess.Popen[bytes]", socket.socket]:
        """Start the process with the sockets; return it and the daemon's end of the line. Raises OSError."""
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))
        passed = [theirs, self.listeners.local, *([self.listeners.remote] if self.listeners.remote else [])]
        numbers = [each.fileno() for each in passed]
        environment = self.environment()
        variables = {**os.environ, "HOME": str(environment.home), "TMPDIR": str(environment.temporary)}
        command = [sys.executable, "-I", "-c", SERVER, *map(str, numbers)]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=numbers, cwd="/", env=variables
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        give_back_limit(process.pid)
        return process, ours

    def watch(self, process: "subprocess.Popen[bytes]") -> str:
        """Ask the process for signs until it ends or is ended; return why it was ended, empty where it ended itself."""
        while not self.clock.wait(self.changed, PING_INTERVAL_S):
            if self.clock.elapsed() - self.heard_at > SILENCE_S:
                process.kill()
                process.wait()
                return f"ended after {SILENCE_S:g} s without a sign"
            self.sign_while_away()
            self.send(Ping())
        if not self.stopping.is_set() and process.poll() is None:
            process.kill()  # its line is gone, so it can decide nothing
        if self.stopping.is_set():
            self.send(Leave())
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return ""

    def send(self, message: FromDaemon) -> None:
        """Send a message; a console that takes none loses its line, and with it its process."""
        line = self.line
        if line is not None:
            try:
                with self.sending:
                    line.sendall(encode_line(message))
            except OSError:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def follow(self, line: socket.socket) -> None:
        """Take what the console says, until it is gone."""
        try:
            for message in read_lines(line):
                self.take(CONSOLE_DECODER.decode(message))
        except (DecodeError, ValidationError) as error:
            write_log_line(f"the console's process said something unknown: {error}")
        except OSError:  # it is gone
            pass
        if line is self.line:
            self.changed.set()

    def take(self, message: object) -> None:
        match message:
            case Asked(number, claim):
                self.answering.submit(self.answer, number, claim)
            case Begun():
                self.heard_at = self.clock.elapsed()
                self.refusal = message if message.trouble else None
                self.begun.set()
            case Pong():
                self.heard_at, self.last_pong = self.clock.elapsed(), message
            case News():
                self.decider.wake_calls()
            case _:
                pass

    def answer(self, number: int, claim: Claim) -> None:
        self.send(Answered(number, self.decider.decide(claim)))

    def sign_while_away(self) -> None:
        if self.away_since is None:
            return
        if self.last_pong.can_answer or self.clock.elapsed() - self.away_since > SIGNED_S:
            self.away_since = None
            return
        for root in list_governed_roots(self.home):
            with suppress(*RECORDING_ERRORS), closing(Gate(locate_workspace(Path(root)), self.environment())) as gate:
                gate.questions.mark_watcher_present(watcher=WATCHER)

    def tell(self, process: ProcessIdentity | None, restarts: int, end: str) -> None:
        """Keep what `remit status` tells."""
        self.status = ConsoleStatus(self.status.address, process, restarts, end)
        with suppress(OSError):
            write_console_status(self.home, self.status)

    def stop(self) -> None:
        self.stopping.set()
        self.changed.set()
        self.thread.join(STOP_TIMEOUT_S + SEND_TIMEOUT_S)
        self.answering.shutdown(wait=False)
        self.listeners.close()
        if self.logins:
            self.logins.close()
        with suppress(OSError):
            (self.home / STATUS_FILE).unlink(missing_ok=True)


def restore_console(environment: Callable[[], Environment], clock: Clock, given_up: Waitable) -> ConsoleKeeper | None:
    """Return the console that the daemon before served; None where there was none, or its port is taken."""
    state = read_state(environment().home)
    if not state.is_served:
        return None
    why = ""
    for _ in range(RESTORE_TRIES):  # the console of a daemon that was killed may hold the port for a moment yet
        try:
            return ConsoleKeeper(environment, clock, state.port)
        except PortTaken as error:
            why = str(error)
        except RemoteSetupRefused as error:
            why = str(error)
            break
        if clock.wait(given_up, RESTORE_INTERVAL_S):
            return None
    write_log_line(f"the console is not served again: {why}; run `remit serve`")
    return None
