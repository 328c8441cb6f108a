"""Looking only at what a watcher names finds all that a full look finds."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import run_git
from remit.workspace.observe import incremental as watch
from remit.workspace.observe.incremental import IncrementalObserver
from remit.workspace.observe.observation import Observation, find_changes, observe_workspace
from remit.workspace.place.workspace import Workspace, workspace_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def workspace(repository: Path) -> Workspace:
    return workspace_at(repository, repository)


@pytest.fixture
def watched(workspace: Workspace) -> Iterator[IncrementalObserver]:
    """A dirty set that has looked at everything once."""
    found = IncrementalObserver(workspace)
    found.restart_watching()
    found.observe()
    found.observe()
    assert found.full_look_reason == ""
    yield found
    found.close()


def found_by(dirty: IncrementalObserver) -> Observation:
    """What looking in part finds; a test that looks in full by accident shows nothing."""
    seen = dirty.observe()
    assert dirty.full_look_reason == ""
    return seen


def agree(workspace: Workspace, part: Observation) -> bool:
    """Whether both ways find the same, and none calls a path clean that the other does not."""
    full = observe_workspace(workspace)
    if find_changes(workspace, full, part) or find_changes(workspace, part, full):
        return False
    return set(full.files) == set(part.files) and full.head == part.head and full.remarks == part.remarks


STEPS = [
    "echo two > src/app.py",
    "echo 'def main():\n    return 1' > src/app.py",
    "rm src/app.py",
    "chmod +x src/app.py",
    "rm src/app.py; ln -s ../README.md src/app.py",
    "mkdir -p a/b/c; echo x > a/b/c/d",
    "mkdir a; echo x > a/b; mv a z; echo y > z/c",
    "rm -rf src",
    "mv src elsewhere",
    "rm -rf src; echo file > src",
    "mv src ../outside; echo x >> ../outside/app.py; mv ../outside src",
    "rm README.md; mkdir README.md; echo x > README.md/x",
    "mkfifo pipe",
    r"echo x > src/$(printf 'caf\351')",
    "echo x > 'new\nline'",
    "python3 -c \"import mmap; f=open('README.md','r+b'); m=mmap.mmap(f.fileno(),0); m[0:1]=b'X'; m.flush()\"",
    "mkdir -p deep/{1,2,3}/{1,2,3}; touch deep/{1,2,3}/{1,2,3}/{x,y}; rm -rf deep/2",
    "echo x > new; rm new",
]


@pytest.mark.parametrize("step", STEPS)
def test_what_was_done_before_is_found_right_after(
    workspace: Workspace, watched: IncrementalObserver, step: str
) -> None:
    subprocess.run(["bash", "-c", step], cwd=workspace.root, check=True)
    assert agree(workspace, found_by(watched))


def test_a_write_is_never_too_late_to_be_seen(workspace: Workspace, watched: IncrementalObserver) -> None:
    """The kernel queues the event before the writer goes on: there is nothing to wait for."""
    writer = "import sys\nfor line in sys.stdin:\n open('src/app.py','w').write(line); print('done', flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", writer], cwd=workspace.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        for number in range(200):
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            process.stdout.readline()
            seen = found_by(watched).files["src/app.py"]
            assert seen
            assert seen.content == f"{number}\n".encode()
        process.stdin.close()


def test_a_write_through_another_name_of_a_tracked_file_is_found(
    workspace: Workspace, watched: IncrementalObserver
) -> None:
    os.link(workspace.root / "README.md", workspace.root / "src" / "other")
    assert agree(workspace, watched.observe())
    (workspace.root / "src" / "other").write_text("changed under both names\n")
    assert agree(workspace, watched.observe())
    assert "hard links" in watched.full_look_reason


FULL = [
    ("echo '*.log' > .gitignore", "git may see other files"),
    ("git -c user.name=x -c user.email=x@x commit -q --allow-empty -m two", "HEAD"),
    ("echo x > src/n.py; git add src/n.py", "index"),
    ("git config core.autocrlf true", "settings"),
    ("echo '*.md' >> .git/info/exclude", "hide files"),
    ("git init -q inner", "other files now|repository"),
]


@pytest.mark.parametrize(("step", "why"), FULL, ids=[why for _, why in FULL])
def test_where_git_may_see_other_files_everything_is_looked_at(
    workspace: Workspace, watched: IncrementalObserver, step: str, why: str
) -> None:
    subprocess.run(["bash", "-c", step], cwd=workspace.root, check=True)
    assert agree(workspace, watched.observe())
    assert any(part in watched.full_look_reason for part in why.split("|")), watched.full_look_reason


def test_after_it_lost_count_it_watches_anew(workspace: Workspace, watched: IncrementalObserver) -> None:
    watched.watched_tree.mark_lost("changes came faster than they could be read")
    (workspace.root / "src" / "app.py").write_text("x\n")
    assert agree(workspace, watched.observe())
    assert "faster" in watched.full_look_reason
    watched.restart_watching()
    watched.observe()
    (workspace.root / "src" / "app.py").write_text("y\n")
    assert agree(workspace, found_by(watched))


@pytest.mark.parametrize("added", [False, True])
def test_a_file_that_is_in_no_commit_and_goes_is_gone(
    workspace: Workspace, watched: IncrementalObserver, added: bool
) -> None:
    (workspace.root / "fresh").write_text("x\n")
    if added:
        run_git(workspace.root, "add", "fresh")
    watched.observe(fully=True)
    (workspace.root / "fresh").unlink()
    assert agree(workspace, found_by(watched))


def test_what_changed_between_losing_count_and_watching_anew_is_found(
    workspace: Workspace, watched: IncrementalObserver
) -> None:
    watched.watched_tree.mark_lost("changes came faster than they could be read")
    (workspace.root / "src" / "app.py").write_text("x\n")
    watched.restart_watching()
    assert agree(workspace, watched.observe())


def test_an_overflow_of_the_kernels_queue_is_noticed(workspace: Workspace, watched: IncrementalObserver) -> None:
    size = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if size > 50_000:
        pytest.skip("this system's queue is too long to fill")
    for number in range(size // 3 + 100):
        path = workspace.root / f"f{number % 2}"
        path.write_bytes(b"x")
        path.unlink()
    assert agree(workspace, watched.observe())
    assert "faster" in watched.full_look_reason


def test_what_git_ignores_takes_no_watch(workspace: Workspace) -> None:
    (workspace.root / ".gitignore").write_text("node_modules/\n")
    (workspace.root / "node_modules" / "left" / "pad").mkdir(parents=True)
    dirty = IncrementalObserver(workspace)
    dirty.restart_watching()
    dirty.observe()
    (workspace.root / "src" / "node_modules" / "deep").mkdir(parents=True)
    (workspace.root / "src" / "own").mkdir()
    assert agree(workspace, dirty.observe())
    assert sorted(dirty.watched_tree.watches) == ["", "src", "src/own"]
    dirty.close()


def test_tracked_files_in_an_ignored_folder_are_watched(workspace: Workspace) -> None:
    (workspace.root / "build").mkdir()
    (workspace.root / "build" / "kept").write_text("one\n")
    (workspace.root / ".gitignore").write_text("build/\n")
    run_git(workspace.root, "add", "-f", "build/kept", ".gitignore")
    run_git(workspace.root, "commit", "-qm", "kept")
    dirty = IncrementalObserver(workspace)
    dirty.restart_watching()
    dirty.observe()
    (workspace.root / "build" / "kept").write_text("two\n")
    (workspace.root / "build" / "other").write_text("ignored\n")
    assert set(found_by(dirty).files) & {"build/kept", "build/other"} == {"build/kept"}
    dirty.close()


def test_a_folder_that_moves_away_is_not_watched_any_more(workspace: Workspace, watched: IncrementalObserver) -> None:
    moved = workspace.root.rename(workspace.root.with_name("moved"))
    watched.watched_tree.read_events()
    assert "moved" in watched.watched_tree.end_reason
    moved.rename(workspace.root)
    assert agree(workspace, watched.observe())
    assert "moved" in watched.full_look_reason


def test_too_many_folders_are_not_watched_and_that_is_said(workspace: Workspace) -> None:
    for number in range(20):
        (workspace.root / f"d{number}").mkdir()
    limit = watch.MAX_WATCHES_FILE
    try:
        small = workspace.root / "limit"
        small.write_text("30\n")
        watch.MAX_WATCHES_FILE = small
        dirty = IncrementalObserver(workspace)
        dirty.restart_watching()
        assert agree(workspace, dirty.observe())
        assert "more folders than 10" in dirty.full_look_reason
        assert not dirty.watched_tree.watches
    finally:
        watch.MAX_WATCHES_FILE = limit


NAMES = st.sampled_from(
    ["a", "b", "d/a", "d/b", "d/e/a", "d/e/f", "src/app.py", "README.md", "ig/a", "d", "src", "d/e"]
)
STEP = st.tuples(
    st.sampled_from(["write", "append", "delete", "rename", "link", "chmod", "hard", "mkdir", "tree", "look", "add"]),
    NAMES,
    NAMES,
)


def act(root: Path, kind: str, one: str, two: str, number: int) -> None:
    """One step of a random history; what cannot be done is not done."""
    path, other = root / one, root / two
    try:
        match kind:
            case "write" | "append":
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a" if kind == "append" else "w") as file:
                    file.write(f"{number}\n")
            case "delete":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "rename":
                path.rename(other)
            case "link":
                other.symlink_to(path)
            case "hard":
                os.link(path, other)
            case "chmod":
                path.chmod(0o755 if number % 2 else 0o644)
            case "mkdir":
                path.mkdir(parents=True)
            case "tree":
                shutil.copytree(path, other, symlinks=True)
            case "add":
                run_git(root, "add", "-A")
            case _:
                pass
    except (OSError, shutil.Error):
        return


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, max_size=14))
def test_both_ways_find_the_same_whatever_is_done(steps: list[tuple[str, str, str]], home: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        run_git(root, "init", "-q")
        (root / "src").mkdir()
        (root / "src" / "app.py").write_text("one\n")
        (root / "README.md").write_text("two\n")
        (root / ".gitignore").write_text("ig/\n")
        run_git(root, "add", "-A")
        run_git(root, "commit", "-qm", "first")
        workspace = workspace_at(root, root)
        dirty = IncrementalObserver(workspace)
        dirty.restart_watching()
        dirty.observe()
        for number, (kind, one, two) in enumerate(steps):
            act(root, kind, one, two, number)
            if kind == "look":
                assert agree(workspace, dirty.observe())
        assert agree(workspace, dirty.observe())
        dirty.close()
