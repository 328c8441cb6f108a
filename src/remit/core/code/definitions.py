"""Definitions that own lines of a file, with their hashes; sections of Markdown files.

The Markdown grammar opens no section for underlined headings, so sections are derived from headings.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from remit.core.code.comments import COMMENT_READERS, TEMPLATE
from remit.core.code.flat_tree import TreeTooDeep, flatten_tree, hash_form, render_form
from remit.core.code.grammars import parse_tree
from remit.core.code.items import SourceFile, find_definition, read_name
from remit.core.code.languages import Language, find_language, kinds
from remit.core.code.local_names import local_names
from remit.core.diff.contents import LineRange

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_BYTES = 1024 * 1024
"""Bytes of a parsed file; larger files are data or generated, and their language counts as unknown."""
MAX_KEPT_BYTES = 128 * 1024
KEPT_TREES = 16
"""Trees that are kept of contents that are not larger: a tree takes some thirty times the bytes of its content."""
MAX_NAME_CHARS = 200
"""Characters of a qualified name."""
HEADING_LEVELS = {
    "setext_h1_underline": 1,
    "setext_h2_underline": 2,
    **{f"atx_h{level}_marker": level for level in range(1, 7)},
}
CLOSING_HASHES = re.compile(r"(?:^| )#+$")
HEADING_CONTAINERS = frozenset({"document", "section"})
"""Nodes whose headings divide the file; headings in quotations and lists do not."""
FUNCTION_KINDS = kinds("arrow_function function_expression generator_function func_literal")
CLASS_KINDS = kinds("class")
GROUP_KINDS = kinds("type_declaration lexical_declaration variable_declaration var_declaration expression_statement")
"""Kinds of nodes around a single definition, or around several."""


class Definition(Struct, frozen=True):
    """A definition. `name` is qualified; `hash` is `sha256:…` over the tree without comments, layout and local names.

    The definition's own name is excluded, to keep the hash when the definition is renamed.
    """

    kind: str
    name: str
    start_line: int
    end_line: int
    hash: str

    @property
    def lines(self) -> LineRange:
        return LineRange(self.start_line, self.end_line)


class NodeSpan(Struct, frozen=True):
    """Lines and the definition that owns them; None for lines of the file itself."""

    lines: LineRange
    node: Definition | None


def split_by_definition(path: str, content: bytes, ranges: Iterable[LineRange]) -> tuple[NodeSpan, ...]:
    """Return the ranges cut at definitions, each part with its definition.

    Blank lines between definitions are left out. Ranges of unknown languages stay whole.
    """
    source = parse_source(path, content)
    if source is None:
        return tuple(NodeSpan(r, None) for r in ranges)
    if source.language.layout_matters:
        sections, texts = find_sections(source), content.split(b"\n")
        cut = (part for r in ranges for part in split_by_section(sections, r))
        return tuple(NodeSpan(part, section) for lines, section in cut for part in trim_blank_lines(texts, lines))
    finder = _DefinitionFinder(source)
    split = (part for r in ranges for part in finder.split_range(r, ()))
    return tuple(NodeSpan(lines, finder.find_innermost(stack)) for lines, stack in split)


def parse_source(path: str, content: bytes) -> SourceFile | None:
    """Parse a file; None for an unknown language, or for syntax errors."""
    language = find_language(path)
    if language is None or len(content) > MAX_BYTES:
        return None
    parse = parse_kept if len(content) <= MAX_KEPT_BYTES else parse_content
    return parse(path.rpartition("/")[2], content)


def parse_content(file_name: str, content: bytes) -> SourceFile | None:
    language = find_language(file_name)
    root = parse_tree(language.name, content) if language is not None else None
    if language is None or root is None:
        return None
    is_template = language.name == "yaml" and TEMPLATE.search(content)
    if COMMENT_READERS.search(content) or is_template:
        language = replace(language, comments_matter=True)
    return SourceFile(content, language, root)


parse_kept = lru_cache(KEPT_TREES)(parse_content)
"""The same. Of consecutive changes of a file, one's content before is the other's content after."""


# --- sections ---------------------------------------------------------------------------------------------


def find_sections(source: SourceFile) -> list[Definition]:
    headings: list[tuple[int, int, str, int]] = []  # line, level, text, index of the line below
    pending = [source.root]
    while pending:
        node = pending.pop()
        if node.type in ("atx_heading", "setext_heading"):
            level = next((HEADING_LEVELS[c.type] for c in node.children if c.type in HEADING_LEVELS), 1)
            content = node.child_by_field_name("heading_content")
            text = CLOSING_HASHES.sub("", " ".join(source.text(content).split()) if content is not None else "")
            below = node.end_point.row + (node.end_point.column > 0)
            headings.append((node.start_point.row + 1, level, text, below))
        elif node.type in HEADING_CONTAINERS:
            pending += reversed(node.children)
    texts = source.content.split(b"\n")
    last = len(texts) - (not texts[-1])
    sections: list[Definition] = []
    enclosing: list[tuple[int, str]] = []
    for index, (line, level, text, below) in enumerate(headings):
        enclosing = [*(outer for outer in enclosing if outer[0] < level), (level, text)]
        end = next((other[0] - 1 for other in headings[index + 1 :] if other[1] <= level), last)
        body = b"\n".join(texts[below:end]).strip().decode("utf-8", "surrogateescape")
        name = source.language.separator.join(outer[1] for outer in enclosing if outer[1])
        hashed = hash_form(f"{level}\n{body}")
        sections.append(Definition("heading", name[:MAX_NAME_CHARS], line, max(end, line), hashed))
    return sections


def find_innermost_section(sections: Sequence[Definition], lines: LineRange) -> Definition | None:
    return next((section for section in reversed(sections) if contains_range(section.lines, lines)), None)


def split_by_section(sections: Sequence[Definition], lines: LineRange) -> Iterator[tuple[LineRange, Definition | None]]:
    start = lines.start
    for section in sections:
        low, high = max(section.start_line, start), min(section.end_line, lines.end)
        if low > high:
            continue
        if start < low:
            yield LineRange(start, low - 1), None
        yield LineRange(low, high), find_innermost_section(sections, LineRange(low, high))
        start = high + 1
    if start <= lines.end:
        yield LineRange(start, lines.end), None


# --- definitions ------------------------------------------------------------------------------------------

Stack = tuple["Node", ...]


class _DefinitionFinder:
    """Lookup of lines in a tree. A stack is a definition with its enclosing definitions, outermost first."""

    def __init__(self, source: SourceFile) -> None:
        self.source, self.language = source, source.language
        self.definitions: dict[int, Definition | None] = {}
        self.children: dict[int, list[tuple[LineRange, Node]]] = {}
        self.texts = source.content.split(b"\n")

    def find_enclosing(self, lines: LineRange) -> Stack:
        stack: Stack = ()
        while inner := next(
            (d for d in self.iterate_children(stack, lines) if contains_range(self.measure_lines(d), lines)), None
        ):
            stack = (*stack, inner)
        return stack

    def split_range(self, lines: LineRange, stack: Stack) -> Iterator[tuple[LineRange, Stack]]:
        if stack and stack[-1].type not in self.language.containers:
            yield from ((part, self.find_enclosing(part)) for part in trim_blank_lines(self.texts, lines))
            return
        start = lines.start
        for definition in self.iterate_children(stack, lines):
            own_lines = self.measure_lines(definition)
            whole = LineRange(max(own_lines.start, start), min(own_lines.end, lines.end))
            if whole.start > whole.end:
                continue
            yield from ((part, stack) for part in trim_blank_lines(self.texts, LineRange(start, whole.start - 1)))
            inner = (*stack, definition)
            yield from [(whole, inner)] if whole == own_lines else self.split_range(whole, inner)
            start = whole.end + 1
        yield from ((part, stack) for part in trim_blank_lines(self.texts, LineRange(start, lines.end)))

    def iterate_children(self, stack: Stack, lines: LineRange) -> Iterator["Node"]:
        top = stack[-1] if stack else self.source.root
        pending = [top]
        while pending:
            node = pending.pop()
            if node is not top:
                is_value = node.type in self.language.value_fields and find_value(node, self.language) is not None
                definition = node if is_value else find_definition(node, self.language)
                if definition is not None:
                    yield definition
                    continue
            if node.id not in self.children:  # cached: a file may have many
                self.children[node.id] = [(measure_node_lines(c), c) for c in node.children if c.is_named]
            children = self.children[node.id]
            first = bisect_left(children, lines.start, key=lambda child: child[0].end)
            end = bisect_right(children, lines.end, key=lambda child: child[0].start)
            pending += [child for _, child in reversed(children[first:end])]

    def measure_lines(self, definition: "Node") -> LineRange:
        node, values = definition, self.language.value_fields
        while (outer := node.parent) is not None:
            if outer.type in GROUP_KINDS:
                wraps = sum(c.is_named for c in outer.children) == 1
            else:
                wraps = outer.type in self.language.wrappers and not (node.type in values and outer.type in values)
            if not wraps:
                break
            node = outer
        return measure_node_lines(node)

    def find_innermost(self, stack: Stack) -> Definition | None:
        """Return the innermost definition with qualified name and hash; None for a too deep tree."""
        if not stack:
            return None
        language, node = self.language, stack[-1]
        if node.id not in self.definitions:
            names = [read_name(outer, self.source) for outer in stack]
            lines, own_name = self.measure_lines(node), names[-1].rpartition(".")[2]
            kind = language.definitions.get(node.type, "function")
            if node.type in language.value_fields:
                value = find_value(node, language)
                kind = "class" if value is not None and value.type in CLASS_KINDS else "function"
            try:
                nodes = flatten_tree(node, self.source.content, language)
                replaced = {n: "\0self" for n, t in enumerate(nodes) if t.leaf and t.named and t.text == own_name}
                replaced |= local_names(nodes, language, self.source.macro_words)
                name = language.separator.join(filter(None, names))[:MAX_NAME_CHARS]
                hashed = hash_form(render_form(nodes, language, replaced))
                self.definitions[node.id] = Definition(kind, name, lines.start, lines.end, hashed)
            except TreeTooDeep:
                self.definitions[node.id] = None
        return self.definitions[node.id]


def find_value(node: "Node", language: Language) -> "Node | None":
    """Return the function or class named here, also as an argument of a call."""
    value = node.child_by_field_name(language.value_fields[node.type])
    for _ in range(3):
        if value is None or value.type in FUNCTION_KINDS or value.type in CLASS_KINDS:
            return value
        inner = value.child_by_field_name("arguments") if value.type == "call_expression" else value
        if inner is None or inner.type not in ("arguments", "expression_list"):
            return None
        value = next((c for c in inner.children if c.type in FUNCTION_KINDS or c.type == "call_expression"), None)
    return None


def trim_blank_lines(texts: Sequence[bytes], lines: LineRange) -> list[LineRange]:
    part = texts[lines.start - 1 : max(lines.start - 1, lines.end)]
    filled = [n for n, text in enumerate(part, lines.start) if text.strip()]
    return [LineRange(filled[0], filled[-1])] if filled else []


def measure_node_lines(node: "Node") -> LineRange:
    """Return the 1-based lines of a node, excluding a last line with column 0."""
    start, end = node.start_point, node.end_point
    last = end.row if end.column == 0 and end.row > start.row else end.row + 1
    return LineRange(start.row + 1, last)


def contains_range(outer: LineRange, inner: LineRange) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
