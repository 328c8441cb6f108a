"""A remote that neither answers nor refuses: heartbeats go on, and no process of git's is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from fleet.clones import make_clones
from fleet.host_driving import write_far_host
from processes import fields
from remit.core.assignment import Assignment
from remit.gate.machine import Environment
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.worktrees import Worktrees
from remit_fleet.board import Hold
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.workers.host import WorkerSettings
from remit_fleet.workers.landing_rounds import trees_folder
from remit_fleet.workers.starting_point import StartingPoint
from remit_fleet.workers.worker import FleetWorker
from remit_fleet.workers.workplaces import CHECKPOINT_BEATS, Workplace
from waiting import wait_until


@pytest.fixture
def far(home: Path, tmp_path: Path) -> Generator[Path]:
    """Return the program in the place of ssh; it hangs while a file exists."""
    program = write_far_host(tmp_path, home)
    yield program
    Path(f"{program}.hangs").unlink(missing_ok=True)


def list_processes_of(program: Path) -> list[int]:
    listed = (path for path in Path("/proc").glob("[0-9]*"))
    return [int(path.name) for path in listed if str(program) in fields(path / "cmdline")]


def test_a_heartbeat_does_not_wait_for_a_remote(tmp_path: Path, far: Path) -> None:
    clone, _, [id] = make_clones(tmp_path, 1)
    run_git(clone.root, "remote", "set-url", "origin", f"ssh://far{tmp_path}/far.git")
    trees = Worktrees(clone.gate.workspace, trees_folder(clone.home, "shared-1"))
    tree = trees.prepare(id, 1, "main")
    terms = Assignment(f"shared-1:{id}", id, 1, 7, (f"src/{id.lower()}/**",), base=clone.commit("main"))
    AssignmentFile(tree).write(terms, 3600)
    (tree.root / "src" / id.lower() / "new.py").write_text("new = 1\n")
    engine = DbosEngine(open_store(None, tmp_path))
    environment: Environment = clone.gate.environment
    settings = WorkerSettings(1, {}, {}, clone.home, environment, clones={"shared-1": clone.root})
    worker = FleetWorker(engine, settings)
    place = Workplace(tree, AssignmentFile(tree), 0.0, StartingPoint("", ""), beats=CHECKPOINT_BEATS - 1)
    place.assignment.write(replace(terms), 3600)
    Path(f"{far}.hangs").touch()
    worker.places.renew(place, Hold("shared-1", id, 1, 7), engine.read_board(), time.monotonic())
    wait_until(lambda: list_processes_of(far))  # which git would have ended, had the heartbeat waited for it
    Path(f"{far}.hangs").unlink()
    wait_until(lambda: run_git(tmp_path / "far.git", "for-each-ref", f"refs/remit/wip/{id}/1"))
    engine.store.close()


PUSH = """\
import sys
from pathlib import Path
from remit.workspace.merging import NO_COMMIT, TreeStore
from remit.workspace.place.workspace import find_git_root, workspace_at
root = Path(sys.argv[1])
TreeStore(workspace_at(root, find_git_root(root))).push_ref("origin", "refs/heads/other", sys.argv[2], NO_COMMIT)
"""


def test_a_push_ends_with_the_process_that_made_it(tmp_path: Path, far: Path) -> None:
    clone, _, _ = make_clones(tmp_path, 1)
    run_git(clone.root, "remote", "set-url", "origin", f"ssh://far{tmp_path}/far.git")
    Path(f"{far}.hangs").touch()
    pusher = subprocess.Popen([sys.executable, "-c", PUSH, str(clone.root), clone.commit("main")])
    wait_until(lambda: list_processes_of(far))
    os.kill(pusher.pid, signal.SIGKILL)
    pusher.wait()
    wait_until(lambda: not list_processes_of(far))
