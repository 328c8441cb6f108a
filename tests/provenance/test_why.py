"""Why lines are there, from the ledger alone."""

from functools import partial
from pathlib import Path

import pytest

from gate.driving import Agent, governed, machine, refusal
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.provenance.blame import BlamedLine, Blamer
from remit.provenance.explanation import Explanation
from remit.provenance.why import Why, passages
from remit.provenance.why_words import in_words
from remit.tools.conversations import conversations


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return Agent(governed(repository), home)


def explained(root: Path, path: str, lines: tuple[int, int] | None = None) -> Explanation:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        telling = Why(
            Blamer(gate.workspace, index, gate.store),
            gate.store,
            partial(conversations, gate),
            gate.governing.document,
        )
        return telling.explain(path, lines)


def test_an_edit_is_told_with_what_surrounded_it(agent: Agent, home: Path) -> None:
    agent.read("src/app.py")
    assert refusal(agent.write("src/app.py", "x\n")) == "MISSING_OR_INVALID_INTENT"
    gate = Gate.open(agent.cwd, machine(home))
    gate.intents.select(SessionKey("session-1"), "claude-code", "INT-001", reasoning="asked for names")
    agent.write("src/app.py", "def main():\n    return 1\n\nNAME = 'x'\n")
    found = explained(agent.cwd, "src/app.py")
    assert [(p.start, p.end, p.origin) for p in found.passages] == [(1, 2, "unknown"), (3, 4, "ai")]
    [one] = found.causes
    assert (one.tool, one.intent_id, one.intent_name, one.session_id) == ("Write", "INT-001", "Names", "session-1")
    assert (one.reasoning, one.approvals) == ("asked for names", ())
    assert [d.code for d in one.denials] == ["MISSING_OR_INVALID_INTENT"]
    text = in_words(found)
    for part in ("src/app.py:3-4  ai  claude-code, INT-001", "INT-001 Names", "because  asked for names", "refused "):
        assert part in text


def test_later_edits_of_the_file_are_named(agent: Agent) -> None:
    agent.select()
    agent.write("src/new.py", "one\n")
    agent.write("src/new.py", "one\ntwo\n")
    found = explained(agent.cwd, "src/new.py", (1, 1))
    assert (len(found.causes), len(found.later)) == (1, 1)
    assert explained(agent.cwd, "src/new.py", (2, 2)).later == ()


def test_what_nobody_saw_written_says_so(agent: Agent) -> None:
    found = explained(agent.cwd, "src/app.py", (1, 1))
    assert (found.causes, found.later) == ((), ())
    assert "nobody that Remit saw" in in_words(found)


def test_a_shell_command_is_named(agent: Agent) -> None:
    agent.select()
    agent.shell("echo three > src/three.py")
    [one] = explained(agent.cwd, "src/three.py").causes
    assert (one.tool, one.command) == ("Bash", "echo three > src/three.py")


def test_lines_in_a_row_are_one_passage() -> None:
    lines = [BlamedLine(n, "", "c", record=r) for n, r in [(1, "a"), (2, "a"), (3, None), (5, None), (6, "a")]]
    assert [(p.start, p.end, p.record) for p in passages(lines)] == [
        (1, 2, "a"),
        (3, 3, None),
        (5, 5, None),
        (6, 6, "a"),
    ]


def test_what_came_while_a_command_ran_names_the_command_and_nobody(agent: Agent) -> None:
    config = agent.cwd / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '\n[containment]\nrewrite = "off"\n')
    agent.select()
    command = "python3 -m this_is_no_module || true"
    asked = agent.ask("Bash", command=command)
    (agent.cwd / "src/own.py").write_text("the_person = 1\n")
    agent.tell("Bash", asked["call_id"], {"stdout": ""}, command=command)
    found = explained(agent.cwd, "src/own.py")
    [one] = found.causes
    assert (one.by, one.command, found.passages[0].origin) == ("unknown", command, "unknown")
    words = in_words(found)
    assert f"changed while claude-code ran `{command}` under INT-001; nothing proves who wrote it" in words
    assert "claude-code was at work, session session-1" in words


def test_a_later_edit_of_the_same_lines_is_told_from_one_of_others(agent: Agent) -> None:
    agent.select()
    agent.write("src/new.py", "first_of_all = 1\nsecond_of_all = 2\nthird_of_all = 3\n")
    agent.write("src/new.py", "zero = 0\nfirst_of_all = 1\nsecond_of_all = 2\nthird_of_all = 3\n")
    agent.write("src/new.py", "zero = 0\nfirst_of_all = 1\nanother = 2\nthird_of_all = 3\n")
    found = explained(agent.cwd, "src/new.py", (2, 2))
    assert [edit.same_lines for edit in found.later] == [True, False]
    assert "Lines of this edit were changed once more; newest" in in_words(found)
