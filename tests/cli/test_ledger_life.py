"""Compacting, pruning, proving and sharing a log, by the commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli import running
from cli.test_ledger import log_folder
from conftest import run_git
from gate.driving import Agent, body, governed, records
from remit.cli.root import remit as command
from remit.core.record import Body
from remit.gate.gate import Gate
from remit.ledger.log import SEGMENT_RECORDS
from remit.ledger.log_files import list_archived_segments, list_live_segments

USE = Body(event="tool_use", intent_id="INT-001", session_id="session-1")
SHARING = 'mode = "enforce"\n[share]\nlog = "ref"\n'


def remit(folder: Path, *words: str, code: int = 0, **variables: str) -> str:
    done = CliRunner().invoke(command, [*words, "--repo", str(folder)], env=variables)
    assert done.exit_code == code, done.output
    return done.stdout


def data(folder: Path, *words: str, code: int = 0) -> Any:
    return json.loads(remit(folder, *words, "--json", code=code))["data"]


def origin(root: Path, path: str) -> str:
    return running.data(root, "blame", path)["lines"][0]["origin"]


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """A session that left a full segment, with an edit in it, and a signed log."""
    found = Agent(governed(repository), home)
    found.send("SessionStart", source="startup", model="m")
    found.select()
    found.write("src/new.py", "one\n")
    recorder = Gate.open(found.cwd, found.environment).recorder
    recorder.append([recorder.make_record(USE)] * SEGMENT_RECORDS, sync=False)
    found.write("src/last.py", "two\n")
    found.send("SessionEnd", reason="other")
    return found


def share(root: Path, more: str = "") -> None:
    (root / ".orchestration" / "remit.toml").write_text(SHARING + more)


def test_a_compacted_log_reads_verifies_and_blames_as_before(agent: Agent) -> None:
    before = data(agent.cwd, "log", "-n", "20", "--reverse")
    done = data(agent.cwd, "ledger", "compact")
    assert done["segments"] == 1
    assert done["bytes_after"] < done["bytes_before"] / 5
    assert data(agent.cwd, "ledger", "compact")["segments"] == 0
    assert data(agent.cwd, "log", "-n", "20", "--reverse") == before
    found = data(agent.cwd, "ledger", "verify")
    assert (found["findings"], found["pruned"], found["unwitnessed"]) == ([], [], 1)
    assert origin(agent.cwd, "src/new.py") == "ai"
    assert len(list_live_segments(log_folder(agent.cwd))) == len(list_archived_segments(log_folder(agent.cwd))) == 1


def test_pruning_says_what_goes_and_what_is_left_verifies(agent: Agent) -> None:
    (agent.cwd / "src/new.py").unlink()
    planned = data(agent.cwd, "ledger", "prune", "--keep-days", "0", "--dry-run")
    assert planned["dropped"]["tool_use"] >= SEGMENT_RECORDS
    assert data(agent.cwd, "ledger", "verify")["pruned"] == []
    assert "NOT_CONFIRMED" in remit(agent.cwd, "ledger", "prune", "--keep-days", "0", "--json", code=2)
    done = data(agent.cwd, "ledger", "prune", "--keep-days", "0", "--yes")
    assert done["dropped"] == planned["dropped"]
    (told,) = records(agent.cwd, "pruned")
    assert body(told)["dropped"] == done["dropped"]
    found = data(agent.cwd, "ledger", "verify")
    assert (found["findings"], len(found["pruned"])) == ([], 1)
    said = remit(agent.cwd, "ledger", "verify")
    assert f"pruned, their hashes verify against the tree head of {found['witnessed']} records" in said
    assert data(agent.cwd, "log", "--path", "src/new.py") == []


def test_an_edit_of_a_file_that_stands_on_a_branch_stays_unless_all_are_to_go(agent: Agent) -> None:
    run_git(agent.cwd, "checkout", "-qb", "side")
    run_git(agent.cwd, "add", "src/new.py")
    run_git(agent.cwd, "commit", "-qm", "on the side", "--", "src/new.py")
    run_git(agent.cwd, "checkout", "-q", "-")
    assert not (agent.cwd / "src/new.py").exists()
    data(agent.cwd, "ledger", "prune", "--keep-days", "0", "--yes")
    assert data(agent.cwd, "log", "--path", "src/new.py", "--event", "mutation")
    run_git(agent.cwd, "checkout", "-q", "side")
    assert origin(agent.cwd, "src/new.py") == "ai"
    data(agent.cwd, "ledger", "prune", "--keep-days", "0", "--yes", "--all")
    assert origin(agent.cwd, "src/new.py") == "unknown"
    assert "were pruned" in remit(agent.cwd, "why", "src/new.py")
    assert data(agent.cwd, "ledger", "verify")["findings"] == []


def test_an_agent_prunes_nothing(agent: Agent) -> None:
    said = remit(agent.cwd, "ledger", "prune", "--keep-days", "0", "--yes", "--json", code=3, CLAUDECODE="1")
    assert "FOR_PEOPLE" in said
    assert data(agent.cwd, "ledger", "verify")["pruned"] == []


@pytest.fixture
def remote(agent: Agent, tmp_path: Path) -> Path:
    bare = tmp_path / "remote.git"
    run_git(tmp_path, "init", "-q", "--bare", str(bare))
    run_git(agent.cwd, "remote", "add", "origin", str(bare))
    run_git(agent.cwd, "push", "-q", "origin", "HEAD")
    return bare


def test_nothing_is_pushed_where_nobody_said_so(agent: Agent, remote: Path) -> None:
    assert "NOT_SHARED" in remit(agent.cwd, "ledger", "push", "--json", code=2)
    assert run_git(remote, "for-each-ref", "refs/remit") == ""


def test_a_teammate_reads_a_shared_log_and_trusts_it_by_its_key(
    agent: Agent, remote: Path, tmp_path: Path, home: Path
) -> None:
    share(agent.cwd)
    first = data(agent.cwd, "ledger", "push")
    assert first["fresh"] == 2
    assert data(agent.cwd, "ledger", "push") == {**first, "fresh": 0}
    agent.write("src/more.py", "x\n")
    data(agent.cwd, "ledger", "compact")
    assert data(agent.cwd, "ledger", "push")["fresh"] == 1
    key, count = data(agent.cwd, "ledger", "key")["key"], data(agent.cwd, "ledger", "verify")["records"]
    other = tmp_path / "clone"
    run_git(tmp_path, "clone", "-q", str(remote), str(other))
    (home / ".local/state/remit").rename(home / "other-machine")
    governed(other)
    found = data(other, "ledger", "fetch")
    assert list(found["records"].values()) == [count]
    assert "(unproved)" in remit(other, "log", "--event", "mutation")
    share(other, f'[ledger]\ntrusted_keys = ["{key}"]\n')
    assert "(unproved)" not in remit(other, "log", "--event", "mutation")
    forge(next((log_folder(other) / "foreign").iterdir()))
    assert "src/forged.py (unproved)" in " ".join(remit(other, "log", "--path", "src/forged.py").split())


def forge(file: Path) -> None:
    """Add a line that claims an early place in that log."""
    line = next(raw for raw in file.read_text().splitlines() if '"event":"mutation"' in raw)
    document = json.loads(line.replace("src/new.py", "src/forged.py"))
    file.write_text(file.read_text() + json.dumps({**document, "id": "forged"}, separators=(",", ":")) + "\n")


def test_a_log_that_was_cut_is_not_pushed_over_what_was_shared(agent: Agent, remote: Path) -> None:
    share(agent.cwd)
    data(agent.cwd, "ledger", "push")
    shared = run_git(remote, "for-each-ref", "refs/remit")
    newest = log_folder(agent.cwd) / list_live_segments(log_folder(agent.cwd))[-1]
    newest.write_bytes(b"".join(newest.read_bytes().splitlines(keepends=True)[:1]))
    assert "INTEGRITY" in remit(agent.cwd, "ledger", "push", "--json", code=5)
    assert run_git(remote, "for-each-ref", "refs/remit") == shared


def test_a_remote_that_rewrote_a_log_is_told_and_not_followed(
    agent: Agent, remote: Path, tmp_path: Path, home: Path
) -> None:
    share(agent.cwd)
    ref = data(agent.cwd, "ledger", "push")["ref"]
    other = tmp_path / "clone"
    run_git(tmp_path, "clone", "-q", str(remote), str(other))
    (home / ".local/state/remit").rename(home / "other-machine")
    governed(other)
    data(other, "ledger", "fetch")
    before = run_git(other, "rev-parse", ref)
    run_git(remote, "update-ref", ref, run_git(remote, "rev-parse", "HEAD").strip())
    found = data(other, "ledger", "fetch", code=5)
    assert found["refused"] == [ref.rpartition("/")[2]]
    assert run_git(other, "rev-parse", ref) == before


def test_what_was_pruned_after_it_was_shared_stays_shared(agent: Agent, remote: Path) -> None:
    share(agent.cwd)
    files = data(agent.cwd, "ledger", "push")["files"]
    data(agent.cwd, "ledger", "prune", "--keep-days", "0", "--yes")
    done = data(agent.cwd, "ledger", "push")
    assert (done["files"], done["absent"]) == (files, [])
    assert len(run_git(remote, "ls-tree", "--name-only", done["ref"]).splitlines()) == files
