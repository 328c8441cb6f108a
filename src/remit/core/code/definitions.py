"""Definitions that own lines of a file, with their hashes; sections of Markdown files.

The Markdown grammar opens no section for underlined headings, so sections are derived from headings.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from remit.core.code.comments import has_comment_reader, is_template
from remit.core.code.flat_tree import TreeTooDeep, flatten_tree, hash_form, render_form
from remit.core.code.grammars import parse_tree
from remit.core.code.items import SourceFile, find_definition, read_name
from remit.core.code.languages import Language, find_language, kinds
from remit.core.code.local_names import local_names
from remit.core.diff.contents import LineRange

if TYPE_CHECKING:
    from tree_sitter import Node


HEADING_LEVELS = {
    "setext_h1_underline": 1,
    "setext_h2_underline": 2,
    **{f"atx_h{level}_marker": level for level in range(1, 7)},
}
CLOSING_HASHES = re.compile(r"(?:^| )#+$")
HEADING_CONTAINERS = frozenset({"document", "section"})
"""Nodes whose headings divide the file; headings in quotations and lists do not."""


class HeadingSection(Struct, frozen=True):
    """The text below a heading. `name` joins the enclosing headings and its own."""

    lines: LineRange
    name: str
    hash: str


class _Heading(Struct):
    """A heading with its level and lines."""

    line: int
    body_line: int
    level: int
    text: str


def find_sections(source: SourceFile) -> list[HeadingSection]:
    """Return the sections in order; each ends before a heading of its level or above."""
    headings = [read_heading(node, source) for node in find_headings(source.root)]
    texts = source.content.split(b"\n")
    last = len(texts) - (not texts[-1])
    sections: list[HeadingSection] = []
    enclosing: list[_Heading] = []
    for index, heading in enumerate(headings):
        enclosing = [*(later for later in enclosing if later.level < heading.level), heading]
        end = next((later.line - 1 for later in headings[index + 1 :] if later.level <= heading.level), last)
        name = source.language.separator.join(later.text for later in enclosing if later.text)
        body = b"\n".join(texts[heading.body_line - 1 : end]).strip()
        hashed = hash_form(f"{heading.level}\n{body.decode('utf-8', 'surrogateescape')}")
        sections.append(HeadingSection(LineRange(heading.line, max(end, heading.line)), name, hashed))
    return sections


def find_headings(root: "Node") -> "list[Node]":
    pending, headings = [root], list["Node"]()
    while pending:
        node = pending.pop()
        if node.type in ("atx_heading", "setext_heading"):
            headings.append(node)
        elif node.type in HEADING_CONTAINERS:
            pending += reversed(node.children)
    return headings


def read_heading(node: "Node", source: SourceFile) -> _Heading:
    level = next((HEADING_LEVELS[c.type] for c in node.children if c.type in HEADING_LEVELS), 1)
    content = node.child_by_field_name("heading_content")
    text = CLOSING_HASHES.sub("", " ".join(source.text(content).split())) if content is not None else ""
    end = node.end_point.row + (node.end_point.column > 0)
    return _Heading(node.start_point.row + 1, end + 1, level, text)


def find_innermost_section(sections: Sequence[HeadingSection], lines: LineRange) -> HeadingSection | None:
    containing = (s for s in reversed(sections) if s.lines.start <= lines.start and lines.end <= s.lines.end)
    return next(containing, None)


def split_by_section(
    sections: Sequence[HeadingSection], lines: LineRange
) -> Iterator[tuple[LineRange, HeadingSection | None]]:
    """Yield the lines cut at outermost sections, each part with its innermost section."""
    start = lines.start
    for section in sections:
        low, high = max(section.lines.start, start), min(section.lines.end, lines.end)
        if low > high:
            continue
        if start < low:
            yield LineRange(start, low - 1), None
        yield LineRange(low, high), find_innermost_section(sections, LineRange(low, high))
        start = high + 1
    if start <= lines.end:
        yield LineRange(start, lines.end), None


MAX_BYTES = 1024 * 1024
"""Bytes of a parsed file; larger files are data or generated, and their language counts as unknown."""
MAX_NAME_CHARS = 200
"""Characters of a qualified name."""


class Definition(Struct, frozen=True):
    """A definition. `name` is qualified; `hash` is `sha256:…` over the tree without comments, layout and local names.

    The definition's own name is excluded, to keep the hash when the definition is renamed.
    """

    kind: str
    name: str
    start_line: int
    end_line: int
    hash: str


class NodeSpan(Struct, frozen=True):
    """Lines and the definition that owns them; None for lines of the file itself."""

    lines: LineRange
    node: Definition | None


def find_definitions(path: str, content: bytes, ranges: Iterable[LineRange]) -> tuple[Definition | None, ...]:
    """Return, for each range, the innermost definition that holds the range; None if unknown."""
    source = parse_source(path, content)
    if source is None:
        return tuple(None for _ in ranges)
    if source.language.layout_matters:
        sections = find_sections(source)
        return tuple(describe_section(find_innermost_section(sections, r)) for r in ranges)
    finder = _DefinitionFinder(source)
    return tuple(finder.find_innermost(finder.find_enclosing(r)) for r in ranges)


def split_by_definition(path: str, content: bytes, ranges: Iterable[LineRange]) -> tuple[NodeSpan, ...]:
    """Return the ranges cut at definitions, each part with its definition.

    Blank lines between definitions are left out. Ranges of unknown languages stay whole.
    """
    source = parse_source(path, content)
    if source is None:
        return tuple(NodeSpan(r, None) for r in ranges)
    if source.language.layout_matters:
        sections, texts = find_sections(source), content.split(b"\n")
        cut = [(lines, section) for r in ranges for lines, section in split_by_section(sections, r)]
        return tuple(
            NodeSpan(part, describe_section(section))
            for lines, section in cut
            for part in trim_blank_lines(texts, lines)
        )
    finder = _DefinitionFinder(source)
    return tuple(
        NodeSpan(lines, finder.find_innermost(stack)) for r in ranges for lines, stack in finder.split_range(r, ())
    )


def describe_section(section: HeadingSection | None) -> Definition | None:
    if section is None:
        return None
    return Definition("heading", section.name[:MAX_NAME_CHARS], section.lines.start, section.lines.end, section.hash)


def parse_source(path: str, content: bytes) -> SourceFile | None:
    """Parse a file; None for an unknown language, or for syntax errors."""
    language = find_language(path)
    if language is None or len(content) > MAX_BYTES:
        return None
    root = parse_tree(language.name, content)
    if root is None:
        return None
    spoken = has_comment_reader(content) or (language.name == "yaml" and is_template(content))
    return SourceFile(content, replace(language, comments_matter=True) if spoken else language, root)


Stack = tuple["Node", ...]


class _DefinitionFinder:
    """Lookup of lines in a tree. A stack is a definition with its enclosing definitions, outermost first."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
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
        """Yield parts of a range with their definitions, in order."""
        if stack and stack[-1].type not in self.source.language.containers:
            yield from ((part, self.find_enclosing(part)) for part in trim_blank_lines(self.texts, lines))
            return
        start = lines.start
        for definition in self.iterate_children(stack, lines):
            own_lines = self.measure_lines(definition)
            low, high = max(own_lines.start, start), min(own_lines.end, lines.end)
            if low > high:
                continue
            yield from ((part, stack) for part in trim_blank_lines(self.texts, LineRange(start, low - 1)))
            whole = LineRange(low, high)
            is_partial = whole != own_lines
            yield from self.split_range(whole, (*stack, definition)) if is_partial else [(whole, (*stack, definition))]
            start = high + 1
        yield from ((part, stack) for part in trim_blank_lines(self.texts, LineRange(start, lines.end)))

    def iterate_children(self, stack: Stack, lines: LineRange) -> Iterator["Node"]:
        """Yield the direct inner definitions that overlap the lines."""
        language = self.source.language
        pending = [stack[-1] if stack else self.source.root]
        top = pending[0]
        while pending:
            node = pending.pop()
            definition = find_definition_at(node, language) if node is not top else None
            if definition is not None:
                yield definition
                continue
            pending += reversed(self.select_overlapping(node, lines))

    def select_overlapping(self, node: "Node", lines: LineRange) -> "list[Node]":
        """Return children of a node that overlap the lines; cached, since a file may have many."""
        if node.id not in self.children:
            self.children[node.id] = [(measure_node_lines(c), c) for c in node.children if c.is_named]
        children = self.children[node.id]
        first = bisect_left(children, lines.start, key=lambda child: child[0].end)
        end = bisect_right(children, lines.end, key=lambda child: child[0].start)
        return [child for _, child in children[first:end]]

    def measure_lines(self, definition: "Node") -> LineRange:
        node = definition
        while node.parent is not None and is_wrapper(node.parent, node, self.source.language):
            node = node.parent
        return measure_node_lines(node)

    def find_innermost(self, stack: Stack) -> Definition | None:
        if not stack:
            return None
        if stack[-1].id not in self.definitions:
            self.definitions[stack[-1].id] = self.build_definition(stack)
        return self.definitions[stack[-1].id]

    def build_definition(self, stack: Stack) -> Definition | None:
        """Return the definition with qualified name and hash; None for a too deep tree."""
        language, definition = self.source.language, stack[-1]
        names = [read_name(node, self.source) for node in stack]
        lines = self.measure_lines(definition)
        try:
            flat_nodes = flatten_tree(definition, self.source.content, language)
            local_numbers = local_names(flat_nodes, language.naming, self.source.macro_words)
        except TreeTooDeep:
            return None
        own_names = {
            n: "\0self"
            for n, t in enumerate(flat_nodes)
            if t.leaf and t.named and t.text == names[-1].rpartition(".")[2]
        }
        name = language.separator.join(n for n in names if n)[:MAX_NAME_CHARS]
        text = render_form(flat_nodes, language, {**own_names, **local_numbers})
        return Definition(describe_kind(definition, language), name, lines.start, lines.end, hash_form(text))


