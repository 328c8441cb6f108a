"""A world of scripted agents, failing workers and people around the engine in memory; the laws of the fleet are checked
after each event. Everything is drawn from a seed: the same seed is the same run."""

import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from msgspec.structs import replace

from remit_fleet.attempts import LEASE_S
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    FleetRepository,
    Hold,
    Landing,
    LandingState,
    OpenPlan,
    Order,
    OrderKind,
    Proof,
    ProofAnswer,
    Role,
    SpendingBudget,
    Task,
    TaskKey,
    TaskState,
    Worker,
)
from remit_fleet.conflict import ConflictKind, Evidence, Party
from remit_fleet.engines.memory import MemoryEngine
from remit_fleet.landing.merge_rules import find_lost_line
from remit_fleet.schedule import explain_waits, measure_tails
from remit_fleet.states import FINAL_STATES, ImpossibleMove, rebuild_task
from remit_fleet.trains import bisect_train

APART = Proof(ProofAnswer.APART)
R, TARGET, AGENT = "r", "remit/next", "scripted"
PREPARE_S = 2.0
CALL_USD = 0.05
"""Cost of one model call: the overshoot that a budget may have."""


@dataclass(frozen=True)
class Settings:
    """Sizes and chances of a world."""

    tasks: int = 30
    workers: int = 0
    """0: between 1 and 9, drawn."""
    slots: int = 1
    needs: float = 0.3
    """Chance of each of two needs of a task."""
    nearness: int = 1000
    """Tasks before it among which a task's needs are drawn: a small number makes long chains."""
    overlap: float = 0.15
    """Share of the tasks that may write a path of another one."""
    shared_pairs: float = 0.0
    """Share of all pairs of tasks that have a path in common."""
    mean_s: float = 600.0
    spread: float = 0.5
    """Standard deviation of the logarithm of a task's seconds."""
    misjudged: float = 0.3
    """Standard deviation of the logarithm of its estimate's error."""
    is_ranked: bool = True
    """Whether the longest tail goes first; else the order of the plan."""
    train: int = 8
    verify_s: float = 40.0
    budget_usd: float | None = None
    stages: int = 0
    """Stages after the work, each an attempt of its own on the same hold."""
    thorough: bool = True
    """Whether laws 3 and 9 are asked after each event, or, where many seeds run, after every sixteenth: they depend on
    the board alone, and cost more than all the rest."""
    failed: float = 0.0
    unstartable: float = 0.0
    """Chance that an agent does not start at all."""
    died: float = 0.0
    """Chance that a worker dies during an attempt."""
    frozen: float = 0.0
    silent: float = 0.0
    grown: float = 0.0
    hostile: float = 0.0
    pushes: float = 0.0
    """Chance that a person pushes to the target during an attempt."""
    clashes: float = 0.0
    """Chance that a task breaks another one's tests by its meaning."""
    flaky: float = 0.0
    jumps: float = 0.0
    """Chance that the clock jumps during an attempt."""
    orders: float = 0.0
    """Chance that a person interferes during an attempt."""


CALM = Settings()
ROUGH = Settings(
    failed=0.1,
    unstartable=0.02,
    died=0.03,
    frozen=0.03,
    silent=0.02,
    grown=0.05,
    hostile=0.03,
    pushes=0.05,
    clashes=0.05,
    flaky=0.03,
    jumps=0.01,
    orders=0.05,
)


class LawBroken(AssertionError):
    """A law of the fleet that did not hold, with the seed that shows it."""


@dataclass(eq=False)
class Process:
    """An agent under way at a worker."""

    key: TaskKey
    number: int
    token: int
    worker: str
    base: int
    started: bool = False
    hangs: bool = False
    usd: float = 0.0
    ending: tuple[AttemptEnd, str] | None = None
    """End that it wants to report."""
    written: tuple[str, ...] = ()


@dataclass
class Change:
    """What a handed-in attempt's branch holds: the lines of each path, and the commit it is built on."""

    number: int
    token: int
    base: int
    lines: dict[str, tuple[str, ...]]


