"""What a killed worker, or a landing, leaves on a host: nothing that no later attempt clears away."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import run_git
from fleet.clones import make_clones
from remit.core.assignment import Assignment
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.processes.reaper import list_descendants
from remit.workspace.sandbox.jail import find_bubblewrap
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.workers.agent import is_running
from remit_fleet.workers.host import WorkerSettings
from remit_fleet.workers.worker import FleetWorker
from waiting import wait_until


def test_the_next_attempt_clears_temporary_folders_of_ended_ones(tmp_path: Path) -> None:
    clone, _, [id] = make_clones(tmp_path, 1)
    left = clone.trees.folder / f"{id}-1.tmp"
    (left / "inside").mkdir(parents=True)
    engine = DbosEngine(open_store(None, tmp_path))
    worker = FleetWorker(engine, WorkerSettings(1, {}, {}, clone.home, clone.gate.environment))
    worker.steps.settle_old_trees(clone.trees)
    engine.store.close()
    assert not left.exists()


def test_the_next_attempt_ends_the_child_of_a_bubblewrap_that_was_killed_while_it_made_a_jail(tmp_path: Path) -> None:
    bubblewrap = find_bubblewrap()
    if bubblewrap is None:
        pytest.skip("THERE IS NO BUBBLEWRAP: WHAT A KILLED ONE LEAVES IS NOT TESTED")
    clone, _, [id] = make_clones(tmp_path, 1)
    left = clone.trees.folder / f"{id}-1.tmp"
    left.mkdir(parents=True)
    reading, writing = os.pipe()  # which nobody writes to: it waits in the middle
    telling, info = os.pipe()
    options = ("--unshare-user", "--unshare-pid", "--die-with-parent", "--userns-block-fd", str(reading))
    jail = subprocess.Popen(
        [bubblewrap, *options, "--info-fd", str(info), "--ro-bind", "/", "/", "true"],
        env={**os.environ, "TMPDIR": str(left.resolve())},
        pass_fds=[reading, info],
    )
    assert os.read(telling, 1)  # it has made its child, and waits
    children = list_descendants(jail.pid)
    jail.kill()
    jail.wait()
    assert [is_running(child) for child in children] == [True]
    engine = DbosEngine(open_store(None, tmp_path))
    worker = FleetWorker(engine, WorkerSettings(1, {}, {}, clone.home, clone.gate.environment))
    worker.steps.settle_old_trees(clone.trees)
    engine.store.close()
    wait_until(lambda: not is_running(children[0]))
    for descriptor in (reading, writing, telling, info):
        os.close(descriptor)


def test_what_the_agent_of_a_killed_worker_left_for_git_is_gone_before_git_runs(tmp_path: Path) -> None:
    clone, _, [id] = make_clones(tmp_path, 1)
    base = clone.commit("main")
    tree = clone.trees.prepare(id, 1, base)
    terms = Assignment(
        task=f"r:{id}",
        intent=id,
        attempt=1,
        token=77,
        scope=("src/**",),
        role="builder",
        paths=("**",),
        effects=("read", "write"),
        target="remit/next",
        base=base,
    )
    AssignmentFile(tree).write(terms, 600.0)
    assert tree.git_dir is not None
    objects = clone.root / ".git/objects"
    (objects / "f0").mkdir(exist_ok=True)
    traps = [tree.git_dir / "MERGE_HEAD", objects / "pack/pack-0.idx", objects / "f0" / ("1" * 38)]
    for trap in traps:
        os.mkfifo(trap)
    (tree.git_dir / "HEAD").unlink()
    os.mkfifo(tree.git_dir / "HEAD")
    engine = DbosEngine(open_store(None, tmp_path))
    worker = FleetWorker(engine, WorkerSettings(1, {}, {}, clone.home, clone.gate.environment))
    worker.steps.settle_old_trees(clone.trees)
    engine.store.close()
    assert [trap for trap in traps if trap.exists()] == []
    assert run_git(tree.root, "symbolic-ref", "HEAD").strip() == f"refs/heads/remit/{id}/1"


def test_a_landing_leaves_no_ref_but_its_target(tmp_path: Path) -> None:
    clone, _, [id] = make_clones(tmp_path, 1)
    clone.remote.publish_plan("p", clone.commit("main"))
    clone.land(clone.hand_in(id, 1, {f"src/{id.lower()}/new.py": "new = 1\n"}))
    assert run_git(clone.root, "for-each-ref", "refs/remit/landing") == ""
    assert "new = 1" in run_git(clone.root, "show", f"remit/next:src/{id.lower()}/new.py")
