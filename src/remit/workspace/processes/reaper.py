"""Reaper: the process above a command with a bounded life, for machines without process namespaces.

The reaper runs the command, adopts every orphaned process below the command, daemons included, and ends them all with
the command, at a signal, or with the reaper's parent. Source: prctl(2), PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER,
and proc_pid_task_children(5) of man-pages 6.9, read 2026-11. The file runs as a script before the command, and
therefore imports no module of Remit. A command can kill the reaper and then leave processes behind.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MISSING_EXIT_CODE = 127
END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PAUSE_S = 0.02


def above_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words that run a command under a reaper, which ends it with this process."""
    return (sys.executable, "-I", "-S", __file__, str(os.getpid()), *words)


def list_descendants(process: int) -> list[int]:
    """Return the processes below one, parents first."""
    found: list[int] = []
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                found += [child, *list_descendants(child)]
    return found


def end_descendants() -> None:
    while found := list_descendants(os.getpid()):
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        collect_children()
        time.sleep(PAUSE_S)


def collect_children() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def stop(number: int, frame: object) -> None:
    end_descendants()
    os._exit(128 + number)


def main(words: list[str]) -> None:
    """Run `PARENT COMMAND…` to its end, as long as the process PARENT is this one's parent, and exit as it did."""
    call = ctypes.CDLL(None, use_errno=True).prctl
    for number in END_SIGNALS:
        signal.signal(number, stop)
    call(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    call(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(words[0]):  # it died before it could be watched
        sys.exit(128 + signal.SIGTERM)
    child = os.fork()
    if child == 0:
        for number in END_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvp(words[1], words[1:])
        except OSError as error:
            sys.stderr.write(f"remit: {words[1]}: {error.strerror}\n")
            os._exit(MISSING_EXIT_CODE)
    code = 0
    while True:  # others come in, too: processes whose parents have ended
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            break
    end_descendants()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
