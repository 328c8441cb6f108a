"""A real terminal for tests: tmux without its user's settings, one server a test."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import which

import pytest

from waiting import wait_until

MOUSE_MODES = ("\x1b[?1000h", "\x1b[?1002h", "\x1b[?1003h", "\x1b[?1006h")
FORBIDDEN = ("\x1b[?1049h", "\x1b[?47h", "\x1b[2J", "\x1b[3J", *MOUSE_MODES)
"""Alternate screen, clears, mouse modes: what would take the terminal's own scrollback and selection away."""


class Terminal:
    """One pane. `stream` is the file with every byte that the program wrote, `clock` the one of a program that has no
    other; it shows `passed_s`.
    """

    def __init__(self, folder: Path, size: tuple[int, int]) -> None:
        if which("tmux") is None:
            pytest.skip("THE AGENT'S TERMINAL IS NOT TESTED: there is no tmux on this machine")
        self.socket = folder / "tmux"
        self.stream = folder / "stream"
        self.clock = folder / "clock"
        self.passed_s = 0.0
        self.pass_time(0.0)
        self.size = size

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self, words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        """Run a program in the pane; the pane stays when it ends."""
        columns, rows = self.size
        variables = [f"{name}={value}" for name, value in environment.items()]
        program = shlex.join(["env", "-u", "NO_COLOR", *variables, *words])
        begun = self.stream.with_name("begun")
        os.mkfifo(begun)
        line = f"stty -echo; read -r _ < {begun}; {program}; echo exit $?; tail -f /dev/null"
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(cwd), line)
        self.tmux("set-option", "-g", "history-limit", "10000")
        self.tmux("pipe-pane", "-o", f"exec > {self.stream}; echo > {begun}; cat")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def write(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def read_lines(self) -> list[str]:
        """The scrollback and the screen, wrapped lines joined."""
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", "-J", "-S", "-").splitlines()]

    def read_screen(self) -> list[str]:
        return [line.rstrip() for line in self.tmux("capture-pane", "-p").splitlines()]

    def wait_to_see(self, seen: str | Callable[[list[str]], bool]) -> list[str]:
        """Wait until a text is in a line, or the condition holds; the lines then."""
        lines = list[str]()

        def is_there() -> bool:
            lines[:] = self.read_lines()
            return any(seen in line for line in lines) if isinstance(seen, str) else seen(lines)

        wait_until(is_there, lambda: "\n".join(lines), has_failed=lambda: find_end(lines))
        return lines

    def pass_time(self, seconds: float) -> None:
        """Move the clock on."""
        self.passed_s += seconds
        later = self.clock.with_name("clock-later")
        later.write_text(str(self.passed_s))
        later.replace(self.clock)

    def read_stream(self) -> str:
        return self.stream.read_bytes().decode("utf-8", "replace")

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], check=False, capture_output=True)


def find_end(lines: list[str]) -> str:
    """Return how the program ended; empty while it runs."""
    return next((line for line in lines if re.fullmatch(r"exit \d+", line)), "")
