"""Scheduling: decides from the board which tasks start, and the reason for each waiting task. Pure.

The rules stand in `find_obstacle`, in the order of their evaluation. A task without an obstacle starts. Of several
tasks, the task with the longest chain of dependent work goes first.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace

from msgspec.structs import replace

from remit.core.plurals import count_things
from remit_fleet import states
from remit_fleet.board import (
    Board,
    BreakerKind,
    Claim,
    Proof,
    ProofAnswer,
    Role,
    Schedule,
    SpendingBudget,
    Task,
    TaskKey,
    Worker,
    is_shared,
)
from remit_fleet.breaker import is_open, limit_slots, must_ask
from remit_fleet.budget import (
    can_ever_reserve,
    can_reserve,
    describe_raise,
    estimate_amount,
    name_budget,
    reserve,
    select_budgets,
)

WIP_TRAINS = 2
"""Trains whose tasks may wait to be landed before nothing new is started: more only burns tokens."""
APART_ANSWER = ProofAnswer.APART
UNPROVED_PAIR = Proof(ProofAnswer.UNPROVED)
HOPELESS_STATES = frozenset({states.STUCK, states.BLOCKED, states.DROPPED})
UNSETTLED_STATES = frozenset({states.HANDED_IN, states.LANDING})


class CircularNeeds(Exception):
    """Error for tasks that need each other in a circle, directly or transitively: none could ever start."""

    def __init__(self, intents: Sequence[str]) -> None:
        super().__init__(f"these intents need each other in a circle: {', '.join(intents)}; take one dependency out")
        self.intents = tuple(intents)


class Allocation:
    """Slots, holds and budgets of a board, including new claims: the complete mutable state of scheduling."""

    def __init__(self, board: Board, free: dict[str, int]) -> None:
        self.board = board
        self.free = free
        self.live = set(board.attempts)
        self.budgets = dict(board.budgets)
        self.slots = sum(worker.slots for worker in board.workers.values())
        self.of_repository: defaultdict[str, int] = defaultdict(int)
        self.of_plan: defaultdict[str, int] = defaultdict(int)
        self.of_provider: defaultdict[str, int] = defaultdict(int)
        for key, attempt in board.attempts.items():
            self.count_attempt(board.tasks[key], attempt.agent)
        self.unsettled: defaultdict[str, int] = defaultdict(int)
        for task in board.tasks.values():
            if task.state in UNSETTLED_STATES:
                self.unsettled[task.repository] += 1
        self.holds: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for hold in board.holds.values():
            self.holds[hold.repository].append((hold.intent, hold.scope_sha256))

    def count_attempt(self, task: Task, agent: str) -> None:
        self.of_repository[task.repository] += 1
        self.of_plan[task.plan] += 1
        self.of_provider[self.find_provider(agent)] += 1

    def find_share(self, repository: str) -> float:
        return self.of_repository[repository] / self.board.repositories[repository].weight

    def find_provider(self, agent: str) -> str:
        return self.board.providers.get(agent, agent)

    def find_overlap(self, task: Task) -> tuple[str, Proof] | None:
        """Return an intent whose held paths overlap with the task's write set, with the proof."""
        own, proofs = task.scope_sha256, self.board.proofs
        for intent, other in self.holds[task.repository]:
            proof = proofs.get((own, other) if own <= other else (other, own), UNPROVED_PAIR)
            if proof.answer is not APART_ANSWER and intent != task.intent:
                return intent, proof
        return None

    def find_agent(self, task: Task, role: Role) -> tuple[str, Worker] | None:
        """Return the first agent of the role with a free slot, at the worker with the most free slots."""
        workers = [self.board.workers[worker] for worker in self.free]
        if is_shared(task.repository):
            workers = [worker for worker in workers if worker.has_repository(task.repository)]
        named = list_wanted(task, role)
        for wanted in named or sorted({agent for worker in workers for agent in worker.agents}):
            agent, _, place = wanted.partition("@")
            pressed = self.board.breakers.get((BreakerKind.PROVIDER, self.find_provider(agent)))
            running = self.of_provider[self.find_provider(agent)]
            if pressed is not None and running >= limit_slots(pressed, self.slots, self.board.now):
                continue
            if self.budgets and find_short_budget(task, role, self, agent):
                continue
            able = [
                worker
                for worker in workers
                if agent in worker.agents
                and (named or self.has_model(agent, worker, task, role))
                and place in ("", worker.id, worker.host)
                and not self.has_open_breaker(agent, worker)
            ]
            if able:
                return agent, min(able, key=lambda worker: (-self.free[worker.id], worker.id))
        return None

    def has_model(self, agent: str, worker: Worker, task: Task, role: Role) -> bool:
        return agent not in worker.needs_model or bool(role.model or self.board.repositories[task.repository].model)

    def find_without_model(self, task: Task, role: Role) -> dict[str, str]:
        return {
            agent: worker.id
            for worker in self.board.workers.values()
            for agent in worker.needs_model
            if not self.has_model(agent, worker, task, role)
        }

    def has_open_breaker(self, agent: str, worker: Worker) -> bool:
        breaker = self.board.breakers.get((BreakerKind.AGENT, f"{agent}@{worker.host}"))
        return breaker is not None and is_open(breaker, self.board.now)

    def claim(self, task: Task) -> Claim:
        """Allocate a slot, paths and money to a task without an obstacle."""
        role = self.board.find_role(task)
        placed = self.find_agent(task, role)
        assert placed is not None, "find_obstacle has found an agent"
        agent, worker = placed
        charged = select_budgets(self.budgets.values(), task, agent)
        amount = estimate_amount(task, role, charged)
        for budget in reserve(charged, amount):
            self.budgets[budget.scope, budget.key] = budget
        self.free[worker.id] -= 1
        if not self.free[worker.id]:
            del self.free[worker.id]
        self.live.add(task.key)
        self.count_attempt(task, agent)
        self.holds[task.repository].append((task.intent, task.scope_sha256))
        reserved = (amount.usd, amount.tokens, amount.seconds)
        return Claim(task.repository, task.intent, worker.id, agent, *reserved, role.name)


