"""What a daemon does in its quiet times, and when it leaves: its clock is moved here."""

import gc
import json
import math
import socket
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from gate.driving import body, governed, records
from remit.console.control import ConsoleControl
from remit.gate.gate import Gate
from remit.servers.daemon import FOLD_AFTER_S, LOOK_INTERVAL_S, SWEEP_INTERVAL_S, Daemon, HookRequest, socket_path
from remit.servers.hook import EventClass, HookFrame
from stepped_clock import SteppedClock
from waiting import WAIT_S, wait_until

HALF_AN_HOUR_S = 30 * 60.0  # `session.idle_minutes`, as it is where nobody says otherwise


class Stepped:
    """A daemon without a socket, whose calls are made in this thread."""

    def __init__(self, repository: Path, home: Path) -> None:
        self.root, self.home = governed(repository, "observe"), home
        self.clock = SteppedClock()
        self.daemon = Daemon(home, version("remit"), ConsoleControl(home), clock=self.clock)
        self.daemon.answers.not_before = math.inf  # no process prepares blame

    def call(self, kind: EventClass, event: str, **fields: object) -> None:
        document = {"hook_event_name": event, "session_id": "s1", "cwd": str(self.root), "tool_use_id": "t1", **fields}
        frame = HookFrame("claude-code", str(self.root), kind)
        self.daemon.count_call(1)
        request = HookRequest(version("remit"), frame, {"HOME": str(self.home)}, json.dumps(document).encode())
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert self.daemon.answer_request(request, ours).exit_code == 0
        self.daemon.count_call(-1)

    def write(self, path: str, content: str) -> None:
        """Write a file and say so."""
        given = {"file_path": str(self.root / path), "content": content}
        self.call("pre", "PreToolUse", tool_name="Write", tool_input=given)
        (self.root / path).write_text(content)
        self.call("post", "PostToolUse", tool_name="Write", tool_input=given, tool_response={})

    def step_for(self, seconds: float) -> None:
        """Take every step that comes within so many seconds."""
        end = self.clock.elapsed() + seconds
        while self.clock.elapsed() < end:
            pause = self.daemon.step()
            assert 0 < pause <= LOOK_INTERVAL_S
            self.clock.advance(pause)
        self.daemon.step()


@pytest.fixture
def stepped(repository: Path, home: Path) -> Iterator[Stepped]:
    found = Stepped(repository, home)
    yield found
    for watcher in found.daemon.watches.watchers.values():
        watcher.close()


def test_a_call_that_never_came_back_is_settled_by_time_alone(stepped: Stepped) -> None:
    given = {"file_path": str(stepped.root / "src/new.py"), "content": "x\n"}
    stepped.call("pre", "PreToolUse", tool_name="Write", tool_input=given)
    (stepped.root / "src/new.py").write_text("x\n")
    stepped.step_for(SWEEP_INTERVAL_S)
    assert records(stepped.root, "tool_result") == []
    stepped.clock.advance(HALF_AN_HOUR_S)
    stepped.daemon.step()
    assert [body(record)["result"]["missing"] for record in records(stepped.root, "tool_result")] == [True]
    assert [file["path"] for record in records(stepped.root, "mutation") for file in body(record)["files"]] == [
        "src/new.py"
    ]


def test_contents_are_folded_once_it_is_quiet_and_not_before(stepped: Stepped) -> None:
    def count_waiting() -> int:
        return len(Gate.open(stepped.root).contents.pending.list_entries())

    stepped.step_for(LOOK_INTERVAL_S)
    stepped.write("src/new.py", "x = 1\n")
    assert count_waiting()
    stepped.step_for(FOLD_AFTER_S)
    assert count_waiting()
    stepped.step_for(LOOK_INTERVAL_S)
    assert not count_waiting()


def test_what_could_not_be_folded_is_tried_again_with_the_next_sweep(
    stepped: Stepped, capsys: pytest.CaptureFixture[str]
) -> None:
    stepped.write("src/new.py", "x = 1\n")
    store = Gate.open(stepped.root).workspace.state / "objects.git"
    store.write_bytes(b"")  # git can write nothing there
    stepped.step_for(FOLD_AFTER_S + LOOK_INTERVAL_S)
    assert "contents were left for later" in capsys.readouterr().err
    store.unlink()
    stepped.step_for(SWEEP_INTERVAL_S)
    assert Gate.open(stepped.root).contents.pending.list_entries() == []


def test_a_daemon_leaves_once_nobody_has_called_for_long_and_not_before(home: Path) -> None:
    clock = SteppedClock()
    daemon = Daemon(home, version("remit"), ConsoleControl(home), idle_s=30, clock=clock)
    ended: list[int] = []
    thresholds = gc.get_threshold()
    serving = threading.Thread(target=lambda: ended.append(daemon.serve()))
    serving.start()
    wait_until(socket_path(home).exists)
    clock.wait_for_waiter()
    clock.advance(29)
    daemon.count_call(1)  # a call that lasts, and goes on to be waited for
    clock.advance(60)
    assert ended == []
    daemon.count_call(-1)
    clock.advance(29)
    assert ended == []
    clock.advance(2)
    serving.join(WAIT_S)
    gc.set_threshold(*thresholds)
    assert ended == [0]
    assert not socket_path(home).exists()
