"""The parts of a file, in order: definitions with their members, and the statements between them."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from remit.core.code.comments import INJECTION_CALLS, MACRO_DEFINITION
from remit.core.code.flat_tree import FlatNode, flatten_tree, render_form
from remit.core.code.languages import Language, kinds
from remit.core.code.local_names import local_names

if TYPE_CHECKING:
    from tree_sitter import Node

CONSTANTS = frozenset({"const_item", "static_item"})
"""A name in a pattern may stand for one of them."""
MAX_NESTING = 30
"""Containers within containers whose members are told apart; deeper ones are compared whole."""
WORD_PATTERN = re.compile(r"\w+")


class SourceFile:
    """One version of one file. `renames` are new names for functions that only this file can name."""

    def __init__(self, content: bytes, row: Language, root: "Node") -> None:
        self.content, self.row, self.root = content, row, root
        self.renames: dict[str, str] = {}

    @cached_property
    def macro_words(self) -> frozenset[str]:
        """The words in macros of this file, wherever these are defined, and its constants."""
        if not self.row.macros:
            return frozenset()
        texts = [self.text(n) for n in self.root.children if n.type in self.row.macros]
        texts += [self.text(n).partition("=")[0] for n in self.root.children if n.type in CONSTANTS]
        texts += [self.text(n) for n in self.root.children if n.type == "use_declaration"]
        texts += MACRO_DEFINITION.findall(self.text(self.root))
        return frozenset(word for text in texts for word in WORD_PATTERN.findall(text))

    @cached_property
    def reads_argument_names(self) -> bool:
        """Whether a function of this file is given its arguments as they are written, or chosen by their names."""
        return b"CallerArgumentExpression" in self.content or INJECTION_CALLS.search(self.content) is not None

    @cached_property
    def stringified_calls(self) -> list[str]:
        """What is given to macros that make strings of it, letter for letter."""
        if not self.pastes_tokens:
            return []
        defined = [text.partition("define")[2] for text in MACRO_DEFINITION.findall(self.text(self.root))]
        names = {WORD_PATTERN.findall(text)[0] for text in defined if "#" in text}
        calls = re.finditer(rf"\b(?:{'|'.join(map(re.escape, names))})\b", self.text(self.root)) if names else ()
        return sorted(find_balanced_call(self.text(self.root), call.start()) for call in calls)

    @cached_property
    def pastes_tokens(self) -> bool:
        """Whether a macro of this file puts words together, or makes strings of them."""
        defined = MACRO_DEFINITION.findall(self.text(self.root)) if self.row.order == "runs" else []
        return any("#" in text.partition("define")[2] for text in defined)

    def text(self, node: "Node") -> str:
        """The text of a node."""
        return self.content[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")

    @cached_property
    def items(self) -> "list[Item]":
        """The parts of the file."""
        return split_items(self, self.root, 0)


class Item:
    """One part: a definition, with what stands before and around it, or a statement."""

    def __init__(self, source: SourceFile, nodes: "Sequence[Node]", depth: int, around: bool = False) -> None:
        self.source, self.nodes, self.depth = source, nodes, depth
        self.in_attributed = around
        self.definition = find_definition(nodes[-1], source.row)

    @cached_property
    def text(self) -> str:
        """The source of it, comments and all."""
        first, last = self.nodes[0], self.nodes[-1]
        return self.source.content[first.start_byte : last.end_byte].decode("utf-8", "surrogateescape")

    @cached_property
    def name(self) -> str:
        """The name that is defined, after renaming; empty for a statement."""
        found = read_name(self.definition, self.source) if self.definition is not None else ""
        return self.source.renames.get(found, found)

    @cached_property
    def body(self) -> "Node | None":
        """The body of a container whose members are looked at one by one."""
        if (
            self.definition is None
            or self.definition.type not in self.source.row.containers
            or self.depth >= MAX_NESTING
        ):
            return None
        return self.definition.child_by_field_name("body")

    @cached_property
    def members(self) -> "list[Item]":
        """The parts of a container."""
        return split_items(self.source, self.body, self.depth + 1, self.has_attribute) if self.body is not None else []

    @cached_property
    def normal_form(self) -> str:
        """What it is, up to layout, comments and local names; of a container, without its members. Raises TooDeep."""
        skip = self.body.start_byte if self.body is not None else -1
        row, source = self.source.row, self.source
        parts: list[str] = []
        for node in self.nodes:
            twigs = flatten_tree(node, source.content, row, skip)
            names = (
                {}
                if source.reads_argument_names or self.is_macro_input
                else local_names(twigs, row.naming, source.macro_words)
            )
            if node.type == "import_declaration" and row.name == "go":
                twigs = sort_go_imports(twigs)
            parts.append(render_form(twigs, row, {**find_renamed(twigs, source), **names}))
        return "\n".join(parts)

    @cached_property
    def key(self) -> tuple[str, str]:
        """What tells it from its neighbours: kind and name; of a statement, its form. Raises TooDeep."""
        if self.definition is not None and self.name:
            return self.definition.type, self.name
        return "", self.normal_form

    @cached_property
    def is_movable(self) -> bool:
        """Whether it is a function that nothing around it runs when the file is read."""
        row = self.source.row
        if self.definition is None or not self.name or self.definition.type not in row.movable:
            return False
        if any(node.type == "decorator" for node in self.nodes) or self.position_matters:
            return False
        return not any(t.kind in row.calls for t in self.header if t.parent >= 0) and self.has_harmless_decorators

    @property
    def is_import(self) -> bool:
        """Whether it is an import whose place among others means nothing."""
        return len(self.nodes) == 1 and self.nodes[0].type in self.source.row.imports

    @cached_property
    def has_attribute(self) -> bool:
        """Whether it, or what is around it, carries an attribute or an annotation that may do something with it."""
        marks = re.compile(self.source.row.marks)
        name = self.definition.child_by_field_name("name") if self.definition is not None else None
        end = name.start_byte if name is not None else self.body.start_byte if self.body else self.nodes[-1].start_byte
        head = self.source.content[self.nodes[0].start_byte : end].decode("utf-8", "replace")
        return self.in_attributed or any(found[1] not in QUIET_MARKS for found in marks.finditer(head))

    @property
    def is_macro_input(self) -> bool:
        """Whether a macro of Rust is given the whole of it, and so its names."""
        return self.source.row.name == "rust" and self.has_attribute

    @cached_property
    def order_matters(self) -> bool:
        """Whether something may run it in the order in which it is written: a test, a route, a rule of a grammar."""
        return self.has_attribute or re.match(self.source.row.ordered, self.name) is not None

    @property
    def position_matters(self) -> bool:
        """Whether its place counts by itself: in a table of virtual functions, or for what is called without its name,
        such as an operator.
        """
        nodes = self.nodes[-1].children if self.definition is None else self.definition.children
        if any(c.type == "virtual" or self.source.text(c) == "virtual" for c in nodes):
            return True
        if self.source.row.order == "runs":
            told = any("attribute" in c.type for c in nodes) or "__COUNTER__" in self.text
            return told or self.name in IMPLIED_FUNCTIONS or not PLAIN_NAME.fullmatch(self.name)
        if self.in_attributed and self.source.row.name == "rust":
            return True
        return in_attributed_interface(self.nodes[-1])

    @property
    def describes_next(self) -> bool:
        """Whether it is a statement about the function that follows, such as Ruby's `sig` and `desc`."""
        word = WORD_PATTERN.match(self.text)
        told = self.source.row.name == "ruby" and not self.is_movable and not self.is_inert and self.definition is None
        return told and word is not None and word[0] not in GENERAL_CALLS

    @cached_property
    def is_barrier(self) -> bool:
        """Whether what stands before it means something else than what stands behind: a directive, a namespace."""
        node, row = self.nodes[-1], self.source.row
        if {node.type, self.definition.type if self.definition else ""} & row.barriers or node.type in row.macros:
            return True
        if node.type.startswith("preproc") or node.type in row.comments or node.type in row.attributed_barriers:
            return len(self.nodes) > 1 or node.type not in row.attributed_barriers
        return is_string_statement(node)

    @cached_property
    def has_harmless_decorators(self) -> bool:
        """Whether its decorators are known to run nothing of the project's. Rust's attributes move along."""
        decorators = [c for c in self.nodes[-1].children if c.type == "decorator"]
        return all(self.source.text(d).removeprefix("@").strip() in self.source.row.harmless for d in decorators)

    @cached_property
    def header(self) -> list[FlatNode]:
        """Everything but the body: what runs when the file is read, where definitions are statements."""
        if self.definition is None:
            return flatten_tree(self.nodes[-1], self.source.content, self.source.row)
        body = self.definition.child_by_field_name("body")
        name = self.definition.child_by_field_name("name")
        found = flatten_tree(self.nodes[-1], self.source.content, self.source.row, body.start_byte if body else -1)
        return [t for t in found if name is None or t.start != name.start_byte]

    @cached_property
    def is_inert(self) -> bool:
        """Whether reading it runs nothing: a plain value under a name, or a class of functions only."""
        if self.body is not None:
            fields = ("superclasses", "superclass")
            bases = self.definition is not None and any(self.definition.child_by_field_name(f) for f in fields)
            return not self.has_decorator and not bases and all(m.is_movable or m.is_inert for m in self.members)
        if self.definition is not None or is_string_statement(self.nodes[-1]):
            return False
        return not {t.kind for t in self.header if t.field != "left" or t.kind not in TARGETS} - PLAIN_KINDS

    @property
    def has_decorator(self) -> bool:
        """Whether a decorator stands before it."""
        return len(self.nodes) > 1 or any(c.type == "decorator" for c in self.nodes[-1].children)

    @cached_property
    def bound_names(self) -> frozenset[str]:
        """The names that it gives something to."""
        if self.definition is not None:
            return frozenset({self.name.rpartition(".")[2]} if self.name else ())
        return frozenset(t.text for t in self.header if t.leaf and t.field == "left" and t.kind in TARGETS)

    @cached_property
    def mentioned_words(self) -> frozenset[str]:
        """The words in it that matter for its place: all of them, or only those that run when the file is read."""
        if self.source.row.order == "runs":
            return frozenset(WORD_PATTERN.findall(self.text))
        own = [t.text for t in self.header if t.leaf and t.named]
        own += [] if self.is_movable else [self.name]
        return frozenset(own).union(*(m.mentioned_words for m in self.members))


