"""A shell command, parsed in two ways: cut into words, and as a syntax tree of bash.

Almost every text has words; only a text known to the grammar has a tree, the basis of proofs. The grammar reads some
texts differently from bash: the text between the nodes must be blanks, with new lines only between statements.
"""

import re
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from remit.core.shell_commands import SimpleCommand, parse_simple_commands
from remit.policy.commands.words import UnprovedCommand, node_source, word_set

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_CACHED = 16  # Parsed commands that are kept: the gate and several checks ask about each call
MAX_DEPTH = 60  # Levels of the syntax tree
MAX_NODES = 5000  # Nodes of the syntax tree, so that no text takes long

MAX_OPENINGS = 2000
"""Openings to which the parser returns in a text with errors, for a time that grows with their square."""

OPENING = re.compile(r"[|()]|\[\[|<<")
HERE_DOCUMENT = re.compile(r"<<-?[ \t]*[\\'\"]?([\w.-]+)")

BLANKS = re.compile(rb"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")
WORD_SEPARATOR = re.compile(rb"[ \t](?:[ \t]|\\\n)*")
NEW_LINE = re.compile(rb"(?:^|[^\\])\n")

PUNCTUATION = word_set("; & && || | |& ( ) { }")


class ParsedCommand:
    """A command's text; each way of parsing runs when first asked for, and its result is kept."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def masked(self) -> str:
        try:
            return mask_text(self.text)
        except UnicodeEncodeError as error:
            raise UnprovedCommand("the command is not valid Unicode") from error

    @cached_property
    def commands(self) -> tuple[SimpleCommand, ...]:
        """The simple commands in order, those inside substitutions included. Raises UnreadableShell."""
        return parse_simple_commands(self.text)

    @cached_property
    def tree(self) -> "Node":
        return parse_tree(self.masked)


@lru_cache(MAX_CACHED)
def parse_command(text: str) -> ParsedCommand:
    return ParsedCommand(text)


def mask_text(text: str) -> str:
    """Return the text with each byte of a character outside ASCII written as two letters from à to ï.

    The scanner of tree-sitter-bash 0.25.1 asks C's `isdigit` and `isalpha` about characters for which their tables have
    no entry: a command such as `{` with a rare character would end the process.
    """
    if text.isascii():
        return text
    pairs = (f"{chr(0xE0 + (b >> 4))}{chr(0xE0 + (b & 15))}" if b > 127 else chr(b) for b in text.encode())
    return "".join(pairs)


def unmask_text(text: str) -> str:
    """Return the text that was masked; of a part cut in the middle, as much as can be decoded."""

    def unmask(found: re.Match[str]) -> str:
        digits = "".join(f"{ord(letter) - 0xE0:x}" for letter in found[0])
        return bytes.fromhex(digits).decode("utf-8", "replace")

    return re.sub(r"(?:[\xe0-\xef]{2})+", unmask, text)


@cache
def load_language() -> "Language":
    # Imported here, not above: a call without a command must not pay for the grammar at its start.
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def parse_tree(text: str) -> "Node":
    """Return the syntax tree of a text. Raises UnprovedCommand for what the grammar does not know or must not see."""
    from tree_sitter import Parser

    if not text.isascii() and max(text) > "\xff":
        raise UnprovedCommand("the command holds characters that are not read here")
    if sum(len(OPENING.findall(line)) for line in lines_outside_documents(text)) > MAX_OPENINGS:
        raise UnprovedCommand(f"the command has more than {MAX_OPENINGS} pipes, brackets or here-documents")
    # A parser for each text: it works on one at a time, and the daemon judges several calls at once.
    root = Parser(load_language()).parse(text.encode()).root_node
    if root.has_error:
        raise UnprovedCommand("the command is not understood as bash")
    level, seen = [root], 0
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in node.children]
        seen += len(level)
        if not level:
            return root
        if seen > MAX_NODES:
            raise UnprovedCommand(f"the command has more than {MAX_NODES} parts")
    raise UnprovedCommand(f"the command is nested more than {MAX_DEPTH} deep")


def lines_outside_documents(text: str) -> list[str]:
    found: list[str] = []
    inside: list[str] = []
    ends = ""
    for line in text.split("\n"):
        if not ends:
            found.append(line)
            ends = next((mark[1] for mark in HERE_DOCUMENT.finditer(line)), "")
        elif line.strip("\t") == ends:
            ends, inside = "", []
        else:
            inside.append(line)
    return found + inside


class TreeText:
    """The bytes of a text, for checks of the text between the nodes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def children(self, node: "Node") -> list["Node"]:
        children, end = node.children, node.start_byte
        for child in children:
            if not BLANKS.fullmatch(self.raw[end : child.start_byte]):
                break
            end = child.end_byte
        else:
            if BLANKS.fullmatch(self.raw[end : node.end_byte]):
                return children
        raise UnprovedCommand(f"{node_source(node)[:60]!r} is not understood")

    def check_separated(self, nodes: list["Node"]) -> list["Node"]:
        for left, right in pairwise(nodes):
            if not WORD_SEPARATOR.fullmatch(self.raw[left.end_byte : right.start_byte]):
                raise UnprovedCommand(f"{node_source(left)[:30]!r} and {node_source(right)[:30]!r} may be one word")
        return nodes

    def check_start(self, before: "Node | None", child: "Node") -> None:
        """Raise UnprovedCommand unless a statement follows an operator, a new line, or an assignment an assignment."""
        if before is None or child.type == "comment" or before.type in PUNCTUATION:
            return
        gap = self.raw[before.end_byte : child.start_byte]
        loose = not before.is_named or child.type in ("variable_assignment", "elif_clause", "else_clause")
        if not (gap if loose else NEW_LINE.search(gap)):
            raise UnprovedCommand(f"{node_source(child)[:60]!r} may belong to what is before it")

    def check_comment(self, node: "Node") -> None:
        """Raise UnprovedCommand unless a comment begins a word; elsewhere `#` is an ordinary character."""
        before = self.raw[max(node.start_byte - 2, 0) : node.start_byte]
        if b"\n" in (node.text or b"") or (before and (before[-1:] not in b" \t\n;" or before[:-1] == b"\\")):
            raise UnprovedCommand("a comment is not understood")