def schedule(board: Board) -> Schedule:
    """Return the tasks that start now: fair over repositories, the longest tail first within each, no task with an
    obstacle.
    """
    blocked = find_blocked(board)
    free = find_free_slots(board)
    candidates = list_candidates(board) if free else []
    if not candidates:
        return Schedule((), tuple(blocked))
    allocation = Allocation(board, free)
    queues = queue_candidates(board, candidates)
    turns = [(allocation.find_share(repository), repository) for repository in queues]
    heapify(turns)
    claims: list[Claim] = []
    while turns and allocation.free:
        _, repository = turns[0]
        # An obstacle does not go away while claims are added, so each candidate is looked at once.
        task = next((task for task in queues[repository] if find_obstacle(task, allocation) is None), None)
        if task is None:
            heappop(turns)
            continue
        claims.append(allocation.claim(task))
        heapreplace(turns, (allocation.find_share(repository), repository))
    # Of a task that is in several lists the last one counts: what is blocked needs no answer.
    asked, crossed = find_unpaid(allocation, candidates), find_crossed(allocation, candidates)
    moves = {task.key: task for task in (*asked, *crossed, *blocked)}
    return Schedule(tuple(claims), tuple(moves.values()))


def list_candidates(board: Board) -> list[Task]:
    """Return the tasks that need an attempt: the task waits, or its hold has no attempt (next stage, redo)."""
    live = board.attempts
    return [
        task
        for key, task in board.tasks.items()
        if task.state is states.WAITING or (task.state is states.HELD and key not in live)
    ]


def find_free_slots(board: Board) -> dict[str, int]:
    free = {worker.id: worker.slots for worker in board.workers.values() if not worker.draining}
    for attempt in board.attempts.values():
        if attempt.worker in free:
            free[attempt.worker] -= 1
    return {worker: slots for worker, slots in free.items() if slots > 0}


