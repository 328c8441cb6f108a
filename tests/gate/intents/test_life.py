"""What a life writes: nothing at a selection, one word at the end."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed, records
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.intents.intents import IntentCompletion

INTENTS = """\
active_intents:
  - id: INT-001
    owned_scope: ["src/**"]
    created_at: 2026-11-01T00:00:00Z
    updated_at: 2026-11-01T00:00:00Z
  - id: INT-002
    owned_scope: ["docs/**"]
"""


def committed(repository: Path) -> Path:
    governed(repository, intents=INTENTS)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "rules")
    return repository


def status(folder: Path, intent_id: str = "INT-001") -> str:
    return Gate.open(folder).intents.get(intent_id).status


def test_selecting_and_clearing_leave_the_tree_as_it_was(repository: Path, home: Path) -> None:
    agent = Agent(committed(repository), home)
    agent.select()
    assert status(repository) == "IN_PROGRESS"
    agent.ask("Bash", command="remit intent clear")
    assert run_git(repository, "status", "--porcelain") == ""
    assert [r["metadata"]["dev.remit"]["to"] for r in records(repository, "intent_transition")] == ["IN_PROGRESS"]
    assert status(repository) == "IN_PROGRESS"
    assert Gate.open(repository).rules.life["INT-001"].said.startswith("claude-code in ")


def test_an_end_is_written_where_the_work_was_done(repository: Path, home: Path) -> None:
    agent = Agent(committed(repository), home)
    agent.select()
    with_gate = Gate.open(repository)
    key = with_gate.state.list_recent_sessions()[0]
    IntentCompletion(with_gate).complete(key, "claude-code", "INT-001", "ran")
    added = [line for line in run_git(repository, "diff", "-U0").splitlines() if line.startswith("+  ")]
    assert [line.split()[1] for line in added] == ["updated_at:", "status:"]
    assert added[-1] == "+    status: DONE"
    assert with_gate.rules.life["INT-001"].said == "in this checkout"


def test_an_end_on_another_branch_is_known_and_follows_the_code(repository: Path, home: Path, tmp_path: Path) -> None:
    committed(repository)
    tree = tmp_path / "wt2"
    run_git(repository, "worktree", "add", "-q", "-b", "feature", str(tree))
    agent = Agent(tree, home)
    agent.select()
    assert Gate.open(repository).rules.life["INT-001"].said.startswith(f"claude-code in {tree}")
    gate = Gate.open(tree)
    IntentCompletion(gate).complete(gate.state.list_recent_sessions()[0], "claude-code", "INT-001", "ran")
    elsewhere = Gate.open(repository).rules.life["INT-001"]
    assert (elsewhere.status, elsewhere.said) == ("DONE", f"on feature ({tree}), not merged here")
    refused = Agent(repository, home, session="session-2").select()
    assert "INTENT_CLOSED" in str(refused)
    run_git(tree, "commit", "-qam", "done")
    assert status(repository) == "DONE"
    run_git(repository, "merge", "-q", "feature")
    assert Gate.open(repository).rules.life["INT-001"].said == "in this checkout"
    run_git(repository, "revert", "--no-edit", "HEAD")
    assert status(repository) == "DRAFT"


@pytest.mark.parametrize(("word", "after"), [("never", []), ("all", ["IN_PROGRESS", "DONE"])])
def test_write_back_says_what_a_file_gets(repository: Path, home: Path, word: str, after: list[str]) -> None:
    governed(repository, intents=INTENTS)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + f'\n[intents]\nwrite_back = "{word}"\n')
    file = repository / ".orchestration" / "active_intents.yaml"
    agent = Agent(repository, home)
    agent.select()
    found = [w for w in ("IN_PROGRESS",) if w in file.read_text()]
    gate = Gate.open(repository)
    IntentCompletion(gate).complete(gate.state.list_recent_sessions()[0], "claude-code", "INT-001", "ran")
    found += [w for w in ("DONE",) if w in file.read_text()]
    assert found == after
    assert status(repository) == "DONE"


def test_a_block_is_written_and_its_end_too(repository: Path) -> None:
    committed(repository)
    intents = Gate.open(repository).intents
    intents.set_status("INT-001", "IN_PROGRESS", by="person")
    intents.set_status("INT-001", "BLOCKED", by="person", reason="waits for the key")
    assert "status: BLOCKED" in run_git(repository, "diff")
    assert intents.get("INT-001").blocked_reason == "waits for the key"
    intents.set_status("INT-001", "IN_PROGRESS", by="person")
    assert (intents.get("INT-001").status, intents.get("INT-001").blocked_reason) == ("IN_PROGRESS", None)


def test_what_is_done_elsewhere_is_no_finished_dependency_here(repository: Path, home: Path, tmp_path: Path) -> None:
    governed(repository, intents=INTENTS + "    dependencies: [INT-001]\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "rules")
    tree = tmp_path / "wt2"
    run_git(repository, "worktree", "add", "-q", "-b", "feature", str(tree))
    there = Gate.open(tree).intents
    there.set_status("INT-001", "IN_PROGRESS", by="person")
    there.set_status("INT-001", "DONE", by="person")
    selected = Gate.open(repository).intents.select(SessionKey("s"), "claude-code", "INT-002")
    assert selected.warnings == ("INT-002 depends on INT-001, which is not DONE.",)
