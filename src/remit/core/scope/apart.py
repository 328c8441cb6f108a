"""Proofs that two scopes share no path: both run as automata side by side, until a shared path or no state is left.

A scope is a regular language: places in the patterns are the states, and the last accepting pattern of a path decides.
The alphabet is cut into classes of characters equal to every pattern, with a letter for each class. On a file system
without case, a letter is a pair of spellings of the same text: `src/A.py` and `SRC/a.py` are the same file.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, product, takewhile
from operator import itemgetter
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.scope.path_patterns import (
    ANY_CHAR,
    ANY_DEPTH,
    ANY_NAME_CHAR,
    SLASH,
    CharSet,
    Components,
    Scope,
    expand_line,
    fold_case,
    list_signed_lines,
    make_literal,
)

MAX_KNOWN_STATES = 512
"""States of a scope whose moves are kept: most scopes have less than a hundred."""
MAX_STEPS = 200_000
"""Moves of the automata per pair of scopes: up to half a second."""


class Apart(Struct, frozen=True):
    """A proof that no path lies in both scopes."""


class Shared(Struct, frozen=True):
    """A shortest path in both scopes; `other` is the second scope's spelling of the same file, where it differs."""

    path: str
    other: str = ""


class Unproved(Struct, frozen=True):
    """No answer within the bounds. Callers treat the scopes as sharing a path."""

    why: str


Answer: TypeAlias = Apart | Shared | Unproved


def decide_apart(a: Scope, b: Scope, *, fold: bool = False, max_steps: int = MAX_STEPS) -> Answer:
    """Decide whether some path lies in both scopes, with `fold` on a file system that ignores case and Unicode form."""
    return decide_all_apart((a,), (b,), fold=fold, max_steps=max_steps)


def decide_all_apart(
    a: Sequence[Scope], b: Sequence[Scope], *, fold: bool = False, max_steps: int = MAX_STEPS
) -> Answer:
    """Decide whether some path lies in all scopes of both sides; a side is the intersection of its scopes.

    A shared path is checked with `Scope.matches` against each.
    """
    if fold:  # a path spelled alike is found in a fraction of the time
        alike = decide_all_apart(a, b, max_steps=max_steps)
        if isinstance(alike, Shared) and (shared := _check_spellings(a, b, (alike.path, alike.path), fold=True)):
            return shared
    automata = [_compile_scope(scope.patterns, fold=fold) for scope in (*a, *b)]
    lines = [automaton.select_lines(automata) for automaton in automata]
    if not all(any(line.is_inclusion for line in own) for own in lines):
        return Apart()
    starts = tuple(sum(line.start for line in own) for own in lines)
    joined = [_join_sets(line for own in side for line in own) for side in (lines[: len(a)], lines[len(a) :])]
    has_plain_letters = not fold and all(bound.isascii() for exact, _ in joined for bound in _list_bounds(exact))
    is_covered = not fold or not any(map(_is_beyond_fold, lines))
    # Few pairs need the whole alphabet: folders such as `.git`, and texts of several characters that fold together.
    has_reserved = has_long = False
    while True:
        if has_plain_letters and not has_reserved:
            sides = [_compile_side(scope.patterns) for scope in (*a, *b)]
            walk = _Walk(sides, starts, _make_plain_rules(), max_steps)
        else:
            letters = _list_letters(*joined[0], *joined[1], fold=fold, has_reserved=has_reserved, has_long=has_long)
            first = [(letter.first, letter.folded) for letter in letters]
            second = [(letter.second, letter.folded) for letter in letters]
            sides = [
                _Side(automaton, own, first if n < len(a) else second)
                for n, (automaton, own) in enumerate(zip(automata, lines, strict=True))
            ]
            walk = _Walk(sides, starts, _PathRules(letters, _RESERVED_NAMES if has_reserved else ("",)), max_steps)
        spellings = walk.find_shared_path()
        if walk.steps < 0:
            return Unproved(f"not decided within {max_steps} steps")
        if spellings is None and has_long == fold:
            return Apart() if is_covered else Unproved("ranges or marks beyond ASCII, whose cases are not searched")
        if spellings is not None and (shared := _check_spellings(a, b, spellings, fold=fold)):
            return shared
        if has_reserved:
            return Unproved("the search found a path that the patterns do not match")
        has_reserved, has_long = spellings is not None, fold


