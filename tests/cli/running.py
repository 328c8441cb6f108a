"""The real `remit` as a process: without a terminal, below an agent, or on a terminal."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from forked_commands import MAIN as MAIN
from forked_commands import run_command


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
