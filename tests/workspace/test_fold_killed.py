"""A process that is killed while it folds contents into git: at no step is a content out of reach."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import run_git
from remit.core.diff.contents import hash_git_blob
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.contents.fold import fold_into_git
from remit.workspace.place.workspace import Workspace, locate_workspace

MACHINE = "0123456789ab"
VERSIONS = 4

FOLD_AND_DIE = """
import os, signal, sys
from pathlib import Path
from remit.workspace.contents import fast_import
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.contents.fold import fold_into_git
from remit.workspace.place.workspace import locate_workspace

left = int(sys.argv[2])

def count_down(event, arguments):
    global left
    if event == "open" or event.startswith(("os.", "subprocess.", "fcntl.", "shutil.")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

store = ContentStore(locate_workspace(Path(sys.argv[1])), sys.argv[3])
sys.addaudithook(count_down)
fold_into_git(store)
"""
"""Folds, and is killed before a step: before the n-th of the calls that open, rename, lock or remove a file, or start a
program. A content is opened for each that is sent to git."""


class Kept:
    """Contents of a workspace, and what they were."""

    def __init__(self, root: Path) -> None:
        found = locate_workspace(root)
        assert found is not None
        self.root, self.workspace = root, found
        self.contents: dict[str, bytes] = {}

    @property
    def store(self) -> ContentStore:
        return ContentStore(self.workspace, MACHINE)

    def add(self, number: int) -> None:
        lines = [b"%d %d\n" % (number, line) for line in range(2000)]
        versions = [b"".join([*lines[:at], b"changed\n", *lines[at:]]) for at in range(VERSIONS)]
        found = [("src/a.py", content) for content in versions] + [("ignored", b"secret %d\n" % number)]
        self.store.keep_contents((hash_git_blob(content), path, content) for path, content in found)
        self.contents |= {hash_git_blob(content): content for _, content in found}

    def fold_and_die(self, step: int) -> bool:
        """Return whether the process was killed; False if it was done before."""
        words = [sys.executable, "-c", FOLD_AND_DIE, str(self.root), str(step), MACHINE]
        code = subprocess.run(words, check=False, timeout=60).returncode
        assert code in (0, -signal.SIGKILL)
        return code != 0

    def check_all(self) -> None:
        assert self.store.load_many(self.contents) == self.contents


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.live), 9])
def test_a_kill_at_any_step_leaves_every_content_within_reach(repository: Path, stride: int) -> None:
    (repository / ".gitignore").write_text("ignored\n")
    kept = Kept(repository)
    step, killed = 1, True
    while killed:
        kept.add(step)
        killed = kept.fold_and_die(step)
        kept.check_all()
        fold_into_git(kept.store)
        step += stride
    assert step > 30
    assert fold_into_git(kept.store) == set()
    folder = kept.workspace.state / "contents"
    assert not list(folder.glob("waiting*")) + list(folder.glob("folding*")) + list(folder.glob("torn"))
    kept.check_all()
    own = kept.workspace.state / "objects.git"
    assert run_git(own, "fsck", "--full", "--strict", "--no-dangling").strip() == ""
    for blob in kept.contents:
        assert kept.store.files.has_blob(blob) == kept.contents[blob].startswith(b"secret")


def test_what_was_damaged_while_it_waited_is_set_aside_and_holds_up_nothing(repository: Path) -> None:
    kept = Kept(repository)
    kept.add(1)
    path = kept.store.pending.path
    path.write_bytes(path.read_bytes().replace(b"1 1999\n", b"X 1999\n", 1) + b"torn")
    fold_into_git(kept.store)
    damaged = next(iter(kept.contents))
    assert [each.read_bytes()[-7:] for each in path.parent.glob("torn/*.bin") if each.stat().st_size > 4] == [
        b"X 1999\n"
    ]
    assert b"torn" in [each.read_bytes() for each in path.parent.glob("torn/*.bin")]
    del kept.contents[damaged]
    kept.check_all()
    assert not path.exists()


def test_contents_come_and_are_read_while_others_are_folded(repository: Path) -> None:
    kept = Kept(repository)
    kept.add(1)
    store, reader = kept.store, kept.store
    store.pending.seal(store.folding.path)
    kept.add(2)
    assert reader.load_many(kept.contents) == kept.contents
    assert fold_into_git(store) == set(kept.contents)
    assert reader.load_many(kept.contents) == kept.contents


def test_without_git_a_kill_loses_nothing_either(tmp_path: Path) -> None:
    store = ContentStore(Workspace(tmp_path, None, None), MACHINE)
    content = b"x\n"
    store.keep_contents([(hash_git_blob(content), "a", content)])
    store.pending.seal(store.folding.path)
    assert store.load(hash_git_blob(content)) == content
    assert fold_into_git(store) == {hash_git_blob(content)}
    assert ContentStore(Workspace(tmp_path, None, None), MACHINE).load(hash_git_blob(content)) == content


def test_versions_of_a_file_take_the_room_of_their_differences(repository: Path) -> None:
    """Over many foldings: their packs are merged, and git finds the versions of a path in them."""
    kept = Kept(repository)
    lines = [b"%x\n" % hash((line, "salt")) for line in range(20_000)]
    for number in range(24):
        lines[number] = b"changed\n"
        content = b"".join(lines)
        kept.store.keep_contents(
            [(hash_git_blob(content), "src/a.py", content), (hash_git_blob(b"%d" % number), "b", b"%d" % number)]
        )
        kept.contents[hash_git_blob(content)] = content
        fold_into_git(kept.store)
    kept.check_all()
    packs = list((kept.workspace.state / "objects.git/objects/pack").glob("*.pack"))
    assert sum(pack.stat().st_size for pack in packs) < 4 * len(b"".join(lines))
    assert len(packs) < 24
