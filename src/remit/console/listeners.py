"""The sockets that the console listens on. The daemon holds them, so that a console that ends loses no port and none of
the browsers that wait in line.
"""

import socket

from msgspec import Struct

from remit.console.pairing import DEFAULT_PORT
from remit.console.remote.settings import RemoteSettings, RemoteSetupRefused
from remit.core.machine_paths import CONFIG_PATH

LOOPBACK = "127.0.0.1"
BACKLOG = 128


class PortTaken(OSError):
    """A port in use by a foreign program."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is taken: name another one with `remit serve --port`")


class Listeners(Struct, frozen=True):
    """The socket for this machine, and the one for others where a person has set one up."""

    local: socket.socket
    remote: socket.socket | None = None

    @property
    def port(self) -> int:
        return int(self.local.getsockname()[1])

    def close(self) -> None:
        self.local.close()
        if self.remote is not None:
            self.remote.close()


def open_listeners(wanted: int | None, kept: int, settings: RemoteSettings | None) -> Listeners:
    """Listen at the wanted port, or the kept port, or a free port. Raises PortTaken if the wanted port is taken, and
    RemoteSetupRefused.
    """
    local = listen(wanted, kept)
    if settings is None:
        return Listeners(local)
    address = settings.address
    try:
        return Listeners(local, bind(address.host, address.port))
    except OSError as error:
        local.close()
        why = f"{address.host} port {address.port} cannot be listened at: {error.strerror}"
        raise RemoteSetupRefused(why, f"name another address with `listen` in ~/{CONFIG_PATH}") from None


def listen(wanted: int | None, kept: int) -> socket.socket:
    choices = [wanted] if wanted is not None else [kept or DEFAULT_PORT, 0]
    for port in choices:
        try:
            return bind(LOOPBACK, port)
        except OSError:
            continue
    raise PortTaken(choices[0])


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address. Raises OSError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
