"""Program: `remit run` on a terminal with a clock that stands still. Words: the file with its seconds, model, task."""

import sys
from pathlib import Path

from remit.core.clock import Waitable
from remit_agent.faces.run_command import run_screen
from remit_agent.faces.terminal.arguments import RunArguments


class FileClock:
    """A clock that shows the seconds in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def now(self) -> float:
        return self.elapsed()

    def elapsed(self) -> float:
        return float(self.file.read_text())

    def wait(self, event: Waitable, seconds: float) -> bool:
        raise NotImplementedError(f"nobody steps a wait of {seconds} s for {event}")


if __name__ == "__main__":
    file, model, *task = sys.argv[1:]
    arguments = RunArguments(Path.cwd(), task[0] if task else None, model=model, is_terminal=True)
    sys.exit(run_screen(arguments, FileClock(Path(file))))
