"""A plan of three intents in one process: a real repository, worktrees, board and lander; no worker and no agent.

What is handed in lands when the test says so.
"""

from pathlib import Path

from conftest import run_git
from gate.driving import governed, machine
from remit.core.assignment import Assignment, hash_scope
from remit.gate.gate import Gate
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.worktrees import Worktrees
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Claim,
    FleetRepository,
    OpenPlan,
    Order,
    OrderKind,
    PlanLimits,
    Role,
    Task,
    Worker,
)
from remit_fleet.database.rows import change_rows
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine, Timing
from remit_fleet.moves import claim_task
from remit_fleet.rebuild import rebuild_plan
from remit_fleet.workers.host import WorkerSettings
from remit_fleet.workers.landing_rounds import find_base, land_handed_in, trees_folder
from remit_fleet.workers.starting_point import find_starting_point
from remit_fleet.workers.worker import FleetWorker

IDS = ("INT-001", "INT-002", "INT-003")
REPOSITORY, TARGET = "repo", "remit/next"
AUTHOR = Identity("An Agent", "agent@example.org", 1_700_000_000)
ROLES = {"builder": Role("builder")}
FILE = """\
version: "1.0"
active_intents:
""" + "".join(
    f"""\
  - id: {id}
    name: Part {id}
    status: IN_PROGRESS
    owned_scope: ["src/{id.lower()}/**"]
    constraints: [none]
    acceptance_criteria: [it works]
"""
    for id in IDS
)


def made_path(intent: str, name: str = "made.py") -> str:
    return f"src/{intent.lower()}/{name}"


class SmallPlan:
    """The repository, and whoever works on its plan."""

    def __init__(self, root: Path, folder: Path, home: Path) -> None:
        self.root = governed(root, "enforce", FILE)
        run_git(root, "add", "-A")
        run_git(root, "commit", "-qm", "governed")
        self.home = home
        self.gate = Gate.open(root, machine(home))
        self.trees = Worktrees(self.gate.workspace, trees_folder(home, REPOSITORY))
        self.folder = folder
        self.databases = self.plans = 0
        self.engine = self.open_engine()
        self.open_plan(*IDS)

    @property
    def intents(self) -> Path:
        return self.root / ".orchestration/active_intents.yaml"

    def open_engine(self) -> DbosEngine:
        """Open a fleet database of its own."""
        self.databases += 1
        engine = DbosEngine(open_store(f"sqlite:///{self.folder / f'fleet-{self.databases}.db'}", self.home))
        engine.add_repository(FleetRepository(REPOSITORY, str(self.root), TARGET))
        return engine

    def make_tasks(self, plan: str, ids: tuple[str, ...]) -> list[Task]:
        scopes = {id: (f"src/{id.lower()}/**",) for id in ids}
        return [Task(plan, id, REPOSITORY, scope=scope, scope_sha256=hash_scope(scope)) for id, scope in scopes.items()]

    def open_plan(self, *ids: str) -> None:
        self.plans += 1
        plan = OpenPlan(f"plan-{self.plans}", REPOSITORY, TARGET, limits=PlanLimits(lands_by_hand=True))
        self.engine.open_plan(plan, self.make_tasks(plan.id, ids), ROLES)

    def begin(self, intent: str) -> Attempt:
        """Claim an attempt, and make its worktree as a worker does."""
        self.engine.beat(Worker("w:1", "here", slots=9, agents=("small",)))
        with change_rows(self.engine.store) as rows:
            attempt = claim_task(rows, Claim(REPOSITORY, intent, "w:1", "small"), 60.0)
        ended = [one for one in self.engine.list_attempts(attempt.key) if one.attempt < attempt.attempt]
        base = find_base(self.gate.workspace, TARGET)
        scope = (f"src/{intent.lower()}/**",)
        start = find_starting_point(self.trees, base, (scope,), ended[-1] if ended else None)
        tree = self.trees.prepare(intent, attempt.attempt, start.commit)
        terms = Assignment(f"{REPOSITORY}:{intent}", intent, attempt.attempt, attempt.token, scope, base=base)
        AssignmentFile(tree).write(terms, 600)
        assert self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED, base=base)
        self.write(attempt, made_path(intent, f"made{attempt.attempt}.py"), f"made_by = {attempt.attempt}\n")
        return attempt

    def write(self, attempt: Attempt, path: str, text: str) -> None:
        place = self.tree_of(attempt) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def tree_of(self, attempt: Attempt) -> Path:
        heads = {
            run_git(tree.root, "symbolic-ref", "--short", "HEAD").strip(): tree for tree in self.trees.list_trees()
        }
        return heads[attempt.branch].root

    def hand_in(self, *ids: str) -> None:
        """Let each intent be worked on, and handed in."""
        for attempt in [self.begin(id) for id in ids]:
            self.finish(attempt)

    def finish(self, attempt: Attempt) -> None:
        """Hand an attempt in, as its worker does."""
        tree = next(t for t in self.trees.list_trees() if t.root == self.tree_of(attempt))
        done = self.trees.hand_in(tree, ((f"src/{attempt.intent.lower()}/**",),), attempt.intent, AUTHOR)
        assert done.commit
        assert self.open_worker().run_step("hand_in", attempt).ended_as is None
        assert self.engine.end_attempt(attempt.token, attempt.key, AttemptEnd.HANDED_IN)

    def open_worker(self, pace: float = 1.0) -> FleetWorker:
        engine = DbosEngine(self.engine.store, Timing().scale(pace))
        return FleetWorker(engine, WorkerSettings(1, {}, {}, self.home, machine(self.home)))

    def rebuild(self) -> dict[str, str]:
        """Lose the fleet database, and build it anew from files."""
        self.engine.store.close()
        self.engine = self.open_engine()
        self.plans += 1
        plan = OpenPlan(f"plan-{self.plans}", REPOSITORY, TARGET, limits=PlanLimits(lands_by_hand=True))
        repository = FleetRepository(REPOSITORY, str(self.root), TARGET)
        rebuild_plan(self.engine, self.gate, repository, plan, self.make_tasks(plan.id, IDS), ROLES)
        return self.show()

    def land(self) -> dict[str, str]:
        """Land what is handed in as `remit plan land` does; each task's state and reason."""
        for task in self.engine.read_board().tasks.values():
            if task.state == "asking":
                self.engine.give_order(Order(0, REPOSITORY, OrderKind.RESUME, intent=task.intent))
        land_handed_in(self.engine, self.gate, self.trees, REPOSITORY, TARGET, lambda _: True)
        return self.show()

    def show(self) -> dict[str, str]:
        tasks = self.engine.read_board().tasks.values()
        return {task.intent: f"{task.state}: {task.why}" for task in tasks}

    def list_files(self, commit: str = TARGET) -> list[str]:
        listed = run_git(self.root, "ls-tree", "-r", "--name-only", commit, "--", "src").split()
        return [path for path in listed if path.startswith("src/int")]
