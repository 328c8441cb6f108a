"""The console's server: a thread with an event loop, for this machine and, where that is set up, for others."""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from remit.console.app import Console
from remit.console.chat_processes import ChatProcesses
from remit.console.connection_limits import HEAD_S, IDLE_S, Client, Doorkeeper, Visitors, name_worlds
from remit.console.decider import ConsoleRecords, Decider
from remit.console.guard import COOKIE, Guard
from remit.console.line import (
    DAEMON_DECODER,
    LINE_ERRORS,
    Answered,
    Asked,
    Begun,
    Claim,
    Decides,
    FromConsole,
    Leave,
    News,
    Ping,
    Pong,
    Verdict,
    encode_line,
    read_lines,
)
from remit.console.listeners import Listeners, open_listeners
from remit.console.pairing import Logins, Pairing, make_link
from remit.console.push import PushSender
from remit.console.remote.settings import (
    RemoteSettings,
    RemoteSetupRefused,
    read_client_secret,
    read_remote_settings,
    resolve_file,
)
from remit.console.repositories import Repositories
from remit.console.workers import HeavyReads, WorkerPool
from remit.core.machine_paths import CONFIG_PATH
from remit.gate.context import RECORDING_ERRORS
from remit.gate.machine import Environment
from remit.servers.call_slots import raise_descriptor_limit
from remit.servers.environ_checks import clean_environment
from remit.servers.environment import make_environment

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0  # its sockets are closed then, whatever the thread does


class PunctualLoop(asyncio.SelectorEventLoop):
    """Event loop whose clients finish the handshake of TLS in time; before it, no protocol counts them."""

    async def create_server(self, *arguments: Any, **named: Any) -> asyncio.Server:  # pyright: ignore[reportIncompatibleMethodOverride]
        if named.get("ssl"):
            named["ssl_handshake_timeout"] = HEAD_S
        return await super().create_server(*arguments, **named)


