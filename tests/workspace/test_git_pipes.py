"""Pipes that are called like files that git reads hold up no git of ours: one that waits is an error after a minute."""

import os
from pathlib import Path

import pytest

from conftest import run_git
from remit.workspace.git.command import TIMEOUT_S, Git, GitError, find_pipes, release_pipe, run_git_process
from remit.workspace.observe.observation import observe_workspace
from remit.workspace.place.workspace import workspace_at
from remit.workspace.safe_files import hash_large_file


@pytest.fixture
def grown(repository: Path) -> Path:
    (repository / "src").mkdir(exist_ok=True)
    (repository / "src" / "a.txt").write_text("one\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "one")
    (repository / "src" / "a.txt").write_text("two\n")
    (repository / "src" / "new.txt").write_text("new\n")
    return repository


FILES = [".gitignore", "src/.gitignore", "src/.gitattributes", ".gitmodules", ".mailmap", ".git/packed-refs"]


@pytest.mark.parametrize("name", [*FILES, ".git/info/attributes", ".git/objects/info/alternates"])
def test_git_takes_a_pipe_for_an_empty_file(grown: Path, name: str) -> None:
    os.mkfifo(grown / name)
    for _ in range(3):
        out = Git(grown).run("status", "--porcelain", "-z", "--untracked-files=all")
        assert out == b" M src/a.txt\0?? src/new.txt\0"
    assert Git(grown).run("check-ignore", "-z", "--stdin", stdin=b"src/new.txt\0", ok=(0, 1)) == b""
    assert Git(grown).run("diff", "--stat").startswith(b" src/a.txt")


def test_many_pipes_are_let_go_one_after_the_other(grown: Path) -> None:
    for number in range(40):
        (grown / f"d{number}").mkdir()
        os.mkfifo(grown / f"d{number}" / ".gitignore")
        os.mkfifo(grown / f"d{number}" / ".gitattributes")
        (grown / f"d{number}" / "x").write_text("x\n")
    run_git_of_ours = Git(grown).run("status", "--porcelain", "-z", "--untracked-files=all")
    assert run_git_of_ours.count(b"\0") == 42


def test_the_whole_workspace_is_observed_all_the_same(grown: Path, home: Path) -> None:
    os.mkfifo(grown / ".gitignore")
    assert {"src/a.txt", "src/new.txt"} <= set(observe_workspace(workspace_at(grown, grown)).files)


def test_a_pipe_in_gits_own_folder_ends_in_an_error(grown: Path) -> None:
    (grown / ".git" / "HEAD").unlink()
    os.mkfifo(grown / ".git" / "HEAD")
    with pytest.raises(GitError) as caught:
        Git(grown).run("status")
    assert "did not end" not in str(caught.value)


def test_settings_in_a_pipe_are_refused(grown: Path) -> None:
    (grown / ".git" / "config").unlink()
    os.mkfifo(grown / ".git" / "config")
    with pytest.raises(GitError, match="settings"):
        Git(grown).run("status")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_named(grown: Path) -> None:
    try:
        os.mknod(grown / ".gitattributes", 0o20644, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices may be made here")
    with pytest.raises(GitError, match=r"\.gitattributes' is a device"):
        Git(grown).run("status")


def test_what_is_no_pipe_is_not_opened(grown: Path) -> None:
    (grown / ".gitignore").write_text("x\n")
    assert list(find_pipes(str(grown))) == []
    assert not release_pipe(str(grown / ".gitignore"))
    assert (grown / ".gitignore").read_text() == "x\n"


def test_a_file_that_became_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "big")
    assert hash_large_file(tmp_path / "big", "100644", 0).size == 0


@pytest.mark.system
def test_a_git_that_is_slow_to_read_gets_all_of_a_long_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    slow = ["sh", "-c", f"read -r _ < {tmp_path}/.gitignore; wc -c"]  # is let go after the first wait for an end
    question = b"x" * 1_000_000
    assert run_git_process(slow, question, TIMEOUT_S, str(tmp_path)) == (0, b"%d\n" % len(question), b"")
