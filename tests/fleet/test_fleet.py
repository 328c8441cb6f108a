"""A plan runs to its end with real workers, real git and agents that write through the hook."""

import os
import signal

import pytest

from fleet.fleet_driving import WAIT_S, Fleet, git

pytestmark = pytest.mark.timeout(900)


def test_three_intents_land_each_once_and_a_plan_without_a_worker_starts_one(fleet: Fleet) -> None:
    ids = fleet.govern(3)
    options = ["--yes", "--workers=2", "--pace=0.2", fleet.agent_option(0.2)]
    fleet.remit("plan", "start", *ids, *options)
    fleet.wait_until_landed()
    files = git(fleet.root, "ls-tree", "-r", "--name-only", "remit/next").split()
    assert [f"src/{id.lower()}/made.py" in files for id in ids] == [True, True, True]
    assert sorted(fleet.landings()) == ids
    closed = git(fleet.root, "grep", "-h", "^status: DONE$", "remit/next", "--", ".orchestration/intents")
    assert closed.split("\n")[:-1] == ["status: DONE"] * 3
    assert git(fleet.root, "status", "--porcelain") == ""
    git(fleet.root, "merge", "--ff-only", "remit/next")
    assert "INT-002" in fleet.remit("why", "src/int-002/made.py:1")


def test_an_attempt_whose_worker_was_killed_is_superseded_and_its_agent_ends_with_it(fleet: Fleet) -> None:
    ids = fleet.govern(2)
    first = fleet.start_worker(2, 1000)
    fleet.start_plan(ids)
    fleet.wait_for_state("running")
    first.kill()
    first.wait()
    fleet.start_worker(2, 0.2)
    fleet.wait_until_landed()
    for id in ids:
        assert [attempt["ended_as"] for attempt in fleet.attempts(id)] == ["lost", "handed_in"]
        one, two = fleet.attempts(id)
        assert two["token"] > one["token"]
    fleet.wait_until_agents_end()


def test_an_agent_that_is_refused_leaves_its_task_stuck_and_lands_nothing(fleet: Fleet) -> None:
    ids = fleet.govern(1)
    fleet.start_worker(1, 0.1, "README.md")
    fleet.start_plan(ids)
    fleet.wait_for_state("stuck", ids[0])
    why = fleet.status()[ids[0]]["why"]
    assert why.startswith("the same failure twice: its agent ended with 3")
    assert why.endswith("see `remit task artifacts INT-001 output.log`")
    assert why.count("agent ended with") == 1
    assert len(fleet.attempts(ids[0])) == 2
    assert git(fleet.root, "branch", "--list", "remit/next") == ""


def test_what_was_stopped_is_dropped_and_its_agent_ended(fleet: Fleet) -> None:
    ids = fleet.govern(1)
    fleet.start_worker(1, 1000)
    fleet.start_plan(ids)
    fleet.wait_for_state("running", ids[0])
    fleet.remit("plan", "stop", ids[0])
    fleet.wait_for_state("dropped", ids[0])
    fleet.wait_until_agents_end()


def test_two_intents_that_share_a_path_run_one_after_the_other(fleet: Fleet) -> None:
    fleet.govern(1)
    fleet.remit("intent", "new", "the same", "--scope", "src/int-001/**", "--scope", "src/int-002/**")
    fleet.start_worker(2, 0.5)
    fleet.start_plan(["INT-001", "INT-002"])
    fleet.wait_until_landed()
    one, two = fleet.attempts("INT-001")[0], fleet.attempts("INT-002")[0]
    assert one["ended_at"] <= two["started_at"] or two["ended_at"] <= one["started_at"]


def test_a_worker_ends_on_a_signal(fleet: Fleet) -> None:
    fleet.govern(1)
    worker = fleet.start_worker(1)
    fleet.wait_for_workers()
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(WAIT_S) == 0
