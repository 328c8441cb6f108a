"""Which definition lines belong to, and the hash of that definition.

The sections of a Markdown file. Its grammar opens none for a heading that is underlined.
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
"""What holds the headings that divide a file; one in a quotation or a list divides nothing."""


class HeadingSection(Struct, frozen=True):
    """What a heading stands over. `name` is that of all headings around it, with the last its own."""

    lines: LineRange
    name: str
    hash: str


class _Heading(Struct):
    line: int
    body_line: int
    level: int
    text: str


def find_sections(source: SourceFile) -> list[HeadingSection]:
    """All sections of the file, in order: each ends where a heading of its level, or of a higher one, comes."""
    found = [read_heading(node, source) for node in find_headings(source.root)]
    texts = source.content.split(b"\n")
    last = len(texts) - (not texts[-1])
    made: list[HeadingSection] = []
    around: list[_Heading] = []
    for n, one in enumerate(found):
        around = [*(other for other in around if other.level < one.level), one]
        end = next((other.line - 1 for other in found[n + 1 :] if other.level <= one.level), last)
        name = source.row.separator.join(other.text for other in around if other.text)
        body = b"\n".join(texts[one.body_line - 1 : end]).strip()
        hashed = hash_form(f"{one.level}\n{body.decode('utf-8', 'surrogateescape')}")
        made.append(HeadingSection(LineRange(one.line, max(end, one.line)), name, hashed))
    return made


def find_headings(root: "Node") -> "list[Node]":
    """The headings that divide the file, in order."""
    waiting, found = [root], list["Node"]()
    while waiting:
        node = waiting.pop()
        if node.type in ("atx_heading", "setext_heading"):
            found.append(node)
        elif node.type in HEADING_CONTAINERS:
            waiting += reversed(node.children)
    return found


def read_heading(node: "Node", source: SourceFile) -> _Heading:
    """A heading, with its level and the line below it."""
    level = next((HEADING_LEVELS[c.type] for c in node.children if c.type in HEADING_LEVELS), 1)
    content = node.child_by_field_name("heading_content")
    text = CLOSING_HASHES.sub("", " ".join(source.text(content).split())) if content is not None else ""
    end = node.end_point.row + (node.end_point.column > 0)
    return _Heading(node.start_point.row + 1, end + 1, level, text)


def find_innermost_section(known: Sequence[HeadingSection], wanted: LineRange) -> HeadingSection | None:
    """The last section that holds all of these lines."""
    held = (s for s in reversed(known) if s.lines.start <= wanted.start and wanted.end <= s.lines.end)
    return next(held, None)


def split_by_section(
    known: Sequence[HeadingSection], wanted: LineRange
) -> Iterator[tuple[LineRange, HeadingSection | None]]:
    """The lines, cut where an outermost section begins, with the innermost section that holds each part."""
    at = wanted.start
    for section in known:
        low, high = max(section.lines.start, at), min(section.lines.end, wanted.end)
        if low > high:
            continue
        if at < low:
            yield LineRange(at, low - 1), None
        yield LineRange(low, high), find_innermost_section(known, LineRange(low, high))
        at = high + 1
    if at <= wanted.end:
        yield LineRange(at, wanted.end), None


MAX_BYTES = 1024 * 1024
"""Bytes; a larger file is data, or generated, and its language is treated as unknown."""
MAX_NAME_CHARS = 200
"""Characters of a qualified name."""


class Definition(Struct, frozen=True):
    """A definition. `name` is qualified; `hash` is `sha256:…` over its tree without comments, layout and local names.

    Its own name is left out of the hash, so that it stays when the definition is renamed.
    """

    kind: str
    name: str
    start_line: int
    end_line: int
    hash: str


class NodeSpan(Struct, frozen=True):
    """Lines, and the definition that they belong to; None where they belong to the file."""

    lines: LineRange
    node: Definition | None


def find_definitions(path: str, content: bytes, ranges: Iterable[LineRange]) -> tuple[Definition | None, ...]:
    """For each range the innermost definition that holds all of it; None where none does, or nothing can be told."""
    source = parse_source(path, content)
    if source is None:
        return tuple(None for _ in ranges)
    if source.row.layout:
        known = find_sections(source)
        return tuple(describe_section(find_innermost_section(known, r)) for r in ranges)
    finder = _DefinitionFinder(source)
    return tuple(finder.find_innermost(finder.find_enclosing(r)) for r in ranges)


def split_by_definition(path: str, content: bytes, ranges: Iterable[LineRange]) -> tuple[NodeSpan, ...]:
    """The ranges, cut where one of several definitions ends, with the definition that each part belongs to.

    Blank lines between definitions are left out. Where nothing can be told, the ranges as they are.
    """
    source = parse_source(path, content)
    if source is None:
        return tuple(NodeSpan(r, None) for r in ranges)
    if source.row.layout:
        known, texts = find_sections(source), content.split(b"\n")
        cut = [(lines, section) for r in ranges for lines, section in split_by_section(known, r)]
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
    """A section as a definition."""
    if section is None:
        return None
    return Definition("heading", section.name[:MAX_NAME_CHARS], section.lines.start, section.lines.end, section.hash)


def parse_source(path: str, content: bytes) -> SourceFile | None:
    """The file as its language reads it; None where the language is unknown, or it is not of that language."""
    row = find_language(path)
    if row is None or len(content) > MAX_BYTES:
        return None
    root = parse_tree(row.name, content)
    if root is None:
        return None
    spoken = has_comment_reader(content) or (row.name == "yaml" and is_template(content))
    return SourceFile(content, replace(row, spoken=True) if spoken else row, root)


Stack = tuple["Node", ...]


class _DefinitionFinder:
    """Looks up lines in one tree. A stack is a definition with those around it, the outermost first."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.definitions: dict[int, Definition | None] = {}
        self.children: dict[int, list[tuple[LineRange, Node]]] = {}
        self.texts = source.content.split(b"\n")

    def find_enclosing(self, wanted: LineRange) -> Stack:
        """The definitions that hold all of these lines."""
        stack: Stack = ()
        while inner := next(
            (d for d in self.iterate_children(stack, wanted) if contains_range(self.measure_lines(d), wanted)), None
        ):
            stack = (*stack, inner)
        return stack

    def split_range(self, wanted: LineRange, stack: Stack) -> Iterator[tuple[LineRange, Stack]]:
        """Parts of a range with their definitions, in order."""
        if stack and stack[-1].type not in self.source.row.containers:
            yield from ((part, self.find_enclosing(part)) for part in trim_blank_lines(self.texts, wanted))
            return
        at = wanted.start
        for definition in self.iterate_children(stack, wanted):
            lines = self.measure_lines(definition)
            low, high = max(lines.start, at), min(lines.end, wanted.end)
            if low > high:
                continue
            yield from ((part, stack) for part in trim_blank_lines(self.texts, LineRange(at, low - 1)))
            whole = LineRange(low, high)
            inside = whole != lines
            yield from self.split_range(whole, (*stack, definition)) if inside else [(whole, (*stack, definition))]
            at = high + 1
        yield from ((part, stack) for part in trim_blank_lines(self.texts, LineRange(at, wanted.end)))

    def iterate_children(self, stack: Stack, wanted: LineRange) -> Iterator["Node"]:
        """The definitions right below, of those that overlap the lines."""
        row = self.source.row
        waiting = [stack[-1] if stack else self.source.root]
        top = waiting[0]
        while waiting:
            node = waiting.pop()
            definition = find_definition_at(node, row) if node is not top else None
            if definition is not None:
                yield definition
                continue
            waiting += reversed(self.select_overlapping(node, wanted))

    def select_overlapping(self, node: "Node", wanted: LineRange) -> "list[Node]":
        """The children of a node that overlap the lines; they are asked for once, as a file may have many."""
        if node.id not in self.children:
            self.children[node.id] = [(measure_node_lines(c), c) for c in node.children if c.is_named]
        known = self.children[node.id]
        first = bisect_left(known, wanted.start, key=lambda child: child[0].end)
        behind = bisect_right(known, wanted.end, key=lambda child: child[0].start)
        return [child for _, child in known[first:behind]]

    def measure_lines(self, definition: "Node") -> LineRange:
        """The lines of a definition, with what is wrapped around it."""
        node = definition
        while node.parent is not None and is_wrapper(node.parent, node, self.source.row):
            node = node.parent
        return measure_node_lines(node)

    def find_innermost(self, stack: Stack) -> Definition | None:
        """The innermost of these definitions."""
        if not stack:
            return None
        if stack[-1].id not in self.definitions:
            self.definitions[stack[-1].id] = self.build_definition(stack)
        return self.definitions[stack[-1].id]

    def build_definition(self, stack: Stack) -> Definition | None:
        """The definition with its qualified name and its hash; None where it nests too deep."""
        row, definition = self.source.row, stack[-1]
        names = [read_name(node, self.source) for node in stack]
        lines = self.measure_lines(definition)
        try:
            twigs = flatten_tree(definition, self.source.content, row)
            local = local_names(twigs, row.naming, self.source.macro_words)
        except TreeTooDeep:
            return None
        own = {
            n: "\0self" for n, t in enumerate(twigs) if t.leaf and t.named and t.text == names[-1].rpartition(".")[2]
        }
        name = row.separator.join(n for n in names if n)[:MAX_NAME_CHARS]
        text = render_form(twigs, row, {**own, **local})
        return Definition(describe_kind(definition, row), name, lines.start, lines.end, hash_form(text))


