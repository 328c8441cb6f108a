"""Drives a fleet from outside: a governed repository, workers as processes, and what the database says of them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from forked_commands import run_command, start_process
from processes import fields, kill_daemons
from remit.core.untrusted_input import encode_json
from remit_fleet.board import Board
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.fleet import name_repository, open_fleet
from waiting import wait_until

AGENT = Path(__file__).with_name("small_agent.py")
WAIT_S = 600.0
ENDS = {"landed", "stuck", "blocked", "dropped", "asking"}
"""States that a task leaves only where a person says so."""
PACE = "0.4"
"""Intervals are shorter than those of a real fleet: a worker is dead after eight seconds."""
Tasks = Mapping[str, dict[str, Any]]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout


class PlanRepository:
    """A repository with intents of a folder each, whose plans a person drives by commands; no worker runs."""

    def __init__(self, home: Path, root: Path, database: str | None = None) -> None:
        self.home = home
        self.root = root
        self.url = database
        self.database = ["--database", database] if database else []
        self.variables: dict[str, str] = {}
        """The environment of its processes, where that is not the test's."""

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
        first = self.intent_file(ids[0]).read_text()
        for id in ids[1:]:
            self.intent_file(id).write_text(first.replace(ids[0], id).replace(ids[0].lower(), id.lower()))
        self.remit("mode", "enforce")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "first")
        return ids

    def intent_file(self, id: str) -> Path:
        return self.root / f".orchestration/intents/{id}-make-{id.lower()}.yaml"

    def start_plan(self, ids: list[str]) -> str:
        return self.remit("plan", "start", *ids, "--yes", *self.database)

    def status(self) -> dict[str, dict[str, Any]]:
        answer = json.loads(self.remit("plan", "status", "--json", *self.database))
        return {task["intent"]: task for task in answer["data"]["tasks"]}

    def attempts(self, id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.remit("task", "show", id, "--json", *self.database))["data"][
            "attempts"
        ]
        return found

    def landings(self) -> list[str]:
        """Return the intent of each landing in the target's history."""
        form = "--format=%(trailers:key=Remit-Intent,valueonly)"
        return git(self.root, "log", "--first-parent", "--merges", form, "remit/next").split()


