"""`remit notes`, `remit trailers` and `remit import`, as a person runs them."""

import json
import stat
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from cli.running import data, run
from conftest import run_git
from gate.driving import Agent, governed
from remit.core.diff.contents import hash_line_range

BODY = "def main():\n    total = compute_everything()\n    return total\n"


def settings(root: Path, text: str) -> None:
    (root / ".orchestration" / "remit.toml").write_text(f'mode = "enforce"\n{text}\n')


def commit(root: Path, *more: str) -> None:
    run_git(root, "add", "src")
    run_git(root, "commit", "-q", "-m", "work", *more)


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    return found


def test_notes_travel_to_a_clone_that_knows_nothing(agent: Agent, tmp_path: Path) -> None:
    root = agent.cwd
    run_git(tmp_path, "clone", "-q", "--bare", str(root), "hub.git")
    run_git(root, "remote", "add", "origin", str(tmp_path / "hub.git"))
    settings(root, "[share]\nnotes = true")
    agent.write("src/app.py", BODY)
    commit(root)
    run_git(root, "push", "-q", "origin", "main")
    said = run(root, "notes", "sync")
    assert said.stdout == "1 notes written under refs/notes/ai\n0 notes from origin; ours pushed\n"
    run_git(tmp_path, "clone", "-q", "hub.git", "clone")
    clone = tmp_path / "clone"
    bare = run(clone, "blame", "src/app.py")
    assert (bare.returncode, "remit init" in bare.stderr, "✦" in bare.stdout) == (0, True, False)
    assert "nothing pushed" in run(clone, "notes", "sync").stdout
    lines = data(clone, "blame", "src/app.py")["lines"]
    assert [(line["origin"], line["agent"], line["intent_id"], line["grade"]) for line in lines] == [
        ("unknown", None, None, None),
        ("ai", "claude-code", "INT-001", "note"),
        ("ai", "claude-code", "INT-001", "note"),
    ]
    assert "ai  claude-code, INT-001, by a note" in run(clone, "why", "src/app.py:2-3").stdout
    assert data(clone, "verify", "HEAD")["findings"] == []
    assert not (clone / ".git" / "remit").exists()


def test_nothing_is_written_where_nobody_said_so(agent: Agent) -> None:
    agent.write("src/app.py", BODY)
    commit(agent.cwd)
    done = run(agent.cwd, "notes", "write")
    assert (done.returncode, "shares no notes" in done.stderr) == (2, True)
    assert run_git(agent.cwd, "for-each-ref", "refs/notes/ai") == ""
    assert run(agent.cwd, "notes", "show").returncode == 2


def test_a_note_that_attests_more_than_its_commit_added_is_a_finding(agent: Agent) -> None:
    settings(agent.cwd, "[share]\nnotes = true")
    agent.write("src/app.py", BODY)
    commit(agent.cwd)
    run(agent.cwd, "notes", "write", "HEAD")
    text = run_git(agent.cwd, "notes", "--ref=ai", "show").replace(" 2-3\n", " 1-3\n")
    (agent.home / "note").write_text(text)
    run_git(agent.cwd, "notes", "--ref=ai", "add", "-f", "-F", str(agent.home / "note"))
    done = run(agent.cwd, "verify", "HEAD")
    assert done.returncode == 1
    assert "RMT017" in done.stdout
    assert "attests lines 1 of 'src/app.py'" in done.stdout


def hook(root: Path, command: str) -> None:
    """A person's own prepare-commit-msg hook."""
    path = root / ".git" / "hooks" / "prepare-commit-msg"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nexec {sys.executable} -m remit {command}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def message(root: Path) -> str:
    return run_git(root, "log", "-1", "--format=%B").rstrip("\n")


def test_a_persons_hook_says_which_agent_helped(agent: Agent) -> None:
    hook(agent.cwd, 'trailers "$1"')
    settings(agent.cwd, '[trailers]\nstyle = "kernel"')
    agent.write("src/app.py", BODY)
    commit(agent.cwd)
    assert message(agent.cwd) == "work\n\nAssisted-by: claude-code"
    (agent.cwd / "src" / "app.py").write_text("# a line that a person writes\n" + BODY)
    commit(agent.cwd)
    assert message(agent.cwd) == "work", "no agent wrote what is staged"


def test_only_what_is_staged_counts(agent: Agent) -> None:
    settings(agent.cwd, '[trailers]\nstyle = "Remit-Intent"')
    (agent.cwd / "src" / "other.py").write_text("by a person, and staged\n")
    agent.write("src/app.py", BODY)
    run_git(agent.cwd, "add", "src/other.py")
    assert data(agent.cwd, "trailers")["trailers"] == []
    run_git(agent.cwd, "add", "src/app.py")
    assert data(agent.cwd, "trailers")["trailers"] == ["Remit-Intent: INT-001"]


