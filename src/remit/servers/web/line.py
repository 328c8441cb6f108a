"""The line between the daemon and the console's process: JSON documents, one a line, on a pair of sockets."""

import socket
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json

from remit.core.python_runtime import prepare_type
from remit.servers.web.claims import Claim, Verdict

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
