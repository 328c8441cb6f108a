"""Trains: their order, what goes together, and whose fault a red one is."""

from collections.abc import Sequence
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.boards import make_task
from remit_fleet.board import Task, TaskState
from remit_fleet.trains import Culprit, bisect_train, gather_train, order_landing


def hand_in(intent: str, tail_s: float = 0.0, rank: int = 0, needs: tuple[str, ...] = ()) -> Task:
    return make_task(intent, state=TaskState.HANDED_IN, tail_s=tail_s, rank=rank, needs=needs)


def list_intents(tasks: Sequence[Task]) -> list[str]:
    return [task.intent for task in tasks]


def test_the_order_is_needs_then_priority_then_what_most_work_waits_for() -> None:
    tasks = [
        hand_in("INT-001", tail_s=5),
        hand_in("INT-002", tail_s=9),
        hand_in("INT-003", rank=3, needs=("INT-001",)),
        make_task("INT-004", state=TaskState.RUNNING),
    ]
    assert list_intents(order_landing(tasks)) == ["INT-002", "INT-001", "INT-003"]


def test_a_train_takes_what_shares_no_touched_file() -> None:
    ordered = [hand_in(f"INT-00{n}") for n in range(1, 5)]
    touched = {"INT-001": ("a",), "INT-002": ("a", "b"), "INT-003": ("b",), "INT-004": ("c",)}
    assert list_intents(gather_train(ordered, touched, 8)) == ["INT-001", "INT-003", "INT-004"]
    assert list_intents(gather_train(ordered, touched, 2)) == ["INT-001", "INT-003"]


def test_a_task_does_not_overtake_what_it_needs() -> None:
    ordered = [hand_in("INT-001"), hand_in("INT-002"), hand_in("INT-003", needs=("INT-002",))]
    touched = {"INT-001": ("a",), "INT-002": ("a",), "INT-003": ("b",)}
    assert list_intents(gather_train(ordered, touched, 8)) == ["INT-001"]


@given(st.integers(1, 16), st.data())
def test_bisecting_names_the_pair_in_a_few_runs(length: int, data: st.DataObject) -> None:
    members = [f"INT-{n:03}" for n in range(length)]
    culprit = data.draw(st.sampled_from(members))
    partner = data.draw(st.sampled_from(["", *members[: members.index(culprit)]]))
    runs = 0

    def is_green(some: Sequence[str]) -> bool:
        nonlocal runs
        runs += 1
        return not (culprit in some and (not partner or partner in some))

    assert bisect_train(members, is_green) == Culprit(culprit, partner)
    assert runs <= 2 * ceil(log2(length)) + 1


def test_of_several_culprits_one_is_named() -> None:
    found = bisect_train(["a", "b", "c", "d"], lambda some: not {"b", "d"} & set(some))
    assert found == Culprit("b")


@pytest.mark.parametrize("length", [1, 5])
def test_a_train_that_is_green_when_it_runs_again_still_names_somebody(length: int) -> None:
    members = [f"INT-{n:03}" for n in range(length)]
    assert bisect_train(members, lambda some: True).intent == members[-1]
