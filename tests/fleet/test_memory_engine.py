"""The engine in memory: its protocol, orders of people, stages, wider write sets, landings."""

import pytest
from msgspec.structs import replace

from fleet.boards import make_task
from fleet.world import prove_by_paths
from remit_fleet.board import (
    AttemptEnd,
    AttemptState,
    BreakerKind,
    EventKind,
    FleetRepository,
    Landing,
    LandingState,
    OpenPlan,
    Order,
    OrderKind,
    Role,
    SpendingBudget,
    Task,
    TaskState,
    Worker,
)
from remit_fleet.conflict import ConflictKind, Evidence, Party
from remit_fleet.engines.engine import Engine
from remit_fleet.engines.memory import MemoryEngine
from remit_fleet.schedule import CircularNeeds

S, E = TaskState, AttemptEnd
PLAN = OpenPlan("p", "r", "remit/next")
ANY_ROLE = Role("any", ("a",))
ONE, TWO = ("r", "INT-001"), ("r", "INT-002")


def open_engine(*tasks: Task, role: Role = ANY_ROLE, **fields: object) -> MemoryEngine:
    """Return an engine with the tasks, a worker of four slots, and nothing started yet."""
    engine = MemoryEngine([replace(FleetRepository("r"), **fields)], prove_by_paths)
    engine.open_plan(PLAN, tasks, {role.name: role})
    engine.beat(Worker("w1", "h1", slots=4, agents=("a",)))
    return engine


def start_all(engine: MemoryEngine) -> None:
    for claim in engine.dispatch():
        assert engine.move_attempt(engine.rows.live[claim.key].token, claim.key, AttemptState.STARTED)


def hand_in(engine: MemoryEngine, *keys: tuple[str, str]) -> None:
    for key in keys:
        assert engine.end_attempt(engine.rows.live[key].token, key, E.HANDED_IN)


def gather(engine: MemoryEngine) -> Landing:
    landing = engine.gather_landing("r", "remit/next", "c0", {})
    assert landing is not None
    return replace(landing, state=LandingState.LANDED, new="c1")


def get_states(engine: MemoryEngine) -> list[TaskState]:
    return [task.state for task in engine.rows.tasks.values()]


def test_the_engine_in_memory_is_an_engine() -> None:
    engine: Engine = open_engine(make_task("INT-001"))
    assert engine.read_board().tasks[ONE].state is S.WAITING


def test_a_task_goes_from_its_plan_to_the_target() -> None:
    engine = open_engine(make_task("INT-001", "a"))
    start_all(engine)
    hand_in(engine, ONE)
    landing = gather(engine)
    assert engine.settle_landing(landing, ["INT-001"])
    states = [event.body["state"] for event in engine.read_events(0) if event.kind is EventKind.TASK]
    assert states == [S.WAITING, S.HELD, S.RUNNING, S.HANDED_IN, S.LANDING, S.LANDED]
    assert engine.rows.tasks[ONE].landed == "c1"
    assert engine.rows.holds == {}


def test_the_feed_goes_on_after_a_number() -> None:
    engine = open_engine(make_task("INT-001", "a"))
    start_all(engine)
    first, *rest = engine.read_events(0)
    assert [event.seq for event in (first, *rest)] == [1, 2, 3, 4, 5, 6]
    assert engine.read_events(1) == rest


def test_a_board_that_was_read_does_not_change() -> None:
    engine = open_engine(make_task("INT-001", "a"))
    before = engine.read_board()
    start_all(engine)
    assert before.tasks[ONE].state is S.WAITING
    assert not before.holds


def test_an_intent_is_in_one_open_plan() -> None:
    engine = open_engine(make_task("INT-001"))
    with pytest.raises(ValueError, match="INT-001 is waiting in plan 'p': it cannot be in 'q' too"):
        engine.open_plan(replace(PLAN, id="q"), [replace(make_task("INT-001"), plan="q")])


def test_a_plan_with_an_unknown_need_or_a_circle_is_not_opened() -> None:
    with pytest.raises(ValueError, match="INT-001 needs INT-009"):
        open_engine(make_task("INT-001", needs=("INT-009",)))
    with pytest.raises(CircularNeeds):
        open_engine(make_task("INT-001", needs=("INT-002",)), make_task("INT-002", needs=("INT-001",)))


def test_an_effect_of_a_superseded_attempt_changes_nothing() -> None:
    engine = open_engine(make_task("INT-001", "a"))
    start_all(engine)
    old = engine.rows.live[ONE]
    engine.now = 61
    assert [ending.ended_as for ending in engine.sweep()] == [E.LOST]
    start_all(engine)
    before = engine.read_board()
    assert not engine.move_attempt(old.token, ONE, AttemptState.STARTED)
    assert not engine.record_usage(old.token, replace(old, usd=5.0))
    assert not engine.end_attempt(old.token, ONE, E.HANDED_IN)
    assert engine.widen_hold(old.token, ONE, ("a", "b"), "ab") == "INT-001"
    assert engine.read_board() == before
    assert engine.rows.live[ONE].token > old.token


