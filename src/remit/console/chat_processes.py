"""Runs of Remit's own agent that a person talks with in the console: a process each, `remit run --input json`.

A run's journal is what a page shows; the process takes the person's words. A process without words for some time ends,
as do all of them with the console, once their turn is over; the next words take the run up again.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from remit.console.guard import Refused
from remit.core.clock import Clock
from remit.core.untrusted_input import as_object, as_text
from remit.servers.call_slots import give_back_limit
from remit.servers.environment import AGENT_VARIABLES
from remit.workspace.system_clock import SYSTEM_CLOCK

MAX_RUNS = 8
MAX_QUIET_S = 900.0
START_LIMIT_S = 60.0
MAX_STREAMED_CHARS = 20_000
RUN_AGENT = "from remit.cli import main; main()"


class ChatProcess:
    """The process of one run. `streamed` is the text of the turn under way."""

    def __init__(self, root: str, words: Sequence[str], clock: Clock) -> None:
        self.clock = clock
        command = [sys.executable, "-I", "-c", RUN_AGENT, "run", "--json", "--input", "json", "--repo", root, *words]
        # The daemon may have been started by an agent's hook; this run is a person's.
        variables = {name: value for name, value in os.environ.items() if name not in AGENT_VARIABLES}
        self.process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables
        )
        give_back_limit(self.process.pid)
        self.id = self.streamed = ""
        self.error: dict[str, Any] = {}
        self.spoke_at = self.clock.elapsed()
        self.has_begun = threading.Event()
        threading.Thread(target=self.follow, name="console-run", daemon=True).start()

    @property
    def is_open(self) -> bool:
        return self.process.poll() is None

    def follow(self) -> None:
        """Read the run's events to their end, in a thread."""
        assert self.process.stdout is not None
        with self.process.stdout as events:
            for line in events:
                self.spoke_at = self.clock.elapsed()
                self.take_event(as_object(json.loads(line)))
        self.process.wait()
        self.end()
        self.has_begun.set()

    def take_event(self, event: dict[str, Any]) -> None:
        data = as_object(event.get("data"))
        match event.get("event"):
            case "started":
                self.id = as_text(data.get("run")) or ""
                self.has_begun.set()
            case "text" if not event.get("child"):
                self.streamed = (self.streamed + (as_text(data.get("text")) or ""))[-MAX_STREAMED_CHARS:]
            case "turn" | "retracted" if not event.get("child"):
                self.streamed = ""
            case None:
                self.error = as_object(event.get("error"))
            case _:
                pass

    def tell(self, line: dict[str, Any]) -> None:
        """Give the run a line of input. Raises OSError if the process has ended."""
        assert self.process.stdin is not None
        self.spoke_at = self.clock.elapsed()
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Let the process end after the turn under way."""
        if self.process.stdin is not None:
            with suppress(OSError):  # what was not read of it is lost with the process
                self.process.stdin.close()


class ChatProcesses:
    """The runs that are open in the console. Thread-safe."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.runs: dict[str, ChatProcess] = {}
        self.lock = threading.Lock()

    def find(self, run_id: str) -> ChatProcess | None:
        found = self.runs.get(run_id)
        return found if found is not None and found.is_open else None

    def begin(self, root: str, *words: str) -> ChatProcess:
        """Begin a run, or take one up again, with these words of `remit run`. Raises Refused with its error."""
        with self.lock:
            self.end_quiet()
            if len(self.runs) >= MAX_RUNS:
                raise Refused(429, f"{MAX_RUNS} runs are open in the console", "stop one, or use `remit run`")
            run = ChatProcess(root, words, self.clock)
            if not run.has_begun.wait(START_LIMIT_S) or not run.id:
                run.process.kill()
                message = as_text(run.error.get("message")) or "the agent did not begin"
                raise Refused(400, message, as_text(run.error.get("fix")) or "try `remit run` in a terminal")
            self.runs[run.id] = run
        return run

    def tell(self, root: str, run_id: str, line: dict[str, Any]) -> None:
        """Give a run a line of input; a run without a process is taken up again. Raises Refused."""
        run = self.find(run_id) or self.begin(root, "--resume", run_id)
        try:
            run.tell(line)
        except OSError:
            raise Refused(409, "the run has just ended", "say it again") from None

    def end_quiet(self) -> None:
        for run_id, run in list(self.runs.items()):
            if not run.is_open:
                del self.runs[run_id]
            elif self.clock.elapsed() - run.spoke_at > MAX_QUIET_S:
                run.end()
                del self.runs[run_id]

    def close(self) -> None:
        for run in self.runs.values():
            run.end()
