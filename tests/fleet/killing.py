"""Kills the processes of a fleet while it works, of every kind: what has to go on whatever ends."""

import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from fleet.fleet_driving import Fleet, git
from fleet.postgres import Postgres
from forked_commands import start_process
from processes import daemons_of, fields
from remit_fleet.board import Attempt, AttemptEnd, Board, Order, OrderKind, TaskState
from remit_fleet.database.store import attempts, leader, open_store, read_values
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.workflows import LANDING_WORKFLOW
from remit_fleet.states import FINAL_STATES
from waiting import wait_until

WORKERS, SLOTS, BATCH = 2, 2, 12
AGENT_S = 0.5
LOOK_S = 0.25
FIRST_LOOKS = 20
KINDS = {"worker": 4, "sweeper": 3, "lander": 3, "agent": 3, "helper": 2, "daemon": 1, "starter": 2, "database": 2}
"""How often each kind of process is chosen. A helper is whatever a worker has started: git, the jail, a hook."""
KINDS_OF_REMOTE = {"transport": 6, "remote": 2}
"""Beside them where hosts share a remote: git on its way to it; and the remote itself, which hangs for a while."""


def parent_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def list_descendants(pids: Collection[int]) -> list[int]:
    """Return the processes below these."""
    parents = {int(path.name): parent_of(path) for path in Path("/proc").glob("[0-9]*")}
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - set(pids))


def pid_of(worker: str) -> int:
    return int(worker.split(":")[-2])


def is_transport(pid: int) -> bool:
    words = fields(Path(f"/proc/{pid}/cmdline"))
    return any(word in words for word in ("push", "fetch", "ls-remote")) or "-pack" in " ".join(words)


