"""`remit blame` through the daemon says what a fresh process says, byte for byte."""

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from cli.test_blame_terminal import on_a_terminal
from conftest import run_git
from forked_commands import start_ready
from gate.driving import Agent, governed
from processes import daemons_of, fields
from provenance.test_kept_attributions import commit
from remit.cli.ask_daemon import CLIENT_FOLDER, find_git
from remit.servers.daemon import socket_path
from remit.wiring.hook_client import install_client
from remit_hook.__main__ import ACK_TIMEOUT_S
from waiting import wait_until

FORMS: tuple[list[str], ...] = (
    [],
    ["--porcelain"],
    ["--line-porcelain", "-w"],
    ["--incremental"],
    ["-L", "1,2", "-s"],
    ["--show-stats", "--color", "always"],
    ["--json"],
    ["--json", "--class", "DOCUMENTATION"],
    ["--intent", "INT-009"],
    ["--min-grade", "exact", "-C"],
    ["HEAD"],
)
ASKED = """\
import sys
import remit_hook.__main__ as client
client.ACK_TIMEOUT_S = float(sys.argv.pop(1))
from remit.cli.ask_daemon import ask_daemon
code = ask_daemon(sys.argv[1:])
sys.exit(99 if code is None else code)
"""
UNANSWERED = 99
PATIENCE_S, OWN_PATIENCE_S = 60.0, ACK_TIMEOUT_S
"""Seconds that a question waits for a busy daemon to accept it: long in these tests, and as the command does."""


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    found.write("src/new.py", "NEW_NAME = 1\nOTHER_NAME = compute_value(2)\n")
    run_git(repository, "add", "-A", "src")
    run_git(repository, "commit", "-q", "-m", "new")
    return found


@pytest.fixture
def daemon(agent: Agent, home: Path) -> Generator[subprocess.Popen[bytes]]:
    """A daemon that the command finds, as the hook client finds it."""
    install_client(home)
    process = start_ready(["daemon"])
    yield process
    process.terminate()
    process.wait(120)
    assert not daemons_of(home)


def run(
    agent: Agent, *words: str, asked: bool, folder: str = ".", patience_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[bytes]:
    program = ["-c", ASKED, str(patience_s)] if asked else ["-m", "remit"]
    command = [sys.executable, *program, "blame", *words]
    return subprocess.run(command, cwd=agent.cwd / folder, capture_output=True, check=False, timeout=200)


def run_fresh(agent: Agent, home: Path, *words: str, folder: str = ".") -> subprocess.CompletedProcess[bytes]:
    """The command where no daemon is found."""
    settings = home / CLIENT_FOLDER / "hook.conf"
    away = settings.rename(settings.with_name("away"))
    try:
        return run(agent, *words, asked=False, folder=folder)
    finally:
        away.rename(settings)


@pytest.mark.usefixtures("daemon")
def test_the_daemon_answers_what_a_fresh_process_answers(agent: Agent, home: Path) -> None:
    for form in FORMS:
        fresh = run_fresh(agent, home, *form, "src/new.py")
        for _ in range(2):
            asked = run(agent, *form, "src/new.py", asked=True)
            assert (asked.returncode, asked.stdout, asked.stderr) == (0, fresh.stdout, fresh.stderr), form
    assert run(agent, "new.py", asked=True, folder="src").stdout == run(agent, "src/new.py", asked=True).stdout
    shown = on_a_terminal(agent.cwd, 80, "src/new.py")
    (home / CLIENT_FOLDER / "hook.conf").unlink()
    assert on_a_terminal(agent.cwd, 80, "src/new.py") == shown


@pytest.mark.usefixtures("daemon")
def test_an_answer_larger_than_a_sockets_buffer_comes_whole(agent: Agent, home: Path) -> None:
    agent.write("src/large.py", "".join(f"value_{n} = compute_value({n})\n" for n in range(9000)))
    commit(agent.cwd)
    asked = run(agent, "src/large.py", asked=True)
    assert (asked.returncode, asked.stdout) == (0, run_fresh(agent, home, "src/large.py").stdout)
    assert len(asked.stdout) > 500_000


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    "words", [["src/none.py"], ["--no-such-option", "src/new.py"], ["--help"], ["--contents", "-", "src/new.py"], []]
)
def test_what_the_daemon_declines_the_command_answers_itself(agent: Agent, home: Path, words: list[str]) -> None:
    assert run(agent, *words, asked=True).returncode == UNANSWERED
    whole, fresh = run(agent, *words, asked=False), run_fresh(agent, home, *words)
    assert (whole.returncode, whole.stdout, whole.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


@pytest.mark.usefixtures("daemon")
def test_another_environment_is_not_answered_for(agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(agent, "src/new.py", asked=True).returncode == 0
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert run(agent, "src/new.py", asked=True).returncode == UNANSWERED
    monkeypatch.delenv("TZ")
    (tmp_path / "git").symlink_to(find_git())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert run(agent, "src/new.py", asked=True).returncode == UNANSWERED


def test_a_daemon_whose_question_process_died_answers_the_next_question(
    agent: Agent, daemon: subprocess.Popen[bytes]
) -> None:
    first = run(agent, "src/new.py", asked=True)
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children")
    tasks = [Path(task, "children") for task in children.parent.parent.iterdir()]
    (child,) = [pid for task in tasks for pid in read_children(task) if "serve_questions" in read_words(pid)]
    os.kill(child, 9)
    wait_until(lambda: not read_words(child))
    assert run(agent, "src/new.py", asked=True).stdout == first.stdout


def read_children(file: Path) -> list[int]:
    """The processes that a thread has started; none where it has ended."""
    with suppress(OSError):
        return [int(pid) for pid in file.read_text().split()]
    return []


def read_words(pid: int) -> str:
    """The command of a process; nothing of one that has ended."""
    return " ".join(fields(Path(f"/proc/{pid}/cmdline")))


def test_a_question_that_is_not_accepted_in_time_leaves_the_socket_to_calls(agent: Agent, home: Path) -> None:
    install_client(home)
    place = socket_path(home)
    place.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        assert run(agent, "src/new.py", asked=True, patience_s=OWN_PATIENCE_S).returncode == UNANSWERED
    assert place.exists()
