"""The daemon and the C client, as processes: what is answered, by whom, and what happens when somebody dies."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path

import pytest

import remit_hook
from remit.servers.daemon import socket_path

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
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", built, source], check=True)
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

    def start(self, idle_s: float = 60) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-I", "-c", MAIN, "daemon", "--idle-s", str(idle_s)])
        self.processes.append(process)
        until = time.monotonic() + 20
        while not self.listening():
            assert time.monotonic() < until, "the daemon does not listen"
            time.sleep(0.02)
        return process

    def listening(self) -> bool:
        with socket.socket(socket.AF_UNIX) as line:
            return line.connect_ex(str(socket_path(self.home))) == 0

    def call(self, kind: str = "pre", target: str = "src/new.py") -> subprocess.CompletedProcess[bytes]:
        tool_input = {"file_path": str(self.repository / target), "content": "x\n"}
        payload = {**PRE, "session_id": "s1", "cwd": str(self.repository), "tool_input": tool_input}
        return subprocess.run(
            [self.path, "claude-code", kind],
            input=json.dumps(payload).encode(),
            capture_output=True,
            cwd=self.repository,
            timeout=60,
            check=False,
        )

    def remit(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-I", "-c", MAIN, *words], cwd=self.repository, capture_output=True, text=True, check=True
        )
        return done.stdout

    def daemons(self) -> list[int]:
        found = subprocess.run(["pgrep", "-f", "main\\(\\) daemon"], capture_output=True, text=True, check=False)
        return [pid for pid in map(int, found.stdout.split()) if self.has_home(pid)]

    def has_home(self, pid: int) -> bool:
        try:
            return f"HOME={self.home}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False


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
    for pid in found.daemons():
        os.kill(pid, signal.SIGKILL)


def is_denial(done: subprocess.CompletedProcess[bytes]) -> bool:
    return done.returncode == 0 and b'"permissionDecision":"deny"' in done.stdout


def test_the_daemon_answers_what_a_fresh_process_answers(installed: Installed) -> None:
    fresh = installed.call()
    installed.start()
    warm = installed.call()
    assert is_denial(fresh)
    assert (warm.stdout, warm.returncode) == (fresh.stdout, fresh.returncode)


def test_a_call_that_finds_no_daemon_starts_one_for_the_next(installed: Installed) -> None:
    assert is_denial(installed.call())
    until = time.monotonic() + 20
    while not installed.listening():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert len(installed.daemons()) == 1
    assert is_denial(installed.call())


def test_a_killed_daemon_loses_nothing_and_the_call_is_answered(installed: Installed) -> None:
    installed.start().kill()
    assert is_denial(installed.call())
    assert "the chain is whole" in installed.remit("ledger", "verify")


def test_a_stopped_daemon_does_not_hold_the_agent_up_for_ever(installed: Installed) -> None:
    process = installed.start()
    process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    done = installed.call()
    process.send_signal(signal.SIGCONT)
    assert is_denial(done)
    assert time.monotonic() - began < 15


def test_kills_at_any_moment_leave_every_call_answered_and_the_chain_whole(installed: Installed) -> None:
    for turn in range(12):
        process = installed.start()
        kill = subprocess.Popen(["sh", "-c", f"sleep 0.0{turn % 10}; kill -9 {process.pid}"])
        for _ in range(4):
            assert is_denial(installed.call())
        kill.wait()
        process.wait()
        for pid in installed.daemons():
            os.kill(pid, signal.SIGKILL)
    assert "the chain is whole" in installed.remit("ledger", "verify")


def test_a_client_of_another_version_makes_the_daemon_leave(installed: Installed) -> None:
    process = installed.start()
    installed.configure(said_version="0.0.0-other")
    assert is_denial(installed.call())
    assert process.wait(20) == 0


def test_an_idle_daemon_leaves_and_takes_its_socket_along(installed: Installed) -> None:
    process = installed.start(idle_s=0.5)
    assert process.wait(20) == 0
    assert not socket_path(installed.home).exists()


def test_a_second_daemon_yields_to_the_first(installed: Installed) -> None:
    installed.start()
    second = subprocess.run([sys.executable, "-I", "-c", MAIN, "daemon"], timeout=20, check=False)
    assert second.returncode == 0
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
            line.settimeout(10)
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
    until = time.monotonic() + 20
    while not installed.listening():
        assert time.monotonic() < until
        time.sleep(0.02)
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
