"""A syntax tree as one flat list, and the form of it that formatting and comments do not change."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.code.languages import Language
from remit.core.diff.contents import sha256

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 400
"""Levels of one definition that are followed. Nobody writes more; a generator, or an attacker, does."""

VERBATIM_KINDS = (
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


PLAIN_STRING = re.compile(r"""(['"])[^'"\\\n]*\1""")
"""A string that means the same in either kind of quotes, where a language has two."""


WHITE_SPACE = " \t\r\n"
"""What separates words in every language. Others are letters to one of them, line ends to another."""


SPELLED_KINDS = frozenset({"interpolation", "macro_invocation", "macro_definition"})
"""Kinds of code that something may see as it is spelt."""
KEEPING_MARKS = frozenset({"|", ">"})
"""Marks of YAML's block texts: with `+` they keep the lines at their end."""
BLANK_LINES = re.compile(rb"(?:[ \t]*\r?\n)*")


class TreeTooDeep(ValueError):
    """The tree nests deeper than is followed."""

    def __init__(self) -> None:
        super().__init__(
            f"the syntax tree nests deeper than {MAX_DEPTH} levels; expected code that a person could read"
        )


class FlatNode(Struct):
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


def flatten_tree(node: "Node", source: bytes, row: Language, skip: int = -1) -> list[FlatNode]:
    """The tree below `node`, parents first, without the comments. Raises TooDeep.

    Of the node that begins at byte `skip` in the field `body`, only that it is there.
    """
    return list(_TreeFlattener(source, row, skip).walk(node))


class _TreeFlattener:
    """One walk over a tree."""

    def __init__(self, source: bytes, row: Language, skip: int) -> None:
        self.source, self.row, self.skip = source, row, skip
        self.count = 0

    def walk(self, root: "Node") -> Iterator[FlatNode]:
        """Every twig, without recursion: a tree may be deep."""
        cursor = root.walk()
        open_nodes: list[tuple[int, int, str]] = []  # place in the list, end of the last child, kind
        while True:
            node = cursor.node
            if node is None:
                return
            at = open_nodes[-1][0] if open_nodes else -1
            if open_nodes:
                yield from self.read_gap(open_nodes, node.start_byte)
                open_nodes[-1] = (at, node.end_byte, open_nodes[-1][2])
            twig = self.make_node(node, cursor.field_name or "", at, len(open_nodes))
            if twig is not None:
                yield twig
                self.count += 1
                if not twig.leaf and not self.is_skipped_body(twig) and cursor.goto_first_child():
                    open_nodes.append((self.count - 1, node.start_byte, twig.kind))
                    continue
            while not open_nodes or not cursor.goto_next_sibling():
                if not open_nodes or not cursor.goto_parent() or cursor.node is None:
                    return
                yield from self.read_gap(open_nodes, cursor.node.end_byte)
                open_nodes.pop()

    def is_skipped_body(self, twig: FlatNode) -> bool:
        """Whether this is the body that is left out."""
        return twig.start == self.skip and twig.field == "body"

    def make_node(self, node: "Node", field: str, parent: int, depth: int) -> FlatNode | None:
        """One node; None for a comment that means nothing, and for a line end."""
        if depth > MAX_DEPTH:
            raise TreeTooDeep
        kind, start, end = node.type, node.start_byte, node.end_byte
        comment, plain = kind in self.row.comments, self.row.quotes and kind == "string"
        leaf = comment or node.child_count == 0 or (kind in SPELLED_KINDS and self.has_visible_spelling(node))
        text = self.text(start, end) if leaf or plain else ""
        if plain and PLAIN_STRING.fullmatch(text):
            return FlatNode(kind, field, parent, depth, start, end, named=True, leaf=True, text=f'"{text[1:-1]}"')
        if kind in KEEPING_MARKS and "+" in text and node.parent is not None:
            since = node.parent.end_byte
            text += self.text(since, skip_blank_lines(self.source, since))
        if text in self.row.restricted and (following := node.next_sibling) is not None:
            text += "\n" * (following.start_point.row > node.end_point.row)
        space = leaf and not text.strip(WHITE_SPACE) and not has_meaning(kind, text)
        if space or (comment and not self.row.is_kept_comment(text)):
            return None
        return FlatNode(kind, field, parent, depth, start, end, node.is_named, leaf, text if leaf else "")

    def has_visible_spelling(self, node: "Node") -> bool:
        """Whether something sees how this is written: `{x = }` in Python, a string of tokens, most macros of Rust."""
        if node.type == "interpolation":
            before = node.parent.children[0] if node.parent is not None else node
            told = before.type == "string_start" and b"t" in self.source[before.start_byte : before.end_byte].lower()
            return told or any(c.type == "=" for c in node.children)
        text = self.text(node.start_byte, node.end_byte)
        if node.type == "macro_definition":
            return "stringify" in text
        return "stringify" in text or re.fullmatch(self.row.spaced, text.partition("!")[0].rpartition("::")[2]) is None

    def read_gap(self, open_nodes: Sequence[tuple[int, int, str]], until: int) -> Iterator[FlatNode]:
        """Text that no node has: kept where it is more than space, or where space counts."""
        parent, since, kind = open_nodes[-1]
        text = self.text(since, until) if until > since else ""
        if text.strip(WHITE_SPACE) or (text and has_meaning(kind, text)):
            yield FlatNode("", "", parent, len(open_nodes), since, until, False, True, text)
            self.count += 1

    def text(self, start: int, end: int) -> str:
        """That part of the source; bytes that are not UTF-8 stay apart from all others."""
        return self.source[start:end].decode("utf-8", "surrogateescape")


def skip_blank_lines(source: bytes, start: int) -> int:
    """Where the lines end that hold nothing: they belong to a text that keeps the lines at its end."""
    found = BLANK_LINES.match(source, start)
    return found.end() if found else start


def has_meaning(kind: str, space: str) -> bool:
    """Whether space in a node of that kind is content. In JSX it is not where it breaks the line."""
    if kind.startswith("jsx_") and "\n" in space:
        return False
    return kind == "text" or any(part in kind for part in VERBATIM_KINDS)


def render_form(twigs: Sequence[FlatNode], row: Language, names: Mapping[int, str]) -> str:
    """The tree as a text that two trees share only if they are equal up to comments, layout and those new names.

    `renamed` gives the text to put for some of the twigs.
    """
    last = list_last_children(twigs)
    inner = measure_grouping(twigs, row)
    return "\n".join(
        f"{twig.depth - inner[at]} {twig.kind} {text!r}"
        for at, twig in enumerate(twigs)
        if not is_optional_sign(at, twig, twigs, row, last) and inner[at] >= 0
        for text in (names.get(at, twig.text),)
    )


def measure_grouping(twigs: Sequence[FlatNode], row: Language) -> Sequence[int]:
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


def hash_form(text: str) -> str:
    """`sha256:…` of a form."""
    return "sha256:" + sha256(text.encode("utf-8", "surrogateescape"))


def list_last_children(twigs: Sequence[FlatNode]) -> dict[int, list[int]]:
    """The last three children of each twig."""
    found: dict[int, list[int]] = {}
    for at, twig in enumerate(twigs):
        children = found.setdefault(twig.parent, [])
        children.append(at)
        del children[:-3]
    return found


def is_optional_sign(
    at: int, twig: FlatNode, twigs: Sequence[FlatNode], row: Language, last: Mapping[int, Sequence[int]]
) -> bool:
    """Whether a formatter may put this in or take it out: a comma before the end, a semicolon at the end."""
    if twig.named or twig.parent < 0 or twig.text not in (",", ";"):
        return False
    kind, children = twigs[twig.parent].kind, last[twig.parent]
    if twig.text == ";":
        return kind in row.lines or (children[-1] == at and kind in row.semicolons)
    before = twigs[children[-3]].text if len(children) == 3 else ","
    return kind in row.commas and len(children) > 1 and children[-2] == at and before not in (",", "(", "[", "{")