PLAIN_KINDS = kinds(
    "expression_statement assignment string string_start string_content string_end integer float true false none = pass"
    " pass_statement comment"
)
"""Kinds of a statement that runs nothing: a plain value."""
QUIET_MARKS = kinds(
    "Override Deprecated SuppressWarnings SafeVarargs Nullable NonNull NotNull Test ParameterizedTest"
    " Fact Theory Obsolete Pure MethodImpl param return returns throws var see since deprecated inheritDoc"
    " test inline cold must_use allow warn deny expect cfg doc track_caller deprecated target_feature no_mangle"
    " should_panic ignore derive tokio::test rustfmt::skip async_trait automatically_derived non_exhaustive repr"
    " default clippy::all"
)
"""Attributes, annotations and tags that do nothing with the names or the place of what they stand before."""
IMPLIED_FUNCTIONS = frozenset({"begin", "end", "get", "swap", "main"})
"""Functions of C++ that the language looks for by itself."""
GENERAL_CALLS = kinds(
    "attr_reader attr_writer attr_accessor include extend prepend require require_relative private public protected"
    " module_function using"
)
PLAIN_NAME = re.compile(r"[\w:~]+")
TARGETS = frozenset({"identifier", "constant"})


def find_renamed(twigs: Sequence[FlatNode], source: SourceFile) -> dict[int, str]:
    """The new names of functions, by place."""
    if not source.renames:
        return {}
    return {n: source.renames[t.text] for n, t in enumerate(twigs) if t.leaf and t.text in source.renames}


