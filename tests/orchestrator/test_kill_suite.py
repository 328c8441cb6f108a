"""Processes of a fleet are killed at random moments, of every kind: every task ends, none is lost, each lands once.

The exhaustive run kills 200 times on 200 tasks; `REMIT_KILLS`, `REMIT_TASKS` and `REMIT_SEED` say otherwise.
"""

import os
import signal
import time
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path

import pytest

from orchestrator.fleet_driving import PACE, Fleet, git
from orchestrator.killing import Killer
from orchestrator.postgres import Postgres, running_postgres

pytestmark = pytest.mark.slow
SEED = int(os.environ.get("REMIT_SEED", "20261127"))
SOME = (3, 4)
MANY = (int(os.environ.get("REMIT_TASKS", "200")), int(os.environ.get("REMIT_KILLS", "200")))
"""Tasks and kills of the usual run, and of the exhaustive one."""


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> Generator[Postgres | None]:
    with running_postgres() if request.param == "postgresql" else nullcontext() as made:
        yield made


@pytest.fixture
def fleet(server: Postgres | None, home: Path, tmp_path: Path) -> Generator[Fleet]:
    made = Fleet(home, tmp_path / "work", server.url if server else None)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("tasks", "kills"), [SOME, pytest.param(*MANY, marks=[pytest.mark.exhaustive, pytest.mark.timeout(7200)])]
)
def test_whatever_is_killed_every_task_lands_once(
    fleet: Fleet, server: Postgres | None, tasks: int, kills: int
) -> None:
    ids = fleet.govern(tasks)
    killer = Killer(fleet, server, SEED)
    began = time.monotonic()
    try:
        killer.run(ids, kills, 240 + 8 * tasks)
    finally:
        took = time.monotonic() - began
        print(f"\n{tasks} tasks, {took:.0f} s; {killer.tell_figures()}")
        killer.close()
    assert sorted(fleet.landings()) == ids
    files = git(fleet.root, "ls-tree", "-r", "--name-only", "remit/next").split()
    assert [id for id in ids if f"src/{id.lower()}/made.py" not in files] == []
    fleet.stop()
    assert killer.list_left() == []


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
