"""The console's server: a thread of the daemon listening on loopback, started at the request of `remit serve`."""

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import to_builtins
from msgspec.structs import replace

from remit.core.machine_paths import CONFIG_PATH
from remit.core.record import Body, CallPart
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.intents.refusals import make_refusal
from remit.gate.machine import Environment
from remit.gate.records.call_records import violation_document
from remit.servers.authority import Authority, Ruling
from remit.servers.web.app import Console
from remit.servers.web.chat_processes import ChatProcesses
from remit.servers.web.client_worlds import name_worlds
from remit.servers.web.guard import COOKIE, Guard
from remit.servers.web.pairing import DEFAULT_PORT, Login, Logins, PairedBrowser, Pairing
from remit.servers.web.protocol import HEAD_S, IDLE_S, Client, Doorkeeper, Visitors
from remit.servers.web.push import PushSender
from remit.servers.web.remote.settings import (
    RemoteSettings,
    RemoteSetupRefused,
    read_client_secret,
    read_remote_settings,
    resolve_file,
)
from remit.servers.web.repositories import Repositories
from remit.servers.web.workers import HeavyReads, WorkerPool
from remit.workspace.place.workspace import locate_workspace

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0  # its sockets are closed then, whatever the thread does
LOOPBACK = "127.0.0.1"


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


class PortTaken(OSError):
    """A port in use by a foreign program."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is taken: name another one with `remit serve --port`")


class ConsoleServer:
    """Console of a user: a listening socket, and a thread with an event loop."""

    def __init__(self, environment: Callable[[], Environment], port: int | None) -> None:
        self.environment = environment
        home, self.clock = environment().home, environment().clock
        self.remote_settings = read_remote_settings(home)
        self.pairing = Pairing(home, self.clock.now)
        self.socket, self.port = listen(port, self.pairing.state.port)
        if self.pairing.state.port != self.port or not self.pairing.state.browsers:
            self.pairing.change_state(replace(self.pairing.state, port=self.port))
        remote = self.remote_settings
        self.logins = Logins(home, self.clock.now) if remote else None
        repositories = Repositories(
            environment,
            WorkerPool(self.clock),
            ChatProcesses(self.clock),
            HeavyReads(self.clock),
            remote_origin=remote.origin if remote else "",
        )
        self.authority = Authority(home)
        self.guard = Guard(self.pairing, self.port, self.record_attempt, self.authority, self.logins)
        self.console = Console(self.guard, repositories, self.record_pairing)
        self.pushes = PushSender(repositories, lambda: remote.origin if remote else self.guard.origin, self.clock)
        self.server = make_server(self.console, {}, self.make_doorkeeper())
        self.remote: tuple[HttpServer, socket.socket] | None = None
        if remote:
            try:
                self.remote = self.open_remote(remote, home)
            except BaseException:
                self.socket.close()
                raise
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self.run_loop, name="console", daemon=True)

    def open_remote(self, settings: RemoteSettings, home: Path) -> tuple[HttpServer, socket.socket]:
        """Return a listening server for other machines. Raises RemoteSetupRefused."""
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
        guard = RemoteGuard(
            self.pairing, address.port, self.record_attempt, self.authority, logins=self.logins, settings=settings
        )
        provider = OpenIdProvider(settings, read_client_secret(settings, home))
        files: dict[str, Any] = {}
        if settings.cert and settings.key:
            files = {
                "ssl_certfile": resolve_file(settings.cert, home),
                "ssl_keyfile": resolve_file(settings.key, home),
            }
        doorkeeper = Doorkeeper(Visitors(find_browser, lambda: "", name_addresses))
        server = make_server(RemoteConsole(guard, self.logins, provider, self.console), files, doorkeeper)
        try:
            server.config.load()
        except OSError as error:  # ssl.SSLError is one
            why = f"cert and key in ~/{CONFIG_PATH} cannot be used: {error}"
            raise RemoteSetupRefused(why, "name a certificate chain and its key, both as PEM") from None
        try:
            return server, bind(address.host, address.port)
        except OSError as error:
            why = f"{address.host} port {address.port} cannot be listened at: {error.strerror}"
            raise RemoteSetupRefused(why, f"name another address with `listen` in ~/{CONFIG_PATH}") from None

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
        self.pushes.stop()
        if self.loop is not None and self.loop.is_running():
            with suppress(RuntimeError, TimeoutError):  # the loop ended meanwhile
                asyncio.run_coroutine_threadsafe(self.console.watcher.close(), self.loop).result(1.0)
        for server in self.list_servers():
            server.should_exit = True
        self.thread.join(STOP_TIMEOUT_S)
        self.console.repositories.workers.close()
        self.console.repositories.runs.close()
        self.socket.close()
        if self.remote:
            self.remote[1].close()
        if self.logins:
            self.logins.close()

    @property
    def is_in_use(self) -> bool:
        """Whether a page is open, or can be opened from other machines, or a phone is told of questions: the daemon
        does not leave then.
        """
        return self.remote is not None or self.console.watcher.listeners > 0 or self.pushes.is_in_use

    def make_link(self) -> str:
        return f"{self.guard.origin}/pair#{self.pairing.make_link_secret()}"

    # Records

    def record_pairing(self, browser: PairedBrowser) -> None:
        detail: dict[str, Any] = {"name": browser.name or browser.id, "by": "person"}
        if isinstance(browser, Login):
            detail |= {"who": to_builtins(browser.person), "role": browser.role, "address": browser.address}
        self.append_everywhere(Body(event="console_paired", intent_id=None, session_id=None, detail=detail))

    def record_attempt(self, action: str, ruling: Ruling) -> None:
        """Record that somebody who is not seen as a person tried to decide."""
        refusal = make_refusal("COMMAND_BLOCKED", f"{action} is for a person: {ruling.why}.", "console", None)
        self.append_everywhere(
            Body(
                event="denied",
                intent_id=None,
                session_id=ruling.session or None,
                call=CallPart(name="console", effect="execute", command=action),
                violation=violation_document(refusal.violation),
                detail={"door": ruling.evidence},
            )
        )

    def append_everywhere(self, body: Body) -> None:
        for repository in self.console.repositories.list_all():
            with suppress(*RECORDING_ERRORS):
                gate = Gate(locate_workspace(Path(repository.root)), self.environment())
                gate.recorder.append_or_spool([gate.recorder.make_record(body)])
                gate.close()


def listen(wanted: int | None, kept: int) -> tuple[socket.socket, int]:
    """Return a listening socket on loopback and its port: the wanted port, or the kept port, or a free port.

    Raises PortTaken if the wanted port is taken.
    """
    choices = [wanted] if wanted is not None else [kept or DEFAULT_PORT, 0]
    for port in choices:
        try:
            listener = bind(LOOPBACK, port)
        except OSError:
            continue
        return listener, int(listener.getsockname()[1])
    raise PortTaken(choices[0])


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address. Raises OSError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


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
