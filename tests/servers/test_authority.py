"""The door tells a person from everything below an agent, in whatever form it asks."""

import os
import pty
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import json
from msgspec.structs import replace

from redteam.identity_forms import FORMS
from remit.console.control import ConsoleControl
from remit.core.acts import Act
from remit.servers.authority import Authority, Judgement, PeerGrade, Ruling, find_command_of_daemon
from remit.servers.daemon import (
    ATTEMPT_VARIABLE,
    CONSOLE_AGENT,
    HOOK_PID_VARIABLE,
    PERSON_AGENT,
    Daemon,
    HookRequest,
)
from remit.servers.hook import HookFrame
from remit.servers.pin import PinKeeper
from remit.workspace.processes.peer_identity import ClientConnection
from remit.workspace.processes.process_tracking import Incomplete, ProcessInfo, list_ancestors
from remit.workspace.sandbox.jail import find_bubblewrap
from remit_fleet.workers.attempt_door import find_kind
from servers import asking
from waiting import WAIT_S, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

PROGRAMS = {
    "script": "script",
    "orphaned script": "script",
    "tmux": "tmux",
    "own namespace": "unshare",
    **dict.fromkeys(("jail", "nested jail", "jailed orphan"), "bwrap"),
}
CONNECT_AND_LEAVE = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
CLAUDE = """
import os, runpy, sys
os.read(int(sys.argv[1]), 1)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Door:
    """A unix socket and a port behind which the authority rules."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.authority = Authority(home)
        self.path = folder / "door"
        self.line = socket.socket(socket.AF_UNIX)
        self.line.bind(str(self.path))
        self.line.listen(8)
        self.web = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.web.getsockname()[1])
        self.rulings: list[Ruling] = []

    def answer_one(self) -> list[Ruling]:
        """Return the rulings for one client, at the socket and at the port."""
        found: list[Ruling] = []
        for listener in (self.line, self.web):
            listener.settimeout(WAIT_S)
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                if listener is self.line:
                    ruling = self.authority.rule_connection(Act.LOWER_MODE, connection, None, lambda: "")
                else:
                    ends = (*connection.getpeername(), *connection.getsockname())
                    ruling = self.authority.rule_web(Act.ANSWER, None, ClientConnection(*ends))
                found.append(ruling)
        return found

    def close(self) -> None:
        self.line.close()
        self.web.close()


@pytest.fixture
def door(home: Path, tmp_path: Path) -> Generator[Door]:
    found = Door(home, tmp_path)
    yield found
    found.close()


