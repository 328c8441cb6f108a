"""The agents' own permission rules, one module per form of rules. No I/O: files are passed as bytes.

If a hook replaces a command, the agent no longer sees the command of the model, and the person's own rules to allow,
ask or deny no longer match. So Remit evaluates these rules on the original command.
"""

from collections.abc import Sequence

from remit.adapters.permissions import claude, codex, gemini
from remit.core.agents import ROWS
from remit.core.shell_commands import OwnRules, Permission, RuleFile, ShellCommand

__all__ = [
    "DIALOG_READERS",
    "RULE_READERS",
    "evaluate_own_rules",
    "is_session_project",
    "read_own_rules",
]

MODULES = {module.__name__.rpartition(".")[2]: module for module in (claude, codex, gemini)}
RULE_READERS = {agent: MODULES[row.rules] for agent, row in ROWS.items() if row.rules}
"""Module that reads an agent's rules."""

DIALOG_READERS = {agent: claude for agent, row in ROWS.items() if row.has_dialog}
"""Module that tells by an agent's settings whether a question of a hook about a command is surely a person's."""


def is_session_project(agent: str, folder: str, transcript: str | None) -> bool:
    return agent not in DIALOG_READERS or DIALOG_READERS[agent].is_session_project(folder, transcript)


def read_own_rules(agent: str, files: Sequence[RuleFile], words: Sequence[str] = ()) -> OwnRules:
    return RULE_READERS[agent].read_rules(files, words) if agent in RULE_READERS else OwnRules()


def evaluate_own_rules(
    agent: str, rules: OwnRules, command: ShellCommand, mode: str = "", words: Sequence[str] = ()
) -> Permission:
    return RULE_READERS[agent].evaluate(rules, command, mode, words) if agent in RULE_READERS else Permission("agent")
