"""Board of the fleet: frozen values of plans, tasks, attempts, holds, workers, landings, budgets, and their states.

Fields are named after the columns of the fleet database. Times are seconds of the database's clock, passed in as
values.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

TaskKey: TypeAlias = tuple[str, str]
"""Repository and intent: at most one task with this key is not final."""


SHARED_PREFIX = "shared-"


def is_shared(repository: str) -> bool:
    """Return whether a repository is named by its history, because its clones lie in different folders on each host."""
    return repository.startswith(SHARED_PREFIX)


class TaskState(StrEnum):
    """State of a task, from its plan to the target branch. `states.MOVES` lists the allowed transitions."""

    WAITING = "waiting"
    HELD = "held"
    RUNNING = "running"
    PAUSED = "paused"
    ASKING = "asking"
    HANDED_IN = "handed_in"
    LANDING = "landing"
    LANDED = "landed"
    STUCK = "stuck"
    BLOCKED = "blocked"
    DROPPED = "dropped"


class AttemptState(StrEnum):
    """State of an attempt at a task."""

    CLAIMED = "claimed"
    PREPARED = "prepared"
    STARTED = "started"
    ENDED = "ended"


class AttemptEnd(StrEnum):
    """Way in which an attempt ended."""

    HANDED_IN = "handed_in"
    GAVE_UP = "gave_up"
    FAILED = "failed"
    SILENT = "silent"
    TIMED_OUT = "timed_out"
    OVER_BUDGET = "over_budget"
    SENT_BACK = "sent_back"
    """A later stage found that the work has to be done again, and said why."""
    LOST = "lost"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class LandingState(StrEnum):
    """State of a train on its way to the target."""

    GATHERED = "gathered"
    VERIFYING = "verifying"
    LANDED = "landed"
    RED = "red"
    CONFLICT = "conflict"
    TARGET_MOVED = "target_moved"


class OrderKind(StrEnum):
    """Instruction of a person, or of a rule, to a task or a whole plan."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    STEER = "steer"
    TAKE = "take"
    GIVE_BACK = "give_back"
    RETRY = "retry"
    DROP = "drop"
    REASSIGN = "reassign"
    UNDO = "undo"


class EventKind(StrEnum):
    """Subject of an event of the feed."""

    TASK = "task"
    ATTEMPT = "attempt"
    PROGRESS = "progress"
    USAGE = "usage"
    ORDER = "order"
    CONFLICT = "conflict"
    LANDING = "landing"
    WORKER = "worker"
    BREAKER = "breaker"
    NOTE = "note"


class ProofAnswer(StrEnum):
    """Answer to the question whether two write sets share a path. An unproved pair is treated as shared."""

    APART = "apart"
    SHARED = "shared"
    UNPROVED = "unproved"


class BreakerKind(StrEnum):
    """Subject whose failures a breaker counts."""

    AGENT = "agent"
    """An agent on a host: the key is `agent@host`."""
    PROVIDER = "provider"
    REPOSITORY = "repository"


class SpendingBound(Struct, frozen=True):
    """Most that something may spend. `None` is no bound."""

    usd: float | None = None
    tokens: int | None = None


class PlanLimits(Struct, frozen=True):
    """Bounds that a person sets for a plan. `None` is no bound of the plan's own."""

    workers: int | None = None
    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    lands_by_hand: bool = False
    """Whether what is handed in waits for a person to land it."""
    task: SpendingBound = SpendingBound()
    """Bound of each task, all its attempts together."""
    agents: Mapping[str, SpendingBound] = {}
    """Bounds of agents in this plan, by name."""


class Spread(Struct, frozen=True):
    """Middle of an amount, with the quarters below and above."""

    low: float = 0.0
    middle: float = 0.0
    high: float = 0.0