FUNCTION_KINDS = kinds("arrow_function function_expression generator_function func_literal")
CLASS_KINDS = kinds("class")
GROUP_KINDS = kinds("type_declaration lexical_declaration variable_declaration var_declaration expression_statement")
"""What stands around one definition or several."""


def find_definition_at(node: "Node", row: Language) -> "Node | None":
    """The definition that a node is, or is wrapped around, or the value of which it names; None for none."""
    if node.type in row.values and find_value(node, row) is not None:
        return node
    return find_definition(node, row)


def find_value(node: "Node", row: Language) -> "Node | None":
    """The function or the class that gets its name here, also where something else is called with it."""
    found = node.child_by_field_name(row.values[node.type])
    for _ in range(3):
        if found is None or found.type in FUNCTION_KINDS or found.type in CLASS_KINDS:
            return found
        inner = found.child_by_field_name("arguments") if found.type == "call_expression" else found
        if inner is None or inner.type not in ("arguments", "expression_list"):
            return None
        found = next((c for c in inner.children if c.type in FUNCTION_KINDS or c.type == "call_expression"), None)
    return None


def describe_kind(definition: "Node", row: Language) -> str:
    """What people call it."""
    if definition.type not in row.values:
        return row.definitions[definition.type]
    value = find_value(definition, row)
    return "class" if value is not None and value.type in CLASS_KINDS else "function"


def is_wrapper(outer: "Node", inner: "Node", row: Language) -> bool:
    """Whether a node stands around one definition, and only that."""
    if outer.type in GROUP_KINDS:
        return sum(c.is_named for c in outer.children) == 1
    return outer.type in row.wrappers and not (inner.type in row.values and outer.type in row.values)


def trim_blank_lines(texts: Sequence[bytes], wanted: LineRange) -> list[LineRange]:
    """The range without blank lines at its ends; nothing where it is blank."""
    lines = texts[wanted.start - 1 : max(wanted.start - 1, wanted.end)]
    inked = [n for n, text in enumerate(lines, wanted.start) if text.strip()]
    return [LineRange(inked[0], inked[-1])] if inked else []


def measure_node_lines(node: "Node") -> LineRange:
    """The lines of a node, 1-based; one that ends at the beginning of a line does not have that line."""
    start, end = node.start_point, node.end_point
    last = end.row if end.column == 0 and end.row > start.row else end.row + 1
    return LineRange(start.row + 1, last)


def contains_range(one: LineRange, other: LineRange) -> bool:
    """Whether the second lies in the first."""
    return one.start <= other.start and other.end <= one.end
