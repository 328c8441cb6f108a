"""Refs of the fleet go, here and on the remote, once the target holds what they hold; what never landed stays."""

import json
import os
from pathlib import Path

import pytest

from conftest import run_git
from fleet.clones import Clone, make_clones
from fleet.test_remote import put_hook, work
from forked_commands import run_command
from remit.workspace.merging import Identity
from remit.workspace.worktrees import HANDED_IN_REFS, mark_handed_in
from remit_fleet.board import Board
from remit_fleet.pruning import FleetTasks, RefPruner, RefPruning, prune_when_due

ONE, TWO = "INT-001", "INT-002"
DAY_S = 24 * 3600.0


@pytest.fixture
def clones(tmp_path: Path, home: Path) -> tuple[Clone, Clone]:
    a, b, _ = make_clones(tmp_path, 2)
    return a, b


def tasks(*open_intents: str, ended: tuple[str, ...] = (ONE, TWO), plans: tuple[str, ...] = ()) -> FleetTasks:
    over = frozenset(ended) - frozenset(open_intents)
    return FleetTasks(frozenset(open_intents), frozenset(), over, frozenset(plans), frozenset({"remit/next"}))


def prune(clone: Clone, known: FleetTasks, *names: str, days: float = 14) -> RefPruning:
    pruner = RefPruner(clone.gate, known, days * DAY_S)
    return pruner.carry_out(pruner.plan(names))


def list_refs(folder: Path) -> list[str]:
    places = ("refs/heads/remit", "refs/remit/wip", "refs/remit/plans", "refs/remit/artifacts")
    return run_git(folder, "for-each-ref", "--format=%(refname)", *places).split()


def checkpoint(clone: Clone, intent: str, number: int, path: str) -> None:
    tree = clone.trees.prepare(intent, number, "main")
    (tree.root / path).write_text("half = True\n")
    assert clone.trees.checkpoint(tree, intent, number, "a checkpoint", 1_700_000_000) is not None
    clone.remote.push_checkpoint(f"{intent}/{number}")


def test_what_landed_goes_from_the_remote_and_what_never_landed_stays_until_it_is_named(
    clones: tuple[Clone, Clone], tmp_path: Path
) -> None:
    a, b = clones
    far = tmp_path / "far.git"
    b.remote.publish_plan("20200101-000000-ab12", b.commit("main"))
    a.land(b.hand_in(ONE, 2, work(ONE)))
    checkpoint(b, ONE, 1, "src/int-001/half.py")
    b.hand_in(TWO, 1, work(TWO))
    known = tasks(plans=("20200101-000000-ab12",))
    done = prune(a, known)
    assert done.refused == ()
    kept = [f"refs/heads/remit/{TWO}/1", "refs/heads/remit/next", f"refs/remit/wip/{ONE}/1"]
    assert list_refs(far) == kept
    stays = {one.ref: one.why for one in done.kept if one.is_remote}
    assert stays[f"refs/remit/wip/{ONE}/1"] == "never merged: `remit fleet prune INT-001/1` deletes it"
    prune(a, known, TWO)
    assert list_refs(far) == kept[1:]
    for intent, number in ((ONE, 2), (TWO, 1)):
        mark_handed_in(b.trees.store, intent, number)
    # Here, worktrees still have the branches of the other host; they go with the worktrees.
    assert {one.why.partition(" in ")[0] for one in prune(b, known).kept if "heads" in one.ref} == {"checked out"}
    assert run_git(b.root, "for-each-ref", "--format=%(refname)", HANDED_IN_REFS).split() == [
        f"{HANDED_IN_REFS}/{TWO}/1"
    ]


def test_a_worker_prunes_once_a_day_and_only_what_is_old(clones: tuple[Clone, Clone], tmp_path: Path) -> None:
    a, b = clones
    far, stamp = tmp_path / "far.git", tmp_path / "pruned"
    a.land(b.hand_in(ONE, 1, work(ONE)))
    store, who = b.trees.store, Identity("An Agent", "agent@example.org", 1_700_000_000)
    old = store.commit(store.read_tree_name("main"), (b.commit("main"),), "old", who)
    fresh = run_git(b.root, "commit-tree", "main^{tree}", "-p", "main", "-m", "fresh").strip()
    run_git(b.root, "push", "-q", "origin", f"{old}:refs/heads/remit/{TWO}/7", f"{fresh}:refs/heads/remit/{TWO}/8")
    away = far.rename(far.with_name("away.git"))
    assert prune_when_due(a.gate, Board(0.0), "r", stamp) == 0  # and it is tried again
    away.rename(far)
    assert prune_when_due(a.gate, Board(0.0), "r", stamp) == 3
    assert list_refs(far) == [f"refs/heads/remit/{TWO}/8", "refs/heads/remit/next"]
    run_git(b.root, "push", "-q", "origin", f"{old}:refs/heads/remit/{TWO}/7")
    assert prune_when_due(a.gate, Board(0.0), "r", stamp) == 0


