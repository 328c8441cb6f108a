"""What strangers named or wrote cannot speak to the terminal, whichever command prints it."""

import unicodedata
from pathlib import Path

import pytest

from cli.test_approvals import output
from gate.driving import INTENTS, Agent, governed

TRICK = "\x1b[2J\u202e\x9b31m"
IN_YAML = '"N\\e[2J\\u202e\\x9b31m\\nINT-009 forged"'

COMMANDS = (
    ("status",),
    ("status", "--coverage"),
    ("log", "-n", "50"),
    ("log", "--json"),
    ("search", "nothing", "--json"),
    ("session",),
    ("intent", "list"),
    ("intent", "show", "INT-001"),
    ("restore", "list"),
    ("restore", "latest", "--preview"),
    ("verify", "--fail-on", "never"),
    ("mode", "suggest"),
    ("approvals", "list"),
)


@pytest.fixture
def repository_of_tricks(repository: Path, home: Path) -> Path:
    """A repository whose intent, files, session and tools are named to do harm."""
    governed(repository, "observe", INTENTS.replace("name: Names", f"name: {IN_YAML}"))
    agent = Agent(repository, home, session=f"s{TRICK}")
    agent.select()
    agent.write(f"src/{TRICK}\nforged.py", f"x = '{TRICK}'\n")
    agent.write(f"docs-{TRICK}.md", "x\n")
    agent.shell(f"echo '{TRICK}' > src/b.txt")
    asked = agent.ask(f"mcp__x{TRICK}\nforged", note=TRICK)
    agent.tell(f"mcp__x{TRICK}\nforged", asked["call_id"], note=TRICK)
    return repository


def test_no_command_passes_on_what_a_terminal_would_obey(repository_of_tricks: Path) -> None:
    for words in COMMANDS:
        said = output(repository_of_tricks, *words)
        found = {c for c in said if unicodedata.category(c) in ("Cc", "Cf")} - {"\n", "\t"}
        assert not found, (words, found, said)
        if words[:2] == ("intent", "show"):
            continue  # what agents are told keeps its lines, inside an element
        assert not any(line.startswith(("forged", "INT-009")) for line in said.splitlines()), (words, said)