def test_a_worker_that_comes_back_learns_what_it_still_has() -> None:
    engine = open_engine(make_task("INT-001", "a"))
    start_all(engine)
    worker = engine.rows.workers["w1"]
    assert [hold.intent for hold in engine.beat(worker)] == ["INT-001"]
    engine.now = 200
    engine.sweep()
    assert engine.beat(worker) == []


def test_stages_follow_on_one_hold_and_the_last_one_hands_in() -> None:
    role = Role("any", ("a",), chain=("tester", "reviewer"))
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "ab"), role=role)
    for stage in range(3):
        start_all(engine)
        assert engine.rows.tasks[ONE].stage == stage
        assert list(engine.rows.holds) == [ONE]
        hand_in(engine, ONE)
    assert get_states(engine) == [S.HANDED_IN, S.WAITING]
    assert [attempt.attempt for attempt in engine.rows.ended["p", "INT-001"]] == [1, 2, 3]


def test_a_failed_attempt_is_tried_again_until_the_task_is_stuck_and_frees_its_paths() -> None:
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "ab"), attempts=2)
    for number in range(2):
        start_all(engine)
        engine.end_attempt(engine.rows.live[ONE].token, ONE, E.FAILED, f"failure {number}")
    assert engine.rows.tasks[ONE].state is S.STUCK
    start_all(engine)
    assert list(engine.rows.holds) == [TWO]


def test_retrying_a_stuck_task_unblocks_what_needs_it() -> None:
    tasks = [make_task("INT-001", "a"), make_task("INT-002", "b", needs=("INT-001",))]
    engine = open_engine(*tasks, attempts=1)
    start_all(engine)
    engine.end_attempt(engine.rows.live[ONE].token, ONE, E.FAILED, "a failure")
    engine.dispatch()
    assert get_states(engine) == [S.STUCK, S.BLOCKED]
    engine.give_order(Order(0, "r", OrderKind.RETRY, "INT-001"))
    assert get_states(engine) == [S.WAITING, S.WAITING]


def test_a_dropped_task_ends_its_attempt_and_frees_its_paths() -> None:
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "ab"))
    start_all(engine)
    engine.give_order(Order(0, "r", OrderKind.DROP, "INT-001", by="ana"))
    assert engine.rows.ended["p", "INT-001"][0].ended_as is E.CANCELLED
    assert engine.rows.tasks[ONE].why == "dropped by ana"
    start_all(engine)
    assert list(engine.rows.live) == [TWO]


def test_stopping_everything_leaves_only_what_lands() -> None:
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "b"), make_task("INT-003", "a"))
    start_all(engine)
    hand_in(engine, ONE)
    landing = gather(engine)
    engine.give_order(Order(0, "r", OrderKind.STOP))
    assert get_states(engine) == [S.LANDING, S.DROPPED, S.DROPPED]
    assert engine.settle_landing(landing, ["INT-001"])
    assert engine.rows.holds == engine.rows.live == {}


def test_a_reassigned_task_goes_to_the_agent_that_a_person_named() -> None:
    engine = open_engine(make_task("INT-001", "a"))
    engine.beat(Worker("w2", "h2", slots=1, agents=("b",)))
    start_all(engine)
    engine.give_order(Order(0, "r", OrderKind.REASSIGN, "INT-001", body="b"))
    (claim,) = engine.dispatch()
    assert (claim.agent, claim.worker) == ("b", "w2")


def test_a_task_that_is_handed_in_while_paused_lands_once_it_is_resumed() -> None:
    engine = open_engine(make_task("INT-001", "a"))
    start_all(engine)
    engine.give_order(Order(0, "r", OrderKind.PAUSE, "INT-001"))
    hand_in(engine, ONE)
    assert engine.rows.tasks[ONE].state is S.PAUSED
    assert engine.gather_landing("r", "remit/next", "c0", {}) is None
    assert not engine.rows.landers
    engine.give_order(Order(0, "r", OrderKind.RESUME, "INT-001"))
    engine.sweep()
    assert list(engine.rows.landers) == [("r", "remit/next")]
    assert gather(engine).members == ("INT-001",)


def test_pausing_everything_starts_nothing_and_resuming_goes_on() -> None:
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "a"))
    start_all(engine)
    engine.give_order(Order(0, "r", OrderKind.PAUSE))
    assert get_states(engine) == [S.PAUSED, S.PAUSED]
    assert engine.dispatch() == ()
    engine.give_order(Order(0, "r", OrderKind.RESUME))
    assert get_states(engine) == [S.RUNNING, S.WAITING]


