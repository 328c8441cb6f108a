"""Limits of a plan: reserved before a start, charged at the end, and providers that refuse get fewer slots."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet.both_engines import ENGINES, AnyEngine, key_of, open_engine, start
from fleet.fleet_driving import Fleet
from remit_fleet.attempts import find_endings
from remit_fleet.board import AttemptEnd, BreakerKind, PlanLimits, Role, TaskState
from remit_fleet.breaker import PROVIDER_WINDOW

ONE, TWO = "INT-001", "INT-002"
ROLE = Role("builder", max_usd=2.0)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AnyEngine:
    return open_engine(request.param, tmp_path, ONE, TWO, role=ROLE, limits=PlanLimits(usd=3.0, tokens=1000))


def spent(engine: AnyEngine) -> tuple[float, float, int]:
    budget = engine.read_board().budgets["plan", "plan"]
    return budget.reserved_usd, budget.spent_usd, budget.spent_tokens


def test_a_plan_starts_only_what_its_money_covers_at_worst(engine: AnyEngine) -> None:
    start(engine, ONE, usd=2.0)
    assert spent(engine) == (2.0, 0.0, 0)
    waits = engine.read_board()
    assert waits.tasks[key_of(TWO)].state is TaskState.WAITING


def test_what_tells_its_cost_is_charged_that(engine: AnyEngine) -> None:
    attempt = start(engine, ONE, usd=2.0)
    engine.record_usage(attempt.token, replace(attempt, usd=0.25, tokens_in=30, tokens_out=12, turns=1))
    engine.end_attempt(attempt.token, attempt.key, AttemptEnd.GAVE_UP)
    assert spent(engine) == (0.0, 0.25, 42)


def test_what_tells_no_cost_is_charged_what_it_reserved(engine: AnyEngine) -> None:
    attempt = start(engine, ONE, usd=2.0)
    engine.record_usage(attempt.token, replace(attempt, tokens_in=30, turns=1))
    engine.end_attempt(attempt.token, attempt.key, AttemptEnd.GAVE_UP)
    assert spent(engine) == (0.0, 2.0, 30)


def test_what_never_started_costs_nothing(engine: AnyEngine) -> None:
    attempt = start(engine, ONE, usd=2.0)
    engine.end_attempt(attempt.token, attempt.key, AttemptEnd.FAILED, "no key")
    board = engine.read_board()
    assert board.budgets["plan", "plan"].reserved_usd == 0.0


def test_a_budget_that_one_call_used_up_ends_the_attempt_and_asks_a_person_about_the_rest(engine: AnyEngine) -> None:
    attempt = start(engine, ONE, usd=2.0)
    engine.record_usage(attempt.token, replace(attempt, usd=4.0, turns=1))
    (ending,) = find_endings(engine.read_board())
    assert (ending.intent, ending.ended_as) == (ONE, AttemptEnd.OVER_BUDGET)
    engine.end_attempt(attempt.token, attempt.key, ending.ended_as, "", ending.why)
    assert engine.dispatch() == ()
    tasks = engine.read_board().tasks
    assert [tasks[key_of(intent)].state for intent in (ONE, TWO)] == [TaskState.ASKING, TaskState.ASKING]
    assert tasks[key_of(TWO)].why.startswith("the budget of plan plan is used up; ")


def test_tokens_end_an_attempt_too(engine: AnyEngine) -> None:
    attempt = start(engine, ONE, usd=2.0)
    engine.record_usage(attempt.token, replace(attempt, usd=0.1, tokens_in=990, tokens_out=10, turns=1))
    assert [ending.ended_as for ending in find_endings(engine.read_board())] == [AttemptEnd.OVER_BUDGET]


def test_a_provider_that_refuses_more_than_half_gets_fewer_slots_for_a_while(engine: AnyEngine) -> None:
    engine.note_answers("small", PROVIDER_WINDOW, 0)
    assert engine.read_board().breakers[BreakerKind.PROVIDER, "small"].until is None
    engine.note_answers("small", 0, PROVIDER_WINDOW // 2 + 1, "429")
    breaker = engine.read_board().breakers[BreakerKind.PROVIDER, "small"]
    assert (breaker.trips, breaker.why) == (1, "429")
    assert breaker.until is not None


pytestmark = pytest.mark.timeout(900)
AGENT = Path(__file__).with_name("spending_agent.py")


class SpendingFleet(Fleet):
    def agent_option(self, seconds: float = 0.5, *more: str) -> str:
        del seconds, more
        return f"--agent-command=spender={sys.executable} {AGENT} 1.5"


@pytest.fixture
def fleet(home: Path, tmp_path: Path) -> Generator[SpendingFleet]:
    made = SpendingFleet(home, tmp_path / "work")
    yield made
    made.stop()


def test_an_agent_that_spends_its_plans_money_in_one_call_is_ended_and_a_person_asked(fleet: SpendingFleet) -> None:
    (id,) = fleet.govern(1)
    toml = fleet.root / ".orchestration" / "remit.toml"
    toml.write_text(f"{toml.read_text()}\n[[orchestrator.roles]]\nname = 'builder'\nmax_usd = 1.2\n")
    fleet.start_worker(1)
    fleet.remit("plan", "start", id, "--yes", "--max-usd=1.4")
    fleet.wait_for_state("asking", id)
    (attempt,) = fleet.attempts(id)
    assert (attempt["ended_as"], attempt["usd"]) == ("over_budget", 1.5)
    assert "1.50 USD spent" in fleet.status()[id]["why"]
