"""Which definition lines belong to, and the hash of that definition."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.contents import LineRange
from remit.core.syntax.grammars import parse
from remit.core.syntax.items import Source, definition_in, name_of
from remit.core.syntax.locals import local_names
from remit.core.syntax.rows import row_of
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
    finder = _Finder(source)
    return tuple(finder.node(finder.enclosing(r)) for r in ranges)


def spans(path: str, content: bytes, ranges: Iterable[LineRange]) -> tuple[NodeSpan, ...]:
    """The ranges, cut where one of several definitions ends, with the definition that each part belongs to.

    Blank lines between definitions are left out. Where nothing can be told, the ranges as they are.
    """
    source = source_of(path, content)
    if source is None:
        return tuple(NodeSpan(r, None) for r in ranges)
    finder = _Finder(source)
    return tuple(NodeSpan(lines, finder.node(stack)) for r in ranges for lines, stack in finder.cut(r, ()))


def source_of(path: str, content: bytes) -> Source | None:
    """The file as its language reads it; None where the language is unknown, or it is not of that language."""
    row = row_of(path)
    if row is None or len(content) > LARGEST:
        return None
    root = parse(row.name, content)
    return None if root is None else Source(content, row, root)


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
            yield from ((part, self.enclosing(part)) for part in self.written(wanted))
            return
        at = wanted.start
        for definition in self.below(stack, wanted):
            lines = self.lines(definition)
            low, high = max(lines.start, at), min(lines.end, wanted.end)
            if low > high:
                continue
            yield from ((part, stack) for part in self.written(LineRange(at, low - 1)))
            whole = LineRange(low, high)
            inside = whole != lines
            yield from self.cut(whole, (*stack, definition)) if inside else [(whole, (*stack, definition))]
            at = high + 1
        yield from ((part, stack) for part in self.written(LineRange(at, wanted.end)))

    def written(self, wanted: LineRange) -> list[LineRange]:
        """The range without blank lines at its ends; nothing where it is blank."""
        texts = self.texts[wanted.start - 1 : wanted.end] if wanted.start <= wanted.end else []
        inked = [n for n, text in enumerate(texts, wanted.start) if text.strip()]
        return [LineRange(inked[0], inked[-1])] if inked else []

    def below(self, stack: Stack, wanted: LineRange) -> Iterator["Node"]:
        """The definitions right below, of those that overlap the lines."""
        row = self.source.row
        waiting = [stack[-1] if stack else self.source.root]
        top = waiting[0]
        while waiting:
            node = waiting.pop()
            definition = definition_in(node, row) if node is not top else None
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
        while node.parent is not None and node.parent.type in self.source.row.wrappers:
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
        return Definition(row.definitions[definition.type], name, lines.start, lines.end, digest(text))


def node_lines(node: "Node") -> LineRange:
    """The lines of a node, 1-based; one that ends at the beginning of a line does not have that line."""
    start, end = node.start_point, node.end_point
    last = end.row if end.column == 0 and end.row > start.row else end.row + 1
    return LineRange(start.row + 1, last)


def holds(one: LineRange, other: LineRange) -> bool:
    """Whether the second lies in the first."""
    return one.start <= other.start and other.end <= one.end
