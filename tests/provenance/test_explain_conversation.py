"""Explanations with conversation, intent, edit and commit."""

import shutil
import time
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from conftest import run_git
from core.secret_corpus import SECRETS
from gate.driving import INTENTS, Agent, governed, machine
from provenance.speaker import MESSAGE_TIME, MODEL, Speaker
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.why.commit_summary import parse_pull_request
from remit.provenance.why.conversation_store import DATABASE_FILE
from remit.provenance.why.explain import Explainer
from remit.provenance.why.explanation import Cause, Explanation, Passage, render_explanation
from remit.tools.conversations import conversations, intake_of_all_sessions


@pytest.fixture
def agent(repository: Path, home: Path) -> Speaker:
    return Speaker(governed(repository), home)


def explain(root: Path, home: Path, path: str, lines: tuple[int, int] | None = None) -> Explanation:
    gate = Gate.open(root, machine(home))
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        blamer = Blamer(gate.workspace, index, gate.contents)
        return Explainer(blamer, gate.contents, partial(conversations, gate), gate.rules.document).explain(path, lines)


def only(found: Explanation) -> Cause:
    [cause] = found.causes
    return cause


def test_the_prompt_and_the_reasoning_come_from_the_conversation(agent: Speaker, home: Path) -> None:
    agent.add("user", "an earlier wish")
    agent.says("done with that")
    agent.add("user", "please add a name")
    agent.says("names go last", "thinking")
    agent.says("I add NAME at the end.")
    agent.select()
    agent.write("src/new.py", "NAME = 1\n")
    agent.says("that was it")
    talk = only(explain(agent.cwd, home, "src/new.py")).talk
    assert talk is not None
    assert (talk.prompt, talk.prompt_at, talk.model) == ("please add a name", MESSAGE_TIME, MODEL)
    assert talk.message_index is not None
    assert talk.message_index >= 5
    assert [(s.role, s.text) for s in talk.said] == [
        ("thinking", "names go last"),
        ("assistant", "I add NAME at the end."),
    ]


def test_each_edit_has_the_conversation_that_led_to_it(agent: Speaker, home: Path) -> None:
    agent.select()
    for number in (1, 2):
        agent.add("user", f"wish {number}")
        agent.write("src/new.py", "".join(f"line_{n} = {n}\n" for n in range(1, number + 1)))
    found = explain(agent.cwd, home, "src/new.py")
    prompts = {c.record: c.talk.prompt for c in found.causes if c.talk}
    talks = {(p.start, prompts[p.record]) for p in found.passages if p.record}
    assert talks == {(1, "wish 1"), (2, "wish 2")}


def test_a_call_without_an_id_is_found_by_its_arguments(agent: Speaker, home: Path) -> None:
    agent.add("user", "please")
    arguments = {"file_path": "src/new.py", "content": "x = 1\n"}
    agent.add("assistant", [{"type": "tool_use", "id": "other", "name": "Write", "input": arguments}])
    agent.select()
    (agent.cwd / "src" / "new.py").write_text("x = 1\n")
    Agent.ask(agent, "Write", "named", **arguments)
    (agent.cwd / "src" / "new.py").write_text("x = 1\ny = 2\n")
    agent.tell("Write", "named", **arguments)
    talk = only(explain(agent.cwd, home, "src/new.py", (2, 2))).talk
    assert talk is not None
    assert talk.prompt == "please"


def test_a_subagents_edit_tells_its_task_and_what_the_person_asked(agent: Speaker, home: Path) -> None:
    agent.add("user", "greet people")
    agent.select()
    start = {"type": "tool_use", "id": "toolu_start", "name": "Agent", "input": {"prompt": "write src/new.py"}}
    agent.add("assistant", [start])
    child = Speaker(agent.cwd, home, agent_id="a1")
    child.add("user", "write src/new.py")
    child.says("so I write it")
    child.write("src/new.py", "x = 1\n")
    done = {"type": "tool_result", "tool_use_id": "toolu_start", "content": "ok"}
    agent.add("user", [done], toolUseResult={"agentId": "a1"})
    cause = only(explain(agent.cwd, home, "src/new.py"))
    assert cause.talk is not None
    assert (cause.agent_id, cause.talk.prompt, cause.talk.task) == ("a1", "greet people", "write src/new.py")
    assert [s.text for s in cause.talk.said] == ["so I write it"]
    words = render_explanation(explain(agent.cwd, home, "src/new.py"))
    assert "asked    greet people" in words
    assert "task     write src/new.py" in words
    assert "sub-agent a1" in words


