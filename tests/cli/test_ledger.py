"""The ledger's commands on a real repository, by a real session."""

import json
import subprocess
from pathlib import Path

import pytest

from cli.running import data, remit
from conftest import run_git
from gate.driving import Agent, body, governed, records
from remit.gate.gate import Gate
from remit.ledger.tree_heads import HEAD_INTERVAL_RECORDS, read_frontier, read_stored_heads
from remit.ledger.verify_log import check_log_health


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.send("SessionStart", source="startup", model="m")
    found.select()
    found.write("src/new.py", "one\n")
    return found


def log_folder(root: Path) -> Path:
    return Gate.open(root).workspace.log_folder


def own(root: Path) -> Path:
    return root / ".git/remit/objects.git"


def segment(root: Path) -> Path:
    return next(log_folder(root).glob("0*.jsonl"))


def test_a_session_that_ends_leaves_a_head_beside_the_log_in_it_and_in_the_commit(agent: Agent) -> None:
    agent.send("SessionEnd", reason="other")
    (made,) = records(agent.cwd, "tree_head")
    assert [head.note for head in read_stored_heads(log_folder(agent.cwd))] == [body(made)["note"]]
    head = run_git(agent.cwd, "rev-parse", "HEAD").strip()
    assert run_git(own(agent.cwd), "notes", "--ref=remit", "show", head) == body(made)["note"]
    assert run_git(agent.cwd, "log", "--all", "--format=%h").count("\n") == 1
    assert run_git(agent.cwd, "status", "--porcelain", "--", "src/app.py", "README.md") == ""
    found = data(agent.cwd, "ledger", "verify")
    assert (found["findings"], found["witnessed"], found["unwitnessed"]) == ([], body(made)["size"], 1)


def test_a_commit_is_witnessed_once_head_moved(agent: Agent) -> None:
    agent.send("SessionEnd", reason="other")
    agent.send("SessionEnd", reason="other")
    assert len(run_git(own(agent.cwd), "notes", "--ref=remit", "list").splitlines()) == 1
    run_git(agent.cwd, "commit", "-qam", "second", "--allow-empty")
    agent.send("SessionEnd", reason="other")
    assert len(run_git(own(agent.cwd), "notes", "--ref=remit", "list").splitlines()) == 2
    assert data(agent.cwd, "ledger", "verify")["findings"] == []


def test_where_notes_are_shared_the_witness_stands_in_the_users_repository(agent: Agent) -> None:
    (agent.cwd / ".orchestration" / "remit.toml").write_text("[share]\nnotes = true\n")
    agent.send("SessionEnd", reason="other")
    (made,) = records(agent.cwd, "tree_head")
    assert run_git(agent.cwd, "notes", "--ref=remit", "show", "HEAD") == body(made)["note"]


def test_a_commits_note_convicts_a_log_whose_folder_was_cut_with_all_its_heads(agent: Agent) -> None:
    agent.send("SessionEnd", reason="other")
    folder = log_folder(agent.cwd)
    for kept in (*folder.glob("heads/*"), folder / "head"):
        kept.unlink()
    path = segment(agent.cwd)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    found = data(agent.cwd, "ledger", "verify", code=5)["findings"]
    assert [f["message"][:14] for f in found if f["code"] == "truncated"] == ["note of commit"]


def test_a_shared_log_convicts_one_whose_folder_was_cut_with_all_its_heads(agent: Agent) -> None:
    agent.send("SessionEnd", reason="other")
    path = segment(agent.cwd)
    run_git(agent.cwd, "config", "grep.lineNumber", "true")
    share(agent.cwd, path)
    assert data(agent.cwd, "ledger", "verify")["findings"] == []
    run_git(own(agent.cwd), "update-ref", "-d", "refs/notes/remit")
    for kept in (*path.parent.glob("heads/*"), path.parent / "head"):
        kept.unlink()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    found = data(agent.cwd, "ledger", "verify", code=5)["findings"]
    assert [f["message"].split(":")[0] for f in found if f["code"] == "truncated"] == ["refs/remit/log/machine"]


def share(root: Path, log: Path) -> None:
    """Put a log file into a ref, below a folder, as a machine would share it; and a ref that is no commit."""
    blob = run_git(root, "hash-object", "-w", str(log)).strip()
    folder = make_tree(root, f"100644 blob {blob}\t{log.name}\n")
    tree = make_tree(root, f"040000 tree {folder}\tlog\n")
    made = run_git(root, "commit-tree", "-m", "log", tree).strip()
    run_git(root, "update-ref", "refs/remit/log/machine", made)
    run_git(root, "update-ref", "refs/remit/log/other", blob)


