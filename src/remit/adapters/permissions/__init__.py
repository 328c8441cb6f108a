"""The agents' own permission rules, one module per agent. No I/O: files are passed as bytes.

If a hook replaces a command, the agent no longer sees the command of the model, and the person's own rules to allow,
ask or deny no longer match. So Remit evaluates these rules on the original command.
"""

from collections.abc import Sequence

from remit.adapters.permissions import claude, codex, gemini
from remit.core.shell_commands import OwnRules, Permission, RuleFile, ShellCommand

__all__ = [
    "DIALOG_READERS",
    "RULES_IN_ENFORCE",
    "RULE_READERS",
    "evaluate_own_rules",
    "is_session_project",
    "read_own_rules",
]

RULE_READERS = {"claude-code": claude, "codex": codex, "gemini": gemini}
"""Module that reads an agent's rules. Qwen Code has none: it accepts no replaced command from a hook."""

DIALOG_READERS = {"claude-code": claude}
"""Module that tells by an agent's settings whether a question of a hook about a command is surely a person's."""

RULES_IN_ENFORCE = {
    "claude-code": "they hold for commands in Remit's sandbox, too",
    "codex": "they hold for commands in Remit's sandbox, too; what they ask about runs outside of it, and is compared",
    "gemini": "they hold; without --yolo commands run outside of Remit's sandbox, and are compared",
    "qwen": "they hold as ever; its commands run outside of Remit's sandbox, and are compared",
}
"""Effect of the person's own rules in enforce mode, by agent, as text for people."""


def is_session_project(agent: str, folder: str, transcript: str | None) -> bool:
    return agent != "claude-code" or claude.is_session_project(folder, transcript)


def read_own_rules(agent: str, files: Sequence[RuleFile], words: Sequence[str] = ()) -> OwnRules:
    return RULE_READERS[agent].read_rules(files, words) if agent in RULE_READERS else OwnRules()


def evaluate_own_rules(
    agent: str, rules: OwnRules, command: ShellCommand, mode: str = "", words: Sequence[str] = ()
) -> Permission:
    return RULE_READERS[agent].evaluate(rules, command, mode, words) if agent in RULE_READERS else Permission("agent")