def test_by_default_nothing_is_said_and_what_agents_say_is_found(agent: Agent) -> None:
    agent.write("src/app.py", BODY)
    hook(agent.cwd, 'trailers --strip "$1"')
    commit(agent.cwd, "-m", "Co-authored-by: Claude <noreply@anthropic.com>")
    assert message(agent.cwd) == "work"
    (agent.cwd / ".git" / "hooks" / "prepare-commit-msg").unlink()
    run_git(agent.cwd, "commit", "-q", "--amend", "-m", "x\n\nSigned-off-by: Claude Code <a@example.org>")
    done = run(agent.cwd, "trailers", "--check", "HEAD")
    assert (done.returncode, "SIGNED_OFF_BY_AGENT" in done.stdout) == (1, True)


def trace(content: str, start: int, end: int) -> dict[str, Any]:
    """A record of another tool, in the published shape."""
    conversation = {
        "url": "https://example.org/chat/7",
        "contributor": {"type": "ai", "model_id": "maker/model-9"},
        "ranges": [
            {"start_line": start, "end_line": end, "content_hash": hash_line_range(content.encode(), start, end)},
        ],
    }
    return {
        "version": "0.1.0",
        "id": str(uuid.uuid4()),
        "timestamp": "2026-01-02T03:04:05Z",
        "tool": {"name": "other-tool", "version": "1"},
        "files": [{"path": "src/app.py", "conversations": [conversation]}],
    }


@pytest.mark.parametrize("form", ["json", "array", "lines"])
def test_a_trace_of_another_tool_is_evidence_where_the_lines_are_those(agent: Agent, tmp_path: Path, form: str) -> None:
    (agent.cwd / "src" / "app.py").write_text(BODY)
    commit(agent.cwd)
    record = trace(BODY, 2, 3)
    text = {"json": json.dumps(record, indent=1), "array": json.dumps([record]), "lines": json.dumps(record) + "\n"}
    (tmp_path / "traces").write_text(text[form])
    assert data(agent.cwd, "import", str(tmp_path / "traces"))["traces"] == 1
    lines = data(agent.cwd, "blame", "src/app.py")["lines"]
    assert [(line["agent"], line["model"], line["grade"]) for line in lines] == [
        (None, None, None),
        ("other-tool", "maker/model-9", "note"),
        ("other-tool", "maker/model-9", "note"),
    ]
    shown = data(agent.cwd, "show", record["id"])
    said = json.dumps(shown)
    assert '"imported"' in said
    assert '"unproved"' in said
    (agent.cwd / "src" / "app.py").write_text(BODY.replace("everything", "something"))
    commit(agent.cwd)
    assert [line["agent"] for line in data(agent.cwd, "blame", "src/app.py")["lines"]] == [None, None, "other-tool"]


def test_what_is_imported_again_in_another_layout_is_there_once_in_the_order_of_time(
    agent: Agent, tmp_path: Path
) -> None:
    older = {"timestamp": "2026-01-02T05:30:00+02:00", "eventType": "tool_use", "toolName": "write", "taskId": "t"}
    found = [{**trace(BODY, 2, 3), "id": ""}, older]
    layouts = ("\n".join(map(json.dumps, found)), json.dumps(found, indent=2), "\ufeff" + json.dumps(found, indent=1))
    for text in layouts:
        (tmp_path / "traces").write_text(text, "utf-8")
        assert data(agent.cwd, "import", str(tmp_path / "traces"))["traces"] == 1
        times = [record["timestamp"] for record in data(agent.cwd, "log", "--until", "2026-02-01")]
        assert times == ["2026-01-02T03:30:00.000000Z", "2026-01-02T03:04:05.000000Z"]


def test_what_is_no_record_is_not_imported(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "junk").write_text('{"a": 1}\nnot json\n')
    done = run(agent.cwd, "import", str(tmp_path / "junk"))
    assert done.returncode == 4
    assert "nothing in it is a record" in done.stderr


def test_an_import_of_our_own_log_is_refused_by_the_name_that_was_given(agent: Agent) -> None:
    done = run(agent.cwd, "import", ".orchestration/agent_trace.jsonl")
    assert done.returncode == 4
    assert "'.orchestration/agent_trace.jsonl' cannot be imported: no line of it is a record of another" in done.stderr
