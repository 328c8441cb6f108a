"""Gemini CLI's rules: the files of its policy engine, and `tools` in its settings.

Gemini applies its policy to the command that the hook returns, never to the model's command. Sources: Gemini CLI 0.61.0
(its bundle's `evaluateBeforeToolHook`, `checkPolicy`), run with rules of each decision; read 2026-11.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from remit.adapters.payload import JsonObject
from remit.core.json_guards import as_array, as_object
from remit.core.shell.permissions import CommandPart, OwnRule, OwnRules, Permission, RuleEffect, RuleFile, ShellCommand

SHELL_TOOL = "run_shell_command"
DECISIONS: dict[object, RuleEffect] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
TIER_RANKS = {"nearby": 3.0, "project": 3.0, "user": 4.0, "managed": 5.0}
"""First digit of a rule's rank; the rule's own priority follows as thousandths."""

SETTINGS_LISTS = {"allowed": ("allow", 0.3), "exclude": ("deny", 0.4)}
"""Lists in `tools` of the settings, with effect and rank within the tier."""

TOOL_ENTRY = re.compile(r"(?P<tool>\w+)(?:\((?P<prefix>.*)\))?", re.DOTALL)
YOLO_OPTIONS = frozenset({"--yolo", "-y", "--approval-mode=yolo"})
ANY_COMMAND = "*"
SOME_COMMANDS = "?"
"""Prefix of rules for some commands that cannot be determined here."""


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
    tools = as_object(as_object(msgspec.json.decode(strip_comments(file.content))).get("tools"))
    for key, (effect, rank) in SETTINGS_LISTS.items():
        for entry in as_array(tools.get(key)):
            match = TOOL_ENTRY.fullmatch(entry) if isinstance(entry, str) else None
            if match is not None and match["tool"] in (SHELL_TOOL, "ShellTool"):
                effect_of: RuleEffect = "allow" if effect == "allow" else "deny"
                yield OwnRule(
                    effect_of,
                    (match["prefix"] or ANY_COMMAND).removesuffix(":*"),
                    file.path,
                    TIER_RANKS[file.scope] + rank,
                )


def strip_comments(content: bytes) -> bytes:
    """Return the JSON of a settings file without comments, which the client tolerates."""
    return re.sub(
        rb'("(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?',
        lambda found: found[1] or b"",
        content,
        flags=re.DOTALL,
    )


def parse_policy_rules(file: RuleFile) -> Iterator[OwnRule]:
    for entry in as_array(as_object(msgspec.toml.decode(file.content)).get("rule")):
        rule = as_object(entry)
        effect = DECISIONS.get(rule.get("decision"))
        named = rule.get("toolName", ANY_COMMAND)
        tools = as_array(named) or [named]
        if effect is None or not ({SHELL_TOOL, ANY_COMMAND} & {tool for tool in tools if isinstance(tool, str)}):
            continue
        priority = rule.get("priority", 0)
        rank = TIER_RANKS[file.scope] + (priority / 1000 if isinstance(priority, int | float) else 0)
        for prefix in find_rule_prefixes(rule):
            yield OwnRule(effect, prefix, file.path, rank)


def find_rule_prefixes(rule: JsonObject) -> list[str]:
    given = rule.get("commandPrefix")
    listed = [item for item in (as_array(given) or [given]) if isinstance(item, str)]
    if listed:
        return listed
    narrowed = {"commandRegex", "argsPattern", "modes", "mcpName", "toolAnnotations", "interactive"} & set(rule)
    return [SOME_COMMANDS if narrowed else ANY_COMMAND]


def evaluate(rules: OwnRules, command: ShellCommand, mode: str, words: Sequence[str]) -> Permission:
    """Return the verdict of the rules on a command for the launcher.

    A denied command is denied. Gemini's policy must see any other command in its original form, unless the client was
    started to ask nothing and no rule concerns the command.
    """
    parts = command.parts or (CommandPart(command.text),)
    matches = [next((rule for rule in rules.rules if matches_prefix(rule.text, part)), None) for part in parts]
    denied = next(
        (match for match in matches if match is not None and match.effect == "deny" and match.text != SOME_COMMANDS),
        None,
    )
    if denied is not None:
        return Permission("deny", denied)
    asks = next((match for match in matches if match is not None and match.effect != "allow"), None)
    if asks is not None or rules.unreadable or not is_yolo(words):
        return Permission("as written", asks)
    return Permission("agent")


def matches_prefix(prefix: str, part: CommandPart) -> bool:
    """Return True if a rule applies to a part: the prefix must end at a word boundary."""
    if prefix in (ANY_COMMAND, SOME_COMMANDS):
        return True
    return any(text == prefix or re.match(re.escape(prefix) + r"(?![\w-])", text) for text in part.spellings)


def is_yolo(words: Sequence[str]) -> bool:
    """Return True if the client was started to ask nothing."""
    pairs = zip(words, [*words[1:], ""], strict=False)
    return bool(YOLO_OPTIONS & set(words)) or ("--approval-mode", "yolo") in pairs
