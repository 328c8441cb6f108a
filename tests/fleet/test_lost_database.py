"""What a fleet database that is built anew from files lands, and what it must not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import run_git
from fleet.small_plan import REPOSITORY, SmallPlan, made_path
from remit_fleet.board import Attempt, OrderKind
from remit_fleet.fleet import give_order
from remit_fleet.workers.handing_over import hand_in_by_person, hand_over, take_back


@pytest.fixture
def plan(repository: Path, tmp_path: Path, home: Path) -> SmallPlan:
    return SmallPlan(repository, tmp_path, home)


def order(plan: SmallPlan, kind: OrderKind, body: str = "") -> None:
    give_order(plan.engine, REPOSITORY, kind, "INT-001", "a person", body)


def hand_in(plan: SmallPlan, attempt: Attempt) -> None:
    plan.finish(attempt)


def commit(plan: SmallPlan, attempt: Attempt) -> None:
    """Let the agent commit a part, and work on."""
    run_git(plan.tree_of(attempt), "add", "-A")
    run_git(plan.tree_of(attempt), "commit", "-qm", "a part")


def take_at_the_hand_in(plan: SmallPlan, attempt: Attempt) -> None:
    """Take the task in the moment in which its worker hands it in."""
    order(plan, OrderKind.TAKE)
    plan.finish(attempt)
    hand_over(plan.trees, plan.engine.list_attempts(attempt.key)[-1])
    assert plan.show()["INT-001"].startswith("asking: a person has taken it over")


def take_and_finish(plan: SmallPlan, attempt: Attempt) -> None:
    take_at_the_hand_in(plan, attempt)
    plan.write(attempt, made_path("INT-001", "by_person.py"), "by_person = 1\n")
    task, last = plan.engine.read_board().tasks[attempt.key], plan.engine.list_attempts(attempt.key)[-1]
    assert hand_in_by_person(plan.trees, plan.gate, task, last) == ()
    take_back(plan.trees, task, last)


def hand_in_and_stop(plan: SmallPlan, attempt: Attempt) -> None:
    plan.finish(attempt)
    order(plan, OrderKind.STOP)


def hand_in_and_commit(plan: SmallPlan, attempt: Attempt) -> None:
    plan.finish(attempt)
    plan.write(attempt, made_path("INT-001", "later.py"), "later = 1\n")
    commit(plan, attempt)


@pytest.mark.parametrize(
    ("end", "state", "files"),
    [
        (hand_in, "landed", ["made1.py"]),
        (take_and_finish, "landed", ["by_person.py", "made1.py"]),
        (commit, "waiting", []),
        (take_at_the_hand_in, "waiting", []),
        (hand_in_and_stop, "waiting", []),
        (hand_in_and_commit, "waiting", []),
    ],
)
def test_only_what_was_handed_in_lands_after_a_rebuild_and_the_rest_is_begun_with(
    plan: SmallPlan, end: Callable[[SmallPlan, Attempt], None], state: str, files: list[str]
) -> None:
    attempt = plan.begin("INT-001")
    end(plan, attempt)
    rebuilt = plan.rebuild()
    assert rebuilt["INT-001"].split(":")[0] == ("asking" if state == "landed" else "waiting"), rebuilt
    assert plan.land()["INT-001"].split(":")[0] == state
    landed = plan.list_files() if state == "landed" else []
    assert landed == [made_path("INT-001", name) for name in files]
    if state == "waiting":
        assert plan.begin("INT-001").attempt == 2
        assert made_path("INT-001", "made1.py") in plan.list_files("remit/INT-001/2")
