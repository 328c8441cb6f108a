"""A command whose text tells nothing, from each real agent in enforce: contained, or compared afterwards."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from e2e.codex import run_codex
from e2e.test_four_agents import AGENTS, name, records, remit, run, wire_up
from gate.driving import overlay
from remit.core.agents import ROWS
from remit.rehearsal.scripted_model import Say, ScriptedModel

__all__ = ["name"]

pytestmark = pytest.mark.live

OUTSIDE = "open('side.md', 'w').write('sneaky')"
INSIDE = "open('src/new.py', 'w').write('x = 1\\ny = 2\\n'); print('seen'); raise SystemExit(7)"


def python(text: str) -> str:
    return f'{sys.executable} -c "{text}"'


def uses(repository: Path) -> list[dict[str, Any]]:
    return [r for r in records(repository, "tool_use") if "contain" in r["decision"]["rules"]]


def test_out_of_scope_is_dropped_and_in_scope_is_blamed(name: str, repository: Path, home: Path) -> None:
    overlay(home)
    agent = AGENTS[name]
    wire_up(repository, name)
    (repository / "src").mkdir(exist_ok=True)
    select = agent.shell("remit intent select INT-001")
    steps = (select, agent.shell(python(OUTSIDE)), agent.shell(python(INSIDE)))
    done, told = run(name, repository, home, *steps)
    assert done.returncode == 0, done
    contained = bool(ROWS[name].rewrites)
    assert "SCOPE_VIOLATION" in told[1], told
    assert ("the command ran contained" in told[1]) == contained, told
    assert "side.md" in told[1], told
    assert not (repository / "side.md").exists()
    assert "seen" in told[2], told
    assert "7" in told[2], told
    assert (repository / "src/new.py").read_text() == "x = 1\ny = 2\n"
    assert [u["decision"]["effect"] for u in uses(repository)] == ["contain" if contained else "allow"] * 2
    assert [u.get("uncontained", "") != "" for u in uses(repository)] == [not contained] * 2
    assert "exec --session" not in json.dumps([*uses(repository), *records(repository, "tool_result")])
    if not contained:
        return
    assert [d["violation"]["path"] for d in records(repository, "denied")] == ["side.md"]
    [mutation] = records(repository, "mutation")
    assert (mutation["covered"], mutation["in_scope"]) == (True, True)
    assert len(records(repository, "tool_result")) == len(records(repository, "tool_use"))
    run_git(repository, "add", "src")
    run_git(repository, "commit", "-q", "-m", "work")
    lines = json.loads(remit(repository, "blame", "src/new.py", "--json"))["data"]["lines"]
    assert [(line["origin"], line["agent"], line["intent_id"]) for line in lines] == [("ai", name, "INT-001")] * 2
    assert "the chain is whole" in remit(repository, "ledger", "verify")


def test_in_a_sandbox_of_codex_nothing_is_rewritten(
    repository: Path, home: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("codex_cli")
    overlay(home)
    wire_up(repository, "codex")
    agent = AGENTS["codex"]
    shell = [agent.shell("remit intent select INT-001"), agent.shell(python(INSIDE))]
    with agent.wire(ScriptedModel([*shell, Say("done")])).serve() as wire:
        done = run_codex(repository, home, wire.url, "do the work", trust_hooks=False, sandbox="workspace-write")
    assert done.returncode == 0, done
    [use] = uses(repository)
    assert use["decision"]["effect"] == "allow"
    assert "sandbox of its own" in use["uncontained"]
