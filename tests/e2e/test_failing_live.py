"""What real agents do when Remit's hook is missing, dies, or reaches nobody: refused in enforce, and only there.

Each is wired by `init`. A client is broken before the agent starts, so that every event meets it; a daemon is put out
of action by the model's own turn, between the agent's start and its call.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.npm import Result
from e2e.test_four_agents import AGENTS, remit, wire_up
from remit.core.agents import ROWS
from remit.core.agents.row import RowEvent
from remit.rehearsal.scripted_model import ModelRequest, Say, ScriptedModel, Use
from remit.wiring.hook_client import CLIENT_SETTINGS, client_path

pytestmark = pytest.mark.live

LINES = "x = 1\n"
PATIENCE_S = 60.0


def door(home: Path) -> Path:
    return home / ".local/state/remit/daemon.sock"


def listener(home: Path) -> int | None:
    """The process that listens for this home; None where none does."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE_S)
        if line.connect_ex(str(door(home))) != 0:
            return None
        return struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[0]


def daemon(home: Path) -> int:
    """The daemon that the agent's first hook started, once it listens."""
    until = time.monotonic() + PATIENCE_S
    while (found := listener(home)) is None:
        assert time.monotonic() < until, "the agent's hooks started no daemon"
        time.sleep(0.02)
    return found


# --- ways to fail ------------------------------------------------------------------------------------------


def missing(home: Path) -> None:
    client_path(home).unlink()


def put_program(path: Path, line: str) -> None:
    fresh = path.with_name("fresh")
    fresh.write_text(f"#!/bin/sh\n{line}\n")
    fresh.chmod(0o755)
    fresh.replace(path)


def dies_by_signal(home: Path) -> None:
    put_program(client_path(home), "kill -SEGV $$")


def configure(home: Path, interpreter: Path) -> None:
    """Another interpreter for the fresh process, and no daemon."""
    with suppress(FileNotFoundError):
        door(home).unlink()
    file = client_path(home).with_name(CLIENT_SETTINGS)
    said, _, *rest = file.read_text().split("\n")
    file.write_text("\n".join([said, str(interpreter), *rest]))


def reaches_nobody(home: Path) -> None:
    configure(home, home / "no-python-here")


def fresh_process_breaks(home: Path) -> None:
    broken = home / "broken-python"
    put_program(broken, "echo 'Traceback: no module named remit' >&2; exit 1")
    configure(home, broken)


def daemon_killed(home: Path) -> None:
    os.kill(daemon(home), signal.SIGKILL)


def daemon_stopped(home: Path) -> None:
    os.kill(daemon(home), signal.SIGSTOP)


def daemon_slow(home: Path) -> None:
    """Somebody else at the door, who takes calls and never says a word."""
    os.kill(daemon(home), signal.SIGKILL)
    door(home).unlink()
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(door(home)))
    silent.listen(64)
    SILENT.append(silent)


SILENT: list[socket.socket] = []
"""Held open: a door that nobody holds refuses, and would be no slow one."""

BROKEN_CLIENTS: dict[str, Callable[[Path], None]] = {
    "missing": missing,
    "SIGSEGV": dies_by_signal,
    "reaches nobody": reaches_nobody,
    "fresh process breaks": fresh_process_breaks,
}
LOST_DAEMONS: dict[str, Callable[[Path], None]] = {
    "killed": daemon_killed,
    "slow": daemon_slow,
    "stopped": daemon_stopped,
}


# --- the agents --------------------------------------------------------------------------------------------


@pytest.fixture(params=sorted(AGENTS))
def name(request: pytest.FixtureRequest) -> str:
    request.getfixturevalue(AGENTS[request.param].fixture)
    return request.param


@pytest.fixture(autouse=True)
def no_door_stays_silent() -> Generator[None]:
    yield
    while SILENT:
        SILENT.pop().close()


def run(name: str, folder: Path, home: Path, *steps: Any) -> tuple[Result, list[str], int]:
    """The agent with this script; how it ended, what the model was told of its calls, how often it was asked."""
    agent = AGENTS[name]
    with agent.wire(ScriptedModel([*steps, Say("all done")])).serve() as wire:
        done = agent.run(folder, home, wire.url, "do the work")
        return done, wire.tool_result_texts(), sum(bool(asked.tools) for asked in wire.requests)


