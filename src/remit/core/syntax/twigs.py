"""A syntax tree as one flat list, and the form of it that formatting and comments do not change."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.contents import sha256
from remit.core.syntax.rows import Row

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 400
"""Levels of one definition that are followed. Nobody writes more; a generator, or an attacker, does."""

VERBATIM = (
    "string",
    "heredoc",
    "scalar",
    "regex",
    "jsx_element",
    "jsx_fragment",
    "jsx_text",
    "format_specifier",
    "inline",
    "template_substitution",
    "text_interpolation",
)
"""Parts of the names of kinds in which a space is content."""


PLAIN = re.compile(r"""(['"])[^'"\\\n]*\1""")
"""A string that means the same in either kind of quotes, where a language has two."""


SPACE = " \t\r\n"
"""What separates words in every language. Others are letters to one of them, line ends to another."""


SPELT = frozenset({"interpolation", "macro_invocation", "macro_definition"})
"""Kinds of code that something may see as it is spelt."""
KEEPING = frozenset({"|", ">"})
"""Marks of YAML's block texts: with `+` they keep the lines at their end."""
BLANK = re.compile(rb"(?:[ \t]*\r?\n)*")


class TooDeep(ValueError):
    """The tree nests deeper than is followed."""

    def __init__(self) -> None:
        super().__init__(f"the syntax tree nests deeper than {DEEPEST} levels; expected code that a person could read")


class Twig(Struct):
    """One node. `parent` is its place in the list, -1 for the first; `text` is empty where it has children.

    `kind` is empty for text that stands between the children of a node and belongs to none of them.
    """

    kind: str
    field: str
    parent: int
    depth: int
    start: int
    end: int
    named: bool
    leaf: bool
    text: str


def flatten(node: "Node", source: bytes, row: Row, skip: int = -1) -> list[Twig]:
    """The tree below `node`, parents first, without the comments. Raises TooDeep.

    Of the node that begins at byte `skip` in the field `body`, only that it is there.
    """
    return list(_Flattener(source, row, skip).all(node))


class _Flattener:
    """One walk over a tree."""

    def __init__(self, source: bytes, row: Row, skip: int) -> None:
        self.source, self.row, self.skip = source, row, skip
        self.count = 0

    def all(self, root: "Node") -> Iterator[Twig]:
        """Every twig, without recursion: a tree may be deep."""
        cursor = root.walk()
        open_nodes: list[tuple[int, int, str]] = []  # place in the list, end of the last child, kind
        while True:
            node = cursor.node
            if node is None:
                return
            at = open_nodes[-1][0] if open_nodes else -1
            if open_nodes:
                yield from self.gap(open_nodes, node.start_byte)
                open_nodes[-1] = (at, node.end_byte, open_nodes[-1][2])
            twig = self.twig(node, cursor.field_name or "", at, len(open_nodes))
            if twig is not None:
                yield twig
                self.count += 1
                if not twig.leaf and not self.skipped(twig) and cursor.goto_first_child():
                    open_nodes.append((self.count - 1, node.start_byte, twig.kind))
                    continue
            while not open_nodes or not cursor.goto_next_sibling():
                if not open_nodes or not cursor.goto_parent() or cursor.node is None:
                    return
                yield from self.gap(open_nodes, cursor.node.end_byte)
                open_nodes.pop()

    def skipped(self, twig: Twig) -> bool:
        """Whether this is the body that is left out."""
        return twig.start == self.skip and twig.field == "body"

    def twig(self, node: "Node", field: str, parent: int, depth: int) -> Twig | None:
        """One node; None for a comment that means nothing, and for a line end."""
        if depth > DEEPEST:
            raise TooDeep
        kind, start, end = node.type, node.start_byte, node.end_byte
        comment, plain = kind in self.row.comments, self.row.quotes and kind == "string"
        leaf = comment or node.child_count == 0 or (kind in SPELT and self.is_spelt(node))
        text = self.text(start, end) if leaf or plain else ""
        if plain and PLAIN.fullmatch(text):
            return Twig(kind, field, parent, depth, start, end, named=True, leaf=True, text=f'"{text[1:-1]}"')
        if kind in KEEPING and "+" in text and node.parent is not None:
            since = node.parent.end_byte
            text += self.text(since, blank_until(self.source, since))
        if text in self.row.restricted and (following := node.next_sibling) is not None:
            text += "\n" * (following.start_point.row > node.end_point.row)
        space = leaf and not text.strip(SPACE) and not counts(kind, text)
        if space or (comment and not self.row.keeps(text)):
            return None
        return Twig(kind, field, parent, depth, start, end, node.is_named, leaf, text if leaf else "")

    def is_spelt(self, node: "Node") -> bool:
        """Whether something sees how this is written: `{x = }` in Python, a string of tokens, most macros of Rust."""
        if node.type == "interpolation":
            before = node.parent.children[0] if node.parent is not None else node
            told = before.type == "string_start" and b"t" in self.source[before.start_byte : before.end_byte].lower()
            return told or any(c.type == "=" for c in node.children)
        text = self.text(node.start_byte, node.end_byte)
        if node.type == "macro_definition":
            return "stringify" in text
        return "stringify" in text or re.fullmatch(self.row.spaced, text.partition("!")[0].rpartition("::")[2]) is None

    def gap(self, open_nodes: Sequence[tuple[int, int, str]], until: int) -> Iterator[Twig]:
        """Text that no node has: kept where it is more than space, or where space counts."""
        parent, since, kind = open_nodes[-1]
        text = self.text(since, until) if until > since else ""
        if text.strip(SPACE) or (text and counts(kind, text)):
            yield Twig("", "", parent, len(open_nodes), since, until, False, True, text)
            self.count += 1

    def text(self, start: int, end: int) -> str:
        """That part of the source; bytes that are not UTF-8 stay apart from all others."""
        return self.source[start:end].decode("utf-8", "surrogateescape")


def blank_until(source: bytes, start: int) -> int:
    """Where the lines end that hold nothing: they belong to a text that keeps the lines at its end."""
    found = BLANK.match(source, start)
    return found.end() if found else start


def counts(kind: str, space: str) -> bool:
    """Whether space in a node of that kind is content. In JSX it is not where it breaks the line."""
    if kind.startswith("jsx_") and "\n" in space:
        return False
    return kind == "text" or any(part in kind for part in VERBATIM)


def form(twigs: Sequence[Twig], row: Row, renamed: Mapping[int, str]) -> str:
    """The tree as a text that two trees share only if they are equal up to comments, layout and those new names.

    `renamed` gives the text to put for some of the twigs.
    """
    last = last_children(twigs)
    inner = grouped(twigs, row)
    return "\n".join(
        f"{twig.depth - inner[at]} {twig.kind} {text!r}"
        for at, twig in enumerate(twigs)
        if not optional(at, twig, twigs, row, last) and inner[at] >= 0
        for text in (renamed.get(at, twig.text),)
    )


def grouped(twigs: Sequence[Twig], row: Row) -> Sequence[int]:
    """How many brackets that only group stand around each twig; -1 for these themselves."""
    if not any(t.kind in row.parens for t in twigs):
        return [0] * len(twigs)
    around: list[int] = []
    found: list[int] = []
    for twig in twigs:
        above = around[twig.parent] if twig.parent >= 0 else 0
        groups = twig.kind in row.parens and twig.field != "left"  # `(x): int = 1` keeps no annotation
        sign = twig.parent >= 0 and twig.text in ("(", ")") and found[twig.parent] < 0
        around.append(above + groups)
        found.append(-1 if groups or sign else above)
    return found


def digest(text: str) -> str:
    """`sha256:…` of a form."""
    return "sha256:" + sha256(text.encode("utf-8", "surrogateescape"))


def last_children(twigs: Sequence[Twig]) -> dict[int, list[int]]:
    """The last three children of each twig."""
    found: dict[int, list[int]] = {}
    for at, twig in enumerate(twigs):
        children = found.setdefault(twig.parent, [])
        children.append(at)
        del children[:-3]
    return found


def optional(at: int, twig: Twig, twigs: Sequence[Twig], row: Row, last: Mapping[int, Sequence[int]]) -> bool:
    """Whether a formatter may put this in or take it out: a comma before the end, a semicolon at the end."""
    if twig.named or twig.parent < 0 or twig.text not in (",", ";"):
        return False
    kind, children = twigs[twig.parent].kind, last[twig.parent]
    if twig.text == ";":
        return kind in row.lines or (children[-1] == at and kind in row.semicolons)
    before = twigs[children[-3]].text if len(children) == 3 else ","
    return kind in row.commas and len(children) > 1 and children[-2] == at and before not in (",", "(", "[", "{")