def _check_spellings(
    a: Sequence[Scope], b: Sequence[Scope], spellings: tuple[str, str], *, fold: bool
) -> Shared | None:
    def is_within(scopes: Sequence[Scope], path: str) -> bool:
        return all(scope.matches(path, fold=fold) for scope in scopes)

    first, second = spellings
    for path in dict.fromkeys((_make_readable(first), first, second)):
        if is_within((*a, *b), path):
            return Shared(path)
    is_same_file = fold and fold_case(first) == fold_case(second)
    return Shared(first, second) if is_same_file and is_within(a, first) and is_within(b, second) else None


def _make_readable(path: str) -> str:
    return re.sub(r"(?<![^/_-])\.", "x.", path)


def _is_beyond_fold(lines: Iterable["_Line"]) -> bool:
    bounds = (bound for line in lines for chars in line.exact | line.folded for bound in chars.ranges)
    return any(
        not edge.isascii() and (low != high or unicodedata.combining(edge))
        for low, high in bounds
        for edge in (low, high)
    )


# --- automata ---------------------------------------------------------------------------------------------

_Symbol: TypeAlias = CharSet | Literal["*", "**", "folders", "in folder"]
_Moves: TypeAlias = tuple[tuple[CharSet, int], ...]
Edges: TypeAlias = tuple[str, str]
"""Texts that every path of a pattern begins and ends with."""


class _Line(Struct, frozen=True):
    """A scope's line in an automaton: the first places, and the sets that are read as spelled and folded."""

    is_inclusion: bool
    start: int
    exact: frozenset[CharSet]
    folded: frozenset[CharSet]
    edges: frozenset[Edges]


class _Automaton(Struct, frozen=True):
    """A scope's patterns as an automaton. A state is a set of places, a bit each.

    `moves` are by place, their targets single bits. Places in `folded` read the folded text. `runs` are, last first,
    the final places of consecutive lines with the same sign, and the sign.
    """

    moves: tuple[_Moves, ...]
    lines: tuple[_Line, ...]
    included: int
    folded: int
    runs: tuple[tuple[int, bool], ...]
    edges: frozenset[Edges]
    """Of the inclusions."""

    def accepts(self, state: int) -> bool:
        for final, included in self.runs:
            if state & final:
                return included
        return False

    def select_lines(self, others: "Iterable[_Automaton]") -> list[_Line]:
        return [line for line in self.lines if all(can_meet(line.edges, other.edges) for other in others)]


@lru_cache(maxsize=4096)
def _compile_scope(patterns: tuple[str, ...], *, fold: bool) -> _Automaton:
    moves: list[_Moves] = []
    lines: list[_Line] = []
    included = folded = 0
    runs: list[tuple[int, bool]] = []
    for is_inclusion, line in list_signed_lines(patterns):
        start = final = 0
        sets: tuple[set[CharSet], set[CharSet]] = (set(), set())
        exact = [(False, components) for components in expand_line(line)]
        lowered = [(True, components) for components in expand_line(line, fold=True)] if fold else []
        for is_folded, components in dict.fromkeys(exact + lowered):
            places, ends = _build_places(components)
            base = len(moves)
            moves += [tuple((chars, target << base) for chars, target in place) for place in places]
            mask = ((1 << len(places)) - 1) << base
            start |= 1 << base
            final |= ends << base
            included |= mask if is_inclusion else 0
            folded |= mask if is_folded else 0
            sets[is_folded].update(chars for place in places for chars, _ in place)
        edges = frozenset(_find_edges(components, fold=fold) for _, components in exact)
        lines.append(_Line(is_inclusion, start, frozenset(sets[0]), frozenset(sets[1]), edges))
        if runs and runs[0][1] == is_inclusion:
            runs[0] = (runs[0][0] | final, is_inclusion)
        else:
            runs.insert(0, (final, is_inclusion))
    edges = frozenset(each for line in lines if line.is_inclusion for each in line.edges)
    return _Automaton(tuple(moves), tuple(lines), included, folded, tuple(runs), edges)


