"""A command that runs contained, and what the person's own rules for Claude Code say of the one that the model gave."""

import json
from pathlib import Path

import pytest

from gate.driving import Agent, governed, overlay, records
from remit.servers.hook import HookFrame, answer

COMMAND = "python3 src/app.py"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    overlay(home)
    found = Agent(repository, home)
    found.permission_mode = "default"
    found.select()
    return found


def write_rules(path: Path, **rules: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"permissions": rules}))


def test_what_a_rule_allows_is_allowed_contained(agent: Agent) -> None:
    write_rules(agent.home / ".claude/settings.json", allow=["Bash(python3:*)"])
    found = agent.ask("Bash", command=COMMAND)
    assert found["permissionDecision"] == "allow"
    assert " exec --session " in found["updatedInput"]["command"]
    assert "Bash(python3:*)" in found["permissionDecisionReason"]


def test_without_a_rule_the_person_is_asked_in_the_commands_own_words(agent: Agent) -> None:
    found = agent.ask("Bash", command=COMMAND)
    assert found["permissionDecision"] == "ask"
    assert f"`{COMMAND}` needs a person's yes" in found["permissionDecisionReason"]
    assert "exec --session" not in found["permissionDecisionReason"]
    assert " exec --session " in found["updatedInput"]["command"]


def test_what_a_rule_denies_is_denied_and_recorded(agent: Agent) -> None:
    write_rules(agent.home / ".claude/settings.json", allow=["Bash"])
    write_rules(agent.cwd / ".claude/settings.local.json", deny=["Bash(python3 *)"])
    found = agent.ask("Bash", command=COMMAND)
    assert found["permissionDecision"] == "deny"
    assert "settings.local.json denies" in found["permissionDecisionReason"]
    assert len(records(agent.cwd, "denied")) == 1


def test_a_change_of_the_rules_holds_for_the_next_command(agent: Agent) -> None:
    path = agent.home / ".claude/settings.json"
    seen: list[str] = []
    for effect, rule in (("allow", "Bash"), ("allow", "Edit"), ("deny", "Bash(python3:*)")):
        write_rules(path, **{effect: [rule]})
        seen.append(agent.ask("Bash", command=COMMAND)["permissionDecision"])
    path.unlink()
    seen.append(agent.ask("Bash", command=COMMAND)["permissionDecision"])
    assert seen == ["allow", "ask", "deny", "ask"]


def test_a_rule_that_allows_the_launcher_goes_on_to_hold(agent: Agent) -> None:
    from remit.gate.containment.rewrite_call import CommandRewriter
    from remit.gate.gate import Gate

    start = CommandRewriter(Gate.open(agent.cwd, agent.environment)).launcher_start
    write_rules(agent.home / ".claude/settings.json", allow=[f"Bash({start} exec:*)"])
    assert agent.ask("Bash", command=COMMAND)["permissionDecision"] == "allow"


def test_the_projects_allow_rules_count_in_its_own_sessions(agent: Agent) -> None:
    write_rules(agent.cwd / ".claude/settings.json", allow=["Bash(python3:*)"])
    assert agent.ask("Bash", command=COMMAND)["permissionDecision"] == "ask"
    folder = "".join(c if c.isalnum() else "-" for c in str(agent.cwd))
    document = json.loads(agent.payload("PreToolUse", tool_name="Bash", tool_input={"command": COMMAND}))
    document["transcript_path"] = f"/h/.claude/projects/{folder}/1.jsonl"
    reply = answer(json.dumps(document).encode(), HookFrame("claude-code", str(agent.cwd), "pre"), agent.environment)
    assert json.loads(reply.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_a_person_who_is_asked_nothing_is_asked_nothing(agent: Agent) -> None:
    agent.permission_mode = "bypassPermissions"
    found = agent.ask("Bash", command=COMMAND)
    assert set(found) == {"call_id", "hookEventName", "updatedInput"}


def test_what_is_refused_anyway_stays_refused(agent: Agent) -> None:
    write_rules(agent.home / ".claude/settings.json", allow=["Bash"])
    assert agent.ask("Bash", command="echo x > top.md")["permissionDecision"] == "deny"
