"""The console's process may end at any moment: port, pairing and waiting questions outlast it. It decides nothing."""

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from console.console_world import Browser, serving
from console.remote_world import give_port
from console.test_console import body_for
from forked_commands import run_command, start_ready
from gate.driving import Agent, governed, machine
from processes import kill_daemons
from remit.adapters import HookReply
from remit.console.keeper import (
    SIGNED_S,
    SILENCE_S,
    WATCHER,
    ConsoleKeeper,
)
from remit.console.line import Ends, PairClaim, Pong, UnpairClaim, WriteClaim
from remit.console.server import ConsoleServer
from remit.console.status import ConsoleStatus, read_console_status
from remit.core.clock import Clock
from remit.gate.gate import Gate
from remit.servers.daemon import CONSOLE_AGENT
from remit.servers.daemon_client import ask_daemon, ask_started_daemon
from remit.workspace.place.workspace import register_repository, workspace_at
from remit.workspace.system_clock import SYSTEM_CLOCK
from stepped_clock import SteppedClock
from waiting import wait_until

QUESTIONS = 20
RETRY_S = 0.5  # as `retry:` tells pages


class Origin(NamedTuple):
    """The address of a console in another process, as a browser of the tests needs it."""

    origin: str


class Address(NamedTuple):
    guard: Origin
    port: int
    clock: Clock


def browse(link: str) -> Browser:
    """Return a browser that was paired by the link."""
    origin, _, secret = link.partition("/pair#")
    address = Address(Origin(origin), int(origin.rpartition(":")[2]), SYSTEM_CLOCK)
    found = Browser(cast("ConsoleServer", address))
    assert found.pair(secret).status == 200
    return found


@pytest.fixture
def root(repository: Path, home: Path) -> Path:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    Agent(repository, home).select()
    return repository


@pytest.fixture
def daemon(home: Path) -> Iterator["subprocess.Popen[bytes]"]:
    give_port(home)
    process = start_ready(["daemon"])
    yield process
    process.kill()
    process.wait()
    kill_daemons(home)


@pytest.fixture
def browser(root: Path, home: Path, daemon: "subprocess.Popen[bytes]") -> Browser:
    return browse(ask_started_daemon(home, version("remit"), CONSOLE_AGENT, "open", b"").stdout.decode().split()[0])


def status(home: Path) -> ConsoleStatus:
    found = read_console_status(home)
    assert found is not None
    return found


def find_console(home: Path) -> int:
    """Return the console's process, once it runs."""
    wait_until(lambda: status(home).is_running)
    process = status(home).process
    assert process is not None
    return process.pid


def test_a_console_that_is_killed_comes_back_with_its_port_and_its_browsers(
    root: Path, home: Path, browser: Browser
) -> None:
    assert browser.get("/index.json").status == 200
    first = find_console(home)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{first}").exists())
    assert browser.get("/index.json").status == 200  # it waits in line while nobody serves
    assert status(home).restarts == 1
    assert "signal 9" in status(home).last_end
    for words in (["status"], ["doctor", "--json"]):
        assert "started again 1 times" in run_command(words, root).stdout
    body = {"repository": "repo", "text": "a word"}
    assert browser.post("/settings/redaction", body).status == 200
    assert browser.post("/settings/redaction", body, proof="").status == 401


def test_a_console_that_says_nothing_is_ended_and_started_again(root: Path, home: Path) -> None:
    clock = SteppedClock()
    keeper = ConsoleKeeper(lambda: machine(home), clock, None)
    keeper.start()
    try:
        first = find_console(home)
        os.kill(first, signal.SIGSTOP)
        wait_until(lambda: clock.waits)
        clock.advance(SILENCE_S + 10)
        wait_until(lambda: status(home).restarts == 1)
        assert "without a sign" in status(home).last_end
        clock.wait_for_waiter()
        clock.advance(1)
        assert find_console(home) != first
    finally:
        keeper.stop()
    assert read_console_status(home) is None


def test_the_daemon_signs_for_a_page_until_its_console_is_back(root: Path, home: Path) -> None:
    clock = SteppedClock()
    keeper = ConsoleKeeper(lambda: machine(home), clock, None)
    try:
        gate = Gate.open(root)
        keeper.sign_while_away()
        assert not gate.questions.list_watchers()  # nobody could answer before
        keeper.away_since = clock.elapsed()
        keeper.sign_while_away()
        assert [each.watcher for each in gate.questions.list_watchers()] == [WATCHER]
        clock.advance(SIGNED_S + 1)
        keeper.sign_while_away()
        assert keeper.away_since is None
        keeper.away_since, keeper.last_pong = clock.elapsed(), Pong(is_in_use=True, can_answer=True)
        keeper.sign_while_away()
        assert keeper.away_since is None
        gate.close()
    finally:
        keeper.listeners.close()