@contextmanager
def working_agent(door: Door, folder: Path, *, keeps: bool = True) -> Generator[None]:
    """Run an agent beside, whose hooks were called."""
    claude = folder / "claude"
    claude.write_text("import sys; sys.stdin.read()")
    words = [sys.executable, str(claude)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        if keeps:
            keep(door, process.pid)
        yield
        process.communicate()


def keep(door: Door, pid: int) -> None:
    """Keep the agent of a process, as its hooks do."""
    wait_until(lambda: door.authority.roots.find_new(pid), "the agent's name is not seen")
    found = door.authority.roots.find_new(pid)
    assert found is not None
    door.authority.roots.keep(*found, "session-1")


def ask_below_agent(door: Door, folder: Path, form: str, depth: int) -> list[Ruling]:
    """Return the rulings for a form of asking below a program called claude."""
    program = (find_bubblewrap() if PROGRAMS.get(form) == "bwrap" else None) or shutil.which(
        PROGRAMS.get(form, sys.executable)
    )
    if program is None:
        pytest.skip(f"no {PROGRAMS[form]} here")
    claude = folder / "below" / "claude"
    claude.parent.mkdir(exist_ok=True)
    claude.write_text(CLAUDE)
    gate, opened = os.pipe()
    with socket.create_connection(("127.0.0.1", door.port)) as browser:
        own, _ = door.web.accept()
        more = [str(browser.getsockname()[1])] if form == "twin" else []
        asks = [asking.HERE, str(depth), form, str(door.path), str(door.port), program, *more]
        with subprocess.Popen([sys.executable, str(claude), str(gate), *asks], pass_fds=[gate]) as process:
            keep(door, process.pid)
            os.write(opened, b"x")
            found = door.answer_one()
        own.close()
    for descriptor in (gate, opened):
        os.close(descriptor)
    return found


@pytest.mark.parametrize(("form", "depth"), [("plain", 0), ("orphaned script", 0), ("twin", 0), ("shared", 3)])
def test_nothing_below_an_agent_loosens(door: Door, tmp_path: Path, form: str, depth: int) -> None:
    check_refused(ask_below_agent(door, tmp_path, form, depth))


@pytest.mark.live
@pytest.mark.parametrize("depth", [0, 30, 70, 500])
@pytest.mark.parametrize("form", FORMS)
def test_no_form_and_no_depth_below_an_agent_loosens(door: Door, tmp_path: Path, form: str, depth: int) -> None:
    check_refused(ask_below_agent(door, tmp_path, form, depth))


def check_refused(rulings: list[Ruling]) -> None:
    assert len(rulings) == 2
    assert [ruling.allowed for ruling in rulings] == [False, False], rulings
    assert all(ruling.why and ruling.fix for ruling in rulings)


def ask_here(door: Door, *, has_own_session: bool = False) -> list[str]:
    words = [sys.executable, asking.HERE, "0", "plain", str(door.path), str(door.port), "-"]
    with subprocess.Popen(words, start_new_session=has_own_session):
        return [ruling.grade for ruling in door.answer_one()]


def test_a_person_is_one_while_no_agent_works(door: Door) -> None:
    assert ask_here(door, has_own_session=True) == ["person", "person"]


def test_without_a_terminal_and_an_older_shell_a_person_is_unclear_while_an_agent_works(
    door: Door, tmp_path: Path
) -> None:
    words = [sys.executable, asking.HERE, "0", "plain", str(door.path), str(door.port), "-"]
    waiting = ["sh", "-c", 'read go; "$@"; exit', "sh", *words]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, start_new_session=True) as older:
        assert older.stdin is not None
        assert ask_here(door, has_own_session=True) == ["person", "person"]
        with working_agent(door, tmp_path):
            assert ask_here(door, has_own_session=True) == ["unclear", "person"]
            older.stdin.write(b"\n")
            older.stdin.flush()
            grades = [ruling.grade for ruling in door.answer_one()]
            assert grades == ["person", "person"], "the session's first process is older than the agent"
    assert ask_here(door, has_own_session=True) == ["person", "person"]


def test_at_a_terminal_a_person_is_one_while_an_agent_works(door: Door, tmp_path: Path) -> None:
    with working_agent(door, tmp_path):
        pid, terminal = pty.fork()
        if pid == 0:
            words = [sys.executable, asking.HERE, "0", "plain", str(door.path), str(door.port), "-"]
            os.execv(sys.executable, words)
        assert [ruling.grade for ruling in door.answer_one()] == ["person", "person"]
        os.waitpid(pid, 0)
        os.close(terminal)


def test_a_terminal_that_an_agent_drives_is_the_agents(door: Door, tmp_path: Path) -> None:
    """The shell came from elsewhere; who types is the holder of its terminal's other end."""
    claude = tmp_path / "claude"
    claude.write_text("import sys; sys.stdin.read()")
    master, terminal = pty.openpty()
    words = [sys.executable, str(claude)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[master]) as agent:
        os.close(master)
        take = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        )
        asks = [sys.executable, asking.HERE, "0", "plain", str(door.path), str(door.port), "-"]
        with subprocess.Popen([sys.executable, "-c", take, *asks], stdin=terminal, start_new_session=True):
            assert door.answer_one()[0].grade == "agent"
        agent.communicate()
    os.close(terminal)


