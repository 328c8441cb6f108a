"""`remit exec`, as a person or an agent's hook runs it: the real program in the real sandbox."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import run_on_terminal
from forked_commands import run_command
from gate.driving import governed, overlay

EXEC = ["exec", "--intent", "INT-001"]
REMIT = [sys.executable, "-m", "remit", *EXEC]


@pytest.fixture(autouse=True)
def sandbox(home: Path) -> None:
    overlay(home)


@pytest.fixture
def folder(repository: Path) -> Path:
    return governed(repository)


def remit(folder: Path, *command: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return run_command([*EXEC, *command], folder, {**os.environ, **variables}, stdin)


def python(text: str) -> list[str]:
    """A command whose text tells nothing."""
    return ["--", sys.executable, "-c", text]


def test_input_output_environment_folder_and_exit_code_are_the_commands_own(folder: Path) -> None:
    text = "import os,sys; print(sys.stdin.read() + os.environ['GIT_X'] + os.getcwd()); sys.stderr.write('e'); exit(9)"
    done = remit(folder / "src", *python(text), stdin="in ", GIT_X="x ")
    assert (done.returncode, done.stdout, done.stderr) == (9, f"in x {folder / 'src'}\n", "e")


def test_much_output_comes_whole(folder: Path) -> None:
    assert len(remit(folder, *python("print('x' * 20_000_000)")).stdout) == 20_000_001


def test_what_is_out_of_scope_is_dropped_and_told(folder: Path) -> None:
    done = remit(folder, *python("open('README.md','w'); open('src/new','w').write('n')"))
    assert done.returncode == 0
    assert "README.md" in done.stderr
    assert "SCOPE_VIOLATION" in done.stderr
    assert (folder / "README.md").read_text() == "# Example\n"
    assert (folder / "src/new").read_text() == "n"


def test_nothing_outside_the_workspace_can_be_changed(folder: Path, home: Path) -> None:
    remit(folder, *python(f"open({str(home / 'x')!r}, 'w')"))
    assert not (home / "x").exists()
    done = remit(folder, *python("open('/usr/x', 'w')"))
    assert done.returncode == 1
    assert "Read-only" in done.stderr


def test_what_the_rules_refuse_by_its_text_does_not_run(folder: Path) -> None:
    assert remit(folder, "--", "rm", "README.md").returncode == 3


def test_a_command_that_is_not_there_ends_with_127(folder: Path) -> None:
    assert remit(folder, "--", "no-such-program").returncode == 127


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_command_and_what_it_then_does_counts(folder: Path, number: int) -> None:
    text = (
        f"import signal,sys; signal.signal({number}, lambda *a: (open('src/got','w').write('g'), sys.exit(5)));"
        "print('ready', flush=True); signal.pause()"
    )
    with subprocess.Popen([*REMIT, *python(text)], cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(120) == 5
    assert (folder / "src/got").read_text() == "g"


def test_a_signal_that_ends_the_command_shows_in_the_exit_code(folder: Path) -> None:
    assert remit(folder, *python("import os; os.kill(os.getpid(), 15)")).returncode == 143


def test_what_a_killed_one_staged_is_swept_by_the_next(folder: Path, home: Path) -> None:
    words = python("print('ready', flush=True); import signal; signal.pause()")
    with subprocess.Popen([*REMIT, *words], cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.stdout.read() == b""
    staged = home / ".local/state/remit/sandbox"
    assert list(staged.glob("*-*"))
    assert remit(folder, *python("0")).returncode == 0
    assert not list(staged.glob("*-*"))


def test_a_terminal_is_one_inside_and_its_interrupt_arrives(folder: Path) -> None:
    text = "import signal, sys; print(sys.stdin.isatty()); signal.pause()"
    code, seen = run_on_terminal(folder, [*REMIT[1:], *python(text)], b"True", b"\x03")
    assert "True" in seen
    assert "KeyboardInterrupt" in seen
    assert code in (1, 130)


def test_below_an_agent_no_intent_can_be_named(repository: Path, home: Path) -> None:
    governed(repository)
    environ = {**os.environ, "CLAUDECODE": "1"}
    command = [
        sys.executable,
        "-I",
        "-c",
        "from remit.cli import main; main()",
        "exec",
        "--intent",
        "INT-001",
        "--",
        "true",
    ]
    done = subprocess.run(command, cwd=repository, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, "is for a person" in done.stderr) == (3, True)


def test_a_person_shows_a_secret_place_to_one_command_and_an_agent_does_not(folder: Path, home: Path) -> None:
    place = home / ".aws/credentials"
    place.parent.mkdir()
    place.write_text("secret")
    assert "secret" not in remit(folder, "--", "cat", str(place)).stdout
    assert remit(folder, "--show", str(place), "--", "cat", str(place)).stdout == "secret"
    assert remit(folder, "--show", "~/.aws", "--", "cat", str(place)).stdout == "secret"
    refused = remit(folder, "--show", str(place), "--", "cat", str(place), CLAUDECODE="1")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert (
        "remit exec --show"
        in run_command(
            ["exec", "--show", str(place), "--", "cat", str(place)], folder, {**os.environ, "CLAUDECODE": "1"}, ""
        ).stderr
    )
