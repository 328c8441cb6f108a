"""Overlap of scopes: a search for a path that two scopes share, by walking both patterns' automata together."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product, takewhile
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.scope.globs import (
    ANY_CHAR,
    ANY_DEPTH,
    ANY_NAME_CHAR,
    SLASH,
    CharSet,
    Components,
    Scope,
    expand_inclusions,
)

_Symbol: TypeAlias = CharSet | Literal["*", "**", "folders", "in folder"]
_Moves: TypeAlias = list[tuple[CharSet, int]]
_Automaton: TypeAlias = list[tuple[_Moves, bool]]

_FILLERS = "xyzwvq0"
_MAX_STEPS = 200_000
_SPELLINGS = 6


def find_overlap(a: Scope, b: Scope) -> str | None:
    """Return a path in both scopes, or None if the search found none.

    A returned path is always in both. None is proof only for small scopes without exclusions: the search is bounded.
    """
    excluded = "".join(line for line in a.patterns + b.patterns if line.startswith("!"))
    filler = next((letter for letter in _FILLERS if letter not in excluded), "x")
    budget = iter(range(_MAX_STEPS))
    pairs = [pair for pair in product(_inclusions(a.patterns), _inclusions(b.patterns)) if _may_overlap(*pair)]
    # First with stars that stand for something: `src/x.py` explains more than `src/.py`.
    for at_least in (1, 0):
        for first, second in pairs:
            automata = _automaton(first.components, at_least), _automaton(second.components, at_least)
            for path in _shared_paths(*automata, filler, budget):
                if a.matches(path) and b.matches(path):
                    return path
    return None


class _Inclusion(Struct, frozen=True):
    """A pattern of a scope; `prefix` is its literal text before any wildcard."""

    components: Components
    prefix: str


@lru_cache(maxsize=1024)
def _inclusions(patterns: tuple[str, ...]) -> tuple[_Inclusion, ...]:
    return tuple(_Inclusion(components, _prefix(components)) for components in expand_inclusions(patterns))


def _prefix(components: Components) -> str:
    literals = ((s.literal or "") if isinstance(s, CharSet) else "" for s in _symbols(components, 0))
    return "".join(takewhile(bool, literals))


def _may_overlap(a: _Inclusion, b: _Inclusion) -> bool:
    return a.prefix.startswith(b.prefix) or b.prefix.startswith(a.prefix)


def _symbols(components: Components, at_least: int) -> Iterator[_Symbol]:
    for index, component in enumerate(components):
        last = index == len(components) - 1
        if component == ANY_DEPTH:
            yield from ("**",) if last else ("folders", "in folder")
            continue
        for part in component:
            if part == "*":
                yield from [ANY_NAME_CHAR] * at_least
            yield part
        if not last:
            yield SLASH


@lru_cache(maxsize=2048)
def _automaton(components: Components, at_least: int) -> _Automaton:
    """Return, for each position in a pattern, its moves and whether a path may end here."""
    symbols = list(_symbols(components, at_least))
    return [_automaton_state(symbols, at) for at in range(len(symbols) + 1)]


def _automaton_state(symbols: list[_Symbol], at: int) -> tuple[_Moves, bool]:
    moves: _Moves = []
    while at < len(symbols):
        symbol = symbols[at]
        if isinstance(symbol, CharSet):
            return [*moves, (symbol, at + 1)], False
        if symbol == "in folder":
            return [*moves, (ANY_NAME_CHAR, at), (SLASH, at - 1)], False
        if symbol == "folders":
            moves.append((ANY_NAME_CHAR, at + 1))
            at += 2
            continue
        moves.append((ANY_NAME_CHAR if symbol == "*" else ANY_CHAR, at))
        at += 1
    return moves, True


def _shared_paths(a: _Automaton, b: _Automaton, filler: str, budget: Iterator[int]) -> Iterator[str]:
    """Yield paths matched by both patterns, shortest first, with a few spellings for each pair of positions."""
    queue = [(0, 0, "")]
    spellings: dict[tuple[int, int, bool], set[str]] = {}
    for at_a, at_b, text in queue:
        (moves_a, ends_a), (moves_b, ends_b) = a[at_a], b[at_b]
        starts = not text or text.endswith("/")
        if ends_a and ends_b and not starts:
            yield text
        for next_a, next_b, char in _shared_moves(moves_a, moves_b, filler, budget):
            known = spellings.setdefault((next_a, next_b, char == "/"), set())
            if (starts and char == "/") or text + char in known or len(known) >= _SPELLINGS:
                continue
            known.add(text + char)
            queue.append((next_a, next_b, text + char))


def _shared_moves(a: _Moves, b: _Moves, filler: str, budget: Iterator[int]) -> Iterator[tuple[int, int, str]]:
    for first, next_a in a:
        for second, next_b in b:
            if next(budget, None) is None:
                return
            for char in _shared_characters(first, second, filler):
                yield next_a, next_b, char


def _shared_characters(a: CharSet, b: CharSet, filler: str) -> list[str]:
    """Return a character in both sets, and the slash if shared too."""
    for first, second in ((a, b), (b, a)):
        if first.literal is not None:
            return [first.literal] if second.contains(first.literal) else []
    edges = {ord(edge) for first in (a, b) for pair in first.ranges for edge in pair}
    codes = sorted({code + step for code in edges for step in (-1, 0, 1)})
    neighbours = [chr(code) for code in codes if 0 < code < 0xD800 or 0xDFFF < code < 0x110000]
    shared = [char for char in (filler, *neighbours, "/") if a.contains(char) and b.contains(char)]
    name = next((char for char in shared if char != "/"), None)
    return ([name] if name else []) + (["/"] if "/" in shared else [])
