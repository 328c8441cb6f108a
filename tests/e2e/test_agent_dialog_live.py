"""The real Claude Code at a terminal: its own permission dialog asks a person about an intent that it proposes."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.terminal.terminals import Terminal
from e2e import claude
from e2e.test_four_agents import AGENTS, records, remit, wire_up
from remit.rehearsal.scripted_model import Say, ScriptedModel

pytestmark = pytest.mark.live

PROPOSAL = "remit intent propose 'Rate limits' --scope src/limits.py --criterion 'the sixth try fails' --why 'see #12'"
OPTIONS = ("--permission-mode", "manual", "--allowedTools", "Write", "--")
ONBOARDED = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["dummy"]}}


@pytest.fixture
def terminal(tmp_path: Path, claude_code: None) -> Generator[Terminal]:
    found = Terminal(tmp_path, (120, 50))
    yield found
    found.close()


def settle_in(repository: Path, home: Path) -> None:
    """Wire the agent, and answer what it asks at its first start."""
    wire_up(repository, "claude-code")
    kept = home / ".claude.json"
    trusted = {str(repository): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    kept.write_text(json.dumps({**known, **ONBOARDED, "projects": trusted}))


def list_intents(repository: Path) -> list[str]:
    return [one["name"] for one in json.loads(remit(repository, "intent", "list", "--json"))["data"]]


@pytest.mark.parametrize(("key", "is_made"), [("Enter", True), ("Escape", False)])
def test_a_yes_in_the_dialog_makes_the_intent(
    terminal: Terminal, repository: Path, home: Path, key: str, is_made: bool
) -> None:
    settle_in(repository, home)
    agent = AGENTS["claude-code"]
    file = repository / "src" / "limits.py"
    steps = [agent.shell(PROPOSAL), agent.write(file, "LIMIT = 5\n"), Say("All is done.")]
    with agent.wire(ScriptedModel(steps)).serve() as wire:
        words = [str(claude.claude_binary()), "--model", claude.MODEL, *OPTIONS, "limit it"]
        terminal.start(words, repository, claude.clean_environment(home, wire.url))
        shown = "\n".join(terminal.wait_to_see("Do you want to proceed?"))
        assert "src/limits.py (new)" in shown
        assert "done when  the sixth try fails" in shown
        terminal.press(key)
        if is_made:
            terminal.wait_to_see("All is done.")
        told = wire.tool_result_texts()
        conversation = str(wire.requests)
    assert ("Rate limits" in list_intents(repository)) is is_made, told
    assert file.exists() is is_made
    if is_made:
        assert "is made and selected for you" in conversation
        [answered] = [r["approval"] for r in records(repository, "approval_answered")]
        assert (answered["by"], answered["through"], answered["answer"]) == ("person", "agent dialog", "allow")
