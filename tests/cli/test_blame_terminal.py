"""`remit blame` on a terminal: fitted to its width; elsewhere git's own form stays."""

import os
from pathlib import Path

import pytest

from conftest import run_git
from forked_commands import run_command
from gate.driving import Agent, governed
from terminals import show_on_terminal

AUTHOR = "Maximiliane von Hohenlohe"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    found.write("src/new.py", "NEW_NAME = 1\n")
    run_git(repository, "add", "-A", "src")
    run_git(repository, "-c", f"user.name={AUTHOR}", "commit", "-q", "-m", "new")
    return found


def on_a_terminal(folder: Path, columns: int, *words: str) -> str:
    code, shown = show_on_terminal(folder, ["blame", *words], columns, {"NO_COLOR": "1"}, rows=40)
    assert code == 0, shown
    return shown


def test_a_narrow_terminal_shows_code_within_its_first_sixty_columns(agent: Agent) -> None:
    narrow = on_a_terminal(agent.cwd, 80, "src/new.py")
    assert narrow.index("NEW_NAME") <= 60
    assert "Maximiliane… 20" in narrow.replace("Maximilian…", "Maximiliane…")
    assert "claude-code INT-001" in narrow
    again = on_a_terminal(agent.cwd, 80, "src/new.py")
    assert again == narrow, "the kept answer is that of the same width"
    wide = on_a_terminal(agent.cwd, 160, "src/new.py")
    assert AUTHOR in wide


def test_a_form_that_was_asked_for_stays_as_it_is_asked(agent: Agent) -> None:
    assert AUTHOR in on_a_terminal(agent.cwd, 80, "-t", "src/new.py")
    piped = run_command(["blame", "src/new.py"], agent.cwd, {**os.environ, "COLUMNS": "80"}).stdout
    assert AUTHOR in piped
