"""The syntax tree of a command, and the bytes between its nodes.

The grammar reads some texts differently from bash. Therefore the bytes between nodes are checked as well: they must be
blanks, and new lines only between statements.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.words import UnprovedCommand, node_source

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

MAX_DEPTH = 60
"""Levels of the syntax tree."""

MAX_NODES = 5000
"""Nodes of the syntax tree, so that no text takes long."""

MAX_OPENINGS = 2000
"""Openings to which the parser returns in a text with errors, for a time that grows with their square."""

OPENING = re.compile(r"[|()]|\[\[|<<")
HERE_DOCUMENT = re.compile(r"<<-?[ \t]*[\\'\"]?([\w.-]+)")

BLANKS = re.compile(rb"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")
WORD_SEPARATOR = re.compile(rb"[ \t](?:[ \t]|\\\n)*")
NEW_LINE = re.compile(rb"(?:^|[^\\])\n")

PUNCTUATION = word_set("; & && || | |& ( ) { }")


@cache
def _load_language() -> "Language":
    # Imported here, not above: a call without a command must not pay for the grammar at its start.
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _make_parser() -> "Parser":
    # One for each text: a parser works on one at a time, and the daemon judges several calls at once.
    from tree_sitter import Parser

    return Parser(_load_language())


def mask_text(text: str) -> str:
    """Return the text with each byte of a character outside ASCII written as two letters from à to ï.

    The scanner of tree-sitter-bash 0.25.1 asks C's `isdigit` and `isalpha` about characters for which their tables have
    no entry: a command such as `{` with a rare character would end the process.
    """
    return re.sub(r"[^\x00-\x7f]+", lambda found: "".join(map(mask_byte, found[0].encode())), text)


def mask_byte(byte: int) -> str:
    return chr(0xE0 + (byte >> 4)) + chr(0xE0 + (byte & 15))


def unmask_text(text: str) -> str:
    """Return the text that was masked; of a part cut in the middle, as much as can be decoded."""
    return re.sub(r"(?:[\xe0-\xef]{2})+", lambda found: unmask_pairs(found[0]), text)


def unmask_pairs(pairs: str) -> str:
    halves = [ord(letter) - 0xE0 for letter in pairs]
    return bytes(16 * high + low for high, low in zip(halves[::2], halves[1::2], strict=True)).decode(
        "utf-8", "replace"
    )


def parse_tree(text: str) -> "Node":
    """Return the syntax tree of a text. Raises UnprovedCommand for what the grammar does not know or must not see."""
    if any(character > "\xff" for character in text):
        raise UnprovedCommand("the command holds characters that are not read here")
    if sum(len(OPENING.findall(line)) for line in lines_outside_documents(text)) > MAX_OPENINGS:
        raise UnprovedCommand(f"the command has more than {MAX_OPENINGS} pipes, brackets or here-documents")
    root = _make_parser().parse(text.encode()).root_node
    if root.has_error:
        raise UnprovedCommand("the command is not understood as bash")
    _check_size(root)
    return root


def lines_outside_documents(text: str) -> Sequence[str]:
    """Return the lines of a command outside its here-documents; a here-document without an end counts as lines."""
    lines, inside = text.split("\n"), list[str]()
    found: list[str] = []
    ends = ""
    for line in lines:
        if not ends:
            found.append(line)
            ends = next((mark[1] for mark in HERE_DOCUMENT.finditer(line)), "")
        elif line.strip("\t") == ends:
            ends, inside = "", []
        else:
            inside.append(line)
    return found + inside


def _check_size(root: "Node") -> None:
    level = [root]
    seen = 0
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in node.children]
        seen += len(level)
        if not level:
            return
        if seen > MAX_NODES:
            raise UnprovedCommand(f"the command has more than {MAX_NODES} parts")
    raise UnprovedCommand(f"the command is nested more than {MAX_DEPTH} deep")


class TreeText:
    """The bytes of a text, to check what lies between its nodes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def children(self, node: "Node") -> list["Node"]:
        """Return the children of a node. Raises UnprovedCommand if more than blanks lies between them."""
        position = node.start_byte
        for child in node.children:
            if not BLANKS.fullmatch(self.raw[position : child.start_byte]):
                raise UnprovedCommand(f"{node_source(node)[:60]!r} is not understood")
            position = child.end_byte
        if position != node.end_byte and not BLANKS.fullmatch(self.raw[position : node.end_byte]):
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not understood")
        return node.children

    def check_separated(self, nodes: list["Node"]) -> list["Node"]:
        """Return the nodes. Raises UnprovedCommand unless blanks without a new line lie between them."""
        for left, right in pairwise(nodes):
            if not WORD_SEPARATOR.fullmatch(self.raw[left.end_byte : right.start_byte]):
                raise UnprovedCommand(f"{node_source(left)[:30]!r} and {node_source(right)[:30]!r} may be one word")
        return nodes

    def check_start(self, before: "Node | None", child: "Node") -> None:
        """Raise UnprovedCommand unless a statement follows an operator, a new line, or an assignment an assignment."""
        if before is None or child.type == "comment" or before.type in PUNCTUATION:
            return
        gap = self.raw[before.end_byte : child.start_byte]
        if not before.is_named or child.type in ("variable_assignment", "elif_clause", "else_clause"):
            fits = bool(gap)
        else:
            fits = NEW_LINE.search(gap) is not None
        if not fits:
            raise UnprovedCommand(f"{node_source(child)[:60]!r} may belong to what is before it")

    def check_comment(self, node: "Node") -> None:
        """Raise UnprovedCommand unless a comment begins a word; elsewhere `#` is an ordinary character."""
        before = self.raw[max(node.start_byte - 2, 0) : node.start_byte]
        if b"\n" in (node.text or b"") or (before and (before[-1:] not in b" \t\n;" or before[:-1] == b"\\")):
            raise UnprovedCommand("a comment is not understood")
