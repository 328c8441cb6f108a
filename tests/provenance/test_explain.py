"""Explanations from the ledger alone."""

import json
import os
from functools import partial
from pathlib import Path

import pytest

from cli.running import data, remit
from conftest import run_git
from gate.driving import Agent, governed, machine, refusal
from gate.people.test_ask import Person
from remit.core.call import SessionKey
from remit.core.record import Body
from remit.gate.gate import Gate
from remit.gate.people.questions import ApprovalReply
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.why.explain import Explainer, group_passages
from remit.provenance.why.explanation import Explanation, render_explanation
from remit.tools.conversations import conversations


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return Agent(governed(repository), home)


def explain(root: Path, path: str, lines: tuple[int, int] | None = None) -> Explanation:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        telling = Explainer(
            Blamer(gate.workspace, index, gate.contents),
            gate.contents,
            partial(conversations, gate),
            gate.rules.document,
        )
        return telling.explain(path, lines)


def test_an_edit_is_explained_with_its_surroundings(agent: Agent, home: Path) -> None:
    agent.read("src/app.py")
    assert refusal(agent.write("src/app.py", "x\n")) == "MISSING_OR_INVALID_INTENT"
    gate = Gate.open(agent.cwd, machine(home))
    gate.intents.select(SessionKey("session-1"), "claude-code", "INT-001", reasoning="asked for names")
    agent.write("src/app.py", "def main():\n    return 1\n\nNAME = 'x'\n")
    found = explain(agent.cwd, "src/app.py")
    assert [(p.start, p.end, p.origin) for p in found.passages] == [(1, 2, "unknown"), (3, 4, "ai")]
    [one] = found.causes
    assert (one.tool, one.intent_id, one.intent_name, one.session_id) == ("Write", "INT-001", "Names", "session-1")
    assert (one.reasoning, one.approvals) == ("asked for names", ())
    assert [d.code for d in one.denials] == ["MISSING_OR_INVALID_INTENT"]
    text = render_explanation(found)
    for part in ("src/app.py:3-4  ai  claude-code, INT-001", "INT-001 Names", "because  asked for names", "refused "):
        assert part in text


def test_later_edits_of_the_file_are_named(agent: Agent) -> None:
    agent.select()
    agent.write("src/new.py", "one\n")
    agent.write("src/new.py", "one\ntwo\n")
    found = explain(agent.cwd, "src/new.py", (1, 1))
    assert (len(found.causes), len(found.later)) == (1, 1)
    assert explain(agent.cwd, "src/new.py", (2, 2)).later == ()


def test_an_unrecorded_line_is_reported_as_unknown(agent: Agent) -> None:
    found = explain(agent.cwd, "src/app.py", (1, 1))
    assert (found.causes, found.later) == ((), ())
    assert "nobody that Remit saw" in render_explanation(found)


def test_a_shell_command_is_named(agent: Agent) -> None:
    agent.select()
    agent.shell("echo three > src/three.py")
    [one] = explain(agent.cwd, "src/three.py").causes
    assert (one.tool, one.command) == ("Bash", "echo three > src/three.py")


def test_lines_in_a_row_are_one_passage() -> None:
    lines = [BlamedLine(n, "", "c", record=r) for n, r in [(1, "a"), (2, "a"), (3, None), (5, None), (6, "a")]]
    assert [(p.start, p.end, p.record) for p in group_passages(lines)] == [
        (1, 2, "a"),
        (3, 3, None),
        (5, 5, None),
        (6, 6, "a"),
    ]


def test_lines_that_came_during_a_command_name_the_command_and_the_likely_author(agent: Agent) -> None:
    config = agent.cwd / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '\n[containment]\nrewrite = "off"\n')
    agent.select()
    command = "python3 -m this_is_no_module || true"
    asked = agent.ask("Bash", command=command)
    (agent.cwd / "src/own.py").write_text("the_person = 1\n")
    agent.tell("Bash", asked["call_id"], {"stdout": ""}, command=command)
    found = explain(agent.cwd, "src/own.py")
    [one] = found.causes
    assert (one.by, one.command, found.passages[0].grade) == ("unknown", command, "likely")
    words = render_explanation(found)
    assert "likely claude-code, INT-001: its command ran alone; nothing proves who wrote it" in words
    assert "claude-code was at work, session session-1" in words


def test_later_edits_of_the_same_lines_are_distinguished(agent: Agent) -> None:
    agent.select()
    agent.write("src/new.py", "first_of_all = 1\nsecond_of_all = 2\nthird_of_all = 3\n")
    agent.write("src/new.py", "zero = 0\nfirst_of_all = 1\nsecond_of_all = 2\nthird_of_all = 3\n")
    agent.write("src/new.py", "zero = 0\nfirst_of_all = 1\nanother = 2\nthird_of_all = 3\n")
    found = explain(agent.cwd, "src/new.py", (2, 2))
    assert [edit.same_lines for edit in found.later] == [True, False]
    assert "Lines of this edit were changed once more; newest" in render_explanation(found)


