"""Forecasts: the course of a plan without an agent."""

from orchestrator.boards import make_board, make_task
from remit.orchestrator.board import Role, Worker
from remit.orchestrator.forecast import describe_forecast, forecast_plan

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
    assert describe_forecast(forecast_plan(board)) == [
        "  0 min  INT-001   any        a            at w1         until  10 min",
        "  0 min  INT-002   any        a            at w2         until  20 min",
        " 10 min  INT-004   any        a            at w1         until  15 min",
        " 20 min  INT-003   any        a            at w1         until  30 min",
        "landed after 30 min; one agent alone: 45 min; reserved: 8.00 USD",
    ]
