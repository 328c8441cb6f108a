"""Every agent that is wired for the user, live, where its work is not governed, or only observed: nothing of Remit's
is in its model's context.
"""

from pathlib import Path

import pytest

from conftest import run_git
from e2e.test_four_agents import AGENTS, name, remit
from remit.rehearsal.scripted_model import Say, ScriptedModel

__all__ = ["name"]

pytestmark = pytest.mark.live

OURS = ("remit", "active_intent", "owned_scope", "query_traces", "governed")
"""What any text or tool of Remit's holds."""

DEMANDS = ("remit_protocol", "select the intent", "select_active_intent", "owned_scope")


def seen_by_model(name: str, folder: Path, home: Path, file: str) -> str:
    """All that the model of this agent reads in a session of two calls: instructions, tools, results."""
    agent = AGENTS[name]
    steps = [agent.write(folder / file, "x = 1\n"), agent.shell("git status --short"), Say("done")]
    with agent.wire(ScriptedModel(steps)).serve() as wire:
        done = agent.run(folder, home, wire.url, "do the work")
        assert done.returncode == 0, done
        assert len(wire.tool_result_texts()) == 2
        return "\n".join(text for told in wire.requests for text in (told.shown_text, *map(str, told.tools))).lower()


def test_where_remit_does_not_govern_the_model_reads_nothing_of_it(name: str, repository: Path, home: Path) -> None:
    remit(repository, "init", "--yes", "--mode", "enforce", "--agent", name, *trust(name))
    elsewhere = home / "other"
    elsewhere.mkdir()
    run_git(elsewhere, "init", "-q")
    seen = seen_by_model(name, elsewhere, home, "a.py")
    assert (elsewhere / "a.py").exists()
    assert [word for word in OURS if word in seen] == []
    assert not (elsewhere / ".git" / "remit").exists()


def test_in_observe_nothing_is_demanded_of_the_model(name: str, repository: Path, home: Path) -> None:
    remit(repository, "init", "--yes", "--agent", name, *trust(name))
    seen = seen_by_model(name, repository, home, "src/a.py")
    assert [word for word in DEMANDS if word in seen] == []


def trust(name: str) -> list[str]:
    """What `init` needs for the hooks to run."""
    return ["--trust-codex"] if name == "codex" else []
