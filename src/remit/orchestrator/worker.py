"""One executor of a host: its slots, heartbeat and renewals, the sweep by one leader, and the steps of an attempt.

A database that is away stops nothing at once: the loop tries again, and an agent whose lease may have ended is ended
here before anybody else can take its place.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, json
from msgspec.structs import replace
from sqlalchemy.exc import DBAPIError

from remit.core.intent import TRANSITIONS, Intent, Status
from remit.core.machine_paths import STATE_FOLDER
from remit.core.scope.path_patterns import Scope
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.orchestrator.agent import LOOK_INTERVAL_S, AgentCommand, AgentProcess, AgentRun, fill_words
from remit.orchestrator.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    FleetRepository,
    Hold,
    OrderKind,
    Task,
    TaskKey,
    TaskState,
    Worker,
)
from remit.orchestrator.brief import write_brief
from remit.orchestrator.engines.dbos import FLOW_VERSION, DbosEngine, StepEnd, launch_executor, stop_executor
from remit.orchestrator.feed import AgentFeed
from remit.orchestrator.holds import become_leader
from remit.orchestrator.store import FLEET_PATH
from remit.orchestrator.trees import (
    MergeConflict,
    commit_tree,
    find_base,
    land_branch,
    list_changes,
    make_tree,
    remove_tree,
)
from remit.workspace.intents_file.storage import IntentsFileChanged
from remit.workspace.processes.process_tracking import process_start_time
from remit.workspace.safe_files import write_atomically
from remit.workspace.sandbox.jail import find_bubblewrap

TREES_FOLDER = f"{STATE_FOLDER}/trees"
ASSIGNMENT_PATH = "remit/assignment.json"
MAX_RETRY_S = 5.0
PROGRESS_INTERVAL_S = 2.0
MAX_INTENT_TRIES = 20
PASSED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "GIT_CONFIG_NOSYSTEM")
"""Variables that every agent gets. None of them may hold a secret."""


class Assignment(Struct, frozen=True):
    """What the gate enforces in the worktree of an attempt; written after each renewal of the lease."""

    task: str
    intent: str
    attempt: int
    token: int
    until_boot_ns: int
    state: str
    scope: tuple[str, ...]
    scope_sha256: str
    role: str
    effects: tuple[str, ...]
    target: str
    base: str


class WorkerSettings(Struct, frozen=True):
    """What a worker is started with. `commands` are the agents that it can start, by name."""

    slots: int
    commands: Mapping[str, AgentCommand]
    variables: Mapping[str, str]
    home: Path
    environment: Environment
    until_idle: bool = False
    ensure_daemon: Callable[[], None] = lambda: None
    labels: Mapping[str, str] = {}
    version: str = ""


def name_worker() -> str:
    """Return an id that no process had before or will have: host, boot, process, and when it began."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = boot.read_text().strip()[:8] if boot.exists() else "0"
    return f"{socket.gethostname()}:{boot_id}:{os.getpid()}:{process_start_time(os.getpid())}"


