"""A shell command, parsed in two ways: cut into words, and as a syntax tree of bash.

The words can be had of almost every text; the tree only of a text that the grammar knows, and then proofs rest on it.
"""

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from remit.core.shell.simple_commands import SimpleCommand, parse_simple_commands
from remit.policy.commands.parse.syntax_tree import mask_text, parse_tree

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_CACHED = 16
"""Parsed commands that are kept: the gate and several checks ask about each call."""


class ParsedCommand:
    """A command's text; each way of parsing runs when first asked for, and its result is kept."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def masked(self) -> str:
        return mask_text(self.text)

    @cached_property
    def commands(self) -> tuple[SimpleCommand, ...]:
        """The simple commands in order, those inside substitutions included. Raises UnreadableShell."""
        return parse_simple_commands(self.text)

    @cached_property
    def tree(self) -> "Node":
        """The root of the masked text's syntax tree. Raises UnprovedCommand."""
        return parse_tree(self.masked)


@lru_cache(MAX_CACHED)
def parse_command(text: str) -> ParsedCommand:
    return ParsedCommand(text)
