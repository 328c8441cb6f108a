"""How long either client waits for a daemon that does not do its part, and whom it asks then."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from remit.servers.daemon import has_hung_up
from waiting import WAIT_S, wait_until

PATIENCE_S = WAIT_S
"""How long these tests wait for a client. It may wait ten times as long for an answer: one that waits for what never
comes has failed.
"""

Door = Callable[[socket.socket], None]


def fill(listener: socket.socket) -> list[socket.socket]:
    """Knock until the queue is full, as many calls to a stopped daemon do."""
    listener.listen(1)
    held: list[socket.socket] = []
    while True:
        line = socket.socket(socket.AF_UNIX)
        line.setblocking(False)
        held.append(line)
        if line.connect_ex(listener.getsockname()):
            return held


def knock(client: list[str], payload: bytes = b"{}") -> bytes:
    """What the client gave out."""
    words = [*client, "claude-code", "pre"]
    return subprocess.run(words, input=payload, capture_output=True, timeout=PATIENCE_S, check=True).stdout


@pytest.mark.parametrize("payload", [b"{}", b"x" * 4_000_000], ids=["small", "large"])
def test_a_daemon_that_never_acknowledges_is_waited_for_once(
    client: list[str], door: socket.socket, payload: bytes
) -> None:
    door.listen(8)
    assert knock(client, payload) == b"fresh"
    assert not Path(door.getsockname()).exists(), "the second call does not wait"
    assert knock(client, payload) == b"fresh"


def test_a_queue_that_is_full_holds_nobody_up(client: list[str], door: socket.socket) -> None:
    held = fill(door)
    assert knock(client) == b"fresh"
    for line in held:
        line.close()


def begun(line: socket.socket) -> None:
    line.sendall(b"A\0\0\0\0\x09\0\0\0\0half")
    wait_until(lambda: has_hung_up(line))


def another_version(line: socket.socket) -> None:
    line.sendall(b"V")


def junk(line: socket.socket) -> None:
    line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def lengths_that_lie(line: socket.socket) -> None:
    line.sendall(b"A\0\xff\xff\xff\xff\xff\xff\xff\xffx")


def hangs_up(line: socket.socket) -> None:
    line.sendall(b"A")


@pytest.mark.parametrize("does", [begun, another_version, junk, lengths_that_lie, hangs_up])
def test_an_answer_that_is_not_whole_is_none(client: list[str], door: socket.socket, does: Door) -> None:
    door.listen(1)

    def attend() -> None:
        line, _ = door.accept()
        with line:
            while line.recv(1 << 16):
                pass
            does(line)

    Thread(target=attend, daemon=True).start()
    assert knock(client) == b"fresh"
    assert Path(door.getsockname()).exists(), "it took the call: it keeps its door"


def test_a_fresh_process_that_takes_too_long_is_ended_before_its_agent_gives_up() -> None:
    program = "import sys; from remit.cli import hook; hook.LATEST_S = 1; sys.exit(hook.main(['claude-code', 'pre']))"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as waiting:  # for a payload
        assert waiting.wait(PATIENCE_S) == -signal.SIGALRM
