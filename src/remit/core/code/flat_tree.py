"""Syntax trees as flat lists, and their normal form without formatting and comments."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.code.languages import Language
from remit.core.diff.contents import sha256

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 400
"""Levels of a definition. Only generators and attackers nest deeper."""
VERBATIM_KINDS = (
    *("string", "heredoc", "scalar", "regex", "jsx_element", "jsx_fragment", "jsx_text", "format_specifier", "inline"),
    *("template_substitution", "text_interpolation"),
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
    flat_nodes: list[FlatNode] = []
    open_nodes: list[tuple[int, int, str]] = []  # index, end of the last child, kind

    def add_gap(until: int) -> None:
        # Text between nodes counts, unless it is meaningless white space.
        parent, since, kind = open_nodes[-1]
        text = decode(source, since, until) if until > since else ""
        if text.strip(WHITE_SPACE) or (text and has_meaning(kind, text)):
            flat_nodes.append(FlatNode("", "", parent, len(open_nodes), since, until, False, True, text))

    cursor = node.walk()  # without recursion: a tree may be deep
    while (current := cursor.node) is not None:
        parent = open_nodes[-1][0] if open_nodes else -1
        if open_nodes:
            add_gap(current.start_byte)
            open_nodes[-1] = (parent, current.end_byte, open_nodes[-1][2])
        if len(open_nodes) > MAX_DEPTH:
            raise TreeTooDeep
        flat_node = make_flat_node(current, cursor.field_name or "", parent, len(open_nodes), source, language)
        if flat_node is not None:
            flat_nodes.append(flat_node)
            is_skipped = flat_node.leaf or (flat_node.start == skip and flat_node.field == "body")
            if not is_skipped and cursor.goto_first_child():
                open_nodes.append((len(flat_nodes) - 1, current.start_byte, flat_node.kind))
                continue
        while not open_nodes or not cursor.goto_next_sibling():
            if not open_nodes or not cursor.goto_parent():
                return flat_nodes
            add_gap(cursor.node.end_byte)
            open_nodes.pop()
    return flat_nodes


def decode(source: bytes, start: int, end: int) -> str:
    """Return a part of the source; bytes outside UTF-8 stay distinct."""
    return source[start:end].decode("utf-8", "surrogateescape")


def make_flat_node(
    node: "Node", field: str, parent: int, depth: int, source: bytes, language: Language
) -> FlatNode | None:
    kind, start, end = node.type, node.start_byte, node.end_byte
    comment, plain = kind in language.comments, language.either_quotes and kind == "string"
    is_spelled = kind in SPELLED_KINDS and has_visible_spelling(node, source, language)
    leaf = comment or node.child_count == 0 or is_spelled
    text = decode(source, start, end) if leaf or plain else ""
    if plain and PLAIN_STRING.fullmatch(text):
        return FlatNode(kind, field, parent, depth, start, end, named=True, leaf=True, text=f'"{text[1:-1]}"')
    if kind in KEEPING_MARKS and "+" in text and node.parent is not None:
        since = node.parent.end_byte
        blank_lines = BLANK_LINES.match(source, since)  # block texts may keep them
        text += decode(source, since, blank_lines.end() if blank_lines else since)
    if text in language.line_sensitive_words and (following := node.next_sibling) is not None:
        text += "\n" * (following.start_point.row > node.end_point.row)
    space = leaf and not text.strip(WHITE_SPACE) and not has_meaning(kind, text)
    if space or (comment and not language.is_kept_comment(text)):
        return None
    return FlatNode(kind, field, parent, depth, start, end, node.is_named, leaf, text if leaf else "")


def has_visible_spelling(node: "Node", source: bytes, language: Language) -> bool:
    if node.type == "interpolation":
        prefix = node.parent.children[0] if node.parent is not None else node
        letters = source[prefix.start_byte : prefix.end_byte].lower()
        return (prefix.type == "string_start" and b"t" in letters) or any(c.type == "=" for c in node.children)
    text = decode(source, node.start_byte, node.end_byte)
    if node.type == "macro_definition" or "stringify" in text:
        return "stringify" in text
    return re.fullmatch(language.layout_blind_macros, text.partition("!")[0].rpartition("::")[2]) is None


def has_meaning(kind: str, space: str) -> bool:
    if kind.startswith("jsx_") and "\n" in space:
        return False
    return kind == "text" or any(part in kind for part in VERBATIM_KINDS)


def render_form(flat_nodes: Sequence[FlatNode], language: Language, names: Mapping[int, str]) -> str:
    """Return the normal form: equal for trees that differ only in comments, layout and renamed nodes.

    `names` gives replacement texts by node index.
    """
    last: dict[int, list[int]] = {}  # up to three last children of each node
    for at, node in enumerate(flat_nodes):
        last[node.parent] = [*last.get(node.parent, ())[-2:], at]
    grouping = measure_grouping(flat_nodes, language)
    return "\n".join(
        f"{node.depth - grouping[at]} {node.kind} {names.get(at, node.text)!r}"
        for at, node in enumerate(flat_nodes)
        if grouping[at] >= 0 and not is_optional_sign(at, flat_nodes, language, last)
    )


def measure_grouping(flat_nodes: Sequence[FlatNode], language: Language) -> Sequence[int]:
    """Return the number of grouping brackets around each node; -1 for the brackets themselves."""
    if not any(t.kind in language.grouping_kinds for t in flat_nodes):
        return [0] * len(flat_nodes)
    depths: list[int] = []
    visible_depths: list[int] = []
    for node in flat_nodes:
        parent_depth = depths[node.parent] if node.parent >= 0 else 0
        # Brackets around a target have meaning: `(x): int = 1` keeps no annotation.
        groups = node.kind in language.grouping_kinds and node.field != "left"
        is_bracket = node.parent >= 0 and node.text in ("(", ")") and visible_depths[node.parent] < 0
        depths.append(parent_depth + groups)
        visible_depths.append(-1 if groups or is_bracket else parent_depth)
    return visible_depths


def is_optional_sign(
    at: int, flat_nodes: Sequence[FlatNode], language: Language, last: Mapping[int, Sequence[int]]
) -> bool:
    node = flat_nodes[at]
    if node.named or node.parent < 0 or node.text not in (",", ";"):
        return False
    kind, children = flat_nodes[node.parent].kind, last[node.parent]
    if node.text == ";":
        return kind in language.line_parents or (children[-1] == at and kind in language.semicolons)
    previous = flat_nodes[children[-3]].text if len(children) == 3 else ","
    return kind in language.commas and len(children) > 1 and children[-2] == at and previous not in (",", "(", "[", "{")


def hash_form(text: str) -> str:
    return "sha256:" + sha256(text.encode("utf-8", "surrogateescape"))
