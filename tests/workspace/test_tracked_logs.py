"""Which files are tracked logs, and what is found of them in a history."""

from pathlib import Path

import pytest

from conftest import run_git
from remit.workspace.observe.observation import is_own_write
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER, Workspace, find_git_root, workspace_at
from remit.workspace.sharing.tracked_logs import (
    MAX_LOG_FILES,
    IndexLocked,
    TrackedLogs,
    is_log_name,
    is_shared_log_file,
    list_other_logs,
    record_own_writes,
)

NAME = "0123456789ab-01234567.jsonl"


@pytest.fixture
def place(repository: Path) -> Workspace:
    (repository / TRACKED_LOGS_FOLDER).mkdir(parents=True)
    return workspace_at(repository, find_git_root(repository))


def committed(place: Workspace, content: bytes) -> None:
    (place.root / TRACKED_LOGS_FOLDER / NAME).write_bytes(content)
    run_git(place.root, "add", "-A")
    run_git(place.root, "commit", "-qm", "log")


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        (f"{TRACKED_LOGS_FOLDER}/{NAME}", True),
        (f"{TRACKED_LOGS_FOLDER}/.gitattributes", True),
        (f"{TRACKED_LOGS_FOLDER}/run.py", False),
        (f"{TRACKED_LOGS_FOLDER}/deeper/{NAME}", False),
        (f"src/{NAME}", False),
        (f"{TRACKED_LOGS_FOLDER}/{NAME.upper()}", False),
        (f"{TRACKED_LOGS_FOLDER}/{NAME}\n", False),
    ],
)
def test_only_logs_and_their_attributes_count_as_written_to_share(path: str, shared: bool) -> None:
    assert is_shared_log_file(path) is shared


def test_our_own_log_is_not_among_the_others(place: Workspace) -> None:
    mine, elsewhere = "ffffffffffff-fedcba98.jsonl", "eeeeeeeeeeee-fedcba98.jsonl"
    for name in (NAME, mine, elsewhere, "notes.jsonl", "run.py"):
        (place.root / TRACKED_LOGS_FOLDER / name).write_bytes(b"{}\n")
    assert is_log_name(mine)
    record_own_writes(place.state, mine, iter(["ab" * 32]))
    assert [path.name for path in list_other_logs(place.tracked_logs, place.state)] == [NAME]


def test_only_what_was_noted_is_our_own_write(place: Workspace) -> None:
    record_own_writes(place.state, NAME, iter(["ab" * 32]))
    record_own_writes(place.state, NAME, iter(["cd" * 32]))
    path = f"{TRACKED_LOGS_FOLDER}/{NAME}"
    assert [is_own_write(place, path, two * 32) for two in ("ab", "cd", "ef")] == [True, True, False]
    assert not is_own_write(place, f"src/{NAME}", "ab" * 32)
    assert not is_own_write(place, path, NAME)


def test_so_many_files_are_read_and_no_more(place: Workspace) -> None:
    for number in range(MAX_LOG_FILES + 3):
        (place.root / TRACKED_LOGS_FOLDER / f"0123456789ab-{number:08x}.jsonl").write_bytes(b"")
    assert len(list_other_logs(place.tracked_logs, place.state)) == MAX_LOG_FILES


def test_of_versions_that_continue_each_other_the_history_gives_the_longest(place: Workspace) -> None:
    for content in (b"a\n", b"a\nb\n", b"a\nb\nc\n"):
        committed(place, content)
    assert TrackedLogs(place).read_history() == {NAME: [b"a\nb\nc\n"]}


def test_what_was_rolled_back_or_rewritten_or_removed_is_in_the_history(place: Workspace) -> None:
    for content in (b"a\nb\n", b"a\n", b"x\ny\nz\n"):
        committed(place, content)
    run_git(place.root, "rm", "-q", f"{TRACKED_LOGS_FOLDER}/{NAME}")
    run_git(place.root, "commit", "-qm", "gone")
    assert sorted(TrackedLogs(place).read_history()[NAME]) == [b"a\nb\n", b"x\ny\nz\n"]


def test_there_is_no_history_before_the_first_commit(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    logs = TrackedLogs(workspace_at(tmp_path, find_git_root(tmp_path)))
    assert (
        logs.read_history(),
        logs.list_committed_names(),
        logs.read_merge_sides(),
        logs.read_head_version(NAME),
    ) == ({}, [], {}, None)


def test_nothing_is_written_while_git_holds_the_index(place: Workspace) -> None:
    (place.root / ".git" / "index.lock").touch()
    with pytest.raises(IndexLocked):
        TrackedLogs(place).write_and_stage({NAME: b"a\n"}, NAME)
    assert not (place.root / TRACKED_LOGS_FOLDER / NAME).exists()


def test_a_workspace_inside_a_repository_has_its_own_logs(repository: Path) -> None:
    inner = repository / "inner"
    (inner / ".orchestration").mkdir(parents=True)
    logs = TrackedLogs(workspace_at(inner, find_git_root(inner)))
    assert logs.write_and_stage({NAME: b"a\n"}, NAME)
    logs.commit_logs([NAME], "log")
    assert f"inner/{TRACKED_LOGS_FOLDER}/{NAME}" in run_git(repository, "ls-files").splitlines()
    assert (logs.read_head_version(NAME), logs.list_committed_names(), logs.read_history()) == (
        b"a\n",
        [NAME],
        {NAME: [b"a\n"]},
    )
