"""Scheduling: each rule with its line, and laws over boards that are drawn."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet.boards import REPOSITORY, hold_task, make_board, make_task, prove_scopes
from remit_fleet.board import (
    Board,
    Breaker,
    BreakerKind,
    FleetRepository,
    OpenPlan,
    PlanLimits,
    Proof,
    ProofAnswer,
    Role,
    SpendingBudget,
    Task,
    TaskState,
    Worker,
    pair_scopes,
)
from remit_fleet.schedule import CircularNeeds, explain_waits, measure_tails, schedule

S = TaskState
FREE = make_task("FREE", "x")


def list_claimed(board: Board) -> list[str]:
    return [claim.intent for claim in schedule(board).claims]


OBSTACLES: Mapping[str, tuple[Board, str]] = {
    "a paused repository": (
        make_board([FREE], repositories={REPOSITORY: FleetRepository(REPOSITORY, paused=True)}),
        "a person: the repository is paused",
    ),
    "a paused plan": (
        make_board([FREE], plans={"p": OpenPlan("p", REPOSITORY, "t", is_paused=True)}),
        "a person: the plan is paused",
    ),
    "red landings": (
        make_board(
            [FREE],
            breakers={(BreakerKind.REPOSITORY, REPOSITORY): Breaker(BreakerKind.REPOSITORY, "r", trips=2, why="tests")},
        ),
        "a person: landings fail one after the other, tests",
    ),
    "a budget": (
        make_board(
            [FREE],
            budgets={("plan", "p"): SpendingBudget("plan", "p", usd=5, reserved_usd=4)},
            roles={"any": Role("any", ("a",), max_usd=2.0)},
        ),
        "a budget: plan p has not enough left",
    ),
    "a dependency": (
        make_board([make_task("INT-001", "a", state=S.RUNNING), make_task("FREE", "x", needs=("INT-001",))]),
        "INT-001, which it needs (running)",
    ),
    "landing": (
        make_board(
            [FREE, make_task("INT-001", "a", state=S.HANDED_IN), make_task("INT-002", "b", state=S.LANDING)],
            repositories={REPOSITORY: FleetRepository(REPOSITORY, train=1)},
        ),
        "landing: 2 tasks wait for it, and at most 2 may",
    ),
    "a shared path": (
        make_board([make_task("INT-001", "ax", state=S.RUNNING), FREE]),
        "INT-001, which may write x too",
    ),
    "a shared path of what was handed in": (
        make_board([make_task("INT-001", "ax", state=S.HANDED_IN), FREE]),
        "INT-001, which may write x too",
    ),
    "no proof": (
        make_board([make_task("INT-001", "a", state=S.RUNNING), FREE], proofs={}),
        "INT-001, which is not proved to write other paths",
    ),
    "a slot": (
        make_board([make_task("INT-001", "a", state=S.RUNNING), FREE], slots=1),
        "an agent: no worker has a free slot for a",
    ),
    "a draining worker": (
        make_board([FREE], workers={"w1": Worker("w1", "h1", slots=4, agents=("a",), draining=True)}),
        "an agent: no worker has a free slot for a",
    ),
    "an agent": (
        make_board([FREE], roles={"any": Role("any", ("codex", "qwen"))}),
        "an agent: no worker has a free slot for codex, qwen",
    ),
    "an agent without a model": (
        make_board(
            [FREE],
            workers={"w1": Worker("w1", "h1", agents=("own",), needs_model=("own",))},
            roles={"any": Role("any")},
        ),
        "an agent: no worker has a free slot for any agent; own has no model: start w1 with REMIT_MODEL",
    ),
    "an agent that does not start there": (
        make_board(
            [FREE], breakers={(BreakerKind.AGENT, "a@h1"): Breaker(BreakerKind.AGENT, "a@h1", until=10.0, trips=1)}
        ),
        "an agent: no worker has a free slot for a",
    ),
    "a provider under pressure": (
        make_board(
            [FREE, make_task("INT-001", "b", state=S.RUNNING), make_task("INT-002", "c", state=S.RUNNING)],
            breakers={(BreakerKind.PROVIDER, "a"): Breaker(BreakerKind.PROVIDER, "a", until=60.0, trips=1)},
        ),
        "an agent: no worker has a free slot for a",
    ),
    "the plan's own limit": (
        make_board(
            [make_task("INT-001", "a", state=S.RUNNING), FREE],
            plans={"p": OpenPlan("p", REPOSITORY, "t", limits=PlanLimits(workers=1))},
        ),
        "a slot: the plan may run 1 agent at once",
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_a_task_with_an_obstacle_waits_and_says_for_what(name: str) -> None:
    board, why = OBSTACLES[name]
    assert list_claimed(board) == []
    assert explain_waits(board)[FREE.key] == why


def test_a_task_without_an_obstacle_starts() -> None:
    board = make_board([FREE])
    (claim,) = schedule(board).claims
    assert (claim.intent, claim.worker, claim.agent) == ("FREE", "w1", "a")
    assert explain_waits(board) == {FREE.key: "its turn"}


def test_of_two_that_share_a_path_one_starts() -> None:
    assert list_claimed(make_board([make_task("INT-001", "ab"), make_task("INT-002", "bc")])) == ["INT-001"]


def test_priority_goes_first_then_the_longest_tail() -> None:
    tasks = measure_tails(
        [
            make_task("INT-001", "a", estimate_s=500.0),
            make_task("INT-002", "b", estimate_s=100.0),
            make_task("INT-003", "c", estimate_s=450.0, needs=("INT-002",)),
            make_task("INT-004", "d", estimate_s=10.0, rank=1),
        ]
    )
    assert [task.tail_s for task in tasks] == [500.0, 550.0, 450.0, 10.0]
    assert list_claimed(make_board(tasks, slots=3)) == ["INT-004", "INT-002", "INT-001"]


def test_a_circle_of_needs_is_named() -> None:
    tasks = [make_task("INT-001", needs=("INT-002",)), make_task("INT-002", needs=("INT-001",)), make_task("INT-003")]
    with pytest.raises(CircularNeeds, match="INT-001, INT-002; take one dependency out"):
        measure_tails(tasks)


def test_the_next_stage_goes_before_new_work_and_needs_no_new_hold() -> None:
    held = make_task("INT-002", "b", state=S.HELD, stage=1)
    handed_in = [make_task(f"INT-1{n}", f"{n}", state=S.HANDED_IN) for n in range(4)]
    few = {REPOSITORY: FleetRepository(REPOSITORY, train=1)}
    assert list_claimed(make_board([make_task("INT-001", "a"), held], slots=1)) == ["INT-002"]
    assert list_claimed(make_board([held, *handed_in], repositories=few)) == ["INT-002"]


def test_a_stage_is_played_by_the_role_of_the_chain() -> None:
    roles = {"any": Role("any", ("a",), chain=("tester",)), "tester": Role("tester", ("b",))}
    workers = {"w1": Worker("w1", "h1", slots=1, agents=("a", "b"))}
    held = make_task("INT-001", "a", state=S.HELD, stage=1)
    (claim,) = schedule(make_board([held], roles=roles, workers=workers)).claims
    assert claim.agent == "b"


@pytest.mark.parametrize(
    ("role", "repository", "chosen"),
    [
        (Role("any"), "", ("own", "w2")),  # a host that names a model, though it has fewer slots
        (Role("any", model="m"), "", ("own", "w1")),
        (Role("any"), "m", ("own", "w1")),
        (Role("any", ("own",)), "", ("own", "w1")),  # as a person chose: it tells itself that it has none
    ],
)
def test_an_agent_starts_where_a_model_is_named_for_it(role: Role, repository: str, chosen: tuple[str, str]) -> None:
    workers = {
        "w1": Worker("w1", "h1", slots=9, agents=("own", "small"), needs_model=("own",)),
        "w2": Worker("w2", "h2", slots=1, agents=("own",)),
    }
    repositories = {REPOSITORY: FleetRepository(REPOSITORY, model=repository)}
    board = make_board([FREE], workers=workers, roles={"any": role}, repositories=repositories)
    assert [(claim.agent, claim.worker) for claim in schedule(board).claims] == [chosen]


def test_the_first_agent_with_a_free_slot_starts_where_most_slots_are_free() -> None:
    workers = {
        "w1": Worker("w1", "h1", slots=1, agents=("codex",)),
        "w2": Worker("w2", "h2", slots=3, agents=("codex",)),
        "w3": Worker("w3", "h3", slots=9, agents=("qwen",)),
    }
    roles = {"any": Role("any", ("claude-code", "codex", "qwen"))}
    claims = schedule(
        make_board([make_task(f"INT-00{n}", str(n)) for n in range(5)], roles=roles, workers=workers)
    ).claims
    assert [(claim.agent, claim.worker) for claim in claims][:2] == [("codex", "w2"), ("codex", "w2")]
    assert Counter(claim.worker for claim in claims) == {"w1": 1, "w2": 3, "w3": 1}


def test_slots_are_shared_by_weight() -> None:
    tasks = [replace(make_task(f"INT-{n:03}"), repository=r, plan=r) for r in ("heavy", "light") for n in range(20)]
    repositories = {"heavy": FleetRepository("heavy", weight=2.0), "light": FleetRepository("light")}
    board = make_board(tasks, slots=9, repositories=repositories, plans={})
    apart = {key: Proof(ProofAnswer.APART) for key in prove_scopes(tasks)}
    board = replace(board, proofs=apart)
    assert Counter(claim.repository for claim in schedule(board).claims) == {"heavy": 6, "light": 3}


def test_what_needs_a_stuck_task_is_blocked_through_others_too() -> None:
    tasks = [
        make_task("INT-001", state=S.STUCK),
        make_task("INT-003", needs=("INT-002",)),
        make_task("INT-002", needs=("INT-001",)),
        make_task("INT-004"),
    ]
    moves = {task.intent: (task.state, task.why) for task in schedule(make_board(tasks, slots=0)).moves}
    assert moves == {
        "INT-002": (S.BLOCKED, "needs INT-001, which is stuck"),
        "INT-003": (S.BLOCKED, "needs INT-002, which is blocked"),
    }


def test_a_held_task_that_needs_what_another_holds_gives_its_paths_back() -> None:
    held, running = make_task("INT-001", "ab", state=S.HELD), make_task("INT-002", "b", state=S.RUNNING)
    board = make_board([held, running])
    board = replace(board, holds={**board.holds, held.key: hold_task(make_task("INT-001", "a"))})
    answer = schedule(board)
    assert answer.claims == ()
    assert [(t.state, t.why) for t in answer.moves] == [(S.WAITING, "gave its paths back: INT-002 may write b too")]


def test_a_need_that_is_in_no_plan_blocks_instead_of_breaking_the_fleet() -> None:
    board = make_board([make_task("INT-001", needs=("INT-009",)), make_task("INT-002")])
    answer = schedule(board)
    assert [claim.intent for claim in answer.claims] == ["INT-002"]
    assert [(task.state, task.why) for task in answer.moves] == [(S.BLOCKED, "needs INT-009, which is in no plan")]
    assert explain_waits(board)["r", "INT-001"] == "INT-009, which it needs (in no plan)"


def test_a_task_is_moved_once() -> None:
    tasks = [make_task("INT-001", "a", state=S.STUCK), make_task("INT-002", "b", needs=("INT-001",))]
    held, running = make_task("INT-003", "cd", state=S.HELD), make_task("INT-004", "d", state=S.RUNNING)
    spent = {("plan", "p"): SpendingBudget("plan", "p", usd=5, spent_usd=4)}
    board = make_board([*tasks, held, running], budgets=spent, roles={"any": Role("any", ("a",), max_usd=2.0)})
    states = {task.intent: task.state for task in schedule(board).moves}
    assert states == {"INT-002": S.BLOCKED, "INT-003": S.WAITING}
    assert len(schedule(board).moves) == 2


def test_a_budget_that_can_pay_for_nothing_more_is_one_question() -> None:
    board = make_board(
        [FREE, make_task("INT-002", "b"), make_task("INT-001", "a", needs=("FREE",))],
        budgets={("plan", "p"): SpendingBudget("plan", "p", usd=5, spent_usd=4)},
        roles={"any": Role("any", ("a",), max_usd=2.0)},
    )
    (asking,) = schedule(board).moves
    assert (asking.intent, asking.state) == ("FREE", S.ASKING)
    counted = "an attempt that reports no cost counts as its limit"
    raises = "`remit plan resume FREE --max-usd 6.00` raises it"
    assert asking.why == f"the budget of plan p is used up; {counted}; {raises}"
    asked = replace(board, tasks={**board.tasks, asking.key: asking})
    assert schedule(asked).moves == ()
    assert explain_waits(asked)["r", "INT-002"] == "a budget: plan p has not enough left"
    raised = replace(asked, budgets={("plan", "p"): SpendingBudget("plan", "p", usd=50, spent_usd=4)})
    assert list_claimed(raised) == ["INT-002"]


def test_money_is_reserved_claim_by_claim() -> None:
    board = make_board(
        [make_task(f"INT-00{n}", str(n)) for n in range(4)],
        budgets={("plan", "p"): SpendingBudget("plan", "p", usd=5)},
        roles={"any": Role("any", ("a",), max_usd=2.0)},
    )
    answer = schedule(board)
    assert [claim.reserved_usd for claim in answer.claims] == [2.0, 2.0]
    assert answer.moves == ()


@st.composite
def draw_board(draw: st.DrawFn) -> Board:
    """Draw a board of up to twelve tasks over six paths, some running without overlap."""
    states = st.sampled_from([S.WAITING, S.WAITING, S.WAITING, S.LANDED, S.HANDED_IN, S.STUCK, S.PAUSED])
    tasks: list[Task] = []
    held: set[str] = set()
    for n in range(draw(st.integers(0, 12))):
        scope = "".join(sorted(draw(st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3))))
        needs = (
            tuple(sorted(draw(st.sets(st.sampled_from([task.intent for task in tasks]), max_size=2)))) if tasks else ()
        )
        state = draw(states)
        if state is S.HANDED_IN and held & set(scope):
            state = S.WAITING
        if state is S.HANDED_IN:
            held |= set(scope)
        fields: dict[str, Any] = {"state": state, "needs": needs, "rank": draw(st.integers(0, 2))}
        tasks.append(make_task(f"INT-{n:03}", scope, **fields))
    return make_board(measure_tails(tasks), slots=draw(st.integers(0, 5)))


@given(draw_board())
def test_claims_are_apart_within_the_slots_and_leave_nothing_that_could_start(board: Board) -> None:
    claims = schedule(board).claims
    assert len(claims) <= board.workers["w1"].slots
    held = [path for hold in board.holds.values() for path in hold.scope]
    held += [path for claim in claims for path in board.tasks[claim.key].scope]
    assert len(held) == len(set(held))
    for claim in claims:
        assert all(board.tasks[REPOSITORY, need].state is S.LANDED for need in board.tasks[claim.key].needs)
    started = {claim.key: replace(board.tasks[claim.key], state=S.RUNNING) for claim in claims}
    after = make_board([started.get(key, task) for key, task in board.tasks.items()], slots=board.workers["w1"].slots)
    assert schedule(after).claims == ()


@given(draw_board(), st.randoms())
def test_the_order_of_rows_changes_nothing(board: Board, chance: Any) -> None:
    rows = list(board.tasks.items())
    chance.shuffle(rows)
    shuffled = replace(board, tasks=dict(rows))
    assert schedule(shuffled).claims == schedule(board).claims
    assert {task.key: task.state for task in schedule(shuffled).moves} == {
        t.key: t.state for t in schedule(board).moves
    }


@given(draw_board())
def test_every_open_task_says_what_it_waits_for(board: Board) -> None:
    waits = explain_waits(board)
    claimed = {claim.key for claim in schedule(board).claims}
    open_tasks = {
        key for key, task in board.tasks.items() if task.state not in {S.LANDED, S.STUCK, S.BLOCKED, S.DROPPED}
    }
    assert set(waits) == open_tasks
    assert all(waits.values())
    assert {key for key, why in waits.items() if why == "its turn"} >= claimed


@given(draw_board())
def test_without_proofs_nothing_starts_beside_another(board: Board) -> None:
    unproved = replace(board, proofs={})
    beside = len(board.holds) + len(schedule(unproved).claims)
    assert beside <= max(1, len(board.holds))


def test_a_proof_is_found_from_either_side() -> None:
    assert pair_scopes("b", "a") == pair_scopes("a", "b") == ("a", "b")


def test_a_task_for_one_worker_waits_for_a_slot_there() -> None:
    workers = {name: Worker(name, host, slots=1, agents=("a",)) for name, host in (("w1", "h1"), ("w2", "h2"))}
    for chosen in ("a@w2", "a@h2"):
        board = make_board([make_task("INT-001", agents=(chosen,))], workers=workers)
        assert [claim.worker for claim in schedule(board).claims] == ["w2"]
    board = make_board([make_task("INT-001", agents=("a@w3",))], workers=workers)
    assert schedule(board).claims == ()
    assert explain_waits(board)["r", "INT-001"] == "an agent: no worker has a free slot for a@w3"
