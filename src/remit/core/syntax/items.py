"""The parts of a file, in order: definitions with their members, and the statements between them."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from remit.core.syntax.locals import local_names
from remit.core.syntax.rows import Row, kinds
from remit.core.syntax.twigs import Twig, flatten, form

if TYPE_CHECKING:
    from tree_sitter import Node

NESTED = 30
"""Containers within containers whose members are told apart; deeper ones are compared whole."""
WORD = re.compile(r"\w+")


class Source:
    """One version of one file. `renames` are new names for functions that only this file can name."""

    def __init__(self, content: bytes, row: Row, root: "Node") -> None:
        self.content, self.row, self.root = content, row, root
        self.renames: dict[str, str] = {}

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The words in macros of this file."""
        texts = (self.text(n) for n in self.root.children if n.type in self.row.macros)
        return frozenset(word for text in texts for word in WORD.findall(text))

    def text(self, node: "Node") -> str:
        """The text of a node."""
        return self.content[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")

    @cached_property
    def items(self) -> "list[Item]":
        """The parts of the file."""
        return items_of(self, self.root, 0)


class Item:
    """One part: a definition, with what stands before and around it, or a statement."""

    def __init__(self, source: Source, nodes: "Sequence[Node]", depth: int) -> None:
        self.source, self.nodes, self.depth = source, nodes, depth
        self.definition = definition_in(nodes[-1], source.row)

    @cached_property
    def text(self) -> str:
        """The source of it, comments and all."""
        first, last = self.nodes[0], self.nodes[-1]
        return self.source.content[first.start_byte : last.end_byte].decode("utf-8", "surrogateescape")

    @cached_property
    def name(self) -> str:
        """The name that is defined, after renaming; empty for a statement."""
        found = name_of(self.definition, self.source) if self.definition is not None else ""
        return self.source.renames.get(found, found)

    @cached_property
    def body(self) -> "Node | None":
        """The body of a container whose members are looked at one by one."""
        if self.definition is None or self.definition.type not in self.source.row.containers or self.depth >= NESTED:
            return None
        return self.definition.child_by_field_name("body")

    @cached_property
    def members(self) -> "list[Item]":
        """The parts of a container."""
        return items_of(self.source, self.body, self.depth + 1) if self.body is not None else []

    @cached_property
    def form(self) -> str:
        """What it is, up to layout, comments and local names; of a container, without its members. Raises TooDeep."""
        skip = self.body.start_byte if self.body is not None else -1
        row, source = self.source.row, self.source
        parts: list[str] = []
        for node in self.nodes:
            twigs = flatten(node, source.content, row, skip)
            names = local_names(twigs, row.naming, source.hidden)
            parts.append(form(twigs, row, {**renamed(twigs, source), **names}))
        return "\n".join(parts)

    @cached_property
    def key(self) -> tuple[str, str]:
        """What tells it from its neighbours: kind and name; of a statement, its form. Raises TooDeep."""
        if self.definition is not None and self.name:
            return self.definition.type, self.name
        return "", self.form

    @cached_property
    def movable(self) -> bool:
        """Whether it is a function that nothing around it runs when the file is read."""
        row = self.source.row
        if self.definition is None or not self.name or self.definition.type not in row.movable:
            return False
        if any(node.type == "decorator" for node in self.nodes):
            return False
        return not any(t.kind in row.calls for t in self.header if t.parent >= 0) and self.harmless

    @cached_property
    def harmless(self) -> bool:
        """Whether its decorators are known to run nothing of the project's. Rust's attributes move along."""
        decorators = [c for c in self.nodes[-1].children if c.type == "decorator"]
        return all(self.source.text(d).removeprefix("@").strip() in self.source.row.harmless for d in decorators)

    @cached_property
    def header(self) -> list[Twig]:
        """Everything but the body: what runs when the file is read, where definitions are statements."""
        if self.definition is None:
            return flatten(self.nodes[-1], self.source.content, self.source.row)
        body = self.definition.child_by_field_name("body")
        name = self.definition.child_by_field_name("name")
        found = flatten(self.nodes[-1], self.source.content, self.source.row, body.start_byte if body else -1)
        return [t for t in found if name is None or t.start != name.start_byte]

    @cached_property
    def inert(self) -> bool:
        """Whether reading it runs nothing: a plain value under a name, or a class of functions only."""
        if self.body is not None:
            plain = not self.nodes[-1].child_by_field_name("superclasses") and not self.decorated
            bases = self.definition is not None and self.definition.child_by_field_name("superclasses")
            return plain and not bases and all(m.movable or m.inert for m in self.members)
        if self.definition is not None:
            return False
        return not {t.kind for t in self.header if t.field != "left" or t.kind not in TARGETS} - PLAIN

    @property
    def decorated(self) -> bool:
        """Whether a decorator stands before it."""
        return len(self.nodes) > 1 or any(c.type == "decorator" for c in self.nodes[-1].children)

    @cached_property
    def mentions(self) -> frozenset[str]:
        """The words in it that matter for its place: all of them, or only those that run when the file is read."""
        if self.source.row.order == "runs":
            return frozenset(WORD.findall(self.text))
        own = [t.text for t in self.header if t.leaf and t.named]
        return frozenset(own).union(*(m.mentions for m in self.members))


PLAIN = kinds(
    "expression_statement assignment string string_start string_content string_end integer float true false none = pass"
    " pass_statement comment"
)
"""Kinds of a statement that runs nothing: a plain value, or a docstring."""
TARGETS = frozenset({"identifier", "constant"})


def renamed(twigs: Sequence[Twig], source: Source) -> dict[int, str]:
    """The new names of functions, by place."""
    if not source.renames:
        return {}
    return {n: source.renames[t.text] for n, t in enumerate(twigs) if t.leaf and t.text in source.renames}


def items_of(source: Source, parent: "Node", depth: int) -> list[Item]:
    """The parts of a file, or of a body: what belongs before a definition goes with it; lone signs are left out."""
    row = source.row
    found: list[Item] = []
    before: list[Node] = []
    for node in parent.children:
        if not node.is_named or (node.type in row.comments and not row.keeps(source.text(node))):
            continue
        before.append(node)
        if node.type not in row.prefixes:
            found.append(Item(source, before, depth))
            before = []
    return [*found, Item(source, before, depth)] if before else found


def definition_in(node: "Node", row: Row) -> "Node | None":
    """The definition that a node is, or is wrapped around; None for a statement."""
    for _ in range(3):
        if node.type in row.definitions:
            return node
        if node.type not in row.wrappers:
            return None
        inner = [c for c in node.children if c.type in row.definitions or c.type in row.wrappers]
        if len(inner) != 1:
            return None
        node = inner[0]
    return None


def name_of(node: "Node", source: Source) -> str:
    """What a definition is called, on one line; empty where it has no plain name."""
    field = source.row.named_by.get(node.type, "name")
    found = _NAMED.get(field, _by_field)(node, field)
    if field == "receiver":
        return _method_name(node, source)
    text = source.text(found) if found is not None else ""
    if found is not None and found.type == "computed_property_name":
        return ""
    return " ".join(text.strip("\"'`#= \t").split())


def _by_field(node: "Node", field: str) -> "Node | None":
    return node.child_by_field_name(field)


def _declared(node: "Node", field: str) -> "Node | None":
    """The name in C's declarators, which stand around it."""
    found = node.child_by_field_name(field)
    while found is not None and (inner := found.child_by_field_name("declarator")):
        found = inner
    return found


def _first(node: "Node", _: str) -> "Node | None":
    return next((c for c in node.children if c.is_named), None)


def _heading(node: "Node", _: str) -> "Node | None":
    heading = next((c for c in node.children if c.type in ("atx_heading", "setext_heading")), None)
    return heading.child_by_field_name("heading_content") if heading else None


_NAMED = {"declarator": _declared, "first": _first, "heading": _heading}


def _method_name(node: "Node", source: Source) -> str:
    """`Type.Method` for Go, where the receiver is what a method belongs to."""
    receiver, name = node.child_by_field_name("receiver"), node.child_by_field_name("name")
    if receiver is None or name is None:
        return ""
    words = WORD.findall(source.text(receiver).partition("[")[0])
    return f"{words[-1]}.{source.text(name)}" if words else source.text(name)
