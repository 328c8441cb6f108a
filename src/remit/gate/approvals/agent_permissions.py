"""A person's own permission rules for an agent, evaluated on a command that will run contained.

The agent receives the launcher's command, so its rules no longer match the model's command. Remit evaluates the rules
on the original command and passes their answer on.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from remit.adapters import ROWS
from remit.adapters.agent_row import AgentRow
from remit.adapters.permissions import (
    RULE_READERS,
    RULES_IN_ENFORCE,
    evaluate_own_rules,
    is_session_project,
    read_own_rules,
)
from remit.core.call import ToolCall
from remit.core.shell.permissions import CommandPart, OwnRules, Permission, RuleFile, ShellCommand
from remit.gate.environment import Environment
from remit.policy.commands.permission_parts import split_command
from remit.workspace.agents.settings_files import read_rule_files
from remit.workspace.processes.process_info import list_ancestors, program_name

SETTINGS_OPTION = "--settings"
"""Claude Code option with further settings: JSON, or the name of a file."""

MAX_ANCESTORS = 8
"""Processes above the hook that are searched for the agent."""


def evaluate_permission(call: ToolCall, line: str, root: Path, environment: Environment) -> Permission:
    """Return the verdict of the agent's own rules. `line` is the launcher's command: a rule may name that, too."""
    row = ROWS.get(call.agent)
    if row is None or call.agent not in RULE_READERS or call.command is None:
        return Permission("agent")
    words = find_agent_words(row, call.hook_pid)
    rules = parse_rules(call.agent, tuple(find_rule_files(row, call, words, root, environment)), words)
    found = evaluate_own_rules(call.agent, rules, split_command(call.command), call.permission_mode, words)
    if found.effect != "ask" or found.rule is not None:
        return found
    launched = ShellCommand(line, (CommandPart(line),), plain=True)
    by_launcher = evaluate_own_rules(call.agent, rules, launched, call.permission_mode, words)
    return by_launcher if by_launcher.effect == "allow" else found


def describe_rules(row: AgentRow, root: Path, environment: Environment) -> str:
    """Return a line about the person's own rules for an agent and their effect in enforce mode."""
    patterns = [f"{root}/{name[2:]}" for name in row.rule_files if name.startswith("./")]
    project = [RuleFile(path, "project", content) for path, content in read_rule_files(patterns)]
    found = read_own_rules(row.agent, (*read_machine_rules(row, environment), *project))
    counts = Counter(rule.effect for rule in found.rules)
    listed = ", ".join(f"{counts[effect]} {effect}" for effect in ("allow", "ask", "deny") if counts[effect])
    files = ", ".join(dict.fromkeys(rule.path for rule in found.rules))
    unread = f"; not readable: {', '.join(found.unreadable)}" if found.unreadable else ""
    summary = f"{listed} about commands in {files}" if found.rules else "none about commands"
    return f"your own rules: {summary}{unread}; {RULES_IN_ENFORCE[row.agent]}"


def find_rule_files(
    row: AgentRow, call: ToolCall, words: Sequence[str], root: Path, environment: Environment
) -> list[RuleFile]:
    """Return the rule files that apply to a session working in `call.cwd`."""
    found = [*read_machine_rules(row, environment)]
    here = Path(call.cwd)
    for folder in (here, *here.parents):
        project = str(folder)
        scope = "project" if is_session_project(row.agent, project, call.transcript) else "nearby"
        patterns = [f"{project}/{name[2:]}" for name in row.rule_files if name.startswith("./")]
        found += [RuleFile(path, scope, content) for path, content in read_rule_files(patterns)]
        if folder == root:
            break
    return [*found, *read_option_rules(words, here)]


def read_machine_rules(row: AgentRow, environment: Environment) -> list[RuleFile]:
    """Return the rule files of the machine and of the user."""
    own = environment.config_folders.get(row.agent) or str(environment.home / row.config_folder)
    managed = [name for name in row.rule_files if name.startswith("/")]
    user = [f"{own}/{name[2:]}" for name in row.rule_files if name.startswith("~/")]
    return [
        *(RuleFile(path, "managed", content) for path, content in read_rule_files(managed)),
        *(RuleFile(path, "user", content) for path, content in read_rule_files(user)),
    ]


def read_option_rules(words: Sequence[str], here: Path) -> list[RuleFile]:
    """Return the settings from the agent's command line."""
    values = [after for word, after in pairwise(words) if word == SETTINGS_OPTION]
    values += [word.partition("=")[2] for word in words if word.startswith(f"{SETTINGS_OPTION}=")]
    found: list[RuleFile] = []
    for value in values:
        if value.lstrip().startswith("{"):
            found.append(RuleFile(f"the value of {SETTINGS_OPTION}", "user", value.encode("utf-8", "replace")))
        else:
            found += [RuleFile(path, "user", content) for path, content in read_rule_files([str(here / value)])]
    return found


@lru_cache(32)
def parse_rules(agent: str, files: tuple[RuleFile, ...], words: tuple[str, ...]) -> OwnRules:
    """Return the rules of these files; parsed once for the same content."""
    return read_own_rules(agent, files, words)


def find_agent_words(row: AgentRow, pid: int) -> tuple[str, ...]:
    """Return the command line of the agent above a process; empty if no such process is found."""
    if not pid:
        return ()
    for number, process in enumerate(list_ancestors(pid)):
        if number > MAX_ANCESTORS:
            break
        if program_name(process.argv) == row.binary:
            return process.argv
    return ()
