"""A client that is killed while a person thinks: its question is closed, and the answer can still serve."""

import socket
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from gate.driving import governed, machine
from remit.gate.gate import Gate
from remit.gate.people.questions import CLIENT_GONE, ApprovalReply, Question
from remit.servers.daemon import has_hung_up
from stepped_clock import SteppedClock
from waiting import WAIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: told apart on Linux alone")


def test_a_client_that_is_done_sending_is_there_until_it_closes() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"x")
        assert not has_hung_up(ours)
        theirs.shutdown(socket.SHUT_WR)
        assert not has_hung_up(ours)
        theirs.close()
        assert has_hung_up(ours)


def test_who_waits_for_a_client_stops_when_it_is_gone(repository: Path, home: Path) -> None:
    clock = SteppedClock()
    gate = Gate.open(governed(repository), machine(home, clock))
    ours, theirs = socket.socketpair()
    now = clock.now()
    question = Question("q", "s", "a", None, "SCOPE_VIOLATION", "x", "m", asked_at=now, expires_at=now + 600)
    found: list[ApprovalReply | None] = []
    looks: list[bool] = []
    shown: list[Question] = []

    def is_gone() -> bool:
        looks.append(has_hung_up(ours))
        return looks[-1]

    def wait() -> None:
        CLIENT_GONE.set(is_gone)
        waiting = Gate.open(repository, machine(home, clock)).questions
        waiting.listener = shown.append  # somebody is there, however long it takes
        found.append(waiting.wait_for_reply(question, nullcontext))

    gate.questions.put_question(question, "digest")
    thread = threading.Thread(target=wait)
    thread.start()
    clock.wait_for_waiter()
    clock.advance(60)
    assert (looks[-1], found) == (False, [])
    theirs.close()
    clock.advance(1)
    thread.join(WAIT_S)
    ours.close()
    assert found == [None]
    assert [a.status for a in gate.questions.list_unanswered()] == ["expired"]
    gate.questions.answer_question("q", ApprovalReply(True))
    assert gate.questions.take_late_approval("digest") is not None
