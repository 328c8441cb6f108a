"""Which files are tracked logs, and what is found of them in a history."""

from pathlib import Path

import pytest

from conftest import run_git
from remit.workspace.place import LOGS, Workspace, git_root, workspace_at
from remit.workspace.tracked import MOST_FILES, is_log, is_own_write, is_written_to_share, note, others
from remit.workspace.tracked_logs import GitHoldsIndex, TrackedLogs

NAME = "0123456789ab-01234567.jsonl"


@pytest.fixture
def place(repository: Path) -> Workspace:
    (repository / LOGS).mkdir(parents=True)
    return workspace_at(repository, git_root(repository))


def committed(place: Workspace, content: bytes) -> None:
    (place.root / LOGS / NAME).write_bytes(content)
    run_git(place.root, "add", "-A")
    run_git(place.root, "commit", "-qm", "log")


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        (f"{LOGS}/{NAME}", True),
        (f"{LOGS}/.gitattributes", True),
        (f"{LOGS}/run.py", False),
        (f"{LOGS}/deeper/{NAME}", False),
        (f"src/{NAME}", False),
        (f"{LOGS}/{NAME.upper()}", False),
        (f"{LOGS}/{NAME}\n", False),
    ],
)
def test_only_logs_and_their_attributes_count_as_written_to_share(path: str, shared: bool) -> None:
    assert is_written_to_share(path) is shared


def test_our_own_log_is_not_among_the_others(place: Workspace) -> None:
    mine, elsewhere = "ffffffffffff-fedcba98.jsonl", "eeeeeeeeeeee-fedcba98.jsonl"
    for name in (NAME, mine, elsewhere, "notes.jsonl", "run.py"):
        (place.root / LOGS / name).write_bytes(b"{}\n")
    assert is_log(mine)
    note(place.state, mine, iter(["ab" * 32]))
    assert [path.name for path in others(place.tracked_logs, place.state)] == [NAME]


def test_only_what_was_noted_is_our_own_write(place: Workspace) -> None:
    note(place.state, NAME, iter(["ab" * 32]))
    note(place.state, NAME, iter(["cd" * 32]))
    path = f"{LOGS}/{NAME}"
    assert [is_own_write(place, path, two * 32) for two in ("ab", "cd", "ef")] == [True, True, False]
    assert not is_own_write(place, f"src/{NAME}", "ab" * 32)
    assert not is_own_write(place, path, NAME)


def test_so_many_files_are_read_and_no_more(place: Workspace) -> None:
    for number in range(MOST_FILES + 3):
        (place.root / LOGS / f"0123456789ab-{number:08x}.jsonl").write_bytes(b"")
    assert len(others(place.tracked_logs, place.state)) == MOST_FILES


def test_of_versions_that_continue_each_other_the_history_gives_the_longest(place: Workspace) -> None:
    for content in (b"a\n", b"a\nb\n", b"a\nb\nc\n"):
        committed(place, content)
    assert TrackedLogs(place).history() == {NAME: [b"a\nb\nc\n"]}


def test_what_was_rolled_back_or_rewritten_or_removed_is_in_the_history(place: Workspace) -> None:
    for content in (b"a\nb\n", b"a\n", b"x\ny\nz\n"):
        committed(place, content)
    run_git(place.root, "rm", "-q", f"{LOGS}/{NAME}")
    run_git(place.root, "commit", "-qm", "gone")
    assert sorted(TrackedLogs(place).history()[NAME]) == [b"a\nb\n", b"x\ny\nz\n"]


def test_there_is_no_history_before_the_first_commit(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    logs = TrackedLogs(workspace_at(tmp_path, git_root(tmp_path)))
    assert (logs.history(), logs.names(), logs.sides(), logs.committed(NAME)) == ({}, [], {}, None)


def test_nothing_is_written_while_git_holds_the_index(place: Workspace) -> None:
    (place.root / ".git" / "index.lock").touch()
    with pytest.raises(GitHoldsIndex):
        TrackedLogs(place).put({NAME: b"a\n"}, NAME)
    assert not (place.root / LOGS / NAME).exists()


def test_a_workspace_inside_a_repository_has_its_own_logs(repository: Path) -> None:
    inner = repository / "inner"
    (inner / ".orchestration").mkdir(parents=True)
    logs = TrackedLogs(workspace_at(inner, git_root(inner)))
    assert logs.put({NAME: b"a\n"}, NAME)
    logs.commit([NAME], "log")
    assert f"inner/{LOGS}/{NAME}" in run_git(repository, "ls-files").splitlines()
    assert (logs.committed(NAME), logs.names(), logs.history()) == (b"a\n", [NAME], {NAME: [b"a\n"]})
