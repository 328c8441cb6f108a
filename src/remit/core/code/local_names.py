"""Which names of a definition nobody outside it can see, so that renaming them changes nothing.

A name is local only if each place where it stands is inside the reach of one of its own bindings. That is asked of the
name, not of each place: which of two bindings a place means need not be known, since all of them are renamed together.

Where functions and their parameters are seen from outside although their names are local.
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
"""Functions of JavaScript that name a test after the function that it is."""
KEEPING_NAMES = frozenset({"wraps", "contextmanager", "cache", "lru_cache", "property", "staticmethod"})
"""Decorators that look at no name."""


class Uses:
    """What a definition gives away. `children` are the places of each twig's children."""

    def __init__(self, twigs: Sequence[FlatNode], children: Mapping[int, Sequence[int]], naming: Naming) -> None:
        self.twigs, self.children, self.naming = twigs, children, naming

    def is_title(self, at: int) -> bool:
        """Whether a function gets a name here that it carries with it."""
        twig = self.twigs[at]
        return twig.parent >= 0 and f"{self.twigs[twig.parent].kind}.{twig.field}" in self.naming.titled

    def is_passed_to_call(self, at: int) -> bool:
        """Whether a function that is named here is given to something that may look at its name."""
        parent = self.twigs[at].parent
        if parent < 0:
            return False
        last = self.children[parent][-1]
        if last != at and self.twigs[last].text in REFLECTED_MEMBERS and self.twigs[parent].kind in MEMBERS:
            return True
        if self.is_title(at):
            return self.has_unknown_decorator(parent)
        if self.naming.injectors and self.callee(self.call_around(at)) in TITLING:
            return True
        kept = self.naming.private_uses
        if not kept or self.twigs[parent].kind in kept:
            return False
        return not self.is_positional(self.call_around(at))

    def has_unknown_decorator(self, function: int) -> bool:
        """Whether a function is given to a decorator that may look at its name."""
        above = self.twigs[function].parent
        decorators = [c for c in self.children.get(above, ()) if self.twigs[c].kind == "decorator"]
        return above >= 0 and not all(self.read_decorator_name(d) in KEEPING_NAMES for d in decorators)

    def has_wraps_decorator(self, function: int) -> bool:
        """Whether a decorator gives a function the name of another one."""
        above = self.twigs[function].parent
        decorators = [c for c in self.children.get(above, ()) if self.twigs[c].kind == "decorator"]
        return above >= 0 and [self.read_decorator_name(d) for d in decorators] == ["wraps"]

    def read_decorator_name(self, decorator: int) -> str:
        """The last word of a decorator's name."""
        last = ""
        for twig in self.twigs[decorator + 1 :]:
            if twig.text == "(" or twig.start >= self.twigs[decorator].end:
                break
            last = twig.text or last
        return last

    def call_around(self, at: int) -> int:
        """The call that something is an argument of; -1 where it is of none."""
        at = self.twigs[at].parent
        while at >= 0 and self.twigs[at].kind in ARGUMENT_KINDS:
            at = self.twigs[at].parent
        return at if at >= 0 and self.twigs[at].kind in CALLS else -1

    def is_positional(self, call: int) -> bool:
        """Whether a call is of something that passes parameters by position, and looks at no names."""
        name = self.callee(call)
        if name not in self.naming.positional:
            return False
        called = self.twigs[self.children[call][0]]
        return called.leaf or name == "sort" or self.twigs[self.children[call][0] + 1].text in LIBRARIES

    def callee(self, call: int) -> str:
        """The last word of what is called; empty where nothing is."""
        arguments = [c for c in self.children.get(call, ()) if self.twigs[c].field == "arguments"]
        return self.twigs[arguments[0] - 1].text if call >= 0 and arguments else ""

    def has_visible_parameters(self, function: int) -> bool:
        """Whether a framework may read what the parameters of this function are called: by an annotation, from a method
        that it makes itself, from a constructor, or because it passes them by name.
        """
        kind = self.twigs[function].kind
        if kind == "constructor_declaration":
            return True
        if kind != "method_declaration":
            return self.callee(self.call_around(function)) in self.naming.injectors
        modifiers = [c for c in self.children[function] if self.twigs[c].kind == "modifiers"]
        marks = [c for m in modifiers for c in self.children.get(m, ()) if "annotation" in self.twigs[c].kind]
        names = {self.twigs[c].text for m in marks for c in self.children[m] if self.twigs[c].field == "name"}
        return bool(names - HARMLESS) or not any(self.twigs[c].field == "body" for c in self.children[function])


