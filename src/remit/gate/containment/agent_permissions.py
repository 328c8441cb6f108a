"""A person's own permission rules for an agent, evaluated on a command that will run contained. The agent receives the
launcher's command, so its rules no longer match the model's command. Remit evaluates the rules on the original command
and passes their answer on.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

from remit.adapters.permissions import (
    RULE_READERS,
    evaluate_own_rules,
    is_session_project,
    read_own_rules,
)
from remit.core.agents import ROWS, AgentRow
from remit.core.call import ToolCall
from remit.core.shell_commands import CommandPart, OwnRules, Permission, RuleFile, ShellCommand
from remit.gate.machine import Environment
from remit.policy.commands.permission_parts import split_command
from remit.workspace.agents.read_write_settings import read_rule_files
from remit.workspace.processes.process_tracking import Incomplete, program_name, walk_ancestors

SETTINGS_OPTION = "--settings"  # Claude Code option with further settings: JSON, or the name of a file
MAX_ANCESTORS = 8  # processes above the hook that are searched for the agent


def evaluate_permission(call: ToolCall, line: str, root: Path, environment: Environment) -> Permission:
    """Return the verdict of the agent's own rules. `line` is the launcher's command: a rule may name that, too."""
    row = ROWS.get(call.agent)
    if row is None or call.agent not in RULE_READERS or call.command is None:
        return Permission("agent")
    # The command line of the agent above the hook.
    above = islice(walk_ancestors(call.hook_pid), MAX_ANCESTORS + 1) if call.hook_pid else ()
    try:
        words = next((process.argv for process in above if program_name(process.argv) == row.binary), ())
    except Incomplete:  # its options are not known, and may forbid what the files allow
        return Permission("ask")
    rules = parse_rules(call.agent, tuple(find_rule_files(row, call, words, root, environment)), words)
    found = evaluate_own_rules(call.agent, rules, split_command(call.command), call.permission_mode, words)
    if found.effect != "ask" or found.rule is not None:
        return found
    launched = ShellCommand(line, (CommandPart(line),), plain=True)
    by_launcher = evaluate_own_rules(call.agent, rules, launched, call.permission_mode, words)
    return by_launcher if by_launcher.effect == "allow" else found


def read_permission(call: ToolCall, files: Sequence[RuleFile], words: Sequence[str]) -> Permission:
    """Return the verdict of the agent's own rules in these files on a command that runs as it is."""
    rules = parse_rules(call.agent, tuple(files), tuple(words))
    return evaluate_own_rules(call.agent, rules, split_command(call.command or ""), call.permission_mode, words)


def describe_rules(row: AgentRow, root: Path, environment: Environment) -> str:
    """Return a line about the person's permission rules for an agent and their effect in enforce mode; "" for none."""
    found = read_own_rules(
        row.agent, (*read_machine_rules(row, environment), *read_project_rules(row, root, "project"))
    )
    counts = Counter(rule.effect for rule in found.rules)
    listed = ", ".join(f"{counts[effect]} {effect}" for effect in ("allow", "ask", "deny") if counts[effect])
    files = ", ".join(dict.fromkeys(rule.path for rule in found.rules))
    unread = f"; not readable: {', '.join(found.unreadable)}" if found.unreadable else ""
    if not found.rules and not found.unreadable:
        return ""
    summary = f"{listed} about commands, in {files}" if found.rules else "none that can be read"
    return f"your permission rules: {summary}{unread}; {row.rules_in_enforce}"


def find_rule_files(
    row: AgentRow, call: ToolCall, words: Sequence[str], root: Path, environment: Environment
) -> list[RuleFile]:
    """Return the rule files that apply to a session in `call.cwd`, with the settings of the agent's command line."""
    found = read_machine_rules(row, environment)
    here = Path(call.cwd)
    for folder in (here, *here.parents):
        is_project = is_session_project(row.agent, str(folder), call.transcript)
        found += read_project_rules(row, folder, "project" if is_project else "nearby")
        if folder == root:
            break
    values = [after for word, after in pairwise(words) if word == SETTINGS_OPTION]
    values += [word.partition("=")[2] for word in words if word.startswith(f"{SETTINGS_OPTION}=")]
    for value in values:
        if value.lstrip().startswith("{"):
            found.append(RuleFile(f"the value of {SETTINGS_OPTION}", "user", value.encode("utf-8", "replace")))
        else:
            found += [RuleFile(path, "user", content) for path, content in read_rule_files([str(here / value)])]
    return found


def read_project_rules(row: AgentRow, folder: Path, scope: Literal["project", "nearby"]) -> list[RuleFile]:
    patterns = [f"{folder}/{name[2:]}" for name in row.rule_files if name.startswith("./")]
    return [RuleFile(path, scope, content) for path, content in read_rule_files(patterns)]


def read_machine_rules(row: AgentRow, environment: Environment) -> list[RuleFile]:
    own = environment.config_folders.get(row.agent) or str(environment.home / row.config_folder)
    managed = [name for name in row.rule_files if name.startswith("/")]
    user = [f"{own}/{name[2:]}" for name in row.rule_files if name.startswith("~/")]
    return [
        *(RuleFile(path, "managed", content) for path, content in read_rule_files(managed)),
        *(RuleFile(path, "user", content) for path, content in read_rule_files(user)),
    ]


@lru_cache(32)
def parse_rules(agent: str, files: tuple[RuleFile, ...], words: tuple[str, ...]) -> OwnRules:
    return read_own_rules(agent, files, words)
