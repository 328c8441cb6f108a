"""The line between the daemon and the console's process, a pair of sockets: what is said on it, one JSON document a
line.

The console shows pages and has no say: it tells what a browser sent, and the daemon, which holds the links, the nonces
and the word about processes, answers.
"""

import socket
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json

from remit.console.pairing import Role
from remit.core.python_runtime import prepare_type


class Ends(Struct, frozen=True):
    """Both ends of a browser's connection. `is_login` where people log in: the client may be another machine's."""

    client_host: str
    client_port: int
    server_host: str
    server_port: int
    is_login: bool = False


class WriteClaim(Struct, frozen=True, tag=True):
    """A request that writes what needs a role, with its proof."""

    ends: Ends
    method: str
    target: str
    body_sha256: str
    proof: str
    reader: str
    role: Role
    act: str  # of `Act`, which the door rules on


class PeerClaim(Struct, frozen=True, tag=True):
    """Something that only a person's process may do, without a proof yet."""

    ends: Ends
    act: str
    action: str


class PairClaim(Struct, frozen=True, tag=True):
    """A browser with the secret of a pairing link."""

    ends: Ends
    secret: str
    public_key: str
    name: str


class UnpairClaim(Struct, frozen=True, tag=True):
    """The end of a pairing or a login, after its own request was allowed to write."""

    browser: str


Claim: TypeAlias = WriteClaim | PeerClaim | PairClaim | UnpairClaim


class Verdict(Struct, frozen=True):
    """The answer; `status` is HTTP's. A paired browser gets an id and a cookie."""

    status: int = 200
    message: str = ""
    fix: str = ""
    browser: str = ""
    cookie: str = ""


class Decides(Protocol):
    """Who decides: the daemon, or in the same process what the daemon uses."""

    def decide(self, claim: Claim) -> Verdict: ...

    def wake_calls(self) -> None:
        """Let calls that wait for an answer look at once."""
        ...


MAX_LINE_BYTES = 1 << 20


class Asked(Struct, frozen=True, tag=True):
    """A claim of the console, and the number by which the answer names it."""

    number: int
    claim: Claim


class Answered(Struct, frozen=True, tag=True):
    """The daemon's answer to a claim."""

    number: int
    verdict: Verdict


class Begun(Struct, frozen=True, tag=True):
    """The console's word that it serves; with `trouble`, that it cannot, and `fix` is the next step."""

    trouble: str = ""
    fix: str = ""


class Ping(Struct, frozen=True, tag=True):
    """The daemon's question whether the console lives."""


class Pong(Struct, frozen=True, tag=True):
    """The console's answer: whether it is used, and whether somebody at a page can answer."""

    is_in_use: bool
    can_answer: bool


class News(Struct, frozen=True, tag=True):
    """The console's word that something was written for which a call may wait."""


class Leave(Struct, frozen=True, tag=True):
    """The daemon's order to end."""


FromConsole: TypeAlias = Asked | Begun | Pong | News
FromDaemon: TypeAlias = Answered | Ping | Leave
CONSOLE_DECODER: json.Decoder[FromConsole] = json.Decoder(prepare_type(FromConsole))
DAEMON_DECODER: json.Decoder[FromDaemon] = json.Decoder(prepare_type(FromDaemon))
LINE_ERRORS = (OSError, DecodeError, ValidationError)


def encode_line(message: FromConsole | FromDaemon) -> bytes:
    return json.encode(message) + b"\n"


def read_lines(line: socket.socket) -> Iterator[bytes]:
    """Yield the messages that come, until the other side is gone. Raises OSError, also for one without end."""
    pending = b""
    while block := line.recv(1 << 16):
        *whole, pending = (pending + block).split(b"\n")
        yield from whole
        if len(pending) > MAX_LINE_BYTES:
            raise OSError("a message without end")
