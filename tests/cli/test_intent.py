"""`remit intent`: what a person may write, and what they are told of it."""

from pathlib import Path

import pytest

from cli.test_for_agents import remit
from gate.driving import Agent, governed


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return Agent(governed(repository), home)


@pytest.mark.parametrize("name", ["", "   "])
def test_an_intent_needs_a_name(agent: Agent, name: str) -> None:
    done = remit(agent.cwd, "intent", "new", name, "--scope", "src/**")
    assert (done.returncode, "needs a name" in done.stderr) == (2, True)
    assert remit(agent.cwd, "intent", "edit", "INT-001", "--name", name).returncode == 2


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (r"src\\app.py", "backslash"),
        (" src/** ", "white space"),
        (".orchestration/**", "nothing is in any scope"),
        ("scr/**", "matches no file"),
    ],
)
def test_a_doubtful_scope_is_said_and_the_intent_made(agent: Agent, scope: str, said: str) -> None:
    done = remit(agent.cwd, "intent", "new", "x", "--scope", scope.replace("\\\\", "\\"))
    assert (done.returncode, said in done.stderr) == (0, True)
    assert "remit intent edit" in done.stderr


@pytest.mark.parametrize("scope", ["src/**", "*.md", "src/app.py", "**/*.py", "{src,docs}/**"])
def test_of_a_scope_that_matches_nothing_is_said(agent: Agent, scope: str) -> None:
    done = remit(agent.cwd, "intent", "new", "x", "--scope", scope)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [("select", "INT-001"), ("clear",)])
def test_a_session_that_nobody_knows_is_an_error(agent: Agent, command: tuple[str, ...]) -> None:
    agent.select()
    done = remit(agent.cwd, "intent", *command, "--session", "nope")
    assert (done.returncode, "no session 'nope'\nhint: the newest: session-1" in done.stderr) == (2, True)


def test_a_session_that_only_read_is_known(agent: Agent) -> None:
    agent.read("README.md")
    assert remit(agent.cwd, "intent", "select", "INT-002", "--session", "session-1").returncode == 0


def test_a_session_for_which_a_person_selects_stays_its_agents(agent: Agent) -> None:
    agent.select()
    assert remit(agent.cwd, "intent", "select", "INT-001", "--session", "session-1").returncode == 0
    assert "sessions  ✦ claude-code  session-1  INT-001" in remit(agent.cwd, "status").stdout


@pytest.mark.parametrize("words", [("new", "x", "--scope", "src/**"), ("edit", "INT-001", "--name", "x"), ("list",)])
def test_no_command_of_intents_starts_governing(repository: Path, home: Path, words: tuple[str, ...]) -> None:
    done = remit(repository, "intent", *words)
    assert (done.returncode, "remit init" in done.stderr) == (2, True), done
    assert not (repository / ".git" / "remit" / "governed").exists()
    assert not (repository / ".orchestration").exists()


CHILD = """
  - id: INT-003
    owned_scope: ["src/child/**"]
    status: IN_PROGRESS
    parent_intent: INT-001
    constraints: [none]
    acceptance_criteria: [it works]
"""


@pytest.mark.parametrize(
    "words", [("complete", "INT-001", "--notes", "looked"), ("set-status", "INT-001", "DONE", "--notes", "looked")]
)
def test_a_parent_is_closed_before_its_child_only_by_force(agent: Agent, words: tuple[str, ...]) -> None:
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    path.write_text(path.read_text() + CHILD.lstrip("\n"))
    done = remit(agent.cwd, "intent", *words)
    assert (done.returncode, "INT-003 is IN_PROGRESS" in done.stderr, "--force" in done.stderr) == (3, True, True)
    assert "status: DONE" not in path.read_text()
    done = remit(agent.cwd, "intent", *words, "--force")
    assert (done.returncode, "closed before its children: INT-003" in done.stderr) == (0, True)
    assert "INT-001: IN_PROGRESS -> DONE" in done.stdout
