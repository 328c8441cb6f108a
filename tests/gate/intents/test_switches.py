"""A session that was refused a path does not get it by an intent of its own choice: every way to the refusal, every
step in between, every door of the selection.
"""

import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, allowed, governed, machine, records, refusal, uncontained
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.intents.person_edits import PERSON
from remit.gate.people.questions import ApprovalReply
from remit.tools.agent_tool import Caller, DialogAnswer, NeedsPerson
from remit.tools.catalogue import run_tool

CODE = "INTENT_SWITCH_NEEDS_PERSON"
NUMBERS = count(1)

Way = Callable[[Agent], Any]


def select_by_tool(agent: Agent, agent_id: str | None = None) -> str:
    """The error of the tool; empty for a selection."""
    key = SessionKey(agent.session, agent.agent_id if agent_id is None else agent_id)
    gate = Gate.open(agent.cwd, machine(agent.home))
    answer = run_tool(gate, Caller(key, "claude-code"), "select_active_intent", {"intent_id": "INT-001"})
    return "" if answer.ok else answer.data["error_type"]


def select_by_child(agent: Agent) -> str:
    child = Agent(agent.cwd, agent.home, agent.session, f"child-{next(NUMBERS)}")
    return refusal(child.select("INT-001"))


REFUSED: dict[str, Way] = {
    "Write": lambda agent: agent.write("src/q.py", "x\n"),
    "Edit": lambda agent: agent.ask("Edit", file_path="src/app.py", old_string="a", new_string="b"),
    "shell": lambda agent: agent.shell("echo x > src/q.py"),
    "removal": lambda agent: agent.shell("rm -r src"),
    "sub-agent": lambda agent: Agent(agent.cwd, agent.home, agent.session, "sub-1").write("src/q.py", "x\n"),
}

BETWEEN: dict[str, Way] = {
    "nothing": lambda agent: None,
    "clear in the shell": lambda agent: agent.ask("Bash", command="remit intent clear"),
    "clear by the tool": lambda agent: run_tool(
        Gate.open(agent.cwd, machine(agent.home)),
        Caller(SessionKey(agent.session), "claude-code"),
        "clear_active_intent",
        {},
    ),
    "a prompt": lambda agent: agent.send("UserPromptSubmit", prompt="go on"),
    "a resumption": lambda agent: agent.send("SessionStart", source="resume"),
    "a lost context": lambda agent: agent.send("SessionStart", source="compact"),
    "allowed work": lambda agent: agent.write("docs/more.md", f"{next(NUMBERS)}\n"),
    "clear and a prompt": lambda agent: [
        agent.ask("Bash", command="remit intent clear"),
        agent.send("UserPromptSubmit", prompt="go on"),
    ],
}

SELECTED: dict[str, Callable[[Agent], str]] = {
    "shell": lambda agent: refusal(agent.select("INT-001")),
    "tool": select_by_tool,
    "sub-agent": select_by_child,
    "sub-agent's tool": lambda agent: select_by_tool(agent, f"child-{next(NUMBERS)}"),
}


def test_no_way_round_a_refusal_leads_over_another_intent(repository: Path, home: Path) -> None:
    root = governed(repository)
    ways = [(first, "nothing", door) for first in REFUSED for door in SELECTED]
    ways += [("Write", step, door) for step in BETWEEN for door in SELECTED if step != "nothing"]
    assert len(ways) >= 40
    passed: list[tuple[str, ...]] = []
    for first, step, door in ways:
        agent = Agent(root, home, f"way-{next(NUMBERS)}")
        assert allowed(agent.select("INT-002"))
        REFUSED[first](agent)
        BETWEEN[step](agent)
        told = SELECTED[door](agent)
        due = (CODE,) if "clear" in step or "sub" in door else (CODE, "INTENT_ALREADY_ACTIVE")
        if told not in due or allowed(agent.ask("Write", file_path="src/q.py", content="x\n")):
            passed.append((first, step, door))
    assert passed == []
    assert not (root / "src" / "q.py").exists()