class Fleet(PlanRepository):
    """Such a repository, and the workers that a test started."""

    agent = AGENT

    def __init__(self, home: Path, root: Path, database: str | None = None, pace: str = PACE) -> None:
        super().__init__(home, root, database)
        self.pace = pace
        self.workers: list[subprocess.Popen[bytes]] = []

    def agent_option(self, seconds: float = 0.5, *more: str) -> str:
        return f"--agent-command=small={sys.executable} {self.agent} {{intent}} {seconds} {' '.join(more)}"

    def start_worker(self, slots: int = 2, seconds: float = 0.5, *more: str) -> subprocess.Popen[bytes]:
        return self.start_agents(slots, [self.agent_option(seconds, *more)])

    def start_agents(self, slots: int, options: list[str]) -> subprocess.Popen[bytes]:
        """Start a worker with these `--agent-command` options."""
        words = ["worker", f"--slots={slots}", f"--pace={self.pace}", *self.database, *options]
        with (self.home / f"worker-{len(self.workers)}.log").open("wb") as log:
            variables = {**(self.variables or os.environ), "PYTHONFAULTHANDLER": "1"}
            worker = start_process(words, None, variables, stdout=log, stderr=log)
        self.workers.append(worker)
        return worker

    @contextmanager
    def open_engine(self) -> Generator[DbosEngine]:
        engine = open_fleet(self.url, self.home, float(self.pace))
        try:
            yield engine
        finally:
            engine.store.close()

    def wait_for(self, holds: Callable[[Tasks], object], explain_end: Callable[[Board], object] = lambda _: "") -> None:
        """Wait for what the board says, without a process for each look. What explains its end ends it at once."""
        mine, board = name_repository(self.root), Board(0.0)

        def look() -> object:
            nonlocal board
            board = engine.read_board()
            tasks = (task for task in board.tasks.values() if task.repository == mine)
            return holds({task.intent: json.loads(encode_json(task)) for task in tasks})

        with self.open_engine() as engine:
            self.wait_until(look, lambda: explain_end(board))

    def wait_for_state(self, state: str, *ids: str) -> None:
        """Wait until these tasks, or all, are in a state. It ends at once where one of them comes to another end, its
        plan is paused, or no worker is left.
        """

        def explain_end(board: Board) -> str:
            tasks = [task for task in board.tasks.values() if not ids or task.intent in ids]
            ended = [f"{task.intent} is {task.state}: {task.why}" for task in tasks if task.state in ENDS - {state}]
            paused = [f"plan {plan.id} is paused" for plan in board.plans.values() if plan.is_paused]
            codes = [worker.poll() for worker in self.workers]
            dead = [f"each worker ended: {codes}"] if codes and None not in codes else []
            return "\n".join([*ended, *paused, *dead])

        def holds(now: Tasks) -> bool:
            return bool(now) and all(now[id]["state"] == state for id in ids or now)

        self.wait_for(holds, explain_end)

    def wait_until_landed(self) -> None:
        self.wait_for_state("landed")
        assert {task["state"] for task in self.status().values()} == {"landed"}

    def wait_for_workers(self, count: int = 1) -> None:
        """Wait until so many workers have signed."""
        with self.open_engine() as engine:
            self.wait_until(lambda: len(engine.read_board().workers) >= count)

    def wait_for_event(self, state: str, count: int = 1) -> None:
        """Wait until the feed has so many events that tell this state."""
        with self.open_engine() as engine:
            self.wait_until(lambda: [event.body.get("state") for event in engine.read_events(0)].count(state) >= count)

    def wait_for_beats(self, lives: int = 1) -> None:
        """Wait until each worker has signed for so many times as long as a silent one lives."""
        with self.open_engine() as engine:
            first = {worker.id: worker.beat_at for worker in engine.read_board().workers.values()}
            enough = lives * engine.timing.dead_after_s

            def have_signed() -> bool:
                now = engine.read_board().workers
                return all(id in now and now[id].beat_at >= at + enough for id, at in first.items())

            assert first
            self.wait_until(have_signed)

    def wait_until(self, holds: Callable[[], object], has_failed: Callable[[], object] = lambda: None) -> None:
        """Wait for what this fleet does. Where that never comes, its logs tell the stacks of its workers' threads."""
        wait_until(holds, self.describe, has_failed=has_failed, limit_s=WAIT_S, interval_s=0.2)

    def describe(self) -> str:
        """What the plan and its workers were at; ends the workers."""
        log = run_command(("plan", "log", *self.database), self.root, self.variables or os.environ)
        processes = self.list_processes()
        self.abort_workers()
        return f"{log.stdout}{log.stderr}\n{processes}\n{self.logs()}"

    def find_worktree(self, id: str) -> Path | None:
        """Return the worktree of an intent's attempt, once it is made."""
        listed = git(self.root, "worktree", "list", "--porcelain").split("\n\n")
        found = [each.split()[1] for each in listed if f"branch refs/heads/remit/{id}/" in each]
        return Path(found[0]) if found else None

    def touch_go(self, id: str) -> None:
        """Make the file for which the agent of an intent waits."""
        self.wait_until(lambda: self.find_worktree(id))
        tree = self.find_worktree(id)
        assert tree is not None
        go = tree / f"src/{id.lower()}/go"
        go.parent.mkdir(parents=True, exist_ok=True)
        go.touch()

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

    def suspend(self, worker: subprocess.Popen[bytes]) -> None:
        """Stop a worker, and not within a transaction: it would keep the database from all others."""
        with self.open_engine() as engine, engine.store.write() as connection:
            if engine.store.dialect == "postgresql":
                connection.exec_driver_sql("LOCK TABLE remit.workers IN EXCLUSIVE MODE")
            worker.send_signal(signal.SIGSTOP)

    def abort_workers(self) -> None:
        """End the workers, each with the stacks of its threads in its log."""
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
            worker.send_signal(signal.SIGABRT)
        for worker in self.workers:
            worker.wait(WAIT_S)

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

        def release() -> bool:
            for pid in self.python_agents() - released:
                with suppress(OSError):  # it has ended meanwhile
                    if is_caught(pid, signal.SIGUSR1):
                        os.kill(pid, signal.SIGUSR1)
                        released.add(pid)
            return bool(released) and not self.python_agents() - released

        self.wait_until(release)

    def python_agents(self) -> set[int]:
        """Return the agents themselves, and those that are about to become their jails."""
        left = self.agents_left()
        return {pid for pid in left if fields(Path(f"/proc/{pid}/cmdline"))[:1] == [sys.executable]}

    def wait_until_agents_end(self) -> None:
        self.wait_until(lambda: not self.agents_left())

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
            self.wait_until_begun(id)

    def wait_until_begun(self, id: str) -> None:
        self.wait_for_state("running", id)
        self.wait_until(lambda: self.find_tree(id))

    def find_tree(self, id: str) -> Path | None:
        """Return the worktree in which an agent has begun its work."""
        trees = (self.home / ".local/share/remit/trees").glob("*/tree-*")
        return next((tree for tree in trees if (tree / f"src/{id.lower()}/begun.py").exists()), None)