def assert_refused(targets: list[Path], why: str, done: Result, told: list[str], turns: int) -> None:
    assert [path for path in targets if path.exists()] == [], told
    assert [why in text for text in told] == [True] * len(targets), told
    assert done.returncode == 0, done
    assert "all done" in done.stdout, done
    assert turns == len(targets) + 1, "the prompt went through, and the turn ended once: no other event was failed"


@pytest.mark.parametrize("failing", ["missing", "SIGSEGV", "reaches nobody"])
def test_a_broken_client_refuses_the_call_and_no_other_event(
    failing: str, name: str, repository: Path, home: Path
) -> None:
    wire_up(repository, name)
    BROKEN_CLIENTS[failing](home)
    target = repository / "src" / "new.py"
    ended = run(name, repository, home, AGENTS[name].write(target, LINES))
    assert_refused([target], "the hook client did not answer", *ended)


def test_a_daemon_lost_before_the_call_is_done_without(name: str, repository: Path, home: Path) -> None:
    """Killed, slow, stopped: each is the daemon that the calls before started."""
    wire_up(repository, name)
    targets = [repository / "src" / f"{failing}.py" for failing in LOST_DAEMONS]

    def lost(failing: str) -> Callable[[ModelRequest], Use]:
        def step(seen: ModelRequest) -> Use:
            LOST_DAEMONS[failing](home)
            return AGENTS[name].write(repository / "src" / f"{failing}.py", LINES)

        return step

    ended = run(name, repository, home, *map(lost, LOST_DAEMONS))
    assert_refused(targets, "MISSING_OR_INVALID_INTENT", *ended)
    assert "the chain is whole" in remit(repository, "ledger", "verify")


@pytest.mark.parametrize("place", ["ungoverned", "observing"])
def test_nothing_is_blocked_where_remit_does_not_enforce(place: str, name: str, repository: Path, home: Path) -> None:
    wire_up(repository, name)
    remit(repository, "mode", "observe")
    folder = repository if place == "observing" else elsewhere(repository)
    targets = {failing: folder / f"{number}.txt" for number, failing in enumerate(BROKEN_CLIENTS)}
    whole = Client(home)

    def broken(failing: str) -> Callable[[ModelRequest], Use]:
        def step(seen: ModelRequest) -> Use:
            whole.restore()
            BROKEN_CLIENTS[failing](home)
            return AGENTS[name].write(targets[failing], LINES)

        return step

    done, told, _ = run(name, folder, home, *map(broken, BROKEN_CLIENTS))
    assert {failing: path.exists() for failing, path in targets.items()} == dict.fromkeys(targets, True), told
    assert done.returncode == 0, done


def commands(home: Path, agent: str) -> list[tuple[RowEvent, str]]:
    """What `init` put into this agent's settings, with the event that each command is for."""
    row = ROWS[agent]
    held: dict[str, Any] = json.loads((home / row.hooks_file).read_bytes())["hooks"]
    return [(row.events[event], group["hooks"][0]["command"]) for event, groups in held.items() for group in groups]


@pytest.mark.parametrize("agent", ROWS)
def test_a_broken_client_fails_no_event_but_the_one_before_a_call(agent: str, repository: Path, home: Path) -> None:
    wire_up(repository, agent)
    wired = commands(home, agent)
    assert {event for event, _ in wired} >= {"before", "after", "session_start", "prompt", "turn_end", "session_end"}
    whole = Client(home)
    for failing, broken in BROKEN_CLIENTS.items():
        whole.restore()
        broken(home)
        codes = {(event, exit_code(line, repository)) for event, line in wired}
        assert codes == {(event, 2 if event == "before" else 0) for event, _ in wired}, failing


class Client:
    """The client and its settings as `init` put them, to be broken again and again."""

    def __init__(self, home: Path) -> None:
        path = client_path(home)
        self.files = {
            path: path.read_bytes(),
            path.with_name(CLIENT_SETTINGS): path.with_name(CLIENT_SETTINGS).read_bytes(),
        }

    def restore(self) -> None:
        for path, content in self.files.items():
            fresh = path.with_name("fresh")
            fresh.write_bytes(content)
            fresh.chmod(0o755)
            fresh.replace(path)


def exit_code(line: str, folder: Path) -> int:
    done = subprocess.run(["sh", "-c", line], cwd=folder, input=b"{}", capture_output=True, timeout=60, check=False)
    return done.returncode


def elsewhere(repository: Path) -> Path:
    """A repository beside that one, of which Remit knows nothing."""
    folder = repository.with_name("elsewhere")
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder
