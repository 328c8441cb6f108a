"""Syntax trees as flat lists, and their normal form without formatting and comments."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.code.languages import Language
from remit.core.diff.contents import sha256

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 400
"""Levels of a definition. Only generators and attackers nest deeper."""

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
"""Parts of kind names in which white space is content."""


PLAIN_STRING = re.compile(r"""(['"])[^'"\\\n]*\1""")
"""A string with equal meaning in either kind of quotes."""


WHITE_SPACE = " \t\r\n"
"""Characters that separate words in every language. Further space characters are letters or line ends in some."""


SPELLED_KINDS = frozenset({"interpolation", "macro_invocation", "macro_definition"})
"""Kinds of code whose spelling may be visible."""
KEEPING_MARKS = frozenset({"|", ">"})
"""Marks of YAML's block texts, which with `+` keep their final empty lines."""
BLANK_LINES = re.compile(rb"(?:[ \t]*\r?\n)*")


class TreeTooDeep(ValueError):
    """Error for a tree nested deeper than MAX_DEPTH."""

    def __init__(self) -> None:
        super().__init__(
            f"the syntax tree nests deeper than {MAX_DEPTH} levels; expected code that a person could read"
        )


class FlatNode(Struct):
    """A node. `parent` is its index, -1 for the root; `text` is empty for inner nodes.

    `kind` is empty for text between the children of a node.
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


def flatten_tree(node: "Node", source: bytes, language: Language, skip: int = -1) -> list[FlatNode]:
    """Return the tree below `node`, parents first, without comments. Raises TreeTooDeep.

    The children of the body at byte `skip` are left out.
    """
    return list(_TreeFlattener(source, language, skip).walk(node))


class _TreeFlattener:
    """A walk over a tree."""

    def __init__(self, source: bytes, language: Language, skip: int) -> None:
        self.source, self.language, self.skip = source, language, skip
        self.count = 0

    def walk(self, root: "Node") -> Iterator[FlatNode]:
        """Yield the nodes, without recursion: a tree may be deep."""
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
            flat_node = self.make_node(node, cursor.field_name or "", at, len(open_nodes))
            if flat_node is not None:
                yield flat_node
                self.count += 1
                if not flat_node.leaf and not self.is_skipped_body(flat_node) and cursor.goto_first_child():
                    open_nodes.append((self.count - 1, node.start_byte, flat_node.kind))
                    continue
            while not open_nodes or not cursor.goto_next_sibling():
                if not open_nodes or not cursor.goto_parent() or cursor.node is None:
                    return
                yield from self.read_gap(open_nodes, cursor.node.end_byte)
                open_nodes.pop()

    def is_skipped_body(self, flat_node: FlatNode) -> bool:
        return flat_node.start == self.skip and flat_node.field == "body"

    def make_node(self, node: "Node", field: str, parent: int, depth: int) -> FlatNode | None:
        if depth > MAX_DEPTH:
            raise TreeTooDeep
        kind, start, end = node.type, node.start_byte, node.end_byte
        comment, plain = kind in self.language.comments, self.language.either_quotes and kind == "string"
        leaf = comment or node.child_count == 0 or (kind in SPELLED_KINDS and self.has_visible_spelling(node))
        text = self.text(start, end) if leaf or plain else ""
        if plain and PLAIN_STRING.fullmatch(text):
            return FlatNode(kind, field, parent, depth, start, end, named=True, leaf=True, text=f'"{text[1:-1]}"')
        if kind in KEEPING_MARKS and "+" in text and node.parent is not None:
            since = node.parent.end_byte
            text += self.text(since, skip_blank_lines(self.source, since))
        if text in self.language.line_sensitive_words and (following := node.next_sibling) is not None:
            text += "\n" * (following.start_point.row > node.end_point.row)
        space = leaf and not text.strip(WHITE_SPACE) and not has_meaning(kind, text)
        if space or (comment and not self.language.is_kept_comment(text)):
            return None
        return FlatNode(kind, field, parent, depth, start, end, node.is_named, leaf, text if leaf else "")

    def has_visible_spelling(self, node: "Node") -> bool:
        """Return whether spelling is visible: `{x = }` in Python, a string of tokens, most macros of Rust."""
        if node.type == "interpolation":
            prefix = node.parent.children[0] if node.parent is not None else node
            is_template = (
                prefix.type == "string_start" and b"t" in self.source[prefix.start_byte : prefix.end_byte].lower()
            )
            return is_template or any(c.type == "=" for c in node.children)
        text = self.text(node.start_byte, node.end_byte)
        if node.type == "macro_definition":
            return "stringify" in text
        return (
            "stringify" in text
            or re.fullmatch(self.language.layout_blind_macros, text.partition("!")[0].rpartition("::")[2]) is None
        )

    def read_gap(self, open_nodes: Sequence[tuple[int, int, str]], until: int) -> Iterator[FlatNode]:
        """Yield text between nodes, unless meaningless white space."""
        parent, since, kind = open_nodes[-1]
        text = self.text(since, until) if until > since else ""
        if text.strip(WHITE_SPACE) or (text and has_meaning(kind, text)):
            yield FlatNode("", "", parent, len(open_nodes), since, until, False, True, text)
            self.count += 1

    def text(self, start: int, end: int) -> str:
        """Return a part of the source; bytes outside UTF-8 stay distinct."""
        return self.source[start:end].decode("utf-8", "surrogateescape")


def skip_blank_lines(source: bytes, start: int) -> int:
    """Return the end of the empty lines from `start`: block texts may keep them."""
    match = BLANK_LINES.match(source, start)
    return match.end() if match else start


def has_meaning(kind: str, space: str) -> bool:
    """Return whether white space in a node of that kind is content. In JSX line breaks are not."""
    if kind.startswith("jsx_") and "\n" in space:
        return False
    return kind == "text" or any(part in kind for part in VERBATIM_KINDS)


def render_form(flat_nodes: Sequence[FlatNode], language: Language, names: Mapping[int, str]) -> str:
    """Return the normal form: equal for trees that differ only in comments, layout and renamed nodes.

    `names` gives replacement texts by node index.
    """
    last = list_last_children(flat_nodes)
    inner = measure_grouping(flat_nodes, language)
    return "\n".join(
        f"{flat_node.depth - inner[at]} {flat_node.kind} {text!r}"
        for at, flat_node in enumerate(flat_nodes)
        if not is_optional_sign(at, flat_node, flat_nodes, language, last) and inner[at] >= 0
        for text in (names.get(at, flat_node.text),)
    )


def measure_grouping(flat_nodes: Sequence[FlatNode], language: Language) -> Sequence[int]:
    """Return the number of grouping brackets around each node; -1 for the brackets themselves."""
    if not any(t.kind in language.grouping_kinds for t in flat_nodes):
        return [0] * len(flat_nodes)
    depths: list[int] = []
    visible_depths: list[int] = []
    for flat_node in flat_nodes:
        parent_depth = depths[flat_node.parent] if flat_node.parent >= 0 else 0
        # Brackets around a target have meaning: `(x): int = 1` keeps no annotation.
        groups = flat_node.kind in language.grouping_kinds and flat_node.field != "left"
        is_bracket = flat_node.parent >= 0 and flat_node.text in ("(", ")") and visible_depths[flat_node.parent] < 0
        depths.append(parent_depth + groups)
        visible_depths.append(-1 if groups or is_bracket else parent_depth)
    return visible_depths


def hash_form(text: str) -> str:
    return "sha256:" + sha256(text.encode("utf-8", "surrogateescape"))


def list_last_children(flat_nodes: Sequence[FlatNode]) -> dict[int, list[int]]:
    last_by_parent: dict[int, list[int]] = {}
    for at, flat_node in enumerate(flat_nodes):
        children = last_by_parent.setdefault(flat_node.parent, [])
        children.append(at)
        del children[:-3]
    return last_by_parent


def is_optional_sign(
    at: int, flat_node: FlatNode, flat_nodes: Sequence[FlatNode], language: Language, last: Mapping[int, Sequence[int]]
) -> bool:
    """Return whether a formatter may add or remove the node: a comma before the end, a final semicolon."""
    if flat_node.named or flat_node.parent < 0 or flat_node.text not in (",", ";"):
        return False
    kind, children = flat_nodes[flat_node.parent].kind, last[flat_node.parent]
    if flat_node.text == ";":
        return kind in language.line_parents or (children[-1] == at and kind in language.semicolons)
    previous = flat_nodes[children[-3]].text if len(children) == 3 else ","
    return kind in language.commas and len(children) > 1 and children[-2] == at and previous not in (",", "(", "[", "{")
