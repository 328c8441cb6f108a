"""Codex CLI's rules: `prefix_rule(…)` in the `.rules` files of its folders.

The files are Starlark. Only files that call nothing but `prefix_rule` with literals are read, as Codex writes them
itself; the rules of other files count as unknown, and Codex must see the original command. Sources: Codex CLI 0.169.0,
run with rules of each decision; its page on rules; read 2026-11.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from remit.core.python_runtime import prepare_type
from remit.core.shell_commands import OwnRule, OwnRules, Permission, RuleEffect, RuleFile, ShellCommand

PrefixPattern: TypeAlias = list[str | list[str]]
DECISIONS: dict[str, RuleEffect] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}


def read_rules(files: Sequence[RuleFile], words: Sequence[str]) -> OwnRules:
    found: list[OwnRule] = []
    unreadable: list[str] = []
    for file in files:
        try:
            found += parse_prefix_rules(ast.parse(file.content), file.path)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            unreadable.append(file.path)
    return OwnRules(tuple(found), tuple(unreadable))


def parse_prefix_rules(tree: ast.Module, path: str) -> Iterator[OwnRule]:
    """Yield the rules of one file. Raises ValueError for any other statement."""
    for statement in tree.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Constant) and isinstance(call.value, str):
            continue
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("it is no list of rules")
        if call.func.id == "host_executable":
            continue
        given: dict[str | None, object] = {item.arg: ast.literal_eval(item.value) for item in call.keywords}
        effect = DECISIONS.get(str(given.get("decision", "allow")))
        if call.func.id != "prefix_rule" or call.args or effect is None:
            raise ValueError("it is no list of rules")
        yield OwnRule(
            effect,
            msgspec.json.encode(msgspec.convert(given.get("pattern"), prepare_type(PrefixPattern))).decode(),
            path,
        )


def evaluate(rules: OwnRules, command: ShellCommand, mode: str, words: Sequence[str]) -> Permission:
    """Return the strictest verdict of all rules that match a part of the command.

    Without a match, Codex applies its approval policy and sandbox, whatever the command.
    """
    invocations = [words for part in command.parts for words in part.invocations]
    for effect in ("deny", "ask"):
        for rule in rules.rules:
            if rule.effect == effect and any(matches_prefix(words, rule.text) for words in invocations):
                return Permission("deny" if effect == "deny" else "as written", rule)
    return Permission("as written") if rules.unreadable else Permission("agent")


def matches_prefix(words: Sequence[str], pattern: str) -> bool:
    """Return True if the words begin with a pattern: each place holds a word or a list of alternatives."""
    wanted = msgspec.json.decode(pattern, type=prepare_type(PrefixPattern))
    if len(words) < len(wanted) or not wanted:
        return False
    first = words[0].rsplit("/", 1)[-1]
    given = [{words[0], first}, *({word} for word in words[1 : len(wanted)])]
    choices = ({choice} if isinstance(choice, str) else set(choice) for choice in wanted)
    return all(texts & choice for texts, choice in zip(given, choices, strict=True))
