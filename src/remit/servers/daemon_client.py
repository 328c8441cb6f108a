"""Questions of Remit's own commands to the daemon of this user."""

import os
import select
import socket
import time
from pathlib import Path

from remit.adapters import HookReply
from remit.servers.daemon import ACKNOWLEDGEMENT, MAGIC, make_address, socket_path, start_daemon

START_TIMEOUT_S = 30.0
REPLY_TIMEOUT_S = 30.0
RETRY_INTERVAL_S = 0.02


class DaemonAway(OSError):
    """No daemon of this version answers."""

    def __init__(self) -> None:
        super().__init__("the daemon does not answer: see daemon.log in ~/.local/state/remit")


def connect(line: socket.socket, home: Path) -> None:
    """Connect to the daemon of this user. Raises OSError."""
    with make_address(socket_path(home)) as address:
        line.connect(address)


def ask_daemon(
    home: Path,
    version: str,
    agent: str,
    folder: str,
    payload: bytes,
    event_class: str = "note",
    reply_s: float = REPLY_TIMEOUT_S,
) -> HookReply | None:
    """Return the daemon's reply to a frame; None if no daemon of the same version listens."""
    variables = [f"TMPDIR={value}".encode() for value in [os.environ.get("TMPDIR", "")] if value]
    head = b"\0".join([MAGIC, version.encode(), agent.encode(), event_class.encode(), os.fsencode(folder), *variables])
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(reply_s)
            connect(line, home)
            line.sendall(head + b"\0\0" + payload)
            line.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: line.recv(1 << 16), b""))
    except OSError:
        return None
    if reply[:1] != ACKNOWLEDGEMENT or len(reply) < 10:
        return None
    out = int.from_bytes(reply[2:6], "big")
    return HookReply(stdout=reply[10 : 10 + out], stderr=reply[10 + out :], exit_code=reply[1])


def ask_started_daemon(home: Path, version: str, agent: str, folder: str, payload: bytes) -> HookReply:
    """Return the daemon's reply; start a daemon if no daemon of the same version listens. Raises DaemonAway."""
    until = time.monotonic() + START_TIMEOUT_S
    while (reply := ask_daemon(home, version, agent, folder, payload)) is None:
        if time.monotonic() >= until:
            raise DaemonAway
        # One that starts while the daemon before is about to leave, leaves as well.
        if not wait_for_daemon(start_daemon(home, folder), until - time.monotonic()):
            time.sleep(RETRY_INTERVAL_S)
    return reply


def wait_for_daemon(descriptor: int, seconds: float) -> bool:
    """Return whether the started daemon listens; False once it has ended, or after this time."""
    with open(descriptor, "rb", buffering=0) as line:
        return bool(select.select([line], [], [], max(0.0, seconds))[0] and line.read(1))
