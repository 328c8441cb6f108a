"""`remit verify RANGE`: how much of a range has evidence, and whose policy judges it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.running import data, remit
from cli.test_verify import commit
from conftest import run_git
from gate.driving import INTENTS, Agent, governed
from remit.core.tree_head import derive_public_key

OUTSIDE = ("docs/x.md", "docs/y.md", "docs/z.md")


@pytest.fixture
def branch(repository: Path, home: Path) -> Agent:
    """A branch on which an agent wrote one file inside its scope, and three outside; one of its lines is blank."""
    found = Agent(governed(repository, "observe"), home)
    config = repository / ".orchestration/remit.toml"
    config.write_text(config.read_text() + "[share]\nnotes = true\n")
    commit(repository)
    run_git(repository, "branch", "base")
    found.select()
    found.write("src/new.py", "one = 1\n\ntwo = 2\n")
    for path in OUTSIDE:
        found.write(path, f"outside the scope: {path}\nand for sure\n")
    commit(repository)
    return found


def clone(root: Path, *, notes: bool) -> Path:
    """A clone that has no ledger, with the notes of the branch or without."""
    there = root.parent / "clone"
    subprocess.run(["git", "clone", "-q", str(root), str(there)], check=True)
    run_git(there, "branch", "base", "origin/base")
    if notes:
        remit(root, "notes", "write", "base..HEAD")
        run_git(there, "fetch", "-q", "origin", "refs/notes/ai:refs/notes/ai")
    return there


def shares(found: dict[str, Any]) -> dict[str, tuple[int, int, int, int]]:
    """Of each kind: how many there are, by records, by notes, by nothing."""
    kinds = ("changes", "files", "lines")
    return {kind: tuple(found["evidence"][kind][n] for n in ("total", "records", "notes", "nothing")) for kind in kinds}


def rules(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["rule"], one["path"]) for one in found["findings"]]


def test_records_are_evidence_of_what_an_agent_wrote(branch: Agent) -> None:
    found = data(branch.cwd, "verify", "--require-evidence", "base..HEAD", code=1)
    assert shares(found) == {"changes": (4, 4, 0, 0), "files": (4, 4, 0, 0), "lines": (8, 8, 0, 0)}
    assert rules(found) == [("RMT001", path) for path in OUTSIDE]


def test_a_clone_without_notes_has_no_evidence_and_its_exit_code_says_so_where_that_is_required(branch: Agent) -> None:
    there = clone(branch.cwd, notes=False)
    found = data(there, "verify", "base..HEAD")
    assert (shares(found)["lines"], shares(found)["changes"], rules(found)) == ((8, 0, 0, 8), (4, 0, 0, 4), [])
    found = data(there, "verify", "--require-evidence", "base..HEAD", code=1)
    assert rules(found) == [*(("RMT019", path) for path in OUTSIDE), ("RMT019", "src/new.py")]
    assert remit(there, "verify", "--require-evidence", "--fail-on", "never", "base..HEAD", code=1).splitlines()[0] == (
        "docs/x.md:1: RMT019 no record and no note tells who made 2 lines of this change"
    )


def test_a_clone_with_notes_is_judged_by_what_they_say(branch: Agent) -> None:
    there = clone(branch.cwd, notes=True)
    found = data(there, "verify", "--require-evidence", "base..HEAD", code=1)
    assert shares(found) == {"changes": (4, 0, 4, 0), "files": (4, 0, 4, 0), "lines": (8, 0, 8, 0)}
    assert rules(found) == [("RMT001", path) for path in OUTSIDE]
    assert "as a note says" in found["findings"][0]["message"]


def test_a_share_can_be_required_and_what_a_person_committed_unseen_counts_against_it(branch: Agent) -> None:
    (branch.cwd / "src/hand.py").write_text("nobody = 'saw this'\nnor = 'this'\n")
    commit(branch.cwd)
    for percent, failing in (("79", False), ("81", True)):
        words = ("verify", "--fail-on", "never", "--min-evidence", percent, "base..HEAD")
        found = data(branch.cwd, *words, code=int(failing))
        assert shares(found)["changes"] == (5, 4, 0, 1)
        assert [path for rule, path in rules(found) if rule == "RMT019"] == ["src/hand.py"] * failing


def test_a_removal_that_nobody_saw_is_no_evidence(branch: Agent) -> None:
    run_git(branch.cwd, "rm", "-q", "README.md")
    run_git(branch.cwd, "commit", "-qm", "away with it")
    found = data(branch.cwd, "verify", "--require-evidence", "HEAD", code=1)
    assert [(one["rule"], one["path"], one["line"]) for one in found["findings"]] == [("RMT019", "README.md", 0)]
    branch.shell("rm src/new.py")
    commit(branch.cwd)
    assert rules(data(branch.cwd, "verify", "--require-evidence", "HEAD")) == []


def widen(root: Path) -> None:
    intents = root / ".orchestration/active_intents.yaml"
    intents.write_text(INTENTS.replace('["src/**"]', '["src/**", "lib/**"]'))


def test_a_range_that_widens_a_scope_is_judged_by_its_bases_scope(branch: Agent) -> None:
    widen(branch.cwd)
    branch.write("lib/x.py", "allowed = 'by the range alone'\n")
    commit(branch.cwd)
    found = data(branch.cwd, "verify", "HEAD", code=1)
    (one,) = [one for one in found["findings"] if one["path"] == "lib/x.py"]
    assert (one["rule"], "the range itself widens that scope" in one["message"]) == ("RMT001", True)
    words = ("verify", "--base", "HEAD", "--fail-on", "warning", "HEAD")
    assert [path for _, path in rules(data(branch.cwd, *words)) if path == "lib/x.py"] == []


def test_an_intent_that_only_the_range_has_is_none_to_its_base(branch: Agent, home: Path) -> None:
    intents = branch.cwd / ".orchestration/active_intents.yaml"
    intents.write_text(INTENTS.replace("INT-002", "INT-003"))
    other = Agent(branch.cwd, home, session="session-2")
    other.select("INT-003")
    other.write("docs/new.md", "under an intent of the range\n")
    commit(branch.cwd)
    found = data(branch.cwd, "verify", "HEAD")
    (one,) = [one for one in found["findings"] if one["path"] == "docs/new.md"]
    assert (one["rule"], "INT-003, which the base" in one["message"]) == ("RMT002", True)


def test_a_range_cannot_loosen_the_policy_on_trailers(branch: Agent) -> None:
    config = branch.cwd / ".orchestration/remit.toml"
    strict = config.read_text() + '[trailers]\nstyle = "kernel"\n'
    config.write_text(strict)
    commit(branch.cwd)
    config.write_text(strict.replace("kernel", "coauthor"))
    run_git(branch.cwd, "commit", "-qam", "work\n\nCo-authored-by: Claude Code <noreply@anthropic.com>\n")
    assert "RMT008" in {rule for rule, _ in rules(data(branch.cwd, "verify", "HEAD", code=1))}


def test_a_log_that_the_range_brings_is_no_evidence_without_a_key_of_the_base(branch: Agent, home: Path) -> None:
    config = branch.cwd / ".orchestration/remit.toml"
    config.write_text(config.read_text() + 'log = "tree"\n')
    remit(branch.cwd, "ledger", "push", "--stage")
    run_git(branch.cwd, "add", "-A")
    run_git(branch.cwd, "commit", "-q", "--amend", "--no-edit")
    there = clone(branch.cwd, notes=False)
    assert shares(data(there, "verify", "base..HEAD"))["lines"][1] == 0
    key = derive_public_key((home / ".local/state/remit/key").read_bytes()).hex()
    config.write_text(config.read_text() + f'[ledger]\ntrusted_keys = ["{key}"]\n')
    commit(branch.cwd)
    run_git(there, "pull", "-q")
    assert shares(data(there, "verify", "base..HEAD~1"))["lines"][1] == 0
    found = data(there, "verify", "--base", "HEAD", "base..HEAD~1", code=1)
    assert shares(found)["lines"][1] >= 8


def test_evidence_belongs_to_a_range(branch: Agent) -> None:
    remit(branch.cwd, "verify", "--require-evidence", code=2)
