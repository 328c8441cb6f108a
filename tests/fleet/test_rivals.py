"""Rivals do one task each from the same commit, and the best work lands; a fresh retry takes on no earlier work."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet.fleet_driving import Fleet, git
from remit_fleet.attempts import settle_task
from remit_fleet.board import Attempt, AttemptEnd, Order, OrderKind, Role, Task, TaskState
from remit_fleet.states import FRESH_BODY, apply_order

ROLE = Role("builder")
RUNNING = Task("plan", "INT-001", "repo", TaskState.RUNNING, agents=("a",), rivals=("b",), attempts=1)
FIRST = Attempt("repo", "INT-001", 1, 1, agent="a", base="c0ffee", ended_as=AttemptEnd.HANDED_IN)
STUCK = [
    replace(FIRST, attempt=number, agent="b", ended_as=AttemptEnd.FAILED, failure="exit 1") for number in (2, 3, 4)
]


def test_the_next_rival_begins_where_the_first_began() -> None:
    after = settle_task(RUNNING, [FIRST], 3, ROLE)
    assert (after.state, after.agents, after.rivals, after.head) == (TaskState.HELD, ("b",), (), "c0ffee")
    assert (after.first_attempt, after.finished) == (2, (1,))
    last = replace(FIRST, attempt=2, agent="b")
    ended = settle_task(replace(after, state=TaskState.RUNNING, attempts=2), [FIRST, last], 3, ROLE)
    assert (ended.state, ended.finished) == (TaskState.HANDED_IN, (1, 2))


def test_a_rival_that_is_stuck_leaves_the_work_of_the_others() -> None:
    second = replace(settle_task(RUNNING, [FIRST], 3, ROLE), state=TaskState.RUNNING, attempts=4)
    after = settle_task(second, [FIRST, *STUCK], 3, ROLE)
    assert (after.state, after.finished) == (TaskState.HANDED_IN, (1,))
    alone = settle_task(replace(second, finished=()), STUCK, 3, ROLE)
    assert alone.state is TaskState.STUCK


def test_a_fresh_retry_forgets_what_was_made() -> None:
    stuck = replace(RUNNING, state=TaskState.STUCK, stage=1, revisions=2, head="c0ffee", attempts=3)
    order = Order(0, "repo", OrderKind.RETRY, "INT-001", body=FRESH_BODY)
    after = apply_order(stuck, order)
    assert (after.state, after.stage, after.revisions, after.head) == (TaskState.WAITING, 0, 0, "")
    assert after.first_attempt == 4
    assert apply_order(stuck, replace(order, body="")).first_attempt == 0


AGENT = Path(__file__).with_name("rival_agent.py")


@pytest.mark.timeout(900)
def test_of_two_rivals_the_smaller_change_lands_and_the_other_one_stays_a_branch(fleet: Fleet) -> None:
    (id,) = fleet.govern(1)
    agents = [f"--agent-command={name}={sys.executable} {AGENT} {{intent}} {n}" for name, n in (("one", 1), ("two", 9))]
    fleet.start_agents(1, agents)
    fleet.wait_for_workers()
    said = fleet.remit("plan", "start", id, "--rivals", "two,one", "--yes")
    assert "builder    two" in said
    fleet.wait_until_landed()
    assert [(one["agent"], one["ended_as"]) for one in fleet.attempts(id)] == [
        ("two", "handed_in"),
        ("one", "handed_in"),
    ]
    assert git(fleet.root, "show", "remit/next:src/int-001/made.txt") == "line\nfound []\n"
    assert git(fleet.root, "show", f"remit/{id}/1:src/int-001/made.txt").count("line\n") == 9
    assert f"remit/{id}/1 stay" in fleet.remit("plan", "log")
