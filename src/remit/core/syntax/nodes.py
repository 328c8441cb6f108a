"""Which definition lines belong to, and the hash of that definition."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from remit.core.contents import LineRange
from remit.core.syntax.comments import is_spoken, is_template
from remit.core.syntax.grammars import parse
from remit.core.syntax.headings import Section, innermost, parts, sections
from remit.core.syntax.items import Source, definition_in, name_of
from remit.core.syntax.locals import local_names
from remit.core.syntax.rows import Row, kinds, row_of
from remit.core.syntax.twigs import TooDeep, digest, flatten, form

if TYPE_CHECKING:
    from tree_sitter import Node

LARGEST = 1024 * 1024
"""Bytes; a larger file is data, or generated, and its language is treated as unknown."""
LONGEST_NAME = 200
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


def nodes(path: str, content: bytes, ranges: Iterable[LineRange]) -> tuple[Definition | None, ...]:
    """For each range the innermost definition that holds all of it; None where none does, or nothing can be told."""
    source = source_of(path, content)
    if source is None:
        return tuple(None for _ in ranges)
    if source.row.layout:
        known = sections(source)
        return tuple(headed(innermost(known, r)) for r in ranges)
    finder = _Finder(source)
    return tuple(finder.node(finder.enclosing(r)) for r in ranges)


def spans(path: str, content: bytes, ranges: Iterable[LineRange]) -> tuple[NodeSpan, ...]:
    """The ranges, cut where one of several definitions ends, with the definition that each part belongs to.

    Blank lines between definitions are left out. Where nothing can be told, the ranges as they are.
    """
    source = source_of(path, content)
    if source is None:
        return tuple(NodeSpan(r, None) for r in ranges)
    if source.row.layout:
        known, texts = sections(source), content.split(b"\n")
        cut = [(lines, section) for r in ranges for lines, section in parts(known, r)]
        return tuple(NodeSpan(part, headed(section)) for lines, section in cut for part in written(texts, lines))
    finder = _Finder(source)
    return tuple(NodeSpan(lines, finder.node(stack)) for r in ranges for lines, stack in finder.cut(r, ()))


def headed(section: Section | None) -> Definition | None:
    """A section as a definition."""
    if section is None:
        return None
    return Definition("heading", section.name[:LONGEST_NAME], section.lines.start, section.lines.end, section.hash)


def source_of(path: str, content: bytes) -> Source | None:
    """The file as its language reads it; None where the language is unknown, or it is not of that language."""
    row = row_of(path)
    if row is None or len(content) > LARGEST:
        return None
    root = parse(row.name, content)
    if root is None:
        return None
    spoken = is_spoken(content) or (row.name == "yaml" and is_template(content))
    return Source(content, replace(row, spoken=True) if spoken else row, root)


Stack = tuple["Node", ...]


class _Finder:
    """Looks up lines in one tree. A stack is a definition with those around it, the outermost first."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: dict[int, Definition | None] = {}
        self.children: dict[int, list[tuple[LineRange, Node]]] = {}
        self.texts = source.content.split(b"\n")

    def enclosing(self, wanted: LineRange) -> Stack:
        """The definitions that hold all of these lines."""
        stack: Stack = ()
        while inner := next((d for d in self.below(stack, wanted) if holds(self.lines(d), wanted)), None):
            stack = (*stack, inner)
        return stack

    def cut(self, wanted: LineRange, stack: Stack) -> Iterator[tuple[LineRange, Stack]]:
        """Parts of a range with their definitions, in order."""
        if stack and stack[-1].type not in self.source.row.containers:
            yield from ((part, self.enclosing(part)) for part in written(self.texts, wanted))
            return
        at = wanted.start
        for definition in self.below(stack, wanted):
            lines = self.lines(definition)
            low, high = max(lines.start, at), min(lines.end, wanted.end)
            if low > high:
                continue
            yield from ((part, stack) for part in written(self.texts, LineRange(at, low - 1)))
            whole = LineRange(low, high)
            inside = whole != lines
            yield from self.cut(whole, (*stack, definition)) if inside else [(whole, (*stack, definition))]
            at = high + 1
        yield from ((part, stack) for part in written(self.texts, LineRange(at, wanted.end)))

    def below(self, stack: Stack, wanted: LineRange) -> Iterator["Node"]:
        """The definitions right below, of those that overlap the lines."""
        row = self.source.row
        waiting = [stack[-1] if stack else self.source.root]
        top = waiting[0]
        while waiting:
            node = waiting.pop()
            definition = definition_at(node, row) if node is not top else None
            if definition is not None:
                yield definition
                continue
            waiting += reversed(self.near(node, wanted))

    def near(self, node: "Node", wanted: LineRange) -> "list[Node]":
        """The children of a node that overlap the lines; they are asked for once, as a file may have many."""
        if node.id not in self.children:
            self.children[node.id] = [(node_lines(c), c) for c in node.children if c.is_named]
        known = self.children[node.id]
        first = bisect_left(known, wanted.start, key=lambda child: child[0].end)
        behind = bisect_right(known, wanted.end, key=lambda child: child[0].start)
        return [child for _, child in known[first:behind]]

    def lines(self, definition: "Node") -> LineRange:
        """The lines of a definition, with what is wrapped around it."""
        node = definition
        while node.parent is not None and wraps(node.parent, node, self.source.row):
            node = node.parent
        return node_lines(node)

    def node(self, stack: Stack) -> Definition | None:
        """The innermost of these definitions."""
        if not stack:
            return None
        if stack[-1].id not in self.found:
            self.found[stack[-1].id] = self.made(stack)
        return self.found[stack[-1].id]

    def made(self, stack: Stack) -> Definition | None:
        """The definition with its qualified name and its hash; None where it nests too deep."""
        row, definition = self.source.row, stack[-1]
        names = [name_of(node, self.source) for node in stack]
        lines = self.lines(definition)
        try:
            twigs = flatten(definition, self.source.content, row)
            local = local_names(twigs, row.naming, self.source.hidden)
        except TooDeep:
            return None
        own = {
            n: "\0self" for n, t in enumerate(twigs) if t.leaf and t.named and t.text == names[-1].rpartition(".")[2]
        }
        name = row.separator.join(n for n in names if n)[:LONGEST_NAME]
        text = form(twigs, row, {**own, **local})
        return Definition(kind_of(definition, row), name, lines.start, lines.end, digest(text))


