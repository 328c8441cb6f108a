"""The bytes between the client and the daemon.

Client to daemon: `RMT1`, version, agent, event class, cwd, then `NAME=value` for each forwarded variable, each ended
by a NUL; an empty field; the payload, up to the end of the stream. Daemon to client: `A` at once (or `V`: another
version, ask a fresh process); then the exit code (1 byte), the lengths of both streams (4 bytes each, big-endian),
standard output, standard error.
"""

from msgspec import Struct

from remit.adapters import HookReply
from remit.servers.hook import Frame, event_class

MAGIC = b"RMT1"
ACKNOWLEDGED = b"A"
OTHER_VERSION = b"V"
HEAD_LIMIT = 64 * 1024


class FrameError(ValueError):
    """The bytes are no frame."""


class Request(Struct, frozen=True):
    """One call, unpacked."""

    version: str
    frame: Frame
    variables: dict[str, str]
    payload: bytes


def unpack(data: bytes) -> Request:
    """The request in `data`. Raises FrameError."""
    end = data.find(b"\0\0", 0, HEAD_LIMIT)
    fields = data[:end].split(b"\0")
    if end < 0 or len(fields) < 5 or fields[0] != MAGIC:
        raise FrameError("no frame of a Remit client")
    version, agent, kind, cwd, *rest = (field.decode("utf-8", "surrogateescape") for field in fields[1:])
    variables = {name: value for name, _, value in (pair.partition("=") for pair in rest)}
    return Request(version, Frame(agent, cwd, event_class(kind)), variables, data[end + 2 :])


def pack(reply: HookReply) -> bytes:
    """An answer as the client reads it."""
    lengths = len(reply.stdout).to_bytes(4, "big") + len(reply.stderr).to_bytes(4, "big")
    return bytes([reply.exit_code]) + lengths + reply.stdout + reply.stderr