def test_a_neutral_act_passes_for_the_unclear_at_a_terminal_only() -> None:
    unclear = Judgement(PeerGrade.UNCLEAR, "who knows", "ask")
    for kind, without, with_one in (("loosen", False, False), ("neutral", False, True), ("tighten", True, True)):
        act = next(act for act in Act if act.kind == kind)
        assert unclear.rule(act).allowed is without
        assert replace(unclear, terminal=34816).rule(act).allowed is with_one
        assert not Judgement(PeerGrade.AGENT, "claude", "ask", terminal=34816).rule(act).allowed


def test_a_process_that_ended_while_it_was_asked_about_is_unclear(door: Door) -> None:
    with subprocess.Popen([sys.executable, "-c", CONNECT_AND_LEAVE, str(door.path)]) as process:
        connection, _ = door.line.accept()
        process.wait()
    with connection:
        ruling = door.authority.rule_connection(Act.LOWER_MODE, connection, None, lambda: "")
    assert (ruling.grade, ruling.allowed) == ("unclear", False)


def test_a_walk_whose_processes_end_is_no_answer() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    child.wait()
    with pytest.raises(Incomplete):
        list_ancestors(child.pid)


def test_an_attempts_door_passes_no_question_of_a_person_on() -> None:
    for name in (PERSON_AGENT, CONSOLE_AGENT):
        request = HookRequest("1", HookFrame(name, "/", None), {}, b"LOWER_MODE")
        assert find_kind(request, Path("/")) == "refused"


def test_the_daemon_gives_no_pairing_link_to_an_agents_process(door: Door, home: Path, tmp_path: Path) -> None:
    """Whatever the request says of itself: only the process that connected counts."""
    claude = tmp_path / "claude"
    claude.write_text("import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); sys.stdin.read()")
    control = ConsoleControl(home)
    daemon = Daemon(home, "1", control)
    variables = {HOOK_PID_VARIABLE: str(os.getpid()), ATTEMPT_VARIABLE: "/"}
    with subprocess.Popen([sys.executable, str(claude), str(door.path)], stdin=subprocess.PIPE) as process:
        connection, _ = door.line.accept()
        with connection:
            for name, payload in ((CONSOLE_AGENT, b""), (PERSON_AGENT, b"SERVE\0remit serve")):
                reply = daemon.answer_request(
                    HookRequest("1", HookFrame(name, "open", None), variables, payload), connection
                )
                assert reply.exit_code == 3
                assert b"claude (process " in reply.stderr + reply.stdout
                assert b"/pair#" not in reply.stdout
            assert not daemon.authority.is_worker(process.pid)
        process.communicate()
    assert control.keeper is None


def test_the_daemon_asks_the_unclear_for_the_pin_and_nobody_else(door: Door, home: Path, tmp_path: Path) -> None:
    daemon, keeper = Daemon(home, "1", ConsoleControl(home)), PinKeeper(home, cost=2)
    words = [sys.executable, "-c", "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); input()"]

    def ask(payload: bytes, *, below: str = "") -> tuple[int, Ruling]:
        command = [sys.executable, below, *words[1:]] if below else words
        with subprocess.Popen([*command, str(door.path)], stdin=subprocess.PIPE, start_new_session=True) as process:
            connection, _ = door.line.accept()
            with connection:
                reply = daemon.answer_request(
                    HookRequest("1", HookFrame(PERSON_AGENT, "/", None), {}, payload), connection
                )
            process.communicate(b"\n")
        return reply.exit_code, json.decode(reply.stdout, type=Ruling)

    below = tmp_path / "below" / "claude"
    below.parent.mkdir()
    below.write_text("import sys; sys.argv = sys.argv[1:]; exec(sys.argv.pop(1))")
    with working_agent(door, tmp_path):
        code, ruling = ask(b"LOWER_MODE\0remit mode")
        assert (code, ruling.grade) == (3, "unclear")
        assert "remit pin set" in ruling.fix
        keeper.set("4711")
        assert ask(b"LOWER_MODE\0remit mode")[0] == 4
        assert ask(b"SET_PIN\0remit pin set\x004711")[0] == 3
        assert ask(b"LOWER_MODE\0remit mode\x004712")[0] == 3
        assert ask(b"LOWER_MODE\0remit mode\0")[0] == 3
        code, ruling = ask(b"LOWER_MODE\0remit mode\x004711")
        assert (code, ruling.evidence["factor"]) == (0, "pin")
        for payload in (b"LOWER_MODE\0remit mode", b"LOWER_MODE\0remit mode\x004711"):
            code, ruling = ask(payload, below=str(below))
            assert (code, ruling.grade) == (3, "agent")


