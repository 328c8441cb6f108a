"""What a fleet survives beside kills: a lost database, one that is away, a person who pauses, a worker that leaves."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from fleet.fleet_driving import WAIT_S, Fleet, PatientFleet, git
from fleet.postgres import Postgres, running_postgres

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def patient_fleet(home: Path, tmp_path: Path) -> Generator[PatientFleet]:
    made = PatientFleet(home, tmp_path / "work")
    yield made
    made.stop()


@pytest.fixture
def server() -> Generator[Postgres]:
    with running_postgres() as made:
        yield made


def test_a_deleted_database_is_built_anew_from_files(fleet: Fleet) -> None:
    ids = fleet.govern(3)
    worker = fleet.start_worker(1, 0.2)
    fleet.start_plan(ids[:1])
    fleet.wait_until_landed()
    worker.send_signal(signal.SIGTERM)
    worker.wait(WAIT_S)
    # The second one was handed in, and has not landed; the third one has not begun.
    tree = fleet.home / "tree"
    git(fleet.root, "worktree", "add", "-q", "-b", f"remit/{ids[1]}/4", str(tree), "remit/next")
    (tree / "src" / ids[1].lower()).mkdir(parents=True)
    (tree / "src" / ids[1].lower() / "made.py").write_text("made_by = 'somebody'\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "handed in")
    git(tree, "update-ref", f"refs/remit/handed-in/{ids[1]}/4", "HEAD")
    for path in (fleet.home / ".local/state/remit").glob("fleet.db*"):
        path.unlink()
    shown = fleet.remit("fleet", "rebuild", "--all")
    assert [line.split() for line in shown.splitlines()][: len(ids)] == [
        [ids[0], "landed"],
        [ids[1], "handed_in"],
        [ids[2], "waiting"],
    ]
    fleet.start_worker(1, 0.2)
    fleet.wait_until_landed()
    assert sorted(fleet.landings()) == ids
    assert [attempt["attempt"] for attempt in fleet.attempts(ids[1])] == [4]


def test_work_goes_on_when_the_database_comes_back(home: Path, tmp_path: Path, server: Postgres) -> None:
    fleet = Fleet(home, tmp_path / "work", server.url, "1")  # its agents may act for 45 s after the last renewal
    try:
        ids = fleet.govern(2)
        fleet.start_worker(2, WAIT_S)
        fleet.start_plan(ids)
        fleet.wait_for_state("running")
        server.stop()
        fleet.wait_until(lambda: fleet.has_logged("the server does not answer"))
        server.start()
        fleet.release_agents()
        fleet.wait_until_landed()
        assert [[attempt["ended_as"] for attempt in fleet.attempts(id)] for id in ids] == [["handed_in"]] * 2
    finally:
        fleet.stop()


@pytest.mark.live
def test_a_paused_agent_waits_at_its_next_call_and_goes_on(patient_fleet: PatientFleet) -> None:
    fleet = patient_fleet
    ids = fleet.govern(1)
    fleet.start_patient(ids)
    fleet.remit("plan", "pause", ids[0])
    fleet.remit("task", "steer", ids[0], "finish")
    fleet.wait_for_beats(2)
    assert fleet.status()[ids[0]]["state"] == "paused"
    assert "ended_as" not in fleet.remit("plan", "log")
    fleet.remit("plan", "resume", ids[0])
    fleet.wait_until_landed()
    assert [attempt["ended_as"] for attempt in fleet.attempts(ids[0])] == ["handed_in"]


def test_a_worker_that_is_told_to_leave_gives_its_tasks_back_at_once(fleet: Fleet) -> None:
    ids = fleet.govern(1)
    worker = fleet.start_worker(1, 1000)
    fleet.start_plan(ids)
    fleet.wait_for_state("running", ids[0])
    os.kill(worker.pid, signal.SIGTERM)
    worker.wait(WAIT_S)
    # At once: there is no other worker that would find its lease over.
    assert fleet.status()[ids[0]]["state"] == "waiting"
    fleet.wait_until_agents_end()


@pytest.mark.live
def test_a_drained_worker_finishes_what_it_runs_and_takes_nothing_more(patient_fleet: PatientFleet) -> None:
    fleet = patient_fleet
    ids = fleet.govern(2)
    worker = fleet.start_worker(1)
    fleet.start_plan(ids)
    fleet.wait_until_begun(ids[0])
    name = fleet.remit("worker", "list").split()[0]
    fleet.remit("worker", "drain", name)
    fleet.remit("task", "steer", ids[0], "finish")
    worker.wait(WAIT_S)
    first, second = (fleet.status()[id]["state"] for id in ids)
    assert (first in ("handed_in", "landing", "landed"), second) == (True, "waiting"), first
