"""Remit's own repository: nothing of it shows in the user's, and what it holds outlives what the user's drops."""

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from remit.core.diff.contents import hash_git_blob
from remit.workspace.contents.content_store import ContentStore, RemitRepository
from remit.workspace.contents.fold import fold_into_git, migrate_old_refs
from remit.workspace.place.workspace import locate_workspace
from remit.workspace.snapshots.git_store import GitSnapshotStore
from remit.workspace.snapshots.snapshot import Occasion, read_files, take_snapshot
from workspace.snapshot_trees import MACHINE, Worksite


@pytest.fixture
def site(repository: Path) -> Worksite:
    """A repository with a commit on a branch of its own, and changes on top."""
    run_git(repository, "checkout", "-q", "-b", "doomed")
    for number in range(30):
        (repository / f"only-here-{number}").write_text(f"{number}\n" * 50)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "doomed")
    (repository / "src" / "app.py").write_text("changed\n")
    (repository / "untracked").write_bytes(b"\0\1\r\n")
    return Worksite(repository)


def drop_everything(root: Path) -> None:
    """Lose the branch, and all that git kept of it."""
    run_git(root, "checkout", "-q", "-f", "main")
    run_git(root, "branch", "-q", "-D", "doomed")
    run_git(root, "reflog", "expire", "--expire=now", "--all")
    run_git(root, "gc", "--quiet", "--prune=now")


