"""States of tasks: every one has a way to an end, and orders fit them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet.boards import make_task
from remit_fleet.attempts import close_attempt, settle_task
from remit_fleet.board import Attempt, AttemptEnd, Order, OrderKind, Role, TaskState
from remit_fleet.states import (
    DONE_BODY,
    FINAL_STATES,
    MOVES,
    ImpossibleMove,
    apply_order,
    describe_wait,
    move_task,
    needs_hold,
    rebuild_task,
)

S = TaskState
OPEN_STATES = sorted(set(S) - FINAL_STATES)


def find_reachable(state: TaskState) -> set[TaskState]:
    reached, left = {state}, [state]
    while left:
        new = MOVES[left.pop()] - reached
        reached |= new
        left += new
    return reached


def order(kind: OrderKind, intent: str = "INT-001", by: str = "ana") -> Order:
    return Order(1, "r", kind, intent, by=by)


def test_every_state_has_its_moves() -> None:
    assert set(MOVES) == set(S)


@pytest.mark.parametrize("state", OPEN_STATES)
def test_from_every_open_state_a_task_can_land_or_be_dropped(state: TaskState) -> None:
    assert {S.LANDED, S.DROPPED} <= find_reachable(state)


def test_what_was_dropped_stays_so_and_what_landed_goes_only_by_being_undone() -> None:
    assert MOVES[S.DROPPED] == frozenset()
    landed = make_task("INT-001", state=S.LANDED, landed="c1")
    for kind in set(OrderKind) - {OrderKind.UNDO}:
        assert apply_order(landed, order(kind)) == landed
    undone = apply_order(landed, order(OrderKind.UNDO))
    assert (undone.state, undone.landed, undone.why) == (S.DROPPED, "", "undone by ana")


def test_a_move_that_is_none_is_refused_with_both_states() -> None:
    with pytest.raises(ImpossibleMove, match="INT-001 is waiting: it cannot become landed"):
        move_task(make_task("INT-001"), S.LANDED)


@pytest.mark.parametrize("state", [S.WAITING, S.HELD, S.RUNNING, S.HANDED_IN])
def test_a_paused_task_returns_to_where_it_was(state: TaskState) -> None:
    task = make_task("INT-001", state=state)
    paused = apply_order(task, order(OrderKind.PAUSE))
    assert paused.state is S.PAUSED
    assert needs_hold(paused) == needs_hold(task)
    asking = move_task(paused, S.ASKING, "a budget")
    assert asking.returns_to is state
    assert apply_order(paused, order(OrderKind.RESUME)).state is state


@pytest.mark.parametrize(
    ("state", "kind", "after"),
    [
        (S.RUNNING, OrderKind.TAKE, S.ASKING),
        (S.RUNNING, OrderKind.REASSIGN, S.WAITING),
        (S.RUNNING, OrderKind.STEER, S.RUNNING),
        (S.WAITING, OrderKind.DROP, S.DROPPED),
        (S.STUCK, OrderKind.RETRY, S.WAITING),
        (S.BLOCKED, OrderKind.RETRY, S.WAITING),
        (S.ASKING, OrderKind.RETRY, S.WAITING),
        # What lands is not stopped in the middle, and what has landed is undone, not dropped.
        (S.LANDING, OrderKind.PAUSE, S.LANDING),
        (S.LANDING, OrderKind.TAKE, S.LANDING),
        (S.LANDING, OrderKind.DROP, S.LANDING),
        (S.LANDED, OrderKind.DROP, S.LANDED),
    ],
)
def test_what_an_order_makes_of_a_task(state: TaskState, kind: OrderKind, after: TaskState) -> None:
    assert apply_order(make_task("INT-001", state=state), order(kind)).state is after


def test_resuming_everything_gives_back_no_task_that_a_person_took_over() -> None:
    taken = apply_order(make_task("INT-001", state=S.RUNNING), order(OrderKind.TAKE))
    assert describe_wait(taken) == "a person: ana has taken it over, and gives it back"
    assert apply_order(taken, order(OrderKind.RESUME, intent="")) == taken
    assert apply_order(taken, order(OrderKind.GIVE_BACK)).state is S.RUNNING


def test_resuming_everything_answers_no_question() -> None:
    asking = move_task(make_task("INT-001", state=S.RUNNING), S.ASKING, "a path more?")
    assert apply_order(asking, order(OrderKind.RESUME, intent="")) == asking
    assert apply_order(asking, order(OrderKind.RESUME)).state is S.RUNNING


@given(st.lists(st.sampled_from(list(OrderKind)), max_size=12), st.sampled_from(list(S)))
def test_no_row_of_orders_leads_to_an_impossible_state(kinds: Sequence[OrderKind], state: TaskState) -> None:
    task = make_task("INT-001", state=state)
    for kind in kinds:
        after = apply_order(task, order(kind))
        assert after.state is task.state or after.state in MOVES[task.state]
        assert (after.returns_to is not None) <= (after.state in (S.PAUSED, S.ASKING))
        task = after


@pytest.mark.parametrize("state", sorted(set(OPEN_STATES) - {S.WAITING}))
def test_an_open_task_says_what_it_waits_for(state: TaskState) -> None:
    assert describe_wait(make_task("INT-001", state=state))


def test_files_alone_tell_how_far_a_task_is() -> None:
    running = make_task("INT-001", state=S.RUNNING)
    assert rebuild_task(running, "", is_handed_in=False).state is S.WAITING
    assert rebuild_task(running, "", is_handed_in=True).state is S.HANDED_IN
    assert rebuild_task(running, "c1", is_handed_in=True).landed == "c1"
    assert rebuild_task(make_task("INT-001", state=S.STUCK), "", is_handed_in=False).state is S.STUCK


def test_a_taken_task_keeps_its_paths_and_its_work_goes_on_where_the_person_says() -> None:
    for state in (S.RUNNING, S.HANDED_IN):
        taken = apply_order(make_task("INT-001", state=state), order(OrderKind.TAKE))
        assert needs_hold(taken)
        # Pausing and resuming all gives nothing back.
        assert apply_order(apply_order(taken, order(OrderKind.PAUSE, intent="")), order(OrderKind.RESUME, "")) == taken
        assert apply_order(taken, replace(order(OrderKind.GIVE_BACK), body=DONE_BODY)).state is S.HANDED_IN
    # What was handed in is done again from what the person left, not landed without it.
    handed = apply_order(make_task("INT-001", state=S.HANDED_IN), order(OrderKind.TAKE))
    assert apply_order(handed, order(OrderKind.GIVE_BACK)).state is S.HELD


def test_an_attempt_that_ends_while_its_task_is_taken_leaves_the_hold() -> None:
    taken = apply_order(make_task("INT-001", state=S.RUNNING), order(OrderKind.TAKE))
    for ended_as in (AttemptEnd.CANCELLED, AttemptEnd.LOST, AttemptEnd.HANDED_IN):
        ended = close_attempt(Attempt("r", "INT-001", 1, 1), ended_as, 1.0)
        after = settle_task(taken, [ended], 3, Role("any"))
        assert (after.state, after.returns_to) == (S.ASKING, S.HELD)


def test_a_task_is_reassigned_before_it_begins_and_once_it_is_stuck() -> None:
    to = replace(order(OrderKind.REASSIGN), body="small@h2 other")
    for state in (S.WAITING, S.RUNNING, S.STUCK):
        after = apply_order(make_task("INT-001", state=state), to)
        assert (after.state, after.agents) == (S.WAITING, ("small@h2", "other"))
    landed = make_task("INT-001", state=S.LANDED)
    assert apply_order(landed, to) == landed
