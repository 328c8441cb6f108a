"""What a killed worker, or a landing, leaves on a host: nothing that no later attempt clears away."""

import os
from pathlib import Path

from conftest import run_git
from orchestrator.clones import make_clones
from remit.core.assignment import Assignment
from remit.orchestrator.database.store import open_store
from remit.orchestrator.engines.dbos import DbosEngine
from remit.orchestrator.workers.host import WorkerSettings
from remit.orchestrator.workers.worker import FleetWorker
from remit.workspace.place.assignment_file import AssignmentFile


def test_the_next_attempt_clears_temporary_folders_of_ended_ones(tmp_path: Path) -> None:
    clone, _, [id] = make_clones(tmp_path, 1)
    left = clone.trees.folder / f"{id}-1.tmp"
    (left / "inside").mkdir(parents=True)
    engine = DbosEngine(open_store(None, tmp_path))
    worker = FleetWorker(engine, WorkerSettings(1, {}, {}, clone.home, clone.gate.environment))
    worker.steps.settle_old_trees(clone.trees)
    engine.store.close()
    assert not left.exists()


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