FUNCTIONS = kinds("arrow_function function_expression generator_function func_literal")
CLASSES = kinds("class")
GROUPS = kinds("type_declaration lexical_declaration variable_declaration var_declaration expression_statement")
"""What stands around one definition or several."""


def definition_at(node: "Node", row: Row) -> "Node | None":
    """The definition that a node is, or is wrapped around, or the value of which it names; None for none."""
    if node.type in row.values and value_of(node, row) is not None:
        return node
    return definition_in(node, row)


def value_of(node: "Node", row: Row) -> "Node | None":
    """The function or the class that gets its name here, also where something else is called with it."""
    found = node.child_by_field_name(row.values[node.type])
    for _ in range(3):
        if found is None or found.type in FUNCTIONS or found.type in CLASSES:
            return found
        inner = found.child_by_field_name("arguments") if found.type == "call_expression" else found
        if inner is None or inner.type not in ("arguments", "expression_list"):
            return None
        found = next((c for c in inner.children if c.type in FUNCTIONS or c.type == "call_expression"), None)
    return None


def kind_of(definition: "Node", row: Row) -> str:
    """What people call it."""
    if definition.type not in row.values:
        return row.definitions[definition.type]
    value = value_of(definition, row)
    return "class" if value is not None and value.type in CLASSES else "function"


def wraps(outer: "Node", inner: "Node", row: Row) -> bool:
    """Whether a node stands around one definition, and only that."""
    if outer.type in GROUPS:
        return sum(c.is_named for c in outer.children) == 1
    return outer.type in row.wrappers and not (inner.type in row.values and outer.type in row.values)


def written(texts: Sequence[bytes], wanted: LineRange) -> list[LineRange]:
    """The range without blank lines at its ends; nothing where it is blank."""
    lines = texts[wanted.start - 1 : max(wanted.start - 1, wanted.end)]
    inked = [n for n, text in enumerate(lines, wanted.start) if text.strip()]
    return [LineRange(inked[0], inked[-1])] if inked else []


def node_lines(node: "Node") -> LineRange:
    """The lines of a node, 1-based; one that ends at the beginning of a line does not have that line."""
    start, end = node.start_point, node.end_point
    last = end.row if end.column == 0 and end.row > start.row else end.row + 1
    return LineRange(start.row + 1, last)


def holds(one: LineRange, other: LineRange) -> bool:
    """Whether the second lies in the first."""
    return one.start <= other.start and other.end <= one.end
