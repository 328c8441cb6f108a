"""A real terminal for tests: tmux without its user's settings, one server a test."""

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import which

import pytest

WAIT_S = 90.0
MOUSE_MODES = ("\x1b[?1000h", "\x1b[?1002h", "\x1b[?1003h", "\x1b[?1006h")
FORBIDDEN = ("\x1b[?1049h", "\x1b[?47h", "\x1b[2J", "\x1b[3J", *MOUSE_MODES)
"""Alternate screen, clears, mouse modes: what would take the terminal's own scrollback and selection away."""


class Terminal:
    """One pane. `stream` is the file with every byte that the program wrote."""

    def __init__(self, folder: Path, size: tuple[int, int]) -> None:
        if which("tmux") is None:
            pytest.skip("THE AGENT'S TERMINAL IS NOT TESTED: there is no tmux on this machine")
        self.socket = folder / "tmux"
        self.stream = folder / "stream"
        self.size = size

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self, words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        """Run a program in the pane; the pane stays when it ends."""
        columns, rows = self.size
        variables = [f"{name}={value}" for name, value in environment.items()]
        program = shlex.join(["env", "-u", "NO_COLOR", *variables, *words])
        line = f"stty -echo; while [ ! -e {self.stream} ]; do sleep 0.02; done; {program}; echo exit $?; sleep 300"
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(cwd), line)
        self.tmux("set-option", "-g", "history-limit", "10000")
        self.tmux("pipe-pane", "-o", f"cat > {shlex.quote(str(self.stream))}")

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

    def wait_for(self, seen: str | Callable[[list[str]], bool]) -> list[str]:
        """Wait until a text is in a line, or the condition holds; the lines then."""
        end = time.monotonic() + WAIT_S
        while True:
            lines = self.read_lines()
            if any(seen in line for line in lines) if isinstance(seen, str) else seen(lines):
                return lines
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.05)

    def read_stream(self) -> str:
        return self.stream.read_bytes().decode("utf-8", "replace")

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], check=False, capture_output=True)