def _join_sets(lines: Iterable[_Line]) -> tuple[frozenset[CharSet], frozenset[CharSet]]:
    return frozenset(c for line in lines for c in line.exact), frozenset(c for line in lines for c in line.folded)


@lru_cache(maxsize=4096)
def _build_places(components: Components) -> tuple[tuple[_Moves, ...], int]:
    symbols = list(_list_symbols(components))
    places = [_list_moves(symbols, at) for at in range(len(symbols) + 1)]
    ends = sum(1 << at for at, (_, is_end) in enumerate(places) if is_end)
    return tuple(tuple((chars, 1 << target) for chars, target in moves) for moves, _ in places), ends


def _list_symbols(components: Components) -> Iterator[_Symbol]:
    for index, component in enumerate(components):
        last = index == len(components) - 1
        if component == ANY_DEPTH:
            yield from ("**",) if last else ("folders", "in folder")
            continue
        yield from component
        if not last:
            yield SLASH


def _list_moves(symbols: list[_Symbol], at: int) -> tuple[list[tuple[CharSet, int]], bool]:
    moves: list[tuple[CharSet, int]] = []
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


def list_edges(scope: Scope, *, fold: bool = False) -> frozenset[Edges]:
    """Return the edges of the patterns that a scope includes."""
    return _compile_scope(scope.patterns, fold=fold).edges


def can_meet(a: Iterable[Edges], b: Iterable[Edges]) -> bool:
    """Return whether edges leave room for a shared path: quick, and never False if a shared path exists."""
    return any(
        (begin.startswith(x) or x.startswith(begin)) and (end.endswith(y) or y.endswith(end))
        for begin, end in a
        for x, y in b
    )


def _find_edges(components: Components, *, fold: bool) -> Edges:
    literals = [(s.literal or "") if isinstance(s, CharSet) else "" for s in _list_symbols(components)]
    prefix = "".join(takewhile(bool, literals))
    suffix = "".join(takewhile(bool, reversed(literals)))[::-1]
    if not fold:
        return prefix, suffix
    # A mark after the last literal may compose with it, which never changes an ASCII prefix but its last character, and
    # no slash; nothing composes with an ASCII character after it.
    begin = fold_case(prefix) if prefix.isascii() else ""
    return (begin if begin.endswith("/") else begin[:-1], fold_case(suffix) if suffix.isascii() else "")


# --- letters ----------------------------------------------------------------------------------------------

_RESERVED_NAMES = ("", ".", "..", ".git", ".orchestration")
"""Folded names that are no part of a path in any scope."""
_Sets: TypeAlias = frozenset[CharSet]
_RESERVED_CHARS = frozenset({*"".join(_RESERVED_NAMES), *"ſﬅﬆ"})
"""Characters of those names, and those beyond ASCII that fold to them."""
_READABLE_CHARS = "xyzwvqabcdefghijklmnoprstu0123456789XYZABCDEFGHIJKLMNOPQRSTUVW_-.+=,:;@#%~^&()[]{}!$'`*?<>|\" \\/"
"""Characters for classes of many, those first that read well in a path."""
_FOLDING_CHARS = "ßẞﬀﬁﬂﬃﬄﬅﬆſK\u1f82\uac00\uac01"
"""Characters beyond ASCII that fold to ASCII, and three that fold together with two, three and four characters."""
_MARKS = "\u0323\u0327\u0302\u0303\u0308\u0304\u0301\u0307\u030c"
"""Combining marks, one of which composes with each letter that has any, in the order in which two of them compose."""


class _Letter(Struct, frozen=True):
    """A text as the first and the second scope spell it, and folded."""

    first: str
    second: str
    folded: str


