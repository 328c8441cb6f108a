"""The line at a turn's end, and the name that it proposes for work without an intent."""

import json
from pathlib import Path

import pytest

from gate.driving import Agent, governed, machine
from remit.adapters import render_notice
from remit.core.agents import ROWS
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.session_lifecycle import (
    MAX_NAME_CHARS,
    ChangedFile,
    describe_changes,
    find_main_folder,
    make_intent_name,
    propose_intent_name,
)


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return Agent(governed(repository, "observe"), home)


def stopped(agent: Agent) -> str:
    """What the person is shown when the agent stops."""
    reply = agent.send("Stop", stop_hook_active=False)
    assert (reply.exit_code, reply.stderr) == (0, b"")
    if not reply.stdout:
        return ""
    said = json.loads(reply.stdout)
    assert list(said) == ["systemMessage"], "nothing that could keep the agent from stopping"
    return str(said["systemMessage"])


def prompted(agent: Agent, text: str) -> None:
    """The transcript as Claude Code keeps it, and a call that names it."""
    path = agent.home / "transcript.jsonl"
    lines = [{"type": "user", "message": {"role": "user", "content": words}} for words in ("<command-name>x", text)]
    path.write_text("".join(json.dumps({**line, "uuid": str(n)}) + "\n" for n, line in enumerate(lines)))
    gate = Gate.open(agent.cwd, machine(agent.home))
    gate.state.put_transcript(SessionKey(agent.session), "claude-code", str(path))


def test_it_counts_the_files_and_says_where_they_lie_and_proposes_an_intent_once(agent: Agent) -> None:
    prompted(agent, "\n# Add a login to the app\nand a test")
    for path in ("src/auth/a.py", "src/auth/b.py", "src/auth/deep/c.py", "README.md"):
        agent.write(path, "x\n")
    line = stopped(agent)
    assert line.startswith("Remit: 4 files changed, 3 under src/auth, 1 elsewhere: README.md. No intent yet")
    assert "as 'Add a login to the app': remit intent new --from-session session-1" in line
    agent.write("src/auth/a.py", "y\n")
    assert stopped(agent) == "Remit: 1 file changed, all under src/auth"


def test_with_an_intent_it_says_what_is_outside_of_it(agent: Agent) -> None:
    agent.select()
    agent.write("src/a.py", "x\n")
    agent.write("src/b.py", "x\n")
    agent.write("docs/x.md", "x\n")
    assert stopped(agent) == "Remit: 3 files changed for INT-001, 2 under src, 1 outside the scope: docs/x.md"


def test_where_nothing_changed_nothing_is_said(agent: Agent) -> None:
    agent.read("src/app.py")
    assert stopped(agent) == ""
    agent.write("src/a.py", "x\n")
    assert stopped(agent)
    assert stopped(agent) == ""


def test_a_sub_agent_that_stops_says_nothing_and_its_work_is_in_the_sessions_line(agent: Agent, home: Path) -> None:
    child = Agent(agent.cwd, home, agent_id="child")
    child.write("src/a.py", "x\n")
    assert child.send("SubagentStop").stdout == b""
    assert "1 file changed" in stopped(agent)


def test_in_enforce_no_intent_is_proposed(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/a.py", "x\n")
    assert stopped(agent) == "Remit: 1 file changed for INT-001, all under src"


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_agent_has_a_channel_for_it(name: str) -> None:
    assert json.loads(render_notice(name, "Remit: x")) == {"systemMessage": "Remit: x"}
    assert render_notice(name, "") == b""


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        (["a/b/c.py", "a/b/d.py", "a/e.py"], "a/b"),
        (["a/b/c.py", "a/d/e.py"], "a"),
        (["a.py", "b.py"], ""),
        (["a/x", "b/y"], ""),
        ([], ""),
    ],
)
def test_the_main_folder_holds_more_than_half(paths: list[str], folder: str) -> None:
    assert find_main_folder(paths) == folder


def test_many_files_elsewhere_are_counted_and_not_all_named() -> None:
    files = [ChangedFile(f"src/{n}.py") for n in range(20)] + [ChangedFile(f"{n}\n.md") for n in range(9)]
    line = describe_changes(files, None)
    assert line.startswith("Remit: 29 files changed, 20 under src, 9 elsewhere: 0\\x0a.md, ")
    assert line.endswith("and 6 more")


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("Fix the login\nplease", "Fix the login"),
        ("\n\n> quoted", "quoted"),
        ("<system-reminder>x</system-reminder>\nDo it", "Do it"),
        ("<only a tag>", ""),
        ("x" * 200, "x" * MAX_NAME_CHARS + "…"),
        ("use AKIAIOSFODNN7EXAMPLE now\x1b[2J", "use [redacted] now\\x1b[2J"),
        ("", ""),
    ],
)
def test_a_name_is_the_first_line_that_says_something(prompt: str, name: str) -> None:
    assert make_intent_name(prompt) == name


def test_without_a_transcript_no_name_is_proposed(agent: Agent) -> None:
    agent.write("src/a.py", "x\n")
    assert propose_intent_name(Gate.open(agent.cwd, machine(agent.home)), agent.session) == ""
    assert "of this work: remit intent new NAME --from-session" in stopped(agent)
