"""The syntax tree of a command, and the bytes between its nodes.

The grammar reads some texts otherwise than bash does. So it is looked at what the nodes leave out: only blanks may be,
and a newline only between statements.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from remit.policy.commands.options import names
from remit.policy.commands.words import Refused, source

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

DEEPEST = 60
"""Levels of the syntax tree; a deeper command is unknown."""

LARGEST = 5000
"""Nodes of the syntax tree; a larger command is unknown, so that no text takes long."""

MOST_OPENED = 2000
"""Of what a text with errors makes the parser go back to, for a time that grows with the square of it."""

OPENS = re.compile(r"[|()]|\[\[|<<")
DOCUMENT = re.compile(r"<<-?[ \t]*[\\'\"]?([\w.-]+)")

BLANK = re.compile(rb"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")
BETWEEN_WORDS = re.compile(rb"[ \t](?:[ \t]|\\\n)*")
NEW_LINE = re.compile(rb"(?:^|[^\\])\n")

PUNCTUATION = names("; & && || | |& ( ) { }")


@cache
def _language() -> "Language":
    # Imported here, not above: a call without a command must not pay for the grammar at its start.
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _parser() -> "Parser":
    # One for each text: a parser works on one at a time, and the daemon judges several calls at once.
    from tree_sitter import Parser

    return Parser(_language())


def masked(text: str) -> str:
    """`text` as the grammar may see it: each byte of what is not ASCII as two letters from à to ï.

    The scanner of tree-sitter-bash 0.25.1 asks C's `isdigit` and `isalpha` about characters for which their tables have
    no entry, and then a command such as `{` with a rare character ends the process.
    """
    return re.sub(r"[^\x00-\x7f]+", lambda found: "".join(map(letters, found[0].encode())), text)


def letters(byte: int) -> str:
    """A byte as two letters."""
    return chr(0xE0 + (byte >> 4)) + chr(0xE0 + (byte & 15))


def unmasked(text: str) -> str:
    """What `masked` was given; of a part that was cut, the most of it."""
    return re.sub(r"(?:[\xe0-\xef]{2})+", lambda found: characters(found[0]), text)


def characters(pairs: str) -> str:
    """Pairs of letters as the characters that they stand for."""
    halves = [ord(letter) - 0xE0 for letter in pairs]
    return bytes(16 * high + low for high, low in zip(halves[::2], halves[1::2], strict=True)).decode(
        "utf-8", "replace"
    )


def parse(text: str) -> "Node":
    """The syntax tree of `text`; raises Refused where the grammar does not know it, or may not see it unmasked."""
    if any(character > "\xff" for character in text):
        raise Refused("the command holds characters that are not read here")
    if sum(len(OPENS.findall(line)) for line in outside_documents(text)) > MOST_OPENED:
        raise Refused(f"the command has more than {MOST_OPENED} pipes, brackets or here-documents")
    root = _parser().parse(text.encode()).root_node
    if root.has_error:
        raise Refused("the command is not understood as bash")
    _check_size(root)
    return root


def outside_documents(text: str) -> Sequence[str]:
    """The lines of a command but for those of its here-documents. One that does not end is none."""
    lines, inside = text.split("\n"), list[str]()
    found: list[str] = []
    ends = ""
    for line in lines:
        if not ends:
            found.append(line)
            ends = next((mark[1] for mark in DOCUMENT.finditer(line)), "")
        elif line.strip("\t") == ends:
            ends, inside = "", []
        else:
            inside.append(line)
    return found + inside


def _check_size(root: "Node") -> None:
    level = [root]
    seen = 0
    for _ in range(DEEPEST):
        level = [child for node in level for child in node.children]
        seen += len(level)
        if not level:
            return
        if seen > LARGEST:
            raise Refused(f"the command has more than {LARGEST} parts")
    raise Refused(f"the command is nested more than {DEEPEST} deep")


class Text:
    """One text: its bytes are needed beside the nodes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def children(self, node: "Node") -> list["Node"]:
        """The children of `node`, between which only blanks are left out; raises Refused."""
        position = node.start_byte
        for child in node.children:
            if not BLANK.fullmatch(self.raw[position : child.start_byte]):
                raise Refused(f"{source(node)[:60]!r} is not understood")
            position = child.end_byte
        if position != node.end_byte and not BLANK.fullmatch(self.raw[position : node.end_byte]):
            raise Refused(f"{source(node)[:60]!r} is not understood")
        return node.children

    def separated(self, nodes: list["Node"]) -> list["Node"]:
        """Words, between which blanks must stand, but no newline; raises Refused."""
        for left, right in pairwise(nodes):
            if not BETWEEN_WORDS.fullmatch(self.raw[left.end_byte : right.start_byte]):
                raise Refused(f"{source(left)[:30]!r} and {source(right)[:30]!r} may be one word")
        return nodes

    def check_start(self, before: "Node | None", child: "Node") -> None:
        """A statement follows an operator, or a new line; assignments may follow each other."""
        if before is None or child.type == "comment" or before.type in PUNCTUATION:
            return
        gap = self.raw[before.end_byte : child.start_byte]
        if not before.is_named or child.type in ("variable_assignment", "elif_clause", "else_clause"):
            fits = bool(gap)
        else:
            fits = NEW_LINE.search(gap) is not None
        if not fits:
            raise Refused(f"{source(child)[:60]!r} may belong to what is before it")

    def check_comment(self, node: "Node") -> None:
        """A comment begins a word; elsewhere `#` is a character like others. Raises Refused."""
        before = self.raw[max(node.start_byte - 2, 0) : node.start_byte]
        if b"\n" in (node.text or b"") or (before and (before[-1:] not in b" \t\n;" or before[:-1] == b"\\")):
            raise Refused("a comment is not understood")