_PLAIN_LETTERS = tuple(
    _Letter(char, char, char)
    for char in sorted(
        map(chr, range(1, 0x81)), key=lambda char: (char not in _READABLE_CHARS, _READABLE_CHARS.find(char))
    )
)
"""A letter for each ASCII character, and one for all others: of scopes whose patterns name no others."""


def _list_letters(
    exact_a: _Sets, folded_a: _Sets, exact_b: _Sets, folded_b: _Sets, *, fold: bool, has_reserved: bool, has_long: bool
) -> tuple[_Letter, ...]:
    reserved = frozenset(map(make_literal, _RESERVED_CHARS)) if has_reserved else frozenset[CharSet]()
    folded_sets = folded_a | folded_b | reserved
    chars = _list_representatives(exact_a | exact_b | folded_sets, fold=fold)
    if not fold:
        return tuple(_Letter(char, char, fold_case(char) if has_reserved else char) for char in chars)
    pairs = [pair for char in chars for pair in product(_list_cases(char), repeat=2)]
    if has_long:
        for char in (*_FOLDING_CHARS, *(c for c in chars if not c.isascii()), *(c for x in chars for c in _compose(x))):
            spelled = (unicodedata.normalize("NFD", char), fold_case(char))
            texts = {char: None} | {"".join(cs): None for text in spelled for cs in product(*map(_list_cases, text))}
            pairs += ((x, y) for x, y in product(texts, repeat=2) if not (x + y).isascii())
    classes = [_Classes(sets) for sets in (exact_a, exact_b, folded_sets)]
    letters: dict[tuple[object, ...], _Letter] = {}
    for x, y in dict.fromkeys(pairs):
        texts = (x, y, fold_case(x))
        if texts[2] == fold_case(y):
            alike = tuple(classes_of.classify(text) for classes_of, text in zip(classes, texts, strict=True))
            letters.setdefault(alike, _Letter(*texts))
    return tuple(letters.values())


class _Classes:
    """Classes of characters that some sets do not tell apart."""

    def __init__(self, sets: _Sets) -> None:
        self.literals = {chars.literal for chars in sets if chars.literal is not None}
        self.wide = [chars for chars in sets if chars.literal is None]
        self.known: dict[str, object] = {}

    def classify(self, text: str) -> tuple[object, ...]:
        return tuple(self.known.get(char) or self._classify_char(char) for char in text)

    def _classify_char(self, char: str) -> object:
        sets = tuple(chars.contains(char) for chars in self.wide)
        self.known[char] = known = (char if char in self.literals or char == "/" else "", sets)
        return known


@lru_cache(maxsize=256)
def _compose(char: str) -> tuple[str, ...]:
    if not (char.isalpha() and char.isascii()):
        return ()
    marks = (sorted(_MARKS, key="\u0301".__ne__), (a + b for a, b in combinations(_MARKS, 2)))
    composed = ((c for m in each if len(c := unicodedata.normalize("NFC", char + m)) == 1) for each in marks)
    return tuple(c for each in composed if (c := next(each, "")))


def _list_bounds(sets: _Sets) -> Iterator[str]:
    return (bound for chars in sets for pair in chars.ranges for bound in pair)


def _list_representatives(sets: _Sets, *, fold: bool) -> list[str]:
    literals = {chars.literal for chars in sets if chars.literal is not None}
    wide = [chars for chars in sets if chars.literal is None]
    bounds = {(low, high) for chars in wide for low, high in chars.ranges if low <= high}
    edges = {1, ord("/"), ord("/") + 1, *(ord(low) for low, _ in bounds), *(ord(high) + 1 for _, high in bounds)}
    if fold:  # cut so that each class has one class of the other case
        literals |= {case for char in literals for case in _list_cases(char)}
        edges |= {
            ord(case) + n for edge in edges if 1 < edge < 0x80 for n in (0, 1) for case in _list_cases(chr(edge - n))
        }
        edges |= {ord("A"), ord("Z") + 1, ord("a"), ord("z") + 1}
    starts = sorted(edge for edge in edges if 0 < edge < 0x110000)
    order = {char: at for at, char in enumerate(_READABLE_CHARS)}
    classes: dict[object, list[str]] = {}
    for low, after in zip(starts, [*starts[1:], 0x110000], strict=True):
        char = _choose_char(low, after - 1, literals)
        if char is not None:
            alike = char if fold else tuple(chars.contains(char) for chars in wide)
            classes.setdefault(alike, []).append(char)

    def rank(char: str) -> tuple[int, str]:
        return order.get(char, len(order)), char

    others = (min(alike, key=rank) for alike in classes.values())
    return [*sorted(others, key=rank), *sorted(literals - {"\0"}, key=rank)]


