"""Items of a file, in order: definitions with their members, and statements between them."""

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
"""Rust constants; a name in a pattern may refer to a constant."""
MAX_NESTING = 30
"""Nested containers compared member by member; deeper containers are compared whole."""
WORD_PATTERN = re.compile(r"\w+")


class SourceFile:
    """A version of a file. `renames` holds new names of functions private to the file."""

    def __init__(self, content: bytes, language: Language, root: "Node") -> None:
        self.content, self.language, self.root = content, language, root
        self.renames: dict[str, str] = {}

    @cached_property
    def macro_words(self) -> frozenset[str]:
        """Return the words in the file's macros, and its constants."""
        if not self.language.macros:
            return frozenset()
        texts = [self.text(n) for n in self.root.children if n.type in self.language.macros]
        texts += [self.text(n).partition("=")[0] for n in self.root.children if n.type in CONSTANTS]
        texts += [self.text(n) for n in self.root.children if n.type == "use_declaration"]
        texts += MACRO_DEFINITION.findall(self.text(self.root))
        return frozenset(word for text in texts for word in WORD_PATTERN.findall(text))

    @cached_property
    def reads_argument_names(self) -> bool:
        """Return whether a function receives its arguments as written, or chosen by name."""
        return b"CallerArgumentExpression" in self.content or INJECTION_CALLS.search(self.content) is not None

    @cached_property
    def stringified_calls(self) -> list[str]:
        """Return the calls of macros that turn their arguments into strings."""
        if not self.pastes_tokens:
            return []
        defined = [text.partition("define")[2] for text in MACRO_DEFINITION.findall(self.text(self.root))]
        names = {WORD_PATTERN.findall(text)[0] for text in defined if "#" in text}
        calls = re.finditer(rf"\b(?:{'|'.join(map(re.escape, names))})\b", self.text(self.root)) if names else ()
        return sorted(find_balanced_call(self.text(self.root), call.start()) for call in calls)

    @cached_property
    def pastes_tokens(self) -> bool:
        defined = MACRO_DEFINITION.findall(self.text(self.root)) if self.language.order == "runs" else []
        return any("#" in text.partition("define")[2] for text in defined)

    def text(self, node: "Node") -> str:
        return self.content[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")

    @cached_property
    def items(self) -> "list[Item]":
        return split_items(self, self.root, 0)


class Item:
    """A definition with its prefixes and wrappers, or a statement."""

    def __init__(self, source: SourceFile, nodes: "Sequence[Node]", depth: int, around: bool = False) -> None:
        self.source, self.nodes, self.depth = source, nodes, depth
        self.in_attributed = around
        self.definition = find_definition(nodes[-1], source.language)

    @cached_property
    def text(self) -> str:
        first, last = self.nodes[0], self.nodes[-1]
        return self.source.content[first.start_byte : last.end_byte].decode("utf-8", "surrogateescape")

    @cached_property
    def name(self) -> str:
        """Return the defined name after renaming; empty for a statement."""
        name = read_name(self.definition, self.source) if self.definition is not None else ""
        return self.source.renames.get(name, name)

    @cached_property
    def body(self) -> "Node | None":
        """Return the body of a container whose members are compared individually."""
        if (
            self.definition is None
            or self.definition.type not in self.source.language.containers
            or self.depth >= MAX_NESTING
        ):
            return None
        return self.definition.child_by_field_name("body")

    @cached_property
    def members(self) -> "list[Item]":
        return split_items(self.source, self.body, self.depth + 1, self.has_attribute) if self.body is not None else []

    @cached_property
    def normal_form(self) -> str:
        """Return the normal form without layout, comments and local names; containers without members. Raises
        TreeTooDeep.
        """
        skip = self.body.start_byte if self.body is not None else -1
        language, source = self.source.language, self.source
        parts: list[str] = []
        for node in self.nodes:
            flat_nodes = flatten_tree(node, source.content, language, skip)
            names_are_visible = source.reads_argument_names or self.is_macro_input
            names = {} if names_are_visible else local_names(flat_nodes, language.naming, source.macro_words)
            if node.type == "import_declaration" and language.name == "go":
                flat_nodes = sort_go_imports(flat_nodes)
            parts.append(render_form(flat_nodes, language, {**find_renamed(flat_nodes, source), **names}))
        return "\n".join(parts)

    @cached_property
    def key(self) -> tuple[str, str]:
        """Return kind and name of a definition, or the form of a statement. Raises TreeTooDeep."""
        if self.definition is not None and self.name:
            return self.definition.type, self.name
        return "", self.normal_form

    @cached_property
    def is_movable(self) -> bool:
        """Return whether the item is a function that nothing runs while the file is read."""
        language = self.source.language
        if self.definition is None or not self.name or self.definition.type not in language.movable_kinds:
            return False
        if any(node.type == "decorator" for node in self.nodes) or self.position_matters:
            return False
        return (
            not any(t.kind in language.call_kinds for t in self.header if t.parent >= 0)
            and self.has_harmless_decorators
        )

    @property
    def is_import(self) -> bool:
        """Return whether the item is an import whose position among imports is meaningless."""
        return len(self.nodes) == 1 and self.nodes[0].type in self.source.language.imports

    @cached_property
    def has_attribute(self) -> bool:
        """Return whether an attribute or annotation on the item, or around the item, may have an effect."""
        marks = re.compile(self.source.language.attribute_pattern)
        name = self.definition.child_by_field_name("name") if self.definition is not None else None
        end = name.start_byte if name is not None else self.body.start_byte if self.body else self.nodes[-1].start_byte
        head = self.source.content[self.nodes[0].start_byte : end].decode("utf-8", "replace")
        return self.in_attributed or any(match[1] not in QUIET_MARKS for match in marks.finditer(head))

    @property
    def is_macro_input(self) -> bool:
        """Return whether a Rust macro receives the whole item, names included."""
        return self.source.language.name == "rust" and self.has_attribute

    @cached_property
    def order_matters(self) -> bool:
        """Return whether items of this kind may run in source order: tests, routes, grammar rules."""
        return self.has_attribute or re.match(self.source.language.ordered_names, self.name) is not None

    @property
    def position_matters(self) -> bool:
        """Return whether the position has meaning: virtual functions, operators, implicit calls."""
        nodes = self.nodes[-1].children if self.definition is None else self.definition.children
        if any(c.type == "virtual" or self.source.text(c) == "virtual" for c in nodes):
            return True
        if self.source.language.order == "runs":
            has_attribute = any("attribute" in c.type for c in nodes) or "__COUNTER__" in self.text
            return has_attribute or self.name in IMPLIED_FUNCTIONS or not PLAIN_NAME.fullmatch(self.name)
        if self.in_attributed and self.source.language.name == "rust":
            return True
        return in_attributed_interface(self.nodes[-1])

    @property
    def describes_next(self) -> bool:
        """Return whether the statement describes the next function, such as Ruby's `sig` and `desc`."""
        first_word = WORD_PATTERN.match(self.text)
        is_plain_call = (
            self.source.language.name == "ruby"
            and not self.is_movable
            and not self.is_inert
            and self.definition is None
        )
        return is_plain_call and first_word is not None and first_word[0] not in GENERAL_CALLS

    @cached_property
    def is_barrier(self) -> bool:
        """Return whether the meaning of later items depends on this item: a directive, a namespace."""
        node, language = self.nodes[-1], self.source.language
        if {
            node.type,
            self.definition.type if self.definition else "",
        } & language.barriers or node.type in language.macros:
            return True
        if (
            node.type.startswith("preproc")
            or node.type in language.comments
            or node.type in language.attributed_barriers
        ):
            return len(self.nodes) > 1 or node.type not in language.attributed_barriers
        return is_string_statement(node)

    @cached_property
    def has_harmless_decorators(self) -> bool:
        """Return whether the decorators run no code of the project. Rust's attributes move along."""
        decorators = [c for c in self.nodes[-1].children if c.type == "decorator"]
        return all(
            self.source.text(d).removeprefix("@").strip() in self.source.language.harmless_decorators
            for d in decorators
        )

    @cached_property
    def header(self) -> list[FlatNode]:
        """Return the nodes outside the body, which run while the file is read."""
        if self.definition is None:
            return flatten_tree(self.nodes[-1], self.source.content, self.source.language)
        body = self.definition.child_by_field_name("body")
        name = self.definition.child_by_field_name("name")
        nodes = flatten_tree(self.nodes[-1], self.source.content, self.source.language, body.start_byte if body else -1)
        return [t for t in nodes if name is None or t.start != name.start_byte]

    @cached_property
    def is_inert(self) -> bool:
        """Return whether reading the item runs nothing: a plain value under a name, or a class of functions only."""
        if self.body is not None:
            fields = ("superclasses", "superclass")
            bases = self.definition is not None and any(self.definition.child_by_field_name(f) for f in fields)
            return not self.has_decorator and not bases and all(m.is_movable or m.is_inert for m in self.members)
        if self.definition is not None or is_string_statement(self.nodes[-1]):
            return False
        return not {t.kind for t in self.header if t.field != "left" or t.kind not in TARGETS} - PLAIN_KINDS

    @property
    def has_decorator(self) -> bool:
        return len(self.nodes) > 1 or any(c.type == "decorator" for c in self.nodes[-1].children)

    @cached_property
    def bound_names(self) -> frozenset[str]:
        if self.definition is not None:
            return frozenset({self.name.rpartition(".")[2]} if self.name else ())
        return frozenset(t.text for t in self.header if t.leaf and t.field == "left" and t.kind in TARGETS)

    @cached_property
    def mentioned_words(self) -> frozenset[str]:
        """Return the words relevant to the item's position: each word, or those run while the file is read."""
        if self.source.language.order == "runs":
            return frozenset(WORD_PATTERN.findall(self.text))
        words = [t.text for t in self.header if t.leaf and t.named]
        words += [] if self.is_movable else [self.name]
        return frozenset(words).union(*(m.mentioned_words for m in self.members))


PLAIN_KINDS = kinds(
    "expression_statement assignment string string_start string_content string_end integer float true false none = pass"
    " pass_statement comment"
)
"""Kinds of nodes in a statement without effects: a plain value."""
QUIET_MARKS = kinds(
    "Override Deprecated SuppressWarnings SafeVarargs Nullable NonNull NotNull Test ParameterizedTest"
    " Fact Theory Obsolete Pure MethodImpl param return returns throws var see since deprecated inheritDoc"
    " test inline cold must_use allow warn deny expect cfg doc track_caller deprecated target_feature no_mangle"
    " should_panic ignore derive tokio::test rustfmt::skip async_trait automatically_derived non_exhaustive repr"
    " default clippy::all"
)
"""Attributes, annotations and tags without effect on names and positions."""
IMPLIED_FUNCTIONS = frozenset({"begin", "end", "get", "swap", "main"})
"""Functions that C++ looks up implicitly."""
GENERAL_CALLS = kinds(
    "attr_reader attr_writer attr_accessor include extend prepend require require_relative private public protected"
    " module_function using"
)
"""Ruby calls about a whole class, not about the next function."""
PLAIN_NAME = re.compile(r"[\w:~]+")
TARGETS = frozenset({"identifier", "constant"})


def find_renamed(flat_nodes: Sequence[FlatNode], source: SourceFile) -> dict[int, str]:
    if not source.renames:
        return {}
    return {n: source.renames[t.text] for n, t in enumerate(flat_nodes) if t.leaf and t.text in source.renames}


def sort_go_imports(flat_nodes: list[FlatNode]) -> list[FlatNode]:
    """Sort the packages of a Go import.

    Unsorted stay imports with comments, and blank imports: before Go 1.21 packages were initialised in source order.
    """
    if any(t.kind in ("comment", "blank_identifier") for t in flat_nodes):
        return flat_nodes
    starts = [n for n, t in enumerate(flat_nodes) if t.kind == "import_spec"]
    if len(starts) < 2:
        return flat_nodes
    ends = [*starts[1:], len(flat_nodes) - 1]
    specs = sorted(
        (flat_nodes[a:b] for a, b in zip(starts, ends, strict=True)), key=lambda part: [t.text for t in part]
    )
    return [*flat_nodes[: starts[0]], *(t for part in specs for t in part), flat_nodes[-1]]


def find_balanced_call(text: str, start: int) -> str:
    """Return the call that begins at `start`, up to its closing bracket, or its line without a bracket."""
    depth = 0
    for at in range(start, min(len(text), start + 2000)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth <= 0 and text[at] in ")\n":
            return text[start : at + 1]
    return text[start : start + 2000]


def split_items(source: SourceFile, parent: "Node", depth: int, in_attributed: bool = False) -> list[Item]:
    """Split a file or a body into items; prefixes join their definition, punctuation is dropped."""
    language = source.language
    items: list[Item] = []
    prefix: list[Node] = []
    for node in parent.children:
        comment = node.type in language.comments
        if is_punctuation(node, source) or (comment and not language.is_kept_comment(source.text(node))):
            continue
        prefix.append(node)
        wrapped = find_definition(node, language) if node.type in language.wrappers else None
        if not (starts_own_line(node) if comment else (wrapped or node).type in language.prefixes):
            items.append(Item(source, prefix, depth, in_attributed))
            prefix = []
    return [*items, Item(source, prefix, depth, in_attributed)] if prefix else items


PUNCTUATION = kinds("{ } ( ) [ ] ; , : end begin do then = |")


def is_punctuation(node: "Node", source: SourceFile) -> bool:
    """Return whether a node is mere punctuation. `a &` is not: the sign starts a background job."""
    return not node.is_named and (
        node.type.strip() == "" or node.type in PUNCTUATION or not source.language.separators_matter
    )


def starts_own_line(comment: "Node") -> bool:
    """Return whether a comment stands on its own lines, and so belongs to the next item."""
    previous = comment.prev_sibling
    return previous is None or previous.end_point.row < comment.start_point.row


def is_string_statement(node: "Node") -> bool:
    """Return whether a statement is only a string: a docstring, or a directive such as `'use strict'`."""
    inner = [c for c in node.children if c.is_named]
    return (
        node.type == "expression_statement" and len(inner) == 1 and inner[0].type in ("string", "concatenated_string")
    )


def in_attributed_interface(node: "Node") -> bool:
    """Return whether a member's position is part of a binary interface: C# counts the slots of imported interfaces."""
    grandparent = node.parent.parent if node.parent is not None else None
    if grandparent is None or grandparent.type != "interface_declaration":
        return False
    return any(c.type == "attribute_list" for c in grandparent.children)


def find_definition(node: "Node", language: Language) -> "Node | None":
    """Return the definition in a node or its wrappers; None for a statement."""
    for _ in range(3):
        if node.type in language.definitions:
            return node
        if node.type not in language.wrappers:
            return None
        inner = [c for c in node.children if c.type in language.definitions or c.type in language.wrappers]
        if len(inner) != 1:
            return None
        node = inner[0]
    return None


def read_name(node: "Node", source: SourceFile) -> str:
    """Return a definition's name on a single line; empty without a plain name."""
    field = source.language.name_fields.get(node.type, "name")
    if field == "signature":
        return _read_signature(node, source)
    name_node = _NAME_FINDERS.get(field, _find_field)(node, field)
    if field == "receiver":
        return _read_method_name(node, source)
    if name_node is None and node.parent is not None and node.parent.type == "type_definition":
        name_node = _find_declared_name(node.parent, "declarator")
    text = source.text(name_node) if name_node is not None else ""
    if name_node is not None and name_node.type == "computed_property_name":
        return ""
    if name_node is not None and name_node.type in WITH_SIGNS:
        return " ".join(text.partition("(")[0].split()) if name_node.type == "operator_cast" else "".join(text.split())
    return " ".join(text.strip("\"'`#= \t").split())


def _read_signature(node: "Node", source: SourceFile) -> str:
    """Return the name of an unnamed C# member: `operator +`, `this`, `~Type`."""
    parameters = node.child_by_field_name("parameters")
    end = parameters.start_byte if parameters is not None else node.end_byte
    words = source.content[node.start_byte : end].decode("utf-8", "replace").split()
    return " ".join(words[words.index("operator") :]) if "operator" in words else words[-1]


def _find_field(node: "Node", field: str) -> "Node | None":
    return node.child_by_field_name(field)


def _find_declared_name(node: "Node", field: str) -> "Node | None":
    declarator = node.child_by_field_name(field)
    while declarator is not None and declarator.type != "operator_cast" and (inner := _find_declarator(declarator)):
        declarator = inner
    return declarator


def _find_declarator(node: "Node") -> "Node | None":
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
    """Return `Type.Method` of a Go method with a receiver."""
    receiver, name = node.child_by_field_name("receiver"), node.child_by_field_name("name")
    if receiver is None or name is None:
        return ""
    words = WORD_PATTERN.findall(source.text(receiver).partition("[")[0])
    return f"{words[-1]}.{source.text(name)}" if words else source.text(name)
