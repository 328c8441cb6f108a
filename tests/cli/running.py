"""The real `remit` as a process: without a terminal, below an agent, or on a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forked_commands import MAIN as MAIN
from forked_commands import run_command
from waiting import WAIT_S


def run(folder: Path, *words: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `remit` without a terminal; `CLAUDECODE="1"` makes it a command of an agent."""
    return run_command(words, folder, {**os.environ, **variables}, typed)


def remit(folder: Path, *words: str, code: int = 0) -> str:
    """Return the standard output of a command that must end with `code`."""
    done = run(folder, *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def data(folder: Path, *words: str, code: int = 0, **variables: str) -> Any:
    done = run(folder, *words, "--json", **variables)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)["data"]


def run_on_terminal(folder: Path, words: Sequence[str], asked: bytes, typed: bytes) -> tuple[int, str]:
    """Run Python with these words on a terminal, and type once something is asked there; its exit code and the text."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(sys.executable, [sys.executable, *words])
    seen, is_typed = b"", False
    try:
        while block := read_block(terminal):
            seen += block
            if asked in seen and not is_typed:
                os.write(terminal, typed)
                is_typed = True
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode("utf-8", "replace")


def read_block(terminal: int) -> bytes:
    """Return what a terminal shows next; nothing once its last program has ended."""
    assert select.select([terminal], [], [], WAIT_S)[0], f"nothing is shown for {WAIT_S} s"
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