class PlanForecast(Struct, frozen=True):
    """Totals that a person was told before the plan began. `work_s` are the seconds of all agents together."""

    seconds: float
    work_s: float
    usd: Spread | None = None
    tokens: Spread | None = None
    attempts: int = 0
    without_past: int = 0
    """Attempts of which nothing was known: `usd` and `tokens` leave them out."""
    without_cost: int = 0
    rests_on: int = 0
    """Earlier attempts that the forecast rests on."""


class OpenPlan(Struct, frozen=True):
    """Plan that a person started: intents of one repository and the branch on which they land."""

    id: str
    repository: str
    target: str
    base: str = ""
    by: str = ""
    made_at: float = 0.0
    limits: PlanLimits = PlanLimits()
    is_paused: bool = False
    forecast: PlanForecast | None = None


class PlanUse(Struct, frozen=True):
    """What the attempts of a plan have used so far. `without_cost` counts those that ended without a reported cost."""

    attempts: int = 0
    usd: float = 0.0
    tokens: int = 0
    without_cost: int = 0
    last_event_at: float = 0.0


class FleetRepository(Struct, frozen=True):
    """Repository of the fleet. `weight` is its share of the slots when several repositories compete for slots."""

    id: str
    url: str = ""
    target: str = "remit/next"
    token_last: int = 0
    weight: float = 1.0
    paused: bool = False
    train: int = 8
    """Tasks that one landing takes at most. Twice as many may wait for it before nothing more is started."""
    attempts: int = 3
    stall_s: float = 300.0
    model: str = ""
    """Model of Remit's own agent, by the repository's settings."""