def test_denials_since_the_last_change_are_shown_with_the_edit(agent: Agent) -> None:
    agent.select()
    agent.write("src/first.py", "one_of_all = 1\n")
    assert refusal(agent.write("docs/a.md", "x\n")) == "SCOPE_VIOLATION"
    agent.write("src/second.py", "two_of_all = 2\n")
    agent.write("src/third.py", "three_of_all = 3\n")
    told = [[d.code for d in explain(agent.cwd, f"src/{n}.py").causes[0].denials] for n in ("first", "second", "third")]
    assert told == [[], ["SCOPE_VIOLATION"], []]


def test_a_renamed_file_keeps_its_history(agent: Agent) -> None:
    assert refusal(agent.write("src/old.py", "x\n")) == "MISSING_OR_INVALID_INTENT"
    agent.select()
    text = "first_of_all = 1\nsecond_of_all = 2\nthird_of_all = 3\n"
    agent.write("src/old.py", text)
    agent.write("src/old.py", text.replace("2", "22"))
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-qm", "names")
    run_git(agent.cwd, "mv", "src/old.py", "src/new.py")
    run_git(agent.cwd, "commit", "-qm", "moved")
    agent.read("src/new.py")
    agent.write("src/new.py", text.replace("2", "22").replace("1", "11"))
    found = explain(agent.cwd, "src/new.py", (3, 3))
    assert [d.code for d in found.causes[0].denials] == ["MISSING_OR_INVALID_INTENT"]
    assert [edit.same_lines for edit in found.later] == [True, True]
    (agent.cwd / "src/old.py").write_text("another file = 1\n")
    assert len(explain(agent.cwd, "src/new.py", (3, 3)).later) == 1


def test_the_persons_words_of_the_calls_own_approval_are_shown(agent: Agent, home: Path) -> None:
    with (agent.cwd / ".orchestration/remit.toml").open("a") as file:
        file.write("\n[approvals]\nthreshold = 1\n")
    (agent.cwd / "src/gone.txt").write_text("x\n")
    agent.select()
    with Person(agent.cwd, home, ApprovalReply(True, words="only this one")):
        agent.write("src/one.py", "one_of_all = 1\n")
    with Person(agent.cwd, home, ApprovalReply(True, words="all of the session", extent="session")):
        agent.shell("rm src/gone.txt; echo two_of_all = 2 > src/two.py")
    other = {"approval": {"id": "other", "by": "person", "answer": "allow", "words": "another matter", "grant": None}}
    recorder = Gate.open(agent.cwd, machine(home)).recorder
    body = Body(event="approval_answered", intent_id="INT-001", session_id=agent.session, detail=other)
    recorder.append([recorder.make_record(body)])
    agent.shell("rm src/app.py; echo three_of_all = 3 > src/three.py")
    approvals = [explain(agent.cwd, f"src/{name}.py").causes[0].approvals for name in ("one", "two", "three")]
    assert [one.words for found in approvals for one in found] == ["only this one", *["all of the session"] * 2]


def test_verifications_from_any_session_are_shown(agent: Agent, home: Path) -> None:
    agent.select()
    agent.write("src/one.py", "one_of_all = 1\n")
    gate = Gate.open(agent.cwd, machine(home))
    body = Body(
        event="verification", intent_id="INT-001", session_id=None, detail={"command": "make check", "exit_code": 0}
    )
    gate.recorder.append([gate.recorder.make_record(body)])
    assert [(c.command, c.exit_code) for c in explain(agent.cwd, "src/one.py").causes[0].checks] == [("make check", 0)]


@pytest.mark.parametrize(
    ("spot", "first", "last"), [("src/odd:2", 1, 3), ("src/odd:2:3", 3, 3), ("src/app.py:1", 1, 1)]
)
def test_a_file_name_may_contain_a_colon(agent: Agent, spot: str, first: int, last: int) -> None:
    (agent.cwd / "src/odd:2").write_text("one\ntwo\nthree\n")
    [found] = data(agent.cwd, "why", spot)["passages"]
    assert (found["start"], found["end"]) == (first, last)


@pytest.mark.parametrize("spot", ["src/app.py:0", "src/app.py:2-1", "src/app.py:99", "src", "", ":1", "src/none.py:1"])
def test_lines_that_are_not_there_are_refused(agent: Agent, spot: str) -> None:
    assert json.loads(remit(agent.cwd, "why", "--json", spot, code=2))["error"]["message"]


def test_a_name_that_is_not_utf8_is_explained(agent: Agent) -> None:
    agent.select()
    for number in (1, 2):
        agent.shell(f"echo 'alpha_is_here = {number}' >> \"$(printf 'src/latin\\351.txt')\"")
    found = explain(agent.cwd, os.fsdecode(b"src/latin\xe9.txt"), (1, 1))
    assert ([cause.intent_id for cause in found.causes], len(found.later)) == (["INT-001"], 1)
    remit(agent.cwd, "why", os.fsdecode(b"src/latin\xe9.txt:9"), code=2)
    remit(agent.cwd, "blame", "-L9,9", os.fsdecode(b"src/latin\xe9.txt"), code=2)
    assert data(agent.cwd, "why", os.fsdecode(b"src/latin\xe9.txt"))["path"] == found.path
