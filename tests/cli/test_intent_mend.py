"""`remit intent resolve`: what git could not merge of the intents, a person merges with one command."""

from pathlib import Path

import pytest

from cli.running import data, remit, run
from conftest import run_git
from gate.driving import governed


@pytest.fixture
def conflict(repository: Path, home: Path) -> Path:
    """A repository in the middle of a merge: both sides made an INT-003."""
    governed(repository)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "govern")
    run_git(repository, "checkout", "-qb", "other")
    remit(repository, "intent", "new", "Theirs", "--scope", "docs/**")
    run_git(repository, "commit", "-qam", "theirs")
    run_git(repository, "checkout", "-q", "-")
    remit(repository, "intent", "new", "Mine", "--scope", "src/**")
    run_git(repository, "commit", "-qam", "mine")
    with pytest.raises(Exception, match="merge"):
        run_git(repository, "merge", "-q", "other")
    return repository


def test_a_conflict_is_named_with_its_cure(conflict: Path) -> None:
    done = run(conflict, "intent", "lint")
    assert done.returncode == 1
    assert "CONFLICT_MARKERS: git left conflict markers (ours: HEAD, theirs: other). Run: remit intent resolve" in (
        done.stdout
    )


def test_both_intents_stay_and_the_younger_gets_a_new_id(conflict: Path) -> None:
    said = remit(conflict, "intent", "resolve")
    assert "INT-003 was made twice" in said
    assert "then: git add .orchestration/active_intents.yaml" in said
    assert remit(conflict, "intent", "lint")
    assert {i["name"] for i in data(conflict, "intent", "list")} == {"Names", "Docs", "Mine", "Theirs"}
    run_git(conflict, "add", "-A")
    run_git(conflict, "commit", "-qm", "merged")
    assert remit(conflict, "intent", "resolve") == "git left no conflict in the intents\n"


def test_markers_that_git_knows_nothing_of_are_said_to_be_so(conflict: Path) -> None:
    run_git(conflict, "add", "-A")
    done = run(conflict, "intent", "resolve")
    assert done.returncode != 0
    assert "git checkout -m -- FILE" in done.stderr


def test_an_agent_resolves_nothing(conflict: Path) -> None:
    done = run(conflict, "intent", "resolve", CLAUDECODE="1")
    assert (done.returncode, "is for a person" in done.stderr) == (3, True)


@pytest.fixture
def closed(repository: Path, home: Path) -> Path:
    """A repository whose INT-001 is DONE, and committed."""
    governed(repository)
    remit(repository, "intent", "complete", "INT-001", "--notes", "ran")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "done")
    return repository


def find_status(folder: Path) -> str:
    return next(i["status"] for i in data(folder, "intent", "list") if i["id"] == "INT-001")


def test_a_person_reopens_what_was_closed_too_early(closed: Path) -> None:
    assert remit(closed, "intent", "reopen", "INT-001", "--reason", "too early") == "INT-001 is open again\n"
    assert find_status(closed) == "IN_PROGRESS"
    assert "DONE" not in (closed / ".orchestration/active_intents.yaml").read_text()
    [record] = data(closed, "log", "--event", "intent_reopened")
    assert "too early" in str(record)
    assert remit(closed, "intent", "complete", "INT-001", "--notes", "again")
    assert find_status(closed) == "DONE"


def test_an_older_checkout_with_exactly_that_end_is_open_too(closed: Path) -> None:
    remit(closed, "intent", "reopen", "INT-001", "--reason", "too early")
    run_git(closed, "checkout", "-q", "--", ".")
    assert find_status(closed) == "IN_PROGRESS"


def test_an_open_intent_is_not_reopened(closed: Path) -> None:
    done = run(closed, "intent", "reopen", "INT-002", "--reason", "x")
    assert (done.returncode, "only a closed intent can be reopened" in done.stderr) == (2, True)


def test_an_agent_reopens_nothing(closed: Path) -> None:
    done = run(closed, "intent", "reopen", "INT-001", "--reason", "x", CLAUDECODE="1")
    assert (done.returncode, "is for a person" in done.stderr) == (3, True)
    assert find_status(closed) == "DONE"