class Role(Struct, frozen=True):
    """Role of `remit.toml`: the agents that may play the role, in order of preference, and one attempt's limits."""

    name: str
    agents: tuple[str, ...] = ()
    """Names of agents. Empty: any agent of the worker."""
    model: str = ""
    estimate_usd: float = 0.0
    """Median cost of an attempt so far."""
    max_usd: float | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    chain: tuple[str, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """Roles of a task that begins in this role, in order."""
        return (self.name, *self.chain)

    @property
    def builder_stage(self) -> int:
        """Number of the stage to which work is sent back: the builder's stage, or the first stage without a builder."""
        return self.stages.index("builder") if "builder" in self.stages else 0


class Task(Struct, frozen=True):
    """Intent of a plan, and its progress. `why` is one line: the reason of the task's wait or of its end."""

    plan: str
    intent: str
    repository: str
    state: TaskState = TaskState.WAITING
    why: str = ""
    rank: int = 0
    """Priority of the intent; a greater number goes first."""
    role: str = "builder"
    agents: tuple[str, ...] = ()
    """Agents that a person chose for this task, each as `agent` or `agent@worker`. Empty: those of the role."""
    stage: int = 0
    """Index into the role and its chain: 0 is the role itself."""
    head: str = ""
    """Commit that the next attempt starts on: what the stages so far made. Empty: the target's tip."""
    revisions: int = 0
    """How often a later stage has sent the work back to the builder."""
    needs: tuple[str, ...] = ()
    """Intents of the same repository that land first: dependencies, and for a parent its children."""
    scope: tuple[str, ...] = ()
    """Proved patterns of the write set: intent ∩ role, commons left out."""
    scope_sha256: str = ""
    attempts: int = 0
    """Attempts made so far; the next one has the number `attempts + 1`."""
    estimate_s: float = 600.0
    tail_s: float = 0.0
    """Seconds of the estimate and of the longest chain of tasks that need this one; see `schedule.measure_tails`."""
    landed: str = ""
    """Commit of the target that holds the task's change."""
    returns_to: TaskState | None = None
    """Where a paused or asking task goes once that is over."""
    first_attempt: int = 0
    """Attempts with a smaller number count no more: nothing of their work is taken on."""
    rivals: tuple[str, ...] = ()
    """Agents that do the whole task anew after the present one, from the same commit. Only the best work lands."""
    finished: tuple[int, ...] = ()
    """Attempts of rivals that handed in. The others stay branches."""

    @property
    def key(self) -> TaskKey:
        return self.repository, self.intent


class Hold(Struct, frozen=True):
    """Write set that a task owns from its claim until the task lands or ends. `token` fences every effect."""

    repository: str
    intent: str
    attempt: int
    token: int
    scope: tuple[str, ...] = ()
    scope_sha256: str = ""
    since: float = 0.0
    until: float | None = None
    """End of the lease while an attempt runs. `None`: no worker has to renew it (handed in, landing, asking)."""

    @property
    def key(self) -> TaskKey:
        return self.repository, self.intent


class Attempt(Struct, frozen=True):
    """Try of a task by an agent, with its token and cost."""

    repository: str
    intent: str
    attempt: int
    token: int
    workflow_id: str = ""
    worker: str = ""
    agent: str = ""
    model: str = ""
    role: str = "builder"
    sessions: tuple[str, ...] = ()
    branch: str = ""
    base: str = ""
    head: str = ""
    """Commit of what the attempt left on its branch, once its worker has looked."""
    wip: str = ""
    state: AttemptState = AttemptState.CLAIMED
    ended_as: AttemptEnd | None = None
    failure: str = ""
    """Signature of the failure: equal texts are the same failure."""
    started_at: float = 0.0
    ended_at: float | None = None
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None
    """Spent so far; `None` where the agent does not tell."""
    reserved_usd: float = 0.0
    reserved_tokens: int = 0
    reserved_seconds: float = 0.0
    last_event_at: float = 0.0

    @property
    def key(self) -> TaskKey:
        return self.repository, self.intent

    @property
    def is_live(self) -> bool:
        return self.state is not AttemptState.ENDED


class Worker(Struct, frozen=True):
    """Executor on one host. Its free slots are `slots` minus its live attempts."""

    id: str
    host: str
    boot: str = ""
    slots: int = 1
    agents: tuple[str, ...] = ()
    version: str = ""
    flow: str = ""
    beat_at: float = 0.0
    draining: bool = False
    repositories: tuple[str, ...] = ()
    """Shared repositories that it has a clone of; one that is named by its folder lies there on every host."""
    needs_model: tuple[str, ...] = ()
    """Those of `agents` that start only where the role or the repository names a model."""

    def has_repository(self, repository: str) -> bool:
        return not is_shared(repository) or repository in self.repositories


class Order(Struct, frozen=True):
    """Instruction to a task (`intent`), or to every task of the repository (`intent` empty)."""

    id: int
    repository: str
    kind: OrderKind
    intent: str = ""
    attempt: int | None = None
    body: str = ""
    by: str = ""
    at: float = 0.0
    taken_at: float | None = None
    done_at: float | None = None


class Landing(Struct, frozen=True):
    """Train of tasks that becomes one new tip of the target: `old` before, `new` after."""

    id: int
    repository: str
    target: str
    members: tuple[str, ...]
    old: str = ""
    new: str = ""
    state: LandingState = LandingState.GATHERED
    verify_ms: int | None = None
    flaky: tuple[str, ...] = ()
    why: str = ""
    at: float = 0.0


class LandingRun(Struct, frozen=True):
    """Landing under way at a target, by the workflow that gathers one train after the other."""

    repository: str
    target: str
    workflow: str


class StoredNote(Struct, frozen=True):
    """Message to an attempt as the fleet keeps it. `source` names what it was made of, and is stored once."""

    id: int
    repository: str
    plan: str
    from_intent: str
    to_intent: str
    kind: str
    text: str
    paths: tuple[str, ...] = ()
    attempt: int | None = None
    source: str = ""
    at: float | None = None


class SpendingBudget(Struct, frozen=True):
    """Limits, reservations and spending of one budget. `scope` is fleet, repository, plan, intent, role, task or agent;
    `key` names the instance.
    """

    scope: str
    key: str
    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    reserved_usd: float = 0.0
    reserved_tokens: int = 0
    reserved_seconds: float = 0.0
    spent_usd: float = 0.0
    spent_tokens: int = 0
    spent_seconds: float = 0.0


BudgetKey: TypeAlias = tuple[str, str]
"""Scope and key of a budget."""


class Breaker(Struct, frozen=True):
    """Failures of one subject, and the time until the subject may be used again."""

    kind: BreakerKind
    key: str
    failures: tuple[float, ...] = ()
    """Times of the failures that still count."""
    recent: tuple[bool, ...] = ()
    """The last answers of a provider, the newest last: whether each was good."""
    until: float | None = None
    """Open until then. `None`: closed."""
    trips: int = 0
    """How often it opened in a row: each time twice as long."""
    why: str = ""


BreakerKey: TypeAlias = tuple[BreakerKind, str]


class Proof(Struct, frozen=True):
    """Answer for a pair of write sets; for a shared pair also a path that both tasks may write."""

    answer: ProofAnswer
    witness: str = ""


ProofKey: TypeAlias = tuple[str, str]


def pair_scopes(a_sha256: str, b_sha256: str) -> ProofKey:
    """Return the key of a proof: the hashes of both scopes, sorted."""
    return (a_sha256, b_sha256) if a_sha256 <= b_sha256 else (b_sha256, a_sha256)


class FleetEvent(Struct, frozen=True):
    """Event of the feed. `seq` rises by one; a reader continues after the last `seq` read."""

    seq: int
    at: float
    kind: EventKind
    repository: str = ""
    plan: str = ""
    intent: str = ""
    attempt: int | None = None
    body: Mapping[str, Any] = {}


class Board(Struct, frozen=True):
    """Complete input of scheduling, read in one transaction and indexed by key.

    `tasks` includes the final tasks of open plans, because their dependants need them. `attempts` includes only live
    attempts.
    """

    now: float
    repositories: Mapping[str, FleetRepository] = {}
    plans: Mapping[str, OpenPlan] = {}
    tasks: Mapping[TaskKey, Task] = {}
    holds: Mapping[TaskKey, Hold] = {}
    attempts: Mapping[TaskKey, Attempt] = {}
    workers: Mapping[str, Worker] = {}
    roles: Mapping[str, Role] = {}
    budgets: Mapping[BudgetKey, SpendingBudget] = {}
    breakers: Mapping[BreakerKey, Breaker] = {}
    proofs: Mapping[ProofKey, Proof] = {}
    providers: Mapping[str, str] = {}
    """Provider of each agent's model. An agent without one is its own."""

    def find_role(self, task: Task) -> Role:
        """Return the role of the task's current stage."""
        role = self.roles.get(task.role) or Role(task.role)
        name = role.stages[task.stage] if task.stage < len(role.stages) else role.name
        return self.roles.get(name) or Role(name)


class Claim(Struct, frozen=True):
    """Task that starts now: the worker, the agent and what is reserved of the budgets.

    An engine with a queue may give the task to a different worker with the same agent and a free slot.
    """

    repository: str
    intent: str
    worker: str
    agent: str
    reserved_usd: float = 0.0
    reserved_tokens: int = 0
    reserved_seconds: float = 0.0
    role: str = ""

    @property
    def key(self) -> TaskKey:
        return self.repository, self.intent


class Ending(Struct, frozen=True):
    """Attempt ended by a rule: lease expired, silent, too long, too expensive, or stopped by a person."""

    repository: str
    intent: str
    attempt: int
    token: int
    ended_as: AttemptEnd
    why: str = ""


class Schedule(Struct, frozen=True):
    """Answer of `schedule.schedule`: the tasks that start now, and the tasks that cannot start without a person."""

    claims: tuple[Claim, ...] = ()
    moves: tuple[Task, ...] = ()
    """Tasks that become blocked or need an answer, as they are afterwards."""