def sort_go_imports(twigs: list[FlatNode]) -> list[FlatNode]:
    """An import of Go's, its packages sorted; as it is where something reads a comment in it, or where a package is
    there only for what it does when it is made ready: before Go 1.21 that happened in the order of the text.
    """
    if any(t.kind in ("comment", "blank_identifier") for t in twigs):
        return twigs
    starts = [n for n, t in enumerate(twigs) if t.kind == "import_spec"]
    if len(starts) < 2:
        return twigs
    ends = [*starts[1:], len(twigs) - 1]
    specs = sorted((twigs[a:b] for a, b in zip(starts, ends, strict=True)), key=lambda part: [t.text for t in part])
    return [*twigs[: starts[0]], *(t for part in specs for t in part), twigs[-1]]


def find_balanced_call(text: str, start: int) -> str:
    """The call that begins there, up to its last bracket; a line of it where that is missing."""
    depth = 0
    for at in range(start, min(len(text), start + 2000)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth <= 0 and text[at] in ")\n":
            return text[start : at + 1]
    return text[start : start + 2000]


def split_items(source: SourceFile, parent: "Node", depth: int, around: bool = False) -> list[Item]:
    """The parts of a file, or of a body: what belongs before a definition goes with it; lone signs are left out."""
    row = source.row
    found: list[Item] = []
    before: list[Node] = []
    for node in parent.children:
        comment = node.type in row.comments
        if is_punctuation(node, source) or (comment and not row.is_kept_comment(source.text(node))):
            continue
        before.append(node)
        wrapped = find_definition(node, row) if node.type in row.wrappers else None
        if not (starts_own_line(node) if comment else (wrapped or node).type in row.prefixes):
            found.append(Item(source, before, depth, around))
            before = []
    return [*found, Item(source, before, depth, around)] if before else found


PUNCTUATION = kinds("{ } ( ) [ ] ; , : end begin do then = |")


def is_punctuation(node: "Node", source: SourceFile) -> bool:
    """Whether a node only holds others together. `a &` is no sign: it sends what stands before it away."""
    return not node.is_named and (node.type.strip() == "" or node.type in PUNCTUATION or not source.row.separate)


def starts_own_line(comment: "Node") -> bool:
    """Whether a comment stands on lines of its own, and so belongs to what follows."""
    before = comment.prev_sibling
    return before is None or before.end_point.row < comment.start_point.row


def is_string_statement(node: "Node") -> bool:
    """Whether a statement is nothing but a string: a docstring, or a directive such as `'use strict'`."""
    inner = [c for c in node.children if c.is_named]
    return (
        node.type == "expression_statement" and len(inner) == 1 and inner[0].type in ("string", "concatenated_string")
    )


def in_attributed_interface(node: "Node") -> bool:
    """Whether a member's place is part of a binary interface: C# counts the slots of one that is imported."""
    above = node.parent.parent if node.parent is not None else None
    if above is None or above.type != "interface_declaration":
        return False
    return any(c.type == "attribute_list" for c in above.children)


def find_definition(node: "Node", row: Language) -> "Node | None":
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


def read_name(node: "Node", source: SourceFile) -> str:
    """What a definition is called, on one line; empty where it has no plain name."""
    field = source.row.named_by.get(node.type, "name")
    if field == "signature":
        return _read_signature(node, source)
    found = _NAME_FINDERS.get(field, _find_field)(node, field)
    if field == "receiver":
        return _read_method_name(node, source)
    if found is None and node.parent is not None and node.parent.type == "type_definition":
        found = _find_declared_name(node.parent, "declarator")
    text = source.text(found) if found is not None else ""
    if found is not None and found.type == "computed_property_name":
        return ""
    if found is not None and found.type in WITH_SIGNS:
        return " ".join(text.partition("(")[0].split()) if found.type == "operator_cast" else "".join(text.split())
    return " ".join(text.strip("\"'`#= \t").split())


def _read_signature(node: "Node", source: SourceFile) -> str:
    """What a member of C# without a name is called by: `operator +`, `this`, `~Type`."""
    parameters = node.child_by_field_name("parameters")
    end = parameters.start_byte if parameters is not None else node.end_byte
    words = source.content[node.start_byte : end].decode("utf-8", "replace").split()
    return " ".join(words[words.index("operator") :]) if "operator" in words else words[-1]


def _find_field(node: "Node", field: str) -> "Node | None":
    return node.child_by_field_name(field)


def _find_declared_name(node: "Node", field: str) -> "Node | None":
    """The name in C's declarators, which stand around it."""
    found = node.child_by_field_name(field)
    while found is not None and found.type != "operator_cast" and (inner := _find_declarator(found)):
        found = inner
    return found


def _find_declarator(node: "Node") -> "Node | None":
    """What stands inside a declarator, also in one in parentheses."""
    if node.type == "parenthesized_declarator":
        return next((c for c in node.children if c.is_named), None)
    return node.child_by_field_name("declarator")


def _find_default(node: "Node", _: str) -> "Node | None":
    return next((c for c in node.children if c.type == "default"), None)


def _find_first_child(node: "Node", _: str) -> "Node | None":
    return next((c for c in node.children if c.is_named), None)


_NAME_FINDERS = {"declarator": _find_declared_name, "first": _find_first_child, "default": _find_default}
WITH_SIGNS = kinds("operator_name operator operator_cast setter")


def _read_method_name(node: "Node", source: SourceFile) -> str:
    """`Type.Method` for Go, where the receiver is what a method belongs to."""
    receiver, name = node.child_by_field_name("receiver"), node.child_by_field_name("name")
    if receiver is None or name is None:
        return ""
    words = WORD_PATTERN.findall(source.text(receiver).partition("[")[0])
    return f"{words[-1]}.{source.text(name)}" if words else source.text(name)
