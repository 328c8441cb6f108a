"""git that was started before it was asked: its answer is the same, and nobody else's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_git
from remit.workspace.git.command import Git, GitError, take_early_answer
from remit.workspace.git.early_start import (
    MAX_QUESTION_BYTES,
    START_VARIABLES,
    STARTED_COMMANDS,
    has_plain_settings,
    start_git,
)

ASK = ("cat-file", "--batch-check=%(objecttype)")


@pytest.fixture(autouse=True)
def as_others_begin() -> Iterator[None]:
    """No later test is taken for a process that starts git ahead."""
    yield
    START_VARIABLES.clear()


@pytest.fixture
def grown(repository: Path) -> Path:
    (repository / "a.txt").write_text("one\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "one")
    return repository


def test_the_answer_is_the_one_that_was_started(grown: Path) -> None:
    start_git(os.environ, str(grown), "rev-parse", "HEAD")
    head = run_git(grown, "rev-parse", "HEAD")
    run_git(grown, "commit", "-q", "--allow-empty", "-m", "two")
    (started,) = STARTED_COMMANDS.values()
    os.waitid(os.P_PID, started.process, os.WEXITED | os.WNOWAIT)
    assert Git(grown).text("rev-parse", "HEAD") in (head.strip(), run_git(grown, "rev-parse", "HEAD").strip())
    assert not STARTED_COMMANDS


def test_a_question_is_asked_of_the_one_that_waits(grown: Path) -> None:
    start_git(os.environ, str(grown), *ASK, asks=True)
    assert Git(grown).run(*ASK, stdin=b"HEAD\nHEAD:a.txt\n") == b"commit\nblob\n"
    assert not STARTED_COMMANDS


def test_another_command_and_a_long_question_get_a_git_of_their_own(grown: Path) -> None:
    start_git(os.environ, str(grown), *ASK, asks=True)
    try:
        assert Git(grown).text("rev-parse", "--verify", "HEAD")
        asked = b"HEAD\n" * (MAX_QUESTION_BYTES // 5 + 1)
        assert Git(grown).run(*ASK, stdin=asked).count(b"commit\n") == len(asked) // 5
        assert len(STARTED_COMMANDS) == 1
    finally:
        for started in STARTED_COMMANDS.values():
            started.send_question(b"")
            started.read_answer(60)
        STARTED_COMMANDS.clear()


def test_in_a_process_that_began_so_no_other_command_needs_more(grown: Path) -> None:
    asked = (
        "import os, sys; from pathlib import Path; from remit.workspace.git import early_start; "
        "from remit.workspace.git.command import Git, GitError; here = sys.argv[1]; "
        "early_start.start_git(os.environ, here, 'rev-parse', 'HEAD'); git = Git(Path(here)); "
        "print(git.run('cat-file', '--batch', stdin=b'HEAD:a.txt\\n').split()[-1]); "
        "print(git.text('show', '-s', '--format=%s'), 'subprocess' in sys.modules)\n"
        "try: git.run('show', 'no-such-commit')\n"
        "except GitError as error: print(error.code, 'no-such-commit' in error.message)"
    )
    done = subprocess.run([sys.executable, "-c", asked, str(grown)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["b'one'", "one False", "128 True", ""]


def test_one_that_does_not_end_is_killed_and_not_asked_again(
    grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\necho begun\nexec sleep 600\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    start_git(os.environ, str(grown), "rev-parse", "HEAD")
    ((command, started),) = STARTED_COMMANDS.items()
    with pytest.raises(TimeoutError, match=r"killed after 0\.2 seconds"):
        take_early_answer(command, b"", limit_s=0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(started.process, 0)
    assert not STARTED_COMMANDS


def test_one_that_says_all_and_stays_is_killed_too(
    grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nexec sleep 600 >&-\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    start_git(os.environ, str(grown), "rev-parse", "HEAD")
    (started,) = STARTED_COMMANDS.values()
    STARTED_COMMANDS.clear()
    with pytest.raises(TimeoutError, match="does not end"):
        started.read_answer(0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(started.process, 0)


def test_one_that_fails_is_asked_again_for_its_words(grown: Path) -> None:
    start_git(os.environ, str(grown), "blame", "--porcelain", "--", "none.txt")
    with pytest.raises(GitError, match=r"none\.txt"):
        Git(grown).run("blame", "--porcelain", "--", "none.txt")


@pytest.mark.parametrize(
    "setting",
    ["filter.x.clean=evil", "diff.x.textconv=evil", "core.fsmonitor=evil", "include.path=/other", "core.worktree=/x"],
)
def test_a_repository_that_names_a_program_is_not_plain(grown: Path, setting: str) -> None:
    assert has_plain_settings(str(grown))
    run_git(grown, "config", *setting.split("=", 1))
    assert not has_plain_settings(str(grown))


@pytest.mark.parametrize("name", ["commondir", "config.worktree"])
def test_a_repository_with_settings_elsewhere_is_not_plain(grown: Path, name: str) -> None:
    (grown / ".git" / name).write_text("")
    assert not has_plain_settings(str(grown))
