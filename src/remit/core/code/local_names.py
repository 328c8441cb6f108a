"""Local names: names that nobody outside a definition can see, and whose renaming changes nothing.

A name is local only if each occurrence lies in the reach of a binding of the same name. Occurrences are not matched to
bindings: bindings of a name are renamed together.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from remit.core.code.binding_rules import Naming, Scope
from remit.core.code.flat_tree import FlatNode

REFLECTED_MEMBERS = frozenset({"name", "displayName", "toString", "__name__", "__qualname__", "__doc__"})
MEMBERS = frozenset({"attribute", "member_expression"})
CALLS = frozenset({"call", "call_expression"})
ARGUMENT_KINDS = frozenset({"argument_list", "arguments", "keyword_argument", "array"})
LIBRARIES = frozenset({"functools", "itertools", "re", "heapq", "bisect", "collections"})
HARMLESS = frozenset({"Override", "Deprecated", "SuppressWarnings", "SafeVarargs"})
TITLING = frozenset({"test", "it", "bench", "step", "describe", "suite"})
"""JavaScript functions that name a test after the function passed."""
KEEPING_NAMES = frozenset({"wraps", "contextmanager", "cache", "lru_cache", "property", "staticmethod"})
"""Decorators that ignore names."""


class Uses:
    """Names of functions and parameters that other code can see."""

    def __init__(self, nodes: Sequence[FlatNode], children: Mapping[int, Sequence[int]], naming: Naming) -> None:
        self.nodes, self.children, self.naming = nodes, children, naming

    def is_title(self, at: int) -> bool:
        """Return whether a function receives a name here and carries it along."""
        node = self.nodes[at]
        return node.parent >= 0 and f"{self.nodes[node.parent].kind}.{node.field}" in self.naming.naming_edges

    def is_passed_to_call(self, at: int) -> bool:
        """Return whether a function is passed to code that may read its name."""
        parent = self.nodes[at].parent
        if parent < 0:
            return False
        last = self.children[parent][-1]
        if last != at and self.nodes[last].text in REFLECTED_MEMBERS and self.nodes[parent].kind in MEMBERS:
            return True
        if self.is_title(at):
            return self.has_unknown_decorator(parent)
        if self.naming.injectors and self.callee(self.call_around(at)) in TITLING:
            return True
        harmless_parents = self.naming.harmless_parents
        if not harmless_parents or self.nodes[parent].kind in harmless_parents:
            return False
        return not self.is_positional(self.call_around(at))

    def has_unknown_decorator(self, function: int) -> bool:
        parent = self.nodes[function].parent
        decorators = [c for c in self.children.get(parent, ()) if self.nodes[c].kind == "decorator"]
        return parent >= 0 and not all(self.read_decorator_name(d) in KEEPING_NAMES for d in decorators)

    def has_wraps_decorator(self, function: int) -> bool:
        parent = self.nodes[function].parent
        decorators = [c for c in self.children.get(parent, ()) if self.nodes[c].kind == "decorator"]
        return parent >= 0 and [self.read_decorator_name(d) for d in decorators] == ["wraps"]

    def read_decorator_name(self, decorator: int) -> str:
        last = ""
        for node in self.nodes[decorator + 1 :]:
            if node.text == "(" or node.start >= self.nodes[decorator].end:
                break
            last = node.text or last
        return last

    def call_around(self, at: int) -> int:
        """Return the call with this node as an argument, or -1."""
        at = self.nodes[at].parent
        while at >= 0 and self.nodes[at].kind in ARGUMENT_KINDS:
            at = self.nodes[at].parent
        return at if at >= 0 and self.nodes[at].kind in CALLS else -1

    def is_positional(self, call: int) -> bool:
        """Return whether a call passes parameters by position and reads no names."""
        name = self.callee(call)
        if name not in self.naming.positional_callers:
            return False
        called = self.nodes[self.children[call][0]]
        return called.leaf or name == "sort" or self.nodes[self.children[call][0] + 1].text in LIBRARIES

    def callee(self, call: int) -> str:
        """Return the last word of the called expression; empty without a call."""
        arguments = [c for c in self.children.get(call, ()) if self.nodes[c].field == "arguments"]
        return self.nodes[arguments[0] - 1].text if call >= 0 and arguments else ""

    def has_visible_parameters(self, function: int) -> bool:
        """Return whether a framework may read the function's parameter names.

        True for annotated methods, methods without body, constructors, and functions passed to injectors.
        """
        kind = self.nodes[function].kind
        if kind == "constructor_declaration":
            return True
        if kind != "method_declaration":
            return self.callee(self.call_around(function)) in self.naming.injectors
        modifiers = [c for c in self.children[function] if self.nodes[c].kind == "modifiers"]
        marks = [c for m in modifiers for c in self.children.get(m, ()) if "annotation" in self.nodes[c].kind]
        names = {self.nodes[c].text for m in marks for c in self.children[m] if self.nodes[c].field == "name"}
        return bool(names - HARMLESS) or not any(self.nodes[c].field == "body" for c in self.children[function])


Span = tuple[int, int]
WORD = re.compile(r"\w+")
BRACED_TEXT = re.compile(r"\{([^{}]*)\}")
CAPTURED_NAME = re.compile(r"\(\?P?<(\w+)>|@(\w+)")
"""Groups of a regular expression become variables in Ruby; `@name` is a variable to libraries that read local names."""
OPAQUE = frozenset({"interpolation", "macro_invocation", "macro_definition", "preproc_arg"})
"""Leaves that hold code as text."""
INFINITE = 1 << 62
MACRO_NEIGHBOURS = frozenset({"=", ":", "::", "!", "=>", "'", "$"})


def local_names(nodes: Sequence[FlatNode], naming: Naming, hidden: frozenset[str] = frozenset()) -> dict[int, str]:
    """Return a number for each local name, by node index, in order of first occurrence.

    Numbers begin with NUL, unlike any name. `hidden` are words with meanings outside these nodes, such as those in
    macros.
    """
    return NameScopes(nodes, naming).number_names(hidden) if naming.variable_leaves else {}


class NameScopes:
    """The names of a definition."""

    def __init__(self, nodes: Sequence[FlatNode], naming: Naming) -> None:
        self.nodes, self.naming = nodes, naming
        self.children: dict[int, list[int]] = {}
        for at, node in enumerate(nodes):
            self.children.setdefault(node.parent, []).append(at)
        self.uses = Uses(nodes, self.children, naming)
        self.barred: set[str] = set()
        self.named_functions: set[str] = set()
        self.passed_functions: set[str] = set()
        self.reads_strings = any(node.leaf and node.text in naming.string_readers for node in nodes)
        self.macro_visible: dict[int, bool] = {}
        self.hidden: frozenset[str] = frozenset()
        self.places: dict[str, list[int]] = {}
        self.reach: dict[str, list[Span]] = {}

    def number_names(self, hidden: frozenset[str]) -> dict[int, str]:
        if any(self.is_dynamic(node) for node in self.nodes):
            return {}
        self.hidden = hidden
        for at, node in enumerate(self.nodes):
            if node.leaf:
                self.collect(at, node)
        self.barred |= self.named_functions & self.passed_functions
        never = re.compile(self.naming.special_names)
        hidden |= self.naming.reserved_names
        local = [n for n in self.places if n not in hidden and not never.fullmatch(n) and self.is_local(n)]
        return {at: f"\0{number}" for number, name in enumerate(local) for at in self.places[name]}

    def is_dynamic(self, node: FlatNode) -> bool:
        """Return whether a node reads local names as text, or writes a name with escapes."""
        dynamic = self.naming.name_readers
        if node.text in self.naming.name_reading_methods and self.nodes[node.parent].kind in MEMBERS:
            return True
        return node.kind in dynamic or (
            node.leaf and (node.text in dynamic or ("\\" in node.text and node.kind in self.naming.variable_leaves))
        )

    def is_local(self, name: str) -> bool:
        """Return whether each occurrence of a name lies in the reach of its bindings."""
        if (
            name in self.barred
            or name not in self.reach
            or (self.naming.unused_names_matter and len(self.places[name]) == 1)
        ):
            return False
        spans = merge_spans(self.reach[name])
        starts = (self.nodes[at].start for at in self.places[name])
        return all((n := bisect_right(spans, (start, INFINITE)) - 1) >= 0 and start < spans[n][1] for start in starts)

    def collect(self, at: int, node: FlatNode) -> None:
        if not self.is_variable(at):
            self.barred.update(find_mentioned_names(node, self.naming))
            if self.reads_strings and "string" in node.kind:
                self.barred.update(WORD.findall(node.text))
            return
        if self.is_member(at):
            return
        plain = unicodedata.normalize("NFKC", node.text).lstrip("@").removeprefix("r#")
        if plain != node.text:
            self.barred |= {plain, node.text}
        self.places.setdefault(node.text, []).append(at)
        if self.has_other_meaning(at) or self.is_behind_wall(at):
            self.barred.add(node.text)
        self.carry(at)
        self.reach.setdefault(node.text, []).extend(self.find_reach(at))
        if not self.reach[node.text]:
            del self.reach[node.text]

    def carry(self, at: int) -> None:
        """Record functions whose name travels with them, and functions passed to calls."""
        if self.uses.is_title(at) and not self.uses.has_wraps_decorator(self.nodes[at].parent):
            self.named_functions.add(self.nodes[at].text)
        if self.uses.is_passed_to_call(at):
            self.passed_functions.add(self.nodes[at].text)

    def is_variable(self, at: int) -> bool:
        """Return whether a leaf names a variable, or stands in a variable's position."""
        node = self.nodes[at]
        parent = self.nodes[node.parent].kind if node.parent >= 0 else ""
        return bool({node.kind, f"{parent}>{node.kind}"} & self.naming.variable_leaves)

    def is_member(self, at: int) -> bool:
        edge = self.edge(at)
        return bool({edge, edge.partition(".")[0]} & self.naming.member_edges)

    def edge(self, at: int) -> str:
        """Return the edge of a node: parent kind and field."""
        node = self.nodes[at]
        return f"{self.nodes[node.parent].kind}.{node.field}" if node.parent >= 0 else ""

    def has_other_meaning(self, at: int) -> bool:
        """Return whether the context of an occurrence gives the name a further meaning."""
        naming = self.naming
        if self.nodes[self.nodes[at].parent].kind == "token_tree" and self.has_macro_neighbour(at):
            return True
        while at >= 0:
            node = self.nodes[at]
            if self.edge(at) in naming.barred or node.kind in naming.barred:
                return True
            if node.kind in naming.barred_unless and self.is_macro_visible(at):
                return True
            marker = naming.barred_if.get(node.kind)
            if marker and any(self.nodes[child].text == marker for child in self.children.get(at, ())):
                return True
            at = node.parent
        return False

    def is_macro_visible(self, at: int) -> bool:
        """Return whether a macro that reads names as text may stand here."""
        if at not in self.macro_visible:
            first = self.children.get(at, [at])[0]
            needed = self.naming.barred_unless[self.nodes[at].kind]
            text = self.nodes[first].text
            self.macro_visible[at] = text in self.hidden or re.fullmatch(needed, text) is None
        return self.macro_visible[at]

    def is_behind_wall(self, at: int) -> bool:
        return self.nearest(at, self.naming.scope_walls) > 0

    def has_macro_neighbour(self, at: int) -> bool:
        """Return whether a macro argument may be a member, a path or a key, judged by adjacent signs."""
        siblings = self.children[self.nodes[at].parent]
        index = bisect_left(siblings, at)
        previous = self.nodes[siblings[index - 1]].text if index else ""
        following = self.nodes[siblings[index + 1]].text if index + 1 < len(siblings) else ""
        return previous in MACRO_NEIGHBOURS | {"."} or following in MACRO_NEIGHBOURS

    def find_reach(self, at: int) -> list[Span]:
        """Return the spans in which a name bound at this leaf is visible; empty without a binding.

        Names bound for outside use are barred: a local name of the same spelling must not hide them.
        """
        if self.naming.function_wide:
            return self.body(self.nearest(at, self.naming.functions))
        node = self.nodes[at]
        binding = self.binding(at)
        if binding is None or (
            self.naming.capitals_are_constants and not (node.text[0].islower() or node.text[0] == "_")
        ):
            return []
        parent, scope = binding
        child_marks = self.marks(parent)
        needed = self.naming.required_children.get(self.nodes[parent].kind)
        if needed is not None and not child_marks & needed:
            return []
        excluded = child_marks & self.naming.excluded_children.get(self.nodes[parent].kind, frozenset())
        spans = [] if excluded else self.spans(parent, scope)
        if not spans:
            self.barred.add(node.text)
        return [(node.start, node.end), *spans] if spans else []

    def binding(self, at: int) -> tuple[int, Scope] | None:
        """Return the node that binds the name at this leaf, and its scope; None without a binding."""
        while (parent := self.nodes[at].parent) >= 0:
            edge, kind = self.edge(at), self.nodes[parent].kind
            scope = self.naming.bindings.get(edge) or self.naming.bindings.get(kind)
            if scope is not None:
                return parent, scope
            if edge not in self.naming.through and kind not in self.naming.through:
                return None
            at = parent
        return None

    def marks(self, at: int) -> set[str]:
        """Return kinds and texts of a node's children: `for x = …` may only assign to an existing variable."""
        children = [self.nodes[child] for child in self.children[at]]
        return {t.kind for t in children} | {t.text for t in children}

    def spans(self, at: int, scope: Scope) -> list[Span]:
        """Return the reach of a binding node; empty if visible outside the definition."""
        naming, node = self.naming, self.nodes[at]
        match scope:
            case "function":
                return self.body(self.function(at))
            case "unseen":
                function = self.function(at)
                return [] if function >= 0 and self.uses.has_visible_parameters(function) else self.body(function)
            case "outer":
                return self.body(self.function(node.parent)) if node.parent >= 0 else []
            case "quiet":
                function = self.function(at)
                typed = any(self.nodes[c].field == "type" for c in self.children.get(at, ()))
                return self.body(function) if function >= 0 and not typed and self.is_quiet(function) else []
            case "callers":
                return []
            case "body":
                return self.body(at)
            case "whole":
                return [(node.start, node.end)]
            case "parent":
                return [(self.nodes[node.parent].start, self.nodes[node.parent].end)]
            case "comprehension":
                return self.comprehension(self.nearest(node.parent, naming.comprehensions))
            case "hoisted" if self.function(node.parent) < 0:
                return []
            case "block" | "hoisted" | "rest":
                block = self.nearest(node.parent, naming.blocks | naming.functions)
                since = node.end if scope == "rest" else 0
                return [(max(low, since), high) for low, high in self.block_spans(block)]

    def nearest(self, at: int, kinds: frozenset[str]) -> int:
        while at >= 0 and self.nodes[at].kind not in kinds:
            at = self.nodes[at].parent
        return at

    def function(self, at: int) -> int:
        """Return the function reached by a binding, or -1 behind a wall."""
        function = self.nearest(at, self.naming.functions | self.naming.scope_walls)
        if function < 0 or self.nodes[function].kind not in self.naming.functions:
            return -1
        ancestor = self.nodes[at].parent if at != function else at
        while ancestor != function:
            if self.nodes[ancestor].kind in self.naming.sealed_kinds:
                return -1
            ancestor = self.nodes[ancestor].parent
        return function

    def is_quiet(self, function: int) -> bool:
        """Return whether callers never pass the function's parameters by name."""
        parent = self.nodes[function].parent
        parent_kind = self.nodes[parent].kind if parent >= 0 else ""
        allowed_parents = self.naming.positional_parents
        if self.naming.positional_callers and not self.uses.is_positional(self.uses.call_around(function)):
            return False
        return self.nodes[function].kind in self.naming.positional_kinds and (
            not allowed_parents or parent_kind in allowed_parents
        )

    def body(self, at: int) -> list[Span]:
        """Return the span of a node's body; an empty span without body, no span without node."""
        if at < 0:
            return []
        bodies = [self.nodes[c] for c in self.children.get(at, ()) if self.nodes[c].field == "body"]
        return [(t.start, t.end) for t in bodies] or [(0, 0)]

    def block_spans(self, at: int) -> list[Span]:
        """Return the span of a block, or of a function's body."""
        if at < 0:
            return []
        node = self.nodes[at]
        in_body = node.kind in self.naming.functions and node.kind not in self.naming.blocks
        return self.body(at) if in_body else [(node.start, node.end)]

    def comprehension(self, at: int) -> list[Span]:
        """Return the spans of a comprehension without its iterables, which belong to the enclosing scope."""
        if at < 0:
            return []
        clauses = (self.children.get(c, []) for c in self.children[at] if self.nodes[c].kind == "for_in_clause")
        rights = [self.nodes[c] for cs in clauses for c in cs if self.nodes[c].field == "right"]
        edges = [self.nodes[at].start, *(e for t in rights for e in (t.start, t.end)), self.nodes[at].end]
        return list(zip(edges[::2], edges[1::2], strict=True))


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for low, high in sorted(set(spans)):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def find_mentioned_names(node: FlatNode, naming: Naming) -> set[str]:
    """Return names that a non-variable leaf may mean: a type, a key, a string."""
    if node.kind in naming.label_leaves:
        return set()
    if node.kind in OPAQUE:
        return set(WORD.findall(node.text))
    inner = node.text.strip("\"'`:")
    braced = {word for part in BRACED_TEXT.findall(inner) for word in WORD.findall(part)}
    captured = {word for pair in CAPTURED_NAME.findall(node.text) for word in pair if word}
    return (set[str]() if node.kind in naming.inert_strings else {inner}) | braced | captured
