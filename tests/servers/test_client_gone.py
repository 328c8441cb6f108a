"""A client that is killed while a person thinks: its question is closed, and the answer can still serve."""

import socket
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from gate.driving import governed, machine
from remit.gate.approvals import Question, Reply
from remit.gate.asker import GONE
from remit.gate.gate import Gate
from remit.servers.daemon import hung_up

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: told apart on Linux alone")


def test_a_client_that_is_done_sending_is_there_until_it_closes() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"x")
        assert not hung_up(ours)
        theirs.shutdown(socket.SHUT_WR)
        assert not hung_up(ours)
        theirs.close()
        assert hung_up(ours)


def test_who_waits_for_a_client_stops_when_it_is_gone(repository: Path, home: Path) -> None:
    gate = Gate.open(governed(repository), machine(home))
    ours, theirs = socket.socketpair()
    now = time.time()
    question = Question("q", "s", "a", None, "SCOPE_VIOLATION", "x", "m", asked_at=now, expires_at=now + 60)
    found: list[Reply | None] = []

    def wait() -> None:
        GONE.set(lambda: hung_up(ours))
        found.append(Gate.open(repository, machine(home)).approvals.wait(question, nullcontext))

    gate.approvals.watch()
    gate.approvals.ask(question, "digest")
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    assert found == []
    theirs.close()
    thread.join(10)
    ours.close()
    assert found == [None]
    assert [a.status for a in gate.approvals.asked()] == ["expired"]
    gate.approvals.answer("q", Reply(True))
    assert gate.approvals.take_late_yes("digest") is not None
