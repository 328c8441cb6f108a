"""Snapshots: what they hold, what they leave alone, and what the user's repository sees of them."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from conftest import run_git
from remit.workspace.git.command import GitError
from remit.workspace.place.workspace import Workspace
from remit.workspace.snapshots.git_store import GitSnapshotStore
from remit.workspace.snapshots.restore import PresentFiles, plan_restore
from remit.workspace.snapshots.snapshot import (
    CopySnapshotStore,
    Occasion,
    is_restorable_path,
    read_files,
    take_snapshot,
)
from workspace.snapshot_trees import MACHINE, Worksite, remove

NAMES = ("a", "b.txt", "d/c", "d/e/f", "sp ace", 'q"uote', "new\nline", "\udcff\udcfe", "é", "d2", "-n", ".env")


@pytest.fixture
def site(repository: Path) -> Worksite:
    """A repository with one commit."""
    return Worksite(repository)


def odd_files(root: Path) -> None:
    """One of each kind of file that a tree can hold."""
    (root / "empty").write_bytes(b"")
    (root / 'new\nline "q" \\').write_bytes(b"named oddly\n")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe")).write_bytes(b"\0\1\2")
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "dangling").symlink_to("nowhere/at all")
    (root / "to-folder").symlink_to("src")
    (root / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / ".env").write_text("TOKEN=not-in-git\n")
    (root / ".env").chmod(0o600)
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "file").write_bytes(b"x" * 70000)


def test_after_rm_rf_and_clean_every_file_is_back_byte_for_byte(site: Worksite) -> None:
    odd_files(site.root)
    (site.root / "README.md").unlink()
    (site.root / "src" / "app.py").chmod(0o755)
    before = site.tree()
    point = site.take("rm -rf")
    site.wreck()
    run_git(site.root, "clean", "-fdxq")
    done = site.restore(point)
    assert site.tree() == before
    assert done.failed == {}
    assert (site.root / ".env").stat().st_mode & 0o077 == 0


def test_neither_head_nor_index_nor_branches_nor_loose_objects_change(site: Worksite) -> None:
    odd_files(site.root)
    run_git(site.root, "add", "run.sh")
    git = site.root / ".git"
    told = ("rev-parse", "HEAD"), ("for-each-ref", "refs/heads", "refs/tags"), ("count-objects",), ("status",)
    before = [run_git(site.root, *words) for words in told], (git / "index").read_bytes()
    point = site.take()
    site.wreck()
    site.restore(point)
    assert (git / "index").read_bytes() == before[1]
    assert [run_git(site.root, *words) for words in told] == before[0]
    assert run_git(site.own, "log", "-1", "--format=%an <%ae>", point.ref).strip() == "Remit <remit@localhost>"


def test_a_secret_goes_into_no_object_of_git(site: Worksite) -> None:
    (site.root / ".env").write_text("TOKEN=not-in-git\n")
    point = site.take()
    assert ".env" not in run_git(site.own, "ls-tree", "-r", "--name-only", point.commit).split("\n")
    kept = [path for path in (site.workspace.state / "snapshots" / "private").rglob("*") if path.is_file()]
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o600]


def test_files_that_came_later_stay_and_those_that_git_tracks_go(site: Worksite) -> None:
    point = site.take()
    (site.root / "later.txt").write_text("mine\n")
    (site.root / "committed.txt").write_text("theirs\n")
    run_git(site.root, "add", "committed.txt")
    done = site.restore(point)
    assert done.plan.untouched == ("later.txt",)
    assert done.plan.delete == ("committed.txt",)
    assert (site.root / "later.txt").read_text() == "mine\n"
    assert not (site.root / "committed.txt").exists()


def test_a_restore_can_be_undone_and_the_undoing_too(site: Worksite) -> None:
    odd_files(site.root)
    point = site.take()
    first = site.tree()
    site.wreck()
    (site.root / "src").write_text("a file where a folder was\n")
    second = site.tree()
    site.restore(point)
    assert site.tree() == first
    site.undo()
    assert site.tree() == second
    site.undo()
    assert site.tree() == first


def test_only_the_files_that_are_named(site: Worksite) -> None:
    point = site.take()
    (site.root / "README.md").write_text("changed\n")
    (site.root / "src" / "app.py").write_text("changed\n")
    site.restore(point, "src")
    assert (site.root / "README.md").read_text() == "changed\n"
    assert (site.root / "src" / "app.py").read_text() != "changed\n"


def test_nothing_is_written_through_a_link_in_the_way(site: Worksite, tmp_path: Path) -> None:
    point = site.take()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    remove(site.root / "src")
    (site.root / "src").symlink_to(elsewhere)
    site.restore(point)
    assert list(elsewhere.iterdir()) == []
    assert (site.root / "src" / "app.py").is_file()
    assert not (site.root / "src").is_symlink()


def test_a_folder_of_ignored_files_in_the_way_stays_and_is_named(site: Worksite) -> None:
    point = site.take()
    (site.root / "README.md").unlink()
    (site.root / "README.md").mkdir()
    (site.root / ".git" / "info" / "exclude").write_text("*.o\n")
    (site.root / "README.md" / "x.o").write_text("built\n")
    done = site.restore(point)
    assert "README.md" in done.failed
    assert (site.root / "README.md" / "x.o").read_text() == "built\n"


def test_a_file_that_is_ignored_by_now_is_saved_before_it_is_overwritten(site: Worksite) -> None:
    (site.root / "notes.txt").write_text("then\n")
    point = site.take()
    (site.root / ".gitignore").write_text("notes.txt\n")
    (site.root / "notes.txt").write_text("now\n")
    site.restore(point)
    assert (site.root / "notes.txt").read_text() == "then\n"
    site.undo()
    assert (site.root / "notes.txt").read_text() == "now\n"


def test_a_file_over_the_limit_is_named_and_not_touched(repository: Path) -> None:
    site = Worksite(repository, most_mib=33)
    with (repository / "big.bin").open("wb") as file:
        file.truncate(34 << 20)
    point = site.take()
    assert point.left == {"big.bin": "larger than 33 MiB"}
    (repository / "big.bin").write_bytes(b"small now")
    done = site.restore(point)
    assert done.plan.not_restorable == {"big.bin": "larger than 33 MiB"}
    assert (repository / "big.bin").read_bytes() == b"small now"


def test_no_filter_of_the_repository_or_the_user_runs(site: Worksite, home: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    mark = home / "ran"
    (site.root / ".gitattributes").write_text("*.bin filter=loud\n")
    (site.root / "x.bin").write_bytes(pointer)
    run_git(site.root, "add", "-A")
    run_git(site.root, "commit", "-q", "-m", "pointer")
    for where in ("--local", "--global"):
        for key in ("clean", "smudge"):
            run_git(site.root, "config", where, f"filter.loud.{key}", f"touch {mark}; cat")
    (site.root / "y.bin").write_bytes(pointer)
    point = site.take()
    site.wreck()
    site.restore(point)
    assert (site.root / "x.bin").read_bytes() == pointer == (site.root / "y.bin").read_bytes()
    assert not mark.exists()


def test_line_endings_that_a_checkout_wrote_come_back(site: Worksite) -> None:
    (site.root / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (site.root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    run_git(site.root, "add", "-A")
    run_git(site.root, "commit", "-q", "-m", "crlf")
    before = site.tree()
    point = site.take()
    site.wreck()
    site.restore(point)
    assert site.tree() == before


def test_a_linked_worktree_has_its_own_snapshots(site: Worksite, tmp_path: Path) -> None:
    run_git(site.root, "worktree", "add", "-q", str(tmp_path / "other"))
    other = Worksite(tmp_path / "other")
    (other.root / "only here").write_text("x\n")
    point = other.take()
    assert [s.id for s in other.store.list_snapshots()] == [point.id]
    assert site.store.list_snapshots() == []
    before = other.tree()
    for path in other.root.iterdir():
        if path.name != ".git":
            remove(path)
    other.restore(point)
    assert other.tree() == before


def test_a_repository_inside_is_left_alone(site: Worksite) -> None:
    inner = site.root / "inner"
    inner.mkdir()
    run_git(inner, "init", "-q")
    (inner / "file").write_text("its own\n")
    point = site.take()
    (inner / "file").write_text("changed\n")
    site.restore(point)
    assert (inner / "file").read_text() == "changed\n"


def test_files_that_a_sparse_checkout_leaves_out_stay_out(site: Worksite) -> None:
    run_git(site.root, "update-index", "-q", "--refresh")  # files that look changed would stay
    run_git(site.root, "sparse-checkout", "set", "--no-cone", "/README.md")
    assert not (site.root / "src").exists()
    point = site.take()
    (site.root / "README.md").write_text("changed\n")
    site.restore(point)
    assert (site.root / "README.md").read_text() == "# Example\n"
    assert not (site.root / "src").exists()


def test_before_the_first_commit_there_are_snapshots(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    site = Worksite(tmp_path)
    (tmp_path / "a").write_text("x")
    before, point = site.tree(), site.take()
    site.wreck()
    site.restore(point)
    assert site.tree() == before


def test_without_git_copies_are_kept(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    (root / ".orchestration").mkdir(parents=True)
    (root / "src").mkdir()
    odd_files(root)
    site = Worksite(root, CopySnapshotStore(Workspace(root, None, None)))
    before = {p: f for p, f in site.tree().items() if b".state" not in p}
    point = site.take()
    for name in ("empty", "run.sh", "dangling", "deep"):
        remove(root / name)
    (root / "crlf.txt").write_text("other")
    site.restore(point)
    assert {p: f for p, f in site.tree().items() if b".state" not in p} == before


def test_where_refs_cannot_be_written_there_is_no_snapshot_and_it_is_said(site: Worksite) -> None:
    site.take()
    shutil.rmtree(site.own / "refs" / "remit")
    (site.own / "refs" / "remit").write_text("in the way\n")
    with pytest.raises(GitError, match="was not written"):
        site.take()


def test_nothing_changes_where_the_present_cannot_be_saved(site: Worksite) -> None:
    point = site.take()
    (site.root / "README.md").write_text("changed\n")
    broken = GitSnapshotStore(site.workspace, "x..y")
    with pytest.raises(GitError):
        Worksite(site.root, Mixed(site.store, broken)).restore(point)
    assert (site.root / "README.md").read_text() == "changed\n"


class Mixed(GitSnapshotStore):
    """Reads where snapshots are, and writes where none can be."""

    def __init__(self, good: object, bad: GitSnapshotStore) -> None:
        super().__init__(bad.workspace, MACHINE)
        self.write_commit = bad.write_commit
        self.refs = bad.refs


def test_a_forged_snapshot_writes_nothing_outside_nor_into_git(site: Worksite) -> None:
    assert [
        p
        for p in ("../x", "a/../b", ".git/config", "a/.GIT/hooks/x", "git~1/x", "/x", "a//b", "")
        if is_restorable_path(p)
    ] == []
    point = site.take()
    blob = run_git(site.root, "rev-parse", "HEAD:README.md").strip()
    tree = f"100644 blob {blob}\tconfig\0".encode()
    inner = subprocess.run(["git", "-C", site.own, "mktree", "-z"], input=tree, capture_output=True, check=True)
    outer = f"040000 tree {inner.stdout.decode().strip()}\t.git\0".encode()
    made = subprocess.run(["git", "-C", site.own, "mktree", "-z"], input=outer, capture_output=True, check=True)
    message = run_git(site.own, "log", "-1", "--format=%B", point.ref)
    forged = run_git(site.own, "commit-tree", made.stdout.decode().strip(), "-m", message).strip()
    run_git(site.own, "update-ref", point.ref, forged)
    config = (site.root / ".git" / "config").read_text()
    [found] = site.store.list_snapshots()
    site.restore(found)
    assert (site.root / ".git" / "config").read_text() == config


def test_many_snapshots_are_few_packs_and_do_not_bring_on_gc(site: Worksite) -> None:
    loose = run_git(site.root, "count-objects")
    store = GitSnapshotStore(site.workspace, MACHINE, keeps_importer=True)
    for number in range(300):
        (site.root / "src" / "app.py").write_text(f"x = {number}\n")
        files = read_files(site.workspace, ["src/app.py"])
        take_snapshot(store, site.workspace, Occasion("call"), files, at=site.tell_time())
        if number % 60 == 59:
            store.tidy()
    store.tidy()
    packs = list((site.own / "objects" / "pack").glob("*.pack"))
    assert len(packs) < 24
    assert not list((site.own / "objects" / "pack").glob("*.keep"))
    assert run_git(site.root, "count-objects") == loose
    run_git(site.root, "gc", "--auto")
    assert sorted(packs) == sorted((site.own / "objects" / "pack").glob("*.pack"))
    run_git(site.root, "fsck", "--no-dangling")
    assert len(store.list_snapshots()) == 300


def test_a_writer_that_was_killed_leaves_packs_that_are_folded(site: Worksite) -> None:
    store = GitSnapshotStore(site.workspace, MACHINE, keeps_importer=True)
    take_snapshot(store, site.workspace, Occasion("call"), read_files(site.workspace), at=site.tell_time())
    assert store.importer is not None
    store.importer.process.kill()
    store.importer.process.wait()
    assert list((site.own / "objects" / "pack").glob("*.keep"))
    store.close()
    store.repository.fold_packs()
    assert not list((site.own / "objects" / "pack").glob("*.keep"))
    assert len(site.store.list_snapshots()) == 1


def test_later_and_blocking_files_are_told_apart() -> None:
    assert plan_restore({}, PresentFiles({}), left={}).is_empty


Changes = list[tuple[str, str, str, bytes]]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["write", "delete", "rename", "chmod", "link", "folder", "commit"]),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.binary(max_size=12),
    ),
    max_size=8,
)


def change(root: Path, what: str, name: str, other: str, content: bytes) -> None:
    """Do something to the tree, where it can be done."""
    path, target = root / name, root / other
    try:
        if what == "commit":
            run_git(root, "add", "-A")
            run_git(root, "commit", "-q", "--allow-empty", "-m", "more")
        elif what == "delete":
            remove(path)
        elif what == "chmod" and path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ 0o111)
        elif what == "rename":
            path.rename(target)
        elif what in ("write", "link", "folder"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if what == "write":
                path.write_bytes(content)
            elif what == "folder":
                (path / "in").mkdir(parents=True)
                (path / "in" / "x").write_bytes(content)
            else:
                path.symlink_to(other)
    except (OSError, subprocess.CalledProcessError):
        return


@settings(
    max_examples=25,
    phases=(Phase.explicit, Phase.generate),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@example(
    [("link", "d/c", "a", b""), ("folder", "a", "a", b""), ("folder", "b.txt", "a", b"")],
    [("delete", "b.txt", "a", b""), ("rename", "d/c", "b.txt", b"")],
)
@example(
    [("link", ".env", "a", b""), ("commit", "a", "a", b"")],
    [("rename", ".env", "b.txt", b""), ("commit", "a", "a", b"")],
)
@example(
    [("write", ".env", "a", b"secret\r\n"), ("commit", "a", "a", b"")],
    [("rename", ".env", "b.txt", b""), ("commit", "a", "a", b"")],
)
@given(first=CHANGES, second=CHANGES)
def test_restored_is_as_before_whatever_happened_between(first: Changes, second: Changes) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        run_git(root, "init", "-q")
        for each in first:
            change(root, *each)
        site = Worksite(root)
        before, point = site.tree(), site.take()
        for each in second:
            change(root, *each)
        between = site.tree()
        done = site.restore(point)
        stay = {os.fsencode(path) for path in done.plan.untouched}
        after = site.tree()
        assert {p: f for p, f in after.items() if p not in stay} == before
        assert {p: between[p] for p in stay} == {p: after[p] for p in stay}
        if done.saved is not None:
            site.undo()
            assert site.tree() == between