def end_process(pid: int) -> bool:
    """Kill a process; False where it was gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Killer:
    """Runs a plan on a fleet, kills its processes at random moments, and plays the person whom stuck tasks ask."""

    def __init__(
        self, fleet: Fleet, server: Postgres | None, seed: int, *others: Fleet, remote: Path | None = None
    ) -> None:
        self.fleet = fleet
        self.fleets = [fleet, *others]
        self.remote = remote
        """Makes the remote hang while it exists."""
        self.server = server
        self.chance = random.Random(seed)
        url = server.url if server else f"sqlite:///{fleet.home / '.local/state/remit/fleet.db'}"
        for each in self.fleets:
            each.database = ["--database", url]
        self.engine = DbosEngine(open_store(url, fleet.home))
        self.kills: Counter[str] = Counter()
        self.ended_workers: dict[int, float] = {}
        """When each worker was killed, by its process id."""
        self.answers: Counter[str] = Counter()
        self.hangs = 0
        self.unstarted: list[str] = []
        self.starter: subprocess.Popen[bytes] | None = None

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        return [worker for fleet in self.fleets for worker in fleet.workers]

    # -- what is killed

    def find_victims(self, kind: str) -> list[int]:
        workers = [worker.pid for worker in self.workers if worker.poll() is None]
        match kind:
            case "worker":
                return workers
            case "sweeper":
                rows = self.engine.store.rows(sa.select(leader.c.holder))
                return [pid_of(row["holder"]) for row in rows if pid_of(row["holder"]) in workers]
            case "lander":
                begun = self.engine.queues.require_client().list_workflows(name=LANDING_WORKFLOW, status="PENDING")
                found = {pid_of(status.executor_id) for status in begun if status.executor_id}
                return sorted(found & set(workers))
            case "agent":
                return [pid for fleet in self.fleets for pid in fleet.agents_left()]
            case "helper":
                return list_descendants(workers)
            case "transport":
                return [pid for pid in list_descendants(workers) if is_transport(pid)]
            case "daemon":
                return [pid for fleet in self.fleets for pid in daemons_of(fleet.home)]
            case _:
                return []

    def kill(self) -> None:
        """Kill one process of a kind that there is now, and put a new worker into the place of one."""
        kinds = KINDS if self.remote is None else {**KINDS, **KINDS_OF_REMOTE}
        kind = self.chance.choices(list(kinds), list(kinds.values()))[0]
        if kind == "remote" and self.remote is not None:
            self.remote.touch()
            # It may hang already: who comes first lets it go on.
            answer = partial(self.remote.unlink, missing_ok=True)
            threading.Timer(self.chance.uniform(1.0, 15.0), answer).start()
            self.hangs += 1
            return
        if kind == "starter":
            if self.starter is not None and self.starter.poll() is None:
                self.kills[kind] += end_process(self.starter.pid)
            return
        if kind == "database":
            if self.server is not None:
                self.server.stop()
                time.sleep(self.chance.uniform(0.0, 2.0))
                self.server.start()
                self.kills[kind] += 1
            return
        victims = self.find_victims(kind)
        if not victims or not end_process(victim := self.chance.choice(victims)):
            return
        self.kills[kind] += 1
        self.ended_workers[victim] = time.time()
        for worker in self.workers:
            if worker.pid == victim:
                worker.wait()
        self.replace_workers()

    def replace_workers(self) -> None:
        for fleet in self.fleets:
            for worker in list(fleet.workers):
                if worker.poll() is not None:
                    fleet.workers.remove(worker)
            while len(fleet.workers) * len(self.fleets) < WORKERS:
                fleet.start_worker(SLOTS, AGENT_S)

    # -- what goes on meanwhile

    def read_board(self) -> Board:
        read: list[Board] = []

        def look() -> list[Board]:
            with suppress(DBAPIError):  # the server has been killed
                read.append(self.engine.read_board())
            return read

        wait_until(look, "the database does not come back", interval_s=LOOK_S)
        return read[0]

    def go_on(self) -> Board:
        """Start the next part of the plan, and answer what waits for a person."""
        board = self.read_board()
        if self.starter is None or self.starter.poll() is not None:
            self.unstarted = [id for id in self.unstarted if not any(id == intent for _, intent in board.tasks)]
            if self.unstarted and sum(task.state not in FINAL_STATES for task in board.tasks.values()) < BATCH:
                self.start_part(self.unstarted[:BATCH], board)
        with suppress(SQLAlchemyError):
            for task in board.tasks.values():
                if task.state is TaskState.STUCK or task.state is TaskState.ASKING:
                    self.answers[task.why[:60]] += 1
                    kind = OrderKind.RETRY if task.state is TaskState.STUCK else OrderKind.RESUME
                    self.engine.give_order(Order(0, task.repository, kind, task.intent, by="a person"))
            for plan in board.plans.values():
                if plan.is_paused:
                    self.answers["a paused plan"] += 1
                    self.engine.give_order(Order(0, plan.repository, OrderKind.RESUME, by="a person"))
        return board

    def start_part(self, ids: list[str], board: Board) -> None:
        """Start `remit plan start`, which may be killed at any moment: all of its tasks are on the board, or none."""
        started = {intent for _, intent in board.tasks}
        assert not started.intersection(ids)
        words = ["plan", "start", *ids, "--yes", *self.fleet.database]
        with (self.fleet.home / "starter.log").open("ab") as log:
            variables = self.fleet.variables or os.environ
            self.starter = start_process(words, self.fleet.root, variables, stdout=log, stderr=log)
        if self.chance.random() < 0.3:
            time.sleep(self.chance.uniform(0.2, 2.5))
            self.kills["starter"] += self.starter.poll() is None and end_process(self.starter.pid)
            self.starter.wait()

    def run(self, ids: list[str], kills: int, seconds: float, looks: tuple[int, int] = (2, 16)) -> None:
        """Kill so often while the tasks run, and wait until each has landed. Raises AssertionError.

        Between two kills it looks so many times at the plan.
        """
        self.unstarted = list(ids)
        self.replace_workers()
        board, due = Board(0.0), FIRST_LOOKS

        def go_on() -> bool:
            nonlocal board, due
            board, due = self.go_on(), due - 1
            if sum(task.state is TaskState.LANDED for task in board.tasks.values()) == len(ids):
                return True
            if sum(self.kills.values()) < kills and due <= 0:
                with suppress(SQLAlchemyError):
                    self.kill()
                due = self.chance.randint(*looks)
            self.replace_workers()
            return False

        wait_until(go_on, lambda: self.describe_rest(board), limit_s=seconds, interval_s=LOOK_S)

    def describe_rest(self, board: Board) -> str:
        rest = [f"{t.intent} {t.state} {t.why}" for t in board.tasks.values() if t.state not in FINAL_STATES]
        events = [f"{e.seq} {e.kind} {e.intent} {e.body}" for e in self.engine.read_events(0, 100_000)[-60:]]
        return "\n".join([*rest, *events, *self.diagnose(), *(fleet.logs() for fleet in self.fleets)])

    def diagnose(self) -> list[str]:
        """Return what the engine, the server and each worker are at."""
        known = self.engine.queues.require_client().list_workflows(status=["ENQUEUED", "PENDING"], load_output=False)
        told = [f"{w.workflow_id} {w.status} queue={w.queue_name} executor={w.executor_id}" for w in known]
        if self.server is not None:
            with self.engine.store.read() as connection:
                for table in ("pg_stat_activity", "pg_locks"):
                    rows = connection.exec_driver_sql(f"SELECT * FROM {table}").mappings()
                    told += [f"{table} { {k: str(v)[:300] for k, v in row.items() if v is not None} }" for row in rows]
        for worker in self.workers if shutil.which("py-spy") else ():
            words = ["py-spy", "dump", "--pid", str(worker.pid)]
            told += [subprocess.run(words, capture_output=True, text=True, check=False).stdout]
        below = list_descendants([worker.pid for worker in self.workers])
        return [*told, *(f"{pid} below {' '.join(fields(Path(f'/proc/{pid}/cmdline')))[:200]}" for pid in below)]

    def list_attempts(self) -> tuple[Attempt, ...]:
        with self.engine.store.read() as connection:
            return read_values(connection, Attempt, sa.select(attempts).order_by(attempts.c.attempt))

    def count_ended(self) -> int:
        return sum(task.state in FINAL_STATES for task in self.read_board().tasks.values())

    def measure_restarts(self) -> list[float]:
        """Return for each attempt that a kill of its worker ended the seconds until the next one's agent started."""
        found: list[float] = []
        every = self.list_attempts()
        for lost in every:
            killed_at = self.ended_workers.get(pid_of(lost.worker))
            if killed_at is None or lost.ended_as is not AttemptEnd.LOST or (lost.started_at or 0.0) > killed_at:
                continue
            later = [one.started_at for one in every if one.key == lost.key and one.attempt > lost.attempt]
            started = [at for at in later if at]
            found += [round(min(started) - killed_at, 2)] if started else []
        return found

    def tell_figures(self) -> str:
        ends = Counter(str(attempt.ended_as) for attempt in self.list_attempts())
        return f"{self.kills.total()} kills {dict(self.kills)}; attempts {dict(ends)}; answers {dict(self.answers)}"

    def list_left(self) -> list[str]:
        """Return the processes of this fleet that do not end, but its daemons and this one."""
        with suppress(AssertionError):  # a child of a killed process has to notice that
            wait_until(lambda: not self.list_running(), interval_s=LOOK_S)
        return self.list_running()

    def list_running(self) -> list[str]:
        """Return the processes of this fleet, without its daemons and this one."""
        daemons = {os.getpid(), *(pid for fleet in self.fleets for pid in daemons_of(fleet.home))}
        found = (path for path in Path("/proc").glob("[0-9]*") if int(path.name) not in daemons)
        homes = {f"HOME={fleet.home}" for fleet in self.fleets}
        mine = (path for path in found if homes.intersection(fields(path / "environ")))
        words = (" ".join(fields(path / "cmdline")) for path in mine)
        return [each for each in words if "forked_commands.py" not in each]  # which runs the driver's own commands

    def end_starter(self) -> None:
        if self.starter is not None:
            self.starter.kill()
            self.starter.wait()

    def close(self) -> None:
        self.end_starter()
        if self.engine.queues.client is not None:
            self.engine.queues.client.destroy()
        self.engine.store.close()


def list_leftovers(root: Path, home: Path, temporary: Path) -> list[str]:
    """Return what nothing will use again: locks and temporary files of git, folders of attempts, files in TMPDIR."""
    common = root / ".git"
    trees = home / ".local/share/remit/trees"
    listed = git(root, "worktree", "list", "--porcelain")
    found = [*common.rglob("*.lock"), *common.glob("objects/**/tmp_*"), *common.glob("objects/**/*.tmp*")]
    found += [*trees.glob("*/*.tmp"), *temporary.iterdir()]
    found += [tree for tree in trees.glob("*/tree-*") if str(tree.resolve()) not in listed]
    refs = git(root, "for-each-ref", "--format=%(refname)", "refs/remit/landing").split()
    return [*(re.sub(r"[0-9a-f]{6,}|tmp_\w+|[0-9]+", "…", str(path)) for path in found), *refs]
