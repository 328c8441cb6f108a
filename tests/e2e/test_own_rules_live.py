"""Each real agent's own permission rules in enforce: an allowed command runs without a question, an asked one is asked
about in its own words, a denied one is denied. Headless, a question is a refusal that names the command.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.claude import run_claude
from e2e.codex import run_codex
from e2e.gemini import run_gemini
from e2e.test_four_agents import AGENTS, records, wire_up
from gate.driving import overlay
from remit.core.agents import ROWS
from remit.rehearsal.scripted_model import Say, ScriptedModel

pytestmark = pytest.mark.live

COMMAND = "python3 src/app.py"


def claude_rules(**rules: list[str]) -> tuple[str, str]:
    return ".claude/settings.json", json.dumps({"permissions": rules})


def codex_rules(decision: str) -> tuple[str, str]:
    return ".codex/rules/mine.rules", f'prefix_rule(pattern=["python3"], decision="{decision}")\n'


def gemini_rules(decision: str) -> tuple[str, str]:
    rule = '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "{}"\ndecision = "{}"\npriority = 100\n'
    return ".gemini/policies/mine.toml", rule.format("python3", decision) + rule.format("remit", "allow")


def claude(*given: Any) -> Any:
    return run_claude(*given, allowed=("Bash(remit:*)",))


def codex(*given: Any) -> Any:
    return run_codex(*given, trust_hooks=False)


def gemini(*given: Any) -> Any:
    return run_gemini(*given, asks=True)


@dataclass(frozen=True)
class Case:
    """A rule, and what becomes of the command: whether it runs, how Remit's record says it was to run, and the words
    that the model reads.
    """

    agent: str
    run: Callable[..., Any]
    rules: tuple[str, str]
    runs: bool
    effect: str
    said: str = ""


ASKED = claude_rules(allow=["Bash"], ask=["Bash(python3:*)"])
DENIED = claude_rules(allow=["Bash"], deny=["Bash(python3:*)"])

CASES = {
    "claude-code allowed": Case("claude-code", claude, claude_rules(allow=["Bash(python3:*)"]), True, "contain"),
    "claude-code all allowed": Case("claude-code", claude, claude_rules(allow=["Bash"]), True, "contain"),
    "claude-code asked": Case("claude-code", claude, ASKED, False, "contain", f"`{COMMAND}` needs a person's yes"),
    "claude-code no rule": Case("claude-code", claude, claude_rules(), False, "contain", f"`{COMMAND}` needs"),
    "claude-code denied": Case("claude-code", claude, DENIED, False, "deny", "your rule Bash(python3:*)"),
    "codex allowed": Case("codex", codex, codex_rules("allow"), True, "contain"),
    "codex asked": Case("codex", codex, codex_rules("prompt"), False, "allow", "approval required by policy"),
    "codex denied": Case("codex", codex, codex_rules("forbidden"), False, "deny", "denies this command"),
    "gemini allowed": Case("gemini", gemini, gemini_rules("allow"), True, "allow"),
    "gemini asked": Case("gemini", gemini, gemini_rules("ask_user"), False, "allow", "requires user confirmation"),
    "gemini asked by a rule": Case("gemini", run_gemini, gemini_rules("ask_user"), False, "allow", "confirmation"),
    "gemini denied": Case("gemini", gemini, gemini_rules("deny"), False, "deny", "denies this command"),
    "gemini denied by a rule": Case("gemini", run_gemini, gemini_rules("deny"), False, "deny", "denies this command"),
    "gemini without rules": Case("gemini", run_gemini, ("none", ""), True, "contain"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_persons_own_rules_go_on_to_hold(
    name: str, repository: Path, home: Path, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    agent = AGENTS[case.agent]
    request.getfixturevalue(agent.fixture)
    overlay(home)
    file, content = case.rules
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(content)
    wire_up(repository, case.agent)
    (repository / "src" / "app.py").write_text("print('-'.join('ran'))\nopen('src/made.txt', 'w').write('x')\n")
    steps = [agent.shell("remit intent select INT-001"), agent.shell(COMMAND), Say("done")]
    with agent.wire(ScriptedModel(steps)).serve() as wire:
        done = case.run(repository, home, wire.url, "do the work")
        told = wire.tool_result_texts()
    assert done.returncode == 0, done
    assert len(told) == 2, told
    assert ("r-a-n" in told[1], (repository / "src" / "made.txt").exists()) == (case.runs, case.runs), told
    assert case.said in told[1], told
    assert not re.search(r"exec --session", told[1]), "the launcher's words are nobody's"
    made = [*records(repository, "tool_use"), *records(repository, "denied")]
    effects = [r["decision"]["effect"] for r in made if r["call"].get("command") == COMMAND]
    assert effects == [case.effect], told


def test_every_agent_that_takes_other_commands_is_here() -> None:
    assert {case.agent for case in CASES.values()} == {name for name, row in ROWS.items() if row.rewrites}
