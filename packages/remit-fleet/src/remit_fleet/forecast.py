"""Forecasts: what a plan would take if each attempt went like the repository's earlier ones. No agent runs and no row
is stored.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from statistics import median, quantiles

from msgspec import Struct
from msgspec.structs import replace

from remit.core.plurals import count_things
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Claim,
    FleetRepository,
    Hold,
    Landing,
    LandingState,
    OpenPlan,
    PlanForecast,
    PlanUse,
    Proof,
    ProofAnswer,
    Role,
    Spread,
    Task,
    TaskKey,
    TaskState,
    Worker,
    pair_scopes,
)
from remit_fleet.budget import Amount, describe_amount
from remit_fleet.engines.memory import MemoryEngine
from remit_fleet.schedule import explain_waits
from remit_fleet.states import FINAL_STATES

STAGE_SHARE = 0.25
"""Time of a test or review after the work, as a share of the work's, where no earlier one tells."""
MAX_SHOWN_ROWS = 10
MEASURED_ENDS = frozenset(
    {
        AttemptEnd.HANDED_IN,
        AttemptEnd.SENT_BACK,
        AttemptEnd.GAVE_UP,
        AttemptEnd.TIMED_OUT,
        AttemptEnd.OVER_BUDGET,
        AttemptEnd.FAILED,
    }
)
"""Ends that tell what an attempt takes. A person or a dead host ended the others at any moment."""


class PastAttempts(Struct, frozen=True):
    """Earlier attempts of an agent in a role: their number and tasks, and what one of them took. `usd` and `tokens` are
    None where the agent reports none.
    """

    role: str
    agent: str
    attempts: int
    tasks: int
    seconds: Spread
    usd: Spread | None
    tokens: Spread | None

    @property
    def tries(self) -> float:
        """Attempts for each task."""
        return self.attempts / self.tasks


class ForecastRow(Struct, frozen=True):
    """Work of an agent on a stage of a task, all tries together. Times are seconds from the start of the plan."""

    repository: str
    intent: str
    role: str
    agent: str
    worker: str
    starts_s: float
    ends_s: float
    reserved_usd: float = 0.0
    reserved_tokens: int = 0
    past: PastAttempts | None = None


class Forecast(Struct, frozen=True):
    """Predicted course of a plan, with the tasks still waiting at the end and their reasons."""

    rows: tuple[ForecastRow, ...]
    lands_s: dict[TaskKey, float]
    waits: dict[TaskKey, str]

    @property
    def makespan_s(self) -> float:
        """Seconds until the last task has landed."""
        return max(self.lands_s.values(), default=0.0)

    @property
    def work_s(self) -> float:
        """Sum of the seconds of every attempt: the time needed by a single agent."""
        return sum(row.ends_s - row.starts_s for row in self.rows)

    @property
    def reserved_usd(self) -> float:
        return sum(row.reserved_usd for row in self.rows)

    @property
    def reserved_tokens(self) -> int:
        return sum(row.reserved_tokens for row in self.rows)

    @property
    def past(self) -> tuple[PastAttempts, ...]:
        """What the forecast rests on."""
        return tuple(dict.fromkeys(row.past for row in self.rows if row.past is not None))

    def sum_up(self) -> PlanForecast:
        """Return the totals. A sum of money or tokens leaves out the rows that nothing is known of."""
        known = [row.past for row in self.rows if row.past is not None]
        return PlanForecast(
            self.makespan_s,
            self.work_s,
            usd=add_spreads((past.usd, past.tries) for past in known),
            tokens=add_spreads((past.tokens, past.tries) for past in known),
            attempts=len(self.rows),
            without_past=len(self.rows) - len(known),
            without_cost=sum(row.past is None or row.past.usd is None for row in self.rows),
            rests_on=sum(past.attempts for past in self.past),
        )


def measure_past(attempts: Iterable[Attempt]) -> tuple[PastAttempts, ...]:
    """Return what ended attempts took, by role and agent, without those that failed before a model answered, and those
    of a board built anew whose beginning nobody knows.
    """
    groups: defaultdict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        is_start_failure = attempt.ended_as is AttemptEnd.FAILED and not attempt.turns
        is_timed = (attempt.ended_at or 0.0) > attempt.started_at
        if attempt.ended_as in MEASURED_ENDS and is_timed and not is_start_failure:
            groups[attempt.role, attempt.agent].append(attempt)
    return tuple(
        PastAttempts(
            role,
            agent,
            len(found),
            len({attempt.key for attempt in found}),
            measure_spread((each.ended_at or 0.0) - each.started_at for each in found) or Spread(),
            measure_spread(each.usd for each in found if each.usd is not None),
            measure_spread(float(used) for each in found if (used := each.tokens_in + each.tokens_out)),
        )
        for (role, agent), found in sorted(groups.items())
    )