def make_tree(root: Path, listed: str) -> str:
    done = subprocess.run(["git", "mktree"], cwd=root, input=listed, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_verify_says_from_where_a_damaged_log_is_whole_again(agent: Agent) -> None:
    assert data(agent.cwd, "ledger", "verify")["whole_from"] == 0
    path = segment(agent.cwd)
    path.write_bytes(path.read_bytes().replace(b'"src/new.py"', b'"src/old.py"', 1))
    agent.write("src/next.py", "two\n")
    found = data(agent.cwd, "ledger", "verify", code=5)
    last = max(f["last_seq"] for f in found["findings"])
    assert found["whole_from"] == last + 1 < found["records"]
    assert f"from record {last + 1} on the chain is whole" in remit(agent.cwd, "ledger", "verify", code=5)


def test_a_change_inside_is_said_at_the_next_head_and_verify_stays_red(agent: Agent) -> None:
    agent.send("SessionEnd", reason="other")
    path = segment(agent.cwd)
    path.write_bytes(path.read_bytes().replace(b'"src/new.py"', b'"src/old.py"', 1))
    assert not check_log_health(path.parent).ok
    agent.write("src/next.py", "two\n")
    agent.send("SessionEnd", reason="other")
    (said,) = records(agent.cwd, "recovery")
    assert body(said)["reason"] == "inside_altered"
    assert body(said)["expected_root"] != body(said)["found_root"]
    assert not check_log_health(path.parent).ok
    agent.send("SessionEnd", reason="other")
    assert len(records(agent.cwd, "recovery")) == 1
    codes = {f["code"] for f in data(agent.cwd, "ledger", "verify", code=5)["findings"]}
    assert {"altered", "rewritten"} <= codes


def test_a_head_is_made_after_many_records_without_an_end(agent: Agent) -> None:
    recorder = Gate.open(agent.cwd, agent.environment).recorder
    one = recorder.make_record(recorder.recovery_record({"reason": "x"}).body)
    recorder.append([one] * HEAD_INTERVAL_RECORDS, sync=False)
    assert read_frontier(log_folder(agent.cwd)) is None
    agent.write("src/more.py", "x\n")
    assert read_frontier(log_folder(agent.cwd)) is not None


def test_heads_of_two_machines_share_a_commits_note(agent: Agent) -> None:
    remit(agent.cwd, "ledger", "witness")
    first = run_git(agent.cwd, "notes", "--ref=remit", "show", "HEAD")
    run_git(agent.cwd, "notes", "--ref=remit", "add", "-f", "-m", first.replace("/", "/f"), "HEAD")
    remit(agent.cwd, "ledger", "witness", "HEAD")
    remit(agent.cwd, "ledger", "witness", "HEAD")
    assert run_git(agent.cwd, "notes", "--ref=remit", "show", "HEAD").count("---\n") == 1
    assert data(agent.cwd, "ledger", "verify")["witnessed"] > 0


def test_what_is_no_commit_is_said(agent: Agent) -> None:
    assert "NOT_FOUND" in remit(agent.cwd, "ledger", "witness", "--json", "--", "--bad", code=2)


def test_a_teammates_log_is_trusted_by_its_key(agent: Agent, tmp_path: Path, home: Path) -> None:
    agent.send("SessionEnd", reason="other")
    key = data(agent.cwd, "ledger", "key")["key"]
    view = agent.cwd / ".orchestration" / "agent_trace.jsonl"
    other = tmp_path / "clone"
    run_git(tmp_path, "clone", "-q", str(agent.cwd), str(other))
    (home / ".local/state/remit").rename(home / "other-machine")
    governed(other)
    assert data(other, "import", str(view))["records"] > 3
    assert "(unproved)" in remit(other, "log", "--event", "mutation")
    (other / ".orchestration" / "remit.toml").write_text(f'mode = "enforce"\n[ledger]\ntrusted_keys = ["{key}"]\n')
    assert "(unproved)" not in remit(other, "log", "--event", "mutation")
    assert "src/new.py" in remit(other, "search", "NEW.py", "mutation")
    assert data(other, "ledger", "verify")["findings"] == []


OLD = (
    '{"timestamp":"2026-02-18T10:27:45.234Z","eventType":"tool_use","toolName":"execute_command",'
    '"params":{"command":"npm install old-thing"},"taskId":"task-1","intentId":"INT-009"}\n'
)


def test_lines_of_an_older_tool_in_the_view_are_listed_and_shown(agent: Agent) -> None:
    view = agent.cwd / ".orchestration" / "agent_trace.jsonl"
    view.write_bytes(OLD.encode() + view.read_bytes())
    assert "npm install old-thing (unproved)" in remit(agent.cwd, "log", "--intent", "INT-009")
    (found,) = data(agent.cwd, "search", "old-thing")
    assert found["id"] in json.dumps(data(agent.cwd, "show", found["id"]))
    assert data(agent.cwd, "ledger", "verify")["findings"] == []
    assert data(agent.cwd, "log", "--until", "2026-03-01")[0]["id"] == found["id"]


def test_a_log_that_was_cut_with_its_head_fails_until_a_person_acknowledges_it(agent: Agent) -> None:
    root = agent.cwd
    lines = segment(root).read_bytes().splitlines(keepends=True)
    segment(root).write_bytes(b"".join(lines[:2]))
    (log_folder(root) / "head").unlink()
    remit(root, "ledger", "verify", code=5)
    agent.write("src/more.py", "two\n")
    remit(root, "verify", code=5)
    (told,) = records(root, "recovery")
    assert (body(told)["reason"], body(told)["found_seq"]) == ("head_lost", 1)
    assert not check_log_health(log_folder(root)).ok
    remit(root, "ledger", "repair", "--yes")
    found = data(root, "ledger", "verify")["findings"]
    assert [(f["code"], f["severity"]) for f in found] == [("head_missing", "warning")]
    assert check_log_health(log_folder(root)).ok
