"""The console's server: a thread with an event loop, for this machine and, where that is set up, for others."""

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from remit.core.machine_paths import CONFIG_PATH
from remit.gate.context import RECORDING_ERRORS
from remit.gate.machine import Environment
from remit.servers.web.app import Console
from remit.servers.web.chat_processes import ChatProcesses
from remit.servers.web.claims import Decides
from remit.servers.web.decider import ConsoleRecords, Decider
from remit.servers.web.guard import COOKIE, Guard
from remit.servers.web.listeners import Listeners, open_listeners
from remit.servers.web.pairing import Logins, Pairing, make_link
from remit.servers.web.push import PushSender
from remit.servers.web.remote.settings import (
    RemoteSettings,
    RemoteSetupRefused,
    read_client_secret,
    read_remote_settings,
    resolve_file,
)
from remit.servers.web.repositories import Repositories
from remit.servers.web.visitors.client_worlds import name_worlds
from remit.servers.web.visitors.protocol import HEAD_S, IDLE_S, Client, Doorkeeper, Visitors
from remit.servers.web.workers import HeavyReads, WorkerPool

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
        from remit.servers.web.remote.app import LOGIN_COOKIE, RemoteConsole, RemoteGuard
        from remit.servers.web.remote.provider import OpenIdProvider

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
        """Return the keeper of the address on this machine."""

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
