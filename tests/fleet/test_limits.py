"""Budgets, breakers and the endings by rule."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet.boards import hold_task, make_board, make_task, start_attempt
from remit_fleet.attempts import find_endings, find_warnings
from remit_fleet.board import (
    AttemptEnd,
    AttemptState,
    Board,
    Breaker,
    BreakerKind,
    OpenPlan,
    PlanLimits,
    Role,
    SpendingBound,
    SpendingBudget,
    TaskState,
    Worker,
)
from remit_fleet.breaker import (
    MAX_LOST_ATTEMPTS,
    PROVIDER_WINDOW,
    find_stuck_reason,
    is_open,
    is_plan_failing,
    limit_slots,
    limit_train,
    must_ask,
    record_answer,
    record_failure,
    record_success,
)
from remit_fleet.budget import (
    Amount,
    BudgetExceeded,
    charge_attempt,
    estimate_amount,
    judge_spending,
    make_plan_budgets,
    reserve,
    select_budgets,
    settle,
)
from remit_fleet.schedule import schedule

E = AttemptEnd
RUNNING = make_task("INT-001", "a", state=TaskState.RUNNING)


def test_an_attempt_reserves_half_as_much_again_as_usual_and_at_least_what_its_role_may_use() -> None:
    task = make_task("INT-001", estimate_s=100.0)
    assert estimate_amount(task, Role("any", estimate_usd=2.0, max_usd=1.0)) == Amount(3.0, seconds=150.0)
    assert estimate_amount(task, Role("any", estimate_usd=1.0, max_usd=4.0, max_seconds=900)) == Amount(
        4.0, seconds=900
    )


def test_a_smaller_budget_is_reserved_as_a_whole_and_of_a_tasks_own_what_is_left() -> None:
    role = Role("any", max_usd=3.0)
    plan, task = SpendingBudget("plan", "p", usd=0.9), SpendingBudget("task", "p/INT-001", usd=2.0, spent_usd=1.5)
    assert estimate_amount(RUNNING, role, [plan]).usd == 0.9
    assert estimate_amount(RUNNING, role, [replace(plan, spent_usd=0.5)]).usd == 0.9
    assert estimate_amount(RUNNING, role, [plan, task]).usd == 0.5
    assert estimate_amount(RUNNING, role, [replace(task, spent_usd=2.0)]).usd == 3.0


def test_tokens_are_reserved_where_a_role_bounds_them_and_charged_where_they_are_unknown() -> None:
    role = Role("any", ("a",), max_usd=1.0, max_tokens=50_000)
    plan = SpendingBudget("plan", "p", tokens=120_000)
    task = SpendingBudget("task", "p/INT-001", tokens=60_000, spent_tokens=20_000)
    assert estimate_amount(RUNNING, role, [plan]).tokens == 50_000
    assert estimate_amount(RUNNING, role, [plan, task]).tokens == 40_000
    assert estimate_amount(RUNNING, Role("any"), [plan]).tokens == 0
    tasks = [make_task(f"INT-{n:03}", "abc"[n]) for n in range(3)]
    board = make_board(tasks, roles={"any": role}, budgets={("plan", "p"): plan})
    answer = schedule(board)
    assert [claim.reserved_tokens for claim in answer.claims] == [50_000, 50_000]
    silent = start_attempt(RUNNING, usd=0.1, reserved_tokens=50_000)
    assert charge_attempt(silent, 10.0).tokens == 50_000
    assert charge_attempt(replace(silent, tokens_in=40, tokens_out=2), 10.0).tokens == 42
    assert charge_attempt(replace(silent, state=AttemptState.PREPARED), 10.0).tokens == 0


def test_a_plan_has_budgets_of_its_own_of_its_tasks_and_of_agents() -> None:
    limits = PlanLimits(task=SpendingBound(usd=2.0), agents={"codex": SpendingBound(tokens=500)})
    plan = OpenPlan("p", "r", "t", limits=limits)
    assert make_plan_budgets(plan, [RUNNING]) == [
        SpendingBudget("task", "p/INT-001", usd=2.0),
        SpendingBudget("agent", "p/codex", tokens=500),
    ]
    assert make_plan_budgets(replace(plan, limits=PlanLimits(usd=9.0)), [RUNNING]) == [SpendingBudget("plan", "p", 9.0)]


def test_an_agent_whose_budget_is_used_up_leaves_the_work_to_the_next_one_and_the_last_one_asks() -> None:
    spent = {(b.scope, b.key): b for b in [SpendingBudget("agent", "p/a", usd=1.0, spent_usd=1.0)]}
    task = make_task("INT-001", "a")
    roles = {"any": Role("any", ("a", "b"), max_usd=0.5)}
    workers = {"w1": Worker("w1", "h1", slots=2, agents=("a", "b"))}
    (claim,) = schedule(make_board([task], roles=roles, workers=workers, budgets=spent)).claims
    assert claim.agent == "b"
    alone = schedule(make_board([task], roles={"any": Role("any", ("a",), max_usd=0.5)}, budgets=spent))
    assert alone.claims == ()
    (asking,) = alone.moves
    assert asking.state is TaskState.ASKING
    assert asking.why.startswith("the budget of agent p/a is used up; ")
    assert "`remit task drop INT-001` and a new plan" in asking.why


def test_an_attempt_is_charged_to_every_budget_it_falls_under() -> None:
    keys = [("fleet", ""), ("repository", "r"), ("plan", "p"), ("intent", "r/INT-001"), ("role", "any")]
    keys += [("task", "p/INT-001"), ("agent", "p/codex")]
    others = [("plan", "q"), ("intent", "INT-001"), ("role", "tester"), ("agent", "p/other"), ("task", "q/INT-001")]
    budgets = [SpendingBudget(scope, key) for scope, key in keys + others]
    assert [(b.scope, b.key) for b in select_budgets(budgets, make_task("INT-001"), "codex")] == keys


def test_a_reservation_that_one_budget_cannot_pay_reserves_nothing() -> None:
    rich, poor = SpendingBudget("fleet", "", usd=100), SpendingBudget("plan", "p", usd=1)
    with pytest.raises(BudgetExceeded, match=r"the budget of plan p has not enough left for 2\.00 USD"):
        reserve([rich, poor], Amount(2.0))


@pytest.mark.parametrize(
    ("budget", "state"),
    [
        (SpendingBudget("fleet", ""), "fine"),
        (SpendingBudget("fleet", "", usd=10, spent_usd=7.9), "fine"),
        (SpendingBudget("fleet", "", usd=10, spent_usd=8), "warned"),
        (SpendingBudget("fleet", "", usd=10, spent_usd=1, tokens=10, spent_tokens=9), "warned"),
        (SpendingBudget("fleet", "", seconds=60, spent_seconds=60), "exhausted"),
        (SpendingBudget("fleet", "", usd=0), "exhausted"),
    ],
)
def test_how_far_a_budget_is_used(budget: SpendingBudget, state: str) -> None:
    assert judge_spending(budget) == state


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), max_size=20))
def test_reservations_never_exceed_the_budget_and_all_come_back(attempts: Sequence[tuple[float, float]]) -> None:
    budgets = [SpendingBudget("fleet", "", usd=10)]
    running: list[tuple[Amount, float]] = []
    for asked, used in attempts:
        try:
            budgets = reserve(budgets, Amount(asked))
            running.append((Amount(asked), min(asked, used)))
        except BudgetExceeded:
            if running:
                reserved, spent = running.pop(0)
                budgets = settle(budgets, reserved, Amount(spent))
        assert budgets[0].spent_usd + budgets[0].reserved_usd <= 10 + 1e-6
    for reserved, spent in running:
        budgets = settle(budgets, reserved, Amount(spent))
    assert budgets[0].reserved_usd == pytest.approx(0, abs=1e-6)


def list_ends(*ends: tuple[AttemptEnd, str]) -> list[str | None]:
    """Return for each length of a task's history whether the task is stuck, and why."""
    history = [
        replace(start_attempt(RUNNING), attempt=n, ended_as=end, failure=failure)
        for n, (end, failure) in enumerate(ends, 1)
    ]
    return [find_stuck_reason(history[:n], 3) for n in range(1, len(history) + 1)]


