"""Local names: names that nobody outside a definition can see, and whose renaming changes nothing.

A name is local only if each occurrence lies in the reach of a binding of the same name. Occurrences are not matched to
bindings: bindings of a name are renamed together.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from remit.core.code.binding_rules import Kinds, Naming, Scope
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
OPAQUE = frozenset({"interpolation", "macro_invocation", "macro_definition", "preproc_arg"})
"""Leaves that hold code as text."""
MACRO_NEIGHBOURS = frozenset({"=", ":", "::", "!", "=>", "'", "$"})
WORD = re.compile(r"\w+")
BRACED_TEXT = re.compile(r"\{([^{}]*)\}")
CAPTURED_NAME = re.compile(r"\(\?P?<(\w+)>|@(\w+)")
"""Groups of a regular expression become variables in Ruby; `@name` is a variable to libraries that read local names."""
INFINITE = 1 << 62
Span = tuple[int, int]


def local_names(nodes: Sequence[FlatNode], naming: Naming, hidden: frozenset[str] = frozenset()) -> dict[int, str]:
    """Return a number for each local name, by node index, in order of first occurrence.

    Numbers begin with NUL, unlike any name. `hidden` are words with meanings outside these nodes, such as those in
    macros.
    """
    return NameScopes(nodes, naming, hidden).number_names() if naming.variable_leaves else {}


class NameScopes:
    """The names of a definition: where they stand, what binds them, and how far each binding reaches."""

    def __init__(self, nodes: Sequence[FlatNode], naming: Naming, hidden: frozenset[str] = frozenset()) -> None:
        self.nodes, self.naming, self.hidden = nodes, naming, hidden
        self.children: dict[int, list[int]] = {}
        for at, node in enumerate(nodes):
            self.children.setdefault(node.parent, []).append(at)
        self.macro_visible: dict[int, bool] = {}

    def number_names(self) -> dict[int, str]:
        nodes, naming = self.nodes, self.naming
        if any(map(self.is_dynamic, nodes)):
            return {}
        places: dict[str, list[int]] = {}
        reach: dict[str, list[Span]] = {}
        barred: set[str] = set()
        named_functions: set[str] = set()
        passed_functions: set[str] = set()
        reads_strings = any(node.leaf and node.text in naming.string_readers for node in nodes)
        for at, node in enumerate(nodes):
            if not node.leaf:
                continue
            if not self.is_variable(at):
                barred |= find_mentioned_names(node, naming)
                if reads_strings and "string" in node.kind:
                    barred.update(WORD.findall(node.text))
                continue
            if self.is_member(at):
                continue
            plain = unicodedata.normalize("NFKC", node.text).lstrip("@").removeprefix("r#")
            if plain != node.text:
                barred |= {plain, node.text}
            places.setdefault(node.text, []).append(at)
            if self.has_other_meaning(at) or self.nearest(at, naming.scope_walls) > 0:
                barred.add(node.text)
            # Functions whose name travels with them, and functions passed to calls.
            if self.is_title(at) and [*self.decorators(node.parent)] != ["wraps"]:
                named_functions.add(node.text)
            if self.is_passed_to_call(at):
                passed_functions.add(node.text)
            spans, is_visible_outside = self.find_reach(at)
            if is_visible_outside:
                # A local name of the same spelling must not hide this one.
                barred.add(node.text)
            if spans:
                reach.setdefault(node.text, []).extend(spans)
        barred |= (named_functions & passed_functions) | self.hidden | naming.reserved_names
        merged = {name: merge_reach(spans) for name, spans in reach.items() if name not in barred}
        local = (
            name
            for name, indices in places.items()
            if name in merged
            and not re.fullmatch(naming.special_names, name)
            and not (naming.unused_names_matter and len(indices) == 1)
            and all(is_within(merged[name], nodes[at].start) for at in indices)
        )
        return {at: f"\0{number}" for number, name in enumerate(local) for at in places[name]}

    def is_dynamic(self, node: FlatNode) -> bool:
        """Return whether a node reads local names as text, or writes a name with escapes."""
        dynamic = self.naming.name_readers
        if node.text in self.naming.name_reading_methods and self.nodes[node.parent].kind in MEMBERS:
            return True
        escaped = "\\" in node.text and node.kind in self.naming.variable_leaves
        return node.kind in dynamic or (node.leaf and (node.text in dynamic or escaped))

    def is_variable(self, at: int) -> bool:
        """Return whether a leaf names a variable, or stands in a variable's position."""
        node = self.nodes[at]
        parent = self.nodes[node.parent].kind if node.parent >= 0 else ""
        return bool({node.kind, f"{parent}>{node.kind}"} & self.naming.variable_leaves)

    def is_member(self, at: int) -> bool:
        edge = self.edge(at)
        return bool({edge, edge.partition(".")[0]} & self.naming.member_edges)

    def edge(self, at: int) -> str:
        node = self.nodes[at]
        return f"{self.nodes[node.parent].kind}.{node.field}" if node.parent >= 0 else ""

    def nearest(self, at: int, kinds: Kinds) -> int:
        while at >= 0 and self.nodes[at].kind not in kinds:
            at = self.nodes[at].parent
        return at

    def fields(self, at: int, field: str) -> list[int]:
        return [child for child in self.children.get(at, ()) if self.nodes[child].field == field]

    # --- names that other code can see ---

    def has_other_meaning(self, at: int) -> bool:
        """Return whether the context of an occurrence gives the name a further meaning."""
        naming, parent = self.naming, self.nodes[at].parent
        if self.nodes[parent].kind == "token_tree":
            # An argument of a macro may be a member, a path or a key, judged by adjacent signs.
            siblings = self.children[parent]
            index = bisect_left(siblings, at)
            previous = self.nodes[siblings[index - 1]].text if index else ""
            following = self.nodes[siblings[index + 1]].text if index + 1 < len(siblings) else ""
            if previous in MACRO_NEIGHBOURS | {"."} or following in MACRO_NEIGHBOURS:
                return True
        while at >= 0:
            node = self.nodes[at]
            if self.edge(at) in naming.barred or node.kind in naming.barred:
                return True
            if node.kind in naming.barred_unless:
                # A macro that reads names as text may stand here.
                if at not in self.macro_visible:
                    text = self.nodes[self.children.get(at, [at])[0]].text
                    is_known = re.fullmatch(naming.barred_unless[node.kind], text) is not None
                    self.macro_visible[at] = text in self.hidden or not is_known
                if self.macro_visible[at]:
                    return True
            marker = naming.barred_if.get(node.kind)
            if marker and any(self.nodes[child].text == marker for child in self.children.get(at, ())):
                return True
            at = node.parent
        return False

    def is_title(self, at: int) -> bool:
        """Return whether a function receives a name here and carries it along."""
        return self.edge(at) in self.naming.naming_edges

    def is_passed_to_call(self, at: int) -> bool:
        """Return whether a function is passed to code that may read its name."""
        parent = self.nodes[at].parent
        if parent < 0:
            return False
        last = self.children[parent][-1]
        if last != at and self.nodes[last].text in REFLECTED_MEMBERS and self.nodes[parent].kind in MEMBERS:
            return True
        if self.is_title(at):
            return not KEEPING_NAMES.issuperset(self.decorators(parent))
        call, harmless_parents = self.call_around(at), self.naming.harmless_parents
        if self.naming.injectors and self.callee(call) in TITLING:
            return True
        if not harmless_parents or self.nodes[parent].kind in harmless_parents:
            return False
        return not self.is_positional(call)

    def decorators(self, function: int) -> Sequence[str]:
        """Return the last word of each decorator of a function."""
        parent, names = self.nodes[function].parent, list[str]()
        for at in self.children[parent] if parent >= 0 else ():
            if self.nodes[at].kind == "decorator":
                last = ""
                for node in self.nodes[at + 1 :]:
                    if node.text == "(" or node.start >= self.nodes[at].end:
                        break
                    last = node.text or last
                names.append(last)
        return names

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
        called = self.children[call][0]
        return self.nodes[called].leaf or name == "sort" or self.nodes[called + 1].text in LIBRARIES

    def callee(self, call: int) -> str:
        """Return the last word of the called expression; empty without a call."""
        arguments = self.fields(call, "arguments") if call >= 0 else []
        return self.nodes[arguments[0] - 1].text if arguments else ""

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
        names = {self.nodes[c].text for m in marks for c in self.fields(m, "name")}
        return bool(names - HARMLESS) or not self.fields(function, "body")

    # --- bindings and their reach ---

    def find_reach(self, at: int) -> tuple[list[Span], bool]:
        """Return the spans in which a name bound at this leaf is visible, and whether it is bound for outside use.

        No spans: nothing binds the name here.
        """
        naming, node = self.naming, self.nodes[at]
        if naming.function_wide:
            return self.body(self.nearest(at, naming.functions)), False
        binding = self.binding(at)
        is_constant = naming.capitals_are_constants and not (node.text[0].islower() or node.text[0] == "_")
        if binding is None or is_constant:
            return [], False
        parent, scope = binding
        # Kinds and texts of the children: `for x = …` may only assign to an existing variable.
        children = [self.nodes[child] for child in self.children[parent]]
        marks, kind = {t.kind for t in children} | {t.text for t in children}, self.nodes[parent].kind
        if kind in naming.required_children and not marks & naming.required_children[kind]:
            return [], False
        is_excluded = bool(marks & naming.excluded_children.get(kind, frozenset()))
        spans = [] if is_excluded else self.spans(parent, scope)
        return ([(node.start, node.end), *spans], False) if spans else ([], True)

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

    def spans(self, at: int, scope: Scope) -> list[Span]:
        """Return the reach of a binding node; empty if visible outside the definition."""
        naming, node = self.naming, self.nodes[at]
        match scope:
            case "function":
                return self.body(self.function(at))
            case "unseen":
                function = self.function(at)
                return [] if function >= 0 and self.has_visible_parameters(function) else self.body(function)
            case "outer":
                return self.body(self.function(node.parent)) if node.parent >= 0 else []
            case "quiet":
                function = self.function(at)
                is_quiet = function >= 0 and not self.fields(at, "type") and self.is_quiet(function)
                return self.body(function) if is_quiet else []
            case "callers":
                return []
            case "body":
                return self.body(at)
            case "whole":
                return [(node.start, node.end)]
            case "parent":
                return [(self.nodes[node.parent].start, self.nodes[node.parent].end)]
            case "comprehension":
                # Without its iterables, which belong to the enclosing scope.
                whole = self.nearest(node.parent, naming.comprehensions)
                if whole < 0:
                    return []
                clauses = [c for c in self.children[whole] if self.nodes[c].kind == "for_in_clause"]
                rights = [self.nodes[right] for clause in clauses for right in self.fields(clause, "right")]
                ends = (end for right in rights for end in (right.start, right.end))
                edges = [self.nodes[whole].start, *ends, self.nodes[whole].end]
                return list(zip(edges[::2], edges[1::2], strict=True))
            case "hoisted" if self.function(node.parent) < 0:
                return []
            case "block" | "hoisted" | "rest":
                block = self.nearest(node.parent, naming.blocks | naming.functions)
                if block < 0:
                    return []
                around = self.nodes[block]
                in_body = around.kind in naming.functions and around.kind not in naming.blocks
                since = node.end if scope == "rest" else 0
                spans = self.body(block) if in_body else [(around.start, around.end)]
                return [(max(low, since), high) for low, high in spans]

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
        naming, parent = self.naming, self.nodes[function].parent
        if naming.positional_callers and not self.is_positional(self.call_around(function)):
            return False
        if self.nodes[function].kind not in naming.positional_kinds:
            return False
        return not naming.positional_parents or (parent >= 0 and self.nodes[parent].kind in naming.positional_parents)

    def body(self, at: int) -> list[Span]:
        """Return the span of a node's body; an empty span without body, no span without node."""
        bodies = [self.nodes[child] for child in self.fields(at, "body")]
        return [] if at < 0 else [(body.start, body.end) for body in bodies] or [(0, 0)]


def merge_reach(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for low, high in sorted(set(spans)):
        if merged and low <= merged[-1][1]:
            last = merged.pop()
            low, high = last[0], max(last[1], high)
        merged.append((low, high))
    return merged


def is_within(spans: Sequence[Span], position: int) -> bool:
    n = bisect_right(spans, (position, INFINITE)) - 1
    return n >= 0 and position < spans[n][1]


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
