"""Forecasts: agent and time of each task if every task took its estimate. No agent runs and no row is stored."""

from collections.abc import Callable
from heapq import heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from remit.orchestrator.board import (
    AttemptEnd,
    AttemptState,
    Board,
    Claim,
    Landing,
    LandingState,
    Proof,
    ProofAnswer,
    Task,
    TaskKey,
    pair_scopes,
)
from remit.orchestrator.engines.inline import InlineEngine
from remit.orchestrator.schedule import explain_waits

STAGE_SHARE = 0.25
"""Time of a test or review after the work, as a share of the work's."""


class ForecastRow(Struct, frozen=True):
    """An attempt of the forecast. Times are seconds from the start of the plan."""

    repository: str
    intent: str
    role: str
    agent: str
    worker: str
    starts_s: float
    ends_s: float
    reserved_usd: float = 0.0


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


def forecast_plan(board: Board, verify_s: float = 0.0) -> Forecast:
    """Run the board's plans from the present state in simulated time, under the rules of real attempts.

    Each attempt takes its task's estimate and hands in; each landing takes `verify_s` and is green.
    """
    engine = InlineEngine(
        board.repositories.values(), _prove_by(board), roles=board.roles.values(), budgets=board.budgets.values()
    )
    for plan in board.plans.values():
        engine.open_plan(plan, [task for task in board.tasks.values() if task.plan == plan.id])
    for worker in board.workers.values():
        engine.beat(worker)
    engine.breakers.update(board.breakers)
    rows: list[ForecastRow] = []
    lands_s: dict[TaskKey, float] = {}
    agenda: list[tuple[float, int, Claim | Landing]] = []
    while True:
        for claim in engine.dispatch():
            row = _start(engine, claim)
            rows.append(row)
            heappush(agenda, (row.ends_s, len(rows), claim))
        for place in list(engine.wanted):
            landing = engine.gather_landing(*place, old="", touched={})
            if landing is not None:
                heappush(agenda, (engine.now + verify_s, -landing.id, landing))
        if not agenda:
            break
        engine.now, _, done = heappop(agenda)
        if isinstance(done, Claim):
            engine.end_attempt(engine.live[done.key].token, done.key, AttemptEnd.HANDED_IN)
        else:
            engine.settle_landing(replace(done, state=LandingState.LANDED, new="forecast"), done.members)
            lands_s.update({(done.repository, intent): engine.now for intent in done.members})
    return Forecast(tuple(rows), lands_s, explain_waits(engine.read_board()))


def describe_forecast(forecast: Forecast) -> list[str]:
    """Return a forecast as lines of text: one line per attempt in the order of starting, and the sums."""
    lines = [
        f"{_format_time(row.starts_s):>7}  {row.intent:9} {row.role:10} {row.agent:12} at {row.worker:10}"
        f" until {_format_time(row.ends_s):>7}"
        for row in forecast.rows
    ]
    lines += [f"         {intent:9} would wait for {why}" for (_, intent), why in sorted(forecast.waits.items())]
    total = f"landed after {_format_time(forecast.makespan_s)}; one agent alone: {_format_time(forecast.work_s)}"
    return [*lines, f"{total}; reserved: {forecast.reserved_usd:.2f} USD" if forecast.reserved_usd else total]


def _start(engine: InlineEngine, claim: Claim) -> ForecastRow:
    """Start the claimed attempt, and return its row."""
    task = engine.tasks[claim.key]
    engine.move_attempt(engine.live[claim.key].token, claim.key, AttemptState.STARTED)
    role = engine.read_board().find_role(task)
    seconds = task.estimate_s * (STAGE_SHARE if task.stage else 1.0)
    return ForecastRow(
        task.repository,
        task.intent,
        role.name,
        claim.agent,
        claim.worker,
        starts_s=engine.now,
        ends_s=engine.now + seconds,
        reserved_usd=claim.reserved_usd,
    )


def _prove_by(board: Board) -> Callable[[Task, Task], Proof]:
    def find_proof(one: Task, other: Task) -> Proof:
        pair = pair_scopes(one.scope_sha256, other.scope_sha256)
        return board.proofs.get(pair, Proof(ProofAnswer.UNPROVED))

    return find_proof


def _format_time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