def test_lines_that_came_while_an_agent_ran_show_its_conversation(agent: Speaker, home: Path) -> None:
    agent.select()
    agent.add("user", "please tidy up")
    asked = agent.ask("SomethingElse", argument="1")
    (agent.cwd / "src" / "new.py").write_text("nobody_proves_this = 1\n")
    agent.tell("SomethingElse", asked["call_id"], argument="1")
    found = explain(agent.cwd, home, "src/new.py")
    talk = only(found).talk
    assert talk is not None
    assert (found.passages[0].grade, talk.prompt) == ("likely", "please tidy up")


def test_a_transcript_deleted_by_the_agent_is_still_known_once_read(agent: Speaker, home: Path) -> None:
    agent.add("user", "please")
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    assert intake_of_all_sessions(Gate.open(agent.cwd, machine(home))).store_new(time.time()) == ""
    shutil.rmtree(home / ".claude")
    talk = only(explain(agent.cwd, home, "src/new.py")).talk
    assert talk is not None
    assert talk.prompt == "please"


def test_without_retention_no_transcript_is_stored(agent: Speaker, home: Path) -> None:
    (agent.cwd / ".orchestration" / "remit.toml").write_text("mode = 'enforce'\n[transcripts]\nretain_days = 0\n")
    agent.add("user", "please")
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    gate = Gate.open(agent.cwd, machine(home))
    assert intake_of_all_sessions(gate).store_new(time.time()) == ""
    talk = only(explain(agent.cwd, home, "src/new.py")).talk
    assert talk is not None
    assert talk.prompt == "please"
    assert not (gate.workspace.state / DATABASE_FILE).exists()


def test_without_any_transcript_the_ledger_alone_explains(agent: Speaker, home: Path) -> None:
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    shutil.rmtree(home / ".claude")
    cause = only(found := explain(agent.cwd, home, "src/new.py"))
    assert (cause.talk, cause.intent_id, found.remarks) == (None, "INT-001", ())


def test_the_edit_is_shown_as_it_was(agent: Speaker, home: Path) -> None:
    agent.select()
    agent.read("src/app.py")
    agent.write("src/app.py", "def main():\n    return 2\n\n\nNAME = 1\n")
    agent.write("src/app.py", "def main():\n    return 2\n\n\nNAME = 1\nLATER = 1\n")
    cause = only(explain(agent.cwd, home, "src/app.py", (5, 5)))
    assert cause.diff is not None
    assert cause.diff.split("\n")[1:] == [" def main():", "-    return 1", "+    return 2", "+", "+", "+NAME = 1", ""]
    assert cause.diff.split("\n")[cause.focus] == "+NAME = 1"


def test_a_long_edit_is_shown_around_the_line(agent: Speaker, home: Path) -> None:
    agent.select()
    agent.write("src/new.py", "".join(f"line_{n} = {n}\n" for n in range(500)))
    found = explain(agent.cwd, home, "src/new.py", (300, 300))
    short, full = render_explanation(found), render_explanation(found, full=True)
    assert "+line_299 = 299" in short
    assert "489 more lines of this edit" in short
    assert len(short.split("\n")) < 30
    assert "+line_499 = 499" in full


def test_the_criteria_are_told_as_they_were_and_as_they_are(agent: Speaker, home: Path) -> None:
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-q", "-m", "intents")
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    changed = INTENTS.replace("acceptance_criteria: [it works]", "acceptance_criteria: [it flies]", 1)
    (agent.cwd / ".orchestration" / "active_intents.yaml").write_text(changed)
    cause = only(found := explain(agent.cwd, home, "src/new.py"))
    assert (cause.criteria, cause.criteria_now) == (("it works",), ("it flies",))
    assert "now      it flies" in render_explanation(found)
    (agent.cwd / ".orchestration" / "active_intents.yaml").write_text("version: '1.0'\nactive_intents: []\n")
    gone = only(explain(agent.cwd, home, "src/new.py"))
    assert (gone.criteria, gone.criteria_now, gone.intent_status) == (("it works",), None, None)