def _list_cases(char: str) -> tuple[str, ...]:
    return tuple(c for c in dict.fromkeys((char, char.lower(), char.upper(), fold_case(char))) if len(c) == 1)


def _choose_char(low: int, high: int, taken: Iterable[str]) -> str | None:
    inside = (char for char in _READABLE_CHARS if low <= ord(char) <= high and char not in taken)
    later = (chr(code) for code in range(low, min(high, low + 4096) + 1) if chr(code) not in taken)
    return next(inside, None) or next(later, None)


# --- the search -------------------------------------------------------------------------------------------


_Ways: TypeAlias = dict[int, int]
"""The letters, one bit each, by the state that they lead to."""


class _Side:
    """One automaton during a search, determinised as far as the search goes."""

    def __init__(self, automaton: _Automaton, lines: Iterable[_Line], texts: Sequence[tuple[str, str]]) -> None:
        self.automaton = automaton
        exact, folded = _join_sets(lines)
        self.exact = {chars: _mark_letters(chars, [text for text, _ in texts]) for chars in exact}
        self.folded = {chars: _mark_letters(chars, [low for _, low in texts]) for chars in folded}
        self.long = [(n, *both) for n, both in enumerate(texts) if max(map(len, both)) > 1]
        self.short = (1 << len(texts)) - 1 - sum(1 << n for n, _, _ in self.long)
        self.known: dict[int, _Ways] = {}
        used = dict.fromkeys(char for _, text, low in self.long for char in text + low)
        self.accepted = {
            chars: [char for char in used if chars.contains(char)] for chars in (exact | folded if used else ())
        }
        self.read: dict[int, dict[str, int]] = {}

    def expand(self, state: int) -> _Ways:
        if (known := self.known.get(state)) is not None:
            return known
        if len(self.known) > MAX_KNOWN_STATES:
            self.known.clear()
        groups = [(0, self.short)]
        folded = state & self.automaton.folded
        for letters, part in ((self.exact, state ^ folded), (self.folded, folded)):
            for place in _list_bits(part) if part else ():
                for chars, target in self.automaton.moves[place]:
                    if mask := letters[chars]:
                        inside = [(after | target, both) for after, group in groups if (both := group & mask)]
                        groups = inside + [(after, rest) for after, group in groups if (rest := group & ~mask)]
        for letter, text, low in self.long:
            groups.append((self._read_text(state ^ folded, text) | self._read_text(folded, low), 1 << letter))
        self.known[state] = ways = _Ways()
        for after, group in groups:
            if after & self.automaton.included:  # a state without a place of an inclusion never accepts
                ways[after] = ways.get(after, 0) | group
        return ways

    def _read_text(self, state: int, text: str) -> int:
        for char in text:
            if not state:
                return 0
            state = self._read_chars(state).get(char, 0)
        return state

    def _read_chars(self, state: int) -> dict[str, int]:
        reached = self.read.get(state)
        if reached is None:
            reached = self.read[state] = {}
            for place in _list_bits(state):
                for chars, target in self.automaton.moves[place]:
                    for char in self.accepted[chars]:
                        reached[char] = reached.get(char, 0) | target
        return reached


