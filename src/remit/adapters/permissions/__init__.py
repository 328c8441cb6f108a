"""The agents' own permission rules, one module per agent. No I/O: files are passed as bytes.

If a hook replaces a command, the agent no longer sees the command of the model, and the person's own rules to allow,
ask or deny no longer match. So Remit evaluates these rules on the original command.
"""

from collections.abc import Sequence

from remit.adapters.permissions import claude, codex, gemini
from remit.core.shell_commands import OwnRules, Permission, RuleFile, ShellCommand

__all__ = ["RULES_IN_ENFORCE", "RULE_READERS", "evaluate_own_rules", "is_session_project", "read_own_rules"]

RULE_READERS = {"claude-code": claude, "codex": codex, "gemini": gemini}
"""Module that reads an agent's rules. Qwen Code has none: it accepts no replaced command from a hook."""

RULES_IN_ENFORCE = {
    "claude-code": "they hold for contained commands, too; without a rule a command is asked about in its own words",
    "codex": "they hold for contained commands, too; one that they prompt about runs as it is, compared afterwards",
    "gemini": "they hold; but for --yolo commands run as they are, compared afterwards, since it asks by their words",
    "qwen": "they hold as ever: it takes no other command from a hook",
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
