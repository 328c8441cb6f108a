"""The simple commands of a command, as an agent's own permission rules are compared with them."""

import re
from typing import TYPE_CHECKING

from remit.core.permission import CommandPart, ShellCommand
from remit.core.shell import SimpleCommand, UnreadableShell, simple_commands
from remit.policy.commands.analysis import analyse
from remit.policy.commands.syntax import parse
from remit.policy.commands.words import Refused, source

if TYPE_CHECKING:
    from tree_sitter import Node

JOINS = frozenset({"&&", "||", ";", "|", "\n"})
HOLDS = frozenset({"program", "list", "pipeline"})
RUNS_MORE = frozenset({"command_substitution", "process_substitution", "heredoc_redirect", "herestring_redirect"})
HARMLESS = frozenset({"2>&1", "1>&2", ">&2", ">/dev/null", "2>/dev/null", "1>/dev/null", "&>/dev/null", "</dev/null"})

SEPARATORS = re.compile(r"[;&|()\n]+")
ANSI_C = re.compile(r"\$'[^'\\]*'")
MAX_PARTS = 100
MAX_CHARS = 20_000
"""Characters of a command that is cut into parts; a longer one is not plain."""


def command_parts(text: str) -> ShellCommand:
    """Return the command in its parts. What cannot be read is no plain command, and never raises."""
    try:
        found = tuple(loose_part(one) for one in simple_commands(text))
    except UnreadableShell:
        found = tuple(CommandPart(piece, tuple(piece.split())) for piece in SEPARATORS.split(text))
    if len(text) > MAX_CHARS or not text.isascii():
        return ShellCommand(text, found)
    try:
        root = parse(text)
    except Refused:
        return ShellCommand(text, found)
    collected: list[str] = []
    redirects: list[str] = []
    plain = not root.has_error and collect_plain(root, collected, redirects)
    if not plain or not 0 < len(collected) <= MAX_PARTS:
        return ShellCommand(text, (*found, CommandPart(text)), redirects=bool(redirects))
    return ShellCommand(text, (*map(plain_part, collected),), plain=True, redirects=bool(redirects))


def collect_plain(node: "Node", parts: list[str], redirects: list[str]) -> bool:
    """Add the texts of the commands below `node`; whether nothing else stands there."""
    if node.type in HOLDS:
        return all(collect_plain(child, parts, redirects) for child in node.children)
    if node.type == "redirected_statement":
        body, *others = node.children
        redirects += ["".join(source(one).split()) for one in others]
        return set(redirects) <= HARMLESS and collect_plain(body, parts, redirects)
    if node.type == "command":
        parts.append(source(node))
        return not runs_more(node)
    return node.type in JOINS


def runs_more(node: "Node") -> bool:
    """Whether a substitution or a here-document stands below `node`."""
    return any(child.type in RUNS_MORE or runs_more(child) for child in node.children)


def plain_part(text: str) -> CommandPart:
    """Return the part of that text."""
    try:
        [one] = simple_commands(text)
    except (UnreadableShell, ValueError):
        return CommandPart(text)
    literal = all(word.literal for word in one.words)
    return CommandPart(text, words_of(one), literal=literal, reads=literal and analyse(text).outcome == "read_only")


def loose_part(one: SimpleCommand) -> CommandPart:
    """Return a part of a command that is not plain."""
    return CommandPart(" ".join(words_of(one)), words_of(one))


def words_of(one: SimpleCommand) -> tuple[str, ...]:
    """Return the words without their quotes, `$'…'` included."""
    return tuple(word.text[2:-1] if ANSI_C.fullmatch(word.text) else word.text for word in one.words)
