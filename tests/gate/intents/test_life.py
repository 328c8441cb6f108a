"""What a life writes: nothing at a selection, one word at the end."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed, records
from remit.core.call import SessionKey
from remit.core.intent import Status
from remit.gate.gate import Gate
from remit.gate.governing.lives import LOST_FILE, decode_lives, life_path, mend_lives, read_life
from remit.gate.intents.intents import IntentCompletion
from remit.gate.intents.mending import reopen_intent
from remit.wiring.doctor_checks import check_lives

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


def test_another_time_of_making_takes_no_recorded_end_away(repository: Path, home: Path) -> None:
    intents = Gate.open(committed(repository)).intents
    (repository / ".orchestration/remit.toml").write_text('mode = "enforce"\nintents.write_back = "never"\n')
    intents.set_status("INT-001", "ABORTED", by="person")
    for created_at in ("2026-11-02T00:00:00Z", "2026-11-01T00:00:00Z"):
        assert intents.edit("INT-001", {"created_at": created_at}, by="person").status == "ABORTED"


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


@pytest.mark.parametrize("content", [None, b"", b"[" * 5_000], ids=["missing", "empty", "damaged"])
def test_lives_are_made_anew_from_the_ledger(repository: Path, home: Path, content: bytes | None) -> None:
    governed(repository, intents=INTENTS)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '\n[intents]\nwrite_back = "never"\n')
    gate = Gate.open(repository)
    ends: dict[str, Status] = {"INT-001": "DONE", "INT-002": "BLOCKED"}
    for intent_id, end in ends.items():
        gate.intents.set_status(intent_id, "IN_PROGRESS", by="person")
        gate.intents.set_status(intent_id, end, by="person", reason="waits for the key")
    reopen_intent(gate.intents, "INT-001", "too early")
    gate.intents.set_status("INT-001", "DONE", by="person")
    before, path = gate.rules.life, life_path(gate.workspace)
    records = read_life(gate.workspace)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert "INT-001 is DONE" in str(Agent(repository, home).select())
    assert Gate.open(repository).rules.life == before
    assert decode_lives(path) == records
    assert path.with_name(LOST_FILE).read_bytes() == (content or b"")
    [told] = check_lives(Gate.open(repository))
    assert (told.level, "was damaged" in told.message) == ("warn", bool(content))


def test_a_life_that_the_ledger_contradicts_is_found_and_mended(repository: Path) -> None:
    governed(repository, intents=INTENTS)
    gate = Gate.open(repository)
    gate.intents.set_status("INT-002", "IN_PROGRESS", by="person")
    life_path(gate.workspace).write_text("{}")
    [told] = check_lives(Gate.open(repository))
    assert (told.level, told.fix) == ("fail", "remit doctor --fix")
    mend_lives(gate.workspace)
    assert [check.level for check in check_lives(Gate.open(repository))] == ["ok"]
    assert status(repository, "INT-002") == "IN_PROGRESS"
