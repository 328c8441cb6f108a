"""From a list to files of one intent each and back: the same intents, with their comments, or nothing."""

from pathlib import Path

import pytest

from conftest import run_git
from forked_commands import run_command
from gate.driving import governed
from remit.core.intent import Intent
from remit.gate.gate import Gate

LIST = """\
# The team's intents
version: "1.0"
active_intents:
  # Anna's
  - id: INT-001
    name: Rate limits   # at login
    status: IN_PROGRESS
    owned_scope:
      # the form
      - src/auth/**
      - "!src/auth/old/**"
    description: |
      Five wrong passwords
        lock the form.
    created_at: 2026-11-01T00:00:00Z
    updated_at: 2026-11-02T00:00:00Z
  - {id: INT-002, owned_scope: [docs/**], status: DONE, dependencies: [INT-001]}
  -
    id: INT-003
    status: BLOCKED
    blocked_reason: waits
    owned_scope: [tests/**]
    constraints: [{type: max_files, max: 3}]
"""
MAPPING = """\
active_intents:
  INT-007:
    owned_scope: [src/**]
    # kept
    name: As a mapping
"""


def remit(root: Path, *words: str) -> tuple[int, str]:
    done = run_command(["intent", *words], root)
    return done.returncode, done.stdout + done.stderr


def intents(root: Path) -> list[Intent]:
    return sorted(Gate.open(root).intents.document.intents, key=lambda intent: intent.id)


def test_a_list_becomes_files_with_its_comments(repository: Path) -> None:
    governed(repository, intents=LIST)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "list")
    before = intents(repository)
    assert remit(repository, "migrate", "--dry-run")[0] == 0
    assert run_git(repository, "status", "--porcelain") == ""
    code, shown = remit(repository, "migrate")
    assert code == 0, shown
    folder = repository / ".orchestration/intents"
    assert folder.joinpath("INT-001-rate-limits.yaml").read_text() == (
        "# Anna's\nid: INT-001\nname: Rate limits   # at login\nowned_scope:\n  # the form\n  - src/auth/**\n"
        '  - "!src/auth/old/**"\ndescription: |\n  Five wrong passwords\n    lock the form.\n'
        "created_at: 2026-11-01T00:00:00Z\n"
    )
    after = intents(repository)
    assert [(i.id, i.status, i.owned_scope, i.constraints) for i in after] == [
        (i.id, i.status, i.owned_scope, i.constraints) for i in before
    ]
    assert not Gate.open(repository).rules.errors
    run_git(repository, "rm", "-q", "--cached", ".orchestration/active_intents.yaml")
    run_git(repository, "add", ".orchestration")
    run_git(repository, "commit", "-qm", "One file an intent")
    assert run_git(repository, "status", "--porcelain") == ""
    # And back.
    code, shown = remit(repository, "migrate", "--to", "list")
    assert code == 0, shown
    assert not folder.exists() or not list(folder.iterdir())
    assert [(i.id, i.status, i.owned_scope) for i in intents(repository)] == [
        (i.id, i.status, i.owned_scope) for i in before
    ]


def test_a_mapping_becomes_files_too(repository: Path) -> None:
    governed(repository, intents=MAPPING)
    assert remit(repository, "migrate")[0] == 0
    text = (repository / ".orchestration/intents/INT-007-as-a-mapping.yaml").read_text()
    assert text == "id: INT-007\nowned_scope: [src/**]\n# kept\nname: As a mapping\n"


@pytest.mark.parametrize("text", ["active_intents: [", "active_intents:\n  - {id: INT-001, owned_scope: []}\n"])
def test_a_broken_list_is_left_alone(repository: Path, text: str) -> None:
    governed(repository, intents=text)
    code, shown = remit(repository, "migrate")
    assert code != 0
    assert "mend the" in shown
    assert (repository / ".orchestration/active_intents.yaml").read_text() == text
    assert not (repository / ".orchestration/intents").exists()


def test_sync_writes_what_the_records_know(repository: Path) -> None:
    governed(repository, intents=LIST.replace("status: IN_PROGRESS", "status: DRAFT"))
    Gate.open(repository).intents.set_status("INT-001", "IN_PROGRESS", by="person")
    path = repository / ".orchestration/active_intents.yaml"
    assert "IN_PROGRESS" not in path.read_text()
    assert remit(repository, "sync", "--check") == (1, "INT-001: IN_PROGRESS is not in its file\n")
    assert remit(repository, "sync")[0] == 0
    assert "status: IN_PROGRESS" in path.read_text()
    assert remit(repository, "sync", "--check")[0] == 0
