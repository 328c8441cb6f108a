"""Highlighting of a window of a file by its syntax tree: six classes, the same for every grammar.

A tree is kept for the next window of the same content. Classes: `k` keyword, `f` function, `s` string, `n` number or
constant, `c` comment, `d` type or decorator.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence

from markupsafe import Markup
from msgspec import Struct
from tree_sitter import Node, TreeCursor

from remit.core.code.grammars import parse_tree
from remit.core.code.languages import find_language

MAX_BYTES = 2 << 20
MAX_LINE_BYTES = 10_000
MAX_KEPT_BYTES = 3 << 19  # of all kept contents: a tree takes some thirty times the bytes of its content
MAX_DEPTH = 200
STRING = re.compile(r"string|char_literal|character_literal|heredoc|quote_scalar|regex|^code_span$|^char$")
INSERTION = re.compile(r"interpolation|substitution|expansion")
NUMBER = re.compile(r"(?:^|_)(?:integer|float|number|decimal|int|real)(?:_literal)?(?:_value)?$")
CONSTANT = re.compile(r"^(?:true|false|none|null|nil|undefined|boolean(?:_literal|_scalar)?|null_literal|null_scalar)$")
NAME = re.compile(r"identifier$|^name$|^constant$|_key$|^word$|^variable_name$")
DEFINITION = re.compile(r"function|method|constructor|subroutine")
TYPE_DEFINITION = re.compile(r"(?:^|_)(?:class|struct|interface|enum|trait|type|module|namespace|impl)(?:_|$)")
CALL = re.compile(r"call|invocation|command$|macro_invocation")
WORD = re.compile(r"[A-Za-z_]+")

Span = tuple[int, int, str]


class KeptTree(Struct, frozen=True):
    """The tree of a content; `root` is None for plain text."""

    size: int
    root: Node | None


class Highlighter:
    """Trees of the contents shown last. Thread-safe."""

    def __init__(self) -> None:
        self.trees: OrderedDict[Hashable, KeptTree] = OrderedDict()
        self.lock = threading.Lock()

    def find_tree(self, key: Hashable, path: str, content: bytes) -> Node | None:
        """Return the tree of a content, parsed once while `key` stays the same; None for plain text."""
        with self.lock:
            known = self.trees.get(key)
            if known is not None:
                self.trees.move_to_end(key)
                return known.root
        language = find_language(path)
        root = None
        if language is not None and len(content) <= MAX_BYTES:
            root = parse_tree(language.name, content, allow_errors=True)
        with self.lock:
            self.trees[key] = KeptTree(len(content), root)
            while len(self.trees) > 1 and sum(tree.size for tree in self.trees.values()) > MAX_KEPT_BYTES:
                self.trees.popitem(last=False)
        return root


def find_spans(root: Node, first: int, last: int) -> dict[int, list[Span]]:
    """Return the classed spans of the rows `first` to `last`, counted from 0: columns in bytes, in order."""
    spans: dict[int, list[Span]] = {}
    cursor = root.walk()
    if cursor.goto_first_child():
        for node, name in iterate_classed(cursor, first, last):
            (row, column), (end_row, end_column) = node.start_point, node.end_point
            for at in range(max(row, first), min(end_row, last) + 1):
                start, end = column if at == row else 0, end_column if at == end_row else MAX_LINE_BYTES
                if start < end:
                    spans.setdefault(at, []).append((start, end, name))
    return spans


def iterate_classed(cursor: TreeCursor, first: int, last: int) -> Iterator[tuple[Node, str]]:
    parents: list[Node] = []
    while True:
        node = cursor.node
        if node is None or node.start_point[0] > last:
            if not parents:
                return
            cursor.goto_parent()
            parents.pop()
        elif node.end_point[0] >= first:
            name = name_class(node, cursor.field_name, parents)
            if name:
                yield node, name
            elif len(parents) < MAX_DEPTH and enter_children(cursor, node, first):
                parents.append(node)
                continue
        while not cursor.goto_next_sibling():
            if not parents:
                return
            cursor.goto_parent()
            parents.pop()


def enter_children(cursor: TreeCursor, node: Node, first: int) -> bool:
    if node.start_point[0] >= first:
        return cursor.goto_first_child()
    return cursor.goto_first_child_for_point((first, 0)) is not None


def name_class(node: Node, field: str | None, parents: Sequence[Node]) -> str:
    kind = node.type
    if "comment" in kind:
        return "c"
    if node.is_named and STRING.search(kind):
        return "" if any(INSERTION.search(child.type) for child in node.children) else "s"
    if kind == "atx_heading":
        return "d"
    if node.child_count:
        return ""
    if not node.is_named:
        return "k" if WORD.fullmatch(kind) else "s" if parents and STRING.search(parents[-1].type) else ""
    if NUMBER.search(kind) or CONSTANT.match(kind):
        return "n"
    if kind in ("type_identifier", "primitive_type", "predefined_type", "predefined_type_identifier"):
        return "d"
    if NAME.search(kind):
        return name_class_of_name(field, parents)
    return ""


def name_class_of_name(field: str | None, parents: Sequence[Node]) -> str:
    parent = parents[-1].type if parents else ""
    if "decorator" in parent or "annotation" in parent or "attribute_item" in parent:
        return "d"
    if parent in ("pair", "block_mapping_pair", "bare_key", "dotted_key") and field in (None, "key"):
        return "f"
    if field in ("name", "declarator") and DEFINITION.search(parent):
        return "f"
    if field == "name" and TYPE_DEFINITION.search(parent):
        return "d"
    if field in ("function", "name", "method") and CALL.search(parent):
        return "f"
    is_member = field in ("attribute", "property", "field")
    if is_member and len(parents) > 1 and CALL.search(parents[-2].type):
        return "f" if parents[-2].child_by_field_name("function") == parents[-1] else ""
    return ""


def render_line(line: bytes, spans: Sequence[Span], escape: Callable[[str], Markup]) -> Markup:
    """Return a line as HTML, made by `escape` piece by piece."""
    shown = Markup()
    at = 0
    for start, end, name in spans:
        if start < at:
            continue
        piece = escape(line[start:end].decode("utf-8", "replace"))
        shown += escape(line[at:start].decode("utf-8", "replace")) + Markup('<i class="{}">{}</i>').format(name, piece)
        at = min(end, len(line))
    return shown + escape(line[at:].decode("utf-8", "replace"))