def _mark_letters(chars: CharSet, texts: Sequence[str]) -> int:
    if (literal := chars.literal) is not None:
        return sum(1 << n for n, text in enumerate(texts) if text == literal)
    return sum(1 << n for n, text in enumerate(texts) if len(text) == 1 and chars.contains(text))


def _list_bits(state: int) -> Iterator[int]:
    while state:
        lowest = state & -state
        yield lowest.bit_length() - 1
        state ^= lowest


class _PathRules:
    """An automaton of the paths that may lie in a scope. A state is the part being read while a reserved name is
    possible, otherwise None.
    """

    def __init__(self, letters: Sequence[_Letter], reserved: Iterable[str]) -> None:
        self.letters, self.reserved = letters, frozenset(reserved)
        self.prefixes = {name[:length] for name in self.reserved for length in range(len(name) + 1)}
        self.known: dict[str | None, dict[str | None, int]] = {}

    def expand(self, name: str | None) -> dict[str | None, int]:
        if name not in self.known:
            ways = self.known[name] = dict[str | None, int]()
            for n, letter in enumerate(self.letters):
                if letter.folded != "/":
                    after = None if name is None else name + letter.folded
                    after = after if after in self.prefixes else None
                    ways[after] = ways.get(after, 0) | 1 << n
                elif name not in self.reserved:
                    ways[""] = 1 << n
        return self.known[name]


@lru_cache(maxsize=1024)
def _compile_side(patterns: tuple[str, ...]) -> _Side:
    automaton = _compile_scope(patterns, fold=False)
    return _Side(automaton, automaton.lines, [(letter.first, letter.folded) for letter in _PLAIN_LETTERS])


@lru_cache(maxsize=1)
def _make_plain_rules() -> _PathRules:
    return _PathRules(_PLAIN_LETTERS, ("",))


_State: TypeAlias = tuple[tuple[int, ...], str | None]
"""The places of each automaton, and the state of the path's rules."""


class _Walk:
    """A breadth-first search through the states of several automata and of the rules for paths."""

    def __init__(self, sides: Sequence[_Side], starts: tuple[int, ...], rules: _PathRules, steps: int) -> None:
        self.sides, self.starts, self.rules, self.steps = sides, starts, rules, steps
        self.came: dict[_State, tuple[_State, int]] = {}

    def find_shared_path(self) -> tuple[str, str] | None:
        """Return a shortest common path in each side's spelling; None without a common path, or if `steps` fell below
        0.
        """
        queue = deque[_State]([(self.starts, "")])
        seen = set[_State](queue)
        while queue:
            at = queue.popleft()
            ways = self._list_ways(at)
            self.steps -= len(ways)
            for state in at[0]:
                self.steps -= state.bit_count()
            if self.steps < 0:
                return None
            for letter, after in ways:
                if after in seen:
                    continue
                seen.add(after)
                self.came[after] = (at, letter)
                if self._accepts(after):
                    return self._spell(after)
                queue.append(after)
        return None

    def _list_ways(self, at: _State) -> list[tuple[int, _State]]:
        states, name = at
        ways = [((after,), letters) for after, letters in self.sides[0].expand(states[0]).items()]
        for side, state in zip(self.sides[1:], states[1:], strict=True):
            own = side.expand(state).items()
            ways = [((*before, after), w) for before, letters in ways for after, mask in own if (w := letters & mask)]
        names = self.rules.expand(name).items()
        ends = [(w & -w, (after, name)) for after, letters in ways for name, mask in names if (w := letters & mask)]
        return sorted(ends, key=itemgetter(0))

    def _accepts(self, at: _State) -> bool:
        states, name = at
        is_path = name not in self.rules.reserved
        return is_path and all(side.automaton.accepts(at) for side, at in zip(self.sides, states, strict=True))

    def _spell(self, at: _State) -> tuple[str, str]:
        letters: list[_Letter] = []
        while at in self.came:
            at, letter = self.came[at]
            letters.append(self.rules.letters[letter.bit_length() - 1])
        return "".join(letter.first for letter in letters[::-1]), "".join(letter.second for letter in letters[::-1])