def test_refs_of_an_open_task_stay_though_they_are_named_and_merged(clones: tuple[Clone, Clone]) -> None:
    a, b = clones
    a.land(b.hand_in(ONE, 1, work(ONE)))
    done = prune(a, tasks(ONE), ONE)
    assert done.gone == ()
    assert {one.why for one in done.kept} == {"its task is not over"}


def test_a_squashed_or_copied_change_counts_as_merged_and_an_unknown_fleets_work_has_to_be_old(
    clones: tuple[Clone, Clone], tmp_path: Path
) -> None:
    a, b = clones
    checkpoint(b, ONE, 1, "src/int-001/half.py")
    b.hand_in(TWO, 1, {"src/int-002/half.py": "half = True\n"})
    tree = run_git(b.root, "rev-parse", f"refs/remit/wip/{ONE}/1^{{tree}}").strip()
    copied = run_git(b.root, "commit-tree", tree, "-p", "main", "-m", "the same, by a person").strip()
    run_git(b.root, "push", "-q", "origin", f"{copied}:refs/heads/remit/next")
    unknown = tasks(ended=())
    assert [one.ref for one in prune(a, unknown, days=36500).gone] == []
    assert [one.ref for one in prune(a, unknown).gone] == [f"refs/remit/wip/{ONE}/1"]
    assert list_refs(tmp_path / "far.git") == [f"refs/heads/remit/{TWO}/1", "refs/heads/remit/next"]


@pytest.mark.parametrize("look", [("--detach", f"origin/remit/{ONE}/1"), (f"remit/{ONE}/1",), ("-b", "mine")])
def test_work_that_a_person_looks_at_is_not_merged_by_that(
    clones: tuple[Clone, Clone], tmp_path: Path, look: tuple[str, ...]
) -> None:
    a, b = clones
    a.land(b.hand_in(TWO, 1, work(TWO)))
    b.hand_in(ONE, 1, work(ONE))
    run_git(a.root, "fetch", "-q", "origin")
    run_git(a.root, "checkout", "-q", *look)
    run_git(a.root, "reset", "-q", "--hard", f"origin/remit/{ONE}/1")
    prune(a, tasks())
    assert list_refs(tmp_path / "far.git") == [f"refs/heads/remit/{ONE}/1", "refs/heads/remit/next"]


def test_a_ref_that_moved_meanwhile_and_one_that_the_server_keeps_are_not_lost(
    clones: tuple[Clone, Clone], tmp_path: Path
) -> None:
    a, b = clones
    far = tmp_path / "far.git"
    a.land(b.hand_in(ONE, 1, work(ONE)), b.hand_in(TWO, 1, work(TWO)))
    put_hook(far, "update", f'test "$1" != refs/heads/remit/{TWO}/1')
    pruner = RefPruner(a.gate, tasks())
    planned = pruner.plan()
    run_git(b.root, "push", "-q", "--force", "origin", f"main:refs/heads/remit/{ONE}/1")
    done = pruner.carry_out(planned)
    assert set(done.refused) == {f"refs/heads/remit/{ONE}/1", f"refs/heads/remit/{TWO}/1"}
    assert list_refs(far)[:2] == sorted(done.refused)


def test_junk_on_the_remote_stays_and_stops_nothing(clones: tuple[Clone, Clone], tmp_path: Path) -> None:
    a, b = clones
    far = tmp_path / "far.git"
    a.land(b.hand_in(ONE, 1, work(ONE)))
    blob = run_git(far, "rev-parse", "main:src/int-001/old.py").strip()
    run_git(far, "update-ref", f"refs/remit/wip/{TWO}/3", blob)
    run_git(far, "update-ref", "refs/remit/plans/99999999-999999-x", "main")
    run_git(far, "update-ref", "refs/remit/wip/other", "main")
    done = prune(a, tasks())
    assert [one.ref for one in done.gone if one.is_remote] == [f"refs/heads/remit/{ONE}/1"]
    assert "refs/remit/wip/other" in list_refs(far)


def test_the_command_says_what_would_go_and_deletes_nothing_then(clones: tuple[Clone, Clone], tmp_path: Path) -> None:
    a, b = clones
    a.land(b.hand_in(ONE, 1, work(ONE)))
    before = list_refs(tmp_path / "far.git")
    words = ["fleet", "prune", "--days", "0", "--database", f"sqlite:///{tmp_path}/fleet.db"]
    env = {**os.environ, "HOME": str(a.home)}

    def run(*more: str, code: int = 0) -> str:
        done = run_command([*words, *more], a.root, env)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    shown = json.loads(run("--dry-run", "--json"))["data"]
    assert [one["ref"] for one in shown["gone"] if one["is_remote"]] == [f"refs/heads/remit/{ONE}/1"]
    assert list_refs(tmp_path / "far.git") == before
    assert "'INT-009' stays: no ref has that name" in run("INT-009", code=2)
    assert f"deleted  on the remote  refs/heads/remit/{ONE}/1" in run()
    assert list_refs(tmp_path / "far.git") == ["refs/heads/remit/next"]
