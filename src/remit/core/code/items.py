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
MAX_CALL_CHARS = 2000
WORD_PATTERN = re.compile(r"\w+")
PLAIN_NAME = re.compile(r"[\w:~]+")
TARGETS = frozenset({"identifier", "constant"})
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
PUNCTUATION = kinds("{ } ( ) [ ] ; , : end begin do then = |")
WITH_SIGNS = kinds("operator_name operator operator_cast setter")


class SourceFile:
    """A version of a file. `renames` holds new names of functions private to the file."""

    def __init__(self, content: bytes, language: Language, root: "Node") -> None:
        self.content, self.language, self.root = content, language, root
        self.renames: dict[str, str] = {}

    def text(self, node: "Node") -> str:
        return self.content[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")

    @cached_property
    def items(self) -> "list[Item]":
        return split_items(self, self.root, 0)

    @cached_property
    def macro_words(self) -> frozenset[str]:
        if not self.language.macros:
            return frozenset()
        texts = MACRO_DEFINITION.findall(self.text(self.root))
        for node in self.root.children:
            if node.type in self.language.macros or node.type == "use_declaration":
                texts.append(self.text(node))
            elif node.type in CONSTANTS:
                texts.append(self.text(node).partition("=")[0])
        return frozenset(word for text in texts for word in WORD_PATTERN.findall(text))

    @cached_property
    def reads_argument_names(self) -> bool:
        return b"CallerArgumentExpression" in self.content or INJECTION_CALLS.search(self.content) is not None

    @cached_property
    def pasting_macros(self) -> list[str]:
        """Return definitions of macros that turn their arguments into strings or names."""
        defined = MACRO_DEFINITION.findall(self.text(self.root)) if self.language.order == "runs" else []
        return [body for text in defined if "#" in (body := text.partition("define")[2])]

    @cached_property
    def stringified_calls(self) -> list[str]:
        names = {WORD_PATTERN.findall(body)[0] for body in self.pasting_macros}
        text = self.text(self.root)
        calls = re.finditer(rf"\b(?:{'|'.join(map(re.escape, names))})\b", text) if names else ()
        return sorted(find_balanced_call(text, call.start()) for call in calls)


class Item:
    """A definition with its prefixes and wrappers, or a statement."""

    def __init__(self, source: SourceFile, nodes: "Sequence[Node]", depth: int, in_attributed: bool = False) -> None:
        self.source, self.nodes, self.depth, self.in_attributed = source, nodes, depth, in_attributed
        self.language, self.node = source.language, nodes[-1]
        self.definition = find_definition(self.node, self.language)

    @cached_property
    def text(self) -> str:
        return self.source.content[self.nodes[0].start_byte : self.node.end_byte].decode("utf-8", "surrogateescape")

    @cached_property
    def name(self) -> str:
        name = read_name(self.definition, self.source) if self.definition is not None else ""
        return self.source.renames.get(name, name)

    @cached_property
    def body(self) -> "Node | None":
        """Return the body of a container whose members are compared individually."""
        is_container = self.definition is not None and self.definition.type in self.language.containers
        if self.definition is None or not is_container or self.depth >= MAX_NESTING:
            return None
        return self.definition.child_by_field_name("body")

    @cached_property
    def members(self) -> "list[Item]":
        return split_items(self.source, self.body, self.depth + 1, self.has_attribute) if self.body is not None else []

    @cached_property
    def normal_form(self) -> str:
        """Return the normal form without layout, comments and local names; containers without members.

        Raises TreeTooDeep.
        """
        skip = self.body.start_byte if self.body is not None else -1
        language, source = self.language, self.source
        # What an attribute stands for may receive the whole item, names included.
        names_are_visible = source.reads_argument_names or self.has_attribute
        parts: list[str] = []
        for node in self.nodes:
            nodes = flatten_tree(node, source.content, language, skip)
            names = {n: source.renames[t.text] for n, t in enumerate(nodes) if t.leaf and t.text in source.renames}
            if not names_are_visible:
                names |= local_names(nodes, language, source.macro_words)
            if node.type == "import_declaration" and language.name == "go":
                nodes = sort_go_imports(nodes)
            parts.append(render_form(nodes, language, names))
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
        if self.definition is None or not self.name or self.definition.type not in self.language.movable_kinds:
            return False
        if any(node.type == "decorator" for node in self.nodes) or self.position_matters:
            return False
        # Known decorators run no code of the project; Rust's attributes move along.
        decorators = (
            self.source.text(c).removeprefix("@").strip() for c in self.node.children if c.type == "decorator"
        )
        runs = any(t.kind in self.language.call_kinds for t in self.header if t.parent >= 0)
        return not runs and self.language.harmless_decorators.issuperset(decorators)

    @property
    def is_import(self) -> bool:
        """Return whether the item is an import whose position among imports is meaningless."""
        return len(self.nodes) == 1 and self.node.type in self.language.imports

    @cached_property
    def has_attribute(self) -> bool:
        name = self.definition.child_by_field_name("name") if self.definition is not None else None
        end = (name or self.body or self.node).start_byte
        head = self.source.content[self.nodes[0].start_byte : end].decode("utf-8", "replace")
        marks = re.finditer(self.language.attribute_pattern, head)
        return self.in_attributed or any(match[1] not in QUIET_MARKS for match in marks)

    @cached_property
    def order_matters(self) -> bool:
        """Return whether items of this kind may run in source order: tests, routes, grammar rules."""
        return self.has_attribute or re.match(self.language.ordered_names, self.name) is not None

    @property
    def position_matters(self) -> bool:
        nodes = (self.definition or self.node).children
        if any(c.type == "virtual" or self.source.text(c) == "virtual" for c in nodes):
            return True
        if self.language.order == "runs":
            has_attribute = any("attribute" in c.type for c in nodes) or "__COUNTER__" in self.text
            return has_attribute or self.name in IMPLIED_FUNCTIONS or not PLAIN_NAME.fullmatch(self.name)
        if self.in_attributed and self.language.name == "rust":
            return True
        # The slots of an interface count in C# if an attribute imports the interface from a binary.
        around = self.node.parent.parent if self.node.parent is not None else None
        if around is None or around.type != "interface_declaration":
            return False
        return any(c.type == "attribute_list" for c in around.children)

    @property
    def describes_next(self) -> bool:
        """Return whether the statement describes the next function, such as Ruby's `sig` and `desc`."""
        if self.language.name != "ruby" or self.definition is not None or self.is_movable or self.is_inert:
            return False
        first_word = WORD_PATTERN.match(self.text)
        return first_word is not None and first_word[0] not in GENERAL_CALLS

    @cached_property
    def is_barrier(self) -> bool:
        """Return whether the meaning of later items depends on this item: a directive, a namespace."""
        kind, language = self.node.type, self.language
        own_kinds = {kind, self.definition.type if self.definition else ""}
        if own_kinds & language.barriers or kind in language.macros:
            return True
        if kind in language.attributed_barriers:
            return len(self.nodes) > 1
        return kind.startswith("preproc") or kind in language.comments or is_string_statement(self.node)

    @cached_property
    def header(self) -> list[FlatNode]:
        """Return the nodes outside the body, which run while the file is read."""
        if self.definition is None:
            return flatten_tree(self.node, self.source.content, self.language)
        body, name = (self.definition.child_by_field_name(field) for field in ("body", "name"))
        nodes = flatten_tree(self.node, self.source.content, self.language, body.start_byte if body else -1)
        return [t for t in nodes if name is None or t.start != name.start_byte]

    @cached_property
    def is_inert(self) -> bool:
        """Return whether reading the item runs nothing: a plain value under a name, or a class of functions only."""
        if self.definition is not None and self.body is not None:
            is_decorated = len(self.nodes) > 1 or any(c.type == "decorator" for c in self.node.children)
            bases = any(map(self.definition.child_by_field_name, ("superclasses", "superclass")))
            return not is_decorated and not bases and all(m.is_movable or m.is_inert for m in self.members)
        if self.definition is not None or is_string_statement(self.node):
            return False
        return PLAIN_KINDS.issuperset(t.kind for t in self.header if t.field != "left" or t.kind not in TARGETS)

    @cached_property
    def bound_names(self) -> frozenset[str]:
        if self.definition is not None:
            return frozenset({self.name.rpartition(".")[2]} if self.name else ())
        return frozenset(t.text for t in self.header if t.leaf and t.field == "left" and t.kind in TARGETS)

    @cached_property
    def mentioned_words(self) -> frozenset[str]:
        """Return the words relevant to the item's position: each word, or those run while the file is read."""
        if self.language.order == "runs":
            return frozenset(WORD_PATTERN.findall(self.text))
        words = {*([] if self.is_movable else [self.name]), *(t.text for t in self.header if t.leaf and t.named)}
        return frozenset(words.union(*(m.mentioned_words for m in self.members)))


def sort_go_imports(flat_nodes: list[FlatNode]) -> list[FlatNode]:
    """Sort the packages of a Go import.

    Unsorted stay imports with comments, and blank imports: before Go 1.21 packages were initialised in source order.
    """
    starts = [n for n, t in enumerate(flat_nodes) if t.kind == "import_spec"]
    if len(starts) < 2 or any(t.kind in ("comment", "blank_identifier") for t in flat_nodes):
        return flat_nodes
    specs = (flat_nodes[a:b] for a, b in zip(starts, [*starts[1:], len(flat_nodes) - 1], strict=True))
    ordered = sorted(specs, key=lambda part: [t.text for t in part])
    return [*flat_nodes[: starts[0]], *(t for part in ordered for t in part), flat_nodes[-1]]


def find_balanced_call(text: str, start: int) -> str:
    depth = 0
    for at in range(start, min(len(text), start + MAX_CALL_CHARS)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth <= 0 and text[at] in ")\n":
            return text[start : at + 1]
    return text[start : start + MAX_CALL_CHARS]


def split_items(source: SourceFile, parent: "Node", depth: int, in_attributed: bool = False) -> list[Item]:
    language = source.language
    items: list[Item] = []
    prefix: list[Node] = []
    for node in parent.children:
        # `a &` is not mere punctuation: the sign starts a background job.
        is_blank = node.type.strip() == "" or node.type in PUNCTUATION or not language.separators_matter
        comment = node.type in language.comments
        if (not node.is_named and is_blank) or (comment and not language.is_kept_comment(source.text(node))):
            continue
        prefix.append(node)
        previous = node.prev_sibling
        # A comment on its own lines belongs to the next item.
        is_prefix = previous is None or previous.end_point.row < node.start_point.row
        if not comment:
            wrapped = find_definition(node, language) if node.type in language.wrappers else None
            is_prefix = (wrapped or node).type in language.prefixes
        if not is_prefix:
            items.append(Item(source, prefix, depth, in_attributed))
            prefix = []
    return [*items, Item(source, prefix, depth, in_attributed)] if prefix else items


def is_string_statement(node: "Node") -> bool:
    inner = [c.type for c in node.children if c.is_named]
    return node.type == "expression_statement" and inner in (["string"], ["concatenated_string"])


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
    match field := source.language.name_fields.get(node.type, "name"):
        case "signature":  # an unnamed C# member: `operator +`, `this`, `~Type`
            parameters = node.child_by_field_name("parameters")
            end = parameters.start_byte if parameters is not None else node.end_byte
            words = source.content[node.start_byte : end].decode("utf-8", "replace").split()
            return " ".join(words[words.index("operator") :]) if "operator" in words else words[-1]
        case "receiver":  # `Type.Method` of a Go method
            receiver, method = node.child_by_field_name("receiver"), node.child_by_field_name("name")
            if receiver is None or method is None:
                return ""
            types = WORD_PATTERN.findall(source.text(receiver).partition("[")[0])
            return ".".join([*types[-1:], source.text(method)])
        case "declarator":
            name = find_declared_name(node)
        case "first":
            name = next((c for c in node.children if c.is_named), None)
        case "default":
            name = next((c for c in node.children if c.type == "default"), None)
        case _:
            name = node.child_by_field_name(field)
    if name is None and node.parent is not None and node.parent.type == "type_definition":
        name = find_declared_name(node.parent)
    if name is None or name.type == "computed_property_name":
        return ""
    text = source.text(name)
    if name.type in WITH_SIGNS:
        return " ".join(text.partition("(")[0].split()) if name.type == "operator_cast" else "".join(text.split())
    return " ".join(text.strip("\"'`#= \t").split())


def find_declared_name(node: "Node") -> "Node | None":
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "operator_cast":
        if declarator.type == "parenthesized_declarator":
            inner = next((c for c in declarator.children if c.is_named), None)
        else:
            inner = declarator.child_by_field_name("declarator")
        if inner is None:
            break
        declarator = inner
    return declarator
