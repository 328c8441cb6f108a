"""Very many connections to the hook socket neither end the daemon nor keep it from judging."""

import json
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import pytest

from forked_commands import start_ready
from gate.driving import governed
from processes import kill_daemons
from remit.adapters import HookReply
from remit.servers.call_slots import MAX_CALLS, MAX_CALLS_OF_CALLER, RESERVED_FOR_PRE, CallSlots
from remit.servers.daemon import make_address, socket_path
from remit.servers.daemon_client import ask_daemon
from waiting import wait_until

DESCRIPTORS = 40


@pytest.fixture
def daemon(home: Path) -> Iterator["subprocess.Popen[bytes]"]:
    process = start_ready(["daemon"])
    yield process
    process.kill()
    process.wait()
    kill_daemons(home)


def connect(home: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with make_address(socket_path(home)) as address:
        line.connect(address)
    return line


def ask(home: Path, repository: Path) -> HookReply | None:
    document = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(repository), "tool_name": "Read"}
    payload = json.dumps(document | {"tool_use_id": "t1", "tool_input": {"file_path": "x"}}).encode()
    return ask_daemon(home, version("remit"), "claude-code", str(repository), payload, "pre")


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process is set on Linux only")
def test_a_daemon_without_descriptors_left_stays_and_answers_the_next_call(
    repository: Path, home: Path, daemon: "subprocess.Popen[bytes]"
) -> None:
    governed(repository)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    with ExitStack() as held:
        for _ in range(3 * DESCRIPTORS):
            held.enter_context(connect(home))
        # The daemon has taken or dropped them all once this one is at its end.
        last = held.enter_context(connect(home))
        last.settimeout(60)
        assert last.recv(1) == b""
    wait_until(lambda: ask(home, repository), "the daemon answers nobody")
    assert daemon.poll() is None


@pytest.mark.live
def test_thousands_of_silent_connections_keep_no_call_from_the_daemon(
    repository: Path, home: Path, daemon: "subprocess.Popen[bytes]"
) -> None:
    governed(repository)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most[1], 8192), most[1]))
    try:
        with ExitStack() as held:
            for _ in range(2000):
                held.enter_context(connect(home))
            wait_until(lambda: ask(home, repository))  # the line before the socket has to move on first
            assert all(ask(home, repository) is not None for _ in range(20))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    assert daemon.poll() is None


class Lines:
    """Connections whose callers a test names."""

    def __init__(self) -> None:
        self.slots = CallSlots(lambda pid: pid)
        self.ours, self.others = list[socket.socket](), list[socket.socket]()

    def connect(self, caller: int) -> tuple[socket.socket, bool]:
        ours, theirs = socket.socketpair()
        self.ours.append(ours)
        self.others.append(theirs)
        return ours, self.slots.take(ours, caller)

    def is_dropped(self, number: int) -> bool:
        self.others[number].setblocking(False)
        try:
            return self.others[number].recv(1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        for line in (*self.others, *self.ours):
            line.close()


@pytest.fixture
def lines() -> Iterator[Lines]:
    found = Lines()
    yield found
    found.close()


def test_a_caller_that_sends_nothing_loses_its_oldest_connections(lines: Lines) -> None:
    for _ in range(MAX_CALLS_OF_CALLER + 2):
        assert lines.connect(caller=1)[1]
    assert [number for number in range(MAX_CALLS_OF_CALLER + 2) if lines.is_dropped(number)] == [0, 1]
    assert lines.connect(caller=2)[1]


def test_a_caller_has_no_more_calls_under_way_than_its_share(lines: Lines) -> None:
    for _ in range(MAX_CALLS_OF_CALLER):
        line, taken = lines.connect(caller=1)
        assert taken
        assert lines.slots.admit(line, "pre")
    assert not lines.connect(caller=1)[1]
    line, _ = lines.connect(caller=2)
    assert lines.slots.admit(line, "pre")


def test_the_last_slots_are_for_calls_that_can_still_be_refused(lines: Lines) -> None:
    for number in range(MAX_CALLS - RESERVED_FOR_PRE):
        line, _ = lines.connect(caller=number)
        assert lines.slots.admit(line, "note")
    line, taken = lines.connect(caller=-1)
    assert taken
    assert not lines.slots.admit(line, "post")
    lines.slots.release(line)
    for number in range(RESERVED_FOR_PRE):
        line, _ = lines.connect(caller=-2 - number)
        assert lines.slots.admit(line, "pre")
    assert not lines.connect(caller=-100)[1]