def test_an_order_is_taken_once_by_the_worker_it_concerns() -> None:
    engine = open_engine(make_task("INT-001", "a"))
    start_all(engine)
    engine.give_order(Order(0, "r", OrderKind.STEER, "INT-001", body="use the cache"))
    assert engine.take_orders("w9") == []
    assert [order.body for order in engine.take_orders("w1")] == ["use the cache"]
    assert engine.take_orders("w1") == []


def test_a_free_path_is_added_at_once_and_a_held_one_at_the_next_attempt() -> None:
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "b"))
    start_all(engine)
    assert engine.widen_hold(engine.rows.live[ONE].token, ONE, ("a", "c"), "ac") is None
    assert engine.rows.holds[ONE].scope == ("a", "c")
    assert engine.widen_hold(engine.rows.live[ONE].token, ONE, ("a", "b", "c"), "abc") == "INT-002"
    assert engine.rows.holds[ONE].scope == ("a", "c")
    engine.end_attempt(engine.rows.live[ONE].token, ONE, E.CANCELLED)
    assert engine.dispatch() == ()
    hand_in(engine, TWO)
    assert engine.settle_landing(gather(engine), ["INT-002"])
    start_all(engine)
    assert engine.rows.holds[ONE].scope == ("a", "b", "c")


def test_one_landing_at_a_time_and_the_rest_in_the_next() -> None:
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "b"), train=1)
    start_all(engine)
    hand_in(engine, ONE, TWO)
    landing = gather(engine)
    assert landing.members == ("INT-001",)
    assert gather(engine) == landing
    assert ("r", "remit/next") in engine.rows.landers
    assert engine.settle_landing(landing, ["INT-001"])
    assert not engine.settle_landing(landing, ["INT-001"])
    assert gather(engine).members == ("INT-002",)


def test_a_target_that_moved_leaves_all_handed_in_and_asks_again() -> None:
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "b"))
    start_all(engine)
    hand_in(engine, ONE, TWO)
    assert engine.settle_landing(replace(gather(engine), state=LandingState.TARGET_MOVED), ())
    assert get_states(engine) == [S.HANDED_IN, S.HANDED_IN]
    assert ("r", "remit/next") in engine.rows.landers


def test_what_makes_a_train_red_is_redone_on_its_hold_twice_and_then_asked() -> None:
    engine = open_engine(make_task("INT-001", "a"), make_task("INT-002", "b"))
    start_all(engine)
    hand_in(engine, ONE, TWO)
    evidence = Evidence(ConflictKind.MEANING, Party("INT-001"), Party("INT-002"))
    assert engine.settle_landing(gather(engine), ["INT-001"], [evidence])
    assert get_states(engine) == [S.LANDED, S.HELD]
    for after in (S.HELD, S.ASKING):
        start_all(engine)
        hand_in(engine, TWO)
        assert engine.settle_landing(replace(gather(engine), state=LandingState.RED, why="tests"), (), [evidence])
        assert engine.rows.tasks[TWO].state is after
    assert list(engine.rows.holds) == [TWO]


def test_the_cost_of_an_attempt_is_reserved_and_then_settled() -> None:
    engine = MemoryEngine(
        [FleetRepository("r")],
        prove_by_paths,
        budgets=[SpendingBudget("plan", "p", usd=3.0)],
    )
    role = Role("any", ("a",), max_usd=2.0)
    engine.open_plan(PLAN, [make_task("INT-001", "a"), make_task("INT-002", "b")], {"any": role})
    engine.beat(Worker("w1", "h1", slots=4, agents=("a",)))
    start_all(engine)
    assert list(engine.rows.live) == [ONE]
    engine.record_usage(engine.rows.live[ONE].token, replace(engine.rows.live[ONE], usd=0.5))
    hand_in(engine, ONE)
    budget = engine.rows.budgets["plan", "p"]
    assert (budget.reserved_usd, budget.spent_usd) == (0.0, 0.5)
    start_all(engine)
    assert list(engine.rows.live) == [TWO]


def test_an_agent_that_never_starts_rests_on_its_host() -> None:
    engine = open_engine(*(make_task(f"INT-{n:03}", str(n)) for n in range(1, 5)))
    engine.dispatch()
    for key in list(engine.rows.live)[:3]:
        engine.end_attempt(engine.rows.live[key].token, key, E.FAILED, f"no key for {key}")
    assert engine.rows.breakers[BreakerKind.AGENT, "a@h1"].until == 600
    assert engine.dispatch() == ()


def test_a_plan_with_many_stuck_tasks_pauses() -> None:
    engine = open_engine(*(make_task(f"INT-{n:03}", str(n)) for n in range(1, 7)), attempts=1)
    start_all(engine)
    for key in list(engine.rows.live)[:3]:
        engine.end_attempt(engine.rows.live[key].token, key, E.FAILED, "a failure")
    assert engine.rows.plans["p"].is_paused
    assert engine.dispatch() == ()
