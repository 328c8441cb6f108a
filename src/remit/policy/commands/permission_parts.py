"""The simple commands of a command, as an agent's own permission rules are compared with them."""

import re
from typing import TYPE_CHECKING

from remit.core.shell_commands import CommandPart, ShellCommand, SimpleCommand, UnreadableShell
from remit.policy.commands.analysis import analyse
from remit.policy.commands.parsed_command import parse_command
from remit.policy.commands.words import UnprovedCommand, node_source

if TYPE_CHECKING:
    from tree_sitter import Node

JOINING_OPERATORS = frozenset({"&&", "||", ";", "|", "\n"})
CONTAINER_NODES = frozenset({"program", "list", "pipeline"})
NESTED_COMMANDS = frozenset({"command_substitution", "process_substitution", "heredoc_redirect", "herestring_redirect"})
HARMLESS_REDIRECTS = frozenset(
    {"2>&1", "1>&2", ">&2", ">/dev/null", "2>/dev/null", "1>/dev/null", "&>/dev/null", "</dev/null"}
)

SEPARATORS = re.compile(r"[;&|()\n]+")
ANSI_C = re.compile(r"\$'[^'\\]*'")
MAX_PARTS = 100
MAX_CHARS = 20_000  # Characters of a command that is cut into parts; a longer one is not plain


def split_command(text: str) -> ShellCommand:
    """Return the command in its parts; an unreadable command is not plain. Never raises."""
    command = parse_command(text)
    try:
        loose = tuple(CommandPart(" ".join(words), words) for words in map(unquoted_words, command.commands))
    except UnreadableShell:
        loose = tuple(CommandPart(piece, tuple(piece.split())) for piece in SEPARATORS.split(text))
    if len(text) > MAX_CHARS or not text.isascii():
        return ShellCommand(text, loose)
    try:
        root = command.tree
    except UnprovedCommand:
        return ShellCommand(text, loose)
    texts: list[str] = []
    redirects: list[str] = []
    plain = not root.has_error and collect_commands(root, texts, redirects)
    if not plain or not 0 < len(texts) <= MAX_PARTS:
        return ShellCommand(text, (*loose, CommandPart(text)), redirects=bool(redirects))
    return ShellCommand(text, (*map(make_plain_part, texts),), plain=True, redirects=bool(redirects))


def collect_commands(node: "Node", texts: list[str], redirects: list[str]) -> bool:
    if node.type in CONTAINER_NODES:
        return all(collect_commands(child, texts, redirects) for child in node.children)
    if node.type == "redirected_statement":
        body, *others = node.children
        redirects += ["".join(node_source(one).split()) for one in others]
        return set(redirects) <= HARMLESS_REDIRECTS and collect_commands(body, texts, redirects)
    if node.type == "command":
        texts.append(node_source(node))
        return not has_nested_command(node)
    return node.type in JOINING_OPERATORS


def has_nested_command(node: "Node") -> bool:
    return any(child.type in NESTED_COMMANDS or has_nested_command(child) for child in node.children)


def make_plain_part(text: str) -> CommandPart:
    try:
        [command] = parse_command(text).commands
    except (UnreadableShell, ValueError):
        return CommandPart(text)
    literal = all(word.literal for word in command.words)
    reads = literal and analyse(text).outcome == "read_only"
    return CommandPart(text, unquoted_words(command), literal=literal, reads=reads)


def unquoted_words(command: SimpleCommand) -> tuple[str, ...]:
    return tuple(word.text[2:-1] if ANSI_C.fullmatch(word.text) else word.text for word in command.words)