FUNCTION_KINDS = kinds("arrow_function function_expression generator_function func_literal")
CLASS_KINDS = kinds("class")
GROUP_KINDS = kinds("type_declaration lexical_declaration variable_declaration var_declaration expression_statement")
"""Kinds of nodes around a single definition, or around several."""


def find_definition_at(node: "Node", language: Language) -> "Node | None":
    """Return the definition of a node, of its wrapper, or of the value it names; None otherwise."""
    if node.type in language.value_fields and find_value(node, language) is not None:
        return node
    return find_definition(node, language)


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


def describe_kind(definition: "Node", language: Language) -> str:
    if definition.type not in language.value_fields:
        return language.definitions[definition.type]
    value = find_value(definition, language)
    return "class" if value is not None and value.type in CLASS_KINDS else "function"


def is_wrapper(outer: "Node", inner: "Node", language: Language) -> bool:
    """Return whether a node wraps exactly one definition."""
    if outer.type in GROUP_KINDS:
        return sum(c.is_named for c in outer.children) == 1
    return outer.type in language.wrappers and not (
        inner.type in language.value_fields and outer.type in language.value_fields
    )


def trim_blank_lines(texts: Sequence[bytes], lines: LineRange) -> list[LineRange]:
    """Return the range without blank lines at its ends; empty for a blank range."""
    slice_ = texts[lines.start - 1 : max(lines.start - 1, lines.end)]
    filled = [n for n, text in enumerate(slice_, lines.start) if text.strip()]
    return [LineRange(filled[0], filled[-1])] if filled else []


def measure_node_lines(node: "Node") -> LineRange:
    """Return the 1-based lines of a node, excluding a last line with column 0."""
    start, end = node.start_point, node.end_point
    last = end.row if end.column == 0 and end.row > start.row else end.row + 1
    return LineRange(start.row + 1, last)


def contains_range(outer: LineRange, inner: LineRange) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
