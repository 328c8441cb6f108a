"""Processes of a fleet are killed at random moments, of every kind: every task ends, none is lost, each lands once.

The exhaustive run kills 200 times on 200 tasks; `REMIT_KILLS`, `REMIT_TASKS` and `REMIT_SEED` say otherwise.
"""

import os
import signal
import time
from collections.abc import Generator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from fleet.fleet_driving import Fleet, git
from fleet.killing import Killer
from fleet.postgres import Postgres, running_postgres
from processes import fields
from remit.workspace.safe_files import hold_lock

pytestmark = pytest.mark.timeout(900)
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
        killer.run(ids, kills, 480 + 8 * tasks)
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
    """The agent asks its hook while its worker is frozen: no write follows, neither then nor after."""
    ids = fleet.govern(1)
    frozen = fleet.start_worker(1, 1000)
    fleet.start_plan(ids)
    fleet.wait_until(lambda: "SessionStart 0" in read_feed(fleet, ids[0], 1))
    with ExitStack() as locks:  # a worker frozen in a heartbeat would hold them, and the next attempt wait for minutes
        for own in (fleet.root / ".git" / "worktrees").iterdir():
            locks.enter_context(hold_lock(own / "remit-own", timeout_s=60))
        fleet.suspend(frozen)
    fleet.release_agents()
    fleet.wait_until(lambda: asks_hook(fleet))
    fleet.start_worker(1, 0.2)
    fleet.wait_until_landed()
    landed = git(fleet.root, "for-each-ref", "refs/heads/remit")
    fleet.wait_until_agents_end()  # the next attempt on the host ends those of the lost one
    os.kill(frozen.pid, signal.SIGCONT)
    fleet.wait_for_event("came", 3)
    fleet.wait_for_beats()
    feed = read_feed(fleet, ids[0], 1)
    assert "PostToolUse" not in feed, feed
    assert git(fleet.root, "for-each-ref", "refs/heads/remit") == landed
    assert [attempt["ended_as"] for attempt in fleet.attempts(ids[0])] == ["lost", "handed_in"]
    assert sorted(fleet.landings()) == ids


def asks_hook(fleet: Fleet) -> bool:
    """Tell whether an agent waits for the answer of its hook."""
    mine = f"HOME={fleet.home}"
    found = (path for path in Path("/proc").glob("[0-9]*") if mine in fields(path / "environ"))
    return any({"hook", "claude-code"} <= set(fields(path / "cmdline")) for path in found)


def read_feed(fleet: Fleet, id: str, attempt: int) -> str:
    """Return what an agent printed."""
    place = fleet.home / ".local/share/remit/trees"
    return "\n".join(path.read_text("utf-8", "replace") for path in place.glob(f"*/{id}-{attempt}.log"))
