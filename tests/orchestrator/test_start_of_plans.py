"""The commit that a plan's agents begin at: Remit's own target follows HEAD once HEAD holds all of it."""

from pathlib import Path

import pytest

from orchestrator.fleet_driving import Fleet, git

START = ("plan", "start", "INT-001", "--yes", "--agent-command=small=true {intent}")


@pytest.fixture
def fleet(home: Path, tmp_path: Path) -> Fleet:
    made = Fleet(home, tmp_path / "work", f"sqlite:///{tmp_path / 'fleet.db'}")
    made.govern(2)
    git(made.root, "branch", "remit/next")
    commit(made)
    return made


def commit(fleet: Fleet) -> None:
    git(fleet.root, "commit", "-q", "--allow-empty", "-m", "later")


def read(fleet: Fleet, name: str) -> str:
    return git(fleet.root, "rev-parse", name)


@pytest.mark.slow
def test_a_merged_target_moves_forward_to_head(fleet: Fleet) -> None:
    assert "TARGET_BEHIND" not in fleet.remit("plan", "check")
    shown = fleet.remit(*START, *fleet.database)
    assert "remit/next moved forward by 1 commit to HEAD" in shown
    assert read(fleet, "remit/next") == read(fleet, "HEAD")


def test_a_target_with_unmerged_work_stays_and_the_lack_is_named(fleet: Fleet) -> None:
    landed = git(fleet.root, "commit-tree", "-p", "remit/next", "-m", "landed", "remit/next^{tree}").strip()
    git(fleet.root, "update-ref", "refs/heads/remit/next", landed)
    shown = fleet.remit(*START, *fleet.database)
    assert "TARGET_BEHIND: remit/next lacks 1 commit of HEAD, and holds 1 commit that HEAD lacks" in shown
    assert "git merge remit/next" in shown
    assert read(fleet, "remit/next").strip() == landed


def test_a_target_of_a_person_stays(fleet: Fleet) -> None:
    git(fleet.root, "branch", "mine", "HEAD^")
    fleet.remit(*START, "--target=mine", *fleet.database)
    assert read(fleet, "mine") == read(fleet, "HEAD^")


@pytest.mark.slow
def test_intents_that_are_not_committed_are_named(fleet: Fleet) -> None:
    assert "NOT_COMMITTED" not in fleet.remit("plan", "check")
    fleet.remit("intent", "new", "later", "--scope", "later/**")
    for shown in (fleet.remit("plan", "check"), fleet.remit(*START, "INT-003", *fleet.database)):
        assert "NOT_COMMITTED: HEAD lacks INT-003 as planned here" in shown
        assert "git commit .orchestration/active_intents.yaml" in shown
