"""Gemini CLI's rules: the files of its policy engine, and `tools` of its settings.

It asks its policy about the command that the hook leaves, never about the one that the model gave. Sources: Gemini CLI
0.61.0 (its bundle's `evaluateBeforeToolHook`, `checkPolicy`), run with rules of each decision; read 2026-11.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from remit.adapters.payload import JsonObject, as_list, as_mapping
from remit.core.shell.permissions import CommandPart, OwnRule, OwnRules, Permission, RuleEffect, RuleFile, ShellCommand

SHELL_TOOL = "run_shell_command"
DECISIONS: dict[object, RuleEffect] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
TIER_RANKS = {"nearby": 3.0, "project": 3.0, "user": 4.0, "managed": 5.0}
"""The first digit of a rule's rank; its own priority follows as thousandths."""

SETTINGS_LISTS = {"allowed": ("allow", 0.3), "exclude": ("deny", 0.4)}
"""The lists in `tools` of the settings, with their effect and rank in the tier."""

TOOL_ENTRY = re.compile(r"(?P<tool>\w+)(?:\((?P<prefix>.*)\))?", re.DOTALL)
YOLO_OPTIONS = frozenset({"--yolo", "-y", "--approval-mode=yolo"})
ANY_COMMAND = "*"
SOME_COMMANDS = "?"
"""In place of the prefix of a rule: it is for some commands, and which cannot be told here."""


def read_rules(files: Sequence[RuleFile], words: Sequence[str]) -> OwnRules:
    """Return the rules of these files that speak of shell commands. A rule's text is the prefix that it is for."""
    found: list[OwnRule] = []
    unreadable: list[str] = []
    for file in files:
        try:
            found += parse_policy_rules(file) if file.path.endswith(".toml") else parse_settings_rules(file)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
            unreadable.append(file.path)
    return OwnRules(tuple(sorted(found, key=lambda rule: -rule.rank)), tuple(unreadable))


def parse_settings_rules(file: RuleFile) -> Iterator[OwnRule]:
    """Yield the rules in the `tools` of a settings file."""
    tools = as_mapping(as_mapping(msgspec.json.decode(strip_comments(file.content))).get("tools"))
    for key, (effect, rank) in SETTINGS_LISTS.items():
        for entry in as_list(tools.get(key)):
            shape = TOOL_ENTRY.fullmatch(entry) if isinstance(entry, str) else None
            if shape is not None and shape["tool"] in (SHELL_TOOL, "ShellTool"):
                effect_of: RuleEffect = "allow" if effect == "allow" else "deny"
                yield OwnRule(
                    effect_of,
                    (shape["prefix"] or ANY_COMMAND).removesuffix(":*"),
                    file.path,
                    TIER_RANKS[file.scope] + rank,
                )


def strip_comments(content: bytes) -> bytes:
    """Return the JSON of a settings file without its comments, which the client puts up with."""
    return re.sub(
        rb'("(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?',
        lambda found: found[1] or b"",
        content,
        flags=re.DOTALL,
    )


def parse_policy_rules(file: RuleFile) -> Iterator[OwnRule]:
    """Yield the rules of a policy file."""
    for entry in as_list(as_mapping(msgspec.toml.decode(file.content)).get("rule")):
        rule = as_mapping(entry)
        effect = DECISIONS.get(rule.get("decision"))
        named = rule.get("toolName", ANY_COMMAND)
        tools = as_list(named) or [named]
        if effect is None or not ({SHELL_TOOL, ANY_COMMAND} & {tool for tool in tools if isinstance(tool, str)}):
            continue
        priority = rule.get("priority", 0)
        rank = TIER_RANKS[file.scope] + (priority / 1000 if isinstance(priority, int | float) else 0)
        for prefix in find_rule_prefixes(rule):
            yield OwnRule(effect, prefix, file.path, rank)


def find_rule_prefixes(rule: JsonObject) -> list[str]:
    """Return the prefixes that a rule is for."""
    given = rule.get("commandPrefix")
    listed = [one for one in (as_list(given) or [given]) if isinstance(one, str)]
    if listed:
        return listed
    narrowed = {"commandRegex", "argsPattern", "modes", "mcpName", "toolAnnotations", "interactive"} & set(rule)
    return [SOME_COMMANDS if narrowed else ANY_COMMAND]


def evaluate(rules: OwnRules, command: ShellCommand, mode: str, words: Sequence[str]) -> Permission:
    """Return what the rules say of a command that is to be run by the launcher.

    A command that a rule denies is denied. Any other the policy has to see as it was written, unless the client was
    started to ask nothing, and no rule speaks of the command.
    """
    parts = command.parts or (CommandPart(command.text),)
    hits = [next((rule for rule in rules.rules if matches_prefix(rule.text, part)), None) for part in parts]
    denied = next((hit for hit in hits if hit is not None and hit.effect == "deny" and hit.text != SOME_COMMANDS), None)
    if denied is not None:
        return Permission("deny", denied)
    asks = next((hit for hit in hits if hit is not None and hit.effect != "allow"), None)
    if asks is not None or rules.unreadable or not is_yolo(words):
        return Permission("as written", asks)
    return Permission("agent")


def matches_prefix(prefix: str, part: CommandPart) -> bool:
    """Whether a rule is for a part: its prefix ends where a word does."""
    if prefix in (ANY_COMMAND, SOME_COMMANDS):
        return True
    return any(text == prefix or re.match(re.escape(prefix) + r"(?![\w-])", text) for text in part.spellings)


def is_yolo(words: Sequence[str]) -> bool:
    """Whether the client was started to ask nothing."""
    pairs = zip(words, [*words[1:], ""], strict=False)
    return bool(YOLO_OPTIONS & set(words)) or ("--approval-mode", "yolo") in pairs
