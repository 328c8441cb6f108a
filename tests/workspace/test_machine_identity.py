"""Names that never change."""

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import run_git
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import machine_id, repository_id
from remit.workspace.place.workspace import Workspace, locate_workspace


def place(root: Path) -> Workspace:
    found = locate_workspace(root)
    assert found is not None
    return found


def test_a_machine_has_one_key_whoever_asks_first(home: Path) -> None:
    program = "from pathlib import Path; from remit.workspace.git.repository import *; "
    program += f"print(machine_id(Path({str(home)!r})))"
    asking = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(4)]
    names = {process.communicate()[0].decode().strip() for process in asking}
    assert names == {machine_id(home)}
    key = home / ".local/state/remit/key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_bytes()) == 32
    assert sorted(p.name for p in key.parent.iterdir()) == ["key", "machine"]


def test_a_lost_name_is_made_from_the_same_key(home: Path) -> None:
    name = machine_id(home)
    (home / ".local/state/remit/machine").unlink()
    assert machine_id(home) == name


def test_a_repository_is_named_by_its_root_commit_for_ever(repository: Path) -> None:
    root = run_git(repository, "rev-list", "--max-parents=0", "HEAD").strip()
    assert repository_id(place(repository)) == root
    run_git(repository, "checkout", "-q", "--orphan", "other")
    run_git(repository, "commit", "-qm", "another root")
    assert repository_id(place(repository)) == root


def test_without_commits_the_name_is_random_and_stays(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    name = repository_id(place(tmp_path))
    run_git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    assert repository_id(place(tmp_path)) == name
    assert len(name) == 40


def test_a_git_that_does_not_run_names_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(GitError, match="not on PATH"):
        repository_id(place(repository))
    assert not (repository / ".git" / "remit" / "repository").exists()


def test_a_git_that_says_no_is_an_error_with_its_words(repository: Path) -> None:
    with pytest.raises(GitError, match=r"rev-parse.*128") as caught:
        Git(repository).run("rev-parse", "--verify", "nowhere")
    assert caught.value.code == 128
    assert Git(repository).run("rev-parse", "--verify", "nowhere", ok=(0, 128)) == b""
    assert Git(repository).read_head() == run_git(repository, "rev-parse", "HEAD").strip()
