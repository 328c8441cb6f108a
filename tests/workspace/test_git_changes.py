"""What a command did to git's folder stays only where git may believe it: it never looks itself."""

import hashlib
import shutil
import zlib
from pathlib import Path

import pytest

from conftest import run_git
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.git_folder_checks import (
    NAME_BY_FILE,
    GitChanges,
    check_objects,
    compute_object_name,
    file_key,
)
from remit.workspace.sandbox.jail import Layer
from remit.workspace.sandbox.staged_changes import StagedChange, find_staged_changes
from remit.workspace.sandbox.staging import Staging

WANTED = b"what a person will write\n"
NAME = hashlib.sha1(b"blob %d\0" % len(WANTED) + WANTED, usedforsecurity=False).hexdigest()
WHOLE = zlib.compress(b"blob %d\0" % len(WANTED) + WANTED)


def objection(common: Path, upper: Path) -> str:
    return GitChanges(upper, common, find_staged_changes(upper, common)).find_objection() or ""


def loose(upper: Path, packed: bytes, name: str = NAME) -> None:
    place = upper / "objects" / name[:2] / name[2:]
    place.parent.mkdir(parents=True)
    place.write_bytes(packed)


@pytest.fixture
def upper(tmp_path: Path) -> Path:
    place = tmp_path / "upper"
    place.mkdir()
    return place


def test_an_object_that_is_what_its_name_says_stays(repository: Path, upper: Path) -> None:
    loose(upper, WHOLE)
    assert not objection(repository / ".git", upper)


@pytest.mark.parametrize("packed", [zlib.compress(b"blob 5\0evil\n"), WHOLE + b"more", WHOLE[:-3], b"no object", b""])
def test_an_object_under_the_name_of_another_is_named(repository: Path, upper: Path, packed: bytes) -> None:
    loose(upper, packed)
    assert "not what its name says" in objection(repository / ".git", upper)


def index_of_a_fetch(repository: Path, upper: Path, tmp_path: Path) -> Path:
    """The index of a pack with another repository's history."""
    other = tmp_path / "other"
    shutil.copytree(repository, other)
    (other / "new").write_bytes(WANTED)
    run_git(other, "add", "-A")
    run_git(other, "commit", "-qm", "second")
    run_git(other, "repack", "-adq")
    (upper / "objects/pack").mkdir(parents=True)
    for found in (other / ".git/objects/pack").glob("pack-*.[ipr]*"):
        shutil.copy(found, upper / "objects/pack")
    return next((upper / "objects/pack").glob("*.idx"))


def test_a_pack_that_came_with_a_fetch_stays(repository: Path, upper: Path, tmp_path: Path) -> None:
    index_of_a_fetch(repository, upper, tmp_path)
    assert not objection(repository / ".git", upper)


def test_a_pack_with_another_content_is_named(repository: Path, upper: Path, tmp_path: Path) -> None:
    place = index_of_a_fetch(repository, upper, tmp_path).with_suffix(".pack")
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.chmod(0o644)
    place.write_bytes(content)
    assert "does not hold" in objection(repository / ".git", upper)


WITNESS = "refs/notes/remit"


def test_the_heads_of_the_log_are_not_an_agents_to_write(repository: Path, upper: Path) -> None:
    (upper / WITNESS).parent.mkdir(parents=True)
    (upper / WITNESS).write_text(run_git(repository, "rev-parse", "HEAD"))
    found = GitChanges(upper, repository / ".git", [StagedChange(WITNESS, "file")])
    assert found.changes == []
    assert [c.path for c in found.remit_changes] == [WITNESS]


def test_an_object_that_unpacks_to_far_too_much_is_unpacked_no_further(upper: Path) -> None:
    loose(upper, zlib.compress(b"blob %d\0" % (1 << 26) + bytes(1 << 26)))
    place = upper / "objects" / NAME[:2] / NAME[2:]
    name, unpacked = compute_object_name(place, len(NAME), 1 << 20)
    assert (name, unpacked < 2 << 20) == ("", True)
    assert compute_object_name(place, len(NAME), 1 << 27)[0]


def test_what_was_checked_before_is_not_checked_again_unless_it_changed(repository: Path, upper: Path) -> None:
    (upper / ".git").mkdir()
    loose(upper / ".git", WHOLE)
    workspace = Workspace(repository, repository / ".git", repository / ".git")
    check_objects(workspace, Staging(upper, Layer(repository, upper, upper), None, (), 0))
    place = upper / ".git/objects" / NAME[:2] / NAME[2:]
    assert NAME_BY_FILE[file_key(place)] == NAME
    assert not objection(repository / ".git", upper / ".git")
    place.write_bytes(zlib.compress(b"blob 5\0evil\n"))
    assert "not what its name says" in objection(repository / ".git", upper / ".git")


@pytest.mark.parametrize(("content", "said"), [(WANTED, ""), (b"other", "a large file is not what its name says")])
def test_a_large_file_stays_under_its_own_name(repository: Path, upper: Path, content: bytes, said: str) -> None:
    name = hashlib.sha256(WANTED).hexdigest()
    place = upper / "lfs/objects" / name[:2] / name[2:4] / name
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    assert said in objection(repository / ".git", upper)
    assert bool(said) == bool(objection(repository / ".git", upper))


LEFT_STEPS = {
    "rebase-merge/git-rebase-todo": b"exec ./x\n",
    "sequencer/todo": b"exec ./x\n",
    "sequencer/opts": b"[options]\n\tstrategy = ./x\n",
    "rebase-apply/apply-opt": b"'--unsafe-paths'",
}


@pytest.mark.parametrize("path", LEFT_STEPS)
def test_what_waits_for_whoever_continues_runs_nothing(repository: Path, upper: Path, path: str) -> None:
    (upper / path).parent.mkdir()
    (upper / path).write_bytes(LEFT_STEPS[path])
    assert path in objection(repository / ".git", upper)