def test_no_listing_of_all_refs_shows_a_snapshot(site: Worksite) -> None:
    before = run_git(site.root, "log", "--all", "--format=%H"), run_git(site.root, "for-each-ref")
    site.take()
    store = ContentStore(site.workspace, MACHINE)
    store.keep_contents([(hash_git_blob(b"kept\n"), "x", b"kept\n")])
    fold_into_git(store)
    assert (run_git(site.root, "log", "--all", "--format=%H"), run_git(site.root, "for-each-ref")) == before
    assert run_git(site.root, "stash", "list") == ""
    assert run_git(site.root, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize("packed", [False, True])
def test_a_snapshot_is_restored_byte_for_byte_after_gc_dropped_what_it_stood_on(site: Worksite, packed: bool) -> None:
    if packed:
        run_git(site.root, "repack", "-a", "-d", "-q")
    commit, before = run_git(site.root, "rev-parse", "HEAD").strip(), site.tree()
    point = site.take()
    drop_everything(site.root)
    assert subprocess.run(["git", "cat-file", "-e", commit], cwd=site.root, check=False).returncode != 0
    site.wreck()
    assert site.restore(point).failed == {}
    assert site.tree() == before
    # Nor does Remit's own clean-up lose anything, or keep the packs that only the user's repository needed.
    site.store.tidy()
    assert not RemitRepository(site.workspace).has_stale_packs()
    site.wreck()
    site.restore(point)
    assert site.tree() == before
    assert run_git(site.own, "fsck", "--full", "--strict", "--no-dangling").strip() == ""


def test_snapshots_of_a_worktree_outlive_the_worktrees_branch(site: Worksite, tmp_path: Path) -> None:
    run_git(site.root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    tree = Worksite(tmp_path / "tree")
    (tree.root / "there").write_text("there\n")
    run_git(tree.root, "add", "-A")
    run_git(tree.root, "commit", "-q", "-m", "there")
    (tree.root / "there").write_text("and changed\n")
    before, point = tree.tree(), tree.take()
    run_git(tree.root, "checkout", "-q", "-f", "--detach", "main")
    run_git(tree.root, "branch", "-q", "-D", "other")
    drop_everything(site.root)
    tree.restore(point)
    assert tree.tree() == before


def test_contents_outlive_gc(site: Worksite) -> None:
    content = b"of a file that came and went\n" * 100
    store = ContentStore(site.workspace, MACHINE)
    store.keep_contents([(hash_git_blob(content), "src/app.py", content)])
    fold_into_git(store)
    drop_everything(site.root)
    assert ContentStore(site.workspace, MACHINE).load(hash_git_blob(content)) == content


def test_what_is_forgotten_takes_no_room_after_tidying(site: Worksite) -> None:
    (site.root / "large").write_bytes(os.urandom(3 << 20))
    point = site.take()
    (site.root / "large").unlink()
    kept = site.take()
    site.store.forget([point])
    site.store.tidy()
    assert sum(path.stat().st_size for path in site.own.rglob("*") if path.is_file()) < 1 << 20
    site.restore(kept)


def test_nothing_is_dropped_while_an_importer_runs(site: Worksite) -> None:
    running = GitSnapshotStore(site.workspace, MACHINE, keeps_importer=True)
    take_snapshot(running, site.workspace, Occasion("call"), read_files(site.workspace), at=site.tell_time())
    assert not RemitRepository(site.workspace).drop_unused_objects()
    running.close()
    assert RemitRepository(site.workspace).drop_unused_objects()


def test_borrowed_objects_are_names_and_no_copies(site: Worksite) -> None:
    run_git(site.root, "repack", "-a", "-d", "-q")
    site.take()
    (pack,) = (site.root / ".git/objects/pack").glob("*.pack")
    assert pack.samefile(site.own / "objects/pack" / pack.name)


def old_snapshot(site: Worksite) -> tuple[str, str]:
    """A snapshot as an older version made it: a commit on top of HEAD, under a ref of the user's repository."""
    point = site.take()
    message = run_git(site.own, "log", "-1", "--format=%B", point.commit)
    run_git(site.root, "fetch", "-q", str(site.own), point.ref)
    tree = run_git(site.root, "rev-parse", "FETCH_HEAD^{tree}").strip()
    made = run_git(site.root, "commit-tree", "-p", "HEAD", "-m", message, tree).strip()
    run_git(site.root, "update-ref", point.ref, made)
    site.store.forget([point])
    return point.id, point.ref


def test_snapshots_and_contents_of_an_older_version_are_read_and_taken_over(site: Worksite) -> None:
    name, ref = old_snapshot(site)
    content = b"kept by an older version\n"
    (site.root / "blob").write_bytes(content)
    blob = run_git(site.root, "hash-object", "-w", "blob").strip()
    (site.root / "blob").unlink()
    tree = subprocess.run(
        ["git", "mktree"], cwd=site.root, input=f"100644 blob {blob}\tab\n", capture_output=True, text=True, check=True
    ).stdout.strip()
    run_git(
        site.root,
        "update-ref",
        f"refs/remit/blobs/{MACHINE}",
        run_git(site.root, "commit-tree", "-m", "", tree).strip(),
    )
    before = site.tree()
    (old,) = site.store.list_snapshots()
    site.wreck()
    site.restore(old)
    assert site.tree() == before

    site.store.tidy()
    migrate_old_refs(ContentStore(site.workspace, MACHINE))
    assert run_git(site.root, "for-each-ref", "refs/remit") == ""
    drop_everything(site.root)
    assert ContentStore(site.workspace, MACHINE).load(blob) == content
    found = next(s for s in site.store.list_snapshots() if s.id == name)
    assert found.ref == ref
    assert replace(found, commit="", ref="") == replace(old, commit="", ref="")
    site.wreck()
    site.restore(found)
    assert site.tree() == before


def test_a_lost_state_folder_loses_no_snapshot(site: Worksite) -> None:
    point = site.take()
    other = GitSnapshotStore(site.workspace, "ba9876543210")
    assert point.id in {snapshot.id for snapshot in other.list_snapshots()}


def test_a_repository_with_sha256_names_has_one_of_the_same_kind(tmp_path: Path) -> None:
    root = tmp_path / "r"
    run_git(tmp_path, "init", "-q", "--object-format=sha256", str(root))
    (root / "a").write_text("a\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "a")
    (root / "a").write_text("b\n")
    site = Worksite(root)
    before, point = site.tree(), site.take()
    site.wreck()
    site.restore(point)
    assert site.tree() == before


def test_a_clone_that_borrows_is_borrowed_from_too(site: Worksite, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", "--shared", str(site.root), str(tmp_path / "clone"))
    clone = Worksite(tmp_path / "clone")
    assert locate_workspace(clone.root) is not None
    (clone.root / "src" / "app.py").write_text("in the clone\n")
    before, point = clone.tree(), clone.take()
    clone.wreck()
    clone.restore(point)
    assert clone.tree() == before


def test_a_damaged_note_of_what_was_borrowed_costs_no_file(site: Worksite) -> None:
    site.take()
    note = site.own / "borrowed.json"
    head = run_git(site.root, "rev-parse", "HEAD").strip()
    for damage in (b"{", b"", b'{"heads": {"%s": "%s"}}' % (head.encode(), b"0" * 40)):
        note.write_bytes(damage)
        before, point = site.tree(), site.take()
        site.wreck()
        site.restore(point)
        assert site.tree() == before
    note.unlink()
    os.mkfifo(note)
    site.take()