Span = tuple[int, int]
WORD = re.compile(r"\w+")
BRACED_TEXT = re.compile(r"\{([^{}]*)\}")
CAPTURED_NAME = re.compile(r"\(\?P?<(\w+)>|@(\w+)")
"""A group of a regular expression makes a variable in Ruby; `@name` is one to a library that reads local names."""
OPAQUE = frozenset({"interpolation", "macro_invocation", "macro_definition", "preproc_arg"})
"""Leaves that are code, kept as it is spelt."""
INFINITE = 1 << 62
MACRO_NEIGHBOURS = frozenset({"=", ":", "::", "!", "=>", "'", "$"})


def local_names(twigs: Sequence[FlatNode], naming: Naming, hidden: frozenset[str] = frozenset()) -> dict[int, str]:
    """The new names of a definition's local names, by place: numbers in the order in which they first stand there.

    They begin with NUL, as no name does. `hidden` are words that stand for something which is not in these twigs,
    such as those in a macro.
    """
    return NameScopes(twigs, naming).number_names(hidden) if naming.variables else {}


class NameScopes:
    """The names in one definition."""

    def __init__(self, twigs: Sequence[FlatNode], naming: Naming) -> None:
        self.twigs, self.naming = twigs, naming
        self.children: dict[int, list[int]] = {}
        for at, twig in enumerate(twigs):
            self.children.setdefault(twig.parent, []).append(at)
        self.uses = Uses(twigs, self.children, naming)
        self.poisoned: set[str] = set()
        self.titled: set[str] = set()
        self.handed: set[str] = set()
        self.framed = any(twig.leaf and twig.text in naming.frames for twig in twigs)
        self.macro_visible: dict[int, bool] = {}
        self.hidden: frozenset[str] = frozenset()
        self.places: dict[str, list[int]] = {}
        self.reach: dict[str, list[Span]] = {}

    def number_names(self, hidden: frozenset[str]) -> dict[int, str]:
        """As `local_names`."""
        if any(self.is_dynamic(twig) for twig in self.twigs):
            return {}
        self.hidden = hidden
        for at, twig in enumerate(self.twigs):
            if twig.leaf:
                self.collect(at, twig)
        self.poisoned |= self.titled & self.handed
        never = re.compile(self.naming.never)
        hidden |= self.naming.reserved
        local = [n for n in self.places if n not in hidden and not never.fullmatch(n) and self.is_local(n)]
        return {at: f"\0{number}" for number, name in enumerate(local) for at in self.places[name]}

    def is_dynamic(self, twig: FlatNode) -> bool:
        """Whether this reaches local names as text, or writes one with escapes."""
        dynamic = self.naming.dynamic
        if twig.text in self.naming.dynamic_members and self.twigs[twig.parent].kind in MEMBERS:
            return True
        return twig.kind in dynamic or (
            twig.leaf and (twig.text in dynamic or ("\\" in twig.text and twig.kind in self.naming.variables))
        )

    def is_local(self, name: str) -> bool:
        """Whether all places of that name are in the reach of its bindings."""
        if name in self.poisoned or name not in self.reach or (self.naming.used and len(self.places[name]) == 1):
            return False
        spans = merge_spans(self.reach[name])
        starts = (self.twigs[at].start for at in self.places[name])
        return all((n := bisect_right(spans, (start, INFINITE)) - 1) >= 0 and start < spans[n][1] for start in starts)

    def collect(self, at: int, twig: FlatNode) -> None:
        """Take in one leaf."""
        if not self.is_variable(at):
            self.poisoned.update(find_mentioned_names(twig, self.naming))
            if self.framed and "string" in twig.kind:
                self.poisoned.update(WORD.findall(twig.text))
            return
        if self.is_member(at):
            return
        plain = unicodedata.normalize("NFKC", twig.text).lstrip("@").removeprefix("r#")
        if plain != twig.text:
            self.poisoned |= {plain, twig.text}
        self.places.setdefault(twig.text, []).append(at)
        if self.has_other_meaning(at) or self.is_behind_wall(at):
            self.poisoned.add(twig.text)
        self.carry(at)
        self.reach.setdefault(twig.text, []).extend(self.find_reach(at))
        if not self.reach[twig.text]:
            del self.reach[twig.text]

    def carry(self, at: int) -> None:
        """Take in whether a function's name goes where the function goes, and whether this one goes anywhere."""
        if self.uses.is_title(at) and not self.uses.has_wraps_decorator(self.twigs[at].parent):
            self.titled.add(self.twigs[at].text)
        if self.uses.is_passed_to_call(at):
            self.handed.add(self.twigs[at].text)

    def is_variable(self, at: int) -> bool:
        """Whether a leaf names a variable, or something that stands where one could."""
        twig = self.twigs[at]
        parent = self.twigs[twig.parent].kind if twig.parent >= 0 else ""
        return bool({twig.kind, f"{parent}>{twig.kind}"} & self.naming.variables)

    def is_member(self, at: int) -> bool:
        """Whether it hangs where only members, keywords and labels do."""
        edge = self.edge(at)
        return bool({edge, edge.partition(".")[0]} & self.naming.fixed)

    def edge(self, at: int) -> str:
        """The edge that a twig hangs on."""
        twig = self.twigs[at]
        return f"{self.twigs[twig.parent].kind}.{twig.field}" if twig.parent >= 0 else ""

    def has_other_meaning(self, at: int) -> bool:
        """Whether something above a place lets its name mean more than a local variable."""
        naming = self.naming
        if self.twigs[self.twigs[at].parent].kind == "token_tree" and self.has_macro_neighbour(at):
            return True
        while at >= 0:
            twig = self.twigs[at]
            if self.edge(at) in naming.poison or twig.kind in naming.poison:
                return True
            if twig.kind in naming.poison_unless and self.is_macro_visible(at):
                return True
            marker = naming.poison_if.get(twig.kind)
            if marker and any(self.twigs[child].text == marker for child in self.children.get(at, ())):
                return True
            at = twig.parent
        return False

    def is_macro_visible(self, at: int) -> bool:
        """Whether something that takes the names in it as text may stand here."""
        if at not in self.macro_visible:
            first = self.children.get(at, [at])[0]
            needed = self.naming.poison_unless[self.twigs[at].kind]
            text = self.twigs[first].text
            self.macro_visible[at] = text in self.hidden or re.fullmatch(needed, text) is None
        return self.macro_visible[at]

    def is_behind_wall(self, at: int) -> bool:
        """Whether a place is inside something in which its name may mean something else."""
        return self.nearest(at, self.naming.walls) > 0

    def has_macro_neighbour(self, at: int) -> bool:
        """Whether a word in a macro's arguments may be a member, a path or a key: it stands beside such a sign."""
        siblings = self.children[self.twigs[at].parent]
        here = bisect_left(siblings, at)
        before = self.twigs[siblings[here - 1]].text if here else ""
        after = self.twigs[siblings[here + 1]].text if here + 1 < len(siblings) else ""
        return before in MACRO_NEIGHBOURS | {"."} or after in MACRO_NEIGHBOURS

    def find_reach(self, at: int) -> list[Span]:
        """Where the name is visible that is bound at this place; nothing where none is.

        A name that is bound where others can see it is poisoned: a local one of the same name must not hide that.
        """
        if self.naming.implicit:
            return self.body(self.nearest(at, self.naming.functions))
        twig = self.twigs[at]
        found = self.binding(at)
        if found is None or (self.naming.lower_case and not (twig.text[0].islower() or twig.text[0] == "_")):
            return []
        parent, scope = found
        below = self.marks(parent)
        needed = self.naming.needs.get(self.twigs[parent].kind)
        if needed is not None and not below & needed:
            return []
        refused = below & self.naming.unless.get(self.twigs[parent].kind, frozenset())
        spans = [] if refused else self.spans(parent, scope)
        if not spans:
            self.poisoned.add(twig.text)
        return [(twig.start, twig.end), *spans] if spans else []

    def binding(self, at: int) -> tuple[int, Scope] | None:
        """The node that binds the name at this place, and where it does; None where none does."""
        while (parent := self.twigs[at].parent) >= 0:
            edge, kind = self.edge(at), self.twigs[parent].kind
            scope = self.naming.bindings.get(edge) or self.naming.bindings.get(kind)
            if scope is not None:
                return parent, scope
            if edge not in self.naming.through and kind not in self.naming.through:
                return None
            at = parent
        return None

    def marks(self, at: int) -> set[str]:
        """The kinds and texts of what is right below a node: `for x = …` may only assign to one that is there."""
        below = [self.twigs[child] for child in self.children[at]]
        return {t.kind for t in below} | {t.text for t in below}

    def spans(self, at: int, scope: Scope) -> list[Span]:
        """The reach of a binding node; empty where it is not within this definition."""
        naming, twig = self.naming, self.twigs[at]
        match scope:
            case "function":
                return self.body(self.function(at))
            case "unseen":
                found = self.function(at)
                return [] if found >= 0 and self.uses.has_visible_parameters(found) else self.body(found)
            case "outer":
                return self.body(self.function(twig.parent)) if twig.parent >= 0 else []
            case "quiet":
                found = self.function(at)
                typed = any(self.twigs[c].field == "type" for c in self.children.get(at, ()))
                return self.body(found) if found >= 0 and not typed and self.is_quiet(found) else []
            case "callers":
                return []
            case "body":
                return self.body(at)
            case "whole":
                return [(twig.start, twig.end)]
            case "parent":
                return [(self.twigs[twig.parent].start, self.twigs[twig.parent].end)]
            case "comprehension":
                return self.comprehension(self.nearest(twig.parent, naming.comprehensions))
            case "hoisted" if self.function(twig.parent) < 0:
                return []
            case "block" | "hoisted" | "rest":
                block = self.nearest(twig.parent, naming.blocks | naming.functions)
                since = twig.end if scope == "rest" else 0
                return [(max(low, since), high) for low, high in self.block_spans(block)]

    def nearest(self, at: int, wanted: frozenset[str]) -> int:
        """The nearest twig of those kinds from `at` upwards; -1 where there is none."""
        while at >= 0 and self.twigs[at].kind not in wanted:
            at = self.twigs[at].parent
        return at

    def function(self, at: int) -> int:
        """The function whose body a binding at `at` reaches; -1 where something stands between."""
        found = self.nearest(at, self.naming.functions | self.naming.walls)
        if found < 0 or self.twigs[found].kind not in self.naming.functions:
            return -1
        above = self.twigs[at].parent if at != found else at
        while above != found:
            if self.twigs[above].kind in self.naming.sealed:
                return -1
            above = self.twigs[above].parent
        return found

    def is_quiet(self, function: int) -> bool:
        """Whether nobody passes this function's parameters by name."""
        parent = self.twigs[function].parent
        inside = self.twigs[parent].kind if parent >= 0 else ""
        wanted = self.naming.quiet_in
        if self.naming.positional and not self.uses.is_positional(self.uses.call_around(function)):
            return False
        return self.twigs[function].kind in self.naming.quiet and (not wanted or inside in wanted)

    def body(self, at: int) -> list[Span]:
        """The body of a node; an empty one where it has none, nothing where there is no node."""
        if at < 0:
            return []
        found = [self.twigs[c] for c in self.children.get(at, ()) if self.twigs[c].field == "body"]
        return [(t.start, t.end) for t in found] or [(0, 0)]

    def block_spans(self, at: int) -> list[Span]:
        """A block, or the body of a function."""
        if at < 0:
            return []
        twig = self.twigs[at]
        in_body = twig.kind in self.naming.functions and twig.kind not in self.naming.blocks
        return self.body(at) if in_body else [(twig.start, twig.end)]

    def comprehension(self, at: int) -> list[Span]:
        """A comprehension without what it goes through: that belongs to what stands around it."""
        if at < 0:
            return []
        clauses = (self.children.get(c, []) for c in self.children[at] if self.twigs[c].kind == "for_in_clause")
        rights = [self.twigs[c] for cs in clauses for c in cs if self.twigs[c].field == "right"]
        edges = [self.twigs[at].start, *(e for t in rights for e in (t.start, t.end)), self.twigs[at].end]
        return list(zip(edges[::2], edges[1::2], strict=True))


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """The spans in order, those that meet made one."""
    found: list[Span] = []
    for low, high in sorted(set(spans)):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def find_mentioned_names(twig: FlatNode, naming: Naming) -> set[str]:
    """The names that a leaf may mean although it is no variable: a type, a key, a string that names one."""
    if twig.kind in naming.labels:
        return set()
    if twig.kind in OPAQUE:
        return set(WORD.findall(twig.text))
    inner = twig.text.strip("\"'`:")
    braced = {word for part in BRACED_TEXT.findall(inner) for word in WORD.findall(part)}
    captured = {word for pair in CAPTURED_NAME.findall(twig.text) for word in pair if word}
    return (set[str]() if twig.kind in naming.silent else {inner}) | braced | captured