MESSAGES = {
    "Greet people (#12)\n\nlonger": 12,
    "Merge pull request #7 from ann/greet\n\nGreet": 7,
    "Merged in greet (pull request #31)": 31,
    "Merge branch 'greet'\n\nSee merge request group/project!9": 9,
    "Greet people, see #12": None,
    "": None,
}


@pytest.mark.parametrize("message", MESSAGES)
def test_the_message_of_a_commit_tells_the_pull_request(message: str) -> None:
    assert parse_pull_request(message) == MESSAGES[message]


def test_the_commit_is_told_with_the_pull_request_of_the_merge_that_brought_it(agent: Speaker, home: Path) -> None:
    run_git(agent.cwd, "checkout", "-q", "-b", "greet")
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    run_git(agent.cwd, "add", "src")
    run_git(agent.cwd, "commit", "-q", "-m", "Greet")
    run_git(agent.cwd, "checkout", "-q", "-")
    run_git(agent.cwd, "merge", "-q", "--no-ff", "-m", "Merge pull request #7 from ann/greet", "greet")
    found = explain(agent.cwd, home, "src/new.py")
    assert [(c.subject, c.pull_request) for c in found.commits] == [("Greet", 7)]
    assert f"({found.commits[0].sha[:8]} #7, edit " in render_explanation(found)
    first = explain(agent.cwd, home, "src/app.py", (1, 1))
    assert [(c.subject, c.pull_request) for c in first.commits] == [("first", None)]


def test_a_line_that_no_agent_wrote_is_not_called_an_agents(agent: Speaker, home: Path) -> None:
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    (agent.cwd / "src" / "new.py").write_text("x = 1\nmine = 2\n")
    agent.read("src/new.py")
    agent.write("src/new.py", "x = 1\nmine = 2\nz = 3\n")
    words = render_explanation(explain(agent.cwd, home, "src/new.py", (2, 2)))
    assert "nobody" in words
    assert "claude-code" not in words


@pytest.mark.parametrize(("by", "named"), [("person", "a person"), ("unknown", "nobody that Remit can name")])
def test_an_edit_by_a_person_or_unknown_is_named_as_such(by: Literal["person", "unknown"], named: str) -> None:
    passage = Passage(1, 1, "human", "a" * 40, "r")
    words = render_explanation(Explanation("src/a.py", (passage,), (Cause("r", "2026-11-22T03:00:00Z", by=by),)))
    assert f"  {named}  (aaaaaaaa" in words
    assert f"by       {named}" in words
    assert "intent" not in words


def test_no_control_character_is_printed(agent: Speaker, home: Path) -> None:
    nasty = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    agent.add("user", f"please {nasty}")
    agent.says(f"yes {nasty}")
    Gate.open(agent.cwd, machine(home)).intents.select(
        SessionKey("session-1"), "claude-code", "INT-001", reasoning=f"because {nasty}"
    )
    agent.write("src/new.py", f"x = '{nasty}'\n")
    run_git(agent.cwd, "add", "src")
    run_git(agent.cwd, "commit", "-q", "-m", f"Greet {nasty}")
    for full in (False, True):
        words = render_explanation(explain(agent.cwd, home, "src/new.py"), full=full)
        assert "please" in words
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(words)


def test_no_secret_of_the_conversation_is_shown(agent: Speaker, home: Path) -> None:
    secret = SECRETS["anthropic"]
    agent.add("user", f"use {secret}")
    agent.says(f"I use {secret}")
    agent.select()
    agent.write("src/new.py", "x = 1\n")
    found = explain(agent.cwd, home, "src/new.py")
    assert secret not in render_explanation(found, full=True)
    talk = only(found).talk
    assert talk is not None
    assert talk.prompt == "use [redacted]"
