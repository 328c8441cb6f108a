"""Forecasts: the course of a plan without an agent."""

from msgspec.structs import replace

from fleet.boards import make_board, make_task
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    PlanForecast,
    PlanLimits,
    PlanUse,
    Role,
    Spread,
    Worker,
)
from remit_fleet.forecast import PastAttempts, describe_forecast, describe_use, forecast_plan, measure_past

TASKS = [
    make_task("INT-001", "a", estimate_s=600.0),
    make_task("INT-002", "b", estimate_s=1200.0),
    make_task("INT-003", "ab", estimate_s=600.0, needs=("INT-001",)),
    make_task("INT-004", "c", estimate_s=300.0),
]
WORKERS = {name: Worker(name, name, slots=1, agents=("a",)) for name in ("w1", "w2")}


def test_a_forecast_runs_the_plan_by_the_rules() -> None:
    board = make_board(TASKS, workers=WORKERS)
    forecast = forecast_plan(board, verify_s=60)
    assert [(row.intent, row.worker, row.starts_s, row.ends_s) for row in forecast.rows] == [
        ("INT-001", "w1", 0.0, 600.0),
        ("INT-002", "w2", 0.0, 1200.0),
        ("INT-004", "w1", 600.0, 900.0),
        ("INT-003", "w1", 1260.0, 1860.0),
    ]
    assert forecast.lands_s["r", "INT-003"] == forecast.makespan_s == 1920.0
    assert forecast.work_s == 2700.0
    assert forecast.waits == {}


def test_a_forecast_says_what_would_never_start_and_why() -> None:
    board = make_board(TASKS, workers=WORKERS, roles={"any": Role("any", ("codex",))})
    forecast = forecast_plan(board)
    assert forecast.rows == ()
    assert forecast.waits["r", "INT-001"] == "an agent: no worker has a free slot for codex"


def test_stages_are_rows_of_their_own() -> None:
    board = make_board(
        TASKS[:1], roles={"any": Role("any", ("a",), chain=("tester",)), "tester": Role("tester", ("a",))}
    )
    assert [(row.role, row.ends_s) for row in forecast_plan(board).rows] == [("any", 600.0), ("tester", 750.0)]


def test_a_forecast_is_text_that_a_newcomer_reads() -> None:
    board = make_board(TASKS, workers=WORKERS, roles={"any": Role("any", ("a",), max_usd=2.0)})
    assert list(describe_forecast(forecast_plan(board))) == [
        "forecast: landed after about 30 min (45 min of work); what it costs is unknown: no plan has run here with"
        " these agents yet",
        "    nothing is known here of any by a: its time is a guess, and its cost is not in the sum",
        "    at most 8.00 USD by the limits of the roles, if each task is tried once",
        "      0 min to  10 min  INT-001   any        a",
        "      0 min to  20 min  INT-002   any        a",
        "     10 min to  15 min  INT-004   any        a",
        "     20 min to  30 min  INT-003   any        a",
    ]


def end_attempt(intent: str, seconds: float, usd: float | None, end: AttemptEnd = AttemptEnd.HANDED_IN) -> Attempt:
    tokens = 0 if usd is None else round(usd * 100_000)
    done = Attempt("r", intent, 1, 1, agent="a", role="any", ended_as=end, started_at=50.0, ended_at=50.0 + seconds)
    return replace(done, turns=1, usd=usd, tokens_in=tokens)


PAST = [
    end_attempt("INT-011", 100.0, 0.25),
    end_attempt("INT-011", 200.0, 0.50, AttemptEnd.GAVE_UP),
    end_attempt("INT-012", 300.0, 0.75),
    end_attempt("INT-012", 999.0, 9.00, AttemptEnd.LOST),
    replace(end_attempt("INT-013", 1.0, None, AttemptEnd.FAILED), turns=0),
]


def test_a_forecast_rests_on_attempts_that_ended_by_themselves() -> None:
    past = measure_past(PAST)
    spent = Spread(0.375, 0.5, 0.625)
    tokens = Spread(37_500.0, 50_000.0, 62_500.0)
    assert past == (PastAttempts("any", "a", 3, 2, Spread(150.0, 200.0, 250.0), spent, tokens),)
    total = forecast_plan(make_board(TASKS[:2], workers=WORKERS), past, verify_s=20.0).sum_up()
    assert (total.seconds, total.work_s, total.rests_on, total.without_past) == (340.0, 600.0, 3, 0)
    assert total.usd == Spread(1.125, 1.5, 1.875)


def test_what_a_forecast_rests_on_is_said_and_what_is_unknown_too() -> None:
    board = make_board(TASKS[:1])
    lines = list(describe_forecast(forecast_plan(board, measure_past(PAST))))
    assert lines[0] == (
        "forecast: landed after about 5 min (5 min of work), 0.75 (0.56 to 0.94) USD,"
        " 75,000 (56,000 to 94,000) tokens; rests on 3 earlier attempts"
    )
    assert lines[1].startswith("    any by a: 3 min (2 min to 4 min), 0.50 (0.38 to 0.62) USD, ")
    silent = measure_past(replace(each, usd=None, tokens_in=0) for each in PAST)
    text = "\n".join(describe_forecast(forecast_plan(board, silent)))
    assert "cost unknown, it reports none, tokens unknown; 3 attempts at 2 tasks" in text


def test_what_a_plan_has_used_stands_beside_its_forecast_and_its_limits() -> None:
    board = make_board(TASKS[:2])
    plan = replace(
        board.plans["p"],
        limits=PlanLimits(usd=5.0),
        forecast=PlanForecast(600.0, 600.0, Spread(1.0, 2.0, 3.0), attempts=1, rests_on=3),
    )
    assert describe_use(board, plan, PlanUse(2, 0.5, 1200, 1, 5.0)) == (
        "0 of 2 tasks landed, 0 min of about 10 min, 0.50 of about 2.00 USD, 1,200 tokens,"
        " 1 attempt ended without a reported cost; at most 5.00 USD"
    )
