"""Workers are killed at random moments, with whatever they run: every task ends, none is lost, each lands once.

The exhaustive run kills 200 times on 200 tasks; `REMIT_KILLS` and `REMIT_TASKS` say otherwise.
"""

import os
import random
import signal
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from orchestrator.fleet_driving import PACE, Fleet, git
from orchestrator.postgres import running_postgres

pytestmark = pytest.mark.slow
WORKERS, SLOTS = 2, 2
SOME = (5, 4)
MANY = (int(os.environ.get("REMIT_TASKS", "200")), int(os.environ.get("REMIT_KILLS", "200")))
"""Tasks and kills of the usual run, and of the exhaustive one."""

FINAL = ("landed", "stuck", "blocked", "dropped")


@pytest.fixture
def server() -> Generator[str]:
    with running_postgres() as made:
        yield made.url


@pytest.fixture(params=["sqlite", "postgresql"])
def fleet(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Generator[Fleet]:
    database = None if request.param == "sqlite" else request.getfixturevalue("server")
    made = Fleet(home, tmp_path / "work", database)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("tasks", "kills"), [SOME, pytest.param(*MANY, marks=[pytest.mark.exhaustive, pytest.mark.timeout(7200)])]
)
def test_whatever_is_killed_every_task_lands_once(fleet: Fleet, tasks: int, kills: int) -> None:
    chance = random.Random(20261127)
    ids = fleet.govern(tasks)
    for _ in range(WORKERS):
        fleet.start_worker(SLOTS, 1.0)
    fleet.start_plan(ids)
    killed = 0
    while killed < kills and any(task["state"] not in FINAL for task in fleet.status().values()):
        time.sleep(chance.uniform(1.0, 6.0))
        victim = chance.choice([worker for worker in fleet.workers if worker.poll() is None])
        victim.kill()
        victim.wait()
        killed += 1
        fleet.start_worker(SLOTS, 1.0)
    fleet.wait_for(lambda now: all(task["state"] in FINAL for task in now.values()), 60 + 30 * tasks)
    # A task that lost many workers waits for a person, who tries it again.
    for id in (id for id, task in fleet.status().items() if task["state"] == "stuck"):
        fleet.remit("task", "retry", id, *fleet.database)
    fleet.wait_until_landed(60 + 30 * tasks)
    assert sorted(fleet.landings()) == ids
    files = git(fleet.root, "ls-tree", "-r", "--name-only", "remit/next").split()
    assert [id for id in ids if f"src/{id.lower()}/made.py" not in files] == []
    assert killed > 0
    assert fleet.agents_left() == []


def test_a_frozen_worker_that_wakes_gets_no_call_and_moves_no_ref(fleet: Fleet) -> None:
    """The agent itself goes on while its worker is frozen: its own host's gate stops it at its next call."""
    ids = fleet.govern(1)
    lease_s = 60.0 * float(PACE)
    frozen = fleet.start_worker(1, lease_s * 1.5)
    fleet.start_plan(ids)
    fleet.wait_for(lambda now: now[ids[0]]["state"] == "running")
    os.kill(frozen.pid, signal.SIGSTOP)
    fleet.start_worker(1, 0.2)
    fleet.wait_until_landed()
    landed = git(fleet.root, "for-each-ref", "refs/heads/remit")
    until = time.monotonic() + 3 * lease_s
    while fleet.agents_left() and time.monotonic() < until:
        time.sleep(0.5)
    os.kill(frozen.pid, signal.SIGCONT)
    time.sleep(20 * float(PACE))
    assert "ASSIGNMENT_ENDED" in read_feeds(fleet, ids[0], 1)  # which its worker could not read before
    assert git(fleet.root, "for-each-ref", "refs/heads/remit") == landed
    assert [attempt["ended_as"] for attempt in fleet.attempts(ids[0])] == ["lost", "handed_in"]
    assert sorted(fleet.landings()) == ids


def read_feeds(fleet: Fleet, id: str, attempt: int) -> str:
    """Return what an agent printed."""
    place = fleet.home / ".local/share/remit/trees"
    return "\n".join(path.read_text("utf-8", "replace") for path in place.glob(f"*/{id}-{attempt}.log"))
