"""Drives a fleet from outside: a governed repository, workers as processes, and what the database says of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from forked_commands import run_command
from processes import fields, kill_daemons
from remit.core.untrusted_input import encode_json
from remit.orchestrator.fleet import name_repository, open_fleet

REMIT = [sys.executable, "-c", "from remit.cli import main; main()"]
AGENT = Path(__file__).with_name("small_agent.py")
WAIT_S = 400.0
PACE = "0.4"
"""Intervals are shorter than those of a real fleet: a worker is dead after eight seconds."""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout


class Fleet:
    """A repository with intents of a folder each, and the workers that a test started."""

    agent = AGENT

    def __init__(self, home: Path, root: Path, database: str | None = None, pace: str = PACE) -> None:
        self.home = home
        self.root = root
        self.url = database
        self.pace = pace
        self.database = ["--database", database] if database else []
        self.variables: dict[str, str] = {}
        """The environment of its processes, where that is not the test's."""
        self.workers: list[subprocess.Popen[bytes]] = []

    def remit(self, *words: str, code: int = 0) -> str:
        done = run_command(words, self.root, self.variables or os.environ)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def govern(self, count: int) -> list[str]:
        """Make a governed repository with so many intents, and return their ids."""
        self.root.mkdir()
        git(self.root, "init", "-q")
        (self.root / "README.md").write_text("# Example\n")
        self.remit("init", "--yes")
        ids = [f"INT-{number:03}" for number in range(1, count + 1)]
        self.remit("intent", "new", f"make {ids[0]}", "--scope", f"src/{ids[0].lower()}/**")
        intents = self.root / ".orchestration/active_intents.yaml"
        before, mark, first = intents.read_text().rpartition("  - id: ")
        made = (first.replace(ids[0], id).replace(ids[0].lower(), id.lower()) for id in ids)
        intents.write_text(before + "".join(f"{mark}{text}" for text in made))
        self.remit("mode", "enforce")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "first")
        return ids

    def agent_option(self, seconds: float = 0.5, *more: str) -> str:
        return f"--agent-command=small={sys.executable} {self.agent} {{intent}} {seconds} {' '.join(more)}"

    def start_worker(self, slots: int = 2, seconds: float = 0.5, *more: str) -> subprocess.Popen[bytes]:
        return self.start_agents(slots, [self.agent_option(seconds, *more)])

    def start_agents(self, slots: int, options: list[str]) -> subprocess.Popen[bytes]:
        """Start a worker with these `--agent-command` options."""
        words = ["worker", f"--slots={slots}", f"--pace={self.pace}", *self.database, *options]
        with (self.home / f"worker-{len(self.workers)}.log").open("wb") as log:
            variables = {**(self.variables or os.environ), "PYTHONFAULTHANDLER": "1"}
            worker = subprocess.Popen([*REMIT, *words], env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.workers.append(worker)
        return worker

    def start_plan(self, ids: list[str]) -> str:
        return self.remit("plan", "start", *ids, "--yes", *self.database)

    def status(self) -> dict[str, dict[str, Any]]:
        answer = json.loads(self.remit("plan", "status", "--json", *self.database))
        return {task["intent"]: task for task in answer["data"]["tasks"]}

    def read_tasks(self) -> dict[str, dict[str, Any]]:
        """Return what `status` does, without a process: a wait that starts one at each look keeps a core busy."""
        engine = open_fleet(self.url, self.home)
        try:
            tasks = engine.read_board().tasks.values()
        finally:
            engine.store.close()
        mine = name_repository(self.root)
        return {task.intent: json.loads(encode_json(task)) for task in tasks if task.repository == mine}

    def attempts(self, id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.remit("task", "show", id, "--json", *self.database))["data"][
            "attempts"
        ]
        return found

    def wait_for(self, holds: Callable[[dict[str, dict[str, Any]]], bool], seconds: float = WAIT_S) -> None:
        until = time.monotonic() + seconds
        while not holds(now := self.read_tasks()):
            if time.monotonic() >= until:
                log, processes = self.remit("plan", "log", *self.database), self.list_processes()
                self.abort_workers()
                pytest.fail(f"{now}\n{log}\n{processes}\n{self.logs()}")
            time.sleep(0.2)

    def wait_until_landed(self, seconds: float = WAIT_S) -> None:
        self.wait_for(lambda now: bool(now) and all(task["state"] == "landed" for task in now.values()), seconds)
        assert {task["state"] for task in self.status().values()} == {"landed"}

    def landings(self) -> list[str]:
        """Return the intent of each landing in the target's history."""
        form = "--format=%(trailers:key=Remit-Intent,valueonly)"
        return git(self.root, "log", "--first-parent", "--merges", form, "remit/next").split()

    def has_logged(self, text: str) -> bool:
        """Tell whether a worker ever said this: a library floods the logs while a database is away."""
        return any(text in path.read_text("utf-8", "replace") for path in self.home.glob("worker*.log"))

    def logs(self) -> str:
        return "\n".join(path.read_text("utf-8", "replace")[-9000:] for path in sorted(self.home.glob("worker*.log")))

    def list_processes(self) -> str:
        """Return the processes of this home, with what each waits for."""
        home = f"HOME={self.home}"
        found = [path for path in Path("/proc").glob("[0-9]*") if home in fields(path / "environ")]
        return "\n".join(
            f"{path.name} {fields(path / 'stat')} {fields(path / 'wchan')} {fields(path / 'cmdline')}" for path in found
        )

    def abort_workers(self) -> None:
        """End the workers, each with the stacks of its threads in its log."""
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
            worker.send_signal(signal.SIGABRT)
        for worker in self.workers:
            worker.wait(20)

    def stop(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        kill_daemons(self.home)

    def release_agents(self) -> None:
        """Let the agents go on that wait, and those that are about to."""
        released: set[int] = set()
        until = time.monotonic() + WAIT_S
        while not released or self.python_agents() - released:
            for pid in self.python_agents() - released:
                with suppress(OSError):  # it has ended meanwhile
                    if is_caught(pid, signal.SIGUSR1):
                        os.kill(pid, signal.SIGUSR1)
                        released.add(pid)
            assert time.monotonic() < until, self.list_processes()
            time.sleep(0.05)

    def python_agents(self) -> set[int]:
        """Return the agents themselves, and those that are about to become their jails."""
        left = self.agents_left()
        return {pid for pid in left if fields(Path(f"/proc/{pid}/cmdline"))[:1] == [sys.executable]}

    def wait_until_agents_end(self) -> None:
        self.wait_for(lambda _: not self.agents_left())

    def agents_left(self) -> list[int]:
        """Return processes of agents of this home that still run."""
        found = (path for path in Path("/proc").glob("[0-9]*"))
        return [
            int(path.name)
            for path in found
            if str(self.agent) in fields(path / "cmdline") and f"HOME={self.home}" in fields(path / "environ")
        ]


def is_caught(pid: int, number: signal.Signals) -> bool:
    """Tell whether a process has a handler for a signal. Raises OSError."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


class PatientFleet(Fleet):
    """A fleet of agents that wait for a person."""

    agent = AGENT.with_name("patient_agent.py")

    def agent_option(self, seconds: float = 0.5, *more: str) -> str:
        return f"--agent-command={more[0] if more else 'patient'}={sys.executable} {self.agent} {{intent}}"

    def start_patient(self, ids: list[str]) -> None:
        self.start_worker(2)
        self.start_plan(ids)
        for id in ids:
            self.wait_for(lambda now, id=id: now[id]["state"] == "running" and self.find_tree(id) is not None)

    def find_tree(self, id: str) -> Path | None:
        """Return the worktree in which an agent has begun its work."""
        trees = (self.home / ".local/share/remit/trees").glob("*/tree-*")
        return next((tree for tree in trees if (tree / f"src/{id.lower()}/begun.py").exists()), None)
