"""Ids that two makers do not both choose, and intents that every worktree of a clone knows before a commit has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed, records
from remit.core.intent import Intent
from remit.gate.gate import Gate
from remit.gate.governing.lives import forget_committed, pending_folder
from remit.gate.intents.history import intent_history
from remit.gate.intents.identity import find_used_ids, pick_id
from remit.gate.intents.refusals import IntentError

TEXT = "id: {0}\nowned_scope: [x/**]\n"


@pytest.fixture
def root(repository: Path) -> Path:
    governed(repository)
    folder = repository / ".orchestration"
    (folder / "active_intents.yaml").unlink()
    (folder / "intents").mkdir()
    (folder / "intents/README.md").write_text("here\n")
    with (folder / ".gitignore").open("a") as ignored:
        ignored.write("active_intents.yaml\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "rules")
    return repository


def put(root: Path, intent_id: str) -> Path:
    path = root / f".orchestration/intents/{intent_id}.yaml"
    path.write_text(TEXT.format(intent_id))
    return path


def test_a_number_follows_all_that_the_clone_knows(root: Path, tmp_path: Path) -> None:
    assert pick_id(Gate.open(root)) == "INT-001"
    run_git(root, "switch", "-qc", "other")
    put(root, "INT-004")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "four")
    run_git(root, "switch", "-q", "-")
    assert pick_id(Gate.open(root)) == "INT-005"
    tree = tmp_path / "wt"
    run_git(root, "worktree", "add", "-q", str(tree))
    put(tree, "INT-007")
    assert pick_id(Gate.open(root)) == "INT-008"
    Gate.open(root).intents.create(Intent("INT-011", ("a/**",)), by="person")
    (root / ".orchestration/intents/INT-011.yaml").unlink()
    assert pick_id(Gate.open(root)) == "INT-012", "the ledger knows it"
    put(root, "INT-020").write_text("id: INT-020\nowned_scope: [**]\n")
    assert pick_id(Gate.open(root)) == "INT-021", "a broken one counts"
    assert pick_id(Gate.open(root), "FIX") == "FIX-001"
    with pytest.raises(ValueError, match="'int' cannot begin"):
        pick_id(Gate.open(root), "int")


def test_where_others_may_choose_too_it_is_six_random_digits(root: Path) -> None:
    run_git(root, "remote", "add", "origin", "https://example.org/x.git")
    put(root, "INT-100003")
    drawn: Iterator[int] = iter((3, 104917))
    assert pick_id(Gate.open(root), draw=lambda _: next(drawn)) == "INT-204917"
    assert 100_000 <= int(pick_id(Gate.open(root)).removeprefix("INT-")) < 1_000_000
    config = root / ".orchestration/remit.toml"
    config.write_text(config.read_text() + '\n[intents]\nids = "count"\n')
    assert pick_id(Gate.open(root)) == "INT-100004"


def test_what_only_names_an_intent_uses_no_number_up(root: Path) -> None:
    text = "id: INT-001\nowned_scope: [x/**]\ndescription: after INT-900\nreferences:\n  - INT-950\n"
    (root / ".orchestration/intents/INT-001.yaml").write_text(text)
    assert find_used_ids(Gate.open(root)) == {"INT-001"}


def test_a_declared_intent_is_known_in_every_worktree_until_it_is_committed(
    root: Path, home: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "wt"
    run_git(root, "worktree", "add", "-q", "-b", "work", str(tree))
    made = Gate.open(root).intents.create(Intent("", ("src/**",), name="Greet"), by="person")
    agent = Agent(tree, home)
    assert "open: INT-001" in str(agent.write("src/a.py", "x\n"))
    assert run_git(tree, "status", "--porcelain") == ""
    agent.select(made.id)
    file = ".orchestration/intents/INT-001-greet.yaml"
    assert (tree / file).read_bytes() == (root / file).read_bytes()
    assert Gate.open(root).rules.life[made.id].said.startswith(f"claude-code in {tree}")
    # Both commit the same bytes: the merge is clean, and the copy goes.
    for place in (root, tree):
        run_git(place, "add", "-A")
        run_git(place, "commit", "-qm", "declared")
    run_git(root, "merge", "-q", "work", "-m", "both")
    forget_committed(Gate.open(root).workspace)
    assert list(pending_folder(Gate.open(root).workspace).glob("*.yaml")) == []


def test_a_declared_intent_that_is_edited_or_deleted_is_so_everywhere(root: Path, tmp_path: Path) -> None:
    tree = tmp_path / "wt"
    run_git(root, "worktree", "add", "-q", "-b", "work", str(tree))
    intents = Gate.open(root).intents
    made = intents.create(Intent("", ("src/**",), name="Greet"), by="person")
    intents.edit(made.id, {"owned_scope": ("lib/**",)}, by="person")
    assert Gate.open(tree).intents.get(made.id).owned_scope == ("lib/**",)
    intents.delete(made.id, by="person")
    with pytest.raises(IntentError, match="there is no intent"):
        Gate.open(tree).intents.get(made.id)


def test_a_history_is_that_of_one_intent_not_of_a_label(root: Path) -> None:
    path = put(root, "INT-001")
    path.write_text(path.read_text() + "name: Mine\ncreated_at: 2026-11-01T00:00:00Z\n")
    gate = Gate.open(root)
    gate.notice_rules(gate.rules)
    path.write_text(TEXT.format("INT-001") + "name: Theirs\ncreated_at: 2026-11-02T00:00:00Z\n")
    gate = Gate.open(root)
    gate.notice_rules(gate.rules)
    versions = intent_history(gate, "INT-001", 10)
    assert [v.intent.name for v in versions if v.intent] == ["Theirs"]
    uids = [record["metadata"]["dev.remit"]["intent_uid"] for record in records(root, "intent_changed")]
    assert len(set(uids[-2:])) == 2


def test_an_intent_of_another_branch_is_refused_with_the_branch(root: Path, home: Path) -> None:
    run_git(root, "switch", "-qc", "feature/limits")
    put(root, "INT-004")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "four")
    run_git(root, "switch", "-q", "-")
    said = str(Agent(root, home).select("INT-004"))
    assert "INTENT_NOT_FOUND" in said
    assert "It is declared on feature/limits." in said


def test_a_declared_intent_whose_file_a_person_deletes_is_gone_everywhere(root: Path, tmp_path: Path) -> None:
    tree = tmp_path / "wt"
    run_git(root, "worktree", "add", "-q", "-b", "work", str(tree))
    Gate.open(root).intents.create(Intent("", ("src/**",), name="Greet"), by="person")
    assert Gate.open(tree).intents.find_intent("INT-001")
    (root / ".orchestration/intents/INT-001-greet.yaml").unlink()
    for place in (root, tree):
        assert Gate.open(place).intents.find_intent("INT-001") is None
