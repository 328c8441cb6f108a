"""What lands is the commit that was handed in: other agents of an intent can move the branches of its attempts."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from fleet.small_plan import SmallPlan, made_path


@pytest.fixture
def plan(repository: Path, tmp_path: Path, home: Path) -> SmallPlan:
    return SmallPlan(repository, tmp_path, home)


def test_a_branch_that_was_moved_after_the_hand_in_does_not_land_and_is_named(plan: SmallPlan) -> None:
    plan.hand_in("INT-001", "INT-002")
    handed_in = run_git(plan.root, "rev-parse", "remit/INT-001/1").strip()
    moved = run_git(plan.root, "commit-tree", "main^{tree}", "-p", handed_in, "-m", "a rival's").strip()
    run_git(plan.root, "update-ref", "refs/heads/remit/INT-001/1", moved)
    shown = plan.land()
    assert shown["INT-002"].startswith("landed")
    assert shown["INT-001"].startswith("asking"), shown
    mend = f"git update-ref refs/heads/remit/INT-001/1 {handed_in}"
    assert f"was moved after its work was handed in, to {moved}" in shown["INT-001"]
    assert mend in shown["INT-001"]
    assert plan.list_files() == [made_path("INT-002", "made1.py")]
    run_git(plan.root, *mend.split()[1:])
    assert plan.land()["INT-001"].startswith("landed")
    assert made_path("INT-001", "made1.py") in plan.list_files()


def test_a_branch_that_is_moved_between_check_and_hand_in_hands_in_what_was_checked(plan: SmallPlan) -> None:
    attempt = plan.begin("INT-001")
    checked = run_git(plan.root, "rev-parse", attempt.branch).strip()
    moved = run_git(plan.root, "commit-tree", "main^{tree}", "-p", checked, "-m", "a rival's").strip()
    run_git(plan.root, "update-ref", f"refs/heads/{attempt.branch}", moved)
    assert plan.open_worker().run_step("hand_in", replace(attempt, head=checked)).ended_as is None
    assert run_git(plan.root, "rev-parse", "refs/remit/handed-in/INT-001/1").strip() == checked
    assert plan.engine.list_attempts(attempt.key)[-1].head == checked
