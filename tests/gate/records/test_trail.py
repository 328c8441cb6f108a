"""The trail names whose action it was: what was asked, who answered how far and why, and what came of it."""

from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import Agent, body, governed, records, uncontained
from gate.people.test_ask import Person
from remit.core.intent import Criterion, Intent, describe_intent_change
from remit.gate.gate import Gate
from remit.gate.people.questions import ApprovalReply
from remit.ledger.index.index import Index
from stepped_clock import SteppedClock

RESET = "git reset -q --hard HEAD~1"
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    for name in ("a", "b"):
        (repository / "src" / f"{name}.py").write_text("x\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "more")
    return uncontained(repository, home)


def test_what_git_brings_in_an_approved_call_names_call_intent_session_and_yes(agent: Agent, home: Path) -> None:
    with Person(agent.cwd, home, ApprovalReply(True, "the work is pushed")):
        before = agent.shell(RESET)
    found = body(records(agent.cwd, "human_edit")[-1])
    assert found["origin"] == "git"
    assert {f["path"] for f in found["files"]} == {"src/a.py", "src/b.py"}
    assert found["call"]["id"] == before["call_id"]
    assert found["call"]["command"] == RESET
    assert (found["intent_id"], found["session_id"]) == ("INT-001", agent.session)
    assert (found["decision"]["approved_by"], found["decision"]["grant"]) == ("person", "once")
    assert records(agent.cwd, "human_edit")[-1]["tool"]["name"] == "claude-code"


def test_no_line_that_git_brought_becomes_the_agents(agent: Agent, home: Path) -> None:
    with Person(agent.cwd, home):
        agent.shell("git reset -q --hard HEAD~1")
        agent.shell("git reset -q --hard ORIG_HEAD")
    gate = Gate.open(agent.cwd)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        brought = [c for c in index.list_newest_changes(10) if c.came_from_git]
    assert brought
    assert all((c.session_id, c.intent_id, c.command) == (None, None, None) for c in brought)


@pytest.mark.parametrize("reply", [ApprovalReply(True), ApprovalReply(False, "not now")])
def test_question_and_answer_say_what_was_asked_of_which_call(agent: Agent, home: Path, reply: ApprovalReply) -> None:
    command = f"git clean -fdx # {SECRET}"
    with Person(agent.cwd, home, reply):
        before = agent.ask("Bash", command=command)
    asked, answered = (body(records(agent.cwd, f"approval_{event}")[-1]) for event in ("requested", "answered"))
    for found in (asked, answered):
        assert found["call"]["id"] == before["call_id"]
        assert found["approval"]["action"].startswith("Bash: git clean -fdx # ")
        assert SECRET not in str(found)
        assert found["approval"]["rule"] == "COMMAND_BLOCKED"
    said = answered["approval"]
    assert (said["by"], said["answer"], said["words"]) == ("person", "allow" if reply.allow else "deny", reply.words)
    assert said["extent"] == "once"


def test_a_wider_yes_says_how_far_it_goes(agent: Agent, home: Path) -> None:
    with Person(agent.cwd, home, ApprovalReply(True, extent="session")):
        agent.write("docs/x.md", "x\n")
    said: dict[str, Any] = body(records(agent.cwd, "approval_answered")[-1])["approval"]
    assert (said["extent"], said["grant"]["rule"]) == ("session", "docs/**")


BEFORE = Intent("INT-001", ("src/**",), "Login", acceptance_criteria=(Criterion("it works"),))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (None, BEFORE, {"name": "Login", "change": "created"}),
        (BEFORE, None, {"name": "Login", "change": "deleted", "removed": True}),
        (
            BEFORE,
            Intent("INT-001", ("src/**", "docs/**"), "Logout", updated_at="2026-11-23T00:00:00Z"),
            {
                "name": "Logout",
                "change": "edited",
                "changed": {
                    "owned_scope": {"added": ["docs/**"], "removed": []},
                    "name": {"from": "Login", "to": "Logout"},
                    "acceptance_criteria": {"added": [], "removed": ["it works"]},
                },
            },
        ),
    ],
)
def test_a_change_of_an_intent_says_what_changed(old: Intent | None, new: Intent | None, said: dict[str, Any]) -> None:
    assert describe_intent_change(old, new) == said


def test_a_change_of_an_intent_is_recorded_without_secrets() -> None:
    assert SECRET not in str(describe_intent_change(BEFORE, Intent("INT-001", ("src/**",), description=f"by {SECRET}")))


@pytest.mark.parametrize(("told", "kept"), [({}, 1500), ({"duration_ms": 7}, 7), ({"duration_ms": "long"}, 1500)])
def test_each_call_has_a_duration_whether_the_agent_tells_one_or_not(
    repository: Path, home: Path, told: dict[str, Any], kept: int
) -> None:
    clock = SteppedClock()
    agent = Agent(governed(repository), home, clock=clock)
    for tool, given in (("Read", {"file_path": "README.md"}), ("Bash", {"command": "ls"})):
        call = agent.ask(tool, **given)["call_id"]
        clock.passed += 1.5
        agent.send("PostToolUse", tool_name=tool, tool_input=given, tool_use_id=call, tool_response={}, **told)
    assert [body(record)["duration_ms"] for record in records(repository, "tool_result")] == [kept, kept]
