"""The agents' own permission rules, one module an agent. No I/O: the files come as bytes.

A hook that gives the agent another command takes the model's words out of the agent's sight, and with them whatever a
person allowed, or wants to be asked about, or denied. So these rules are evaluated on the command as it was written.
"""

from collections.abc import Sequence

from remit.adapters.permissions import claude, codex, gemini
from remit.core.shell.permissions import OwnRules, Permission, RuleFile, ShellCommand

__all__ = ["RULES_IN_ENFORCE", "RULE_READERS", "evaluate_own_rules", "is_session_project", "read_own_rules"]

RULE_READERS = {"claude-code": claude, "codex": codex, "gemini": gemini}
"""By agent, the module that reads its rules. Qwen Code is missing: it takes no other command from a hook."""

RULES_IN_ENFORCE = {
    "claude-code": "they hold for contained commands, too; without a rule a command is asked about in its own words",
    "codex": "they hold for contained commands, too; one that they prompt about runs as it is, compared afterwards",
    "gemini": "they hold; but for --yolo commands run as they are, compared afterwards, since it asks by their words",
    "qwen": "they hold as ever: it takes no other command from a hook",
}
"""By agent, what becomes of a person's own rules in enforce."""


def is_session_project(agent: str, folder: str, transcript: str | None) -> bool:
    """Whether what the files of a folder allow counts for the session."""
    return agent != "claude-code" or claude.is_session_project(folder, transcript)


def read_own_rules(agent: str, files: Sequence[RuleFile], words: Sequence[str] = ()) -> OwnRules:
    """Return the rules of these files; `words` are those that the agent's process was started with."""
    return RULE_READERS[agent].read_rules(files, words) if agent in RULE_READERS else OwnRules()


def evaluate_own_rules(
    agent: str, rules: OwnRules, command: ShellCommand, mode: str = "", words: Sequence[str] = ()
) -> Permission:
    """Return what the agent's own rules say of a command that is to be run by the launcher. Never looser than they."""
    return RULE_READERS[agent].evaluate(rules, command, mode, words) if agent in RULE_READERS else Permission("agent")