@dataclass
class Figures:
    """What a run came to."""

    makespan_s: float = 0.0
    work_s: float = 0.0
    critical_s: float = 0.0
    crowded_s: float = 0.0
    """Work and landings of the tasks that may write one path: they run one after the other, on however many workers."""
    landed: int = 0
    tasks: int = 0
    events: int = 0
    ends: Counter[str] = field(default_factory=Counter[str])
    zombies_refused: int = 0
    writes_refused: int = 0


def find_bound(figures: Figures, agents: int) -> float:
    """Return the seconds that no schedule can beat where nothing fails: by work, by needs, by the most wanted path."""
    return max(figures.work_s / agents, figures.critical_s, figures.crowded_s)


class World:
    """One seeded run. `run` returns its figures, or raises LawBroken."""

    engine_type = MemoryEngine

    def __init__(self, seed: int, settings: Settings = CALM, *, log: bool = False) -> None:
        self.seed, self.settings = seed, settings
        self.chance = Random(seed)
        self.log: list[str] | None = [] if log else None
        self.figures = Figures(tasks=settings.tasks)
        self.clock = 0.0
        self.jumped = 0.0
        self.agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.count = 0
        self.processes: dict[int, Process] = {}
        """By token."""
        self.workers: dict[str, Worker] = {}
        self.frozen: dict[str, float] = {}
        """Workers that do not move, and until when."""
        self.gone: dict[str, float] = {}
        """Workers that died or froze, and when."""
        self.born = 0
        self.branches: dict[str, Change] = {}
        self.sent_back: dict[str, int] = {}
        self.commits: list[tuple[str, ...]] = [()]
        """Intents (none: a person) that each commit of the target brought."""
        self.target: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        """Lines of each path of the target, with the commit that brought each."""
        self.landed: dict[str, int] = {}
        self.issued = 0
        self.last_new = ""
        self.lands = False
        """Whether a train is verified now."""
        self.seen = 0
        """Events of the feed that the person has read."""
        self.clashing: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.engine = self.build()

    # Building

    def build(self) -> MemoryEngine:
        """Draw the plan, and open it."""
        s, chance = self.settings, self.chance
        tasks: list[Task] = []
        for n in range(s.tasks):
            intent = f"INT-{n:03}"
            near = max(0, n - s.nearness)
            needs = tuple({f"INT-{chance.randrange(near, n):03}" for _ in range(2) if n and chance.random() < s.needs})
            scope = {f"f{n}/{i}" for i in range(3)}
            if chance.random() < s.overlap:
                scope.add(f"f{chance.randrange(s.tasks)}/0")
            if s.shared_pairs:
                scope |= {f"f{other}/0" for other in range(n) if chance.random() < s.shared_pairs}
            seconds = s.mean_s * chance.lognormvariate(-(s.spread**2) / 2, s.spread)
            self.seconds[intent] = seconds
            estimate = seconds * chance.lognormvariate(0, s.misjudged)
            tasks.append(self.build_task(intent, needs, tuple(sorted(scope)), estimate))
            if n and chance.random() < s.clashes:
                self.clashing[intent] = f"INT-{chance.randrange(n):03}"
        budgets = [SpendingBudget("plan", "p", usd=s.budget_usd)] if s.budget_usd is not None else []
        stages = tuple(f"stage {n}" for n in range(1, s.stages + 1))
        max_usd = 1.0 if budgets else None
        roles = [Role(name, (AGENT,), max_usd=max_usd, estimate_usd=0.5, chain=stages) for name in ("builder", *stages)]
        engine = self.engine_type([FleetRepository(R, train=s.train)], prove_by_paths, budgets=budgets)
        engine.open_plan(OpenPlan("p", R, TARGET), tasks, {role.name: role for role in roles})
        if not s.is_ranked:
            engine.rows.tasks.update({key: replace(task, tail_s=0.0) for key, task in engine.rows.tasks.items()})
        exact = [replace(task, estimate_s=self.seconds[task.intent]) for task in tasks]
        self.figures.work_s = sum(self.seconds.values())
        crowds: defaultdict[str, float] = defaultdict(float)
        for task in tasks:
            for path in task.scope:
                crowds[path] += self.seconds[task.intent] + s.verify_s
        self.figures.crowded_s = max(crowds.values())
        self.figures.critical_s = max(task.tail_s for task in measure_tails(exact))
        return engine

    def build_task(self, intent: str, needs: tuple[str, ...], scope: tuple[str, ...], estimate: float) -> Task:
        return Task("p", intent, R, needs=needs, scope=scope, scope_sha256=name_scope(scope), estimate_s=estimate)

    # Running

    def run(self) -> Figures:
        for _ in range(self.settings.workers or self.chance.randint(1, 9)):
            self.add_worker()
        self.after(0, self.dispatch)
        agenda, engine = self.agenda, self.engine
        while agenda:
            self.clock, _, act = heappop(agenda)
            engine.now = self.clock + self.jumped
            broken = ""
            try:
                act()
            except LawBroken:
                raise
            except (ArithmeticError, AssertionError, LookupError, ValueError, ImpossibleMove) as error:
                script = "".join(traceback.format_exception(error, limit=-3))
                broken = f"{error!r} in {script}"
            if broken:
                self.fail(broken)
            self.figures.events += 1
            self.check()
            if self.figures.events > 200 * self.settings.tasks:
                self.fail("the fleet does not come to an end")
            if not agenda:
                self.wait_for_breakers()
        self.check_end()
        return self.figures

    def wait_for_breakers(self) -> None:
        """Dispatch once the next breaker closes, as the sweeper of a real engine does every few seconds."""
        engine = self.engine
        closing = [breaker.until - engine.now for breaker in engine.rows.breakers.values() if breaker.until is not None]
        later = [seconds for seconds in closing if seconds >= 0]
        if later and any(task.state not in FINAL_STATES for task in engine.rows.tasks.values()):
            self.after(min(later) + 1, self.dispatch)

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.count += 1
        heappush(self.agenda, (self.clock + seconds, self.count, act))

    def say(self, text: str) -> None:
        if self.log is not None:
            self.log.append(f"{self.clock:9.1f}  {text}")

    def dispatch(self) -> None:
        """Have the engine start what can start, and gather a landing where one is wanted."""
        for claim in self.engine.dispatch():
            attempt = self.engine.rows.live[claim.key]
            if attempt.token <= self.issued:
                self.fail(f"2: token {attempt.token} after {self.issued}")
            self.issued = attempt.token
            self.say(f"claim {attempt.intent}/{attempt.attempt} at {attempt.worker}, token {attempt.token}")
            self.after(PREPARE_S, lambda attempt=attempt: self.start(attempt))
        landers = self.engine.rows.landers
        if not self.lands and landers and not self.engine.finish_landing(R, TARGET, landers[R, TARGET].workflow):
            self.gather()

    # Workers

    def add_worker(self) -> None:
        self.born += 1
        worker = Worker(f"w{self.born}", f"h{self.born}", slots=self.settings.slots, agents=(AGENT,))
        self.workers[worker.id] = worker
        self.beat(worker)

    def beat(self, worker: Worker) -> None:
        """Renew leases, and end the processes that the worker has no hold for any more."""
        held = {hold.token for hold in self.engine.beat(worker)}
        for token, process in list(self.processes.items()):
            if process.worker == worker.id and token not in held:
                self.say(f"{worker.id} ends the superseded {process.key[1]}/{process.number}")
                del self.processes[token]

    def beat_all(self) -> None:
        for worker in self.workers.values():
            if worker.id not in self.frozen:
                self.beat(worker)

    def sweep(self) -> None:
        """Beat for those that can, and have the engine end what is over."""
        self.beat_all()
        for process in self.processes.values():
            if process.worker not in self.frozen and not process.hangs:
                self.use(process, 0)
        self.reap()

    def reap(self) -> None:
        for ending in self.engine.sweep():
            self.say(f"sweep: {ending.intent}/{ending.attempt} {ending.ended_as}: {ending.why}")
            self.figures.ends[ending.ended_as] += 1
        self.after(1, self.beat_all)
        if any(process.hangs for process in self.processes.values()):
            self.after(self.engine.rows.repositories[R].stall_s + 1, self.sweep)
        self.check_rows()
        self.dispatch()

    def kill(self, worker: str) -> None:
        """End a worker and everything in its namespace; another one comes up later."""
        if worker not in self.workers or len(self.workers) == 0:
            return
        self.say(f"{worker} dies")
        del self.workers[worker]
        self.frozen.pop(worker, None)
        self.gone[worker] = self.engine.now
        for token in [token for token, process in self.processes.items() if process.worker == worker]:
            del self.processes[token]
        del self.engine.rows.workers[worker]
        self.after(LEASE_S + 1, self.sweep)
        self.after(30, self.replace_worker)

    def replace_worker(self) -> None:
        self.add_worker()
        self.dispatch()

    def freeze(self, worker: str) -> None:
        if worker not in self.workers or worker in self.frozen:
            return
        seconds = self.chance.uniform(5, 300)
        self.say(f"{worker} is frozen for {seconds:.0f} s")
        self.frozen[worker] = self.clock + seconds
        self.gone[worker] = self.engine.now
        self.after(LEASE_S + 1, self.sweep)
        self.after(seconds, lambda: self.thaw(worker))

    def thaw(self, worker: str) -> None:
        """Wake a worker. What its agents do before it beats is refused where somebody else took their place."""
        if worker not in self.workers or worker not in self.frozen:
            return
        self.say(f"{worker} wakes")
        del self.frozen[worker]
        self.gone.pop(worker, None)
        for process in [p for p in self.processes.values() if p.worker == worker]:
            live = self.engine.rows.live.get(process.key)
            superseded = live is None or live.token != process.token
            if self.engine.move_attempt(process.token, process.key, AttemptState.STARTED) == superseded:
                self.fail(f"2: token {process.token} of {process.key[1]} was accepted after it was superseded")
            self.figures.zombies_refused += superseded
            if process.ending is not None:
                self.report(process)
        self.beat(self.workers[worker])
        self.dispatch()

    # Attempts

    def start(self, attempt: Attempt) -> None:
        """Start an agent, as its worker does: superseded processes are ended first, so that a slot is free."""
        worker = self.workers.get(attempt.worker)
        if worker is None:
            return
        if worker.id in self.frozen:
            self.after(self.frozen[worker.id] - self.clock + 0.1, lambda: self.start(attempt))
            return
        self.beat(worker)
        if self.settings.unstartable and self.chance.random() < self.settings.unstartable:
            self.say(f"{attempt.intent}/{attempt.attempt} does not start")
            self.engine.end_attempt(attempt.token, attempt.key, AttemptEnd.FAILED, f"no start {attempt.attempt}")
            self.dispatch()
            return
        if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED):
            return
        process = Process(attempt.key, attempt.attempt, attempt.token, worker.id, len(self.commits) - 1)
        self.processes[attempt.token] = process
        self.draw_fate(process)

    def draw_fate(self, process: Process) -> None:
        """Draw what happens to an attempt: how long it takes, how it ends, and what disturbs it."""
        s, chance = self.settings, self.chance
        seconds = self.seconds[process.key[1]]
        if process.number > 1:
            seconds *= 0.6  # from the last checkpoint
        ending, failure = AttemptEnd.HANDED_IN, ""
        if s.failed and chance.random() < s.failed:
            ending, failure = AttemptEnd.FAILED, f"fails in {process.number} ways"
            seconds *= chance.random()
        if s.silent and chance.random() < s.silent:
            self.after(seconds / 2, lambda: self.hang(process))
        if s.grown and chance.random() < s.grown:
            self.after(seconds / 2, lambda: self.grow(process))
        if s.died and chance.random() < s.died:
            self.after(seconds * chance.random(), lambda: self.kill(process.worker))
        if s.frozen and chance.random() < s.frozen:
            self.after(seconds * chance.random(), lambda: self.freeze(process.worker))
        if s.pushes and chance.random() < s.pushes:
            self.after(seconds * chance.random(), self.push)
        if s.jumps and chance.random() < s.jumps:
            self.after(seconds * chance.random(), self.jump)
        if s.orders and chance.random() < s.orders:
            self.after(seconds * chance.random(), lambda: self.interfere(process.key))
        self.after(seconds, lambda: self.end(process, ending, failure))

    def end(self, process: Process, ending: AttemptEnd, failure: str) -> None:
        """The agent is done: it reports, now or as soon as its worker moves again."""
        if self.processes.get(process.token) is not process or process.hangs:
            return
        task = self.engine.rows.tasks[process.key]
        if task.state is TaskState.PAUSED:
            self.after(60, lambda: self.end(process, ending, failure))
            return
        if task.state is TaskState.ASKING:  # a person has taken it over, and its worker ends the agent
            ending, failure = AttemptEnd.CANCELLED, ""
        process.ending = (ending, failure)
        if process.worker not in self.frozen:
            self.report(process)
            self.dispatch()

    def report(self, process: Process) -> None:
        """Check the tree, as a worker does, and end the attempt; a superseded one is refused."""
        assert process.ending is not None
        del self.processes[process.token]
        ending, failure = process.ending
        intent = process.key[1]
        hold = self.engine.rows.holds.get(process.key)
        is_current = hold is not None and hold.token == process.token and process.key in self.engine.rows.live
        if ending is AttemptEnd.HANDED_IN:
            scope = hold.scope if hold is not None and is_current else self.engine.rows.tasks[process.key].scope
            written = self.draw_writes(scope)
            if set(written) - set(scope):
                self.say(f"{intent}/{process.number} wrote outside its set")
                ending, failure = AttemptEnd.FAILED, "wrote outside"
            elif is_current and self.engine.rows.tasks[process.key].stage == self.settings.stages:
                lines = {path: (f"{intent}/{process.number}:{path}",) for path in written}
                self.branches[intent] = Change(process.number, process.token, process.base, lines)
        self.use(process, 4)
        accepted = self.engine.end_attempt(process.token, process.key, ending, failure)
        if accepted != is_current:
            self.fail(f"2: token {process.token} of {intent} was {'accepted' if accepted else 'refused'}")
        self.say(f"{intent}/{process.number} {ending}{'' if accepted else ', refused'}")
        self.figures.ends[ending] += accepted
        self.figures.zombies_refused += not accepted

    def draw_writes(self, scope: Sequence[str]) -> list[str]:
        """Draw what an agent writes. The gate refuses what lies outside; a daemon that it forked may pass the gate."""
        written = [path for path in scope if self.chance.random() < 0.8] or [scope[0]]
        if self.settings.hostile and self.chance.random() < self.settings.hostile:
            outside = "elsewhere"
            if outside not in scope and self.chance.random() < 0.7:
                self.figures.writes_refused += 1
            else:
                written.append(outside)
        return written

    def use(self, process: Process, calls: int) -> None:
        """Record usage. The role's limit ends an attempt between two calls."""
        process.usd += calls * CALL_USD
        attempt = self.engine.rows.live.get(process.key)
        if attempt is not None and attempt.token == process.token:
            self.engine.record_usage(process.token, replace(attempt, usd=process.usd, turns=attempt.turns + calls))

    def hang(self, process: Process) -> None:
        if self.processes.get(process.token) is process and process.ending is None:
            self.say(f"{process.key[1]}/{process.number} hangs")
            self.use(process, 0)
            process.hangs = True
            self.after(self.engine.rows.repositories[R].stall_s + 1, self.sweep)

    def grow(self, process: Process) -> None:
        """The agent needs one path more: it gets it, gives its set back and claims both later, or manages without."""
        if self.processes.get(process.token) is not process or process.worker in self.frozen or process.hangs:
            return
        task = self.engine.rows.tasks[process.key]
        more = f"f{self.chance.randrange(self.settings.tasks)}/{self.chance.randrange(2)}"
        scope = tuple(sorted({*task.scope, more}))
        owner = self.engine.widen_hold(process.token, process.key, scope, name_scope(scope))
        self.say(f"{process.key[1]} wants {more}: {owner or 'free'}")
        manages_without = self.chance.random() < 0.3
        if owner is not None and process.key in self.engine.rows.live and not manages_without:
            process.ending = (AttemptEnd.CANCELLED, "")
            self.report(process)
            self.dispatch()

    def interfere(self, key: TaskKey) -> None:
        """A person pauses, drops, takes over, reassigns or steers a task, or pauses all."""
        kind = self.chance.choice(
            [OrderKind.PAUSE, OrderKind.TAKE, OrderKind.DROP, OrderKind.REASSIGN, OrderKind.STEER, OrderKind.STOP]
        )
        intent = "" if kind is OrderKind.PAUSE and self.chance.random() < 0.3 else key[1]
        self.order(kind, intent)
        if kind in (OrderKind.PAUSE, OrderKind.TAKE):
            self.after(self.chance.uniform(10, 400), lambda: self.order(OrderKind.RESUME, intent))

    def order(self, kind: OrderKind, intent: str = "") -> None:
        self.say(f"a person: {kind} {intent or 'all'}")
        self.engine.give_order(Order(0, R, kind, intent, by="p"))
        self.engine.ask_for_missed_landings()
        self.dispatch()
        self.after(2, self.beat_all)

    def push(self) -> None:
        """A person pushes to the target, perhaps to a file that a task changes."""
        path = f"f{self.chance.randrange(self.settings.tasks)}/{self.chance.randrange(3)}"
        self.commits.append(())
        self.target[path].append((len(self.commits) - 1, f"person:{len(self.commits)}"))
        self.last_new = ""
        self.say(f"a person pushes {path}")

    def jump(self) -> None:
        """Move the clock. Forward, every lease runs out at once while all agents are alive."""
        seconds = self.chance.choice([-200.0, 30.0, 90.0, 4000.0])
        self.jumped += seconds
        self.engine.now = self.clock + self.jumped
        self.say(f"the clock jumps by {seconds:.0f} s")
        self.after(abs(seconds) + self.engine.rows.repositories[R].stall_s + LEASE_S, self.sweep)
        self.reap()

    # Landing

    def gather(self) -> None:
        """Gather a train, verify it, and bisect it where it is red; the answer comes after the time that takes."""
        old = f"c{len(self.commits) - 1}"
        touched = {intent: tuple(change.lines) for intent, change in self.branches.items()}
        landing = self.engine.gather_landing(R, TARGET, old, touched)
        if landing is None:
            return
        self.lands = True
        runs = 0

        def is_green(some: Sequence[str]) -> bool:
            nonlocal runs
            runs += 1
            if self.settings.flaky and self.chance.random() < self.settings.flaky:
                runs += 1  # red once, green when it runs again
            return not any(self.clashes_with(intent, some) for intent in some)

        merged, conflicts = self.merge(landing.members)
        good = list(merged)
        if merged and not is_green(merged):
            culprit = bisect_train(merged, is_green)
            good = good[: good.index(culprit.intent)]
            partner = culprit.partner or self.clashing[culprit.intent]
            conflicts.append(Evidence(ConflictKind.MEANING, Party(partner), Party(culprit.intent)))
        self.say(f"landing {landing.id} on {old}: {', '.join(landing.members)}; {len(good)} good, {runs} runs")
        self.after(self.settings.verify_s * max(runs, 1), lambda: self.settle(landing, good, conflicts))

    def clashes_with(self, intent: str, others: Sequence[str]) -> bool:
        """Whether the intent breaks one of the others, or one that landed after it was begun."""
        other = self.clashing.get(intent)
        return other is not None and (other in others or self.landed.get(other, -1) > self.branches[intent].base)

    def merge(self, members: Sequence[str]) -> tuple[list[str], list[Evidence]]:
        """Merge each change with what people pushed to its paths since its base: those that merge, and the rest."""
        merged: list[str] = []
        conflicts: list[Evidence] = []
        for intent in members:
            change = self.branches[intent]
            meets = [path for path in change.lines if any(at > change.base for at, _ in self.target[path])]
            is_clean = not meets or self.chance.random() < 0.5
            if is_clean:
                merged.append(intent)
            else:
                parties = Party("a person"), Party(intent)
                conflicts.append(Evidence(ConflictKind.TEXT, *parties, tuple(meets)))
        return merged, conflicts

    def settle(self, landing: Landing, good: Sequence[str], conflicts: Sequence[Evidence]) -> None:
        """Swap the target, unless somebody moved it meanwhile."""
        self.lands = False
        tip = f"c{len(self.commits) - 1}"
        if tip != landing.old:
            self.say(f"landing {landing.id}: the target moved")
            self.engine.settle_landing(replace(landing, state=LandingState.TARGET_MOVED), ())
            self.dispatch()
            return
        new = f"c{len(self.commits)}" if good else landing.old
        state = LandingState.LANDED if good else LandingState.RED if conflicts else LandingState.CONFLICT
        done = replace(landing, state=state, new=new, why="red")
        for evidence in conflicts:
            self.sent_back[evidence.later.intent] = self.branches[evidence.later.intent].number
        scopes = {intent: set(self.engine.rows.holds[R, intent].scope) for intent in good}
        tokens = {intent: self.engine.rows.holds[R, intent].token for intent in good}
        if not self.engine.settle_landing(done, good, conflicts):
            self.fail(f"landing {landing.id} was refused though no member has been superseded")
        if good:
            if self.last_new and self.last_new != landing.old:
                self.fail(f"8: landing {landing.id} is on {landing.old}, the one before made {self.last_new}")
            self.last_new = new
            self.bring(good, scopes, tokens)
        self.say(f"landing {landing.id} is {state}: {', '.join(good) or 'nothing'}")
        self.dispatch()

    def bring(self, good: Sequence[str], scopes: dict[str, set[str]], tokens: dict[str, int]) -> None:
        """Put the lines of a train into the target, and check that it is theirs, and that none is lost."""
        at = len(self.commits)
        self.commits.append(tuple(good))
        for intent in good:
            change = self.branches[intent]
            if intent in self.landed:
                self.fail(f"{intent} has landed twice")
            if change.token != tokens[intent]:
                self.fail(f"2: {intent} landed by token {change.token}, its hold has {tokens[intent]}")
            if set(change.lines) - scopes[intent]:
                self.fail(f"4: {intent} landed outside its set: {sorted(set(change.lines) - scopes[intent])}")
            self.landed[intent] = at
            for path, lines in change.lines.items():
                base = [line for n, line in self.target[path] if n <= change.base]
                earlier = [line for _, line in self.target[path]]
                self.target[path] += [(at, line) for line in lines]
                result = [line for _, line in self.target[path]]
                states = ["\n".join(text).encode() for text in (base, earlier, [*base, *lines], result)]
                if len(earlier) > len(base) and (lost := find_lost_line(*([state] for state in states))):
                    self.fail(f"6: {path} lost {lost!r}")

    # Laws

    def fail(self, text: str) -> None:
        script = "\n".join(self.log) if self.log is not None else ""
        raise LawBroken(f"seed {self.seed}, {self.clock:.1f} s: {text}\n{self.settings}\n{script}")

    def check(self) -> None:
        """Check what holds after each event."""
        engine = self.engine
        # 1. No two holds share a path.
        held = [hold.scope for hold in engine.rows.holds.values()]
        if len(set[str]().union(*held)) != sum(map(len, held)):
            self.fail("1: two holds share a path")
        # 5. Spent stays within the budget and one call for each running attempt's end.
        for budget in engine.rows.budgets.values():
            spent = budget.spent_usd + sum(attempt.usd or 0.0 for attempt in engine.rows.live.values())
            if budget.usd is not None and spent > budget.usd + CALL_USD:
                self.fail(f"5: {spent:.2f} USD spent of {budget.usd:.2f}")
        # 7. No worker runs more than it has slots for, in rows or in processes.
        slots = self.settings.slots
        for taken in ([a.worker for a in engine.rows.live.values()], [p.worker for p in self.processes.values()]):
            if len(set(taken)) < len(taken) and max(map(taken.count, taken)) > slots:
                self.fail("7: a worker runs more than it has slots for")
        if self.settings.thorough or self.figures.events % 16 == 0:
            self.check_waits()
            self.check_files()
        self.answer_questions()

    def answer_questions(self) -> None:
        """A person answers each question after a while."""
        events = self.engine.rows.events
        for event in events[self.seen :] if len(events) > self.seen else ():
            if event.body.get("state") == TaskState.ASKING:
                kind = OrderKind.DROP if self.chance.random() < 0.2 else OrderKind.RESUME
                key = event.repository, event.intent
                self.after(120, lambda key=key, kind=kind: self.reply(key, kind))
        self.seen = len(events)

    def reply(self, key: TaskKey, kind: OrderKind) -> None:
        if self.engine.rows.tasks[key].state is TaskState.ASKING:
            self.order(kind, key[1])

    def check_waits(self) -> None:
        """3: what is not final says what it waits for."""
        for key, why in explain_waits(self.engine.view_board()).items():
            if not why:
                self.fail(f"3: {key[1]} does not say what it waits for")

    def check_rows(self) -> None:
        """10: after a sweep there is no row without a process, and none of a worker that is gone."""
        now = self.engine.now
        for key, attempt in self.engine.rows.live.items():
            away = self.gone.get(attempt.worker)
            if away is not None and now - away > LEASE_S + 2 and attempt.started_at < away:
                self.fail(f"10: {key[1]} runs at {attempt.worker}, which has been gone for {now - away:.0f} s")
            is_started = attempt.state is AttemptState.STARTED
            if is_started and away is None and attempt.token not in self.processes:
                self.fail(f"10: {key[1]} runs without a process")

    def check_files(self) -> None:
        """9: what landed, and the branches that were handed in, tell how far each task is."""
        for key, task in self.engine.rows.tasks.items():
            change = self.branches.get(key[1])
            is_handed_in = change is not None and change.number > self.sent_back.get(key[1], 0)
            landed = f"c{self.landed[key[1]]}" if key[1] in self.landed else ""
            found = rebuild_task(task, landed, is_handed_in and task.state not in FINAL_STATES).state
            known = task.returns_to or task.state
            known = {TaskState.LANDING: TaskState.HANDED_IN}.get(known, known)
            if found is not known and not (found is TaskState.WAITING and known in (TaskState.HELD, TaskState.RUNNING)):
                self.fail(f"9: {key[1]} is {known}, its files say {found}")

    def check_end(self) -> None:
        """3: every task is final."""
        open_tasks = [task for task in self.engine.rows.tasks.values() if task.state not in FINAL_STATES]
        if open_tasks:
            waits = explain_waits(self.engine.view_board())
            self.fail("3: " + "; ".join(f"{task.intent} waits for {waits[task.key]}" for task in open_tasks))
        self.check_rows()
        self.check_files()
        self.figures.makespan_s = self.clock
        self.figures.landed = len(self.landed)


def prove_by_paths(one: Task | Hold, other: Task | Hold) -> Proof:
    """Prove write sets that are plain lists of paths."""
    if set(one.scope).isdisjoint(other.scope):
        return APART
    return Proof(ProofAnswer.SHARED, min(set(one.scope).intersection(other.scope)))


def name_scope(scope: Sequence[str]) -> str:
    """Stand in for the hash of a scope."""
    return "|".join(scope)


def run_seed(seed: int, settings: Settings) -> Figures:
    """Run a seed; a broken law is shown with the whole script that led to it."""
    try:
        return World(seed, settings).run()
    except LawBroken:
        pass
    return World(seed, settings, log=True).run()
