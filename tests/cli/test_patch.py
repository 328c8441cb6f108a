"""`remit patch`: made, checked and applied by a person, refused to agents, recorded under an intent."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import run_git
from forked_commands import run_in_bytes
from gate.driving import governed, records

BASE = "".join(f"line {n}\n" for n in range(30))


def remit(folder: Path, *words: str, given: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
    return run_in_bytes(["patch", *words], folder, {**os.environ, **variables}, given)


@pytest.fixture
def made(repository: Path) -> Path:
    """A repository with the patch `p.json`, which changes a line of `src/b.py` and adds a file."""
    governed(repository)
    (repository / "src" / "b.py").write_text(BASE)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "base")
    run_git(repository, "checkout", "-q", "-b", "proposal")
    (repository / "src" / "b.py").write_text(BASE.replace("line 3\n", "three\n"))
    (repository / "src" / "new.py").write_text("new = 1\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "proposal")
    run_git(repository, "checkout", "-q", "main")
    printed = remit(repository, "make", "main", "proposal", "--intent", "INT-002", "--attempt", "3")
    assert printed.returncode == 0, printed.stderr
    (repository / "p.json").write_bytes(printed.stdout)
    return repository


def test_a_patch_is_checked_and_applied_under_an_intent(made: Path) -> None:
    document = json.loads((made / "p.json").read_bytes())
    assert (document["schema"], document["intent_id"], document["attempt"]) == ("remit.patch/1", "INT-002", 3)
    checked = remit(made, "check", "p.json", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    applied = remit(made, "apply", "p.json", "--intent", "INT-001")
    assert applied.returncode == 0, applied.stderr
    assert (made / "src" / "new.py").read_text() == "new = 1\n"
    (record,) = records(made, "mutation")
    assert record["metadata"]["dev.remit"]["intent_id"] == "INT-001"


def test_without_an_intent_nothing_is_written_in_enforce(made: Path) -> None:
    applied = remit(made, "apply", "p.json")
    assert applied.returncode == 3
    assert b"MISSING_OR_INVALID_INTENT" in applied.stderr
    assert not (made / "src" / "new.py").exists()


def test_a_refusal_is_json_with_what_was_met(made: Path) -> None:
    (made / "src" / "b.py").write_text(BASE.replace("line 3\n", "drei\n"))
    checked = remit(made, "check", "-", "--json", given=(made / "p.json").read_bytes())
    assert checked.returncode == 3
    found = json.loads(checked.stdout)
    assert (found["error_type"], found["reason"], found["hunk"]) == ("PATCH_REJECTED", "overlaps", 1)
    assert "drei" in found["found"]["lines"]
    told = remit(made, "check", "p.json")
    assert b"  + drei" in told.stderr
    assert b"overlaps" in told.stderr


def test_an_agent_may_check_and_not_apply(made: Path) -> None:
    assert remit(made, "check", "p.json", CLAUDECODE="1").returncode == 0
    refused = remit(made, "apply", "p.json", "--intent", "INT-001", CLAUDECODE="1")
    assert refused.returncode == 3
    assert b"for a person" in refused.stderr
    assert not (made / "src" / "new.py").exists()


def test_gits_own_form_is_printed_and_taken(made: Path) -> None:
    diff = remit(made, "make", "main", "proposal", "--diff").stdout
    assert diff.startswith(b"diff --git a/src/b.py b/src/b.py\n")
    assert remit(made, "apply", "-", "--intent", "INT-001", given=diff).returncode == 0
    run_git(made, "add", "-A", "src")
    assert run_git(made, "diff", "proposal", "--stat", "--", "src") == ""