def test_a_task_is_stuck_after_three_failures_or_the_same_twice() -> None:
    assert list_ends((E.FAILED, "a"), (E.SILENT, "b"), (E.GAVE_UP, "c")) == [
        None,
        None,
        "3 attempts failed; the last one gave_up",
    ]
    assert list_ends((E.FAILED, "a"), (E.FAILED, "a")) == [None, "the same failure twice: a"]
    assert list_ends((E.FAILED, ""), (E.FAILED, "")) == [None, None]


def test_lost_and_cancelled_attempts_are_not_the_tasks_fault_up_to_a_number() -> None:
    lost = list_ends(*[(E.CANCELLED, "")] * 4, *[(E.LOST, "lost")] * MAX_LOST_ATTEMPTS)
    assert lost[:-1] == [None] * (3 + MAX_LOST_ATTEMPTS)
    assert lost[-1] == "5 workers were lost with it"


def test_an_agent_that_does_not_start_rests_each_time_twice_as_long() -> None:
    breaker = Breaker(BreakerKind.AGENT, "a@h1")
    for at in (0, 10, 20):
        assert not is_open(breaker, at)
        breaker = record_failure(breaker, at, "no key")
    assert (is_open(breaker, 619), is_open(breaker, 620)) == (True, False)
    for at in (700, 710, 720):
        breaker = record_failure(breaker, at, "no key")
    assert (is_open(breaker, 720 + 1199), is_open(breaker, 720 + 1200)) == (True, False)
    assert record_success(breaker, 2000) == Breaker(BreakerKind.AGENT, "a@h1")


def test_failures_that_lie_far_apart_do_not_add_up() -> None:
    breaker = Breaker(BreakerKind.AGENT, "a@h1")
    for at in range(0, 6000, 599):
        breaker = record_failure(breaker, at, "no key")
    assert breaker.until is None


