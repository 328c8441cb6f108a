"""Claude Code's permission rules: `permissions.allow`, `ask` and `deny` of its settings, and of its command line.

Where a doubt is left, a rule that asks or denies counts as matching, and one that allows does not. Sources: Claude
Code 2.1.330, run with rules of each form; its pages on permissions and permission modes; read 2026-11.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from remit.adapters.payload import JsonObject, as_list, as_mapping
from remit.core.shell.permissions import CommandPart, OwnRule, OwnRules, Permission, RuleEffect, RuleFile, ShellCommand

BOM = b"\xef\xbb\xbf"
EFFECTS: tuple[RuleEffect, ...] = ("deny", "ask", "allow")
BASH_RULE = re.compile(r"Bash(?:\((?P<content>.*)\))?", re.DOTALL)
FILE_RULE = re.compile(r"(?:Read|Edit|Write|NotebookEdit)\((?P<content>.+)\)", re.DOTALL)
UNASKED_PROGRAMS = frozenset(
    ["cat", "cd", "diff", "du", "echo", "find", "grep", "head", "ls", "pwd", "stat", "tail", "true", "wc", "which"]
)
"""Programs whose reading forms Claude Code runs unasked, by its documentation; git's are left out."""

RULE_OPTIONS: dict[str, RuleEffect] = {
    "--allowedTools": "allow",
    "--allowed-tools": "allow",
    "--disallowedTools": "deny",
    "--disallowed-tools": "deny",
}
RULE = re.compile(r"[^\s,(]+(?:\((?:[^()]|\([^()]*\))*\))?")
"""One rule in the value of such an option, where commas or blanks stand between them."""