class FleetWorker:
    """An executor: `run` blocks until it is drained, idle, or `stop` was called."""

    def __init__(self, engine: DbosEngine, settings: WorkerSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.id = name_worker()
        self.stopping = threading.Event()
        self.running: dict[int, AgentProcess] = {}
        self.renewed: dict[int, float] = {}  # boot time of the last renewal by token
        self.paused: set[TaskKey] = set()
        self.bubblewrap = find_bubblewrap()
        self.intents_lock = threading.Lock()

    def describe(self) -> Worker:
        return Worker(
            id=self.id,
            host=socket.gethostname(),
            boot=self.id.split(":")[1],
            slots=self.settings.slots,
            agents=tuple(self.settings.commands),
            labels=self.settings.labels,
            version=self.settings.version,
            flow=FLOW_VERSION,
        )

    # -- the loop

    def run(self) -> None:
        timing = self.engine.timing
        self.retry(lambda: launch_executor(self.engine, self.id, self.settings.slots, self))
        due_sweep = 0.0
        try:
            while not self.stopping.is_set():
                self.try_once(self.beat)
                self.end_overdue()
                if time.monotonic() >= due_sweep:
                    due_sweep = time.monotonic() + timing.sweep_s
                    self.try_once(self.look_after_fleet)
                    if self.settings.until_idle and self.is_idle():
                        break
                self.stopping.wait(timing.beat_s / 2)
        finally:
            for process in list(self.running.values()):
                process.cancel(AttemptEnd.LOST, "its worker was stopped")
            with suppress(DBAPIError):
                self.engine.remove_worker(self.id)
            stop_executor()

    def retry(self, action: Callable[[], None]) -> None:
        """Do it until the database answers, or the worker is stopped."""
        pause_s = 0.1
        while True:
            try:
                action()
                return
            except DBAPIError:
                if self.stopping.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, MAX_RETRY_S)

    def try_once(self, action: Callable[[], None]) -> None:
        with suppress(DBAPIError):
            action()

    def beat(self) -> None:
        """Renew the leases; end agents whose attempt has been superseded; pass on what people ordered."""
        asked = time.clock_gettime(time.CLOCK_BOOTTIME)
        held = {hold.token: hold for hold in self.engine.beat(self.describe())}
        for token, process in list(self.running.items()):
            if token not in held:
                process.cancel(AttemptEnd.SUPERSEDED, "another attempt has its place")
        for order in self.engine.take_orders(self.id):
            for hold in held.values():
                if order.intent in ("", hold.intent) and order.repository == hold.repository:
                    self.pass_on(order.kind, hold)
        for hold in held.values():
            self.renewed[hold.token] = asked
            self.write_assignment(hold, asked)

    def pass_on(self, kind: OrderKind, hold: Hold) -> None:
        if kind is OrderKind.PAUSE:
            self.paused.add(hold.key)
        elif kind is OrderKind.RESUME:
            self.paused.discard(hold.key)

    def end_overdue(self) -> None:
        """End agents that could not be renewed for so long that another worker may soon take their place."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        for token, process in list(self.running.items()):
            if now - self.renewed.get(token, now) > self.engine.timing.assignment_s:
                process.cancel(AttemptEnd.LOST, "the database did not answer in time")

    def look_after_fleet(self) -> None:
        """Schedule, and as the one leader end what dead workers left."""
        timing = self.engine.timing
        with self.engine.store.write() as connection:
            leads = become_leader(self.engine.store, connection, "sweep", self.id, 3 * timing.sweep_s)
        if leads:
            self.engine.sweep()
        if self.engine.is_draining(self.id):
            if not self.running:
                self.stopping.set()
            return
        self.engine.dispatch()

    def is_idle(self) -> bool:
        try:
            board = self.engine.read_board()
        except DBAPIError:
            return False
        final = (TaskState.LANDED, TaskState.STUCK, TaskState.BLOCKED, TaskState.DROPPED, TaskState.ASKING)
        return all(task.state in final for task in board.tasks)

    # -- an attempt, step by step

    def run_step(self, step: str, attempt: Attempt) -> StepEnd:
        steps: dict[str, Callable[[Attempt], StepEnd]] = {
            "prepare": self.prepare,
            "run": self.run_agent,
            "check": self.check,
            "hand_in": self.hand_in,
        }
        try:
            return steps[step](attempt)
        except Exception as error:  # noqa: BLE001  whatever breaks, the attempt has to end, and its hold to be released
            return StepEnd(AttemptEnd.FAILED, f"{type(error).__name__}: {error}"[:500])

    def prepare(self, attempt: Attempt) -> StepEnd:
        """Make the worktree, and move the intent on first: a worktree without the folder cannot."""
        root = self.find_root(attempt.repository)
        self.move_intent(root, attempt.intent, "IN_PROGRESS")
        base = find_base(root, self.load_repository(attempt.repository).target)
        place = self.place_of(attempt)
        make_tree(root, place, attempt.branch, base)
        (place.with_name(f"{place.name}.tmp")).mkdir(exist_ok=True)
        moved = False

        def move() -> None:
            nonlocal moved
            moved = self.engine.move_attempt(attempt.token, attempt.key, AttemptState.PREPARED, base=base)

        self.retry(move)
        return StepEnd() if moved else SUPERSEDED

    def run_agent(self, attempt: Attempt) -> StepEnd:
        """Run the agent to its end. An agent of an earlier try of this step has ended with its worker."""
        command = self.settings.commands.get(attempt.agent)
        task, neighbours = self.load_task(attempt)
        if command is None or task is None:
            return StepEnd(AttemptEnd.FAILED, f"this worker has no agent {attempt.agent!r}")
        process = AgentProcess(self.describe_run(attempt, task, neighbours, command))
        if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED):
            return SUPERSEDED
        self.settings.ensure_daemon()
        self.running[attempt.token] = process
        self.renewed.setdefault(attempt.token, time.clock_gettime(time.CLOCK_BOOTTIME))
        told = Report(self.engine, attempt)
        try:
            end = process.wait(told.tell)
        finally:
            del self.running[attempt.token]
            self.renewed.pop(attempt.token, None)
            self.paused.discard(attempt.key)
        if end.ended_as is not None:
            return StepEnd(end.ended_as, end.why)
        if end.code:
            return StepEnd(AttemptEnd.FAILED, f"it ended with {end.code}: {process.feed.tail}"[:500])
        return StepEnd()

    def describe_run(self, attempt: Attempt, task: Task, neighbours: list[Hold], command: AgentCommand) -> AgentRun:
        root = self.find_root(attempt.repository)
        gate = Gate.open(root, self.settings.environment)
        intent: Intent = gate.intents.get(attempt.intent)
        prompt = write_brief(attempt, task, gate.intents.format_block(intent), neighbours)
        place = self.place_of(attempt)
        temporary = place.with_name(f"{place.name}.tmp")
        settings, home = self.settings, self.settings.home
        names = (*PASSED_VARIABLES, *command.variables)
        common = gate.workspace.common_dir
        fleet = [home / f"{FLEET_PATH}{end}" for end in ("", "-wal", "-shm")]
        own = [home / folder for folder in settings.environment.own_folders] if settings.environment.own_folders else []
        writable = [place, temporary, home / STATE_FOLDER, gate.workspace.folder, *([common] if common else []), *own]
        return AgentRun(
            words=fill_words(command, prompt=prompt, intent=attempt.intent, model=attempt.model),
            folder=place,
            variables={
                **{name: settings.variables[name] for name in names if name in settings.variables},
                "TMPDIR": str(temporary),
                "REMIT_INTENT": attempt.intent,
            },
            log=place.with_name(f"{place.name}.log"),
            writable=tuple(path for path in writable if path.exists()),
            hidden=tuple(path for path in fleet if path.exists()),
            bubblewrap=self.bubblewrap,
            stall_s=self.load_repository(attempt.repository).stall_s,
        )

    def check(self, attempt: Attempt) -> StepEnd:
        """Commit what the agent left, unless it is nothing or lies outside its set."""
        place = self.place_of(attempt)
        task, _ = self.load_task(attempt)
        scope = Scope(task.scope if task else ())
        changed = list_changes(place, attempt.base)
        outside = [path for path in changed if not scope.matches(path)]
        if outside:
            return StepEnd(AttemptEnd.FAILED, f"it changed what is not its own: {', '.join(outside[:5])}"[:500])
        if not changed:
            return StepEnd(AttemptEnd.GAVE_UP, "it changed nothing")
        commit_tree(place, f"{attempt.intent}: attempt {attempt.attempt}\n\nIntent: {attempt.intent}", attempt.agent)
        return StepEnd()

    def hand_in(self, attempt: Attempt) -> StepEnd:
        head = find_base(self.find_root(attempt.repository), attempt.branch)
        handed = self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED, head=head)
        return StepEnd() if handed else SUPERSEDED

    # -- landing

    def land(self, repository: str, target: str) -> bool:
        """Land what is handed in, one after the other. A part that was done before the worker died is found done."""
        root = self.find_root(repository)
        board = self.engine.read_board()
        ready = [
            task
            for task in board.tasks
            if task.repository == repository and task.state in (TaskState.HANDED_IN, TaskState.LANDING)
        ]
        for task in ready:
            hold = next((hold for hold in board.holds if hold.key == task.key), None)
            if hold is None:
                continue
            branch = f"remit/{task.intent}/{hold.attempt}"
            try:
                old, new = land_branch(root, target, branch, f"Land {task.intent}\n\nIntent: {task.intent}")
            except MergeConflict as conflict:
                self.engine.set_landed(hold, "", "", str(conflict)[:500])
                continue
            if self.engine.set_landed(hold, old, new, ""):
                self.move_intent(root, task.intent, "DONE")
                remove_tree(root, self.place_of_hold(hold))
        return bool(ready)

    # -- places and values

    def move_intent(self, root: Path, intent_id: str, to: Status) -> None:
        """Move an intent on in the main worktree, unless it is there already. Others may write the file, too."""
        for _ in range(MAX_INTENT_TRIES):
            gate = Gate.open(root, self.settings.environment)
            if to not in TRANSITIONS[gate.intents.get(intent_id).status]:
                return
            try:
                with self.intents_lock:
                    gate.intents.set_status(intent_id, to, by="fleet")
                return
            except IntentsFileChanged:
                time.sleep(LOOK_INTERVAL_S)

    def load_repository(self, id: str) -> FleetRepository:
        return next(each for each in self.engine.read_board().repositories if each.id == id)

    def find_root(self, repository: str) -> Path:
        return Path(self.load_repository(repository).url)

    def place_of(self, attempt: Attempt) -> Path:
        return self.tree_place(attempt.repository, attempt.intent, attempt.attempt)

    def place_of_hold(self, hold: Hold) -> Path:
        return self.tree_place(hold.repository, hold.intent, hold.attempt)

    def tree_place(self, repository: str, intent: str, attempt: int) -> Path:
        return self.settings.home / TREES_FOLDER / repository / f"{intent}-{attempt}"

    def load_task(self, attempt: Attempt) -> tuple[Task | None, list[Hold]]:
        board = self.engine.read_board()
        task = next((task for task in board.tasks if task.key == attempt.key and task.state != "landed"), None)
        others = [hold for hold in board.holds if hold.repository == attempt.repository and hold.key != attempt.key]
        return task, others

    def write_assignment(self, hold: Hold, renewed: float) -> None:
        """Tell the gate of the worktree how long the attempt may act, and whether it is paused."""
        place = self.place_of_hold(hold)
        git_folder = read_git_folder(place)
        if git_folder is None:
            return
        target = self.load_repository(hold.repository).target
        until = int((renewed + self.engine.timing.assignment_s) * 1e9)
        assignment = Assignment(
            task=f"{hold.repository}:{hold.intent}",
            intent=hold.intent,
            attempt=hold.attempt,
            token=hold.token,
            until_boot_ns=until,
            state="paused" if hold.key in self.paused else "active",
            scope=hold.scope,
            scope_sha256=hold.scope_sha256,
            role="builder",
            effects=("read", "write", "execute"),
            target=target,
            base="",
        )
        path = git_folder / ASSIGNMENT_PATH
        path.parent.mkdir(exist_ok=True, mode=0o700)
        write_atomically(path, json.encode(assignment), durable=False)


SUPERSEDED = StepEnd(AttemptEnd.SUPERSEDED, "another attempt has its place")


class Report:
    """Tells the board what an agent used and does, at most every two seconds."""

    def __init__(self, engine: DbosEngine, attempt: Attempt) -> None:
        self.engine = engine
        self.attempt = attempt
        self.due = 0.0
        self.said = ""

    def tell(self, feed: AgentFeed) -> None:
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + PROGRESS_INTERVAL_S
        usage = feed.usage
        used = replace(
            self.attempt,
            turns=usage.turns,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            usd=usage.usd,
        )
        said, self.said = self.said, feed.progress
        if used == self.attempt and said == feed.progress:
            return
        self.attempt = used
        with suppress(DBAPIError):
            self.engine.record_usage(used.token, used, feed.progress if said != feed.progress else "")


def read_git_folder(place: Path) -> Path | None:
    """Return the private git folder of a worktree; None where there is none."""
    with suppress(OSError):
        key, _, folder = (place / ".git").read_text().strip().partition(": ")
        return Path(folder) if key == "gitdir" else None
    return None