def test_a_provider_under_pressure_gets_half_the_slots_and_one_more_each_minute() -> None:
    breaker = Breaker(BreakerKind.PROVIDER, "p")
    for n in range(PROVIDER_WINDOW):
        breaker = record_answer(breaker, 100.0, is_good=n % 2 == 0)
    assert limit_slots(breaker, 8, 100.0) == 8
    for _ in range(2):  # the first one pushes an old bad answer out
        breaker = record_answer(breaker, 100.0, is_good=False, why="529")
    assert [limit_slots(breaker, 8, 100.0 + 60 * n) for n in range(6)] == [4, 5, 6, 7, 8, 8]
    assert limit_slots(breaker, 1, 100.0) == 1


def test_red_trains_make_single_landings_and_then_a_question() -> None:
    breaker = Breaker(BreakerKind.REPOSITORY, "r")
    found: list[tuple[int, bool]] = []
    for at in range(6):
        breaker = record_failure(breaker, at, "tests")
        found.append((limit_train(breaker, 8), must_ask(breaker)))
    assert found == [(8, False), (8, False), (1, False), (1, False), (1, False), (1, True)]
    assert limit_train(record_success(breaker, 7), 8) == 8


@pytest.mark.parametrize(("stuck", "of", "fails"), [(1, 2, False), (2, 5, False), (3, 10, False), (4, 10, True)])
def test_a_plan_pauses_when_many_of_its_tasks_are_stuck(stuck: int, of: int, fails: bool) -> None:
    states = [TaskState.STUCK] * stuck + [TaskState.WAITING] * (of - stuck)
    assert is_plan_failing([make_task(f"INT-{n:03}", state=state) for n, state in enumerate(states)]) == fails


def run_board(now: float, role: Role, **fields: object) -> Board:
    board = make_board([RUNNING], now=now, roles={"any": role})
    return replace(board, **fields)


@pytest.mark.parametrize(
    ("board", "end", "why"),
    [
        (run_board(59, Role("any")), None, ""),
        (run_board(61, Role("any")), E.LOST, "worker w1 did not renew its lease"),
        (run_board(0, Role("any"), holds={}), E.SUPERSEDED, "its write set belongs to a later attempt"),
        (
            run_board(0, Role("any"), holds={RUNNING.key: hold_task(RUNNING, token=2)}),
            E.SUPERSEDED,
            "its write set belongs to a later attempt",
        ),
        (
            run_board(301, Role("any"), holds={RUNNING.key: hold_task(RUNNING, until=999)}),
            E.SILENT,
            "no event for 301 s",
        ),
        (run_board(50, Role("any", max_seconds=40)), E.TIMED_OUT, "longer than 40 s"),
        (
            run_board(0, Role("any", max_usd=1.0), attempts={RUNNING.key: start_attempt(RUNNING, usd=1.0)}),
            E.OVER_BUDGET,
            "1.00 USD spent, `max_usd` of any is 1.00",
        ),
        (
            run_board(
                0,
                Role("any", max_tokens=1000),
                attempts={RUNNING.key: start_attempt(RUNNING, tokens_in=900, tokens_out=100)},
            ),
            E.OVER_BUDGET,
            "1,000 tokens used, `max_tokens` of any is 1000",
        ),
        (
            run_board(
                0,
                Role("any"),
                attempts={RUNNING.key: start_attempt(RUNNING, usd=1.0)},
                budgets={("fleet", ""): SpendingBudget("fleet", "", usd=3.0, spent_usd=2.0)},
            ),
            E.OVER_BUDGET,
            "the budget of fleet is used up",
        ),
    ],
)
def test_how_a_rule_ends_an_attempt(board: Board, end: AttemptEnd | None, why: str) -> None:
    found = [(ending.ended_as, ending.why) for ending in find_endings(board)]
    assert found == ([] if end is None else [(end, why)])


def test_a_paused_attempt_is_neither_silent_nor_too_long_but_may_be_lost() -> None:
    paused = replace(RUNNING, state=TaskState.PAUSED, returns_to=TaskState.RUNNING)
    board = run_board(400, Role("any", max_seconds=40), tasks={paused.key: paused})
    held = replace(board, holds={paused.key: hold_task(paused, until=999)})
    assert find_endings(held) == []
    assert [ending.ended_as for ending in find_endings(board)] == [E.LOST]


@pytest.mark.parametrize(("spent", "warned"), [(1.0, False), (1.5, True), (2.5, False)])
def test_an_agent_is_told_once_four_fifths_of_a_budget_are_used(spent: float, warned: bool) -> None:
    budget = SpendingBudget("plan", "p", usd=3.0, spent_usd=spent)
    running = {RUNNING.key: start_attempt(RUNNING, usd=1.0)}
    found = find_warnings(run_board(0, Role("any"), attempts=running, budgets={("plan", "p"): budget}))
    assert found == ({RUNNING.key: "plan p"} if warned else {})