def read_rules(files: Sequence[RuleFile], words: Sequence[str]) -> OwnRules:
    """Return the rules of these files, and of the words that the agent was started with."""
    found: list[OwnRule] = []
    unreadable: list[str] = []
    managed_only = False
    for file in files:
        try:
            document = as_mapping(msgspec.json.decode(file.content.removeprefix(BOM)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            unreadable.append(file.path)
            continue
        managed_only |= file.scope == "managed" and document.get("allowManagedPermissionRulesOnly") is True
        found += [
            rule for rule in parse_settings_rules(document, file) if rule.effect != "allow" or file.scope != "nearby"
        ]
    managed = {file.path for file in files if file.scope == "managed"}
    found += parse_option_rules(words)
    if managed_only:
        found = [rule for rule in found if rule.effect != "allow" or rule.path in managed]
    return OwnRules(tuple(found), tuple(unreadable))


def is_session_project(folder: str, transcript: str | None) -> bool:
    """Whether a folder is the session's project: the transcript lies in a folder that is named for it."""
    named = (transcript or "").split("/")[-2:-1]
    return named == [re.sub(r"[^A-Za-z0-9]", "-", folder)]


def parse_settings_rules(document: JsonObject, file: RuleFile) -> Iterator[OwnRule]:
    """Yield the rules of one settings file that may speak of shell commands."""
    permissions = as_mapping(document.get("permissions"))
    for effect in EFFECTS:
        for rule in as_list(permissions.get(effect)):
            if isinstance(rule, str) and (BASH_RULE.fullmatch(rule) or FILE_RULE.fullmatch(rule)):
                yield OwnRule(effect, rule, file.path)


def parse_option_rules(words: Sequence[str]) -> Iterator[OwnRule]:
    """Yield the rules of the command line. An option takes all words up to the next option."""
    effect: RuleEffect | None = None
    for word in words[1:]:
        name, joined, value = word.partition("=")
        if word.startswith("-"):
            effect = RULE_OPTIONS.get(name)
            word = value if joined else ""
        for rule in RULE.findall(word) if effect is not None else ():
            if effect is not None and BASH_RULE.fullmatch(rule):
                yield OwnRule(effect, rule, "the command line")


def evaluate(rules: OwnRules, command: ShellCommand, mode: str, words: Sequence[str]) -> Permission:
    """Return what Claude Code's own rules say of a command that is to be run by the launcher.

    Without a matching rule a person is asked, but where the mode itself answers: `bypassPermissions` lets pass, in
    `auto` a model decides, which reads the launcher's words.
    """
    for effect in ("deny", "ask"):
        hit = next((rule for rule in rules.rules if rule.effect == effect and may_match_rule(rule.text, command)), None)
        if hit is not None:
            return Permission(effect, hit)
    if rules.unreadable:
        return Permission("ask")
    if mode == "bypassPermissions":
        return Permission("agent")
    allowing = [rule for rule in rules.rules if rule.effect == "allow"]
    if mode == "auto":
        return find_permission(allowing, command, exactly=True) or Permission("agent")
    return find_permission(allowing, command) or Permission("ask")


def find_permission(rules: Sequence[OwnRule], command: ShellCommand, *, exactly: bool = False) -> Permission | None:
    """Return the permission where a rule allows each part of the command; `exactly`: by its whole text.

    In `auto` mode Claude Code sets rules aside that allow any code, and only its own table says which.
    """
    found: OwnRule | None = None
    if not command.plain:
        whole = next((rule for rule in rules if is_tool_wide(rule.text)), None)
        return Permission("allow", whole) if whole is not None and not exactly else None
    for part in command.parts:
        rule = next((rule for rule in rules if allow_rule_covers(rule.text, part.text, exactly=exactly)), None)
        if rule is None and (exactly or not runs_without_question(part)):
            return None
        found = found or rule
    return Permission("allow", found) if found is not None else None


def is_tool_wide(rule: str) -> bool:
    """Whether a rule is for all commands."""
    return rule in ("Bash", "Bash(*)")


def allow_rule_covers(rule: str, text: str, *, exactly: bool) -> bool:
    """Whether an allow rule covers a simple command for certain."""
    shape = BASH_RULE.fullmatch(rule)
    if shape is None:
        return False
    content = shape["content"]
    if exactly or not content or "*" not in content:
        return text == content or (not exactly and is_tool_wide(rule))
    if is_tool_wide(rule):
        return True
    if content.endswith(":*"):
        prefix = content[:-2]
        return bool(prefix) and "*" not in prefix and (text == prefix or text.startswith(f"{prefix} "))
    return "\n" not in text and matches_pattern(content, text)


def runs_without_question(part: CommandPart) -> bool:
    """Whether Claude Code runs a part unasked: it only reads, by our proof and by its own table, below the folder."""
    words = part.words
    outside = any(word.startswith(("/", "~")) or ".." in word.split("/") for word in words)
    return part.reads and bool(words) and words[0] in UNASKED_PROGRAMS and not outside


def may_match_rule(rule: str, command: ShellCommand) -> bool:
    """Whether a rule that asks or denies may be meant for the command, or for one of its parts."""
    shape = BASH_RULE.fullmatch(rule)
    if shape is None:
        return may_match_file_rule(rule, command)
    content = strip_quotes(shape["content"] or "*")
    if content in ("*", ":*"):
        return True
    texts = set(map(strip_quotes, (command.text, *(text for part in command.parts for text in part.spellings))))
    if content.endswith(":*"):
        prefix = content[:-2]
        if "*" not in prefix:
            return any(text.startswith(prefix) for text in texts)
        content = f"{prefix}*"
    if "*" not in content:
        return content in texts
    patterns = (content, content[:-2]) if content.endswith(" *") else (content,)
    return any(matches_pattern(pattern, text) for pattern in patterns for text in texts)


def strip_quotes(text: str) -> str:
    """Return a text without quotes and with single blanks: a doubt about quotes is no way round a rule."""
    return " ".join(text.replace("'", "").replace('"', "").replace("\\", "").split())


def may_match_file_rule(rule: str, command: ShellCommand) -> bool:
    """Whether a rule about files may be meant for a file that the command names."""
    shape = FILE_RULE.fullmatch(rule)
    if shape is None:
        return False
    pattern = shape["content"].removeprefix("./").removeprefix("~/").lstrip("/")
    last = pattern.rsplit("/", 1)[-1]
    pattern = pattern.removesuffix("/**")
    words = (word.removeprefix("./") for part in command.parts for word in part.words[1:])
    for word in words:
        whole = fnmatchcase(word, pattern) or fnmatchcase(word, f"{pattern}/*") or fnmatchcase(word, f"*/{pattern}")
        if whole or (last not in ("*", "**") and fnmatchcase(word.rsplit("/", 1)[-1], last)):
            return True
    return False


def matches_pattern(content: str, text: str) -> bool:
    """Whether a text is of a rule's pattern, in which `*` stands for any text. In time that grows with the text alone:
    a repository may bring the rule, and an agent the command.
    """
    first, *others = content.split("*")
    if not others or not text.startswith(first):
        return text == content
    *middle, last = others
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, max(end, 0))
        if found < 0:
            return False
        at = found + len(piece)
    return at <= end and text.endswith(last)