def find_obstacle(task: Task, allocation: Allocation) -> str | None:
    """Return why the task cannot start now, in words that follow "waits for"; None for a task that can start."""
    board = allocation.board
    repository = board.repositories[task.repository]
    plan = board.plans.get(task.plan)
    # 1. Nobody has stopped it, and what it would cost is there.
    if repository.paused or (plan and plan.is_paused):
        return f"a person: {'the repository' if repository.paused else 'the plan'} is paused"
    red = board.breakers.get((BreakerKind.REPOSITORY, repository.id)) if board.breakers else None
    if red is not None and must_ask(red):
        return f"a person: landings fail one after the other, {red.why}"
    role = board.find_role(task)
    if allocation.budgets and (short := find_short_budget(task, role, allocation)):
        return f"a budget: {short} has not enough left"
    # 2. What it needs has landed.
    need = find_open_need(task, board)
    if need is not None:
        return f"{need}, which it needs ({describe_state(board, task, need)})"
    # 3. Landing keeps up. Work that was handed in once goes on: it is what landing waits for.
    if task.state is states.WAITING:
        unsettled, limit = allocation.unsettled[repository.id], WIP_TRAINS * repository.train
        if unsettled >= limit:
            return f"landing: {unsettled} tasks wait for it, and at most {limit} may"
    # 4. Nobody else may write what it may write.
    overlap = allocation.find_overlap(task)
    if overlap is not None:
        return f"{overlap[0]}, which {describe_overlap(overlap[1])}"
    # 5. An agent that may play its role has a free slot.
    if plan and plan.limits.workers is not None and allocation.of_plan[plan.id] >= plan.limits.workers:
        return f"a slot: the plan may run {count_things(plan.limits.workers, 'agent')} at once"
    if allocation.find_agent(task, role) is None:
        wanted = ", ".join(task.agents or role.agents) or "any agent"
        dear = [each for each in list_wanted(task, role) if find_short_budget(task, role, allocation, each)]
        short = f", and the budget of {', '.join(dear)} has not enough left" if dear and allocation.budgets else ""
        bare = {} if list_wanted(task, role) else allocation.find_without_model(task, role)
        model = "".join(f"; {agent} has no model: start {worker} with REMIT_MODEL" for agent, worker in bare.items())
        return f"an agent: no worker has a free slot for {wanted}{short}{model}"
    return None


def explain_waits(board: Board) -> dict[TaskKey, str]:
    """Return one line for each unfinished task with the reason of its wait."""
    allocation = Allocation(board, find_free_slots(board))
    waits = {
        key: states.describe_wait(task) for key, task in board.tasks.items() if task.state not in states.FINAL_STATES
    }
    return waits | {task.key: find_obstacle(task, allocation) or "its turn" for task in list_candidates(board)}


def find_open_need(task: Task, board: Board) -> str | None:
    for need in task.needs:
        needed = board.tasks.get((task.repository, need))
        if needed is None or needed.state is not states.LANDED:
            return need
    return None


def describe_state(board: Board, task: Task, need: str) -> str:
    needed = board.tasks.get((task.repository, need))
    return needed.state if needed is not None else "in no plan"


def queue_candidates(board: Board, candidates: Iterable[Task]) -> dict[str, Iterator[Task]]:
    queues: defaultdict[str, list[Task]] = defaultdict(list)
    for task in candidates:
        if not task.needs or find_open_need(task, board) is None:
            queues[task.repository].append(task)
    for queue in queues.values():
        queue.sort(key=lambda task: (task.state is states.WAITING, -task.rank, -task.tail_s, task.intent))
    return {repository: iter(queue) for repository, queue in queues.items()}


