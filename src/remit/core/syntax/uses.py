"""Where functions and their parameters are seen from outside although their names are local."""

from collections.abc import Mapping, Sequence

from remit.core.syntax.naming import Naming
from remit.core.syntax.twigs import Twig

REFLECTED = frozenset({"name", "displayName", "toString", "__name__", "__qualname__", "__doc__"})
MEMBERS = frozenset({"attribute", "member_expression"})
CALLS = frozenset({"call", "call_expression"})
GIVEN = frozenset({"argument_list", "arguments", "keyword_argument", "array"})
LIBRARIES = frozenset({"functools", "itertools", "re", "heapq", "bisect", "collections"})
HARMLESS = frozenset({"Override", "Deprecated", "SuppressWarnings", "SafeVarargs"})
TITLING = frozenset({"test", "it", "bench", "step", "describe", "suite"})
"""Functions of JavaScript that name a test after the function that it is."""
KEEPING_NAMES = frozenset({"wraps", "contextmanager", "cache", "lru_cache", "property", "staticmethod"})
"""Decorators that look at no name."""


class Uses:
    """What a definition gives away. `children` are the places of each twig's children."""

    def __init__(self, twigs: Sequence[Twig], children: Mapping[int, Sequence[int]], naming: Naming) -> None:
        self.twigs, self.children, self.naming = twigs, children, naming

    def is_title(self, at: int) -> bool:
        """Whether a function gets a name here that it carries with it."""
        twig = self.twigs[at]
        return twig.parent >= 0 and f"{self.twigs[twig.parent].kind}.{twig.field}" in self.naming.titled

    def is_handed(self, at: int) -> bool:
        """Whether a function that is named here is given to something that may look at its name."""
        parent = self.twigs[at].parent
        if parent < 0:
            return False
        last = self.children[parent][-1]
        if last != at and self.twigs[last].text in REFLECTED and self.twigs[parent].kind in MEMBERS:
            return True
        if self.is_title(at):
            return self.is_decorated(parent)
        if self.naming.injectors and self.callee(self.call_around(at)) in TITLING:
            return True
        kept = self.naming.private_uses
        if not kept or self.twigs[parent].kind in kept:
            return False
        return not self.is_positional(self.call_around(at))

    def is_decorated(self, function: int) -> bool:
        """Whether a function is given to a decorator that may look at its name."""
        above = self.twigs[function].parent
        decorators = [c for c in self.children.get(above, ()) if self.twigs[c].kind == "decorator"]
        return above >= 0 and not all(self.decorated_with(d) in KEEPING_NAMES for d in decorators)

    def is_retitled(self, function: int) -> bool:
        """Whether a decorator gives a function the name of another one."""
        above = self.twigs[function].parent
        decorators = [c for c in self.children.get(above, ()) if self.twigs[c].kind == "decorator"]
        return above >= 0 and [self.decorated_with(d) for d in decorators] == ["wraps"]

    def decorated_with(self, decorator: int) -> str:
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
        while at >= 0 and self.twigs[at].kind in GIVEN:
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

    def is_seen(self, function: int) -> bool:
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