class HttpServer(uvicorn.Server):
    """HTTP server that tells when it has begun; `has_begun` is also set if it never will."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_begun = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_begun.set()


class ConsoleServer:
    """Console of a user: its sockets, and a thread with an event loop. In the daemon's service it gets the sockets and
    who decides; else it has its own.
    """

    def __init__(
        self,
        environment: Callable[[], Environment],
        port: int | None,
        listeners: Listeners | None = None,
        decider: Decides | None = None,
    ) -> None:
        self.environment = environment
        home, self.clock = environment().home, environment().clock
        self.remote_settings = read_remote_settings(home)
        self.pairing = Pairing(home, self.clock.now)
        self.listeners = listeners or open_listeners(port, self.pairing.state.port, self.remote_settings)
        self.socket, self.port = self.listeners.local, self.listeners.port
        self.pairing.keep_port(self.port)
        remote = self.remote_settings
        self.logins = Logins(home, self.clock.now) if remote else None
        repositories = Repositories(
            environment,
            WorkerPool(self.clock),
            ChatProcesses(self.clock),
            HeavyReads(self.clock),
            remote_origin=remote.origin if remote else "",
        )
        self.decider = decider or Decider(environment, self.pairing, self.logins)
        self.guard = Guard(self.pairing, self.port, self.decider, self.logins)
        self.console = Console(self.guard, repositories)
        self.pushes = PushSender(repositories, lambda: remote.origin if remote else self.guard.origin, self.clock)
        self.server = make_server(self.console, {}, self.make_doorkeeper())
        self.remote: tuple[HttpServer, socket.socket] | None = None
        if remote and self.listeners.remote is not None:
            try:
                self.remote = self.make_remote(remote, home), self.listeners.remote
            except BaseException:
                self.listeners.close()
                raise
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_stopping = False
        self.thread = threading.Thread(target=self.run_loop, name="console", daemon=True)

    def make_remote(self, settings: RemoteSettings, home: Path) -> HttpServer:
        """Return the server for other machines. Raises RemoteSetupRefused."""
        # Imported here: the extra `remote`, which most people do not install.
        from remit.console.remote.app import LOGIN_COOKIE, RemoteConsole, RemoteGuard
        from remit.console.remote.provider import OpenIdProvider

        assert self.logins is not None
        logins = self.logins

        def find_browser(cookies: Mapping[str, str]) -> str:
            try:
                login = logins.find(cookies.get(LOGIN_COOKIE, ""))
            except RECORDING_ERRORS:
                login = None
            return login.id if login else ""

        def name_addresses(clients: Sequence[Client]) -> list[str]:
            # All that comes by a proxy has one address: each connection is a group of its own then.
            return [f"{host} {port}" if settings.is_proxy(host) else host for host, port in clients]

        address = settings.address
        guard = RemoteGuard(self.pairing, address.port, self.decider, logins=self.logins, settings=settings)
        provider = OpenIdProvider(settings, read_client_secret(settings, home))
        files: dict[str, Any] = {}
        if settings.cert and settings.key:
            files = {
                "ssl_certfile": resolve_file(settings.cert, home),
                "ssl_keyfile": resolve_file(settings.key, home),
            }
        doorkeeper = Doorkeeper(Visitors(find_browser, lambda: "", name_addresses))
        record_pairing = ConsoleRecords(self.environment).record_pairing
        console = RemoteConsole(guard, self.logins, provider, self.console, record_pairing)
        server = make_server(console, files, doorkeeper)
        try:
            server.config.load()
        except OSError as error:  # ssl.SSLError is one
            why = f"cert and key in ~/{CONFIG_PATH} cannot be used: {error}"
            raise RemoteSetupRefused(why, "name a certificate chain and its key, both as PEM") from None
        return server

    def make_doorkeeper(self) -> Doorkeeper:
        def find_browser(cookies: Mapping[str, str]) -> str:
            reader = self.pairing.find_reader(cookies.get(COOKIE, ""))
            return reader.id if reader else ""

        def find_last_paired() -> str:
            browsers = self.pairing.state.browsers
            return browsers[-1].id if browsers else ""

        return Doorkeeper(Visitors(find_browser, find_last_paired, partial(name_worlds, self.port)))

    def start(self) -> None:
        self.thread.start()
        self.pushes.thread.start()
        for server in self.list_servers():
            server.has_begun.wait(START_TIMEOUT_S)

    def list_servers(self) -> list[HttpServer]:
        return [self.server, *([self.remote[0]] if self.remote else [])]

    def run_loop(self) -> None:
        # No signal handlers: the daemon's main thread has its own.
        try:
            with asyncio.Runner(loop_factory=PunctualLoop) as runner:
                runner.run(self.serve())
        finally:
            for server in self.list_servers():
                server.has_begun.set()

    async def serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        serving = [self.server.serve([self.socket])]
        if self.remote:
            serving.append(self.remote[0].serve([self.remote[1]]))
        await asyncio.gather(*serving)

    def stop(self) -> None:
        self.is_stopping = True
        self.pushes.stop()
        if self.loop is not None and self.loop.is_running():
            with suppress(RuntimeError, TimeoutError):  # the loop ended meanwhile
                asyncio.run_coroutine_threadsafe(self.console.watcher.close(), self.loop).result(1.0)
        for server in self.list_servers():
            server.should_exit = True
        self.thread.join(STOP_TIMEOUT_S)
        self.console.repositories.workers.close()
        self.console.repositories.runs.close()
        self.listeners.close()
        if self.logins:
            self.logins.close()

    @property
    def is_in_use(self) -> bool:
        """Whether a page is open, or can be opened from other machines, or a phone is told of questions: the daemon
        does not leave then.
        """
        return self.remote is not None or self.console.watcher.listeners > 0 or self.pushes.is_in_use

    def make_link(self) -> str:
        return make_link(self.pairing, self.port)


def make_server(console: Console, files: dict[str, Any], doorkeeper: Doorkeeper) -> HttpServer:
    """Return a server of the console's pages; `files` are those of TLS. It believes no header about its clients."""
    config = uvicorn.Config(
        console.build_app(),
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=int(IDLE_S),
        http=doorkeeper.protocol,
        **files,
    )
    return HttpServer(config)


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
