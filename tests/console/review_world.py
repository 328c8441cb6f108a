"""A branch with changes of two sessions and a person, committed and not, to review on the page Changes."""

from pathlib import Path

from conftest import run_git
from gate.driving import Agent, governed
from remit.workspace.place.workspace import register_repository, workspace_at

TOKENS = (
    "def verify(token):\n    header, _, body = token.partition('.')\n    return header == body\n\n\ndef sign(): ...\n"
)
TESTS = "def test_verifies():\n    assert True is not None\n\n\ndef test_refuses():\n    assert 1 + 1 == 2\n"


def make_branch(root: Path, home: Path) -> Agent:
    """Return the agent of INT-001; on the branch `work`, one commit stands above `main`."""
    (root / "src" / "tokens.py").write_text(TOKENS)
    (root / "tests").mkdir()
    (root / "tests" / "test_tokens.py").write_text(TESTS)
    governed(root, mode="warn")
    register_repository(home, workspace_at(root, root))
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "govern")
    run_git(root, "switch", "-qc", "work")
    agent = Agent(root, home)
    agent.send("SessionStart", source="startup", model="claude-sonnet-5")
    agent.select()
    agent.write("src/tokens.py", TOKENS.replace("header == body", "compare(header, body)"))
    agent.write("docs/design.md", "outside the scope\n")
    agent.write("tests/test_tokens.py", TESTS.partition("\n\ndef test_refuses")[0])
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "tokens")
    agent.write(
        "src/tokens.py", (root / "src" / "tokens.py").read_text() + "KEY = '<img src=x onerror=alert(1)>\u202e'\n"
    )
    (root / "src" / "keys.py").write_text("KEYS = {}\n")
    other = Agent(root, home, session="session-2")
    other.select("INT-002")
    other.write("docs/hooks.md", "# Hooks\n")
    return agent