def measure_tails(tasks: Sequence[Task]) -> list[Task]:
    """Return a plan's tasks with their tails. An engine measures when opening the plan and when estimates change.

    The last tasks are measured first. Raises CircularNeeds for tasks that need each other in a circle.
    """
    by_key = {task.key: task for task in tasks}
    behind = dict.fromkeys(by_key, 0.0)
    dependants = Counter((task.repository, need) for task in tasks for need in task.needs)
    tails: dict[TaskKey, float] = {}
    ready = [key for key in by_key if not dependants[key]]
    while ready:
        key = ready.pop()
        task = by_key[key]
        tails[key] = task.estimate_s + behind[key]
        for need in task.needs:
            needed = task.repository, need
            dependants[needed] -= 1
            if needed in by_key:
                behind[needed] = max(behind[needed], tails[key])
                if not dependants[needed]:
                    ready.append(needed)
    if circle := sorted(set(by_key) - set(tails)):
        raise CircularNeeds([intent for _, intent in circle])
    return [replace(task, tail_s=tails[task.key]) for task in tasks]


def find_blocked(board: Board) -> list[Task]:
    known = board.tasks
    waiting = [task for task in known.values() if task.state is states.WAITING and task.needs]
    blocked: dict[TaskKey, Task] = {}

    def is_lost(key: TaskKey) -> bool:
        return key in blocked or key not in known or known[key].state in HOPELESS_STATES

    while lost := [(task, need) for task in waiting for need in task.needs if is_lost((task.repository, need))]:
        for task, need in lost:
            state = states.BLOCKED if (task.repository, need) in blocked else describe_state(board, task, need)
            blocked[task.key] = states.move_task(task, states.BLOCKED, f"needs {need}, which is {state}")
        waiting = [task for task in waiting if task.key not in blocked]
    return list(blocked.values())


def find_crossed(allocation: Allocation, candidates: Iterable[Task]) -> list[Task]:
    return [
        states.move_task(task, states.WAITING, f"gave its paths back: {overlap[0]} {describe_overlap(overlap[1])}")
        for task in candidates
        if task.state is states.HELD and task.key not in allocation.live and (overlap := allocation.find_overlap(task))
    ]


def find_unpaid(allocation: Allocation, candidates: Iterable[Task]) -> list[Task]:
    if not allocation.budgets:
        return []
    board = allocation.board
    asked = [task.why for task in board.tasks.values() if task.state is states.ASKING]
    asking: list[Task] = []
    for task in candidates:
        if task.key not in allocation.live and find_open_need(task, board) is None:
            spent = find_spent_budget(task, board.find_role(task), allocation)
            question = f"the budget of {name_budget(spent)} is used up" if spent else ""
            if spent and not any(why.startswith(question) for why in asked):
                asking.append(
                    states.move_task(
                        task, states.ASKING, f"{question}; {describe_raise(task, board.find_role(task), spent)}"
                    )
                )
                asked.append(question)
    return asking


def find_spent_budget(task: Task, role: Role, allocation: Allocation) -> SpendingBudget | None:
    spent: SpendingBudget | None = None
    for wanted in list_wanted(task, role) or ("",):
        budgets = select_budgets(allocation.budgets.values(), task, wanted.partition("@")[0])
        amount = estimate_amount(task, role, budgets)
        spent = next((budget for budget in budgets if not can_ever_reserve(budget, amount)), None)
        if spent is None:
            return None
    return spent


def list_wanted(task: Task, role: Role) -> tuple[str, ...]:
    return role.agents or task.agents if task.stage else task.agents or role.agents


def find_short_budget(task: Task, role: Role, allocation: Allocation, agent: str = "") -> str | None:
    budgets = select_budgets(allocation.budgets.values(), task, agent)
    amount = estimate_amount(task, role, budgets)
    return next((name_budget(budget) for budget in budgets if not can_reserve(budget, amount)), None)


def describe_overlap(proof: Proof) -> str:
    if proof.answer is ProofAnswer.SHARED:
        return f"may write {proof.witness} too"
    return "is not proved to write other paths"
