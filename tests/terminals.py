"""Commands on a terminal of the tests, of a width and with variables of their own."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from forked_commands import start_process
from waiting import WAIT_S

ROWS = 24


def show_on_terminal(
    folder: Path, words: Sequence[str], columns: int, variables: Mapping[str, str], rows: int = ROWS
) -> tuple[int, str]:
    """Return a command's exit code, and what it shows; the terminal tells no width where there are no columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows if columns else 0, columns, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    around = {**known, "TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat", **variables}
    process = start_process(words, folder, around, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:
        pass  # the other side is closed: all was read
    finally:
        os.close(ours)
    return process.wait(WAIT_S), shown.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
