"""Calls of tools that no agent's row names, through the hook's own door."""

import json
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, allowed, body, governed, records, refusal
from remit.core.machine_paths import CONFIG_PATH

META_CALLS: dict[str, dict[str, Any]] = {
    "WaitForMcpServers": {},
    "CronCreate": {"cron": "0 9 * * *", "prompt": "look at the build"},
    "SendMessage": {"to": "worker", "message": "done"},
    "create_goal": {"objective": "green tests"},
    "mcp__github__list_issues": {"owner": "acme", "repo": "shop"},
    "mcp__crawler__visit": {"route": "/", "labels": [f"label {number}" for number in range(300)]},
    "mcp__context7__get_docs": {"libraryID": "/vercel/next.js", "topic": "routing"},
}

TOOL = "mcp__notes__tidy"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent without an intent, in enforce."""
    return Agent(governed(repository), home)


def context_of(answer: dict[str, Any]) -> str:
    return str(answer.get("additionalContext", ""))


def settings(home: Path, text: str) -> None:
    path = home / CONFIG_PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_tool_without_path_and_command_needs_no_intent(agent: Agent) -> None:
    for tool, arguments in META_CALLS.items():
        asked = agent.ask(tool, **arguments)
        assert allowed(asked), tool
        agent.tell(tool, asked["call_id"], **arguments)
    assert {body(r)["call"]["effect"] for r in records(agent.cwd, "tool_use")} == {"unproved"}


def test_what_names_a_path_or_a_command_is_judged_as_other_tools_are(agent: Agent) -> None:
    (agent.cwd / "README.md").write_text("x\n")
    table: list[tuple[dict[str, Any], str]] = [
        ({"path": "README.md"}, "MISSING_OR_INVALID_INTENT"),
        ({"note": "README.md"}, "MISSING_OR_INVALID_INTENT"),
        ({"command": "make"}, "MISSING_OR_INVALID_INTENT"),
        ({"path": "~/.bashrc"}, "OUTSIDE_WORKSPACE"),
        ({"note": "/etc/passwd"}, "OUTSIDE_WORKSPACE"),
        ({"uri": "file:///etc/passwd"}, "OUTSIDE_WORKSPACE"),
        ({"edits": [{"path": "src/ok.py"}, {"path": "~/.claude/settings.json"}]}, "PROTECTED_PATH"),
        ({"source": ".orchestration/remit.toml", "destination": "src/x"}, "PROTECTED_PATH"),
        ({"paths": [f"src/{number}" for number in range(201)]}, "INVALID_ARGUMENTS"),
        ({"path": "src/a\0b"}, "INVALID_ARGUMENTS"),
    ]
    for arguments, code in table:
        assert refusal(agent.ask(TOOL, **arguments)) == code, arguments


def test_under_an_intent_the_named_paths_meet_its_scope(agent: Agent) -> None:
    assert refusal(agent.ask(TOOL, repo_path=str(agent.cwd))) == "MISSING_OR_INVALID_INTENT"
    agent.select()
    (agent.cwd / "docs").mkdir()
    assert allowed(agent.ask(TOOL, path="src/new.py"))
    assert refusal(agent.ask(TOOL, relative_path="docs/x.md")) == "SCOPE_VIOLATION"
    assert allowed(agent.ask(TOOL, repo_path=str(agent.cwd))), "the folder where it works is no change"
    assert allowed(agent.ask(TOOL, directory="docs")), "what it changes in a folder is found by comparing"
    assert refusal(agent.ask(TOOL, directory=".git")) == "PROTECTED_PATH"


def test_a_change_by_an_unproved_call_is_undone_and_its_tool_needs_an_intent_from_then_on(agent: Agent) -> None:
    notes = agent.cwd / "notes.md"
    notes.write_text("mine\n")
    asked = agent.ask(TOOL)
    notes.write_text("theirs\n")
    (agent.cwd / "new.md").write_text("new\n")
    told = context_of(agent.tell(TOOL, asked["call_id"]))
    assert notes.read_text() == "mine\n"
    assert not (agent.cwd / "new.md").exists()
    assert "MISSING_OR_INVALID_INTENT" in told
    assert f"{TOOL} changed files although its arguments name none" in told
    assert refusal(agent.ask(TOOL)) == "MISSING_OR_INVALID_INTENT"
    assert allowed(agent.ask("mcp__notes__list"))


def test_under_an_intent_what_an_unproved_call_changes_in_the_scope_stays(agent: Agent) -> None:
    agent.select()
    asked = agent.ask(TOOL)
    (agent.cwd / "src").mkdir(exist_ok=True)
    (agent.cwd / "src" / "made.py").write_text("x = 1\n")
    (agent.cwd / "other.md").write_text("x\n")
    agent.tell(TOOL, asked["call_id"])
    assert (agent.cwd / "src" / "made.py").exists()
    assert not (agent.cwd / "other.md").exists()


def test_governing_files_are_put_back_after_an_unproved_call(agent: Agent) -> None:
    rules = agent.cwd / ".orchestration" / "remit.toml"
    before = rules.read_text()
    asked = agent.ask(TOOL)
    rules.write_text('mode = "observe"\n')
    assert "governs you" in context_of(agent.tell(TOOL, asked["call_id"]))
    assert rules.read_text() == before


def test_a_person_says_which_tools_read_and_before_which_to_be_asked(agent: Agent, home: Path) -> None:
    settings(home, '[adopt]\npaths = ["~**"]\n[tools]\nread = ["mcp__fs__read_*"]\nask = ["mcp__*__create_*"]\n')
    assert allowed(agent.ask("mcp__fs__read_file", path="README.md"))
    assert refusal(agent.ask("mcp__fs__write_file", path="README.md")) == "MISSING_OR_INVALID_INTENT"
    asked = agent.ask("mcp__github__create_issue", title="x")
    assert refusal(asked) == "USER_REJECTED"
    assert "mcp__*__create_*" in asked["permissionDecisionReason"]


def test_what_a_listed_reader_of_a_path_changes_is_undone(agent: Agent, home: Path) -> None:
    settings(home, '[tools]\nread = ["mcp__fs__*"]\n')
    asked = agent.ask("mcp__fs__write_file", path="new.md")
    (agent.cwd / "new.md").write_text("x\n")
    agent.tell("mcp__fs__write_file", asked["call_id"], path="new.md")
    assert not (agent.cwd / "new.md").exists()


def test_a_repository_cannot_call_a_tool_harmless(agent: Agent) -> None:
    rules = agent.cwd / ".orchestration" / "remit.toml"
    rules.write_text(rules.read_text() + '\n[tools]\nharmless = ["*"]\n')
    assert refusal(agent.ask(TOOL, path="README.md")) == "CONFIG_INVALID"


@pytest.mark.parametrize("text", ["[tools]\nread = 3\n", "[tools\n", '[tools]\nreads = ["*"]\n'])
def test_settings_that_cannot_be_read_close(agent: Agent, home: Path, text: str) -> None:
    settings(home, text)
    assert refusal(agent.ask(TOOL)) == "CONFIG_INVALID"
    assert allowed(agent.ask("Read", file_path="README.md"))


def test_refusals_of_tools_that_need_no_intent_open_no_circuit(agent: Agent, home: Path) -> None:
    settings(home, f'[tools]\nask = ["{TOOL}"]\n')
    for _ in range(4):
        assert refusal(agent.ask(TOOL, note="the same")) == "USER_REJECTED"
    agent.select()
    assert allowed(agent.write("src/a.py", "x\n"))


def test_three_other_commands_open_no_circuit_and_the_same_one_does(agent: Agent) -> None:
    agent.select()
    for command in ("git push --force", "git reset --hard HEAD~1", "rm -rf /", "git clean -fdx"):
        assert refusal(agent.ask("Bash", command=command)) == "COMMAND_BLOCKED"
    for _ in range(2):
        assert refusal(agent.ask("Bash", command="git clean -fdx")) == "COMMAND_BLOCKED"
    reason = agent.ask("Bash", command="git push --force")["permissionDecisionReason"]
    assert "The same was refused 3 times in a row (COMMAND_BLOCKED Bash)" in reason


def test_an_argument_that_is_missing_or_of_the_wrong_type_is_named(agent: Agent) -> None:
    agent.select()
    table: list[tuple[str, dict[str, Any]]] = [
        ("Write", {"file_path": 7, "content": "x"}),
        ("Write", {"content": "x"}),
        ("Write", {"file_path": "src/a.py"}),
        ("Write", {"file_path": "src/a.py", "content": ["x"]}),
        ("Edit", {"file_path": "src/a.py", "old_string": "x"}),
        ("Edit", {"file_path": "src/a.py", "old_string": "x", "new_string": "y", "replace_all": "yes"}),
        ("MultiEdit", {"file_path": "src/a.py", "edits": {}}),
        ("NotebookEdit", {"notebook_path": "src/a.ipynb", "new_source": 3}),
        ("Bash", {"command": None}),
        ("Bash", {"command": ["ls"]}),
        ("Read", {"file_path": 7}),
        ("Read", {}),
    ]
    for tool, arguments in table:
        assert refusal(agent.ask(tool, **arguments)) == "INVALID_ARGUMENTS", arguments


def test_arguments_that_are_no_object_are_named(agent: Agent) -> None:
    odd: tuple[object, ...] = ([], "x", 7)
    for given in odd:
        reply = agent.send("PreToolUse", tool_name="mcp__a__b", tool_input=given, tool_use_id="t")
        assert "INVALID_ARGUMENTS" in json.loads(reply.stdout)["hookSpecificOutput"]["permissionDecisionReason"]
