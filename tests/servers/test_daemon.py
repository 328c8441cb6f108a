"""The daemon and the C client, as processes: what is answered, by whom, and what happens when somebody dies."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path

import pytest

import remit_hook
from conftest import run_git
from forked_commands import run_command, start_process, start_ready
from processes import daemons_of, kill_daemons
from remit.gate.governing.settings import govern_workspace
from remit.gate.open_gates import MAX_REPOSITORIES, OpenGates
from remit.gate.people.questions import ApprovalReply, QuestionStore
from remit.gate.state.workspace_state import State
from remit.servers.daemon import make_address, socket_path
from remit.servers.environment import make_environment
from remit.workspace.place.workspace import workspace_at
from remit.workspace.system_clock import SYSTEM_CLOCK
from waiting import WAIT_S, wait_until

PRE = {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_use_id": "t1"}
MAIN = "from remit.cli import main; main()"


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C client, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("THE C CLIENT IS NOT TESTED: there is no C compiler on this machine")
    source = Path(remit_hook.__file__).with_name("client.c")
    built = tmp_path_factory.mktemp("client") / "hook"
    subprocess.run([compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-o", built, source], check=True)
    return built


class Installed:
    """The client in a home of its own, and a governed repository."""

    def __init__(self, home: Path, binary: Path, repository: Path) -> None:
        self.home = home
        self.repository = repository
        self.path = home / "bin with space" / "hook"
        self.path.parent.mkdir()
        shutil.copy(binary, self.path)
        self.configure()
        self.processes: list[subprocess.Popen[bytes]] = []

    def configure(self, interpreter: str = sys.executable, said_version: str = "", wait_s: int = 20) -> None:
        lines = [said_version or version("remit"), interpreter, str(socket_path(self.home)), str(wait_s)]
        self.path.with_name("hook.conf").write_text("".join(f"{line}\n" for line in lines))

    def start(self, idle_s: float = 600, path: str = "") -> subprocess.Popen[bytes]:
        variables = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
        process = start_ready(["daemon", "--idle-s", str(idle_s)], None, variables)
        self.processes.append(process)
        if process.poll() is not None:  # a call has started one, which may not listen yet
            self.wait_for_daemon()
        return process

    def wait_for_daemon(self) -> None:
        wait_until(self.listening, "the daemon does not listen")

    def leave(self) -> None:
        """No daemon is left of those that calls have started."""
        kill_daemons(self.home)
        socket_path(self.home).unlink(missing_ok=True)

    def listening(self) -> bool:
        with socket.socket(socket.AF_UNIX) as line, make_address(socket_path(self.home)) as address:
            return line.connect_ex(address) == 0

    def call(self, kind: str = "pre", target: str = "src/new.py") -> subprocess.CompletedProcess[bytes]:
        tool_input = {"file_path": str(self.repository / target), "content": "x\n"}
        return self.tell("Write", tool_input, self.repository, kind)

    def tell(
        self, tool: str, tool_input: dict[str, str], folder: Path, kind: str = "pre"
    ) -> subprocess.CompletedProcess[bytes]:
        payload = {**PRE, "session_id": "s1", "cwd": str(folder), "tool_name": tool, "tool_input": tool_input}
        return subprocess.run(
            [self.path, "claude-code", kind],
            input=json.dumps(payload).encode(),
            capture_output=True,
            cwd=folder,
            timeout=WAIT_S,
            check=False,
        )

    def remit(self, *words: str, folder: Path | None = None) -> str:
        done = run_command(words, folder or self.repository)
        assert done.returncode == 0, done
        return done.stdout

    def daemons(self) -> list[int]:
        return daemons_of(self.home)


@pytest.fixture
def installed(home: Path, binary: Path, repository: Path) -> Generator[Installed]:
    """The client, and a repository in enforce without an intent selected."""
    found = Installed(home, binary, repository)
    found.remit("init", "--mode", "enforce", "--yes")
    found.remit("intent", "new", "Work", "--scope", "src/**")
    yield found
    for process in found.processes:
        process.kill()
        process.wait()
    found.leave()


def is_denial(done: subprocess.CompletedProcess[bytes]) -> bool:
    return done.returncode == 0 and b'"permissionDecision":"deny"' in done.stdout


def test_the_daemon_answers_what_a_fresh_process_answers(installed: Installed) -> None:
    fresh = installed.call()
    installed.start()
    warm = installed.call()
    assert is_denial(fresh)
    assert (warm.stdout, warm.returncode) == (fresh.stdout, fresh.returncode)


@pytest.mark.parametrize("language", ["c", "python"])
def test_a_home_whose_path_is_too_long_for_the_address_of_a_socket_has_a_daemon(
    home: Path, binary: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    long = home / ("long" * 25)
    long.mkdir()
    monkeypatch.setenv("HOME", str(long))
    script = f"#!{sys.executable} -IS\n{Path(remit_hook.__file__).with_name('__main__.py').read_text()}"
    python = home / "client.py"
    python.write_text(script)
    python.chmod(0o755)
    installed = Installed(long, binary if language == "c" else python, repository)
    installed.remit("init", "--mode", "enforce", "--yes")
    try:
        installed.start()
        installed.configure(interpreter="/nonexistent")
        assert is_denial(installed.call())
    finally:
        installed.leave()
        for process in installed.processes:
            process.wait()


def test_a_call_that_finds_no_daemon_starts_one_for_the_next(installed: Installed) -> None:
    assert is_denial(installed.call())
    installed.wait_for_daemon()
    assert len(installed.daemons()) == 1
    assert is_denial(installed.call())


def test_a_killed_daemon_loses_nothing_and_the_call_is_answered(installed: Installed) -> None:
    installed.start().kill()
    assert is_denial(installed.call())
    assert "the chain is whole" in installed.remit("ledger", "verify")


def test_a_stopped_daemon_does_not_hold_the_agent_up_for_ever(installed: Installed) -> None:
    installed.configure(wait_s=600)  # longer than the test waits for the call
    process = installed.start()
    process.send_signal(signal.SIGSTOP)
    done = installed.call()
    process.send_signal(signal.SIGCONT)
    assert is_denial(done)


@pytest.mark.live
def test_kills_at_any_moment_leave_every_call_answered_and_the_chain_whole(installed: Installed) -> None:
    for turn in range(12):
        process = installed.start()
        kill = subprocess.Popen(["sh", "-c", f"sleep 0.0{turn % 10}; kill -9 {process.pid}"])
        for _ in range(4):
            assert is_denial(installed.call())
        kill.wait()
        process.wait()
        kill_daemons(installed.home)
    assert "the chain is whole" in installed.remit("ledger", "verify")


def test_a_client_of_another_version_makes_the_daemon_leave(installed: Installed) -> None:
    process = installed.start()
    installed.configure(said_version="0.0.0-other")
    assert is_denial(installed.call())
    assert process.wait(WAIT_S) == 0


def test_an_idle_daemon_leaves_and_takes_its_socket_along(installed: Installed) -> None:
    assert start_process(["daemon", "--idle-s", "0.5"]).wait() == 0
    path = socket_path(installed.home)
    assert path.with_name("daemon.lock").exists(), "another daemon was there"
    assert not path.exists()


def test_a_second_daemon_yields_to_the_first(installed: Installed) -> None:
    installed.start()
    assert start_process(["daemon"]).wait() == 0
    assert is_denial(installed.call())


def test_the_socket_is_the_users_own(installed: Installed) -> None:
    installed.start()
    path = socket_path(installed.home)
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_junk_on_the_socket_is_dropped_and_the_next_call_answered(installed: Installed) -> None:
    installed.start()
    for junk in (b"", b"GET / HTTP/1.1\r\n\r\n", b"RMT1\0\0", os.urandom(200_000)):
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(socket_path(installed.home)))
            line.sendall(junk)
            line.shutdown(socket.SHUT_WR)
            line.settimeout(WAIT_S)
            line.recv(10)
    assert is_denial(installed.call())


@pytest.mark.parametrize(("kind", "code"), [("pre", 2), ("post", 0), ("note", 0)])
def test_a_client_that_reaches_nobody_denies_and_only_before_a_call(installed: Installed, kind: str, code: int) -> None:
    installed.configure(interpreter="/nowhere/python")
    done = installed.call(kind)
    assert done.returncode == code
    assert b"remit doctor" in done.stderr


def test_a_client_without_its_configuration_denies(installed: Installed) -> None:
    installed.path.with_name("hook.conf").unlink()
    assert installed.call().returncode == 2


def test_a_large_payload_goes_through_daemon_and_fresh_process_alike(installed: Installed) -> None:
    tool_input = {"file_path": str(installed.repository / "src" / "big.py"), "content": "x" * 8_000_000}
    payload = json.dumps({**PRE, "session_id": "s", "cwd": str(installed.repository), "tool_input": tool_input})
    command = [installed.path, "claude-code", "pre"]
    fresh = subprocess.run(command, input=payload.encode(), capture_output=True, cwd=installed.repository, check=False)
    installed.wait_for_daemon()
    warm = subprocess.run(command, input=payload.encode(), capture_output=True, cwd=installed.repository, check=False)
    assert is_denial(fresh)
    assert warm.stdout == fresh.stdout


def test_after_an_upgrade_the_installed_client_is_brought_to_the_daemons_version(installed: Installed) -> None:
    folder = installed.home / ".local/share/remit/bin"
    folder.mkdir(parents=True)
    shutil.copy(installed.path, folder / "hook")
    (folder / "hook.conf").write_text(f"0.0.0-old\n{sys.executable}\n{socket_path(installed.home)}\n20\n")
    installed.start()
    assert (folder / "hook.conf").read_text().startswith(version("remit") + "\n")


SLOW_GIT = """\
#!/bin/sh
case "$*" in *"-C {repository} "*) while [ -e {folder}/held ]; do touch {folder}/waits; sleep 0.02; done;; esac
exec {git} "$@"
"""


def beside(installed: Installed, name: str) -> Path:
    """Another governed repository of the same person, in enforce, under INT-001."""
    other = installed.repository.parent / name
    subprocess.run(["git", "clone", "-q", installed.repository, other], check=True)
    installed.remit("init", "--mode", "enforce", "--yes", folder=other)
    installed.remit("intent", "new", "Work", "--scope", "src/**", folder=other)
    assert installed.tell("Bash", {"command": "remit intent select INT-001"}, other).returncode == 0
    return other


def test_a_slow_git_in_one_repository_holds_no_other_up(installed: Installed, tmp_path: Path) -> None:
    """Its git does not come back, and the other's decision comes all the same."""
    programs, slow = tmp_path / "programs", installed.repository
    programs.mkdir()
    (programs / "git").write_text(SLOW_GIT.format(repository=slow, git=shutil.which("git"), folder=programs))
    (programs / "git").chmod(0o755)
    installed.configure(wait_s=600)  # a client that asks a fresh process meets no slow git
    installed.start(path=str(programs))
    quick = beside(installed, "quick")
    answers: list[int] = []

    def touch(folder: Path) -> None:
        answers.append(installed.tell("Bash", {"command": "touch src/x"}, folder).returncode)

    installed.tell("Bash", {"command": "remit intent select INT-001"}, slow)
    run_git(slow, "commit", "-q", "--allow-empty", "-m", "moved")  # the next look asks git, whatever is watched
    held = programs / "held"
    held.touch()
    waiting = threading.Thread(target=touch, args=(slow,))
    waiting.start()
    wait_until((programs / "waits").exists)
    touch(quick)
    assert waiting.is_alive()
    assert answers == [0]
    held.unlink()
    waiting.join()
    assert answers == [0, 0]