def test_what_a_command_did_and_was_undone_counts_as_refused(repository: Path, home: Path) -> None:
    agent = uncontained(repository, home)
    agent.ask("Bash", command="remit intent clear")
    agent.select("INT-002")
    agent.shell("python3 -c \"open('src/q.py', 'w').write('x')\"")
    assert records(repository, "restore")
    agent.ask("Bash", command="remit intent clear")
    assert refusal(agent.select("INT-001")) == CODE


def test_another_work_tree_and_a_branch_named_for_the_intent_are_no_way_round(repository: Path, home: Path) -> None:
    root = governed(repository)
    agent = Agent(root, home)
    agent.select("INT-002")
    agent.write("src/q.py", "x\n")
    other = root.parent / "other"
    subprocess.run(
        ["git", "-C", root, "worktree", "add", "-q", "-b", "INT-001-names", other], check=True, capture_output=True
    )
    governed(other)
    agent.cwd = other
    agent.send("UserPromptSubmit", prompt="go on")
    assert Gate.open(other, machine(home)).state.active_session(SessionKey(agent.session)).intent_id is None
    assert refusal(agent.select("INT-001")) == CODE


@pytest.mark.parametrize("door", ["select", "yes"])
def test_a_persons_word_ends_it(repository: Path, home: Path, door: str) -> None:
    root = governed(repository)
    agent, key = Agent(root, home), SessionKey("session-1")
    agent.select("INT-002")
    agent.write("src/q.py", "x\n")
    agent.ask("Bash", command="remit intent clear")
    gate = Gate.open(root, machine(home))
    if door == "select":
        gate.intents.select(key, PERSON, "INT-001", said_by=PERSON)
    else:
        caller = Caller(key, "claude-code", has_dialog=True)
        with pytest.raises(NeedsPerson) as needed:
            run_tool(gate, caller, "select_active_intent", {"intent_id": "INT-001"})
        assert needed.value.question.action == "switch to INT-001: src/q.py was refused under INT-002; INT-001 owns it"
        caller = Caller(key, "claude-code", True, DialogAnswer(needed.value.question, ApprovalReply(True)))
        assert run_tool(gate, caller, "select_active_intent", {"intent_id": "INT-001"}).ok
    assert allowed(agent.write("src/q.py", "x\n"))
    agent.ask("Bash", command="remit intent clear")
    agent.select("INT-002")
    agent.ask("Bash", command="remit intent clear")
    assert allowed(agent.select("INT-001")), "the person's word is about the whole session"


def test_a_no_keeps_the_intent(repository: Path, home: Path) -> None:
    root = governed(repository)
    agent, key = Agent(root, home), SessionKey("session-1")
    agent.select("INT-002")
    agent.write("src/q.py", "x\n")
    agent.ask("Bash", command="remit intent clear")
    gate = Gate.open(root, machine(home))
    caller = Caller(key, "claude-code", has_dialog=True)
    with pytest.raises(NeedsPerson) as needed:
        run_tool(gate, caller, "select_active_intent", {"intent_id": "INT-001"})
    caller = Caller(key, "claude-code", True, DialogAnswer(needed.value.question, ApprovalReply(False, "stay there")))
    answer = run_tool(gate, caller, "select_active_intent", {"intent_id": "INT-001"})
    assert (answer.ok, answer.data["error_type"]) == (False, "USER_REJECTED")
    assert refusal(agent.select("INT-001")) == CODE


def test_who_was_not_refused_and_what_is_owned_by_now_go_on(repository: Path, home: Path) -> None:
    root = governed(repository)
    agent = Agent(root, home)
    agent.select("INT-002")
    agent.write("src/q.py", "x\n")
    assert allowed(Agent(root, home, "session-2").select("INT-001"))
    Gate.open(root, machine(home)).intents.edit("INT-002", {"owned_scope": ("docs/**", "src/q.py")}, by=PERSON)
    agent.ask("Bash", command="remit intent clear")
    assert allowed(agent.select("INT-001"))