def test_who_decides_takes_no_word_of_the_console_about_keys_or_names(root: Path, home: Path) -> None:
    with serving(home) as server:
        mine, other = Browser(server), Browser(server)
        assert (mine.pair().status, other.pair().status) == (200, 200)
        ends = Ends("127.0.0.1", 1, "127.0.0.1", server.port)
        proof = mine.proof("POST", "/x", b"")
        digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

        def ask(reader: str, said: str) -> int:
            return server.decider.decide(WriteClaim(ends, "POST", "/x", digest, said, reader, "admin", "REVIEW")).status

        assert ask(other.id, proof) == 401
        assert ask("nobody", proof) == 401
        assert ask(other.id, proof.replace(mine.id, other.id)) == 401
        # The proof is right here, and nobody can be seen behind port 1: no yes either. Its nonce is used up.
        assert ask(mine.id, proof) == 403
        assert ask(mine.id, proof) == 409
        assert server.decider.decide(PairClaim(ends, "secret", mine.public_key, "x")).status == 403
        assert server.decider.decide(UnpairClaim("nobody")).status == 404


# Whole stories


def hold_stream(browser: Browser, stop: threading.Event) -> None:
    """Follow the live stream as a page does: connect again, half a second later, when it ends."""
    while not stop.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", browser.server.port, timeout=90)
        try:
            connection.request("GET", "/live", headers={"Host": browser.host, "Cookie": f"remit_read={browser.cookie}"})
            response = connection.getresponse()
            while not stop.is_set():
                try:
                    if not response.readline():
                        break
                except TimeoutError:
                    break
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        stop.wait(RETRY_S)


def call(home: Path, root: Path, number: int) -> HookReply | None:
    document = {"hook_event_name": "PreToolUse", "session_id": "session-1", "cwd": str(root), "tool_name": "Write"}
    document |= {"tool_use_id": f"t{number}"}
    given = {"file_path": str(root / f"docs/{number}.md"), "content": "x\n"}
    payload = json.dumps({**document, "tool_input": given}).encode()
    return ask_daemon(home, version("remit"), "claude-code", str(root), payload, "pre", reply_s=240)


@pytest.fixture
def stream(browser: Browser, root: Path) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=hold_stream, args=(browser, stop))
    thread.start()
    gate = Gate.open(root)
    wait_until(gate.questions.is_watcher_present)
    gate.close()
    yield
    stop.set()
    thread.join()


def time_until(is_true: Callable[[], bool]) -> float:
    began = time.monotonic()
    wait_until(is_true)
    return time.monotonic() - began


@pytest.mark.live
def test_waiting_questions_outlast_the_console(root: Path, home: Path, browser: Browser, stream: None) -> None:
    replies: list[HookReply | None] = []

    def ask(number: int) -> None:
        replies.append(call(home, root, number))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(QUESTIONS)]
    for thread in threads:
        thread.start()
    gate = Gate.open(root)
    wait_until(lambda: len(gate.questions.list_open_questions()) == QUESTIONS)
    first = find_console(home)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{first}").exists())
    back_s = time_until(lambda: browser.get("/index.json").status == 200)
    print(f"page back after {back_s:.2f} s")
    assert status(home).restarts == 1
    assert len(gate.questions.list_open_questions()) == QUESTIONS
    for _ in range(QUESTIONS):
        card = browser.get("/approvals.json").data["card"]
        answered = browser.post(f"/approvals/{card['question']['id']}/answer", body_for(card))
        assert answered.status == 200, answered.text
    gate.close()
    for thread in threads:
        thread.join()
    assert len(replies) == QUESTIONS
    assert all(reply is not None and b'"permissionDecision":"deny"' not in reply.stdout for reply in replies)


@pytest.mark.live
def test_the_console_of_a_killed_daemon_comes_back_with_the_next_one(
    root: Path, home: Path, browser: Browser, daemon: "subprocess.Popen[bytes]"
) -> None:
    first = find_console(home)
    daemon.kill()
    daemon.wait()
    wait_until(lambda: not Path(f"/proc/{first}").exists(), "the console outlives its daemon")
    payload = json.dumps({"hook_event_name": "Stop", "session_id": "s1", "cwd": str(root)}).encode()
    assert ask_started_daemon(home, version("remit"), "claude-code", str(root), payload).exit_code == 0

    def is_served() -> bool:
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", browser.server.port)) == 0

    wait_until(is_served)
    assert browser.get("/index.json").status == 200
    assert ask_daemon(home, version("remit"), CONSOLE_AGENT, "stop", b"") is not None
    assert not is_served()
