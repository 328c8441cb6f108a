"""The commit that a plan's agents begin at: Remit's own target follows HEAD once HEAD holds all of it."""

from pathlib import Path

import pytest

from fleet.fleet_driving import PlanRepository, git

START = ("plan", "start", "INT-001", "--yes", "--agent-command=small=true {intent}")


@pytest.fixture
def plans(home: Path, tmp_path: Path) -> PlanRepository:
    made = PlanRepository(home, tmp_path / "work", f"sqlite:///{tmp_path / 'fleet.db'}")
    made.govern(2)
    git(made.root, "branch", "remit/next")
    commit(made)
    return made


def commit(plans: PlanRepository) -> None:
    git(plans.root, "commit", "-q", "--allow-empty", "-m", "later")


def read(plans: PlanRepository, name: str) -> str:
    return git(plans.root, "rev-parse", name)


def test_a_merged_target_moves_forward_to_head(plans: PlanRepository) -> None:
    assert "TARGET_BEHIND" not in plans.remit("plan", "check")
    shown = plans.remit(*START, *plans.database)
    assert "remit/next moved forward by 1 commit to HEAD" in shown
    assert read(plans, "remit/next") == read(plans, "HEAD")


def test_a_target_with_unmerged_work_stays_and_the_lack_is_named(plans: PlanRepository) -> None:
    landed = git(plans.root, "commit-tree", "-p", "remit/next", "-m", "landed", "remit/next^{tree}").strip()
    git(plans.root, "update-ref", "refs/heads/remit/next", landed)
    shown = plans.remit(*START, *plans.database)
    assert "TARGET_BEHIND: remit/next lacks 1 commit of HEAD, and holds 1 commit that HEAD lacks" in shown
    assert "git merge remit/next" in shown
    assert read(plans, "remit/next").strip() == landed


def test_a_target_of_a_person_stays(plans: PlanRepository) -> None:
    git(plans.root, "branch", "mine", "HEAD^")
    plans.remit(*START, "--target=mine", *plans.database)
    assert read(plans, "mine") == read(plans, "HEAD^")


def test_intents_that_are_not_committed_are_named(plans: PlanRepository) -> None:
    assert "NOT_COMMITTED" not in plans.remit("plan", "check")
    plans.remit("intent", "new", "later", "--scope", "later/**")
    for shown in (plans.remit("plan", "check"), plans.remit(*START, "INT-003", *plans.database)):
        assert "NOT_COMMITTED: HEAD lacks INT-003 as planned here" in shown
        assert "git add .orchestration" in shown