def measure_spread(values: Iterable[float]) -> Spread | None:
    """Return the median of values with the quarters around it; None without a value."""
    found = sorted(values)
    if len(found) < 2:
        return Spread(found[0], found[0], found[0]) if found else None
    low, middle, high = quantiles(found, n=4, method="inclusive")
    return Spread(low, middle, high)


def add_spreads(parts: Iterable[tuple[Spread | None, float]]) -> Spread | None:
    """Return the sum of spreads, each as often as its factor says; None if every part is unknown."""
    known = [(spread, times) for spread, times in parts if spread is not None]
    if not known:
        return None
    return Spread(*(sum(getattr(spread, name) * times for spread, times in known) for name in Spread.__struct_fields__))


def estimate_task(past: Iterable[PastAttempts], role: str) -> float | None:
    """Return the median seconds of a role's attempts, whoever made them; None without any."""
    found = [each.seconds.middle for each in past if each.role == role]
    return median(found) if found else None


def open_board(
    repository: FleetRepository,
    plan: OpenPlan,
    tasks: Sequence[Task],
    shared: Iterable[tuple[str, str]],
    workers: Iterable[Worker],
    roles: Mapping[str, Role],
) -> Board:
    """Return the board of a plan that nobody has started. `shared` are the pairs of intents not proved apart."""
    by_id = {task.intent: task for task in tasks}
    proofs = {
        pair_scopes(by_id[one].scope_sha256, by_id[other].scope_sha256): Proof(ProofAnswer.UNPROVED)
        for one, other in shared
    }
    return Board(
        now=0.0,
        repositories={repository.id: repository},
        plans={plan.id: plan},
        tasks={task.key: task for task in tasks},
        workers={worker.id: worker for worker in workers},
        roles=roles,
        proofs=proofs,
    )


def forecast_plan(board: Board, past: Iterable[PastAttempts] = (), verify_s: float = 0.0) -> Forecast:
    """Run the board's plans from the present state in simulated time, under the rules of real attempts.

    Each attempt takes what earlier ones of its agent and role took, else its task's estimate, and hands in; each
    landing takes `verify_s` and is green. A pair without a proof on the board is apart.
    """
    known = {(each.role, each.agent): each for each in past}
    engine = MemoryEngine(board.repositories.values(), _prove_by(board), budgets=board.budgets.values())
    for plan in board.plans.values():
        engine.open_plan(plan, [task for task in board.tasks.values() if task.plan == plan.id], board.roles)
    for worker in board.workers.values():
        engine.beat(worker)
    engine.rows.breakers.update(board.breakers)
    rows: list[ForecastRow] = []
    lands_s: dict[TaskKey, float] = {}
    agenda: list[tuple[float, int, Claim | Landing]] = []
    landing: set[tuple[str, str]] = set()
    while True:
        for claim in engine.dispatch():
            row = _start(engine, claim, known)
            rows.append(row)
            heappush(agenda, (row.ends_s, len(rows), claim))
        for repository, target in [place for place in engine.rows.landers if place not in landing]:
            train = engine.gather_landing(repository, target, old="", touched={})
            if train is not None:
                landing.add((repository, target))
                heappush(agenda, (engine.now + verify_s, -train.id, train))
        if not agenda:
            break
        engine.now, _, done = heappop(agenda)
        if isinstance(done, Claim):
            engine.end_attempt(engine.rows.live[done.key].token, done.key, AttemptEnd.HANDED_IN)
        else:
            landing.discard((done.repository, done.target))
            engine.settle_landing(replace(done, state=LandingState.LANDED, new="forecast"), done.members)
            lands_s.update({(done.repository, intent): engine.now for intent in done.members})
    return Forecast(tuple(rows), lands_s, explain_waits(engine.read_board()))


def write_forecast(forecast: Forecast) -> dict[str, object]:
    waits = {intent: why for (_, intent), why in forecast.waits.items()}
    lands_s = {intent: seconds for (_, intent), seconds in forecast.lands_s.items()}
    return {"totals": forecast.sum_up(), "rows": forecast.rows, "lands_s": lands_s, "waits": waits}