def test_a_person_is_one_while_other_programs_begin_and_end(door: Door) -> None:
    """What ends while the holders of a connection are looked for hides nothing."""
    with subprocess.Popen(["sh", "-c", "while :; do /bin/true & /bin/true; done"]) as busy:
        with socket.create_connection(("127.0.0.1", door.port)) as browser:
            own, _ = door.web.accept()
            ends = ClientConnection(*browser.getsockname(), *browser.getpeername())
            grades = {door.authority.rule_web(Act.ANSWER, None, ends).grade for _ in range(100)}
            own.close()
        busy.kill()
    assert grades == {"person"}


class EndsHolders(Authority):
    """A judge who finds that each process of `ending` has just ended when it is looked at."""

    ending: tuple["subprocess.Popen[bytes]", ...] = ()

    def judge_holder(self, pid: int) -> Judgement:
        for process in self.ending:
            if process.pid == pid:
                process.kill()
                process.wait()
        return super().judge_holder(pid)


@pytest.mark.parametrize(("is_kept_here", "grade"), [(True, "person"), (False, "unclear")])
def test_a_process_that_ended_while_it_was_judged_holds_no_connection(
    door: Door, tmp_path: Path, is_kept_here: bool, grade: str
) -> None:
    """A program that is about to begin has the connections of who starts it, for a moment. A connection that nobody
    holds any more is nobody's.
    """
    judge = EndsHolders(tmp_path)
    with socket.create_connection(("127.0.0.1", door.port)) as browser:
        own, _ = door.web.accept()
        ends = ClientConnection(*browser.getsockname(), *browser.getpeername())
        with subprocess.Popen(["sleep", "600"], pass_fds=[browser.fileno()]) as other:
            judge.ending = (other,)
            if not is_kept_here:
                browser.close()
            ruling = judge.rule_web(Act.ANSWER, None, ends)
        own.close()
    assert (ruling.grade, ruling.allowed) == (grade, is_kept_here)


DAEMON = ("python3", "-I", "-c", "from remit.cli import main; main()", "daemon", "--ready-fd", "3")
CONSOLE = ("python3", "-I", "-c", "from remit.console.server import serve_pages; serve_pages()", "7")


@pytest.mark.parametrize(
    ("chain", "found"),
    [
        pytest.param(
            (("remit", "mode"), ("pytest",), ("sh", "-c", "pytest"), DAEMON), True, id="a criterion's command"
        ),
        pytest.param((("python3", "-m", "remit", "mode"), ("sh",), DAEMON), True, id="a hook's command"),
        pytest.param((("remit", "mode"), ("bash",), ("tmux",)), False, id="a person's terminal"),
        pytest.param((("remit", "run"), CONSOLE, DAEMON), False, id="what a page starts"),
        pytest.param((DAEMON, ("sh",)), False, id="the daemon itself"),
    ],
)
def test_what_the_daemon_runs_is_no_persons(chain: tuple[tuple[str, ...], ...], found: bool) -> None:
    processes = [ProcessInfo(pid, 1, words) for pid, words in enumerate(chain, 100)]
    assert (find_command_of_daemon(processes) is not None) == found
