"""Engine of one process in simulated time: the board in dictionaries, for tests, demonstrations and forecasts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from remit_fleet.attempts import (
    LEASE_S,
    close_attempt,
    open_attempt,
    redo_task,
    release_task,
    settle_growth,
    settle_task,
    start_task,
)
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Breaker,
    BreakerKind,
    Claim,
    Ending,
    EventKind,
    FleetEvent,
    FleetRepository,
    Hold,
    Landing,
    LandingState,
    OpenPlan,
    Order,
    OrderKind,
    Proof,
    ProofAnswer,
    ProofKey,
    Role,
    SpendingBudget,
    Task,
    TaskKey,
    Worker,
    pair_scopes,
)
from remit_fleet.breaker import is_plan_failing, limit_train, record_answers, record_failure, record_success
from remit_fleet.budget import (
    charge_attempt,
    make_plan_budgets,
    read_reservation,
    reserve,
    select_budgets,
    settle,
)
from remit_fleet.conflict import Evidence, Settlement, SettlementKind, decide
from remit_fleet.endings import find_endings
from remit_fleet.schedule import measure_tails, schedule
from remit_fleet.states import (
    BLOCKED,
    FINAL_STATES,
    HANDED_IN,
    LANDED,
    LANDING,
    RUNNING,
    STUCK,
    apply_order,
    move_task,
    needs_hold,
)
from remit_fleet.trains import gather_train, order_landing


class InlineEngine:
    """Board of one process. `now` is the clock, set by the simulation."""

    def __init__(
        self,
        repositories: Iterable[FleetRepository],
        prove: Callable[[Task, Task], Proof],
        *,
        roles: Iterable[Role] = (),
        budgets: Iterable[SpendingBudget] = (),
    ) -> None:
        self.now = 0.0
        self.prove = prove
        self.repositories = {repository.id: repository for repository in repositories}
        self.roles = {role.name: role for role in roles}
        self.budgets = {(budget.scope, budget.key): budget for budget in budgets}
        self.breakers: dict[tuple[BreakerKind, str], Breaker] = {}
        self.proofs: dict[ProofKey, Proof] = {}
        self.plans: dict[str, OpenPlan] = {}
        self.tasks: dict[TaskKey, Task] = {}
        self.holds: dict[TaskKey, Hold] = {}
        self.live: dict[TaskKey, Attempt] = {}
        self.ended: defaultdict[TaskKey, list[Attempt]] = defaultdict(list)
        self.retried: Counter[TaskKey] = Counter()
        """Ended attempts of a task when a person last had it tried again: they do not count any more."""
        self.workers: dict[str, Worker] = {}
        self.orders: list[Order] = []
        self.landings: list[Landing] = []
        self.landing: dict[tuple[str, str], dict[TaskKey, int]] = {}
        """Members of the landing under way at each target, with their tokens."""
        self.wanted: dict[tuple[str, str], None] = {}
        """Targets for which a landing is wanted, in the order of asking."""
        self.rounds: Counter[tuple[str, str, str]] = Counter()
        self.waits: dict[TaskKey, tuple[str, str]] = {}
        """Tasks that wait for the owner of a path, with the owner and the path."""
        self.events: list[FleetEvent] = []

    def open_plan(self, plan: OpenPlan, tasks: Sequence[Task]) -> None:
        for task in tasks:
            known = self.tasks.get(task.key)
            if known is not None and known.state not in FINAL_STATES:
                raise ValueError(f"{task.intent} runs in plan {known.plan!r} already: it cannot be in {plan.id!r} too")
        known_intents = {intent for repository, intent in self.tasks if repository == plan.repository}
        known_intents.update(task.intent for task in tasks)
        for task in tasks:
            if missing := sorted(set(task.needs) - known_intents):
                raise ValueError(f"{task.intent} needs {', '.join(missing)}: in no plan, and not known to have landed")
        self.plans[plan.id] = plan
        for budget in make_plan_budgets(plan, tasks):
            self.budgets[budget.scope, budget.key] = budget
        for task in measure_tails(tasks):
            self.tasks[task.key] = task
            self._prove(task)

    def dispatch(self) -> tuple[Claim, ...]:
        answer = schedule(self._view_board())
        for task in answer.moves:
            self._store(task)
        for claim in answer.claims:
            repository = self.repositories[claim.repository]
            token = repository.token_last + 1
            self.repositories[repository.id] = replace(repository, token_last=token)
            task, hold, attempt = open_attempt(self.tasks[claim.key], claim, token, self.now)
            self.holds[claim.key], self.live[claim.key] = hold, attempt
            charged = select_budgets(self.budgets.values(), task, claim.agent)
            for budget in reserve(charged, read_reservation(claim)):
                self.budgets[budget.scope, budget.key] = budget
            self._store(task)
        return answer.claims

    def beat(self, worker: Worker) -> Sequence[Hold]:
        self.workers[worker.id] = replace(worker, beat_at=self.now)
        held: list[Hold] = []
        for key, attempt in self.live.items():
            if attempt.worker == worker.id:
                self.holds[key] = hold = replace(self.holds[key], until=self.now + LEASE_S)
                held.append(hold)
        return held

    def sweep(self) -> Sequence[Ending]:
        endings = find_endings(self._view_board())
        for ending in endings:
            key = ending.repository, ending.intent
            self.end_attempt(ending.token, key, ending.ended_as, f"{ending.ended_as}", ending.why)
        self.release_waiting()
        return endings

    def move_attempt(self, token: int, key: TaskKey, state: AttemptState) -> bool:
        attempt = self._find_attempt(token, key)
        if attempt is None:
            return False
        self.live[key] = replace(attempt, state=state)
        if state is AttemptState.STARTED:
            self._note_breaker(BreakerKind.AGENT, self._name_row(attempt), failure=None)
            self._store(start_task(self.tasks[key]))
        return True

    def record_usage(self, token: int, attempt: Attempt) -> bool:
        known = self._find_attempt(token, attempt.key)
        if known is None:
            return False
        self.live[attempt.key] = replace(
            known,
            turns=attempt.turns,
            tokens_in=attempt.tokens_in,
            tokens_out=attempt.tokens_out,
            usd=attempt.usd,
            last_event_at=self.now,
        )
        return True

    def note_answers(self, provider: str, good: int, bad: int, why: str = "") -> None:
        breaker = self.breakers.get((BreakerKind.PROVIDER, provider)) or Breaker(BreakerKind.PROVIDER, provider)
        self.breakers[BreakerKind.PROVIDER, provider] = record_answers(breaker, self.now, good, bad, why)

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "", why: str = "") -> bool:
        attempt = self._find_attempt(token, key)
        if attempt is None:
            return False
        self._close(attempt, ended_as, failure)
        task = self.tasks[key]
        limit = self.repositories[task.repository].attempts
        role = self.roles.get(task.role) or Role(task.role)
        by_hand = self.plans[task.plan].limits.lands_by_hand
        ended = self.ended[key][self.retried[key] :]
        settled = settle_task(task, ended, limit, role, why, lands_by_hand=by_hand)
        self._store(settled)
        if attempt.state is not AttemptState.STARTED and ended_as is AttemptEnd.FAILED:
            self._note_breaker(BreakerKind.AGENT, self._name_row(attempt), failure=failure)
        if settled.state is STUCK and is_plan_failing(self._list_tasks(task.plan)):
            self.plans[task.plan] = replace(self.plans[task.plan], is_paused=True)
        return True

    def widen_hold(self, token: int, key: TaskKey, scope: Sequence[str], scope_sha256: str) -> str | None:
        if self._find_attempt(token, key) is None:
            return key[1]
        task = replace(self.tasks[key], scope=tuple(scope), scope_sha256=scope_sha256)
        self.tasks[key] = task
        self._prove(task)
        for other, hold in self.holds.items():
            if other[0] == key[0] and other != key and not self._has_proof(scope_sha256, hold.scope_sha256):
                return other[1]
        self.holds[key] = replace(self.holds[key], scope=task.scope, scope_sha256=scope_sha256)
        return None

    def meet_owner(self, token: int, key: TaskKey, evidence: Evidence) -> Settlement | None:
        owner = self.tasks.get((key[0], evidence.earlier.intent))
        task = self.tasks[key]
        if self._find_attempt(token, key) is None or owner is None or task.state is not RUNNING:
            return None
        pair = key[0], owner.intent, key[1]
        earlier = replace(evidence.earlier, waits_for_other=self.waits.get(owner.key, ("", ""))[0] == key[1])
        settlement = decide(replace(evidence, earlier=earlier, rounds=self.rounds[pair]))
        self.rounds[pair] += 1
        self._event(EventKind.CONFLICT, key[0], task.plan, key[1], settled_as=settlement.kind)
        if settlement.kind is SettlementKind.WAIT:
            self.waits[key] = owner.intent, evidence.paths[0]
        for after in settle_growth(settlement, owner, task, evidence.paths):
            self._store(after)
            if after.key in self.live and not needs_hold(after):
                self._close(self.live[after.key], AttemptEnd.CANCELLED, "")
        return settlement

    def release_waiting(self) -> None:
        """Resume paused tasks whose awaited path owner has ended."""
        for key, (owner, path) in list(self.waits.items()):
            other = self.tasks.get((key[0], owner))
            if other is None or other.state in FINAL_STATES:
                del self.waits[key]
                for after in release_task(self.tasks[key], owner, path):
                    self._store(after)
                    if key in self.live:
                        self.live[key] = replace(self.live[key], last_event_at=self.now)

    def give_order(self, order: Order) -> int:
        given = replace(order, id=len(self.orders) + 1, at=self.now)
        self.orders.append(given)
        if not order.intent and order.kind in (OrderKind.PAUSE, OrderKind.RESUME):
            self._pause_plans(order.repository, is_paused=order.kind is OrderKind.PAUSE)
        for task in [task for task in self.tasks.values() if self._has_target(task, order)]:
            after = apply_order(task, given)
            if order.kind is OrderKind.RETRY and order.intent:
                self.retried[task.key] = len(self.ended[task.key])
            self._store(after)
            attempt = self.live.get(task.key)
            if attempt is not None and order.kind in (OrderKind.RESUME, OrderKind.GIVE_BACK):
                self.live[task.key] = replace(attempt, last_event_at=self.now)  # a pause is no silence
            if attempt is not None and not needs_hold(after):
                self._close(attempt, AttemptEnd.CANCELLED, "")
            if order.kind is OrderKind.RETRY and after is not task:
                # What was blocked waits again; the next dispatch blocks what still needs something else.
                for blocked in self._list_tasks(task.plan):
                    self._store(apply_order(blocked, given) if blocked.state is BLOCKED else blocked)
        return given.id

    def take_orders(self, worker: str) -> Sequence[Order]:
        mine = {attempt.key for attempt in self.live.values() if attempt.worker == worker}
        taken: list[Order] = []
        for at, order in enumerate(self.orders):
            if order.taken_at is None and any(self._has_target(self.tasks[key], order) for key in mine):
                self.orders[at] = replace(order, taken_at=self.now)
                taken.append(self.orders[at])
        return taken

    def enqueue_landing(self, repository: str, target: str) -> None:
        self.wanted[repository, target] = None

    def gather_landing(
        self, repository: str, target: str, old: str, touched: Mapping[str, Sequence[str]]
    ) -> Landing | None:
        place = repository, target
        if place in self.landing:
            return None
        self.wanted.pop(place, None)
        ready = [
            task
            for task in self.tasks.values()
            if task.repository == repository and task.state is HANDED_IN and self.plans[task.plan].target == target
        ]
        if not ready:
            return None
        size = self.repositories[repository].train
        breaker = self.breakers.get((BreakerKind.REPOSITORY, repository))
        train = gather_train(order_landing(ready), touched, limit_train(breaker, size) if breaker else size)
        if len(train) < len(ready):
            self.enqueue_landing(repository, target)
        self.landing[place] = {task.key: self.holds[task.key].token for task in train}
        for task in train:
            self._store(move_task(task, LANDING))
        members = tuple(task.intent for task in train)
        landing = Landing(len(self.landings) + 1, repository, target, members, old=old, at=self.now)
        self.landings.append(landing)
        return landing

    def note_check(self, landing: Landing, command: str) -> None:
        self.landings[landing.id - 1] = replace(landing, state=LandingState.VERIFYING)
        for intent in landing.members:
            task = self.tasks[landing.repository, intent]
            if task.state is LANDING:
                self._store(replace(task, why=f"`{command}` runs"))

    def choose_attempt(self, landing: Landing, intent: str, attempt: int, why: str) -> None:
        key = landing.repository, intent
        self.holds[key] = replace(self.holds[key], attempt=attempt)
        self._store(replace(self.tasks[key], finished=()))
        self._event(EventKind.LANDING, landing.repository, self.tasks[key].plan, intent, state="chosen", why=why)

    def settle_landing(self, landing: Landing, landed: Sequence[str], conflicts: Sequence[Evidence] = ()) -> bool:
        members = self.landing.pop((landing.repository, landing.target))
        is_current = all(self.holds[key].token == token for key, token in members.items())
        if not is_current:
            landing, landed, conflicts = replace(landing, state=LandingState.TARGET_MOVED), (), ()
        self.landings[landing.id - 1] = landing
        self._event(EventKind.LANDING, landing.repository, "", "")
        for intent in landed:
            task = move_task(self.tasks[landing.repository, intent], LANDED, f"in {landing.new[:12]}")
            self._store(replace(task, landed=landing.new))
        for evidence in conflicts:
            self._settle_conflict(landing, evidence)
        for key in members:
            if self.tasks[key].state is LANDING:
                self._store(move_task(self.tasks[key], HANDED_IN, landing.why or "its train did not land"))
        if landing.state in (LandingState.RED, LandingState.LANDED):
            why = landing.why if landing.state is LandingState.RED else None
            self._note_breaker(BreakerKind.REPOSITORY, landing.repository, failure=why)
        self.release_waiting()
        return is_current

    def read_board(self) -> Board:
        board = self._view_board()
        return replace(board, **{name: dict(getattr(board, name)) for name in board.__struct_fields__ if name != "now"})

    def read_events(self, after: int, limit: int = 500) -> Sequence[FleetEvent]:
        return self.events[after : after + limit]

    def _view_board(self) -> Board:
        """Return the board over the engine's own dictionaries, for a rule that answers before any change."""
        return Board(
            self.now,
            self.repositories,
            self.plans,
            self.tasks,
            self.holds,
            self.live,
            self.workers,
            self.roles,
            self.budgets,
            self.breakers,
            self.proofs,
        )

    def _store(self, task: Task) -> None:
        """Store a task; release its hold if the state needs none, and request a landing for a handed-in task."""
        before = self.tasks[task.key]
        self.tasks[task.key] = task
        if not needs_hold(task):
            self.holds.pop(task.key, None)
        if task.state is HANDED_IN and before.state is not HANDED_IN:
            self.enqueue_landing(task.repository, self.plans[task.plan].target)
        if task.state is not before.state:
            self._event(EventKind.TASK, task.repository, task.plan, task.intent, state=task.state, why=task.why)

    def _event(self, kind: EventKind, repository: str, plan: str, intent: str, **body: str) -> None:
        self.events.append(FleetEvent(len(self.events) + 1, self.now, kind, repository, plan, intent, body=body))

    def _find_attempt(self, token: int, key: TaskKey) -> Attempt | None:
        """Return the running attempt with this token; None for a superseded attempt."""
        attempt = self.live.get(key)
        return attempt if attempt is not None and attempt.token == token else None

    def _close(self, attempt: Attempt, ended_as: AttemptEnd, failure: str) -> None:
        """End an attempt: free its slot, settle its budgets, and stop the renewal of its hold."""
        key = attempt.key
        del self.live[key]
        self.ended[key].append(close_attempt(attempt, ended_as, self.now, failure))
        if key in self.holds:
            self.holds[key] = replace(self.holds[key], until=None)
        reserved = read_reservation(attempt)
        spent = charge_attempt(attempt, self.now)
        for budget in settle(select_budgets(self.budgets.values(), self.tasks[key], attempt.agent), reserved, spent):
            self.budgets[budget.scope, budget.key] = budget

    def _pause_plans(self, repository: str, *, is_paused: bool) -> None:
        """Pause or resume the plans of a repository. Resuming also resets the breaker of its landings."""
        for plan in [plan for plan in self.plans.values() if plan.repository == repository]:
            self.plans[plan.id] = replace(plan, is_paused=is_paused)
        if not is_paused:
            self.breakers.pop((BreakerKind.REPOSITORY, repository), None)

    def _settle_conflict(self, landing: Landing, evidence: Evidence) -> None:
        """Send the task named by the settlement back: to its hold for a further attempt, or to a person."""
        pair = landing.repository, evidence.earlier.intent, evidence.later.intent
        settlement = decide(replace(evidence, rounds=self.rounds[pair]))
        self.rounds[pair] += 1
        self._event(EventKind.CONFLICT, landing.repository, "", settlement.redo, settled_as=settlement.kind)
        task = self.tasks.get((landing.repository, settlement.redo))
        if task is not None and task.state is LANDING:
            self._store(redo_task(task, self.roles.get(task.role) or Role(task.role), settlement))

    def _note_breaker(self, kind: BreakerKind, key: str, failure: str | None) -> None:
        breaker = self.breakers.get((kind, key))
        if failure is not None:
            self.breakers[kind, key] = record_failure(breaker or Breaker(kind, key), self.now, failure)
        elif breaker is not None:
            self.breakers[kind, key] = record_success(breaker, self.now)

    def _name_row(self, attempt: Attempt) -> str:
        worker = self.workers.get(attempt.worker)
        return f"{attempt.agent}@{worker.host if worker else attempt.worker}"

    def _list_tasks(self, plan: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.plan == plan]

    def _has_target(self, task: Task, order: Order) -> bool:
        return task.repository == order.repository and order.intent in ("", task.intent)

    def _has_proof(self, a_sha256: str, b_sha256: str) -> bool:
        proof = self.proofs.get(pair_scopes(a_sha256, b_sha256))
        return proof is not None and proof.answer is ProofAnswer.APART

    def _prove(self, task: Task) -> None:
        """Prove the task's write set against every task of its repository, once per pair."""
        for key, other in self.tasks.items():
            pair = pair_scopes(task.scope_sha256, other.scope_sha256)
            if pair not in self.proofs and key[0] == task.repository and key[1] != task.intent:
                self.proofs[pair] = self.prove(task, other)