def describe_forecast(forecast: Forecast) -> Iterator[str]:
    """Yield a forecast as lines of text: the totals, what they rest on, and one line per attempt in the order of
    starting.
    """
    total = forecast.sum_up()
    yield f"forecast: {describe_totals(total)}"
    for past in forecast.past:
        cost = f"{format_spread(past.usd, format_usd)} USD" if past.usd else "cost unknown, it reports none"
        used = f"{format_spread(past.tokens, format_tokens)} tokens" if past.tokens else "tokens unknown"
        made = f"{count_things(past.attempts, 'attempt')} at {count_things(past.tasks, 'task')}"
        yield f"    {past.role} by {past.agent}: {format_spread(past.seconds, format_time)}, {cost}, {used}; {made}"
    if total.without_past:
        what = sorted({f"{row.role} by {row.agent}" for row in forecast.rows if row.past is None})
        yield f"    nothing is known here of {', '.join(what)}: its time is a guess, and its cost is not in the sum"
    if forecast.reserved_usd:
        most = describe_amount(Amount(forecast.reserved_usd, forecast.reserved_tokens))
        yield f"    at most {most} by the limits of the roles, if each task is tried once"
    for row in forecast.rows[:MAX_SHOWN_ROWS]:
        times = f"{format_time(row.starts_s):>7} to {format_time(row.ends_s):>7}"
        yield f"    {times}  {row.intent:9} {row.role:10} {row.agent}"
    if len(forecast.rows) > MAX_SHOWN_ROWS:
        yield f"    and {len(forecast.rows) - MAX_SHOWN_ROWS} more; --json has all"
    for (_, intent), why in sorted(forecast.waits.items()):
        yield f"    {intent} would wait for {why}"


def describe_totals(total: PlanForecast) -> str:
    if not total.attempts:
        return "nothing would start"
    time = f"landed after about {format_time(total.seconds)} ({format_time(total.work_s)} of work)"
    if not total.rests_on:
        return f"{time}; what it costs is unknown: no plan has run here with these agents yet"
    cost = f"{format_spread(total.usd, format_usd)} USD" if total.usd else "cost unknown"
    tokens = f"{format_spread(total.tokens, format_tokens)} tokens" if total.tokens else "tokens unknown"
    return f"{time}, {cost}, {tokens}; rests on {count_things(total.rests_on, 'earlier attempt')}"


def describe_use(board: Board, plan: OpenPlan, used: PlanUse) -> str:
    """Return what a plan has used, beside its forecast and its limits, in one line."""
    tasks = [task for task in board.tasks.values() if task.plan == plan.id]
    landed = sum(task.state is TaskState.LANDED for task in tasks)
    is_over = all(task.state in FINAL_STATES for task in tasks)
    said, seconds = plan.forecast, (used.last_event_at if is_over else board.now) - plan.made_at
    words = [
        f"{landed} of {count_things(len(tasks), 'task')} landed",
        f"{format_time(max(seconds, 0.0))}{f' of about {format_time(said.seconds)}' if said else ''}",
        f"{format_usd(used.usd)}{f' of about {format_usd(said.usd.middle)}' if said and said.usd else ''} USD",
        f"{format_tokens(used.tokens)}"
        f"{f' of about {format_tokens(said.tokens.middle)}' if said and said.tokens else ''} tokens",
    ]
    if used.without_cost:
        words.append(f"{count_things(used.without_cost, 'attempt')} ended without a reported cost")
    bounds = [f"{format_usd(plan.limits.usd)} USD"] if plan.limits.usd is not None else []
    bounds += [f"{format_tokens(plan.limits.tokens)} tokens"] if plan.limits.tokens is not None else []
    return ", ".join(words) + (f"; at most {' and '.join(bounds)}" if bounds else "")


def format_spread(spread: Spread, write: Callable[[float], str]) -> str:
    low, middle, high = write(spread.low), write(spread.middle), write(spread.high)
    return middle if low == high else f"{middle} ({low} to {high})"


def format_usd(usd: float) -> str:
    return f"{usd:.2f}"


def format_tokens(tokens: float) -> str:
    return f"{round(tokens, -3 if tokens >= 10_000 else 0):,.0f}"


def format_time(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min" if minutes or not seconds else f"{seconds:.0f} s"


def _start(engine: MemoryEngine, claim: Claim, known: Mapping[tuple[str, str], PastAttempts]) -> ForecastRow:
    task, attempt = engine.rows.tasks[claim.key], engine.rows.live[claim.key]
    engine.move_attempt(attempt.token, claim.key, AttemptState.STARTED)
    role = engine.view_board().find_role(task)
    past = known.get((role.name, claim.agent))
    seconds = task.estimate_s * (STAGE_SHARE if task.stage else 1.0)
    if past is not None:
        seconds = past.seconds.middle * past.tries
        usd = past.usd.middle * past.tries if past.usd else None
        tokens = round(past.tokens.middle * past.tries) if past.tokens else 0
        engine.record_usage(attempt.token, replace(attempt, turns=1, tokens_out=tokens, usd=usd))
    return ForecastRow(
        task.repository,
        task.intent,
        role.name,
        claim.agent,
        claim.worker,
        starts_s=engine.now,
        ends_s=engine.now + seconds,
        reserved_usd=claim.reserved_usd,
        reserved_tokens=claim.reserved_tokens,
        past=past,
    )


def _prove_by(board: Board) -> Callable[[Task | Hold, Task | Hold], Proof]:
    def find_proof(one: Task | Hold, other: Task | Hold) -> Proof:
        pair = pair_scopes(one.scope_sha256, other.scope_sha256)
        return board.proofs.get(pair, Proof(ProofAnswer.APART))

    return find_proof
