"""The door of an attempt, by itself: what it needs of its worker's process, and what it keeps from the daemon."""

import os
import resource
import socket
import stat
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from traceback import walk_stack

import pytest

from remit.servers.daemon import socket_path, unpack_request
from remit.workspace.place.workspace import locate_workspace
from remit_fleet.workers.agent import AttemptPlaces
from remit_fleet.workers.attempt_door import (
    MAX_CONNECTIONS,
    AttemptDoor,
    DaemonStarter,
    DoorTerms,
    bind_door,
    bind_request,
)
from waiting import wait_until


@pytest.fixture
def terms(repository: Path, home: Path) -> DoorTerms:
    tree = locate_workspace(repository)
    assert tree is not None
    places = AttemptPlaces(tree, tree, home / "tmp", home / "state", "remit/INT-001/1")
    return DoorTerms(places, "INT-001", home, {})


def test_doors_that_open_at_once_leave_the_umask_of_the_worker_alone(tmp_path: Path) -> None:
    own = os.umask(0o022)
    seen: set[int] = set()

    def bind(number: int, together: threading.Barrier) -> None:
        together.wait()
        with closing(socket.socket(socket.AF_UNIX)) as listener:
            bind_door(listener, tmp_path / f"{number}.sock")

    try:
        for _ in range(300):
            together = threading.Barrier(4)
            threads = [threading.Thread(target=bind, args=(number, together)) for number in range(3)]
            for thread in threads:
                thread.start()
            together.wait()
            for thread in threads:
                thread.join()
            seen.add(os.umask(0o022))
    finally:
        os.umask(own)
    assert seen == {0o022}
    assert {stat.S_IMODE((tmp_path / f"{number}.sock").stat().st_mode) for number in range(3)} == {0o600}


def test_no_version_that_an_agent_claims_reaches_the_daemon(terms: DoorTerms) -> None:
    request = unpack_request(b"RMT1\x000.0.0\0claude-code\0pre\0/\0\0{}")
    assert unpack_request(bind_request(request, terms, 1)).version == version("remit")


def test_an_agent_that_opens_many_connections_takes_no_more_of_its_worker(terms: DoorTerms) -> None:
    wait_until(lambda: count_threads("serve_connection") + count_threads("accept_connections") == 0)  # of other tests
    with AttemptDoor(terms, DaemonStarter(terms.home), print).open():
        with ExitStack() as stack:
            for _ in range(MAX_CONNECTIONS + 8):
                stack.enter_context(closing(connect(terms)))
            wait_until(lambda: count_threads("serve_connection") >= MAX_CONNECTIONS)
            wait_until(lambda: "acquire" in list_calls("accept_connections"))  # nothing is accepted until one ends
            assert count_threads("serve_connection") == MAX_CONNECTIONS
        assert b"may ask for" in ask_console(connect(terms))
    wait_until(lambda: count_threads("serve_connection") == 0)


def test_a_worker_without_descriptors_opens_its_door_again_later(terms: DoorTerms) -> None:
    wait_until(lambda: count_threads("accept_connections") == 0)  # of other tests
    with AttemptDoor(terms, DaemonStarter(terms.home), print).open(), closing(socket.socket(socket.AF_UNIX)) as line:
        with no_descriptor_left():
            line.connect(str(terms.places.state / socket_path(terms.home).name))
            wait_until(lambda: "wait" in list_calls("accept_connections"))  # it pauses: accept failed
        assert b"may ask for" in ask_console(line)


@contextmanager
def no_descriptor_left() -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(terms: DoorTerms) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(120)
    line.connect(str(terms.places.state / socket_path(terms.home).name))
    return line


def ask_console(line: socket.socket) -> bytes:
    with line:
        line.settimeout(120)
        line.sendall(b"RMT1\0x\0console\0note\0open\0\0")
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(4096), b""))


def count_threads(name: str) -> int:
    return sum(f"({name})" in thread.name for thread in threading.enumerate())


def list_calls(name: str) -> list[str]:
    """The Python functions in which the thread of this name is now, the innermost first."""
    frames = sys._current_frames()
    (number,) = [thread.ident for thread in threading.enumerate() if f"({name})" in thread.name]
    return [frame.f_code.co_name for frame, _ in walk_stack(frames[number or 0])]