@pytest.mark.live
def test_calls_of_many_repositories_at_once_are_all_answered_and_recorded(installed: Installed) -> None:
    folders = [installed.repository, *(beside(installed, f"other{n}") for n in range(3))]
    installed.leave()
    installed.start()
    answers: list[subprocess.CompletedProcess[bytes]] = []

    def work(folder: Path) -> None:
        for n in range(5):
            answers.append(installed.tell("Write", {"file_path": f"docs/{n}.md", "content": "x"}, folder))
            answers.append(installed.tell("Bash", {"command": f"rm -f docs/{n}.md && ls {n}"}, folder))

    threads = [threading.Thread(target=work, args=(folder,)) for folder in folders for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 80
    assert sum(map(is_denial, answers)) >= 40
    for folder in folders:
        assert "the chain is whole" in installed.remit("ledger", "verify", folder=folder)
        found = json.loads(installed.remit("log", "-n", "200", "--json", folder=folder))["data"]
        events = [record["metadata"]["dev.remit"]["event"] for record in found]
        assert events.count("denied") + events.count("tool_use") >= 20, folder


def test_a_daemon_that_is_told_to_leave_leaves_an_open_question_to_a_fresh_process(installed: Installed) -> None:
    process = installed.start()
    state = State(installed.repository / ".git/remit/state.db", installed.repository)
    person = QuestionStore(state, SYSTEM_CLOCK)
    person.mark_watcher_present()
    answers: list[subprocess.CompletedProcess[bytes]] = []
    waiting = threading.Thread(target=lambda: answers.append(installed.call()))
    waiting.start()
    first = next_question(person, set())
    process.send_signal(signal.SIGTERM)
    second = next_question(person, {first})
    assert person.answer_question(second, ApprovalReply(False, "not now"))  # while the person counts as present
    assert process.wait(WAIT_S) == 0
    waiting.join(WAIT_S)
    person.mark_watcher_gone()
    state.close()
    installed.call()
    assert is_denial(answers[0])
    assert b"not now" in answers[0].stdout
    words = installed.remit("log", "--event", "approval_answered", "--json")
    assert first in words
    assert second in words


def next_question(person: QuestionStore, known: set[str]) -> str:
    """The id of a question that is not known yet. A person sits there all the time."""
    found: list[str] = []

    def has_question() -> bool:
        person.mark_watcher_present()
        found.extend(question.id for question in person.list_open_questions() if question.id not in known)
        return bool(found)

    wait_until(has_question, "no question was put")
    return found[0]


def test_the_least_lately_used_repository_is_closed_and_comes_back(installed: Installed, tmp_path: Path) -> None:
    gates, around = OpenGates(), make_environment({})
    workspace = workspace_at(installed.repository, installed.repository)
    with gates(workspace, around) as gate:
        held = gate.state
    for n in range(MAX_REPOSITORIES):
        folder = tmp_path / f"r{n}"
        folder.mkdir()
        subprocess.run(["git", "init", "-q", folder], check=True)
        govern_workspace(workspace_at(folder, folder))
        with gates(workspace_at(folder, folder), around) as gate:
            assert gate.state
    assert len(gates.repositories) == MAX_REPOSITORIES
    with pytest.raises(sqlite3.ProgrammingError):
        held.connection.execute("SELECT 1")
    with gates(workspace, around) as gate:
        assert gate.state.list_recent_sessions(1) == []
