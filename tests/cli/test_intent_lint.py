"""`remit intent lint`: what only the ledger, or a file's name, can tell; each finding names a command that mends it."""

import re
import shlex
from pathlib import Path

import pytest

from cli.running import remit, run
from conftest import run_git
from gate.driving import governed

INTENTS = """\
active_intents:
  - id: INT-001
    name: Names
    owned_scope: [src/**]
    constraints: [none]
    acceptance_criteria: [it works]
    status: IN_PROGRESS
    created_at: 2026-11-28T14:02:11Z
"""


@pytest.fixture(params=["list", "files"])
def root(repository: Path, home: Path, request: pytest.FixtureRequest) -> Path:
    """A governed repository in one of both layouts, with one intent."""
    governed(repository, intents=INTENTS)
    if request.param == "files":
        remit(repository, "intent", "migrate")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "govern")
    return repository


def find_file(root: Path) -> Path:
    folder = root / ".orchestration"
    return next(iter((folder / "intents").glob("INT*")), folder / "active_intents.yaml")


def lint(root: Path) -> str:
    done = run(root, "intent", "lint")
    assert done.returncode == 0, done
    return done.stdout


def test_what_an_ended_intent_was_verified_by_is_compared_with_what_it_says(root: Path) -> None:
    file = find_file(root)
    file.write_text(file.read_text().replace("it works", "it was changed before"))
    remit(root, "intent", "complete", "INT-001", "--notes", "ran")
    assert lint(root) == "the intents are fine\n"
    file.write_text(file.read_text().replace("name: Names", "name: Other names"))
    assert lint(root) == "the intents are fine\n"

    file.write_text(file.read_text().replace("it was changed before", "it was never checked"))
    said = lint(root)
    assert f".orchestration/{file.relative_to(root / '.orchestration')}:1:1: warning: CLOSED_THEN_CHANGED" in said, said
    assert "changed since: acceptance_criteria" in said
    [cure] = re.findall(r"anew: remit (.+) \(", said)
    remit(root, *shlex.split(cure))
    assert "CLOSED_THEN_CHANGED" not in lint(root)
    remit(root, "intent", "complete", "INT-001", "--notes", "again")
    assert lint(root) == "the intents are fine\n"


def test_a_changed_time_of_making_is_named_and_set_right(root: Path) -> None:
    remit(root, "intent", "edit", "INT-001", "--description", "of the form")
    file = find_file(root)
    before = file.read_text()
    file.write_text(before.replace("2026-11-28T14:02:11Z", "2026-11-30T00:00:00Z"))
    remit(root, "intent", "edit", "INT-001", "--owner", "anna")
    [cure] = re.findall(r"UID_CHANGED: .+ Run: remit (.+) \(", lint(root))
    remit(root, *shlex.split(cure))
    assert lint(root) == "the intents are fine\n"
    assert "2026-11-28T14:02:11Z" in file.read_text()
    assert run(root, "intent", "edit", "INT-001", "--created-at", "soon").returncode == 2


def test_a_name_with_another_id_is_named_and_set_right(root: Path) -> None:
    folder = root / ".orchestration/intents"
    folder.mkdir(exist_ok=True)
    (folder / "INT-002-some where.yaml").write_text(
        "id: INT-003\nowned_scope: [x]\nconstraints: [none]\nacceptance_criteria: [works]\n"
    )
    run_git(root, "add", "-A")
    [cure] = re.findall(r"NAME_MISMATCH: .+ Run: (git .+) \(", lint(root))
    run_git(root, *shlex.split(cure)[1:])
    assert (folder / "INT-003-some where.yaml").exists()
    assert lint(root) == "the intents are fine\n"
