"""Gemini CLI's rules: the files of its policy engine, and `tools` in its settings.

Gemini applies its policy to the command that the hook returns, never to the model's command. Sources: Gemini CLI 0.61.0
(its bundle's `evaluateBeforeToolHook`, `checkPolicy`), run with rules of each decision; read 2026-11.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from remit.core.shell_commands import CommandPart, OwnRule, OwnRules, Permission, RuleEffect, RuleFile, ShellCommand
from remit.core.untrusted_input import as_array, as_object

SHELL_TOOL = "run_shell_command"
DECISIONS: dict[object, RuleEffect] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
TIER_RANKS = {"nearby": 3.0, "project": 3.0, "user": 4.0, "managed": 5.0}
"""First digit of a rule's rank; the rule's own priority follows as thousandths."""

SETTINGS_LISTS: tuple[tuple[str, RuleEffect, float], ...] = (("allowed", "allow", 0.3), ("exclude", "deny", 0.4))
"""Lists in `tools` of the settings, with effect and rank within the tier."""

NARROWING_KEYS = {"commandRegex", "argsPattern", "modes", "mcpName", "toolAnnotations", "interactive"}
COMMENT = re.compile(rb'("(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?', re.DOTALL)

TOOL_ENTRY = re.compile(r"(?P<tool>\w+)(?:\((?P<prefix>.*)\))?", re.DOTALL)
YOLO_OPTIONS = frozenset({"--yolo", "-y", "--approval-mode=yolo"})
ANY_COMMAND = "*"
SOME_COMMANDS = "?"  # Prefix of rules for some commands that cannot be determined here


def read_rules(files: Sequence[RuleFile], words: Sequence[str]) -> OwnRules:
    """Return the rules in these files that concern shell commands. A rule's text is the command prefix."""
    found: list[OwnRule] = []
    unreadable: list[str] = []
    for file in files:
        try:
            found += parse_policy_rules(file) if file.path.endswith(".toml") else parse_settings_rules(file)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
            unreadable.append(file.path)
    return OwnRules(tuple(sorted(found, key=lambda rule: -rule.rank)), tuple(unreadable))


def parse_settings_rules(file: RuleFile) -> Iterator[OwnRule]:
    # The client tolerates comments.
    plain = COMMENT.sub(lambda found: found[1] or b"", file.content)
    tools = as_object(as_object(msgspec.json.decode(plain)).get("tools"))
    for key, effect, rank in SETTINGS_LISTS:
        for entry in as_array(tools.get(key)):
            match = TOOL_ENTRY.fullmatch(entry) if isinstance(entry, str) else None
            if match is not None and match["tool"] in (SHELL_TOOL, "ShellTool"):
                prefix = (match["prefix"] or ANY_COMMAND).removesuffix(":*")
                yield OwnRule(effect, prefix, file.path, TIER_RANKS[file.scope] + rank)


def parse_policy_rules(file: RuleFile) -> Iterator[OwnRule]:
    for rule in map(as_object, as_array(as_object(msgspec.toml.decode(file.content)).get("rule"))):
        effect = DECISIONS.get(rule.get("decision"))
        named = rule.get("toolName", ANY_COMMAND)
        tools = {tool for tool in as_array(named) or [named] if isinstance(tool, str)}
        if effect is None or not tools & {SHELL_TOOL, ANY_COMMAND}:
            continue
        priority = rule.get("priority", 0)
        rank = TIER_RANKS[file.scope] + (priority / 1000 if isinstance(priority, int | float) else 0)
        given = rule.get("commandPrefix")
        prefixes = [item for item in (as_array(given) or [given]) if isinstance(item, str)]
        if not prefixes:
            prefixes = [SOME_COMMANDS if NARROWING_KEYS & set(rule) else ANY_COMMAND]
        yield from (OwnRule(effect, prefix, file.path, rank) for prefix in prefixes)


def evaluate(rules: OwnRules, command: ShellCommand, mode: str, words: Sequence[str]) -> Permission:
    """Return the verdict of the rules on a command for the launcher.

    A denied command is denied. Gemini's policy must see any other command in its original form, unless the client was
    started to ask nothing and no rule concerns the command.
    """
    parts = command.parts or (CommandPart(command.text),)
    # Each spelling for itself: an allow of one hides no deny of another.
    texts = [text for part in parts for text in sorted(part.spellings)]
    found = [next((rule for rule in rules.rules if matches_prefix(rule.text, text)), None) for text in texts]
    matches = [rule for rule in found if rule is not None]
    denied = next((rule for rule in matches if rule.effect == "deny" and rule.text != SOME_COMMANDS), None)
    if denied is not None:
        return Permission("deny", denied)
    asks = next((rule for rule in matches if rule.effect != "allow"), None)
    asks_nothing = YOLO_OPTIONS & set(words) or ("--approval-mode", "yolo") in pairwise(words)
    return Permission("as written", asks) if asks or rules.unreadable or not asks_nothing else Permission("agent")


def matches_prefix(prefix: str, text: str) -> bool:
    """Return True if a rule applies to a command: the prefix must end at a word boundary."""
    is_any = prefix in (ANY_COMMAND, SOME_COMMANDS)
    return is_any or text == prefix or re.match(re.escape(prefix) + r"(?![\w-])", text) is not None
