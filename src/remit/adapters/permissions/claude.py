"""Claude Code's permission rules: `permissions.allow`, `ask` and `deny` in its settings, and its command line.

In doubt, a rule that asks or denies counts as matching, and a rule that allows does not. Sources: Claude Code 2.1.330,
run with rules of each form; its pages on permissions and permission modes; read 2026-11.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

from remit.core.shell_commands import OwnRule, OwnRules, Permission, RuleEffect, RuleFile, ShellCommand
from remit.core.untrusted_input import as_array, as_object

BOM = b"\xef\xbb\xbf"
EFFECTS: tuple[RuleEffect, ...] = ("deny", "ask", "allow")
BASH_RULE = re.compile(r"Bash(?:\((?P<content>.*)\))?", re.DOTALL)
FILE_RULE = re.compile(r"(?:Read|Edit|Write|NotebookEdit)\((?P<content>.+)\)", re.DOTALL)
UNASKED_PROGRAMS = frozenset(
    ["cat", "cd", "diff", "du", "echo", "find", "grep", "head", "ls", "pwd", "stat", "tail", "true", "wc", "which"]
)
"""Programs that Claude Code runs without asking if they only read, by its documentation; git is left out."""

TOOL_WIDE = ("Bash", "Bash(*)")  # Rules that apply to all commands

RULE_OPTIONS: dict[str, RuleEffect] = {
    "--allowedTools": "allow",
    "--allowed-tools": "allow",
    "--disallowedTools": "deny",
    "--disallowed-tools": "deny",
}
ANSWERING_OPTIONS = frozenset(
    [
        *("--permission-prompt-tool", "--input-format", "--output-format", "--sdk-url", "--print"),
        *("--plugin-dir", "--add-dir", "--agents"),
    ]
)
"""Options with which no person answers a question at the terminal, or that bring hooks which may."""

SHORT_PRINT = re.compile(r"-[A-Za-z]*p[A-Za-z]*")
DIALOG_MODES = frozenset(["default", "acceptEdits", "plan"])
"""Permission modes that leave questions to the person. In 2.1.332 a hook's question waits at the terminal in all modes;
the words of the others say that nobody is asked, or a model decides.
"""

RULE = re.compile(r"[^\s,(]+(?:\((?:[^()]|\([^()]*\))*\))?")
"""One rule in the value of such an option; commas or blanks separate rules."""


def read_rules(files: Sequence[RuleFile], words: Sequence[str]) -> OwnRules:
    """Return the rules in these files and on the agent's command line."""
    found: list[OwnRule] = []
    unreadable: list[str] = []
    managed_only = False
    for file in files:
        try:
            document = as_object(msgspec.json.decode(file.content.removeprefix(BOM)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            unreadable.append(file.path)
            continue
        managed_only |= file.scope == "managed" and document.get("allowManagedPermissionRulesOnly") is True
        permissions = as_object(document.get("permissions"))
        for effect in EFFECTS if file.scope != "nearby" else ("deny", "ask"):
            rules = (rule for rule in as_array(permissions.get(effect)) if isinstance(rule, str))
            shell_rules = (rule for rule in rules if BASH_RULE.fullmatch(rule) or FILE_RULE.fullmatch(rule))
            found += (OwnRule(effect, rule, file.path) for rule in shell_rules)
    # An option of the command line takes all words up to the next option.
    option: RuleEffect | None = None
    for word in words[1:]:
        name, joined, value = word.partition("=")
        if word.startswith("-"):
            option, word = RULE_OPTIONS.get(name), value if joined else ""
        if option is not None:
            named = (rule for rule in RULE.findall(word) if BASH_RULE.fullmatch(rule))
            found += (OwnRule(option, rule, "the command line") for rule in named)
    if managed_only:
        managed = {file.path for file in files if file.scope == "managed"}
        found = [rule for rule in found if rule.effect != "allow" or rule.path in managed]
    return OwnRules(tuple(found), tuple(unreadable))


def find_other_answerer(files: Sequence[RuleFile], words: Sequence[str]) -> str:
    """Return what may answer a hook's question about a command in the person's place; empty for nothing."""
    for word in words[1:]:
        if word.partition("=")[0] in ANSWERING_OPTIONS or SHORT_PRINT.fullmatch(word):
            return f"its option {word.partition('=')[0]}"
    for file in files:
        try:
            document = as_object(msgspec.json.decode(file.content.removeprefix(BOM)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return f"{file.path}, which cannot be read"
        if as_object(document.get("hooks")).get("PermissionRequest"):
            return f"the PermissionRequest hook of {file.path}"
        plugins = as_object(document.get("enabledPlugins"))
        if plugin := next((name for name, is_enabled in plugins.items() if is_enabled), None):
            return f"a hook of the plugin {plugin!r} of {file.path}"
    return ""


def is_session_project(folder: str, transcript: str | None) -> bool:
    """Return True if a folder is the session's project: the transcript's folder is named after the project."""
    named = (transcript or "").split("/")[-2:-1]
    return named == [re.sub(r"[^A-Za-z0-9]", "-", folder)]


def evaluate(rules: OwnRules, command: ShellCommand, mode: str, words: Sequence[str]) -> Permission:
    """Return the verdict of Claude Code's own rules on a command for the launcher.

    Without a matching rule a person is asked, except in two modes: `bypassPermissions` allows, and in `auto` a model
    decides, which reads the launcher's command.
    """
    for effect in ("deny", "ask"):
        for rule in rules.rules:
            if rule.effect == effect and may_match_rule(rule.text, command):
                return Permission(effect, rule)
    if rules.unreadable:
        return Permission("ask")
    if mode == "bypassPermissions":
        return Permission("agent")
    allowing = [rule for rule in rules.rules if rule.effect == "allow"]
    if mode == "auto":
        return find_permission(allowing, command, exactly=True) or Permission("agent")
    return find_permission(allowing, command) or Permission("ask")


def find_permission(rules: Sequence[OwnRule], command: ShellCommand, *, exactly: bool = False) -> Permission | None:
    if not command.plain:
        tool_wide = next((rule for rule in rules if rule.text in TOOL_WIDE), None)
        return Permission("allow", tool_wide) if tool_wide is not None and not exactly else None
    found: OwnRule | None = None
    for part in command.parts:
        rule = next((rule for rule in rules if allow_rule_covers(rule.text, part.text, exactly=exactly)), None)
        # Without asking Claude Code runs what is in its table, proved to read only, below the folder.
        outside = any(word.startswith(("/", "~")) or ".." in word.split("/") for word in part.words)
        unasked = part.reads and part.words[:1] and part.words[0] in UNASKED_PROGRAMS and not outside
        if rule is None and (exactly or not unasked):
            return None
        found = found or rule
    return Permission("allow", found) if found is not None else None


def allow_rule_covers(rule: str, text: str, *, exactly: bool) -> bool:
    match = BASH_RULE.fullmatch(rule)
    if match is None:
        return False
    content = match["content"]
    if exactly or rule in TOOL_WIDE or not content or "*" not in content:
        return text == content or (not exactly and rule in TOOL_WIDE)
    if content.endswith(":*"):
        prefix = content[:-2]
        return bool(prefix) and "*" not in prefix and (text == prefix or text.startswith(f"{prefix} "))
    return "\n" not in text and matches_pattern(content, text)


def may_match_rule(rule: str, command: ShellCommand) -> bool:
    match = BASH_RULE.fullmatch(rule)
    if match is None:
        return may_match_file_rule(rule, command)
    content = strip_quotes(match["content"] or "*")
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
    """Return a text without quotes and with single blanks: quoting must not bypass a rule."""
    return " ".join(text.replace("'", "").replace('"', "").replace("\\", "").split())


def may_match_file_rule(rule: str, command: ShellCommand) -> bool:
    match = FILE_RULE.fullmatch(rule)
    if match is None:
        return False
    pattern = match["content"].removeprefix("./").removeprefix("~/").lstrip("/")
    last = pattern.rsplit("/", 1)[-1]
    pattern = pattern.removesuffix("/**")
    words = (word.removeprefix("./") for part in command.parts for word in part.words[1:])
    for word in words:
        is_match = fnmatchcase(word, pattern) or fnmatchcase(word, f"{pattern}/*") or fnmatchcase(word, f"*/{pattern}")
        if is_match or (last not in ("*", "**") and fnmatchcase(word.rsplit("/", 1)[-1], last)):
            return True
    return False


def matches_pattern(content: str, text: str) -> bool:
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
